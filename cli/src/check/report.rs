//! Test reports as text and as JSON. `junit` writes the XML. Called by `check` with the outcome of each test.

use std::error::Error;
use std::fmt::Write as _;
use vireo::visible_text::visible_lines;

use anstyle::{AnsiColor, Style};
use serde_json::{Value, json};
use vireo::Status;
use vireo::modules::check::Collected;
use vireo::status::Backtrace;

use super::suite::{Outcome, Suite, Test};
use crate::failure::Failure;
use vireo::visible_text::visible;

const PASSED: Style = AnsiColor::Green.on_default();
const FAILED: Style = AnsiColor::Red.on_default().bold();
const SKIPPED: Style = AnsiColor::Yellow.on_default();

/// How many tests ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// All expectations were met.
    pub passed: usize,
    /// An expectation was not met.
    pub failed: usize,
    /// They did not come to an end.
    pub errors: usize,
    /// They cannot be run as tests.
    pub skipped: usize,
}

impl Counts {
    /// The sum over all tests.
    pub fn of<'a>(tests: impl IntoIterator<Item = &'a Test>) -> Counts {
        let mut counts = Counts::default();
        for test in tests {
            *match &test.outcome {
                Outcome::Passed => &mut counts.passed,
                Outcome::Failed(_) => &mut counts.failed,
                Outcome::Error(..) => &mut counts.errors,
                Outcome::Skipped(_) => &mut counts.skipped,
            } += 1;
        }
        counts
    }

    /// Tests that were run.
    pub fn run(self) -> usize {
        self.passed + self.failed + self.errors
    }
}

/// The line above the tests of a module.
pub fn header(suite: &Suite) -> String {
    if suite.module.is_empty() {
        return format!("{}: not loaded\n", visible(&suite.file));
    }
    let count = suite.exports.len();
    let plural = if count == 1 { "" } else { "s" };
    format!("{}: module {}, {count} test{plural}\n", visible(&suite.file), visible(&suite.module))
}

/// The line of a test, and below it what is not as expected. `width` is that of the longest name.
pub fn line(test: &Test, width: usize) -> String {
    let name = visible(&test.name);
    let time = format!("{:>10}", duration(test.seconds));
    let (style, word) = match &test.outcome {
        Outcome::Passed => (PASSED, "ok     "),
        Outcome::Failed(_) => (FAILED, "FAILED "),
        Outcome::Error(..) => (FAILED, "ERROR  "),
        Outcome::Skipped(reason) => return format!("  {SKIPPED}skipped{SKIPPED:#}  {name:<width$}  {reason}\n"),
    };
    let mut text = format!("  {style}{word}{style:#}  {name:<width$}{time}\n");
    match &test.outcome {
        Outcome::Failed(collected) => text.push_str(&expectations(collected)),
        Outcome::Error(failure, collected) => {
            text.push_str(&expectations(collected));
            let mut message = Vec::new();
            // Writing to a vector does not fail.
            let _ = failure.report(&mut message);
            text.push_str(&indented(&String::from_utf8_lossy(&message)));
        }
        Outcome::Passed | Outcome::Skipped(_) => {}
    }
    text
}

fn expectations(collected: &Collected) -> String {
    let mut text = collected.unmet.iter().map(|unmet| indented(&visible_lines(&unmet.to_string()))).collect::<String>();
    if collected.more > 0 {
        text.push_str(&indented(&format!("and {} more expectations that are not met", collected.more)));
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| format!("      {line}\n")).collect()
}

/// The last line.
pub fn summary(counts: Counts, seconds: f64) -> String {
    let mut parts = vec![format!("{} passed", counts.passed)];
    for (count, what) in [(counts.failed, "failed"), (counts.errors, "with errors"), (counts.skipped, "skipped")] {
        if count > 0 {
            parts.push(format!("{count} {what}"));
        }
    }
    // Nothing was found out where none was run.
    let bad = counts.failed + counts.errors > 0 || counts.run() == 0;
    let (style, word) = if bad { (FAILED, "FAILED") } else { (PASSED, "ok") };
    format!("{style}{word}{style:#}: {} in {}\n", parts.join(", "), duration(seconds))
}

/// Three digits and a unit.
fn duration(seconds: f64) -> String {
    if seconds < 1.0 { format!("{:.2} ms", seconds * 1e3) } else { format!("{seconds:.2} s") }
}

/// All of it as JSON.
pub fn json(suites: &[Suite], seconds: f64) -> String {
    let counts = Counts::of(suites.iter().flat_map(|suite| &suite.tests));
    let suite = |suite: &Suite| {
        let tests = suite.tests.iter().map(test_json).collect::<Vec<_>>();
        json!({"file": suite.file, "module": suite.module, "tests": tests})
    };
    let report = json!({
        "modules": suites.iter().map(suite).collect::<Vec<_>>(),
        "passed": counts.passed,
        "failed": counts.failed,
        "errors": counts.errors,
        "skipped": counts.skipped,
        "seconds": seconds,
    });
    format!("{report:#}\n")
}

