//! Functions of programs: the signature and the calling model that a command needs to call one.

use vireo::vm::convention::Kind;
use vireo::vm::{self, InvocationModel, ReflectionAttribute};

use crate::failure::Failure;

/// How many fences [`InvocationModel::CoarseFences`] has: the last arguments, one to wait for and one to signal.
pub(super) const FENCES: usize = 2;

/// An exported function, as it is known before there is a context.
pub struct Export {
    /// Its name.
    pub name: String,
    /// True if there are arguments beside fences.
    pub takes_arguments: bool,
    /// True if there are results.
    pub returns_results: bool,
}

/// True for a function that takes a fence to wait for and one to signal.
pub(super) fn takes_fences(model: Option<&str>, arguments: &str) -> bool {
    model.and_then(InvocationModel::from_name) == Some(InvocationModel::CoarseFences) && ends_with_fences(arguments)
}

/// True if the last arguments, of which these are the letters, can be fences.
fn ends_with_fences(arguments: &str) -> bool {
    let is_reference = |letter: &char| Kind::from_letter(*letter) == Some(Kind::Ref);
    arguments.chars().rev().take(FENCES).filter(is_reference).count() == FENCES
}

/// A function of a session.
pub struct Function {
    /// Its name.
    pub name: String,
    /// The letters of all its arguments.
    pub(super) arguments: String,
    /// The letters of its results.
    pub results: String,
    /// How its source declares it.
    pub(super) declaration: Option<String>,
    pub(super) takes_fences: bool,
    pub(super) function: vm::Function,
}

impl Function {
    /// The letters of the arguments that the user gives. Fences are made, not given.
    pub fn given_arguments(&self) -> &str {
        let made = if self.takes_fences { FENCES } else { 0 };
        &self.arguments[..self.arguments.len() - made]
    }

    /// True if it takes a fence to wait for and one to signal.
    pub fn is_async(&self) -> bool {
        self.takes_fences
    }

    /// Its kind of benchmark.
    pub fn benchmark(&self) -> Benchmark {
        match self.function.attr(ReflectionAttribute::Benchmark.name()) {
            Some("dispatch") if self.arguments == Kind::I32.letter().to_string() => Benchmark::Dispatch,
            Some("entry") if self.given_arguments().is_empty() => Benchmark::Entry,
            _ => Benchmark::Unmarked,
        }
    }

    /// Adds the declaration of the function to a failure, as a hint.
    pub fn explain(&self, failure: Failure) -> Failure {
        match &self.declaration {
            Some(declaration) => failure.hint(format!("the function is `{declaration}`")),
            None => failure,
        }
    }
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
