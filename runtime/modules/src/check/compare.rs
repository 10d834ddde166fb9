//! Comparison of tensors, and descriptions of where they differ, for the exports of `check`.

use std::fmt::Write as _;

use super::tensor::Tensor;
use crate::{Result, Status};
use vireo_hal::{ElementValue, format_elements};

/// Most differing elements in a message.
const SHOWN_DIFFERENCES: usize = 8;
/// Most elements of each operand in a message.
const SHOWN_ELEMENTS: usize = 128;

/// How far apart elements may be: `absolute + relative * |rhs|`.
#[derive(Clone, Copy)]
pub struct Tolerance {
    pub absolute: f32,
    pub relative: f32,
}

/// A message if an element is zero.
pub fn all_true(operand: &Tensor<'_>) -> Result<Option<String>> {
    let mut zeros = Differences::default();
    for index in 0..operand.element_count()? {
        if !operand.value(index)?.is_nonzero() {
            zeros.add(|| operand.place(index));
        }
    }
    Ok(zeros.text(operand.element_count()?, "is zero", "are zero", &[("operand", operand)]))
}

/// A message if two tensors differ in type, shape or a byte.
pub fn equal(lhs: &Tensor<'_>, rhs: &Tensor<'_>) -> Option<String> {
    if let Some(message) = metadata(lhs, rhs) {
        return Some(message);
    }
    if lhs.bytes == rhs.bytes {
        return None;
    }
    let mut different = Differences::default();
    // Only dense tensors have elements at offsets that follow from their indices. Padding bits of packed ones count
    // too, as bytes.
    let count = lhs.element_count().unwrap_or(0);
    for index in 0..count {
        if !lhs.same_element(rhs, index) {
            different.add(|| lhs.sides(rhs, index));
        }
    }
    let operands = [("lhs", lhs), ("rhs", rhs)];
    let text = different.text(count, "differs", "differ", &operands);
    text.or_else(|| Some(with_operands("the bytes after the elements differ".into(), &operands)))
}

/// A message if two tensors differ in type or shape, or in an element by more than the tolerance.
pub fn almost_equal(lhs: &Tensor<'_>, rhs: &Tensor<'_>, tolerance: Tolerance) -> Result<Option<String>> {
    if let Some(message) = metadata(lhs, rhs) {
        return Ok(Some(message));
    }
    // Equal bytes are equal elements, NaN included.
    if lhs.bytes == rhs.bytes {
        return Ok(None);
    }
    let mut apart = Differences::default();
    let count = lhs.element_count()?;
    for index in 0..count {
        let (left, right) = (lhs.value(index)?, rhs.value(index)?);
        if !tolerance.allows(left, right) {
            apart.add(|| match distance(left, right) {
                Some(distance) => format!("{}, {} apart", lhs.sides(rhs, index), brief(distance)),
                None => lhs.sides(rhs, index),
            });
        }
    }
    let limits =
        format!("than atol={} and rtol={} allow", brief(tolerance.absolute.into()), brief(tolerance.relative.into()));
    let (one, many) = (format!("is farther apart {limits}"), format!("are farther apart {limits}"));
    Ok(apart.text(count, &one, &many, &[("lhs", lhs), ("rhs", rhs)]))
}

fn metadata(lhs: &Tensor<'_>, rhs: &Tensor<'_>) -> Option<String> {
    let mut wrong = Vec::new();
    if lhs.view.element_type() != rhs.view.element_type() {
        wrong.push("element types");
    }
    if lhs.view.shape() != rhs.view.shape() {
        wrong.push("shapes");
    }
    let message = format!("the {} differ", wrong.join(" and the "));
    (!wrong.is_empty()).then(|| with_operands(message, &[("lhs", lhs), ("rhs", rhs)]))
}

impl Tolerance {
    fn allows(self, lhs: ElementValue, rhs: ElementValue) -> bool {
        if lhs == rhs || (is_nan(lhs) && is_nan(rhs)) {
            return true;
        }
        let magnitude = distance(ElementValue::Integer(0), rhs).unwrap_or(f64::INFINITY);
        let limit = f64::from(self.absolute) + f64::from(self.relative) * magnitude;
        magnitude.is_finite() && distance(lhs, rhs).is_some_and(|distance| distance <= limit)
    }
}

fn is_nan(value: ElementValue) -> bool {
    let (re, im) = parts(value);
    re.is_nan() || im.is_nan()
}

/// Real and imaginary part.
fn parts(value: ElementValue) -> (f64, f64) {
    match value {
        ElementValue::Integer(value) => (value as f64, 0.0),
        ElementValue::F32(value) => (value.into(), 0.0),
        ElementValue::F64(value) => (value, 0.0),
        ElementValue::Complex32(re, im) => (re.into(), im.into()),
        ElementValue::Complex64(re, im) => (re, im),
    }
}

