//! Random programs do the same under both dispatchers.
//!
//! The programs are loops more than anything else: blocks that branch back and forth at random, with copies, over a few registers that
//! are read soon after they are written. `VIREO_PROGRAMS` sets how many there are.

use std::fmt::Write;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

use vireo::asm::assemble;
use vireo::interp::{Dispatch, Limits};
use vireo::vm::{Context, Function, Module, Value};

const PROGRAMS: u64 = 400;

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_F491_4F6C_DD1D) >> 16) % bound
    }

    fn choose<'a>(&mut self, items: &[&'a str]) -> &'a str {
        items[self.below(items.len() as u64) as usize]
    }

    /// A register of 32 bits; the first ones are also halves of pairs.
    fn word(&mut self) -> u64 {
        self.below(8)
    }

    fn pair(&mut self) -> String {
        let low = self.below(3) * 2;
        format!("%i{low}:{}", low + 1)
    }
}

const BINARY: &[&str] = &["add", "sub", "mul", "and", "xor", "min", "max"];
const COMPARE: &[&str] = &["eq", "ne", "lt", "lt"];

fn sign(op: &str) -> &'static str {
    match op {
        "min" | "max" | "lt" => ".s",
        _ => "",
    }
}

fn instruction(random: &mut Random, functions: u64) -> String {
    let (a, b, c) = (random.word(), random.word(), random.word());
    match random.below(20) {
        0..7 => {
            let op = random.choose(BINARY);
            format!("%i{a} = vm.{op}.i32{} %i{b}, %i{c}", sign(op))
        }
        7..11 => {
            let op = random.choose(BINARY);
            let (a, b, c) = (random.pair(), random.pair(), random.pair());
            format!("{a} = vm.{op}.i64{} {b}, {c}", sign(op))
        }
        11 => format!("%i{a} = vm.const.i32 {}", random.below(5)),
        12 => format!("{} = vm.ext.i32.i64.s %i{b}", random.pair()),
        13 => format!("%i{a} = vm.trunc.i64.i32 {}", random.pair()),
        14 => format!("%i{a} = vm.select.i32 %i{b} ? %i{c} : %i{a}"),
        15 => format!("%i{a} = vm.div.i32.s %i{b}, %i{c}"),
        16 => format!("%i{a} = vm.cmp.nz.i32 %i{b}"),
        17 => format!("%i{a} = vm.buffer.load.i32 %r0, {}", random.pair()),
        18 => format!("vm.buffer.store.i32 %i{a}, %r0, {}", random.pair()),
        // An op that no handler runs, or a call.
        _ if random.below(2) == 0 => format!("%i{a} = vm.list.size %r1"),
        _ => format!("%i{a} = vm.call @f{}(%i{b}, %i{c})", random.below(functions)),
    }
}

fn copies(random: &mut Random) -> String {
    let count = [0, 0, 0, 1, 2, 3][random.below(6) as usize];
    let copies: Vec<String> = (0..count).map(|_| format!("%i{}->%i{}", random.word(), random.word())).collect();
    copies.join(", ")
}

fn function(random: &mut Random, number: u64, functions: u64) -> String {
    let mut text = format!("vm.func @f{number}(%i0: i32, %i1: i32) -> (i32) {{\n^bb0:\n");
    text.push_str("  %i4:5 = vm.const.i64 16\n  %i2 = vm.const.i32 1\n  %r0 = vm.buffer.alloc %i4:5, %i2\n");
    text.push_str("  %r1 = vm.list.alloc %i2 : !vm.list<i32>\n  vm.br ^bb1()\n");
    let blocks = 2 + random.below(5);
    for block in 1..=blocks {
        writeln!(text, "^bb{block}:").unwrap();
        for _ in 0..random.below(5) {
            writeln!(text, "  {}", instruction(random, functions)).unwrap();
        }
        let target = |random: &mut Random| {
            let target = 1 + random.below(blocks + 1);
            format!("^bb{target}({})", copies(random))
        };
        let (yes, no) = (target(random), target(random));
        match random.below(6) {
            0 => writeln!(text, "  vm.br {yes}").unwrap(),
            1 => writeln!(text, "  vm.cond_br %i{}, {yes}, {no}", random.word()).unwrap(),
            2 => {
                let (op, lhs, rhs) = (random.choose(COMPARE), random.pair(), random.pair());
                writeln!(text, "  %i8 = vm.cmp.{op}.i64{} {lhs}, {rhs}", sign(op)).unwrap();
                writeln!(text, "  vm.cond_br %i8, {yes}, {no}").unwrap();
            }
            _ => {
                let (op, lhs, rhs) = (random.choose(COMPARE), random.word(), random.word());
                let result = [8, 8, random.word()][random.below(3) as usize];
                writeln!(text, "  %i{result} = vm.cmp.{op}.i32{} %i{lhs}, %i{rhs}", sign(op)).unwrap();
                writeln!(text, "  vm.cond_br %i{result}, {yes}, {no}").unwrap();
            }
        }
    }
    writeln!(text, "^bb{}:\n  vm.return %i{}\n}}\n", blocks + 1, random.word()).unwrap();
    text
}

fn program(random: &mut Random) -> String {
    let functions = 1 + random.below(3);
    let mut text = String::from("vm.module @m version 0\nvm.type i32\nvm.type !vm.list<i32>\nvm.export @f0\n");
    for number in 0..functions {
        text.push_str(&function(random, number, functions));
    }
    text
}

#[test]
fn both_dispatchers_agree() {
    let programs = std::env::var("VIREO_PROGRAMS").map_or(PROGRAMS, |count| count.parse().unwrap());
    let (mut returned, mut failed) = (0, 0);
    for number in 0..programs {
        let text = program(&mut Random((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15)));
        let bytes = assemble(&text).unwrap_or_else(|error| panic!("program {number}: {error}\n{text}"));
        // Machine code belongs to a module, so each way has a module of its own.
        let ways = [Dispatch::Loop, Dispatch::Threaded, Dispatch::Compiled];
        let contexts = ways.map(|dispatch| {
            let context = Context::new([Module::from_bytes(&bytes).unwrap()]).unwrap();
            (dispatch, context.function("f0").unwrap())
        });
        for args in [[0, 0], [1, 9], [100, -7], [i32::MIN, i32::MAX]] {
            let run = |(dispatch, function): &(Dispatch, Function)| {
                let fuel = Some(Arc::new(AtomicU64::new(6 << 10)));
                let limits = Limits { fuel, dispatch: *dispatch, stack_bytes: 1 << 14, ..Limits::default() };
                let result = function.call_with(&args.map(Value::I32), limits);
                result.map(|values| format!("{values:?}")).map_err(|status| status.to_string())
            };
            let expected = run(&contexts[0]);
            for way in &contexts[1..] {
                assert_eq!(run(way), expected, "program {number} with {args:?}, {:?}:\n{text}", way.0);
            }
            if expected.is_ok() { returned += 1 } else { failed += 1 }
        }
    }
    // Programs that all end in the same way would prove little.
    assert!(returned > programs / 2 && failed > programs / 2, "{returned} calls returned, {failed} failed");
}
