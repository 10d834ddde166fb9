//! Random nests of loops, which have to leave memory as the interpreter does, whatever the buffers are and however
//! often the loops run. `VIREO_NESTS` sets how many there are, and `VIREO_FIRST` the number of the first one.

use std::sync::Arc;

use vireo::Fuel;
use vireo::asm::assemble;
use vireo::interp::loops::Outcome;
use vireo::interp::{CodeShape, DispatchMode, Limits, verify_between_passes};
use vireo::vm::{Buffer, Context, Function, Module, Obj, Value};

use super::bytes::{self, has_byte_lanes};
use super::has_lanes;
use super::moves::moves;
use super::parts::parts;
use super::pressure::{pressure, wide_pressure};
use super::products::product;
use super::program::{LENGTH, Random, product_of_strides, program};
use super::short_rows::short_rows;
use super::skip::{Need, skipped};
use super::wide::widened;

/// Which buffer each of the three is, and the numbers.
#[derive(Clone, Copy, Debug)]
struct Call {
    buffers: [usize; 3],
    numbers: [i64; 7],
}

impl Call {
    /// Whether a store to one buffer changes what is loaded from another, or from the same at other places.
    fn shares_memory(&self) -> bool {
        let [c, a, b] = self.buffers;
        c == a || c == b || a == b || self.buffers.contains(&3)
    }
}

fn call(random: &mut Random, divisors: &mut Random) -> Call {
    let counts = [0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 40, 64, 70];
    let mut number = || counts[random.below(counts.len() as u64) as usize];
    let bounds = [number(), number(), number()];
    let stride = [0, 1, 2, 8, 33, 40, -1][random.below(7) as usize];
    let shift = [0, 0, 1, 4, 100, 400, LENGTH as i64 - 20, -2][random.below(8) as usize];
    // Some share memory: all of it, or from the middle of a vector on.
    let divisor_of = [8, 9, 10, 16, 17, 24, 33, 40, 64, 7, 1, 0, -1, -9, i64::MAX, i64::MIN];
    let mut divisor = || divisor_of[divisors.below(divisor_of.len() as u64) as usize];
    let buffers = [[0, 1, 2], [0, 1, 2], [0, 1, 2], [0, 0, 1], [0, 1, 0], [0, 3, 1], [3, 0, 0]];
    Call {
        buffers: buffers[random.below(buffers.len() as u64) as usize],
        numbers: [bounds[0], bounds[1], bounds[2], stride, shift, divisor(), divisor()],
    }
}

fn buffers() -> Vec<Obj<Buffer>> {
    let fill = |seed: u64| {
        let value = |index: u64| ((index * seed) % 23) as f32 / 4.0 - 2.5;
        let bytes: Vec<u8> = (0..LENGTH).flat_map(|index| value(index).to_le_bytes()).collect();
        Obj::new(Buffer::copy_of(&bytes).expect("there is memory"))
    };
    let mut all: Vec<Obj<Buffer>> = [3, 5, 11].map(fill).into();
    all.push(view(&all[0], 20, true));
    all
}

/// A view of a buffer from an offset on.
pub fn view(of: &Obj<Buffer>, offset: usize, is_mutable: bool) -> Obj<Buffer> {
    assert!(offset < of.len(), "it is inside");
    let (data, whole) = (of.as_ptr(), Arc::new(of.clone()));
    // SAFETY: the view holds the buffer, and ends where that does.
    let view = unsafe {
        let data = std::ptr::NonNull::new(data.add(offset)).expect("it is inside");
        Buffer::from_shared(whole, data, of.len() - offset, is_mutable)
    };
    Obj::new(view)
}

/// The words of each NaN of 64 bits in outcomes.
const WIDE_NAN: [u32; 2] = [0, 0x7FF8_0000];

