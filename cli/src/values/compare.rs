//! Comparison of results with expected values, bit for bit or within tolerances. Called by `run` for
//! `--expected_output=`.

use std::fmt::Write;

use vireo::hal::ElementType;
use vireo::inference::{HostTensor, TensorDifference, Tolerance};
use vireo::number_text::general;
use vireo::{Result, Status};

use super::Datum;
use super::datum::FLOAT_DIGITS;

/// How results differ from the expected ones.
#[derive(Debug, PartialEq)]
pub struct Mismatch {
    /// The text that the reference's tools print.
    pub report: String,
    /// How many elements of tensors differ, where and how far.
    pub details: String,
}

/// Compares `actual` with `expected`. Returns what differs, as text for the user, with at most `max_elements` elements
/// of a tensor; nothing if all is as expected.
pub fn compare(expected: &[Datum], actual: &[Datum], tolerance: Tolerance, max_elements: usize) -> Option<Mismatch> {
    let (mut report, mut details) = (String::new(), String::new());
    if expected.len() != actual.len() {
        report = format!("[FAILED] expected {} list elements but {} provided\n", expected.len(), actual.len());
        return Some(Mismatch { report, details });
    }
    for (index, (expected, actual)) in expected.iter().zip(actual).enumerate() {
        // Writing to a string cannot fail.
        if let (Datum::View(expected), Datum::View(actual)) = (expected, actual) {
            let Some(found) = actual.difference(expected, &tolerance) else { continue };
            let text = tensor_difference(expected, actual, &found, max_elements);
            let _ = writeln!(report, "[FAILED] result[{index}]: {text}");
            if let TensorDifference::Elements(elements) = &found {
                let _ = writeln!(details, "result[{index}]: {elements}");
            }
        } else if let Some(difference) = difference(expected, actual, tolerance) {
            let _ = writeln!(report, "[FAILED] result[{index}]: {difference}");
        }
    }
    (!report.is_empty()).then_some(Mismatch { report, details })
}

/// How two values that are not both tensors differ.
fn difference(expected: &Datum, actual: &Datum, tolerance: Tolerance) -> Option<String> {
    let values = |name: &str, expected: String, actual: String| {
        Some(format!("{name} values differ\n  expected: {expected}\n  actual: {actual}"))
    };
    match (expected, actual) {
        (Datum::Ignored, _) => None,
        (Datum::I32(e), Datum::I32(a)) if e != a => values("i32", e.to_string(), a.to_string()),
        (Datum::I64(e), Datum::I64(a)) if e != a => values("i64", e.to_string(), a.to_string()),
        (Datum::F32(e), Datum::F32(a)) => {
            let (e, a) = (f64::from(*e), f64::from(*a));
            let same = tolerance.allows(ElementType::FLOAT_32, e, a);
            if same { None } else { values("f32", upper(e), upper(a)) }
        }
        (Datum::F64(e), Datum::F64(a)) => {
            let same = tolerance.allows(ElementType::FLOAT_64, *e, *a);
            if same { None } else { values("f64", upper(*e), upper(*a)) }
        }
        (Datum::Buffer { bytes: e, .. }, Datum::Buffer { bytes: a, .. }) if e.len() != a.len() => {
            Some(format!("buffer has {} bytes; expected {}", a.len(), e.len()))
        }
        (Datum::Buffer { bytes: e, .. }, Datum::Buffer { bytes: a, .. }) => {
            let index = e.iter().zip(a).position(|(e, a)| e != a)?;
            Some(format!("byte at index {index} ({:02X}) does not match the expected ({:02X})", a[index], e[index]))
        }
        (expected, actual) if expected == actual => None,
        (expected, actual) => {
            Some(format!("variant types mismatch; expected {} but got {}", expected.type_name(), actual.type_name()))
        }
    }
}

fn tensor_difference(
    expected: &HostTensor<'_>,
    actual: &HostTensor<'_>,
    found: &TensorDifference<'_>,
    max_elements: usize,
) -> String {
    let expected_type = expected.shape_and_type();
    let reason = match found {
        TensorDifference::Type => {
            format!("metadata is {}; expected that the view matches {expected_type}", actual.shape_and_type())
        }
        TensorDifference::Elements(elements) => {
            let index = elements.first();
            let text = |tensor: &HostTensor<'_>| tensor.element_text(index).unwrap_or_default();
            format!("element at index {index} ({}) does not match the expected ({})", text(actual), text(expected))
        }
    };
    format!(
        "{reason}; expected that the view is equal to contents of a view of {expected_type}\n  expected:\n{}\n  actual:\n{}",
        or_status(expected.to_text(max_elements)),
        or_status(actual.to_text(max_elements))
    )
}

/// A float as the comparison of the reference tools writes it.
fn upper(value: f64) -> String {
    general(value, FLOAT_DIGITS).to_uppercase()
}

/// The text of a value, or the reason why it has none: a mismatch is reported even if a value cannot be printed.
fn or_status(text: Result<String>) -> String {
    text.unwrap_or_else(|status: Status| status.to_string())
}

#[cfg(test)]
mod tests {
    use vireo::vm::Kind;

    use super::*;
    use crate::values::{Limits, spec};

