//! Functions as the commands see them: what compilers mark them as, and their signatures in hints.

use vireo::inference::{Function, Signature, ValueInfo, ValueType};
use vireo::vm::{Kind, ReflectionAttribute};

use crate::failure::Failure;

/// The kinds of values.
pub fn kinds(values: &[ValueInfo]) -> Vec<Kind> {
    values.iter().map(|value| value.r#type.kind()).collect()
}

/// Adds the signature of a function to a failure, as a hint.
pub fn explain(signature: &Signature, failure: Failure) -> Failure {
    failure.hint(format!("the function is `{signature}`"))
}

/// The kinds of benchmarks that `iree-compile` marks functions as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Not marked.
    Unmarked,
    /// A whole program with constant arguments.
    Entry,
    /// A dispatch: the function takes the number of iterations.
    Dispatch,
}

impl Benchmark {
    /// The mark of a function.
    pub fn of(function: &Function) -> Benchmark {
        let arguments = &function.signature().arguments;
        match function.vm_function().attr(ReflectionAttribute::Benchmark.name()) {
            Some("dispatch") if matches!(&arguments[..], [only] if only.r#type == ValueType::I32) => {
                Benchmark::Dispatch
            }
            Some("entry") if arguments.is_empty() => Benchmark::Entry,
            _ => Benchmark::Unmarked,
        }
    }
}
