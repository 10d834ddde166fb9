//! The text of random loops that divide their counter, sums of it and remainders by several numbers, so that strips are
//! rows, parts of rows, or rows that consist of others. They begin anywhere in a row. `nests` runs them.

use std::fmt::Write;

use super::program::{Random, SIGNATURE};

/// Where arguments are: a first number, a count, a stride, a distance, and divisors.
const FIRST: u32 = 0;
const COUNT: u32 = 2;
const STRIDE: u32 = 6;
const SHIFT: u32 = 8;
const DIVISORS: [u32; 2] = [10, 12];
/// Numbers of the loop: what it counts with, what that stays below, one, and zero.
const COUNTER: u32 = 20;
const BOUND: u32 = 22;
const ONE: u32 = 24;
const ZERO: u32 = 26;

struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    next: u32,
    /// Quotients, and remainders.
    quotients: Vec<u32>,
    remainders: Vec<u32>,
}

fn pair(register: u32) -> String {
    format!("%i{register}:{}", register + 1)
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "  {line}").expect("a string takes it");
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random.below(bound)
    }

    fn some(&mut self, all: &[u32]) -> u32 {
        all[self.random.below(all.len() as u64) as usize]
    }

    fn fresh(&mut self) -> u32 {
        self.next += 2;
        self.next - 2
    }

    fn constant(&mut self, value: u64) -> u32 {
        let into = self.fresh();
        self.line(&format!("{} = vm.const.i64 {value}", pair(into)));
        into
    }

    fn integer(&mut self, op: &str, args: &[u32]) -> u32 {
        let into = self.fresh();
        let args: Vec<String> = args.iter().copied().map(pair).collect();
        self.line(&format!("{} = vm.{op}.i64 {}", pair(into), args.join(", ")));
        into
    }

    /// A number that divides: mostly an argument or a multiple of it.
    fn divisor(&mut self) -> u32 {
        let argument = DIVISORS[self.below(4) as usize / 3];
        match self.below(6) {
            0 => {
                let value = [8, 16, 24, 32, 48, 64, 9, 4][self.below(8) as usize];
                self.constant(value)
            }
            1 => {
                let factor = [2, 3, 4, 1, 8, 0][self.below(6) as usize];
                let factor = self.constant(factor);
                self.integer("mul", &[argument, factor])
            }
            2 => self.integer("mul", &DIVISORS),
            _ => argument,
        }
    }

    /// A number that is divided: the counter, the sum of it and another one, or what another division left.
    fn dividend(&mut self) -> u32 {
        match self.below(8) {
            0 => self.some(&[self.quotients.clone(), vec![COUNTER]].concat()),
            1 | 2 => self.some(&[self.remainders.clone(), vec![COUNTER]].concat()),
            3 | 4 => {
                let value = self.below(40);
                let constant = self.constant(value);
                let by = self.some(&[constant, constant, STRIDE, SHIFT]);
                let op = ["add", "add", "add", "sub"][self.below(4) as usize];
                self.integer(op, &[COUNTER, by])
            }
            _ => COUNTER,
        }
    }

    /// A quotient and a remainder, which may be rounded toward negative infinity.
    fn divide(&mut self) {
        let (dividend, divisor) = (self.dividend(), self.divisor());
        let op = ["s", "s", "s", "u"][self.below(4) as usize];
        let [quotient, remainder] = ["div", "rem"].map(|what| self.division(what, op, dividend, divisor));
        if self.below(2) == 0 {
            let product = self.integer("mul", &[quotient, divisor]);
            let [differs, is_negative, by_negative] = [(); 3].map(|()| self.fresh());
            let [n, d, p, r, zero] = [dividend, divisor, product, remainder, ZERO].map(pair);
            self.line(&format!("%i{differs} = vm.cmp.ne.i64 {n}, {p}"));
            self.line(&format!("%i{is_negative} = vm.cmp.lt.i64.s {n}, {zero}"));
            self.line(&format!("%i{by_negative} = vm.cmp.lt.i64.s {d}, {zero}"));
            self.line(&format!("%i{is_negative} = vm.cmp.ne.i32 %i{is_negative}, %i{by_negative}"));
            self.line(&format!("%i{differs} = vm.and.i32 %i{differs}, %i{is_negative}"));
            let less = self.integer("sub", &[quotient, ONE]);
            let q = pair(quotient);
            self.line(&format!("{q} = vm.select.i64 %i{differs} ? {} : {q}", pair(less)));
            self.line(&format!("%i{differs} = vm.cmp.lt.i64.s {r}, {zero}"));
            let more = self.integer("add", &[remainder, divisor]);
            self.line(&format!("{r} = vm.select.i64 %i{differs} ? {} : {r}", pair(more)));
        }
        self.quotients.push(quotient);
        self.remainders.push(remainder);
    }

    fn division(&mut self, what: &str, sign: &str, dividend: u32, divisor: u32) -> u32 {
        let into = self.fresh();
        self.line(&format!("{} = vm.{what}.i64.{sign} {}, {}", pair(into), pair(dividend), pair(divisor)));
        into
    }

    /// An index: rows that are some numbers apart, and a column.
    fn index(&mut self) -> u32 {
        let columns = [self.remainders.clone(), vec![COUNTER]].concat();
        let mut index = if self.below(6) == 0 { ZERO } else { self.some(&columns) };
        for _ in 0..self.below(3) {
            let (quotients, distance) = (self.quotients.clone(), [8, 16, 40, 1][self.below(4) as usize]);
            let (row, distance) = (self.some(&quotients), self.constant(distance));
            index = self.integer("fma", &[row, distance, index]);
        }
        index
    }
}

