//! `--tier=`: what runs programs, and how what the tiers do is compared.

use std::io::{self, Write};

use vireo::interp::Tier;
use vireo::vm::Value;
use vireo::{Result, Status};

use crate::arguments::TierChoice;
use crate::engine::{Function, Session};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::values::element::approximate;
use crate::values::tensor::TypeText;
use crate::values::{Datum, Tensor};

/// The tier of a choice; of both the one that runs first.
pub fn first(choice: TierChoice) -> Result<Tier, Failure> {
    let (tier, needed) = match choice {
        TierChoice::Auto => (Tier::Auto, Tier::Auto),
        TierChoice::Interp => (Tier::Interpreter, Tier::Interpreter),
        TierChoice::Jit => (Tier::Compiled, Tier::Compiled),
        TierChoice::Both => (Tier::Interpreter, Tier::Compiled),
    };
    let flag = if choice == TierChoice::Both { "both" } else { "jit" };
    needed.check().map_err(|status| Failure::new(Exit::Usage, format!("invalid --tier={flag}")).because(status))?;
    Ok(tier)
}

/// What a call did.
struct Outcome {
    result: Result<Vec<Datum>>,
    /// What became of the arguments: a program may write to them.
    arguments: Vec<Datum>,
    reports: Vec<String>,
}

fn call(session: &Session, name: &str, inputs: Vec<Datum>) -> Result<Outcome, Failure> {
    let function = session.function(Some(name))?;
    let arguments = session.arguments(inputs);
    let (result, arguments) = match arguments {
        Ok(arguments) => {
            let result = session.call(&function, &arguments).and_then(|results| session.to_data(&results));
            // What cannot be read is the same for all tiers.
            (result, session.to_data(&arguments).unwrap_or_default())
        }
        Err(status) => (Err(status), Vec::new()),
    };
    Ok(Outcome { result, arguments, reports: session.take_reports() })
}

/// Calls a function in one session, and in the other, where there is one; what the two do has to be the same.
pub fn call_all(
    (session, other): (&Session, Option<&Session>),
    function: &Function,
    inputs: Vec<Datum>,
) -> Result<Result<Vec<Datum>>, Failure> {
    let Some(other) = other else {
        let results = session.arguments(inputs).and_then(|inputs: Vec<Value>| session.call(function, &inputs));
        return Ok(results.and_then(|results| session.to_data(&results)));
    };
    let interpreted = call(session, &function.name, inputs.clone())?;
    print_reports(&interpreted.reports);
    let compiled = call(other, &function.name, inputs)?;
    match difference(&interpreted, &compiled) {
        None => Ok(interpreted.result),
        Some(text) => Err(differ(&function.name, text)),
    }
}

/// The failure of a function that does not do the same on both tiers.
pub fn differ(name: &str, text: String) -> Failure {
    let failure = Failure::new(Exit::Mismatch, format!("@{name}: the interpreter and machine code differ"));
    failure.because(Status::internal(text))
}

/// The first difference between what the interpreter and machine code did.
fn difference(interpreted: &Outcome, compiled: &Outcome) -> Option<String> {
    let results = match (&interpreted.result, &compiled.result) {
        (Ok(one), Ok(other)) => list_difference("result", one, other),
        (one, other) => status_difference(one.as_ref().err(), other.as_ref().err()),
    };
    results
        .or_else(|| list_difference("argument", &interpreted.arguments, &compiled.arguments))
        .or_else(|| line_difference("trace", &interpreted.reports, &compiled.reports))
}

fn sides(what: &str, interpreted: &str, compiled: &str) -> String {
    format!("{what}\ninterpreter: {interpreted}\nmachine code: {compiled}")
}

/// The first difference of two statuses, their backtraces included.
fn status_difference(interpreted: Option<&Status>, compiled: Option<&Status>) -> Option<String> {
    let text = |status: Option<&Status>| match status {
        Some(status) => {
            let frames = status.backtrace().iter().map(|frame| format!("\n  {frame}"));
            format!("{status}{}", frames.collect::<String>())
        }
        None => "ok".to_string(),
    };
    let (one, other) = (text(interpreted), text(compiled));
    (one != other).then(|| sides("status:", &one, &other))
}

/// Prints what a program has reported where nothing is compared at once.
pub fn print_reports(reports: &[String]) {
    for line in reports {
        // A closed stderr is no reason to fail.
        let _ = writeln!(io::stderr(), "{line}");
    }
}

/// The first of two lists of lines that differs.
pub fn line_difference(what: &str, interpreted: &[String], compiled: &[String]) -> Option<String> {
    let line = |lines: &[String], index: usize| lines.get(index).cloned().unwrap_or_else(|| "nothing".to_string());
    let count = interpreted.len().max(compiled.len());
    let index = (0..count).find(|index| interpreted.get(*index) != compiled.get(*index))?;
    Some(sides(&format!("{what} {index}:"), &line(interpreted, index), &line(compiled, index)))
}

