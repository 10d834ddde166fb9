//! A value of a call in host memory, independent of devices, and its printed form. `engine` converts it to and from
//! values of the VM.

use std::fmt::Write;

use vireo::Result;
use vireo::inference::HostTensor;
use vireo::number_text::general;
pub use vireo::vm::type_names::{HAL_BUFFER, HAL_BUFFER_VIEW, VM_BUFFER, VM_LIST};

/// An argument or a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Datum {
    /// The null reference.
    Null,
    /// In place of an expected value: matches any result.
    Ignored,
    /// An integer of 8 bits, which only lists hold.
    I8(i8),
    /// An integer of 16 bits, which only lists hold.
    I16(i16),
    /// An integer of 32 bits.
    I32(i32),
    /// An integer of 64 bits.
    I64(i64),
    /// A float of 32 bits.
    F32(f32),
    /// A float of 64 bits.
    F64(f64),
    /// A `hal.buffer_view`.
    View(HostTensor<'static>),
    /// A `hal.buffer` or a `vm.buffer`: bytes without a type.
    Buffer {
        /// Which of the two.
        type_name: &'static str,
        /// The contents.
        bytes: Vec<u8>,
    },
    /// A `vm.list`.
    List(Vec<Datum>),
    /// A reference to an object that has no text form.
    Object(&'static str),
}

/// Significant digits of printed floats.
pub const FLOAT_DIGITS: usize = 6;
impl Datum {
    /// Name of the type, for messages. Null is `empty`, as the reference tools have it.
    pub fn type_name(&self) -> &'static str {
        match self {
            Datum::Null => "empty",
            Datum::Ignored => "(ignored)",
            Datum::I8(_) => "i8",
            Datum::I16(_) => "i16",
            Datum::I32(_) => "i32",
            Datum::I64(_) => "i64",
            Datum::F32(_) => "f32",
            Datum::F64(_) => "f64",
            Datum::View(_) => HAL_BUFFER_VIEW,
            Datum::Buffer { type_name, .. } | Datum::Object(type_name) => type_name,
            Datum::List(_) => VM_LIST,
        }
    }

    /// The printed form, without a line end. Tensors show at most `max_elements` elements.
    pub fn to_text(&self, max_elements: usize) -> Result<String> {
        Ok(match self {
            Datum::Null | Datum::Ignored => "(null)".into(),
            Datum::I8(value) => format!("i8={value}"),
            Datum::I16(value) => format!("i16={value}"),
            Datum::I32(value) => format!("i32={value}"),
            Datum::I64(value) => format!("i64={value}"),
            Datum::F32(value) => format!("f32={}", general(f64::from(*value), FLOAT_DIGITS)),
            Datum::F64(value) => format!("f64={}", general(*value, FLOAT_DIGITS)),
            Datum::View(tensor) => format!("{HAL_BUFFER_VIEW}\n{}", tensor.to_text(max_elements)?),
            Datum::List(items) => format!("{VM_LIST}\n{}", list_text("child_list", items, max_elements)?),
            Datum::Buffer { type_name, .. } | Datum::Object(type_name) => format!("{type_name}\n(no printer)"),
        })
    }
}

/// One line `name[index]: value` for each of `items`.
pub fn list_text(name: &str, items: &[Datum], max_elements: usize) -> Result<String> {
    let mut text = String::new();
    for (index, item) in items.iter().enumerate() {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "{name}[{index}]: {}", item.to_text(max_elements)?);
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn printed_as_the_reference_tools_print() {
        let view = HostTensor::from_slice(&[1i8, -1]);
        let results = [
            Datum::I32(1),
            Datum::F32(1e20),
            Datum::F64(f64::NAN),
            Datum::Null,
            Datum::View(view),
            Datum::Buffer { type_name: VM_BUFFER, bytes: vec![1] },
            Datum::List(vec![Datum::I32(7), Datum::F32(7.5)]),
        ];
        let expected = "result[0]: i32=1\nresult[1]: f32=1e+20\nresult[2]: f64=nan\nresult[3]: (null)\n\
            result[4]: hal.buffer_view\n2xi8=1 -1\nresult[5]: vm.buffer\n(no printer)\n\
            result[6]: vm.list\nchild_list[0]: i32=7\nchild_list[1]: f32=7.5\n\n";
        assert_eq!(list_text("result", &results, 9).unwrap(), expected);
    }
}
