//! The text of random programs, each a nest of loops over three buffers. `nests` runs them.

use std::fmt::Write;

/// Random numbers that are the same each time.
pub struct Random(pub u64);

impl Random {
    /// A number below `bound`.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) % bound
    }
}

/// Elements of a buffer.
pub const LENGTH: u64 = 1200;
/// Where the loop's numbers are: what each loop counts with, and what it stays below.
const COUNTERS: [u32; 3] = [20, 22, 24];
const BOUNDS: [u32; 3] = [0, 2, 4];
/// More arguments: a stride, and a distance.
const STRIDE: u32 = 6;
const SHIFT: u32 = 8;
/// Where the arguments are that counters are divided by.
const DIVISORS: [u32; 2] = [26, 28];

/// How each text begins: all functions take the same arguments.
pub const SIGNATURE: &str = "vm.module @m version 0
vm.type i32
vm.type f32
vm.type i64
vm.type !vm.buffer

vm.export @f
vm.func @f(%r0: !vm.buffer, %r1: !vm.buffer, %r2: !vm.buffer, %i0:1: i64, %i2:3: i64, %i4:5: i64, %i6:7: i64, %i8:9: i64, %i10:11: i64, %i12:13: i64) -> (i32, f32) {";

/// Writes one program.
struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    /// Registers of `f32` and `i32` that hold something.
    floats: Vec<u32>,
    ints: Vec<u32>,
    next: u32,
    loops: usize,
    counts: [(u64, bool); 3],
    /// The source of choices about divisions, if there are any: the rest of a program does not depend on it.
    divisions: Option<Random>,
    /// The source of choices about narrow elements, conversions and divisions of lanes, likewise.
    narrow: Option<Random>,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "  {line}").expect("a string takes it");
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    fn pair(&mut self) -> u32 {
        self.next = self.next.next_multiple_of(2) + 2;
        self.next - 2
    }

    /// A number below `bound` that decides about divisions.
    fn choice(&mut self, bound: u64) -> u64 {
        self.divisions.as_mut().map_or(0, |random| random.below(bound))
    }

    /// A number below `bound` that decides about narrow elements.
    fn narrow_choice(&mut self, bound: u64) -> u64 {
        self.narrow.as_mut().map_or(0, |random| random.below(bound))
    }

    /// A narrow type, and how it is extended.
    fn narrow_type(&mut self) -> (&'static str, &'static str) {
        (["i8", "i16"][self.narrow_choice(2) as usize], ["s", "u"][self.narrow_choice(2) as usize])
    }

    /// Converts, extends or rounds a value, or divides an integer by one that is mostly the same in all iterations.
    fn convert(&mut self) {
        let (int, float, into) = (self.some("i32"), self.some("f32"), self.fresh());
        let (narrow, sign) = self.narrow_type();
        let line = match self.narrow_choice(8) {
            0 => format!("%i{into} = vm.cast.f32.{sign}i32 %i{float}"),
            1 => format!("%i{into} = vm.ext.{narrow}.i32.{sign} %i{int}"),
            2 | 3 => {
                let op = ["ceil.f32", "floor.f32", "round.f32", "round.f32.even"][self.narrow_choice(4) as usize];
                self.line(&format!("%i{into} = vm.{op} %i{float}"));
                return self.floats.push(into);
            }
            4 => {
                // Beyond what fits an integer.
                let (factor, product) = (self.fresh(), self.fresh());
                let by = ["3e9", "1e18", "inf", "1.75", "16777216.0"][self.narrow_choice(5) as usize];
                self.line(&format!("%i{factor} = vm.const.f32 {by}"));
                self.line(&format!("%i{product} = vm.mul.f32 %i{float}, %i{factor}"));
                self.floats.push(product);
                format!("%i{into} = vm.cast.f32.{sign}i32 %i{product}")
            }
            _ => {
                let divisor = self.fresh();
                let constants = [7, 1, 2, 3, 10, 641, -3, -7, 65537, 2147483647, -2147483648, -1, 0];
                match self.narrow_choice(4) {
                    0 => self.line(&format!("%i{divisor} = vm.trunc.i64.i32 %i{}:{}", DIVISORS[0], DIVISORS[0] + 1)),
                    1 if self.narrow_choice(4) == 0 => self.line(&format!("%i{divisor} = vm.or.i32 %i{int}, %i{int}")),
                    _ => {
                        let constant = constants[self.narrow_choice(constants.len() as u64) as usize];
                        self.line(&format!("%i{divisor} = vm.const.i32 {constant}"));
                    }
                }
                let op = ["div", "rem"][self.narrow_choice(2) as usize];
                format!("%i{into} = vm.{op}.i32.{sign} %i{int}, %i{divisor}")
            }
        };
        self.line(&line);
        self.ints.push(into);
    }

    /// Stores the lower part of an integer, or what comes of it and the element.
    fn finish_narrow(&mut self) {
        let (narrow, sign) = self.narrow_type();
        let mut value = self.some("i32");
        let (is_carried, buffer) = (self.narrow_choice(2) == 0, self.narrow_choice(2));
        let index = self.index(!is_carried);
        if is_carried {
            let (old, new) = (self.fresh(), self.fresh());
            let op = ["max.i32.s", "min.i32.u", "add.i32", "xor.i32", "fma.i32"][self.narrow_choice(5) as usize];
            let more = if op == "fma.i32" { format!(", %i{old}") } else { String::new() };
            self.line(&format!("%i{old} = vm.buffer.load.{narrow}.{sign} %r{buffer}, %i{index}:{}", index + 1));
            self.line(&format!("%i{new} = vm.{op} %i{old}, %i{value}{more}"));
            value = new;
        }
        self.line(&format!("vm.buffer.store.{narrow} %i{value}, %r{buffer}, %i{index}:{}", index + 1));
    }

    /// A divisor: an argument, or a constant.
    fn divisor(&mut self) -> u32 {
        if self.choice(2) == 0 {
            return DIVISORS[self.choice(2) as usize];
        }
        let constants = [0_i64, 1, 2, 7, 8, 9, 10, 16, 17, 24, 33, 64, -8, i64::MAX, i64::MIN];
        let (into, value) = (self.pair(), constants[self.choice(15) as usize]);
        self.line(&format!("%i{into}:{} = vm.const.i64 {value}", into + 1));
        into
    }

    /// The quotient and the remainder of a number, of `i64` that have a sign or none; some are rounded toward negative
    /// infinity.
    fn divide(&mut self, number: u32) -> [u32; 2] {
        let (divisor, sign) = (self.divisor(), ["s", "s", "s", "u"][self.choice(4) as usize]);
        let [quotient, product, less, remainder, sum] = [(); 5].map(|()| self.pair());
        let [differs, number_sign, divisor_sign, corrects] = [(); 4].map(|()| self.fresh());
        let pair = |register: u32| format!("%i{register}:{}", register + 1);
        let [n, d, q, p, l, r, a] = [number, divisor, quotient, product, less, remainder, sum].map(pair);
        self.line(&format!("{q} = vm.div.i64.{sign} {n}, {d}"));
        self.line(&format!("{r} = vm.rem.i64.{sign} {n}, {d}"));
        if self.choice(2) == 0 {
            self.line(&format!("{p} = vm.mul.i64 {q}, {d}"));
            self.line(&format!("%i{differs} = vm.cmp.ne.i64 {n}, {p}"));
            self.line(&format!("%i{number_sign} = vm.cmp.lt.i64.s {n}, %i10:11"));
            self.line(&format!("%i{divisor_sign} = vm.cmp.lt.i64.s {d}, %i10:11"));
            self.line(&format!("%i{corrects} = vm.cmp.ne.i32 %i{number_sign}, %i{divisor_sign}"));
            self.line(&format!("%i{corrects} = vm.and.i32 %i{differs}, %i{corrects}"));
            self.line(&format!("{l} = vm.sub.i64 {q}, %i12:13"));
            self.line(&format!("{q} = vm.select.i64 %i{corrects} ? {l} : {q}"));
            self.line(&format!("%i{number_sign} = vm.cmp.lt.i64.s {r}, %i10:11"));
            self.line(&format!("{a} = vm.add.i64 {r}, {d}"));
            self.line(&format!("{r} = vm.select.i64 %i{number_sign} ? {a} : {r}"));
        }
        [quotient, remainder]
    }

    /// A counter as it is, or delinearised: quotients and remainders of it, with strides.
    fn position(&mut self, counter: u32) -> u32 {
        if self.divisions.is_none() || self.choice(3) == 0 {
            return counter;
        }
        let mut number = counter;
        if self.choice(3) == 0 {
            number = self.pair();
            let by = [SHIFT, STRIDE, 14][self.choice(3) as usize];
            self.line(&format!(
                "%i{number}:{} = vm.add.i64 %i{counter}:{}, %i{by}:{}",
                number + 1,
                counter + 1,
                by + 1
            ));
        }
        let [quotient, remainder] = self.divide(number);
        let (mut high, mut low) = (quotient, remainder);
        match self.choice(6) {
            0 => [high, low] = self.divide(remainder),
            1 => [_, high] = self.divide(quotient),
            2 => [_, low] = self.divide(number),
            3 => return [high, low][self.choice(2) as usize],
            _ => {}
        }
        let (into, factor) = (self.pair(), [STRIDE, 12, 14, DIVISORS[0]][self.choice(4) as usize]);
        self.line(&format!(
            "%i{into}:{} = vm.fma.i64 %i{high}:{}, %i{factor}:{}, %i{low}:{}",
            into + 1,
            high + 1,
            factor + 1,
            low + 1
        ));
        into
    }

    /// An index: what some of the loops count with, times constants or an argument, and a constant.
    fn index(&mut self, innermost: bool) -> u32 {
        let into = self.pair();
        let last = COUNTERS[self.loops - 1];
        let mut has_any = false;
        if innermost || !self.random.below(4).eq(&0) {
            let last = self.position(last);
            self.line(&format!("%i{into}:{} = vm.add.i64 %i{last}:{}, %i10:11", into + 1, last + 1));
            has_any = true;
        }
        for own in COUNTERS.into_iter().take(self.loops - 1) {
            if self.random.below(3) == 0 {
                continue;
            }
            let factor = [STRIDE, 12, 14][self.random.below(3) as usize];
            let addend = if has_any { into } else { 10 };
            self.line(&format!(
                "%i{into}:{} = vm.fma.i64 %i{own}:{}, %i{factor}:{}, %i{addend}:{}",
                into + 1,
                own + 1,
                factor + 1,
                addend + 1
            ));
            has_any = true;
        }
        if !has_any {
            self.line(&format!("%i{into}:{} = vm.add.i64 %i10:11, %i14:15", into + 1));
        }
        if self.random.below(3) == 0 {
            self.line(&format!("%i{into}:{} = vm.add.i64 %i{into}:{}, %i{SHIFT}:{}", into + 1, into + 1, SHIFT + 1));
        }
        into
    }

    fn some(&mut self, of: &str) -> u32 {
        let all = if of == "f32" { &self.floats } else { &self.ints };
        all[self.random.below(all.len() as u64) as usize]
    }

    fn compute(&mut self) {
        if self.narrow_choice(2) == 1 {
            return self.convert();
        }
        let of = if self.random.below(3) > 0 { "f32" } else { "i32" };
        let (a, b, c) = (self.some(of), self.some(of), self.some(of));
        let into = self.fresh();
        let float = of == "f32";
        match self.random.below(8) {
            0 => self.line(&format!("%i{into} = vm.fma.{of} %i{a}, %i{b}, %i{c}")),
            1 => {
                let test = self.fresh();
                let compare = if float {
                    ["lt.f32.o", "lt.f32.u", "lte.f32.o", "eq.f32.u", "ne.f32.o"][self.random.below(5) as usize]
                } else {
                    ["lt.i32.s", "lt.i32.u", "eq.i32", "ne.i32"][self.random.below(4) as usize]
                };
                self.line(&format!("%i{test} = vm.cmp.{compare} %i{a}, %i{b}"));
                self.line(&format!("%i{into} = vm.select.{of} %i{test} ? %i{c} : %i{a}"));
                self.ints.push(test);
            }
            2 if float => {
                let op = ["exp", "tanh", "abs", "neg", "sqrt"][self.random.below(5) as usize];
                self.line(&format!("%i{into} = vm.{op}.f32 %i{a}"));
            }
            2 => {
                let amount = self.fresh();
                let op = ["shl.i32", "shr.i32.s", "shr.i32.u"][self.random.below(3) as usize];
                let by = self.random.below(40);
                self.line(&format!("%i{amount} = vm.const.i32 {by}"));
                self.line(&format!("%i{into} = vm.{op} %i{a}, %i{amount}"));
            }
            _ => {
                let op = if float {
                    ["add.f32", "sub.f32", "mul.f32", "div.f32", "min.f32", "max.f32"][self.random.below(6) as usize]
                } else {
                    ["add.i32", "sub.i32", "mul.i32", "and.i32", "xor.i32", "min.i32.s", "max.i32.u"]
                        [self.random.below(7) as usize]
                };
                self.line(&format!("%i{into} = vm.{op} %i{a}, %i{b}"));
            }
        }
        if float { self.floats.push(into) } else { self.ints.push(into) }
    }

    fn load(&mut self, innermost: bool) {
        let index = self.index(innermost);
        let (buffer, into) = (self.random.below(3), self.fresh());
        match self.random.below(5) {
            0 => {
                self.line(&format!("%i{into} = vm.buffer.load.i32 %r{buffer}, %i{index}:{}", index + 1));
                self.ints.push(into);
            }
            1 => {
                let kind = ["i8.s", "i8.u", "i16.s", "i16.u"][self.random.below(4) as usize];
                self.line(&format!("%i{into} = vm.buffer.load.{kind} %r{buffer}, %i{index}:{}", index + 1));
                self.ints.push(into);
            }
            _ => {
                self.line(&format!("%i{into} = vm.buffer.load.f32 %r{buffer}, %i{index}:{}", index + 1));
                self.floats.push(into);
            }
        }
    }

    /// Adds to an element, or to what is carried in registers, or stores what was computed.
    fn finish(&mut self) {
        if self.narrow_choice(3) > 0 {
            return self.finish_narrow();
        }
        match self.random.below(4) {
            0 => {
                let index = self.index(false);
                let (old, value) = (self.fresh(), self.some("f32"));
                let sum = self.fresh();
                self.line(&format!("%i{old} = vm.buffer.load.f32 %r0, %i{index}:{}", index + 1));
                let op = ["add", "max"][self.random.below(2) as usize];
                self.line(&format!("%i{sum} = vm.{op}.f32 %i{old}, %i{value}"));
                self.line(&format!("vm.buffer.store.f32 %i{sum}, %r0, %i{index}:{}", index + 1));
            }
            1 => {
                let value = self.some("i32");
                self.line(&format!("%i18 = vm.add.i32 %i18, %i{value}"));
            }
            2 => {
                let value = self.some("f32");
                self.line(&format!("%i19 = vm.add.f32 %i19, %i{value}"));
            }
            _ => {
                let index = self.index(true);
                let (of, buffer) = (["f32", "f32", "i32"][self.random.below(3) as usize], self.random.below(2));
                let value = self.some(of);
                self.line(&format!("vm.buffer.store.{of} %i{value}, %r{buffer}, %i{index}:{}", index + 1));
            }
        }
    }

    /// Loop number `depth` and those inside. `at` is the number of its blocks.
    fn nest(&mut self, depth: usize) {
        let (counter, (start, is_first)) = (COUNTERS[depth], self.counts[depth]);
        let bound = BOUNDS[depth];
        let (head, body, after) = (depth * 3 + 1, depth * 3 + 2, depth * 3 + 3);
        self.line(&format!("%i{counter}:{} = vm.const.i64 {start}", counter + 1));
        let test = format!("%i16 = vm.cmp.lt.i64.s %i{counter}:{}, %i{bound}:{}", counter + 1, bound + 1);
        self.line(&format!("vm.br ^bb{head}()"));
        writeln!(self.text, "^bb{head}:").expect("a string takes it");
        if is_first {
            self.line(&test);
            self.line(&format!("vm.cond_br %i16, ^bb{body}(), ^bb{after}()"));
            writeln!(self.text, "^bb{body}:").expect("a string takes it");
        }
        let kept = (self.floats.len(), self.ints.len());
        self.loops = depth + 1;
        if depth + 1 < self.counts.len() && self.counts[depth + 1].0 != u64::MAX {
            if self.random.below(2) == 0 {
                self.load(false);
                self.compute();
            }
            self.nest(depth + 1);
            self.loops = depth + 1;
            if self.random.below(2) == 0 {
                self.finish();
            }
        } else {
            for _ in 0..1 + self.random.below(3) {
                self.load(true);
            }
            for _ in 0..self.random.below(5) {
                self.compute();
            }
            for _ in 0..1 + self.random.below(2) {
                self.finish();
            }
        }
        // A value that a loop computes which may not run is not known after it.
        self.floats.truncate(kept.0);
        self.ints.truncate(kept.1);
        self.line(&format!("%i{counter}:{} = vm.add.i64 %i{counter}:{}, %i12:13", counter + 1, counter + 1));
        if is_first {
            self.line(&format!("vm.br ^bb{head}()"));
        } else {
            self.line(&test);
            self.line(&format!("vm.cond_br %i16, ^bb{head}(), ^bb{after}()"));
        }
        writeln!(self.text, "^bb{after}:").expect("a string takes it");
    }
}