fn list_difference(what: &str, interpreted: &[Datum], compiled: &[Datum]) -> Option<String> {
    if interpreted.len() != compiled.len() {
        return Some(sides(&format!("{what}s:"), &interpreted.len().to_string(), &compiled.len().to_string()));
    }
    let mut pairs = interpreted.iter().zip(compiled).enumerate();
    pairs.find_map(|(index, (one, other))| datum_difference(&format!("{what}[{index}]"), one, other))
}

/// What differs between two values: their bits, but for those of a NaN.
fn datum_difference(what: &str, interpreted: &Datum, compiled: &Datum) -> Option<String> {
    match (interpreted, compiled) {
        (Datum::F32(one), Datum::F32(other)) => {
            let same = one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan());
            (!same).then(|| sides(what, &format!("{one:?}"), &format!("{other:?}")))
        }
        (Datum::F64(one), Datum::F64(other)) => {
            let same = one.to_bits() == other.to_bits() || (one.is_nan() && other.is_nan());
            (!same).then(|| sides(what, &format!("{one:?}"), &format!("{other:?}")))
        }
        (Datum::View(one), Datum::View(other)) => tensor_difference(what, one, other),
        (Datum::Buffer { bytes: one, .. }, Datum::Buffer { bytes: other, .. }) => {
            if one.len() != other.len() {
                let what = format!("{what}: bytes:");
                return Some(sides(&what, &one.len().to_string(), &other.len().to_string()));
            }
            let index = one.iter().zip(other).position(|(one, other)| one != other)?;
            let byte = |bytes: &[u8]| format!("{:02X}", bytes[index]);
            Some(sides(&format!("{what}: byte {index}:"), &byte(one), &byte(other)))
        }
        (Datum::List(one), Datum::List(other)) => list_difference(&format!("{what}, item"), one, other),
        (one, other) if one == other => None,
        (one, other) => Some(sides(what, &format!("{one:?}"), &format!("{other:?}"))),
    }
}

fn tensor_difference(what: &str, interpreted: &Tensor, compiled: &Tensor) -> Option<String> {
    let text = |tensor: &Tensor| TypeText(&tensor.shape, tensor.element).to_string();
    if text(interpreted) != text(compiled) {
        return Some(sides(what, &text(interpreted), &text(compiled)));
    }
    let element = interpreted.element;
    let is_nan = |tensor: &Tensor, index: usize| {
        let bytes = tensor.element_bytes(index);
        !bytes.is_empty() && approximate(element, bytes).is_some_and(f64::is_nan)
    };
    let same = |index: usize| {
        interpreted.same_element(compiled, index) || (is_nan(interpreted, index) && is_nan(compiled, index))
    };
    let index = (0..interpreted.element_count()).find(|index| !same(*index))?;
    let text = |tensor: &Tensor| tensor.element_text(index).unwrap_or_else(|status| status.to_string());
    Some(sides(&format!("{what}: element {index}:"), &text(interpreted), &text(compiled)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::values::{Limits, spec};

    fn values(specs: &[&str]) -> Vec<Datum> {
        let specs = specs.iter().map(ToString::to_string).collect::<Vec<_>>();
        spec::parse_values("input", &"r".repeat(specs.len()), &specs, Limits { max_tensor_bytes: 1 << 20 }).unwrap()
    }

    fn outcome(result: Result<Vec<Datum>>) -> Outcome {
        Outcome { result, arguments: Vec::new(), reports: vec!["[trace] a: 1".into()] }
    }

    #[test]
    fn only_nans_may_differ() {
        let differ = |one: &[&str], other: &[&str]| list_difference("result", &values(one), &values(other));
        assert_eq!(differ(&["2xf32=1,nan", "&2xi8=1"], &["2xf32=1,-nan", "&2xi8=1"]), None);
        let text = differ(&["2xf32=0", "2xf32=1"], &["2xf32=0", "2xf32=1,2"]).unwrap();
        assert_eq!(text, "result[1]: element 1:\ninterpreter: 1\nmachine code: 2");
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
        assert!(difference(&failed("a"), &failed("b")).unwrap().starts_with("status:"));
        let text = difference(&ok(), &failed("x")).unwrap();
        assert_eq!(text, "status:\ninterpreter: ok\nmachine code: OUT_OF_RANGE: x");
        let text = difference(&ok(), &Outcome { reports: Vec::new(), ..ok() }).unwrap();
        assert_eq!(text, "trace 0:\ninterpreter: [trace] a: 1\nmachine code: nothing");
    }
}
