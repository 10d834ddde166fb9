//! Tensors read from text, `2x2xf32=1,2,3,4`: the shape and the element type, and the elements.

use thiserror::Error;
use vireo_core::status::Status;
use vireo_hal::{BitPacker, ElementType, ShapeAndType};

use super::element::{parse_element, parse_packed};
use super::number::{NumberError, parse_integer};
use crate::tensor::HostTensor;

/// Most dimensions of a tensor that is read.
const MAX_RANK: usize = 128;

/// Why a text is not a tensor.
#[derive(Clone, Debug, Error, PartialEq)]
pub enum TensorTextError {
    /// Neither a shape nor `=`.
    #[error(
        "`{0}` is not a tensor; expected at least a shape and a type, like `4x2xf32=...`, or `f32=...` for one element"
    )]
    NotATensor(String),
    /// A wrong dimension.
    #[error("dimension {index} is `{text}`; expected a length from 0 to {}", i64::MAX)]
    Dimension {
        /// From 0, outermost first.
        index: usize,
        /// The text of the value.
        text: String,
    },
    /// Too many dimensions.
    #[error("the shape has {0} dimensions; at most {MAX_RANK} are supported")]
    Rank(usize),
    /// An unknown element type.
    #[error(
        "`{0}` is not an element type; expected one like i1, i8, ui8, i32, si64, f16, bf16, f32, f64, cf64, f8E4M3FN"
    )]
    ElementType(String),
    /// An element type without a width.
    #[error("elements of type {0} have no width")]
    NoWidth(ElementType),
    /// More bytes than allowed or representable.
    #[error("{what} needs {} bytes, more than the limit of {limit}", bytes_text(*.bytes))]
    TooLarge {
        /// The type of the tensor.
        what: String,
        /// None if the number overflows.
        bytes: Option<u64>,
        /// The limit.
        limit: u64,
    },
    /// A wrong element.
    #[error("element {index} is `{text}`, which is not of type {element}: {reason}")]
    Element {
        /// From 0.
        index: usize,
        /// The text of the value.
        text: String,
        /// The element type.
        element: ElementType,
        /// Why not.
        reason: NumberError,
    },
    /// The wrong number of elements.
    #[error(
        "{what} has {expected} elements, but {found} are given; expected all of them, or one for all, or none for zeros"
    )]
    ElementCount {
        /// The type of the tensor.
        what: String,
        /// Elements of the shape.
        expected: usize,
        /// Elements in the text.
        found: usize,
    },
}

fn bytes_text(bytes: Option<u64>) -> String {
    bytes.map_or_else(|| format!("more than {}", u64::MAX), |bytes| bytes.to_string())
}

impl From<TensorTextError> for Status {
    fn from(error: TensorTextError) -> Status {
        match error {
            TensorTextError::TooLarge { .. } => Status::resource_exhausted(error.to_string()),
            _ => Status::invalid_argument(error.to_string()),
        }
    }
}

impl HostTensor<'static> {
    /// Reads a tensor of at most `max_bytes` bytes from its text: a shape and an element type, and after `=` all
    /// elements, one for all of them, or none for zeros. Spaces, commas and brackets separate elements.
    ///
    /// ```
    /// use vireo::inference::HostTensor;
    ///
    /// let tensor = HostTensor::parse("2x2xf32=[1 2][3 4]", 1 << 20)?;
    /// assert_eq!(tensor, HostTensor::new(&[2, 2], &[1.0f32, 2.0, 3.0, 4.0])?);
    /// assert_eq!(HostTensor::parse("3xi8=7", 1 << 20)?.to_text(16)?, "3xi8=7 7 7");
    /// # Ok::<(), vireo::Status>(())
    /// ```
    ///
    /// # Errors
    /// A [`TensorTextError`] for a text that is not a tensor, or for one that needs more than `max_bytes`. No memory is
    /// taken for either.
    pub fn parse(text: &str, max_bytes: u64) -> Result<HostTensor<'static>, TensorTextError> {
        if !text.contains(['=', 'x']) {
            return Err(TensorTextError::NotATensor(shorten(text)));
        }
        let (shape, element, elements) = split(text)?;
        parse_elements(&shape, element, elements, max_bytes)
    }
}