    const TOLERANCE: Tolerance =
        Tolerance { exact: false, f16: 1e-3, f32: 1e-4, f64: 1e-4, bf16: 1e-2, relative: 1e-5 };

    fn report(expected: &str, actual: &str, tolerance: Tolerance) -> Option<String> {
        mismatch(expected, actual, tolerance).map(|mismatch| mismatch.report)
    }

    fn mismatch(expected: &str, actual: &str, tolerance: Tolerance) -> Option<Mismatch> {
        let parse = |spec: &str| {
            let limits = Limits { max_tensor_bytes: 1 << 20 };
            spec::parse_values("expected_output", &[Kind::Ref], &[spec.to_string()], limits).unwrap()
        };
        compare(&parse(expected), &parse(actual), tolerance, 1024)
    }

    #[test]
    fn equal_within_tolerance() {
        for (expected, actual) in [
            ("2xf32=1", "2xf32=1"),
            ("2xf32=1,1.00001", "2xf32=1"),
            ("2xf32=1e10", "2xf32=1.00000001e10"),
            ("f32=nan", "f32=-nan"),
            ("f32=-inf", "f32=-inf"),
            ("f16=1", "f16=1.001"),
            ("bf16=1", "bf16=1.008"),
            ("f64=1", "f64=1.0001"),
            ("(ignored)", "2xi8=3"),
            ("(null)", "(null)"),
            ("cf64=0000803F00000040", "cf64=0000803F00000040"),
            ("&2xi8=1", "&i16=257"),
            ("2xsi32=-1,5", "2xi32=-1,5"),
            ("2xui8=255,5", "2xi8=-1,5"),
            ("3xi4=1,2,-3", "3xi4=1,2,13"),
            ("9xsi4=-8", "9xi4=8"),
        ] {
            assert_eq!(report(expected, actual, TOLERANCE), None, "{expected}");
        }
    }

    #[test]
    fn differences_name_the_element() {
        let text = report("2xf32=1,2", "2xf32=1", TOLERANCE).unwrap();
        let expected = "[FAILED] result[0]: element at index 1 (1) does not match the expected (2); expected that the view is equal \
            to contents of a view of 2xf32\n  expected:\n2xf32=1 2\n  actual:\n2xf32=1 1\n";
        assert_eq!(text, expected);
        let text = report("2xi32=1", "2xf32=1", TOLERANCE).unwrap();
        assert!(
            text.contains("metadata is 2xf32; expected that the view matches 2xi32; expected that the view"),
            "{text}"
        );
        for (expected, actual) in [
            ("ui8=1", "si8=1"),
            ("si8=1", "i16=1"),
            ("f32=inf", "f32=1e38"),
            ("f32=1", "f32=nan"),
            ("i32=1", "i32=2"),
            ("3xi4=1,2,-3", "3xi4=1,2,12"),
            ("f8E5M2=1", "f8E5M2=1.25"),
            ("f16=1", "f16=1.01"),
        ] {
            assert!(report(expected, actual, TOLERANCE).is_some(), "{expected}");
        }
        assert!(report("2xf32=1", "2xf32=1.00001", Tolerance { exact: true, ..TOLERANCE }).is_some());
        let text = report("2xf32=1", "(null)", TOLERANCE).unwrap();
        assert_eq!(text, "[FAILED] result[0]: variant types mismatch; expected hal.buffer_view but got empty\n");
    }

    #[test]
    fn details_say_how_many_elements_differ_where_and_how_far() {
        let details = |expected, actual| mismatch(expected, actual, TOLERANCE).unwrap().details;
        let expected = "result[0]: 3 of 6 elements differ, the first at [0, 1]\n  \
            largest absolute difference: 7 at [0, 1], expected 2, actual 9\n  \
            largest relative difference: inf at [1, 1], expected 0, actual 5\n";
        assert_eq!(details("2x3xi32=1,2,3,4,0,6", "2x3xi32=1,9,3,4,5,7"), expected);
        let text = details("3xf32=1,2,3", "3xf32=9,nan,3");
        assert!(text.contains("largest absolute difference: nan at [1]"), "{text}");
        assert_eq!(details("2xcf64=1", "2xcf64=1,2"), "result[0]: 1 of 2 elements differs, the first at [1]\n");
        assert_eq!(details("2xf32=1", "2xi32=1"), "");
    }

    #[test]
    fn scalars_and_counts() {
        let differ = |expected, actual| compare(&[expected], &[actual], TOLERANCE, 1024).map(|found| found.report);
        assert_eq!(differ(Datum::I32(1), Datum::I32(1)), None);
        assert_eq!(differ(Datum::F32(1.0), Datum::F32(1.00001)), None);
        let text = differ(Datum::I64(1), Datum::I64(2)).unwrap();
        assert_eq!(text, "[FAILED] result[0]: i64 values differ\n  expected: 1\n  actual: 2\n");
        assert!(differ(Datum::I64(1), Datum::I32(1)).unwrap().contains("expected i64 but got i32"));
        let text = compare(&[Datum::Null], &[Datum::Null, Datum::Null], TOLERANCE, 1024).unwrap().report;
        assert_eq!(text, "[FAILED] expected 1 list elements but 2 provided\n");
    }
}