/// The outcome of a call within this fuel: the values by their bits, except that NaNs are alike, the fuel that it used,
/// and memory likewise.
fn outcome(function: &Function, call: Call, fuel: u64, dispatch: DispatchMode) -> (String, Vec<u32>) {
    let buffers = buffers();
    let mut args: Vec<Value> =
        call.buffers.iter().map(|index| Value::Ref(Some(buffers[*index].clone().into_ref()))).collect();
    args.extend(call.numbers.map(Value::I64));
    let fuel = Fuel::new(fuel);
    let result = function.call_with(&args, Limits { dispatch, fuel: Some(fuel.clone()), ..Limits::default() });
    let result = result.map(|values| format!("{values:?}")).unwrap_or_else(|status| status.to_string());
    let result = format!("{result} with {} steps", fuel.used());
    let words = buffers[..3].iter().flat_map(|buffer| {
        let raw = buffer.to_vec();
        let raw: Vec<u32> = raw.as_chunks().0.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let mut words = raw.clone();
        for word in words.iter_mut().filter(|word| f32::from_bits(**word).is_nan()) {
            *word = f32::NAN.to_bits();
        }
        // Wherever an `f64` may be. One whose upper half is a NaN of 32 bits need not be one.
        for (at, pair) in raw.windows(2).enumerate() {
            if f64::from_bits(u64::from(pair[1]) << 32 | u64::from(pair[0])).is_nan() {
                words[at..at + 2].copy_from_slice(&WIDE_NAN);
            }
        }
        words
    });
    (result.replace("-NaN", "NaN"), words.collect())
}

/// Runs what `write` writes for the numbers `first..first + count`, with vectors of eight lanes and with those of
/// sixteen. It gets random numbers, and others for divisions.
fn run(write: fn(&mut Random, &mut Random) -> String, first: u64, count: u64) {
    if !has_lanes(16) {
        skipped(Need::Processor("avx512dq"), "there are no vectors of sixteen lanes");
    }
    let (widths, mut returned, mut left_out) = ([8, 16], 0, 0);
    for number in first..first + count {
        let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut divisors = Random(number.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
        let text = write(&mut random, &mut divisors);
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("program {number}: {error}\n{text}"));
        let context = |max_lanes| {
            let mut module = Module::from_bytes(&bytes).expect("it is a module");
            let osr_entries = number.is_multiple_of(2);
            module.set_code_shape(CodeShape { max_lanes, osr_entries, ..CodeShape::default() });
            Context::new([module]).expect("it imports nothing")
        };
        let interpreted = context(0);
        let compiled = widths.map(|lanes| (lanes, context(lanes)));
        for _ in 0..8 {
            let call = call(&mut random, &mut divisors);
            // Some run out of it in the middle of a loop.
            let fuel = [u64::MAX, u64::MAX, random.below(100), random.below(10_000)][random.below(4) as usize];
            let expected = outcome(&interpreted.function("f").expect("it is exported"), call, fuel, DispatchMode::Loop);
            returned += u64::from(expected.0.starts_with('['));
            // Half of a NaN of 64 bits may be a number for a load of something else, or from another place, and no tier
            // promises the bits of a NaN.
            if text.contains("f64") && call.shares_memory() && has_wide_nan(&expected.1) {
                left_out += 1;
                continue;
            }
            for (lanes, context) in &compiled {
                let function = context.function("f").expect("it is exported");
                let actual = outcome(&function, call, fuel, DispatchMode::Compiled);
                let what = format!("program {number} with {lanes} lanes, {fuel} steps and {call:?}");
                compare(&expected, &actual, &what, &text);
            }
        }
    }
    assert!(left_out * 4 <= count * 8, "{left_out} calls of {count} programs have numbers that no tier promises");
    assert!(count < 10 || returned > count, "only {returned} calls returned");
}

/// Whether memory has a NaN as [`outcome`] writes those of 64 bits.
fn has_wide_nan(words: &[u32]) -> bool {
    words.windows(2).any(|pair| pair == WIDE_NAN)
}