/// A program of one nest of loops, and the text of it. Counters are divided as `divisions` decide.
/// Narrow elements and conversions are there if `narrow` decides about them.
pub fn program(random: &mut Random, divisions: Option<Random>, narrow: Option<Random>) -> String {
    let loops = 1 + random.below(3) as usize;
    let mut counts = [(u64::MAX, true); 3];
    for count in &mut counts[..loops] {
        *count = (random.below(3) / 2 * random.below(4), random.below(2) == 0);
    }
    let constant = [3, 40, 64][random.below(3) as usize];
    let step = if random.below(6) == 0 { 2 } else { 1 };
    let text = format!(
        "{SIGNATURE}\n^bb0:\n  \
         %i26:27 = vm.and.i64 %i10:11, %i10:11\n  %i28:29 = vm.and.i64 %i12:13, %i12:13\n  \
         %i10:11 = vm.const.i64.zero\n  %i12:13 = vm.const.i64 {step}\n  %i14:15 = vm.const.i64 {constant}\n  \
         %i18 = vm.const.i32.zero\n  %i19 = vm.const.f32.zero\n  %i30 = vm.const.f32 1.5\n  \
         %i31 = vm.const.i32 -7\n"
    );
    let mut text = text;
    for bound in BOUNDS {
        if random.below(3) == 0 {
            // Known when the loop is compiled.
            let iterations = [5, 8, 15, 16, 17, 24, 31, 40, 64, 73, 90][random.below(11) as usize];
            writeln!(text, "  %i{bound}:{} = vm.const.i64 {iterations}", bound + 1).expect("a string takes it");
        }
    }
    let (floats, ints) = (vec![30], vec![31]);
    let mut writer = Writer { random, text, floats, ints, next: 32, loops: 0, counts, divisions, narrow };
    writer.nest(0);
    writer.line("vm.return %i18, %i19");
    writer.text.push_str("}\n");
    writer.text
}

