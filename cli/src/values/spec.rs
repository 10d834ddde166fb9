//! The parser of `--input=` and `--expected_output=`: from text, and the files it names, to values.

use vireo::hal::{ElementType, NumericalType, ShapeAndType};
use vireo::inference::text_parts::{byte_length, number, shorten, split};
use vireo::inference::{HostTensor, files};
use vireo::vm::Kind;

use super::collection::Name;
use super::datum::HAL_BUFFER;
use super::error::ValueError;
use super::streams::Streams;
use super::{Datum, Limits};

/// The flag of arguments; those of the other flags are expected results and parameters.
pub const INPUT: &str = "input";

/// A value that was refused, and which one it was.
#[derive(Debug, thiserror::Error)]
#[error("--{flag} #{} `{}`", .index + 1, shorten(.text))]
pub struct ValueAt {
    /// Name of the flag.
    pub flag: &'static str,
    /// Which occurrence, from 0.
    pub index: usize,
    /// Its value.
    pub text: String,
    /// The reason why it was refused.
    pub source: ValueError,
}

/// Reads `specs`, the values of `flag`, for a function whose arguments (or results) are of these kinds. One spec gives
/// one value, except `*file.npy`, which gives all arrays that are left in the file.
///
/// A file without a header that has more than its values is refused: its length says nothing about the type, so it may
/// be the wrong one.
pub fn parse_values(
    flag: &'static str,
    kinds: &[Kind],
    specs: &[String],
    limits: Limits,
) -> Result<Vec<Datum>, Box<ValueAt>> {
    let mut parser = Parser { flag, kinds, limits, streams: Streams::default(), values: Vec::new(), raw_file: None };
    let refused = |index: usize, source| Box::new(ValueAt { flag, index, text: specs[index].clone(), source });
    let mut last_of_file: Vec<(usize, String)> = Vec::new();
    for (index, text) in specs.iter().enumerate() {
        parser.value(text.trim()).map_err(|source| refused(index, source))?;
        if let Some(path) = parser.raw_file.take() {
            last_of_file.retain(|(_, other)| *other != path);
            last_of_file.push((index, path));
        }
    }
    for (index, path) in last_of_file {
        if let Some(left) = parser.streams.unread(&path) {
            return Err(refused(index, ValueError::Unread { path, left }));
        }
    }
    Ok(parser.values)
}

struct Parser<'a> {
    flag: &'static str,
    kinds: &'a [Kind],
    limits: Limits,
    streams: Streams,
    values: Vec<Datum>,
    /// The file without a header that the value was read from.
    raw_file: Option<String>,
}

