//! NumPy's `.npy` format, through the `npyz` crate: reads arrays as tensors of the host, and writes them. Files may
//! hold several arrays one after another.
//!
//! The header is a Python literal that an attacker may have written, so its length and its nesting are bounded before a
//! parser of such literals sees it. The elements are read and written here as the bytes they are.
//!
//! NumPy itself has no `bf16`, no eight-bit floats and no integers of less than a byte; the package `ml_dtypes` adds
//! them, by the names of which arrays are written and read here. `numpy.load` reads them where that package is
//! imported. (`numpy.save` writes them as bytes without a type, such as `<V2`.)

use std::io::{self, Read};

use npyz::{DType, NpyHeader as Header, Order, TypeChar, TypeStr, WriteOptions, WriterBuilder};
use py_literal::Value as Literal;
use vireo_core::status::{Result, Status};
use vireo_hal::{BitPacker, ElementType, ElementValue, NumericalType};

use super::read_bytes;
use crate::tensor::HostTensor;

/// Where versions 1 and 2 of the format have the length of the header.
const LENGTH_OFFSET: usize = 8;
/// Longest header that is read. NumPy itself refuses more than 10,000 bytes by default.
const MAX_HEADER: usize = 1 << 16;
/// Most dimensions of an array.
const MAX_RANK: usize = 128;
/// Deepest nesting of brackets that is read: a dictionary with a tuple in it, or a list of tuples with shapes.
const MAX_NESTING: usize = 8;

/// The names of types in `ml_dtypes`, the type of NumPy with the same width, and our names. Types without a sign of
/// their own are written as signed ones. `<f1` is what `numpy.save` writes for the only type that says that it is a
/// float.
const NAMES: [(&str, &str, ElementType); 13] = [
    ("bfloat16", "<V2", ElementType::BFLOAT_16),
    ("float8_e5m2", "|V1", ElementType::FLOAT_8_E5M2),
    ("float8_e4m3fn", "|V1", ElementType::FLOAT_8_E4M3_FN),
    ("float8_e5m2fnuz", "|V1", ElementType::FLOAT_8_E5M2_FNUZ),
    ("float8_e4m3fnuz", "|V1", ElementType::FLOAT_8_E4M3_FNUZ),
    ("float8_e8m0fnu", "|V1", ElementType::FLOAT_8_E8M0_FNU),
    ("int4", "|V1", ElementType::SINT_4),
    ("uint4", "|V1", ElementType::UINT_4),
    ("int2", "|V1", ElementType::new(NumericalType::INTEGER_SIGNED, 2)),
    ("uint2", "|V1", ElementType::new(NumericalType::INTEGER_UNSIGNED, 2)),
    ("int4", "|V1", ElementType::INT_4),
    ("int2", "|V1", ElementType::new(NumericalType::INTEGER, 2)),
    ("<f1", "|V1", ElementType::FLOAT_8_E5M2),
];

/// Reads an array; `reader` is at its end then. `max_bytes` bounds the memory of the elements, whatever the header
/// says.
///
/// # Errors
/// `INVALID_ARGUMENT` if it is no array or the file ends within it, `UNIMPLEMENTED` for arrays of other things than
/// numbers, `RESOURCE_EXHAUSTED` for one that is too large.
pub fn read_npy(reader: &mut dyn Read, max_bytes: u64) -> Result<HostTensor<'static>> {
    let header = read_header(reader)?;
    let bytes = read_bytes(reader, &header.shape, header.stored(), max_bytes)?;
    header.array(bytes)
}

/// The contents of the header.
#[derive(Debug, PartialEq)]
struct NpyHeader {
    element: ElementType,
    /// The dimensions, outermost first.
    shape: Vec<u64>,
    /// True if the elements lie column by column: the first dimension changes fastest.
    is_fortran: bool,
}

impl NpyHeader {
    /// The type of the elements as they are stored: each has a byte of its own, however narrow.
    fn stored(&self) -> ElementType {
        if self.element.is_packed() { ElementType::UINT_8 } else { self.element }
    }