/// Splits the text of a tensor: the shape, the element type, and what follows `=`.
///
/// # Errors
/// If the shape or the element type is none.
pub fn split(text: &str) -> Result<(Vec<u64>, ElementType, &str), TensorTextError> {
    let (type_text, elements) = text.split_once('=').unwrap_or((text, ""));
    let (shape, element) = type_text.rsplit_once('x').unwrap_or(("", type_text));
    let shape = parse_shape(shape)?;
    let element = ElementType::parse(element).map_err(|_| TensorTextError::ElementType(element.into()))?;
    Ok((shape, element, elements))
}

/// Reads `2x3`; an empty text is the shape of a scalar.
fn parse_shape(text: &str) -> Result<Vec<u64>, TensorTextError> {
    if text.is_empty() {
        return Ok(Vec::new());
    }
    let rank = text.split('x').count();
    if rank > MAX_RANK {
        return Err(TensorTextError::Rank(rank));
    }
    let dimension = |(index, text): (usize, &str)| {
        let value = parse_integer(text.trim(), 0, i64::MAX.into());
        value.map(|value| value as u64).map_err(|_| TensorTextError::Dimension { index, text: text.into() })
    };
    text.split('x').enumerate().map(dimension).collect()
}

/// Bytes of a tensor, checked against the limit before anything is allocated.
///
/// # Errors
/// If elements of the type have no width, or the tensor has more than `max_bytes`.
pub fn byte_length(shape: &[u64], element_type: ElementType, max_bytes: u64) -> Result<usize, TensorTextError> {
    if element_type.bit_count() == 0 {
        return Err(TensorTextError::NoWidth(element_type));
    }
    let product = shape.iter().try_fold(1_u64, |count, dimension| count.checked_mul(*dimension));
    let product = product.and_then(|count| element_type.packed_byte_count(count));
    let length = product.filter(|bytes| *bytes <= max_bytes).and_then(|bytes| usize::try_from(bytes).ok());
    length.ok_or_else(|| too_large(shape, element_type, product, max_bytes))
}

fn too_large(shape: &[u64], element_type: ElementType, bytes: Option<u64>, limit: u64) -> TensorTextError {
    TensorTextError::TooLarge { what: ShapeAndType { shape, element_type }.to_string(), bytes, limit }
}

fn parse_elements(
    shape: &[u64],
    element_type: ElementType,
    text: &str,
    max_bytes: u64,
) -> Result<HostTensor<'static>, TensorTextError> {
    let length = byte_length(shape, element_type, max_bytes)?;
    // The bytes are counted, so the elements are; those of a bit may be more than the address space has bytes.
    let count = usize::try_from(shape.iter().product::<u64>()).ok();
    let expected = count.ok_or_else(|| too_large(shape, element_type, Some(length as u64), max_bytes))?;
    let separator = |c: char| c.is_ascii_whitespace() || matches!(c, '\u{b}' | ',' | '[' | ']');
    let tokens = || text.split(separator).filter(|token| !token.is_empty());
    let found = tokens().count();
    if found > expected || (found > 1 && found < expected) {
        let what = ShapeAndType { shape, element_type }.to_string();
        return Err(TensorTextError::ElementCount { what, expected, found });
    }
    let mut bytes = Vec::new();
    let reserved = bytes.try_reserve_exact(length);
    reserved.map_err(|_| too_large(shape, element_type, Some(length as u64), max_bytes))?;
    let wrong = |index: usize, token: &str, reason| TensorTextError::Element {
        index,
        text: shorten(token),
        element: element_type,
        reason,
    };
    match element_type.byte_size() {
        Some(size) => {
            for (index, token) in tokens().enumerate() {
                parse_element(element_type, token, &mut bytes).map_err(|reason| wrong(index, token, reason))?;
            }
            if found == 1 {
                (1..expected).for_each(|_| bytes.extend_from_within(..size));
            }
        }
        None => {
            let mut packer = BitPacker::new(bytes);
            let repeats = if found == 1 { expected } else { 1 };
            for (index, token) in tokens().enumerate() {
                let value = parse_packed(element_type, token).map_err(|reason| wrong(index, token, reason))?;
                (0..repeats).for_each(|_| packer.push(value, element_type.bit_count()));
            }
            bytes = packer.finish();
        }
    }
    if found == 0 {
        bytes.resize(length, 0);
    }
    Ok(HostTensor::dense(shape, element_type, bytes))
}

