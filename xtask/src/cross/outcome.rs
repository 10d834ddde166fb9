//! The results of targets.

/// The result for a target.
pub enum Outcome {
    Passed(String),
    Skipped(String),
    Failed(String),
}