    /// The array of which these are the stored bytes.
    fn array(self, mut bytes: Vec<u8>) -> Result<HostTensor<'static>> {
        if self.is_fortran && self.shape.len() > 1 {
            bytes = row_by_row(&self.shape, self.stored().byte_size().unwrap_or(1), &bytes);
        }
        if self.element.is_packed() {
            bytes = pack(self.element, &bytes);
        }
        HostTensor::from_bytes(&self.shape, self.element, bytes)
    }
}

/// An array that is malformed, with what was expected.
fn malformed(expected: &str) -> Status {
    Status::invalid_argument(format!("malformed header: expected {expected}"))
}

/// Something that the format has and this module does not.
fn unsupported(what: &str) -> Status {
    Status::unimplemented(format!("{what} unimplemented"))
}

fn unreadable(error: io::Error) -> Status {
    Status::invalid_argument("cannot read the header").with_source(error)
}

/// The elements of an array, each of `size` bytes, that lie column by column.
fn row_by_row(shape: &[u64], size: usize, columns: &[u8]) -> Vec<u8> {
    let mut rows = Vec::with_capacity(columns.len());
    let mut index = vec![0; shape.len()];
    while rows.len() < columns.len() {
        // The first dimension changes fastest in the file.
        let offset = shape.iter().zip(&index).rev().fold(0, |offset, (length, at)| offset * *length as usize + at);
        rows.extend_from_slice(columns.get(offset * size..(offset + 1) * size).unwrap_or_default());
        // The last one changes fastest here.
        for (at, length) in index.iter_mut().zip(shape).rev() {
            *at += 1;
            if (*at as u64) < *length {
                break;
            }
            *at = 0;
        }
    }
    rows
}

/// Reads a header and leaves `reader` at the first element.
fn read_header(reader: &mut dyn Read) -> Result<NpyHeader> {
    let mut file = vec![0; LENGTH_OFFSET];
    reader.read_exact(&mut file).map_err(unreadable)?;
    if !file.starts_with(b"\x93NUMPY") {
        return Err(Status::invalid_argument("not a .npy array: expected it to begin with \\x93NUMPY"));
    }
    let (major, minor) = (file[6], file[7]);
    let width = match major {
        1 => 2,
        2 | 3 => 4,
        _ => return Err(unsupported(&format!("format version {major}.{minor} is"))),
    };
    let mut length = [0; 4];
    reader.read_exact(&mut length[..width]).map_err(unreadable)?;
    file.extend_from_slice(&length[..width]);
    let length = u32::from_le_bytes(length) as usize;
    if length > MAX_HEADER {
        return Err(malformed("at most 65536 bytes of header"));
    }
    let text = file.len();
    file.resize(text + length, 0);
    reader.read_exact(&mut file[text..]).map_err(unreadable)?;
    if nesting(&file[text..]) > MAX_NESTING {
        return Err(malformed("brackets nested less deeply"));
    }
    let named = replace_name(&mut file[text..]);
    check_dimensions(&file[text..])?;
    let header = Header::from_reader(file.as_slice())
        .map_err(|error| Status::invalid_argument(format!("malformed header: {error}")).with_source(error))?;
    let DType::Plain(descriptor) = header.dtype() else {
        return Err(unsupported("records are"));
    };
    let is_fortran = header.order() == Order::Fortran;
    let shape = header.shape().to_vec();
    if shape.len() > MAX_RANK {
        return Err(unsupported(&format!("an array of {} dimensions is", shape.len())));
    }
    let element = named.map_or_else(|| element_of(&descriptor), Ok)?;
    Ok(NpyHeader { element, shape, is_fortran })
}

/// Checks the dimensions in a header: `npyz` multiplies them without a look at what becomes of it. Whatever else is
/// wrong is left to it.
fn check_dimensions(header: &[u8]) -> Result<()> {
    let literal = std::str::from_utf8(header).ok().and_then(|text| text.trim_end().parse().ok());
    let Some(Literal::Dict(entries)) = literal else { return Ok(()) };
    for (key, value) in entries {
        let (Literal::String(key), Literal::Tuple(dimensions) | Literal::List(dimensions)) = (key, value) else {
            continue;
        };
        let dimensions = dimensions.iter().filter_map(|dimension| u64::try_from(dimension.as_integer()?).ok());
        if key == "shape" && !is_countable(dimensions) {
            return Err(malformed("dimensions with a product of at most 64 bits"));
        }
    }
    Ok(())
}