impl Parser<'_> {
    fn value(&mut self, text: &str) -> Result<(), ValueError> {
        if text.is_empty() {
            return Err(ValueError::Empty);
        }
        let value = match text.as_bytes()[0] {
            mode @ (b'@' | b'+' | b'*') => return self.arrays(mode, &text[1..]),
            _ if text == "(null)" => null(self.next_kind()?),
            _ if text == "(ignored)" && self.flag == INPUT => return Err(ValueError::IgnoredInput),
            _ if text == "(ignored)" => {
                self.next_kind()?;
                Datum::Ignored
            }
            b'&' => {
                self.expect_reference("a buffer")?;
                Datum::Buffer { type_name: HAL_BUFFER, bytes: self.tensor(&text[1..])?.into_bytes() }
            }
            _ => match self.next_kind()? {
                Kind::Ref => Datum::View(self.tensor(text)?),
                kind => scalar(kind, text)?,
            },
        };
        self.values.push(value);
        Ok(())
    }

    fn next_kind(&self) -> Result<Kind, ValueError> {
        let expected = self.kinds.len();
        self.kinds.get(self.values.len()).copied().ok_or(ValueError::TooMany { expected })
    }

    fn expect_reference(&self, got: &'static str) -> Result<(), ValueError> {
        match self.next_kind()? {
            Kind::Ref => Ok(()),
            kind => Err(ValueError::Kind { kind, got }),
        }
    }

    fn arrays(&mut self, mode: u8, path: &str) -> Result<(), ValueError> {
        if let Some(name) = Name::parse(path) {
            return self.named(mode, name);
        }
        if !path.ends_with(".npy") {
            return Err(ValueError::UntypedFile(path.into()));
        }
        let mut first = true;
        loop {
            // Opening an open file again without a restart only looks it up.
            if mode == b'*' && self.streams.open(path, false)?.at_end()? {
                return Ok(());
            }
            self.expect_reference("an array from a file")?;
            let stream = self.streams.open(path, mode == b'@' && first)?;
            self.values.push(Datum::View(stream.read_array(self.limits)?));
            if mode != b'*' {
                return Ok(());
            }
            first = false;
        }
    }

    /// One tensor of a file with several: the one that is named, or the first, the next, or all that are left.
    fn named(&mut self, mode: u8, name: Name<'_>) -> Result<(), ValueError> {
        let mut restart = mode == b'@';
        loop {
            let file = self.streams.collection(name, restart)?;
            if mode == b'*' && name.key.is_none() && file.at_end() {
                return Ok(());
            }
            self.expect_reference("a tensor from a file")?;
            let file = self.streams.collection(name, false)?;
            self.values.push(Datum::View(file.read(name.key, self.limits)?));
            if mode != b'*' || name.key.is_some() {
                return Ok(());
            }
            restart = false;
        }
    }

    fn tensor(&mut self, text: &str) -> Result<HostTensor<'static>, ValueError> {
        let text = text.trim();
        let text = text.strip_prefix('"').unwrap_or(text);
        let text = text.strip_suffix('"').unwrap_or(text);
        let contents = text.split_once('=').map_or("", |(_, contents)| contents);
        let path = contents.strip_prefix('@').map(|path| (path, true));
        let Some((path, restart)) = path.or_else(|| contents.strip_prefix('+').map(|path| (path, false))) else {
            return Ok(HostTensor::parse(text, self.limits.max_tensor_bytes)?);
        };
        let (shape, element, _) = split(text)?;
        byte_length(&shape, element, self.limits.max_tensor_bytes)?;
        let stream = self.streams.open(path, restart)?;
        if path.ends_with(".npy") {
            return retype(stream.read_array(self.limits)?, &shape, element, path);
        }
        self.raw_file = Some(path.into());
        stream.read_elements(element, &shape, self.limits)
    }
}

fn null(kind: Kind) -> Datum {
    match kind {
        Kind::I32 => Datum::I32(0),
        Kind::I64 => Datum::I64(0),
        Kind::F32 => Datum::F32(0.0),
        Kind::F64 => Datum::F64(0.0),
        Kind::Ref => Datum::Null,
    }
}

fn scalar(kind: Kind, text: &str) -> Result<Datum, ValueError> {
    let integer = |low, high| number::parse_integer(text, low, high);
    let value = match kind {
        // Either sign is read, as for elements of type i32; the bits are what counts.
        Kind::I32 => integer(i32::MIN.into(), u32::MAX.into()).map(|value| Datum::I32(value as i32)),
        Kind::I64 => integer(i64::MIN.into(), u64::MAX.into()).map(|value| Datum::I64(value as i64)),
        Kind::F32 => number::parse_f32(text).map(Datum::F32),
        Kind::F64 => number::parse_f64(text).map(Datum::F64),
        Kind::Ref => return Err(ValueError::Kind { kind, got: "a number" }),
    };
    value.map_err(|reason| ValueError::Scalar { text: shorten(text), expected: kind.name(), reason })
}

