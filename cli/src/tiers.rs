//! The comparison of the interpreter and machine code for `--tier=both`. Called by `run`, `check` and `benchmark`.

use vireo::hal::ElementValue;
use vireo::inference::{Function, HostTensor};
use vireo::{Result, Status, StatusCode};

use crate::engine::{Others, Session};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::print_aside;
use crate::values::Datum;

/// The observable effects of a call.
struct Outcome {
    result: Result<Vec<Datum>>,
    /// The arguments after the call: a program may write to them.
    arguments: Vec<Datum>,
    reports: Vec<String>,
}

fn call(session: &Session, name: &str, inputs: Vec<Datum>) -> Result<Outcome, Failure> {
    let function = session.function(Some(name))?;
    let arguments = session.arguments(inputs);
    let (result, arguments) = match arguments {
        Ok(arguments) => {
            let result = session.call(&function, arguments.clone());
            // Arguments that cannot be read cannot be on any tier.
            (result, session.to_data(&arguments).unwrap_or_default())
        }
        Err(status) => (Err(status), Vec::new()),
    };
    Ok(Outcome { result, arguments, reports: session.take_reports() })
}

/// Calls a function in one session, and in the others, where there are some; what the tiers do has to be the same.
pub fn call_all(
    (session, others): (&Session, Option<&Others>),
    function: &Function,
    inputs: Vec<Datum>,
) -> Result<Result<Vec<Datum>>, Failure> {
    let Some(others) = others else {
        return Ok(session.arguments(inputs).and_then(|inputs| session.call(function, inputs)));
    };
    let name = &function.signature().name;
    let interpreted = call(session, name, inputs.clone())?;
    print_reports(&interpreted.reports);
    let compiled = call(&others.compiled, name, inputs.clone())?;
    let Some(found) = difference(&interpreted, &compiled) else { return Ok(interpreted.result) };
    let again = call(&others.again()?, name, inputs)?;
    Err(differ(name, &found, difference(&interpreted, &again).as_ref()))
}

/// A difference between two runs.
#[derive(Debug, PartialEq)]
pub struct Difference {
    what: String,
    sides: [String; 2],
}

impl Difference {
    fn new(what: &str, one: &str, other: &str) -> Difference {
        Difference { what: what.to_string(), sides: [one.to_string(), other.to_string()] }
    }

    /// As text, with what the runs are called.
    fn between(&self, [one, other]: [&str; 2]) -> String {
        format!("{}\n{one}: {}\n{other}: {}", self.what, self.sides[0], self.sides[1])
    }
}

/// The failure of a function that does not do the same on both tiers. `runs` is how another run of the interpreter
/// differs from the first one: then the program depends on more than its arguments, and nothing is known of the tiers.
pub fn differ(name: &str, tiers: &Difference, runs: Option<&Difference>) -> Failure {
    let (message, text) = match runs {
        None => ("the interpreter and machine code differ", tiers.between(["interpreter", "machine code"])),
        Some(runs) => (
            "two runs of the interpreter differ, so it cannot be compared with machine code",
            runs.between(["first run", "second run"]),
        ),
    };
    Failure::new(Exit::Mismatch, format!("@{name}: {message}")).because(Status::internal(text))
}

/// The first difference between what two runs did.
fn difference(one: &Outcome, other: &Outcome) -> Option<Difference> {
    let results = match (&one.result, &other.result) {
        (Ok(one), Ok(other)) => list_difference("result", one, other),
        (one, other) => status_difference(one.as_ref().err(), other.as_ref().err()),
    };
    results
        .or_else(|| list_difference("argument", &one.arguments, &other.arguments))
        .or_else(|| line_difference("trace", &one.reports, &other.reports))
}

/// The first difference of two statuses, their backtraces included.
fn status_difference(one: Option<&Status>, other: Option<&Status>) -> Option<Difference> {
    // When and where that was is never the same.
    if [one, other].iter().all(|status| status.is_some_and(|status| status.code() == StatusCode::DeadlineExceeded)) {
        return None;
    }
    let text = |status: Option<&Status>| match status {
        Some(status) => {
            let frames = status.backtrace().iter().map(|frame| format!("\n  {frame}"));
            format!("{status}{}", frames.collect::<String>())
        }
        None => "ok".to_string(),
    };
    let (one, other) = (text(one), text(other));
    (one != other).then(|| Difference::new("status:", &one, &other))
}

/// Prints the recorded traces of a program.
pub fn print_reports(reports: &[String]) {
    for line in reports {
        print_aside(&format!("{line}\n"));
    }
}

/// The first of two lists of lines that differs.
pub fn line_difference(what: &str, one: &[String], other: &[String]) -> Option<Difference> {
    let line = |lines: &[String], index: usize| lines.get(index).cloned().unwrap_or_else(|| "nothing".to_string());
    let count = one.len().max(other.len());
    let index = (0..count).find(|index| one.get(*index) != other.get(*index))?;
    Some(Difference::new(&format!("{what} {index}:"), &line(one, index), &line(other, index)))
}

fn list_difference(what: &str, one: &[Datum], other: &[Datum]) -> Option<Difference> {
    if one.len() != other.len() {
        return Some(Difference::new(&format!("{what}s:"), &one.len().to_string(), &other.len().to_string()));
    }
    let mut pairs = one.iter().zip(other).enumerate();
    pairs.find_map(|(index, (one, other))| datum_difference(&format!("{what}[{index}]"), one, other))
}