/// Whether the product of some of these dimensions, in any order, fits 64 bits.
fn is_countable(dimensions: impl IntoIterator<Item = u64>) -> bool {
    dimensions.into_iter().try_fold(1_u64, |product, dimension| product.checked_mul(dimension.max(1))).is_some()
}

/// Replaces the name of a type that NumPy does not know by one of the same width that it does, and spaces. Returns the
/// type.
fn replace_name(header: &mut [u8]) -> Option<ElementType> {
    for (name, known, element) in NAMES {
        for quote in ['\'', '"'] {
            let quoted = format!("{quote}{name}{quote}").into_bytes();
            let Some(at) = header.windows(quoted.len()).position(|window| window == quoted) else { continue };
            let replacement = format!("{:<1$}", format!("{quote}{known}{quote}"), quoted.len());
            header[at..at + quoted.len()].copy_from_slice(replacement.as_bytes());
            return Some(element);
        }
    }
    None
}

/// Elements of less than a byte of an array, which has a byte for each, as tensors have them: the first in the low bits
/// of the first byte.
pub fn pack(element: ElementType, bytes: &[u8]) -> Vec<u8> {
    let mut packer = BitPacker::default();
    bytes.iter().for_each(|byte| packer.push(u64::from(*byte), element.bit_count()));
    packer.finish()
}

/// The inverse of [`pack`].
fn unpack(tensor: &HostTensor<'_>) -> Vec<u8> {
    let bits = ElementType::new(NumericalType::INTEGER_UNSIGNED, tensor.element_type().bit_count() as u8);
    let byte = |index| match bits.value_at(tensor.bytes(), index) {
        Some(ElementValue::Integer(bits)) => bits as u8,
        _ => 0,
    };
    (0..tensor.shape().iter().product::<u64>() as usize).map(byte).collect()
}

/// How deep brackets nest at most, those in strings included.
fn nesting(text: &[u8]) -> usize {
    let (mut depth, mut deepest) = (0_usize, 0);
    for byte in text {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            _ => {}
        }
        deepest = deepest.max(depth);
    }
    deepest
}

fn element_of(descriptor: &TypeStr) -> Result<ElementType> {
    let refused = || unsupported(&format!("element type '{descriptor}' is"));
    let bytes = descriptor.num_bytes().ok_or_else(refused)?;
    if descriptor.endianness() == npyz::Endianness::Big && bytes > 1 {
        return Err(unsupported(&format!("big-endian element type '{descriptor}' is")));
    }
    let numerical = match descriptor.type_char() {
        TypeChar::Bool if bytes == 1 => NumericalType::BOOLEAN,
        TypeChar::Int => NumericalType::INTEGER_SIGNED,
        TypeChar::Uint => NumericalType::INTEGER_UNSIGNED,
        TypeChar::Float => NumericalType::FLOAT_IEEE,
        TypeChar::Complex => NumericalType::FLOAT_COMPLEX,
        TypeChar::RawData => NumericalType::UNKNOWN,
        _ => return Err(refused()),
    };
    let bits = u8::try_from(bytes).ok().and_then(|bytes| bytes.checked_mul(8)).filter(|bits| *bits > 0);
    Ok(ElementType::new(numerical, bits.ok_or_else(refused)?))
}

fn descriptor(element: ElementType) -> Option<TypeStr> {
    let kind = match element.numerical() {
        NumericalType::UNKNOWN => 'V',
        NumericalType::BOOLEAN => 'b',
        NumericalType::INTEGER | NumericalType::INTEGER_SIGNED => 'i',
        NumericalType::INTEGER_UNSIGNED => 'u',
        NumericalType::FLOAT_IEEE => 'f',
        NumericalType::FLOAT_COMPLEX => 'c',
        _ => return None,
    };
    let size = element.byte_size()?;
    format!("{}{kind}{size}", if size == 1 { '|' } else { '<' }).parse().ok()
}

