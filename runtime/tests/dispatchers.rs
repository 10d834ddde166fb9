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

/// A loop of `i1` turns, so that the interpreter looks at the limits at the call, and does it itself, for one of the arguments.
const BRANCHES_OF_THE_INTERPRETER: &str = "
vm.module @m version 0
vm.export @f0
vm.func @f0(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.const.i32 5
  %i3 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i1 = vm.sub.i32 %i1, %i3
  vm.cond_br %i1, ^bb1(), ^bb2()
^bb2:
  vm.cond_br %i0, ^bb3(), ^bb4()
^bb4:
  vm.br ^bb5()
^bb3:
  %i4 = vm.const.i32 7
  vm.cond_br %i0, ^bb5(%i4->%i2, %r0->%r1), ^bb5()
^bb5:
  %i5 = vm.call @g()
  %i2 = vm.add.i32 %i2, %i5
  vm.return %i2
}

vm.func @g() -> (i32) {
^bb0:
  %i0 = vm.const.i32 1
  vm.return %i0
}
";

#[test]
fn branches_of_the_interpreter_bring_values_of_their_own() {
    let context = Context::new([Module::from_bytes(&assemble(BRANCHES_OF_THE_INTERPRETER).unwrap()).unwrap()]).unwrap();
    let function = context.function("f0").unwrap();
    for (choice, expected) in [(0, 6), (1, 8)] {
        for turns in 1..3000 {
            let fuel = Some(Arc::new(AtomicU64::new(1 << 20)));
            let limits = Limits { fuel, dispatch: Dispatch::Compiled, ..Limits::default() };
            let values = function.call_with(&[Value::I32(choice), Value::I32(turns)], limits).unwrap();
            assert!(matches!(values.as_slice(), [Value::I32(value)] if *value == expected), "{turns}: {values:?}");
        }
    }
}