/// A program of one loop.
pub fn parts(random: &mut Random) -> String {
    let text = format!("{SIGNATURE}\n^bb0:\n");
    let mut writer = Writer { random, text, next: 30, quotients: Vec::new(), remainders: Vec::new() };
    for (register, value) in [(ONE, 1), (ZERO, 0)] {
        writer.line(&format!("{} = vm.const.i64 {value}", pair(register)));
    }
    let start = match writer.below(3) {
        0 => FIRST,
        1 => ZERO,
        _ => {
            let value = writer.below(30);
            writer.constant(value)
        }
    };
    writer.line(&format!("{} = vm.add.i64 {}, {}", pair(COUNTER), pair(start), pair(ZERO)));
    let count = match writer.below(3) {
        0 => {
            let value = 8 + writer.below(90);
            writer.constant(value)
        }
        _ => COUNT,
    };
    writer.line(&format!("{} = vm.add.i64 {}, {}", pair(BOUND), pair(start), pair(count)));
    writer.line("%i18 = vm.const.i32.zero");
    writer.line("%i19 = vm.const.f32.zero");
    writer.line("vm.br ^bb1()\n^bb1:");
    writer.line(&format!("%i16 = vm.cmp.lt.i64.s {}, {}", pair(COUNTER), pair(BOUND)));
    writer.line("vm.cond_br %i16, ^bb2(), ^bb3()\n^bb2:");
    for _ in 0..1 + writer.below(4) {
        writer.divide();
    }
    let (from, quotients) = (writer.index(), writer.quotients.clone());
    let (quotient, value, number, buffer) =
        (writer.some(&quotients), writer.fresh(), writer.fresh(), 1 + writer.below(2));
    writer.line(&format!("%i{value} = vm.buffer.load.i32 %r{buffer}, {}", pair(from)));
    writer.line(&format!("%i{number} = vm.trunc.i64.i32 {}", pair(quotient)));
    writer.line(&format!("%i{value} = vm.add.i32 %i{value}, %i{number}"));
    let into = if writer.below(2) == 0 { writer.index() } else { COUNTER };
    writer.line(&format!("vm.buffer.store.i32 %i{value}, %r0, {}", pair(into)));
    writer.line(&format!("{0} = vm.add.i64 {0}, {1}", pair(COUNTER), pair(ONE)));
    writer.line("vm.br ^bb1()\n^bb3:");
    writer.line("vm.return %i18, %i19");
    writer.text.push_str("}\n");
    writer.text
}