/// The difference between two values by their bits; all NaNs are equal.
fn datum_difference(what: &str, one: &Datum, other: &Datum) -> Option<Difference> {
    match (one, other) {
        (Datum::F32(one), Datum::F32(other)) => {
            let same = one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan());
            (!same).then(|| Difference::new(what, &format!("{one:?}"), &format!("{other:?}")))
        }
        (Datum::F64(one), Datum::F64(other)) => {
            let same = one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan());
            (!same).then(|| Difference::new(what, &format!("{one:?}"), &format!("{other:?}")))
        }
        (Datum::View(one), Datum::View(other)) => tensor_difference(what, one, other),
        (Datum::Buffer { bytes: one, .. }, Datum::Buffer { bytes: other, .. }) => {
            if one.len() != other.len() {
                let what = format!("{what}: bytes:");
                return Some(Difference::new(&what, &one.len().to_string(), &other.len().to_string()));
            }
            let index = one.iter().zip(other).position(|(one, other)| one != other)?;
            let byte = |bytes: &[u8]| format!("{:02X}", bytes[index]);
            Some(Difference::new(&format!("{what}: byte {index}:"), &byte(one), &byte(other)))
        }
        (Datum::List(one), Datum::List(other)) => list_difference(&format!("{what}, item"), one, other),
        (one, other) if one == other => None,
        (one, other) => Some(Difference::new(what, &format!("{one:?}"), &format!("{other:?}"))),
    }
}

fn tensor_difference(what: &str, one: &HostTensor<'_>, other: &HostTensor<'_>) -> Option<Difference> {
    let (ours, theirs) = (one.shape_and_type().to_string(), other.shape_and_type().to_string());
    if ours != theirs {
        return Some(Difference::new(what, &ours, &theirs));
    }
    let is_nan = |tensor: &HostTensor<'_>, index: usize| match tensor.element(index) {
        Some(ElementValue::F32(value)) => value.is_nan(),
        Some(ElementValue::F64(value)) => value.is_nan(),
        _ => false,
    };
    let same = |index: usize| one.same_bits(other, index) || (is_nan(one, index) && is_nan(other, index));
    let index = (0..one.element_count()).find(|index| !same(*index))?;
    let text = |tensor: &HostTensor<'_>| tensor.element_text(index).unwrap_or_default();
    Some(Difference::new(&format!("{what}: element {index}:"), &text(one), &text(other)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Limits, spec};
    use vireo::vm::Kind;

    fn values(specs: &[&str]) -> Vec<Datum> {
        let specs = specs.iter().map(ToString::to_string).collect::<Vec<_>>();
        spec::parse_values("input", &vec![Kind::Ref; specs.len()], &specs, Limits { max_tensor_bytes: 1 << 20 })
            .unwrap()
    }

    fn outcome(result: Result<Vec<Datum>>) -> Outcome {
        Outcome { result, arguments: Vec::new(), reports: vec!["[trace] a: 1".into()] }
    }

    #[test]
    fn only_nans_may_differ() {
        let differ = |one: &[&str], other: &[&str]| list_difference("result", &values(one), &values(other));
        assert_eq!(differ(&["2xf32=1,nan", "&2xi8=1"], &["2xf32=1,-nan", "&2xi8=1"]), None);
        let difference = differ(&["2xf32=0", "2xf32=1"], &["2xf32=0", "2xf32=1,2"]).unwrap();
        assert_eq!(difference, Difference::new("result[1]: element 1:", "1", "2"));
        for (one, other) in [("f32=0", "f32=-0"), ("f32=1", "f64=1"), ("&2xi8=1", "&2xi8=2"), ("f32=nan", "f32=1")] {
            assert!(differ(&[one], &[other]).is_some(), "{one} {other}");
        }
        assert!(differ(&["f32=1"], &[]).is_some());
        let nan = Datum::F64(f64::from_bits(0x7FF8_0000_0000_0001));
        assert_eq!(datum_difference("r", &nan, &Datum::F64(f64::NAN)), None);
        assert!(datum_difference("r", &Datum::F32(0.0), &Datum::F32(-0.0)).is_some());
        assert!(datum_difference("r", &Datum::List(vec![Datum::I32(1)]), &Datum::List(vec![Datum::I32(2)])).is_some());
    }

    #[test]
    fn statuses_and_traces_are_compared() {
        let ok = || outcome(Ok(Vec::new()));
        let failed = |text: &str| outcome(Err(Status::out_of_range(text)));
        assert_eq!(difference(&ok(), &ok()), None);
        assert_eq!(difference(&failed("a"), &failed("a")), None);
        assert_eq!(difference(&failed("a"), &failed("b")).unwrap().what, "status:");
        let found = difference(&ok(), &failed("x"));
        assert_eq!(found, Some(Difference::new("status:", "ok", "OUT_OF_RANGE: x")));
        let found = difference(&ok(), &Outcome { reports: Vec::new(), ..ok() });
        assert_eq!(found, Some(Difference::new("trace 0:", "[trace] a: 1", "nothing")));
    }

    #[test]
    fn programs_that_differ_from_run_to_run_are_told_from_tiers_that_do() {
        let text = |failure: Failure| {
            let mut text = Vec::new();
            failure.report(&mut text).unwrap();
            anstream::adapter::strip_str(&String::from_utf8(text).unwrap()).to_string()
        };
        let (tiers, runs) = (Difference::new("result[0]:", "1", "2"), Difference::new("result[0]:", "1", "3"));
        let failure = text(differ("f", &tiers, None));
        assert!(failure.contains("@f: the interpreter and machine code differ"), "{failure}");
        assert!(failure.contains("interpreter: 1\n    machine code: 2"), "{failure}");
        let failure = text(differ("f", &tiers, Some(&runs)));
        assert!(failure.contains("@f: two runs of the interpreter differ"), "{failure}");
        assert!(failure.contains("first run: 1\n    second run: 3"), "{failure}");
    }
}