/// An array of a file as the type that precedes it. NumPy keeps no names of types that it does not know (`bf16`,
/// eight-bit floats), so what it calls bytes may be any type of that width.
fn retype(
    array: HostTensor<'static>,
    shape: &[u64],
    element: ElementType,
    path: &str,
) -> Result<HostTensor<'static>, ValueError> {
    let found = array.element_type();
    let same_width = found.bit_count() == element.bit_count();
    let is_untyped = found.numerical() == NumericalType::UNKNOWN;
    let are_integers = found.integer_range().is_some() && element.integer_range().is_some();
    let is_packed = found == ElementType::OPAQUE_8 && element.is_packed() && element.bit_count() < 8;
    let is_type = found == element || same_width && (is_untyped || are_integers);
    if array.shape() != shape || !(is_packed || is_type) {
        let expected = ShapeAndType { shape, element_type: element }.to_string();
        return Err(ValueError::Array { path: path.into(), found: array.shape_and_type().to_string(), expected });
    }
    let bytes = if is_packed { files::pack(element, array.bytes()) } else { array.into_bytes() };
    HostTensor::from_bytes(shape, element, bytes).map_err(ValueError::Tensor)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(convention: &str, specs: &[&str]) -> Result<Vec<Datum>, String> {
        let specs = specs.iter().map(|spec| spec.to_string()).collect::<Vec<_>>();
        let limits = Limits { max_tensor_bytes: 1 << 20 };
        let kinds = convention.chars().map(|letter| Kind::from_letter(letter).unwrap()).collect::<Vec<_>>();
        parse_values("input", &kinds, &specs, limits).map_err(|error| format!("{error}: {}", error.source))
    }

    fn tensor(spec: &str) -> Result<String, String> {
        parse("r", &[spec]).map(|values| values[0].to_text(1024).unwrap().replace("hal.buffer_view\n", ""))
    }

    #[test]
    fn tensors() {
        let cases = [
            ("2x2xf32=1,2,3,4", "2x2xf32=[1 2][3 4]"),
            ("\"2xf32=1 2\"", "2xf32=1 2"),
            (" 2 x 3 xi8=1 ", "2x3xi8=[1 1 1][1 1 1]"),
            ("(null)", "(null)"),
        ];
        for (spec, text) in cases {
            assert_eq!(tensor(spec).as_deref(), Ok(text), "{spec}");
        }
    }

    #[test]
    fn wrong_tensors_are_refused_with_reasons() {
        let cases = [
            ("", "empty"),
            ("3", "not a tensor"),
            ("2xF32=1", "`F32` is not an element type"),
            ("2xi8=256,0", "from -128 to 255"),
            ("@x.bin", "no type"),
            ("@/nonexistent/x.npy", "cannot open"),
            ("2xf32=@/nonexistent/x.bin", "cannot open"),
        ];
        for (spec, reason) in cases {
            let error = tensor(spec).expect_err(spec);
            assert!(error.contains(reason), "{spec}: {error}");
        }
    }

    #[test]
    fn sizes_are_bounded_before_anything_is_allocated() {
        for spec in ["999999999999xf32", "4294967296x4294967296xi8=@/dev/zero", "2000000xf32=@/dev/zero"] {
            let error = tensor(spec).expect_err(spec);
            assert!(error.contains("more than the limit of 1048576; --max-tensor-bytes"), "{spec}: {error}");
        }
    }

    /// Words that mean something to the parser, in any order, with whatever may stand between them.
    #[test]
    fn no_text_makes_it_panic() {
        let words = [
            "x",
            "=",
            "2",
            "0",
            "99999999999999999999",
            "f32",
            "i4",
            "ui8",
            "bf16",
            "cf64",
            "f8E4M3FN",
            "i1",
            "@",
            "+",
            "*",
            "&",
            "(null)",
            "(ignored)",
            "[",
            "]",
            ",",
            " ",
            "-",
            "nan",
            "0x",
            "1e999",
            "p",
            ".npy",
            "\"",
            "é",
            "\u{0}",
            "/dev/null",
        ];
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        for _ in 0..20_000 {
            let mut text = String::new();
            for _ in 0..state % 12 {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                text.push_str(words[(state >> 16) as usize % words.len()]);
            }
            state = state.wrapping_add(0x1234_5679);
            // Whether it is a value does not matter here.
            let _ = parse("iIfFr", &[&text]);
            let _ = parse("r", &[&text]);
        }
    }

    #[test]
    fn scalars() {
        let values = parse("iIfF", &["-1", "0x10", "1e20", "nan"]).unwrap();
        assert_eq!(values[..3], [Datum::I32(-1), Datum::I64(16), Datum::F32(1e20)]);
        assert_eq!(values[3].to_text(0).unwrap(), "f64=nan");
        let values = parse("iIfFr", &["(null)", "(null)", "(null)", "(null)", "(null)"]).unwrap();
        assert_eq!(values, [Datum::I32(0), Datum::I64(0), Datum::F32(0.0), Datum::F64(0.0), Datum::Null]);
        assert!(parse("r", &["(ignored)"]).unwrap_err().contains("for expected results"));
        assert_eq!(parse("i", &["4294967295"]).unwrap(), [Datum::I32(-1)]);
        for (spec, reason) in [
            ("i32=1", "not of type i32"),
            ("1.5", "not of type i32"),
            ("&2xi8", "got a buffer"),
            ("@x.npy", "got an array from a file"),
        ] {
            let error = parse("i", &[spec]).unwrap_err();
            assert!(error.contains(reason), "{spec}: {error}");
        }
        assert_eq!(parse("i", &["1", "2"]).unwrap_err(), "--input #2 `2`: expected no more than 1 of them");
    }

    #[test]
    fn storage_is_untyped() {
        let values = parse("r", &["&2xi16=1,2"]).unwrap();
        assert_eq!(values, [Datum::Buffer { type_name: HAL_BUFFER, bytes: vec![1, 0, 2, 0] }]);
    }

    #[test]
    fn files_continue_where_they_were_left() {
        let folder = tempfile::tempdir().unwrap();
        let raw = folder.path().join("raw.bin");
        std::fs::write(&raw, (0..8_u8).collect::<Vec<_>>()).unwrap();
        let raw = raw.display();
        let text = |specs: &[String]| {
            let specs = specs.iter().map(String::as_str).collect::<Vec<_>>();
            parse("rr", &specs)
                .map(|values| values.iter().map(|v| v.to_text(99).unwrap()).collect::<Vec<_>>().join(" "))
        };
        let both = text(&[format!("2x2xi8=@{raw}"), format!("4xi8=+{raw}")]).unwrap();
        assert_eq!(both.replace("hal.buffer_view\n", ""), "2x2xi8=[0 1][2 3] 4xi8=4 5 6 7");
        let error = text(&[format!("2x2xi8=@{raw}"), format!("8xi8=+{raw}")]).unwrap_err();
        assert!(error.contains("ends at byte 8 after 4 of 8 bytes of 8xi8"), "{error}");
        let error = text(&[format!("2xi8=@{raw}"), format!("3xi8=+{raw}")]).unwrap_err();
        assert!(error.starts_with("--input #2 `3xi8=+") && error.contains(": 3 bytes of `"), "{error}");

        let arrays = folder.path().join("two.npy");
        let mut file = Vec::new();
        for value in [1_u8, 2] {
            file.extend(files::write_npy(&HostTensor::from_slice(&[value as i8])).unwrap());
        }
        std::fs::write(&arrays, file).unwrap();
        let arrays = arrays.display();
        for specs in [vec![format!("@{arrays}"), format!("+{arrays}")], vec![format!("*{arrays}")]] {
            let both = text(&specs).unwrap();
            assert_eq!(both.replace("hal.buffer_view\n", ""), "1xsi8=1 1xsi8=2");
        }
        // A type before an array is checked, and names element types that NumPy lacks.
        assert!(text(&[format!("1xi8=@{arrays}")]).unwrap().contains("1xi8=1"));
        let error = text(&[format!("2xi8=@{arrays}")]).unwrap_err();
        assert!(error.contains("is 1xsi8; expected 2xi8"), "{error}");
        assert!(text(&[format!("1xi16=@{arrays}")]).is_err() && text(&[format!("1xf8E5M2=@{arrays}")]).is_err());
        let error = parse("rrr", &[&format!("*{arrays}"), &format!("+{arrays}")]).unwrap_err();
        assert!(error.contains("array at byte 258"), "{error}");
    }
}
