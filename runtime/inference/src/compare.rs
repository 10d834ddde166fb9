//! Comparison of tensors of the host with expected ones, within tolerances: whether they differ, how many elements do,
//! where and how far at most.

use std::fmt;

use vireo_core::number_text::general;
use vireo_hal::{ElementType, ElementValue, NumericalType};

use crate::tensor::HostTensor;

/// Significant digits of distances.
const DIGITS: usize = 6;

/// When two floats are equal: `|actual - expected| <= absolute + relative * |expected|`, or both NaN, or exactly equal.
/// Elements of other types are equal if their bits are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerance {
    /// Compare bits, ignoring everything below.
    pub exact: bool,
    /// Absolute tolerance of `f16`.
    pub f16: f64,
    /// Absolute tolerance of `f32`.
    pub f32: f64,
    /// Absolute tolerance of `f64`.
    pub f64: f64,
    /// Absolute tolerance of `bf16`.
    pub bf16: f64,
    /// Relative tolerance of all of them.
    pub relative: f64,
}

impl Tolerance {
    /// True if `actual` is within the tolerance of elements of this type; those of types that are no floats have to be
    /// equal.
    pub fn allows(&self, element_type: ElementType, expected: f64, actual: f64) -> bool {
        if self.exact {
            return expected.to_bits() == actual.to_bits();
        }
        let absolute = self.absolute(element_type).unwrap_or(0.0);
        let close = (actual - expected).abs() <= absolute + self.relative * expected.abs();
        expected == actual || (expected.is_nan() && actual.is_nan()) || (expected.is_finite() && close)
    }

    fn absolute(&self, element_type: ElementType) -> Option<f64> {
        Some(match element_type {
            ElementType::FLOAT_16 => self.f16,
            ElementType::BFLOAT_16 => self.bf16,
            ElementType::FLOAT_32 => self.f32,
            ElementType::FLOAT_64 => self.f64,
            _ => return None,
        })
    }

    fn allows_element(&self, expected: &HostTensor<'_>, actual: &HostTensor<'_>, index: usize) -> bool {
        if expected.same_bits(actual, index) {
            return true;
        }
        let element_type = expected.element_type();
        if self.exact || self.absolute(element_type).is_none() {
            return false;
        }
        let (expected, actual) = (number(expected, index), number(actual, index));
        expected.zip(actual).is_some_and(|(expected, actual)| self.allows(element_type, expected, actual))
    }
}

/// How a tensor differs from the expected one.
#[derive(Debug)]
pub enum TensorDifference<'a> {
    /// In shape or type, so that no element can be compared.
    Type,
    /// In elements.
    Elements(ElementDifferences<'a>),
}

/// The elements in which two tensors of one shape and type differ. Its text says how many there are, the first of them,
/// and those that are farthest apart.
#[derive(Debug)]
pub struct ElementDifferences<'a> {
    expected: &'a HostTensor<'a>,
    actual: &'a HostTensor<'a>,
    count: usize,
    first: usize,
    /// The largest distance of numbers that differ, and its element.
    absolute: Option<(f64, usize)>,
    /// The largest distance in relation to the expected number.
    relative: Option<(f64, usize)>,
}

impl HostTensor<'_> {
    /// How the tensor differs from the expected one by more than `tolerance`; none if it does not.
    ///
    /// Types are equal for integers of one width of which one has no sign of its own: `.npy` files know only signed and
    /// unsigned ones, and a tensor that was written to such a file has to be equal to itself.
    ///
    /// ```
    /// use vireo::inference::{HostTensor, TensorDifference, Tolerance};
    ///
    /// let tolerance = Tolerance { exact: false, f16: 1e-3, f32: 1e-4, f64: 1e-4, bf16: 1e-2, relative: 0.0 };
    /// let expected = HostTensor::from_slice(&[1.0f32, 2.0]);
    /// assert!(HostTensor::from_slice(&[1.00001f32, 2.0]).difference(&expected, &tolerance).is_none());
    /// let actual = HostTensor::from_slice(&[1.0f32, 2.5]);
    /// let difference = actual.difference(&expected, &tolerance);
    /// let Some(TensorDifference::Elements(elements)) = difference else { unreachable!() };
    /// assert_eq!((elements.count(), elements.first()), (1, 1));
    /// ```
    pub fn difference<'a>(
        &'a self,
        expected: &'a HostTensor<'a>,
        tolerance: &Tolerance,
    ) -> Option<TensorDifference<'a>> {
        if expected.shape() != self.shape() || !same_type(expected.element_type(), self.element_type()) {
            return Some(TensorDifference::Type);
        }
        ElementDifferences::of(expected, self, tolerance).map(TensorDifference::Elements)
    }
}

/// True for equal types, and for integers of one width of which one has no sign of its own.
fn same_type(expected: ElementType, actual: ElementType) -> bool {
    let is_integer = |element: ElementType| {
        let class = element.numerical();
        [NumericalType::INTEGER, NumericalType::INTEGER_SIGNED, NumericalType::INTEGER_UNSIGNED].contains(&class)
    };
    let signless = |element: ElementType| element.numerical() == NumericalType::INTEGER;
    let integers = is_integer(expected) && is_integer(actual) && (signless(expected) || signless(actual));
    expected == actual || (integers && expected.bit_count() == actual.bit_count())
}

