//! How two tensors differ: how many elements, where, and how far at most. `compare` reports it for a mismatch.

use std::fmt;

use vireo::hal::ElementValue;
use vireo::inference::HostTensor;
use vireo::number_text::general;

use super::datum::FLOAT_DIGITS;

/// The differences of two tensors of one type.
pub struct Differences<'a> {
    expected: &'a HostTensor<'a>,
    actual: &'a HostTensor<'a>,
    /// How many elements differ.
    count: usize,
    /// The first of them.
    first: usize,
    /// The largest distance of numbers that differ, and its element.
    absolute: Option<(f64, usize)>,
    /// The largest distance in relation to the expected number.
    relative: Option<(f64, usize)>,
}

impl<'a> Differences<'a> {
    /// The differences of the elements for which `differs`, if there is one.
    pub fn of(
        expected: &'a HostTensor<'a>,
        actual: &'a HostTensor<'a>,
        differs: impl Fn(usize) -> bool,
    ) -> Option<Differences<'a>> {
        let mut found: Option<Differences<'a>> = None;
        for index in (0..expected.element_count()).filter(|index| differs(*index)) {
            let first = Differences { expected, actual, count: 0, first: index, absolute: None, relative: None };
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
        let (place, distance) = (self.place(index), general(distance, FLOAT_DIGITS));
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

impl fmt::Display for Differences<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (count, total) = (self.count, self.expected.element_count());
        let verb = if count == 1 { "differs" } else { "differ" };
        write!(f, "{count} of {total} elements {verb}, the first at {}", self.place(self.first))?;
        self.line(f, "absolute", self.absolute)?;
        self.line(f, "relative", self.relative)
    }
}
