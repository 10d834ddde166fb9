//! Runs a program in all ways there are: both dispatchers of the interpreter, and machine code.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use vireo::Result;
use vireo::interp::{Dispatch, Limits};
use vireo::vm::{Context, Module, Value};

/// What `f0` of a program is called with.
pub const ARGUMENTS: [[i32; 2]; 4] = [[0, 0], [1, 9], [100, -7], [i32::MIN, i32::MAX]];
// Machine code belongs to a module, so each way has a module of its own.
const WAYS: [Dispatch; 3] = [Dispatch::Loop, Dispatch::Threaded, Dispatch::Compiled];

/// Of each call the values or the status, as text.
pub type Outcomes = Vec<Result<String, String>>;

/// What one way makes of all arguments.
fn outcomes(bytes: &[u8], dispatch: Dispatch) -> Result<Outcomes> {
    let context = Context::new([Module::from_bytes(bytes)?])?;
    let function = context.function("f0")?;
    let run = |args: &[i32; 2]| {
        let fuel = Some(Arc::new(AtomicU64::new(6 << 10)));
        let limits = Limits { fuel, dispatch, stack_bytes: 1 << 14, ..Limits::default() };
        let result = function.call_with(&args.map(Value::I32), limits);
        result.map(|values| format!("{values:?}")).map_err(|status| status.to_string())
    };
    Ok(ARGUMENTS.iter().map(run).collect())
}

/// What all ways make of a program, or the first difference between them.
///
/// # Errors
/// What the bytes lack to be a program, in the way that comes first.
pub fn run_all_ways(bytes: &[u8]) -> Result<Result<Outcomes, String>> {
    let expected = outcomes(bytes, WAYS[0])?;
    let difference = WAYS[1..].iter().find_map(|dispatch| {
        let actual = match outcomes(bytes, *dispatch) {
            Ok(actual) if actual == expected => return None,
            Ok(actual) => actual,
            Err(status) => return Some(format!("{dispatch:?}: {status}")),
        };
        let index = (0..expected.len()).find(|index| actual[*index] != expected[*index])?;
        let (args, expected, actual) = (ARGUMENTS[index], &expected[index], &actual[index]);
        Some(format!("{dispatch:?} with {args:?}: {actual:?} instead of {expected:?}"))
    });
    Ok(difference.map_or(Ok(expected), Err))
}