/// A product of matrices whose rows are constant strides apart, so that rows are loaded and transposed.
pub fn product_of_strides(random: &mut Random) -> String {
    let mut stride = || ["0", "1", "8", "12", "16"][random.below(5) as usize];
    let (result, row, left, sums) = (stride(), stride(), stride(), stride());
    let (of, multiply) = [("f32", "fma.f32"), ("f32", "fma.f32"), ("i32", "fma.i32")][random.below(3) as usize];
    let right = ["8", "12", "16", "12", "1", "2", "3"][random.below(7) as usize];
    // The factors may be bytes.
    let narrow = ["i8.s", "i8.u", of, of][if of == "i32" { random.below(4) as usize } else { 2 }];
    let shift = if random.below(4) == 0 { "%i8:9" } else { "%i10:11" };
    let more = ["%i24:25", "%i24:25", "%i22:23"][random.below(3) as usize];
    let known = ["5", "8", "16", "24", "31", "40"][random.below(6) as usize];
    let bound = if random.below(2) == 0 { format!("%i2:3 = vm.const.i64 {known}") } else { String::new() };
    format!(
        "{SIGNATURE}
^bb0:
  {bound}
  %i10:11 = vm.const.i64.zero
  %i12:13 = vm.const.i64 1
  %i18 = vm.const.i32.zero
  %i19 = vm.const.f32.zero
  %i40:41 = vm.const.i64 {result}
  %i42:43 = vm.const.i64 {row}
  %i44:45 = vm.const.i64 {left}
  %i46:47 = vm.const.i64 {right}
  %i48:49 = vm.const.i64 {sums}
  %i20:21 = vm.const.i64.zero
  vm.br ^bb1()
^bb1:
  %i16 = vm.cmp.lt.i64.s %i20:21, %i0:1
  vm.cond_br %i16, ^bb2(), ^bb9()
^bb2:
  %i22:23 = vm.const.i64.zero
  vm.br ^bb3()
^bb3:
  %i16 = vm.cmp.lt.i64.s %i22:23, %i2:3
  vm.cond_br %i16, ^bb4(), ^bb8()
^bb4:
  %i50:51 = vm.fma.i64 %i20:21, %i40:41, %i22:23
  %i24:25 = vm.const.i64.zero
  vm.br ^bb5()
^bb5:
  %i16 = vm.cmp.lt.i64.s %i24:25, %i4:5
  vm.cond_br %i16, ^bb6(), ^bb7()
^bb6:
  %i52:53 = vm.mul.i64 %i20:21, %i42:43
  %i52:53 = vm.fma.i64 %i24:25, %i44:45, %i52:53
  %i54:55 = vm.fma.i64 %i22:23, %i46:47, {more}
  %i54:55 = vm.add.i64 %i54:55, {shift}
  %i54:55 = vm.fma.i64 %i20:21, %i48:49, %i54:55
  %i60 = vm.buffer.load.{narrow} %r1, %i52:53
  %i61 = vm.buffer.load.{narrow} %r2, %i54:55
  %i62 = vm.buffer.load.{of} %r0, %i50:51
  %i62 = vm.{multiply} %i60, %i61, %i62
  vm.buffer.store.{of} %i62, %r0, %i50:51
  %i24:25 = vm.add.i64 %i24:25, %i12:13
  vm.br ^bb5()
^bb7:
  %i22:23 = vm.add.i64 %i22:23, %i12:13
  vm.br ^bb3()
^bb8:
  %i20:21 = vm.add.i64 %i20:21, %i12:13
  vm.br ^bb1()
^bb9:
  vm.return %i18, %i19
}}
"
    )
}
