//! The programs of a module (`--module=FILE`, `.vmfb`) on Vireo: `vireo_bench_harness` has the flags.
//!
//! Calls are typed, as those of the other runtimes are; `vireo benchmark` passes lists of values, as the tool of the
//! reference runtime does.

use vireo::interp::Limits;
pub use vireo::interp::Tier;
use vireo::vm::{Context, Module};
use vireo_bench_harness::{Answer, Call, Error, Program};

/// Finds a program for a command of the harness.
///
/// # Errors
/// There is no such file or function, or it has other types than the harness knows.
pub fn load(program: &Program, tier: Tier) -> Result<Call, Error> {
    let file = program.file.as_ref().ok_or("--module=FILE is missing")?;
    let context = Context::with_limits([Module::from_file(file)?], Limits { tier, ..Limits::default() })?;
    let function = context.function(&program.function)?;
    let Some(input) = program.input else {
        let function = function.typed::<(), ()>()?;
        return Ok(Box::new(move || {
            function.call(())?;
            Ok(Answer::Nothing)
        }));
    };
    if let Ok(function) = function.clone().typed::<i32, f32>() {
        return Ok(Box::new(move || Ok(Answer::F32(function.call(input)?))));
    }
    let function = function.typed::<i32, i32>()?;
    Ok(Box::new(move || Ok(Answer::I32(function.call(input)?))))
}
