//! A program that runs one function of a bytecode module with the virtual machine alone: no devices, no compiler, no
//! archives.
//!
//! ```text
//! vireo-one-function fixtures/bench/vm.vmfb fib 20
//! ```

use std::process::ExitCode;

use vireo::vm::{Context, Kind, Module, Value};
use vireo::{Result, Status};

/// A result as a line of output.
fn show(value: &Value) -> String {
    match value {
        Value::I32(value) => value.to_string(),
        Value::I64(value) => value.to_string(),
        Value::F32(value) => value.to_string(),
        Value::F64(value) => value.to_string(),
        other => other.type_name().to_string(),
    }
}

/// Parses `text` as an argument of the kind that the function's convention has.
fn number(kind: Kind, text: &str) -> Result<Value> {
    let wrong = || Status::invalid_argument(format!("`{text}` is not a number of type `{}`", kind.letter()));
    Ok(match kind {
        Kind::I32 => Value::I32(text.parse().map_err(|_| wrong())?),
        Kind::I64 => Value::I64(text.parse().map_err(|_| wrong())?),
        Kind::F32 => Value::F32(text.parse().map_err(|_| wrong())?),
        Kind::F64 => Value::F64(text.parse().map_err(|_| wrong())?),
        Kind::Ref => return Err(Status::invalid_argument("the function takes a reference, which has no text here")),
    })
}

fn run(file: &str, name: &str, numbers: &[String]) -> Result<Vec<Value>> {
    let context = Context::new([Module::from_file(file)?])?;
    let function = context.function(name)?;
    let kinds = function.convention().fixed_args().unwrap_or_default();
    if kinds.len() != numbers.len() {
        let (takes, given) = (kinds.len(), numbers.len());
        return Err(Status::invalid_argument(format!("`{name}` takes {takes} arguments, {given} are given")));
    }
    let values = kinds.iter().zip(numbers).map(|(kind, text)| number(*kind, text)).collect::<Result<Vec<_>>>()?;
    function.call(&values)
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [file, name, numbers @ ..] = &arguments[..] else {
        eprintln!("usage: vireo-one-function MODULE.vmfb FUNCTION [NUMBER...]");
        return ExitCode::from(2);
    };
    match run(file, name, numbers) {
        Ok(results) => {
            results.iter().for_each(|result| println!("{}", show(result)));
            ExitCode::SUCCESS
        }
        Err(status) => {
            eprintln!("{status}");
            ExitCode::FAILURE
        }
    }
}
