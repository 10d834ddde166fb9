//! Elements of tensors: parses them from text.

use vireo_hal::{ElementType, narrow_float};

use super::number::{self, NumberError};

/// Appends the bytes of the element that is written as `text`. The type must have a byte size.
///
/// # Errors
/// If the text is no element of the type: another kind of number, or one out of range.
pub fn parse_element(element: ElementType, text: &str, out: &mut Vec<u8>) -> Result<(), NumberError> {
    let size = element.byte_size().unwrap_or(0);
    // Integers of other widths are written as the bytes that they are, as the reference tools have it.
    if let (1 | 2 | 4 | 8, Some((low, high))) = (size, element.integer_range()) {
        out.extend_from_slice(&number::parse_integer(text, low, high)?.to_le_bytes()[..size]);
        return Ok(());
    }
    if let Some(format) = element.narrow_float() {
        out.extend_from_slice(&format.narrow(number::parse_f32(text)?).to_le_bytes()[..size]);
        return Ok(());
    }
    match element {
        ElementType::FLOAT_32 => out.extend_from_slice(&number::parse_f32(text)?.to_le_bytes()),
        ElementType::FLOAT_64 => out.extend_from_slice(&number::parse_f64(text)?.to_le_bytes()),
        ElementType::FLOAT_8_E8M0_FNU => out.push(narrow_float::narrow_e8m0(number::parse_f32(text)?)),
        // As many characters as the bytes need are the hexadecimal form, which is the printed one.
        ElementType::COMPLEX_FLOAT_64 if text.len() != 2 * size => {
            let (re, im) = number::parse_complex(text, number::parse_f32)?;
            out.extend([re, im].iter().flat_map(|part| part.to_le_bytes()));
        }
        ElementType::COMPLEX_FLOAT_128 if text.len() != 2 * size => {
            let (re, im) = number::parse_complex(text, number::parse_f64)?;
            out.extend([re, im].iter().flat_map(|part| part.to_le_bytes()));
        }
        ElementType::BOOL_8 if text.len() != 2 => out.push(match text {
            "0" | "false" => 0,
            "1" | "true" => 1,
            _ => return Err(NumberError::NotABoolean),
        }),
        _ => parse_bytes(text, size, out)?,
    }
    Ok(())
}

/// The bits of the element that is written as `text`, of a type whose elements are packed into parts of bytes.
pub fn parse_packed(element: ElementType, text: &str) -> Result<u64, NumberError> {
    match element.integer_range() {
        Some((low, high)) => Ok(number::parse_integer(text, low, high)? as u64),
        None => {
            let bits = element.bit_count();
            let value = u64::from_str_radix(text, 16).ok().filter(|value| bits < 64 && *value >> bits == 0);
            value.ok_or(NumberError::NotHexadecimal { digits: bits.div_ceil(4) as usize })
        }
    }
}