/// A tensor as an array: the header and the elements.
///
/// # Errors
/// `UNIMPLEMENTED` for element types that neither NumPy nor `ml_dtypes` has, `OUT_OF_RANGE` for dimensions whose
/// product needs more than 64 bits, as a tensor without elements may have.
pub fn write_npy(tensor: &HostTensor<'_>) -> Result<Vec<u8>> {
    let element = tensor.element_type();
    if !is_countable(tensor.shape().iter().copied()) {
        let dimensions = tensor.shape();
        return Err(Status::out_of_range(format!(
            "the product of the dimensions {dimensions:?} needs more than 64 bits"
        )));
    }
    if let Some((name, ..)) = NAMES.iter().find(|(.., ours)| *ours == element) {
        let mut out = named_header(name, tensor.shape());
        if element.is_packed() {
            out.extend(unpack(tensor));
        } else {
            out.extend_from_slice(tensor.bytes());
        }
        return Ok(out);
    }
    let descriptor = descriptor(element).ok_or_else(|| {
        unsupported(&format!("an array of {element} elements is (neither NumPy nor ml_dtypes has such a type)"))
    })?;
    let options = WriteOptions::new_header_only().dtype(DType::Plain(descriptor)).shape(tensor.shape());
    let header = options.writer(Vec::new()).write_header_only();
    let mut out = header.map_err(|error| Status::internal("cannot write the header").with_source(error))?;
    out.extend_from_slice(tensor.bytes());
    Ok(out)
}