fn test_json(test: &Test) -> Value {
    let mut object = json!({"name": test.name, "outcome": test.outcome.name(), "seconds": test.seconds});
    match &test.outcome {
        Outcome::Passed => {}
        Outcome::Failed(collected) => add_expectations(&mut object, collected),
        Outcome::Error(failure, collected) => {
            add_expectations(&mut object, collected);
            object["error"] = chain(failure).into();
            if let Some(status) = failure.source().and_then(|source| source.downcast_ref::<Status>()) {
                object["code"] = status.code().name().into();
                object["backtrace"] = status.backtrace().iter().map(ToString::to_string).collect();
            }
        }
        Outcome::Skipped(reason) => object["reason"] = (*reason).into(),
    }
    object
}

fn add_expectations(object: &mut Value, collected: &Collected) {
    let one =
        |unmet: &vireo::modules::check::UnmetExpectation| json!({"check": unmet.export, "message": unmet.message});
    object["expectations"] = collected.unmet.iter().map(one).collect();
    if collected.more > 0 {
        object["more_expectations"] = collected.more.into();
    }
}

/// A failure and its causes in one line, without the frames of the program.
pub fn chain(failure: &Failure) -> String {
    let mut text = failure.to_string();
    let mut cause = failure.source();
    while let Some(error) = cause {
        if !error.is::<Backtrace>() {
            // Writing to a string does not fail.
            let _ = write!(text, ": {error}");
        }
        cause = error.source();
    }
    text
}

/// The problems of a test, as plain text.
pub fn problems(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Passed | Outcome::Skipped(_) => String::new(),
        Outcome::Failed(collected) => unindented(collected),
        Outcome::Error(failure, collected) => unindented(collected) + &chain(failure),
    }
}

fn unindented(collected: &Collected) -> String {
    let mut text = collected.unmet.iter().map(|unmet| format!("{unmet}\n")).collect::<String>();
    if collected.more > 0 {
        let _ = writeln!(text, "and {} more", collected.more);
    }
    text
}

#[cfg(test)]
mod tests {
    use vireo::modules::check::UnmetExpectation;

    use super::*;
    use crate::exit::Exit;

    fn tests() -> Vec<Test> {
        let unmet =
            UnmetExpectation { export: "expect_eq", message: "1 of 2 elements differs\n  [1]: lhs 1, rhs 2".into() };
        let collected = Collected { unmet: vec![unmet], more: 2 };
        let status = Status::out_of_range("too far");
        let failure = Failure::new(Exit::RunFailure, "calling @c").because(status);
        let outcomes = [
            ("a", Outcome::Passed),
            ("long", Outcome::Failed(collected)),
            ("c", Outcome::Error(failure, Collected::default())),
            ("d", Outcome::Skipped("takes arguments")),
        ];
        outcomes.into_iter().map(|(name, outcome)| Test { name: name.into(), seconds: 0.0015, outcome }).collect()
    }

    #[test]
    fn people_see_what_failed() {
        let text = tests().iter().map(|test| line(test, 4)).collect::<String>();
        let text = anstream::adapter::strip_str(&text).to_string();
        let expected = "  ok       a      1.50 ms\n  FAILED   long   1.50 ms\n      expect_eq: 1 of 2 elements differs\n        \
            [1]: lhs 1, rhs 2\n      and 2 more expectations that are not met\n  ERROR    c      1.50 ms\n      \
            error: calling @c\n        cause: OUT_OF_RANGE: too far\n  skipped  d     takes arguments\n";
        assert_eq!(text, expected);
        let counts = Counts::of(&tests());
        assert_eq!((counts.passed, counts.failed, counts.errors, counts.skipped, counts.run()), (1, 1, 1, 1, 3));
        let text = summary(counts, 2.0);
        let expected = "FAILED: 1 passed, 1 failed, 1 with errors, 1 skipped in 2.00 s\n";
        assert_eq!(anstream::adapter::strip_str(&text).to_string(), expected);
    }

    #[test]
    fn programs_see_the_same() {
        let suite = Suite { file: "f".into(), module: "m".into(), exports: Vec::new(), tests: tests() };
        let report: Value = serde_json::from_str(&json(&[suite], 1.0)).unwrap();
        assert_eq!(report["failed"], 1);
        let tests = &report["modules"][0]["tests"];
        assert_eq!(tests[1]["expectations"][0]["check"], "expect_eq");
        assert_eq!(
            (&tests[2]["code"], &tests[2]["error"]),
            (&json!("OUT_OF_RANGE"), &json!("calling @c: OUT_OF_RANGE: too far"))
        );
        assert_eq!(tests[3]["reason"], "takes arguments");
    }
}
