//! The tests of modules and how they ended, which reports print.

use std::path::Path;

use vireo::inference::Signature;
use vireo::modules::check::Collected;
use vireo::visible_text::visible;

use crate::failure::Failure;

/// The tests of one module.
pub struct Suite {
    /// The file as it was given.
    pub file: String,
    /// Name of the module.
    pub module: String,
    /// The tests that are to be run.
    pub exports: Vec<Signature>,
    /// Those that were.
    pub tests: Vec<Test>,
}

impl Suite {
    /// A file that cannot be loaded, which is one test that fails.
    pub fn not_loaded(path: &Path, failure: Failure) -> Suite {
        let outcome = Outcome::Error(failure, Collected::default());
        let test = Test { name: "(load)".into(), seconds: 0.0, outcome };
        Suite { file: path.display().to_string(), module: String::new(), exports: Vec::new(), tests: vec![test] }
    }

    /// A line for each test.
    pub fn list(&self) -> String {
        self.exports.iter().map(|export| visible(&format!("{}.{}", self.module, export.name)) + "\n").collect()
    }
}

/// A test that was run.
pub struct Test {
    pub name: String,
    pub seconds: f64,
    pub outcome: Outcome,
}

/// How a test ended.
pub enum Outcome {
    /// Every expectation was met.
    Passed,
    /// These were not.
    Failed(Collected),
    /// It did not come to an end; some expectations may not have been met before.
    Error(Failure, Collected),
    /// It cannot be run as a test.
    Skipped(&'static str),
}

impl Outcome {
    /// The outcome in one word.
    pub fn name(&self) -> &'static str {
        match self {
            Outcome::Passed => "passed",
            Outcome::Failed(_) => "failed",
            Outcome::Error(..) => "error",
            Outcome::Skipped(_) => "skipped",
        }
    }
}
