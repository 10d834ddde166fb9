//! Random programs do the same under all dispatchers, of which one is machine code. `VIREO_PROGRAMS` sets how many there are, and
//! `VIREO_FIRST` the number of the first one. A program that does not is made smaller before it is shown.

#[path = "support/programs.rs"]
mod programs;

use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use programs::{Random, program};
use vireo::Result;
use vireo::asm::assemble;
use vireo::interp::{Dispatch, Limits};
use vireo::vm::{Context, Function, Module, Value};

const PROGRAMS: u64 = 400;
const ARGUMENTS: [[i32; 2]; 4] = [[0, 0], [1, 9], [100, -7], [i32::MIN, i32::MAX]];
// Machine code belongs to a module, so each way has a module of its own.
const WAYS: [Dispatch; 3] = [Dispatch::Loop, Dispatch::Threaded, Dispatch::Compiled];

/// What one way makes of all arguments: of each the values or the status, as text.
fn outcomes(bytes: &[u8], dispatch: Dispatch) -> Result<Vec<Result<String, String>>> {
    let context = Context::new([Module::from_bytes(bytes)?])?;
    let function: Function = context.function("f0")?;
    let run = |args: &[i32; 2]| {
        let fuel = Some(Arc::new(AtomicU64::new(6 << 10)));
        let limits = Limits { fuel, dispatch, stack_bytes: 1 << 14, ..Limits::default() };
        let result = function.call_with(&args.map(Value::I32), limits);
        result.map(|values| format!("{values:?}")).map_err(|status| status.to_string())
    };
    Ok(ARGUMENTS.iter().map(run).collect())
}

/// What differs between the ways, if anything does. Texts that are no program do not differ.
fn difference(text: &str) -> Option<String> {
    let bytes = assemble(text).ok()?;
    let expected = outcomes(&bytes, WAYS[0]).ok()?;
    WAYS[1..].iter().find_map(|dispatch| {
        let actual = outcomes(&bytes, *dispatch).ok()?;
        let index = (0..expected.len()).find(|index| actual[*index] != expected[*index])?;
        let (args, expected, actual) = (ARGUMENTS[index], &expected[index], &actual[index]);
        Some(format!("{dispatch:?} with {args:?}: {actual:?} instead of {expected:?}"))
    })
}

/// Leaves out whatever is not needed to see a difference.
fn reduced(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().collect();
    let mut length = lines.len() / 2;
    while length > 0 {
        let mut start = 0;
        while start + length <= lines.len() {
            let fewer = [&lines[..start], &lines[start + length..]].concat();
            if difference(&fewer.join("\n")).is_some() { lines = fewer } else { start += length }
        }
        length /= 2;
    }
    lines.join("\n")
}

#[test]
fn all_dispatchers_agree() {
    let setting = |name, default| std::env::var(name).map_or(default, |value| value.parse().unwrap());
    let (first, programs): (u64, u64) = (setting("VIREO_FIRST", 0), setting("VIREO_PROGRAMS", PROGRAMS));
    let (mut returned, mut failed) = (0, 0);
    for number in first..first + programs {
        let text = program(&mut Random((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("program {number}: {error}\n{text}"));
        let expected = outcomes(&bytes, WAYS[0]).unwrap_or_else(|status| panic!("program {number}: {status}\n{text}"));
        for dispatch in &WAYS[1..] {
            if outcomes(&bytes, *dispatch).ok().as_ref() != Some(&expected) {
                let small = reduced(&text);
                panic!("program {number}, {}:\n{small}", difference(&small).unwrap_or_default());
            }
        }
        failed += expected.iter().filter(|outcome| outcome.is_err()).count() as u64;
        returned += expected.iter().filter(|outcome| outcome.is_ok()).count() as u64;
    }
    println!("{returned} calls returned, {failed} failed");
    // Programs that all end in the same way would prove little.
    let mixed = returned > programs / 2 && failed > programs / 2;
    assert!(programs < 100 || mixed, "{returned} calls returned, {failed} failed");
}
