//! NumPy's `.npy` format: a header that is a Python dictionary, then the elements. Files may hold several arrays one after another.
//!
//! The header is attacker-controlled text, so it is read by a strict reader of exactly the three keys that NumPy writes, with bounds
//! on its length, rather than by a parser of Python literals. What is written equals what NumPy writes, byte for byte.

use std::io::{self, Read, Write};

use vireo::hal::{ElementType, NumericalType};

use super::Tensor;
use super::element::byte_size;

const MAGIC: &[u8; 6] = b"\x93NUMPY";
/// Longest header that is read. NumPy itself refuses more than 10,000 bytes by default.
const MAX_HEADER: usize = 1 << 16;
/// Header and padding end at a multiple of this.
const ALIGNMENT: usize = 64;

/// What is wrong with an array.
#[derive(Debug, thiserror::Error)]
pub enum NpyError {
    /// The file could not be read, or ends inside the header.
    #[error("cannot read the header")]
    Read(#[from] io::Error),
    /// Not the magic bytes.
    #[error("not a .npy array: expected it to begin with \\x93NUMPY")]
    Magic,
    /// A malformed header.
    #[error("malformed header: expected {0}")]
    Header(&'static str),
    /// Something that the format has and we do not.
    #[error("{0} unimplemented")]
    Unsupported(String),
}

/// What the header says.
#[derive(Debug, PartialEq)]
pub struct NpyHeader {
    /// The type of the elements.
    pub element: ElementType,
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
}

/// Reads a header and leaves `reader` at the first element.
pub fn read_header(reader: &mut dyn Read) -> Result<NpyHeader, NpyError> {
    let mut prefix = [0; 8];
    reader.read_exact(&mut prefix)?;
    if prefix[..6] != *MAGIC {
        return Err(NpyError::Magic);
    }
    let length = match prefix[6] {
        1 => {
            let mut length = [0; 2];
            reader.read_exact(&mut length)?;
            usize::from(u16::from_le_bytes(length))
        }
        2 | 3 => {
            let mut length = [0; 4];
            reader.read_exact(&mut length)?;
            u32::from_le_bytes(length) as usize
        }
        major => return Err(NpyError::Unsupported(format!("format version {major}.{} is", prefix[7]))),
    };
    if length > MAX_HEADER {
        return Err(NpyError::Header("at most 65536 bytes of header"));
    }
    let mut text = vec![0; length];
    reader.read_exact(&mut text)?;
    let text = std::str::from_utf8(&text).map_err(|_| NpyError::Header("UTF-8 text"))?;
    parse_dictionary(text)
}

fn parse_dictionary(text: &str) -> Result<NpyHeader, NpyError> {
    let mut rest = text.trim().strip_prefix('{').ok_or(NpyError::Header("`{` at its beginning"))?;
    let (mut element, mut row_major, mut shape) = (None, None, None);
    loop {
        rest = rest.trim_start();
        if let Some(after) = rest.strip_prefix('}') {
            if !after.trim().is_empty() {
                return Err(NpyError::Header("nothing after `}`"));
            }
            break;
        }
        let (key, after) = take_string(rest)?;
        let value = after.trim_start().strip_prefix(':').ok_or(NpyError::Header("`:` after a key"))?.trim_start();
        rest = match key {
            "descr" => {
                if value.starts_with('[') {
                    return Err(NpyError::Unsupported("records are".into()));
                }
                let (descriptor, after) = take_string(value)?;
                element = Some(parse_descriptor(descriptor)?);
                after
            }
            "fortran_order" => {
                let fortran = value.strip_prefix("True").map(|after| (true, after));
                let (fortran, after) = fortran
                    .or_else(|| value.strip_prefix("False").map(|after| (false, after)))
                    .ok_or(NpyError::Header("True or False for 'fortran_order'"))?;
                row_major = Some(!fortran);
                after
            }
            "shape" => {
                let (dimensions, after) = parse_shape(value)?;
                shape = Some(dimensions);
                after
            }
            _ => return Err(NpyError::Header("only the keys 'descr', 'fortran_order' and 'shape'")),
        };
        rest = rest.trim_start();
        match rest.strip_prefix(',') {
            Some(after) => rest = after,
            None if rest.starts_with('}') => {}
            None => return Err(NpyError::Header("`,` or `}` after a value")),
        }
    }
    match (element, row_major, shape) {
        (Some(_), Some(false), Some(_)) => Err(NpyError::Unsupported("Fortran order is".into())),
        (Some(element), Some(true), Some(shape)) => Ok(NpyHeader { element, shape }),
        _ => Err(NpyError::Header("the keys 'descr', 'fortran_order' and 'shape'")),
    }
}

fn take_string(text: &str) -> Result<(&str, &str), NpyError> {
    let error = NpyError::Header("a quoted string");
    let Some(quote @ ('\'' | '"')) = text.chars().next() else { return Err(error) };
    text[1..].split_once(quote).ok_or(error)
}

fn parse_shape(text: &str) -> Result<(Vec<u64>, &str), NpyError> {
    let error = || NpyError::Header("a tuple of lengths for 'shape'");
    let (dimensions, after) = text.strip_prefix('(').and_then(|text| text.split_once(')')).ok_or_else(error)?;
    let mut shape = Vec::new();
    let mut dimensions = dimensions.trim();
    while !dimensions.is_empty() {
        let (dimension, more) = dimensions.split_once(',').unwrap_or((dimensions, ""));
        let dimension = dimension.trim();
        if !dimension.bytes().all(|c| c.is_ascii_digit()) {
            return Err(error());
        }
        shape.push(dimension.parse().map_err(|_| error())?);
        dimensions = more.trim();
    }
    if shape.len() > super::MAX_RANK {
        return Err(NpyError::Unsupported(format!("an array of {} dimensions is", shape.len())));
    }
    Ok((shape, after))
}

fn parse_descriptor(descriptor: &str) -> Result<ElementType, NpyError> {
    let unsupported = || NpyError::Unsupported(format!("element type '{descriptor}' is"));
    let (order, kind) = match descriptor.as_bytes() {
        [order @ (b'<' | b'>' | b'|' | b'='), rest @ ..] => (*order, rest),
        rest => (b'=', rest),
    };
    let [kind, width @ ..] = kind else { return Err(NpyError::Header("an element type for 'descr'")) };
    let width = std::str::from_utf8(width).ok().and_then(|width| width.parse::<u8>().ok()).ok_or_else(unsupported)?;
    if order == b'>' && width > 1 {
        return Err(NpyError::Unsupported(format!("big-endian element type '{descriptor}' is")));
    }
    let numerical = match kind {
        b'b' if width == 1 => NumericalType::BOOLEAN,
        b'i' => NumericalType::INTEGER_SIGNED,
        b'u' => NumericalType::INTEGER_UNSIGNED,
        b'f' => NumericalType::FLOAT_IEEE,
        b'c' => NumericalType::FLOAT_COMPLEX,
        b'V' => NumericalType::UNKNOWN,
        _ => return Err(unsupported()),
    };
    let bits = width.checked_mul(8).filter(|bits| *bits > 0).ok_or_else(unsupported)?;
    Ok(ElementType::new(numerical, bits))
}

fn descriptor(element: ElementType) -> Option<String> {
    let kind = match element.numerical() {
        NumericalType::UNKNOWN => 'V',
        NumericalType::BOOLEAN => 'b',
        NumericalType::INTEGER | NumericalType::INTEGER_SIGNED => 'i',
        NumericalType::INTEGER_UNSIGNED => 'u',
        NumericalType::FLOAT_IEEE => 'f',
        NumericalType::FLOAT_COMPLEX => 'c',
        _ => return None,
    };
    let size = byte_size(element)?;
    Some(format!("{}{kind}{size}", if size == 1 { '|' } else { '<' }))
}

/// The header and the contents of `tensor` as a `.npy` array.
pub fn encode(tensor: &Tensor) -> Result<Vec<u8>, NpyError> {
    let descriptor = descriptor(tensor.element).ok_or_else(|| {
        NpyError::Unsupported(format!(
            "an array of {} elements is (NumPy has no such type; write to a .bin file)",
            tensor.element
        ))
    })?;
    let mut shape = tensor.shape.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    if tensor.shape.len() == 1 {
        // A Python tuple of one needs the comma.
        shape.push(',');
    }
    let mut header = format!("{{'descr': '{descriptor}', 'fortran_order': False, 'shape': ({shape}), }}").into_bytes();
    // Magic, version and length take ten bytes; at most 128 dimensions keep the header far below the 65,535 bytes of version 1.
    let padded = (10 + header.len() + 1).next_multiple_of(ALIGNMENT) - 10;
    header.resize(padded - 1, b' ');
    header.push(b'\n');
    let mut out = Vec::with_capacity(10 + header.len() + tensor.bytes.len());
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&[1, 0]);
    out.extend_from_slice(&(padded as u16).to_le_bytes());
    out.write_all(&header)?;
    out.extend_from_slice(&tensor.bytes);
    Ok(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(text: &str) -> Result<NpyHeader, NpyError> {
        let mut file = b"\x93NUMPY\x01\x00".to_vec();
        file.extend_from_slice(&(text.len() as u16).to_le_bytes());
        file.extend_from_slice(text.as_bytes());
        read_header(&mut file.as_slice())
    }

    #[test]
    fn headers_are_read() {
        let read = |text| header(text).map(|h| format!("{} {:?}", h.element, h.shape)).unwrap();
        assert_eq!(read("{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3), }   \n"), "f32 [2, 3]");
        assert_eq!(read("{'shape': (5,), 'fortran_order': False, 'descr': '|b1'}"), "i1 [5]");
        assert_eq!(read("{\"descr\": \"i8\", \"fortran_order\": False, \"shape\": ()}"), "si64 []");
        assert_eq!(read("{'descr': '<c8', 'fortran_order': False, 'shape': (0, 3)}"), "cf64 [0, 3]");
        assert_eq!(read("{'descr': '|V2', 'fortran_order': False, 'shape': (1,)}"), "*16 [1]");
    }

    #[test]
    fn hostile_headers_are_refused() {
        let cases = [
            ("", "malformed"),
            ("{", "malformed"),
            ("{}", "malformed"),
            ("{'descr': '<f4', 'fortran_order': False}", "malformed"),
            ("{'descr': '>f4', 'fortran_order': False, 'shape': ()}", "big-endian"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': (2, 2)}", "Fortran"),
            ("{'descr': '<U2', 'fortran_order': False, 'shape': ()}", "'<U2'"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "'|O'"),
            ("{'descr': '<f99', 'fortran_order': False, 'shape': ()}", "'<f99'"),
            ("{'descr': '<f0', 'fortran_order': False, 'shape': ()}", "'<f0'"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "records"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "tuple"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "tuple"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ((((((((", "tuple"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} 1", "nothing after"),
        ];
        for (text, part) in cases {
            let error = header(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(matches!(read_header(&mut b"PK\x03\x04....".as_slice()), Err(NpyError::Magic)));
        assert!(matches!(read_header(&mut b"\x93NUMPY\x01\x00\xff\xff{".as_slice()), Err(NpyError::Read(_))));
        assert!(read_header(&mut b"\x93NUMPY\x03\x00\xff\xff\xff\xff{".as_slice()).is_err());
        assert!(read_header(&mut b"\x93NUMPY\x09\x00\xff\xff\xff\xff{".as_slice()).is_err());
    }

    #[test]
    fn written_as_numpy_writes() {
        let tensor =
            Tensor { element: ElementType::FLOAT_32, shape: vec![2], bytes: vec![0, 0, 128, 63, 0, 0, 128, 63] };
        let file = encode(&tensor).unwrap();
        let text = "\u{1}\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2,), }";
        assert_eq!(&file[6..6 + text.len()], text.as_bytes());
        assert_eq!(file.len(), 136);
        assert_eq!(file[127], b'\n');
        let mut reader = file.as_slice();
        assert_eq!(read_header(&mut reader).unwrap(), NpyHeader { element: ElementType::FLOAT_32, shape: vec![2] });
        assert_eq!(reader, tensor.bytes);
        let bf16 = Tensor { element: ElementType::parse("bf16").unwrap(), shape: vec![], bytes: vec![0, 0] };
        assert!(encode(&bf16).unwrap_err().to_string().contains("bf16"));
    }
}
