//! The float functions against recorded results of MPFR, in every dispatcher. `fixtures/math/record.py` describes the
//! record.

use std::fs;
use std::path::{Path, PathBuf};

use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{Context, Module, Value};

/// Functions that are within 0.5001 units in the last place; all others are correctly rounded.
const NEARLY_ROUNDED: [&str; 4] = ["exp.f32", "log.f32", "tanh.f32", "erf.f32"];

fn fixtures() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures")
}

/// Functions that take and return the bits of floats, one for each op: those of the golden corpus.
fn context(width: u32, dispatch: DispatchMode) -> Context {
    let module = |name: &str| Module::from_file(fixtures().join(format!("golden/{name}.vmfb"))).expect("it loads");
    let modules = [module("provider"), module(&format!("float{width}"))];
    Context::with_limits(modules, Limits { dispatch, ..Limits::default() }).expect("a context")
}

fn bits(text: &str) -> u64 {
    u64::from_str_radix(text, 16).expect("bits of a float")
}

/// How far apart two results are: neighbours among the floats of a sign by one.
fn distance(width: u32, expected: &str, actual: u64) -> u64 {
    let is_nan = match width {
        32 => f32::from_bits(actual as u32).is_nan(),
        _ => f64::from_bits(actual).is_nan(),
    };
    match expected {
        "nan" => {
            if is_nan {
                0
            } else {
                u64::MAX
            }
        }
        _ => bits(expected).abs_diff(actual),
    }
}

fn compare(width: u32) {
    let record = fs::read_to_string(fixtures().join("math/cases.txt")).expect("the record");
    let suffix = format!(".f{width}");
    for dispatch in [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled] {
        let context = context(width, dispatch);
        let (mut count, mut off) = (0, 0);
        for line in record.lines() {
            let mut words = line.split(' ');
            let op = words.next().expect("the op");
            if !op.ends_with(&suffix) {
                continue;
            }
            let mut operands: Vec<&str> = words.collect();
            let expected = operands.pop().expect("the result");
            let value = |text: &&str| match width {
                32 => Value::I32((bits(text) as u32).cast_signed()),
                _ => Value::I64(bits(text).cast_signed()),
            };
            let args: Vec<Value> = operands.iter().map(value).collect();
            let function = context.function(&format!("float{width}.{}", op.replace('.', "_"))).expect("the function");
            let actual = match function.call(&args).expect("no trap").as_slice() {
                [Value::I32(bits)] => u64::from(bits.cast_unsigned()),
                [Value::I64(bits)] => bits.cast_unsigned(),
                other => panic!("{line}: {other:?}"),
            };
            let apart = distance(width, expected, actual);
            assert!(
                apart == 0 || apart == 1 && NEARLY_ROUNDED.contains(&op),
                "{line} ({dispatch:?}): {actual:x}, {apart} apart"
            );
            count += 1;
            off += u32::from(apart != 0);
        }
        assert!(count > 1000 && off < 20, "{count} cases, {off} not the nearest float");
    }
}

#[test]
fn results_for_f64_are_correctly_rounded() {
    compare(64);
}

#[test]
fn results_for_f32_are_correctly_rounded() {
    compare(32);
}
