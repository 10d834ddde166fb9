//! Element types as Python knows them: the names of `numpy`, the format characters of the buffer protocol, and the
//! element types of tensors that such elements are.

use std::ffi::CStr;

use vireo::hal::ElementType;

/// A type of elements.
#[derive(Debug)]
pub struct Dtype {
    /// Its name in `numpy`, or in `ml_dtypes`, which adds some.
    pub name: &'static str,
    /// The element type of tensors of which nothing else is known.
    pub element_type: ElementType,
    /// The other element types that it stands for: those without a sign, for a type that has one.
    also: &'static [ElementType],
    /// Its format in buffers; none for types that the buffer protocol does not have.
    pub format: Option<&'static CStr>,
    /// Bytes of an element.
    pub size: usize,
}

impl Dtype {
    /// `declared`, if elements of this type are that; else the element type for messages.
    pub fn as_declared(&self, declared: Option<ElementType>) -> ElementType {
        declared.filter(|declared| self.also.contains(declared)).unwrap_or(self.element_type)
    }

    /// The type of the elements of a tensor; none for types that Python has no elements of, such as those of four bits.
    pub fn of(element_type: ElementType) -> Option<&'static Dtype> {
        let is = |dtype: &&Dtype| dtype.element_type == element_type;
        DTYPES.iter().find(is).or_else(|| DTYPES.iter().find(|dtype| dtype.also.contains(&element_type)))
    }

    /// The type with this name.
    pub fn named(name: &str) -> Option<&'static Dtype> {
        DTYPES.iter().find(|dtype| dtype.name == name)
    }

    /// The type of elements of `size` bytes that the buffer protocol writes as `format`.
    ///
    /// # Errors
    /// A description of elements that tensors do not have.
    pub fn of_format(format: &[u8], size: usize) -> Result<&'static Dtype, String> {
        let shown = || String::from_utf8_lossy(format).into_owned();
        let (order, code) = match format {
            [order @ (b'@' | b'=' | b'<' | b'>' | b'!' | b'^'), rest @ ..] => (*order, rest),
            code => (b'@', code),
        };
        let class = match code {
            b"?" => Class::Bool,
            b"b" | b"h" | b"i" | b"l" | b"q" | b"n" => Class::Signed,
            b"B" | b"H" | b"I" | b"L" | b"Q" | b"N" => Class::Unsigned,
            b"e" | b"f" | b"d" => Class::Float,
            b"Zf" | b"Zd" => Class::Complex,
            b"O" => return Err("an array of objects".into()),
            _ if format.contains(&b'{') => return Err("a structured array".into()),
            _ => return Err(format!("an array of elements of format `{}`", shown())),
        };
        if matches!(order, b'>' | b'!') && size > 1 {
            return Err(format!("a big-endian array (format `{}`): convert it with `.astype`", shown()));
        }
        let found =
            DTYPES.iter().find(|dtype| dtype.format.is_some() && (class_of(dtype), dtype.size) == (class, size));
        found.ok_or_else(|| format!("an array of elements of format `{}` and {size} bytes", shown()))
    }
}

/// Classes of elements that the buffer protocol tells apart, beside their sizes.
#[derive(Clone, Copy, PartialEq)]
enum Class {
    Bool,
    Signed,
    Unsigned,
    Float,
    Complex,
}

fn class_of(dtype: &Dtype) -> Class {
    match dtype.name.as_bytes()[0] {
        b'b' => Class::Bool,
        b'i' => Class::Signed,
        b'u' => Class::Unsigned,
        b'f' => Class::Float,
        _ => Class::Complex,
    }
}

/// The format of 64-bit integers: `numpy` takes `q` for another type than `int64` where `l` has as many bits.
const INT_64: &CStr = if cfg!(all(unix, target_pointer_width = "64")) { c"l" } else { c"q" };
const UINT_64: &CStr = if cfg!(all(unix, target_pointer_width = "64")) { c"L" } else { c"Q" };

const DTYPES: [Dtype; 20] = {
    use ElementType as T;
    const fn dtype(
        name: &'static str,
        format: Option<&'static CStr>,
        size: usize,
        element_type: T,
        also: &'static [T],
    ) -> Dtype {
        Dtype { name, element_type, also, format, size }
    }
    [
        dtype("bool", Some(c"?"), 1, T::BOOL_8, &[]),
        dtype("int8", Some(c"b"), 1, T::INT_8, &[T::SINT_8]),
        dtype("int16", Some(c"h"), 2, T::INT_16, &[T::SINT_16]),
        dtype("int32", Some(c"i"), 4, T::INT_32, &[T::SINT_32]),
        dtype("int64", Some(INT_64), 8, T::INT_64, &[T::SINT_64]),
        dtype("uint8", Some(c"B"), 1, T::UINT_8, &[T::INT_8, T::OPAQUE_8]),
        dtype("uint16", Some(c"H"), 2, T::UINT_16, &[T::INT_16]),
        dtype("uint32", Some(c"I"), 4, T::UINT_32, &[T::INT_32]),
        dtype("uint64", Some(UINT_64), 8, T::UINT_64, &[T::INT_64]),
        dtype("float16", Some(c"e"), 2, T::FLOAT_16, &[]),
        dtype("float32", Some(c"f"), 4, T::FLOAT_32, &[]),
        dtype("float64", Some(c"d"), 8, T::FLOAT_64, &[]),
        dtype("complex64", Some(c"Zf"), 8, T::COMPLEX_FLOAT_64, &[]),
        dtype("complex128", Some(c"Zd"), 16, T::COMPLEX_FLOAT_128, &[]),
        dtype("bfloat16", None, 2, T::BFLOAT_16, &[]),
        dtype("float8_e5m2", None, 1, T::FLOAT_8_E5M2, &[]),
        dtype("float8_e4m3fn", None, 1, T::FLOAT_8_E4M3_FN, &[]),
        dtype("float8_e5m2fnuz", None, 1, T::FLOAT_8_E5M2_FNUZ, &[]),
        dtype("float8_e4m3fnuz", None, 1, T::FLOAT_8_E4M3_FNUZ, &[]),
        dtype("float8_e8m0fnu", None, 1, T::FLOAT_8_E8M0_FNU, &[]),
    ]
};