/// The distance of two values; none if one is NaN.
fn distance(lhs: ElementValue, rhs: ElementValue) -> Option<f64> {
    let distance = match (lhs, rhs) {
        // Integers of 64 bits are not all floats, but their distance is exact before it is rounded.
        (ElementValue::Integer(lhs), ElementValue::Integer(rhs)) => (lhs - rhs).unsigned_abs() as f64,
        (lhs, rhs) => {
            let ((a, b), (c, d)) = (parts(lhs), parts(rhs));
            if b == 0.0 && d == 0.0 { (a - c).abs() } else { libm::hypot(a - c, b - d) }
        }
    };
    (!distance.is_nan()).then_some(distance)
}

fn brief(value: f64) -> String {
    crate::number_text::general(value, 4)
}

/// Elements that are not as expected: descriptions of the first ones, and the number of all.
#[derive(Default)]
struct Differences {
    first: Vec<String>,
    count: usize,
}

impl Differences {
    fn add(&mut self, text: impl FnOnce() -> String) {
        self.count += 1;
        if self.first.len() < SHOWN_DIFFERENCES {
            self.first.push(text());
        }
    }

    /// The message: `2 of 4 elements differ`, where, and the operands; none without differences.
    fn text(&self, of: usize, one: &str, many: &str, operands: &[(&str, &Tensor<'_>)]) -> Option<String> {
        let predicate = if self.count == 1 { one } else { many };
        let mut message = format!("{} of {of} element{} {predicate}", self.count, if of == 1 { "" } else { "s" });
        for text in &self.first {
            message.extend(["\n  ", text]);
        }
        if self.count > self.first.len() {
            message.push_str("\n  ...");
        }
        (self.count > 0).then(|| with_operands(message, operands))
    }
}

/// The message with a line for each operand.
fn with_operands(mut message: String, operands: &[(&str, &Tensor<'_>)]) -> String {
    for (name, operand) in operands {
        // Writing to a string does not fail.
        let _ = write!(message, "\n  {name}: {}", operand.text());
    }
    message
}

impl Tensor<'_> {
    fn element_count(&self) -> Result<usize> {
        usize::try_from(self.view.element_count())
            .map_err(|_| Status::out_of_range("the tensor has more elements than the address space has bytes"))
    }

    fn value(&self, index: usize) -> Result<ElementValue> {
        let element_type = self.view.element_type();
        element_type.value_at(&self.bytes, index).ok_or_else(|| {
            Status::invalid_argument(format!("elements of type {element_type} are not numbers that can be checked"))
        })
    }

    /// The bytes of an element; none if elements are packed.
    fn element_bytes(&self, index: usize) -> Option<&[u8]> {
        let element_type = self.view.element_type();
        let size = element_type.byte_count();
        if element_type.is_packed() { None } else { self.bytes.get(index * size..(index + 1) * size) }
    }

    fn same_element(&self, other: &Tensor<'_>, index: usize) -> bool {
        let value = |tensor: &Tensor<'_>| tensor.view.element_type().value_at(&tensor.bytes, index);
        match (self.element_bytes(index), other.element_bytes(index)) {
            (None, None) => value(self) == value(other),
            (ours, theirs) => ours == theirs,
        }
    }

    /// The indices of an element, as `[1, 2]`.
    fn place(&self, index: usize) -> String {
        let mut left = index as u64;
        let mut indices = Vec::new();
        for dimension in self.view.shape().iter().rev() {
            indices.push((left % dimension).to_string());
            left /= dimension;
        }
        indices.reverse();
        format!("[{}]", indices.join(", "))
    }

    fn element_text(&self, index: usize) -> String {
        let element_type = self.view.element_type();
        match (element_type.value_at(&self.bytes, index), self.element_bytes(index)) {
            (Some(value), _) => value.to_string(),
            (None, Some(bytes)) => bytes.iter().map(|byte| format!("{byte:02X}")).collect(),
            (None, None) => "?".into(),
        }
    }

    /// The indices of an element and its values in both tensors.
    fn sides(&self, rhs: &Tensor<'_>, index: usize) -> String {
        let (left, right) = (self.element_text(index), rhs.element_text(index));
        format!("{}: lhs {left}, rhs {right}", self.place(index))
    }

    /// The tensor as tools print it, shortened.
    fn text(&self) -> String {
        let mut text = self.view.shape_and_type();
        text.push('=');
        let (shape, element_type) = (self.view.shape(), self.view.element_type());
        if let Err(status) = format_elements(&self.bytes, shape, element_type, SHOWN_ELEMENTS, &mut text) {
            // A failure to print must not hide the difference.
            let _ = write!(text, "({status})");
        }
        text
    }
}