/// Fails if a call of `what` with this text did not end as expected.
fn compare(expected: &(String, Vec<u32>), actual: &(String, Vec<u32>), what: &str, text: &str) {
    assert_eq!(actual.0, expected.0, "{what}\n{text}");
    let first = expected.1.iter().zip(&actual.1).position(|(a, b)| a != b);
    if let Some(at) = first {
        let (buffer, element) = (at as u64 / LENGTH, at as u64 % LENGTH);
        let [a, b] = [expected.1[at], actual.1[at]].map(f32::from_bits);
        panic!("{what}: buffer {buffer}[{element}] is {b:?}, not {a:?}\n{text}");
    }
}

/// A number from the environment.
fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// How many nests a test runs: `usual` ones in optimised builds, where CI runs these tests as well, and a sixth of them
/// in others, in which each takes ten times as long.
fn nests(usual: u64) -> u64 {
    number("VIREO_NESTS", if cfg!(debug_assertions) { usual / 6 } else { usual })
}

#[test]
fn random_products_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    run(|random, _| product(random), number("VIREO_FIRST", 0), nests(150));
    // The outer loop of this one is known to make a single iteration, after its test.
    run(|random, _| product(random), 3120, 1);
}

#[test]
fn random_products_of_strides_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    run(|random, _| product_of_strides(random), number("VIREO_FIRST", 0), nests(60));
}

#[test]
fn random_nests_that_move_their_stores_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    run(|random, _| moves(random), number("VIREO_FIRST", 0), nests(150));
}

#[test]
fn random_short_rows_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    run(|random, _| short_rows(random), number("VIREO_FIRST", 0), nests(300));
    let write = |random: &mut Random, wide: &mut Random| widened(&short_rows(random), Some(wide));
    run(write, number("VIREO_FIRST", 0), nests(150));
}

/// How many of the first programs have a loop that became one with those around it.
#[test]
fn many_random_short_rows_become_one_loop() {
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors of eight lanes");
    }
    let collapses = |number: &u64| {
        let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let bytes = assemble(&short_rows(&mut random)).expect("it is a program");
        let mut module = Module::from_bytes(&bytes).expect("it is a module");
        module.set_code_shape(CodeShape { osr_entries: false, ..CodeShape::default() });
        let decisions = module.loop_decisions(0).expect("it is a function").unwrap_or_default();
        decisions.iter().any(|decision| matches!(decision.outcome, Outcome::Collapsed { .. }))
    };
    let count = (0..100).filter(collapses).count();
    assert!(count >= 15, "only {count} of a hundred programs");
}

#[test]
fn random_nests_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let write = |random: &mut Random, _: &mut Random| program(random, None, None);
    run(write, number("VIREO_FIRST", 0), nests(150));
    // Of these, one ran an iteration too many after vectors of which none were left, and one moved a vector over a part
    // of another one.
    [51245, 226923].iter().for_each(|number| run(write, *number, 1));
}

#[test]
fn random_nests_that_divide_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let write =
        |random: &mut Random, divisors: &mut Random| program(random, Some(Random(divisors.below(1 << 31))), None);
    run(write, number("VIREO_FIRST", 0), nests(150));
    // In these, strips were parts of rows, and each counted as a whole one.
    [964, 900_023].iter().for_each(|number| run(write, *number, 1));
}

#[test]
fn random_parts_of_rows_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    run(|random, _| parts(random), number("VIREO_FIRST", 0), nests(300));
}

#[test]
fn random_nests_of_narrow_elements_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let write = |random: &mut Random, narrow: &mut Random| program(random, None, Some(Random(narrow.below(1 << 31))));
    run(write, number("VIREO_FIRST", 0), nests(150));
}

#[test]
fn random_loops_of_many_values_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    run(|random, _| pressure(random), number("VIREO_FIRST", 0), nests(300));
    run(|random, _| wide_pressure(random), number("VIREO_FIRST", 0), nests(300));
}

#[test]
fn random_nests_of_bytes_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    run(|random, _| bytes::program(random), number("VIREO_FIRST", 0), nests(300));
}

#[test]
fn many_random_nests_have_lanes_of_bytes() {
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors of bytes");
    }
    let text = |number: u64| bytes::program(&mut Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1));
    let count = (0..100).filter(|number| has_byte_lanes(&text(*number), 8)).count();
    assert!(count >= 25, "only {count} of a hundred programs");
}