/// The header of an array of a type that only has a name.
fn named_header(name: &str, shape: &[u64]) -> Vec<u8> {
    let shape = shape.iter().map(|dimension| format!("{dimension}, ")).collect::<String>();
    let mut text = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': ({shape}), }}");
    // With the magic bytes, the version and the length it is a multiple of 64, and it ends with a new line.
    let start = LENGTH_OFFSET + 2;
    let length = (start + text.len() + 1).next_multiple_of(64) - start;
    text.push_str(&" ".repeat(length - 1 - text.len()));
    text.push('\n');
    let mut header = b"\x93NUMPY\x01\x00".to_vec();
    // At most 128 dimensions of 20 digits fit 16 bits.
    header.extend_from_slice(&(length as u16).to_le_bytes());
    header.extend_from_slice(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use vireo_core::status::StatusCode;

    use super::*;

    fn header(text: &str) -> Result<NpyHeader> {
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
        assert_eq!(read("{\"descr\": \"<i8\", \"fortran_order\": False, \"shape\": ()}"), "si64 []");
        assert_eq!(read("{'descr': '<c8', 'fortran_order': False, 'shape': (0, 3)}"), "cf64 [0, 3]");
        assert_eq!(read("{'descr': '<f1', 'fortran_order': False, 'shape': (1,)}"), "f8E5M2 [1]");
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
            ("{'descr': '<U2', 'fortran_order': False, 'shape': ()}", "'<U2'"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': ()}", "'|O'"),
            ("{'descr': '<f99', 'fortran_order': False, 'shape': ()}", "'<f99'"),
            ("{'descr': '<f0', 'fortran_order': False, 'shape': ()}", "'<f0'"),
            ("{'descr': [('a', '<f4')], 'fortran_order': False, 'shape': ()}", "records"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (-1,)}", "negative"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999,)}", "larger than u64"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ((((((((", "nested"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': (4294967296, 4294967296)}", "at most 64 bits"),
            ("{'descr': '<f4', 'fortran_order': True, 'shape': [0, 0x100000000, 4294967296]}\n", "at most 64 bits"),
            ("{'descr': '<f4', 'fortran_order': False, 'shape': ()} 1", "malformed"),
        ];
        for (text, part) in cases {
            let error = header(text).unwrap_err().to_string();
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(read_header(&mut b"PK\x03\x04....".as_slice()).unwrap_err().to_string().contains("not a .npy array"));
        assert!(read_header(&mut b"\x93NUMPY\x01\x00\xff\xff{".as_slice()).is_err());
        assert!(read_header(&mut b"\x93NUMPY\x03\x00\xff\xff\xff\xff{".as_slice()).is_err());
        assert!(read_header(&mut b"\x93NUMPY\x09\x00\xff\xff\xff\xff{".as_slice()).is_err());
    }

    #[test]
    fn columns_become_rows() {
        let header = header("{'descr': '|u1', 'fortran_order': True, 'shape': (2, 3)}").unwrap();
        assert_eq!(header.array(vec![1, 4, 2, 5, 3, 6]).unwrap().bytes(), [1, 2, 3, 4, 5, 6]);
        let columns: Vec<u8> = (0..24).collect();
        let rows = row_by_row(&[2, 3, 2], 2, &columns);
        // Element [i, j, k] is at i + 2 * (j + 3 * k).
        let expected = [0, 6, 2, 8, 4, 10, 1, 7, 3, 9, 5, 11].map(|at| [2 * at, 2 * at + 1]).concat();
        assert_eq!(rows, expected);
        assert!(row_by_row(&[0, 3], 4, &[]).is_empty());
    }

    #[test]
    fn written_as_numpy_writes() {
        let tensor = HostTensor::from_slice(&[1.0f32, 1.0]);
        let file = write_npy(&tensor).unwrap();
        let text = "\u{1}\0v\0{'descr': '<f4', 'fortran_order': False, 'shape': (2, ), }";
        assert_eq!(&file[6..6 + text.len()], text.as_bytes());
        assert_eq!(file.len(), 136);
        assert_eq!(file[127], b'\n');
        let mut reader = file.as_slice();
        assert_eq!(
            read_header(&mut reader).unwrap(),
            NpyHeader { element: ElementType::FLOAT_32, shape: vec![2], is_fortran: false }
        );
        assert_eq!(reader, tensor.bytes());
        let huge = HostTensor::from_bytes(&[0, 1 << 32, 1 << 32], ElementType::UINT_8, vec![]).unwrap();
        assert_eq!(write_npy(&huge).unwrap_err().code(), StatusCode::OutOfRange);
        let opaque = HostTensor::from_bytes(&[], ElementType::parse("i12").unwrap(), vec![0, 0]).unwrap();
        assert!(write_npy(&opaque).unwrap_err().to_string().contains("i12"));
    }

    #[test]
    fn types_of_ml_dtypes_are_read_and_written_by_name() {
        for (ours, name, bytes, array) in [
            ("bf16", "bfloat16", &[0x80, 0x3F, 0, 0x40][..], &[0x80, 0x3F, 0, 0x40][..]),
            ("f8E5M2", "float8_e5m2", &[1, 2], &[1, 2]),
            ("f8E4M3FN", "float8_e4m3fn", &[1, 2], &[1, 2]),
            ("f8E5M2FNUZ", "float8_e5m2fnuz", &[1, 2], &[1, 2]),
            ("f8E4M3FNUZ", "float8_e4m3fnuz", &[1, 2], &[1, 2]),
            ("f8E8M0FNU", "float8_e8m0fnu", &[1, 2], &[1, 2]),
            ("si4", "int4", &[0xF1], &[0x01, 0x0F]),
            ("ui2", "uint2", &[0b1101], &[1, 3]),
        ] {
            let element = ElementType::parse(ours).unwrap();
            let tensor = HostTensor::from_bytes(&[2, 1], element, bytes).unwrap();
            let file = write_npy(&tensor).unwrap();
            assert!(file.len().is_multiple_of(64) || file.len() % 64 == array.len());
            let text = format!("{{'descr': '{name}', 'fortran_order': False, 'shape': (2, 1, ), }}");
            assert_eq!(&file[10..10 + text.len()], text.as_bytes());
            let mut reader = file.as_slice();
            assert_eq!(
                read_header(&mut reader).unwrap(),
                NpyHeader { element, shape: vec![2, 1], is_fortran: false },
                "{ours}"
            );
            assert_eq!(reader, array);
            assert!(!element.is_packed() || pack(element, reader) == bytes);
        }
        let i4 = HostTensor::from_bytes(&[3], ElementType::INT_4, vec![0xF1, 2]).unwrap();
        assert!(write_npy(&i4).unwrap().ends_with(&[1, 15, 2]));
        assert!(header("{'descr': 'float8_e9', 'fortran_order': False, 'shape': ()}").is_err());
        assert!(header("{'descr': 'bfloat16', 'fortran_order': True, 'shape': (2, 2)}").unwrap().is_fortran);
    }
}