/// The beginning of a text that may be megabytes long, for messages.
pub fn shorten(text: &str) -> String {
    const SHOWN: usize = 80;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.into(),
    }
}

#[cfg(test)]
mod tests {
    use vireo_core::status::StatusCode;

    use super::*;

    const LIMIT: u64 = 1 << 20;

    fn read(text: &str) -> Result<String, String> {
        let tensor = HostTensor::parse(text, LIMIT).map_err(|error| error.to_string())?;
        Ok(tensor.to_text(1024).unwrap())
    }

    #[test]
    fn tensors() {
        let cases = [
            ("2x2xf32=1,2,3,4", "2x2xf32=[1 2][3 4]"),
            ("2x2xf32=[1 2][3 4]", "2x2xf32=[1 2][3 4]"),
            ("2x2xf32=[[1,2],[3,4]]", "2x2xf32=[1 2][3 4]"),
            ("2x2xf32=7", "2x2xf32=[7 7][7 7]"),
            ("2x2xf32", "2x2xf32=[0 0][0 0]"),
            ("2xf32= ", "2xf32=0 0"),
            ("f32=1", "f32=1"),
            ("xf32=3", "f32=3"),
            ("0xf32=", "0xf32="),
            ("2x0x3xf32", "2x0x3xf32=[][]"),
            (" 2 x 3 xi8=1 ", "2x3xi8=[1 1 1][1 1 1]"),
            ("010xi8=1", "8xi8=1 1 1 1 1 1 1 1"),
            ("2xf32=1,,2", "2xf32=1 2"),
            ("4xi1=1,0,true,false", "4xi1=01 00 01 00"),
            ("4xi4=1,2,15,-8", "4xi4=1 2 -1 -8"),
            ("3xui2=3", "3xui2=3 3 3"),
            ("2x3xi4", "2x3xi4=[0 0 0][0 0 0]"),
            ("2xcf64=1+2i,2i", "2xcf64=0000803F00000040 0000000000000040"),
        ];
        for (spec, text) in cases {
            assert_eq!(read(spec).as_deref(), Ok(text), "{spec}");
        }
    }

    #[test]
    fn wrong_tensors_are_refused_with_reasons() {
        let cases = [
            ("f32", "not a tensor"),
            ("3", "not a tensor"),
            ("=3", "`` is not an element type"),
            ("2x=3", "`` is not an element type"),
            ("2xF32=1", "`F32` is not an element type"),
            ("2xxf32=3", "dimension 1 is ``"),
            ("2x?xf32", "dimension 1 is `?`"),
            ("-1xf32", "dimension 0 is `-1`"),
            ("3xf32=1,2", "3 elements, but 2"),
            ("2xf32=1,2,3", "2 elements, but 3"),
            ("0x10xf32=1", "0 elements, but 1"),
            ("2xf32=1,abc", "element 1 is `abc`"),
            ("2xi8=256,0", "from -128 to 255"),
            ("2xi32=1.5,2", "expected an integer"),
            ("2xi4=16,0", "from -8 to 15"),
            ("3xi4=1,2", "3 elements, but 2"),
            ("2x*0", "no width"),
            (&format!("{}f32", "1x".repeat(129)), "129 dimensions"),
        ];
        for (spec, reason) in cases {
            let error = read(spec).expect_err(spec);
            assert!(error.contains(reason), "{spec}: {error}");
        }
    }

    #[test]
    fn sizes_are_bounded_before_anything_is_allocated() {
        for spec in [
            "999999999999xf32",
            "9223372036854775807x9223372036854775807xf64=1",
            "9223372036854775807xi8",
            "4294967296x4294967296xi8=1",
            "2000000xf32=1",
        ] {
            let error = read(spec).expect_err(spec);
            assert!(error.contains("more than the limit of 1048576"), "{spec}: {error}");
        }
        assert!(read("9223372036854775807x9223372036854775807x0xf64").is_err());
    }

    #[test]
    fn errors_are_statuses() {
        let code = |text| Status::from(HostTensor::parse(text, 8).unwrap_err()).code();
        assert_eq!(code("3xf32"), StatusCode::ResourceExhausted);
        assert_eq!(code("3xF32"), StatusCode::InvalidArgument);
    }
}