fn parse_bytes(text: &str, size: usize, out: &mut Vec<u8>) -> Result<(), NumberError> {
    let digits = 2 * size;
    let error = NumberError::NotHexadecimal { digits };
    if text.len() != digits {
        return Err(error);
    }
    for pair in text.as_bytes().chunks_exact(2) {
        let digit = |c: u8| char::from(c).to_digit(16).ok_or_else(|| error.clone());
        out.push((digit(pair[0])? << 4 | digit(pair[1])?) as u8);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tensor::HostTensor;

    fn round_trip(name: &str, texts: &str) -> String {
        let element = ElementType::parse(name).unwrap();
        assert_eq!(element.to_string(), name);
        let mut bytes = Vec::new();
        texts.split(' ').for_each(|text| parse_element(element, text, &mut bytes).unwrap());
        let shape = [(bytes.len() / element.byte_size().unwrap()) as u64];
        let text = HostTensor::from_bytes(&shape, element, bytes).unwrap().to_text(usize::MAX).unwrap();
        text.split_once('=').unwrap().1.to_string()
    }

    #[test]
    fn every_type_is_read_and_written() {
        assert_eq!(round_trip("i1", "0 1 true false 00 01 ff"), "00 01 01 00 00 01 FF");
        assert_eq!(round_trip("i8", "-1 255 0x10 010 128 -128"), "-1 -1 16 8 -128 -128");
        assert_eq!(round_trip("si8", "-128 127"), "-128 127");
        assert_eq!(round_trip("ui8", "0 255"), "0 255");
        assert_eq!(round_trip("i16", "65535 -32768"), "-1 -32768");
        assert_eq!(round_trip("ui16", "65535"), "65535");
        assert_eq!(round_trip("i32", "4294967295 -5 2147483647"), "-1 -5 2147483647");
        assert_eq!(round_trip("ui32", "4294967295"), "4294967295");
        let extremes = "-9223372036854775808 9223372036854775807";
        assert_eq!(round_trip("i64", extremes), extremes);
        assert_eq!(round_trip("ui64", "18446744073709551615"), "18446744073709551615");
        assert_eq!(round_trip("f16", "1.5 65504 70000 1e-8"), "1.5 65504 INF 0");
        assert_eq!(round_trip("bf16", "1.1 3"), "1.10156 3");
        assert_eq!(round_trip("f32", "1e10 1e-10 nan -nan"), "1E+10 1E-10 NAN -NAN");
        assert_eq!(round_trip("f64", "1.23456789012 inf"), "1.23457 INF");
        assert_eq!(round_trip("cf64", "0000803F00000040"), "0000803F00000040");
        assert_eq!(round_trip("cf64", "1+2i -0.5i 3"), "0000803F00000040 00000000000000BF 0000404000000000");
        assert_eq!(round_trip("cf128", &"0f".repeat(16)), "0F".repeat(16));
        assert_eq!(round_trip("cf128", "1-2i"), "000000000000F03F00000000000000C0");
        assert_eq!(round_trip("f8E5M2", "1.5 2"), "1.5 2");
        assert_eq!(round_trip("f8E4M3FN", "1.7 400"), "1.75 384");
        assert_eq!(round_trip("f8E5M2FNUZ", "1.5 -0"), "1.5 0");
        assert_eq!(round_trip("f8E4M3FNUZ", "3 inf"), "3 NAN");
        assert_eq!(round_trip("f8E8M0FNU", "2 3"), "2 4");
        assert_eq!(round_trip("i24", "010203"), "010203");
        assert_eq!(round_trip("*16", "beef"), "BEEF");
    }

    #[test]
    fn packed_types_have_no_byte_size() {
        for name in ["i4", "ui2", "f4", "i0", "*0"] {
            assert_eq!(ElementType::parse(name).unwrap().byte_size(), None, "{name}");
        }
    }

    #[test]
    fn packed_elements_are_numbers() {
        for (name, text, bits) in
            [("i4", "-8", 8), ("i4", "15", 15), ("ui2", "3", 3), ("si3", "-1", 7), ("*4", "f", 15)]
        {
            let element = ElementType::parse(name).unwrap();
            let mask = (1 << element.bit_count()) - 1;
            assert_eq!(parse_packed(element, text).map(|value| value & mask), Ok(bits), "{name} {text}");
        }
        for (name, text) in
            [("i4", "16"), ("i4", "-9"), ("ui4", "-1"), ("si4", "8"), ("*4", "10"), ("f4", "x"), ("i4", "")]
        {
            assert!(parse_packed(ElementType::parse(name).unwrap(), text).is_err(), "{name} {text}");
        }
    }

    #[test]
    fn wrong_elements_are_refused() {
        let integers = [("i8", "256"), ("i8", "-129"), ("si8", "128"), ("ui8", "-1"), ("i32", "1.5")];
        let others = [("i1", "2"), ("cf64", "1+"), ("i24", "01020g")];
        for (name, text) in integers.into_iter().chain(others) {
            let element = ElementType::parse(name).unwrap();
            assert!(parse_element(element, text, &mut Vec::new()).is_err(), "{name} {text}");
        }
    }
}