impl<'a> ElementDifferences<'a> {
    fn of(
        expected: &'a HostTensor<'a>,
        actual: &'a HostTensor<'a>,
        tolerance: &Tolerance,
    ) -> Option<ElementDifferences<'a>> {
        let mut found: Option<ElementDifferences<'a>> = None;
        let differs = |index: &usize| !tolerance.allows_element(expected, actual, *index);
        for index in (0..expected.element_count()).filter(differs) {
            let first = ElementDifferences { expected, actual, count: 0, first: index, absolute: None, relative: None };
            let found = found.get_or_insert(first);
            found.count += 1;
            if let (Some(e), Some(a)) = (number(expected, index), number(actual, index)) {
                let distance = (a - e).abs();
                keep_largest(&mut found.absolute, distance, index);
                keep_largest(&mut found.relative, distance / e.abs(), index);
            }
        }
        found
    }

    /// How many elements differ.
    pub fn count(&self) -> usize {
        self.count
    }

    /// The first of them, row by row.
    pub fn first(&self) -> usize {
        self.first
    }

    fn place(&self, index: usize) -> String {
        let mut rest = index as u64;
        let mut place = vec![0; self.expected.shape().len()];
        for (at, length) in place.iter_mut().zip(self.expected.shape()).rev() {
            (*at, rest) = (rest % length, rest / length);
        }
        format!("{place:?}")
    }

    fn line(&self, f: &mut fmt::Formatter<'_>, what: &str, largest: Option<(f64, usize)>) -> fmt::Result {
        let Some((distance, index)) = largest else { return Ok(()) };
        let text = |tensor: &HostTensor<'_>| tensor.element_text(index).unwrap_or_default();
        let (place, distance) = (self.place(index), general(distance, DIGITS));
        let (expected, actual) = (text(self.expected), text(self.actual));
        write!(f, "\n  largest {what} difference: {distance} at {place}, expected {expected}, actual {actual}")
    }
}

/// Distances that are no numbers, of a NaN and a number, are larger than all others.
fn keep_largest(largest: &mut Option<(f64, usize)>, distance: f64, index: usize) {
    let is_larger = |last: f64| distance > last || (distance.is_nan() && !last.is_nan());
    if largest.is_none_or(|(last, _)| is_larger(last)) {
        *largest = Some((distance, index));
    }
}

fn number(tensor: &HostTensor<'_>, index: usize) -> Option<f64> {
    match tensor.element(index)? {
        ElementValue::F32(value) => Some(value.into()),
        ElementValue::F64(value) => Some(value),
        ElementValue::Integer(value) => Some(value as f64),
        _ => None,
    }
}

impl fmt::Display for ElementDifferences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, total) = (self.count, self.expected.element_count());
        let verb = if count == 1 { "differs" } else { "differ" };
        write!(f, "{count} of {total} elements {verb}, the first at {}", self.place(self.first))?;
        self.line(f, "absolute", self.absolute)?;
        self.line(f, "relative", self.relative)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXACT: Tolerance = Tolerance { exact: true, f16: 1.0, f32: 1.0, f64: 1.0, bf16: 1.0, relative: 1.0 };

    fn difference(expected: &str, actual: &str, tolerance: Tolerance) -> Option<String> {
        let [expected, actual] = [expected, actual].map(|text| HostTensor::parse(text, 1 << 20).unwrap());
        Some(match actual.difference(&expected, &tolerance)? {
            TensorDifference::Type => "type".into(),
            TensorDifference::Elements(elements) => elements.to_string(),
        })
    }

    #[test]
    fn tensors_differ_by_more_than_the_tolerance() {
        let near = Tolerance { exact: false, f32: 0.25, relative: 0.0, ..EXACT };
        assert_eq!(difference("2xf32=1,nan", "2xf32=1.25,-nan", near), None);
        assert_eq!(difference("2xf32=inf", "2xf32=inf", near), None);
        assert!(difference("f32=inf", "f32=1", Tolerance { f32: f64::INFINITY, ..near }).is_some());
        assert_eq!(
            difference("2x2xf32=1,2,4,8", "2x2xf32=1,2.5,5,8", near).unwrap(),
            "2 of 4 elements differ, the first at [0, 1]\n  largest absolute difference: 1 at [1, 0], expected 4, actual 5\n  \
             largest relative difference: 0.25 at [0, 1], expected 2, actual 2.5"
        );
        // Only floats have a tolerance.
        assert!(difference("i8=1", "i8=2", near).is_some());
        assert!(difference("f32=0", "f32=-0", EXACT).is_some());
        assert_eq!(difference("f32=nan", "f32=nan", EXACT), None);
    }

    #[test]
    fn types_differ_unless_a_sign_is_unknown() {
        for (expected, actual) in [("2xsi8=1", "2xi8=1"), ("9xsi4=-8", "9xi4=8"), ("i8=255", "ui8=255")] {
            assert_eq!(difference(expected, actual, EXACT), None, "{expected}");
        }
        for (expected, actual) in [("2xsi8=1", "2xui8=1"), ("2xi8=1", "1x2xi8=1"), ("f32=0", "i32=0")] {
            assert_eq!(difference(expected, actual, EXACT).as_deref(), Some("type"), "{expected}");
        }
    }
}