#[test]
fn random_wide_products_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let write = |random: &mut Random, wide: &mut Random| widened(&product(random), Some(wide));
    run(write, number("VIREO_FIRST", 0), nests(150));
    run(|random, _| widened(&product(random), None), number("VIREO_FIRST", 0), nests(60));
}

#[test]
fn random_wide_products_of_strides_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let write = |random: &mut Random, wide: &mut Random| widened(&product_of_strides(random), Some(wide));
    run(write, number("VIREO_FIRST", 0), nests(100));
}

#[test]
fn random_wide_nests_that_move_their_stores_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let write = |random: &mut Random, wide: &mut Random| widened(&moves(random), Some(wide));
    run(write, number("VIREO_FIRST", 0), nests(100));
}

#[test]
fn random_wide_nests_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let write = |random: &mut Random, wide: &mut Random| widened(&program(random, None, None), Some(wide));
    run(write, number("VIREO_FIRST", 0), nests(300));
}

/// The program, in which some loops make a few iterations, as many as the text says.
fn with_short_loops(text: &str, random: &mut Random) -> String {
    let mut bounds = String::new();
    for bound in [0, 2, 4] {
        if random.below(2) == 0 {
            bounds += &format!("  %i{bound}:{} = vm.const.i64 {}\n", bound + 1, 1 + random.below(5));
        }
    }
    let entry = text.find("  vm.br ").expect("there is a loop");
    format!("{}{bounds}{}", &text[..entry], &text[entry..])
}

#[test]
fn short_loops_in_random_nests_leave_memory_as_the_interpreter_does() {
    verify_between_passes();
    let (first, count) = (number("VIREO_FIRST", 0), nests(60));
    run(|random, other| with_short_loops(&program(random, None, None), other), first, count);
    run(
        |random, other| with_short_loops(&program(random, None, Some(Random(other.below(1 << 31)))), other),
        first,
        count,
    );
    run(|random, other| with_short_loops(&product(random), other), first, count);
    run(|random, other| with_short_loops(&moves(random), other), first, count);
    run(|random, other| with_short_loops(&bytes::program(random), other), first, count);
    run(|random, other| with_short_loops(&widened(&program(random, None, None), Some(other)), other), first, count);
}

/// How many of the first programs load or store vectors of 64-bit lanes.
fn with_wide_lanes(write: fn(&mut Random, &mut Random) -> String, count: u64) -> usize {
    let has_vectors = |number: &u64| {
        let mut random = Random(number.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        let mut wide = Random(number.wrapping_mul(0xD134_2543_DE82_EF95) | 1);
        let bytes = assemble(&write(&mut random, &mut wide)).expect("it is a program");
        let mut module = Module::from_bytes(&bytes).expect("it is a module");
        module.set_code_shape(CodeShape { max_lanes: 8, ..CodeShape::default() });
        let Ok(Some(compiled)) = module.compiled(0) else { return false };
        let is_wide = |text: &str| {
            ["LoadLanes(Load", "StoreLanes(Store"]
                .iter()
                .any(|access| text.contains(&format!("{access}F64")) || text.contains(&format!("{access}I64")))
        };
        compiled.parts.iter().any(|part| is_wide(&part.text))
    };
    (0..count).filter(has_vectors).count()
}

#[test]
fn many_random_nests_have_wide_lanes() {
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors of four lanes");
    }
    let products = with_wide_lanes(|random, wide| widened(&product(random), Some(wide)), 40);
    let strides = with_wide_lanes(|random, wide| widened(&product_of_strides(random), Some(wide)), 40);
    let moved = with_wide_lanes(|random, wide| widened(&moves(random), Some(wide)), 40);
    let others = with_wide_lanes(|random, wide| widened(&program(random, None, None), Some(wide)), 40);
    let divided = with_wide_lanes(|random, _| wide_pressure(random), 40);
    let all = [products, strides, moved, others, divided];
    assert!(all.iter().all(|count| *count >= 5), "only {all:?} of forty programs");
}
