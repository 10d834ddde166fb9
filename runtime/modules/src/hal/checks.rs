//! Assertions of programs about their arguments: that a tensor has the expected type and shape, that a buffer is large
//! enough and allows the intended usage. Messages begin with the program's name for the argument, as those of the
//! reference runtime do.

use std::fmt::Write as _;

use crate::status::StatusCode;
use crate::vm::Buffer as VmBuffer;
use crate::{Result, Status};
use vireo_hal::{Buffer, BufferUsage, BufferView, ElementType, EncodingType, MemoryType, NumericalType};

/// Fails unless the buffer is long enough and has at least these memory types and this usage.
pub fn check_buffer(
    buffer: &dyn Buffer,
    subject: &VmBuffer,
    minimum_length: u64,
    memory_types: MemoryType,
    usage: BufferUsage,
) -> Result<()> {
    let length = buffer.byte_length();
    if length < minimum_length {
        let problem = format!("buffer byte length {length} less than expected minimum {minimum_length}");
        return Err(refusal(StatusCode::InvalidArgument, subject, &problem));
    }
    let actual = buffer.memory_type();
    if !actual.contains(memory_types) {
        let problem =
            format!("buffer memory type is not compatible; buffer has {actual:?}, operation requires {memory_types:?}");
        return Err(refusal(StatusCode::PermissionDenied, subject, &problem));
    }
    let actual = buffer.allowed_usage();
    if !actual.contains(usage) {
        let problem = format!(
            "requested usage was not specified when the buffer was allocated; buffer allows {actual:?}, operation requires {usage:?}"
        );
        return Err(refusal(StatusCode::PermissionDenied, subject, &problem));
    }
    Ok(())
}

/// Fails unless the view has the element type, the encoding and the shape.
///
/// Opaque encodings and element types match anything, and integers of one width match whatever their signedness, so
/// that a host may pass data whose type it does not know.
pub fn check_view(
    view: &BufferView,
    subject: &VmBuffer,
    element_type: ElementType,
    encoding: EncodingType,
    shape: &[u64],
) -> Result<()> {
    let actual = view.encoding();
    if actual != EncodingType::OPAQUE && actual != encoding {
        let problem = format!("encoding mismatch; expected {:08X} but have {:08X}", encoding.0, actual.0);
        return Err(refusal(StatusCode::InvalidArgument, subject, &problem));
    }
    let actual = view.element_type();
    if !is_compatible(actual, element_type) {
        let problem = format!(
            "element type mismatch; expected {element_type} ({:08X}) but have {actual} ({:08X})",
            element_type.0, actual.0
        );
        return Err(refusal(StatusCode::InvalidArgument, subject, &problem));
    }
    let actual = view.shape();
    let problem = if actual.len() != shape.len() {
        format!("shape rank mismatch; expected {} but have {}", rank(shape), rank(actual))
    } else if let Some(index) = (0..shape.len()).find(|&index| shape[index] != actual[index]) {
        let (expected, actual) = (shape[index], actual[index]);
        format!("shape dimension {index} mismatch; expected {expected} but have {actual}")
    } else {
        return Ok(());
    };
    let problem =
        format!("{problem}; expected shape `{}`, actual shape `{}`", format_shape(shape), format_shape(actual));
    Err(refusal(StatusCode::InvalidArgument, subject, &problem))
}

fn refusal(code: StatusCode, subject: &VmBuffer, problem: &str) -> Status {
    Status::new(code, format!("{} {problem}", String::from_utf8_lossy(&subject.to_vec())))
}

fn is_compatible(actual: ElementType, expected: ElementType) -> bool {
    let is_integer = |ty: ElementType| ty.numerical().0 & NumericalType::INTEGER.0 != 0;
    actual == expected
        || actual.numerical() == NumericalType::UNKNOWN
        || (is_integer(actual) && is_integer(expected) && actual.bit_count() == expected.bit_count())
}

fn rank(shape: &[u64]) -> String {
    let note = if shape.is_empty() { " (scalar)" } else { "" };
    format!("{}{note}", shape.len())
}

fn format_shape(shape: &[u64]) -> String {
    let mut text = String::new();
    for (index, dim) in shape.iter().enumerate() {
        // Writing to a string does not fail.
        let _ = write!(text, "{}{dim}", if index == 0 { "" } else { "x" });
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_match_by_width_and_opaque_matches_anything() {
        assert!(is_compatible(ElementType::SINT_32, ElementType::INT_32));
        assert!(is_compatible(ElementType::BOOL_8, ElementType::INT_8));
        assert!(is_compatible(ElementType::OPAQUE_8, ElementType::FLOAT_64));
        assert!(!is_compatible(ElementType::INT_64, ElementType::INT_32));
        assert!(!is_compatible(ElementType::INT_32, ElementType::FLOAT_32));
        assert!(!is_compatible(ElementType::INT_32, ElementType::OPAQUE_32));
        assert!(!is_compatible(ElementType::BFLOAT_16, ElementType::FLOAT_16));
    }

    #[test]
    fn shapes_are_written_as_users_write_them() {
        assert_eq!(format_shape(&[2, 0, 3]), "2x0x3");
        assert_eq!(format_shape(&[]), "");
        assert_eq!(rank(&[]), "0 (scalar)");
        assert_eq!(rank(&[4]), "1");
    }
}
