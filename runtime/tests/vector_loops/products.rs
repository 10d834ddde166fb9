//! The text of random products of matrices and of what is like them: nests in which iterations of an outer loop share
//! what they load, so that several of them are computed together. `nests` runs them.

use std::fmt::Write;

use super::program::{Random, SIGNATURE};

/// The counters of the loops, from the outermost one on, and their bounds.
const ROW: u32 = 20;
const COLUMN: u32 = 22;
const DEPTH: u32 = 24;
const MIDDLE: u32 = 26;
const BOUNDS: [u32; 3] = [0, 2, 4];
/// The numbers that indices are multiplied by: an argument and constants.
const FACTORS: [u32; 4] = [6, 12, 14, 28];
const SHIFT: u32 = 8;

struct Writer<'a> {
    random: &'a mut Random,
    text: String,
    next: u32,
    blocks: u32,
}

impl Writer<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "  {line}").expect("a string takes it");
    }

    fn one_in(&mut self, many: u64) -> bool {
        self.random.below(many) == 0
    }

    fn some<T: Copy>(&mut self, of: &[T]) -> T {
        of[self.random.below(of.len() as u64) as usize]
    }

    fn fresh(&mut self) -> u32 {
        self.next += 1;
        self.next - 1
    }

    /// An index: the sum of the products of these pairs of a counter and a factor, and sometimes an argument.
    fn index(&mut self, terms: &[(u32, u32)]) -> u32 {
        self.next = self.next.next_multiple_of(2) + 2;
        let into = self.next - 2;
        self.line(&format!("%i{into}:{} = vm.const.i64.zero", into + 1));
        for (counter, factor) in terms {
            self.line(&format!(
                "%i{into}:{} = vm.fma.i64 %i{counter}:{}, %i{factor}:{}, %i{into}:{}",
                into + 1,
                counter + 1,
                factor + 1,
                into + 1
            ));
        }
        if self.one_in(6) {
            self.line(&format!("%i{into}:{} = vm.add.i64 %i{into}:{}, %i{SHIFT}:{}", into + 1, into + 1, SHIFT + 1));
        }
        into
    }

    fn load(&mut self, buffer: u64, terms: &[(u32, u32)]) -> u32 {
        let index = self.index(terms);
        let into = self.fresh();
        self.line(&format!("%i{into} = vm.buffer.load.f32 %r{buffer}, %i{index}:{}", index + 1));
        into
    }

    /// A loop that counts from a few on, with its test at the begin or at the end.
    fn counted(&mut self, counter: u32, bound: u32, body: impl FnOnce(&mut Self)) {
        let start = if self.one_in(4) { 1 + self.random.below(2) } else { 0 };
        let step = if self.one_in(10) { 28 } else { 12 };
        let is_first = !self.one_in(4);
        let head = self.blocks;
        self.blocks += 3;
        let (inside, after) = (head + 1, head + 2);
        let test = format!("%i16 = vm.cmp.lt.i64.s %i{counter}:{}, %i{bound}:{}", counter + 1, bound + 1);
        self.line(&format!("%i{counter}:{} = vm.const.i64 {start}", counter + 1));
        self.line(&format!("vm.br ^bb{head}()"));
        writeln!(self.text, "^bb{head}:").expect("a string takes it");
        if is_first {
            self.line(&test);
            self.line(&format!("vm.cond_br %i16, ^bb{inside}(), ^bb{after}()"));
            writeln!(self.text, "^bb{inside}:").expect("a string takes it");
        }
        body(self);
        self.line(&format!(
            "%i{counter}:{} = vm.add.i64 %i{counter}:{}, %i{step}:{}",
            counter + 1,
            counter + 1,
            step + 1
        ));
        if is_first {
            self.line(&format!("vm.br ^bb{head}()"));
        } else {
            self.line(&test);
            self.line(&format!("vm.cond_br %i16, ^bb{head}(), ^bb{after}()"));
        }
        writeln!(self.text, "^bb{after}:").expect("a string takes it");
    }

    /// Writes the work for each row, in the loop over the columns.
    fn columns(&mut self) {
        let has_middle = self.one_in(5);
        if has_middle {
            let bound = self.some(&[30, 32]);
            self.counted(MIDDLE, bound, |writer| writer.counted(COLUMN, BOUNDS[1], |writer| writer.column(true)));
        } else {
            self.counted(COLUMN, BOUNDS[1], |writer| writer.column(false));
        }
    }

    fn column(&mut self, has_middle: bool) {
        // Rows mostly do not overlap, and a factor may be too small for that.
        let row = self.some(&[14, 14, 14, 6, 28]);
        let mut terms = vec![(ROW, row), (COLUMN, 12)];
        if has_middle && self.one_in(3) {
            terms.push((MIDDLE, 28));
        }
        let index = self.index(&terms);
        let target = self.random.below(2);
        let (old, sum) = (self.fresh(), self.fresh());
        let load = format!("%i{old} = vm.buffer.load.f32 %r{target}, %i{index}:{}", index + 1);
        let store = |value| format!("vm.buffer.store.f32 %i{value}, %r{target}, %i{index}:{}", index + 1);
        let op = self.some(&["add", "sub", "max"]);
        match self.random.below(3) {
            // The sum is an element, as kernels have it.
            0 | 1 => self.counted(DEPTH, BOUNDS[2], |writer| {
                let value = writer.product();
                writer.line(&load);
                writer.line(&format!("%i{sum} = vm.{op}.f32 %i{old}, %i{value}"));
                writer.line(&store(sum));
                if writer.one_in(8) {
                    writer.line(&store(value));
                }
            }),
            // It is in a register.
            _ => {
                self.line(&format!("%i{sum} = vm.const.f32.zero"));
                self.counted(DEPTH, BOUNDS[2], |writer| {
                    let value = writer.product();
                    writer.line(&format!("%i{sum} = vm.{op}.f32 %i{sum}, %i{value}"));
                });
                if self.one_in(2) {
                    self.line(&load);
                    self.line(&format!("%i{sum} = vm.add.f32 %i{sum}, %i{old}"));
                }
                self.line(&store(sum));
            }
        }
    }

    /// A product of what differs between rows, mostly, and of what is the same in all.
    fn product(&mut self) -> u32 {
        let factor = self.some(&FACTORS);
        let by_row = match self.random.below(6) {
            0 => self.load(1, &[(ROW, factor)]),
            1 => self.load(1, &[(ROW, factor), (COLUMN, 12)]),
            2 => 17,
            _ => self.load(1, &[(ROW, factor), (DEPTH, 12)]),
        };
        let shared = match self.random.below(4) {
            0 => self.load(2, &[(COLUMN, 12)]),
            1 => self.load(2, &[(DEPTH, factor), (COLUMN, 28)]),
            _ => self.load(2, &[(DEPTH, factor), (COLUMN, 12)]),
        };
        let into = self.fresh();
        match self.random.below(4) {
            0 => self.line(&format!("%i{into} = vm.fma.f32 %i{by_row}, %i{shared}, %i{by_row}")),
            1 => self.line(&format!("%i{into} = vm.sub.f32 %i{by_row}, %i{shared}")),
            _ => self.line(&format!("%i{into} = vm.mul.f32 %i{by_row}, %i{shared}")),
        }
        into
    }
}

/// A program of one nest of loops, and the text of it.
pub fn product(random: &mut Random) -> String {
    let (wide, narrow) = ([33, 40, 64, 70][random.below(4) as usize], 2 + random.below(2));
    let mut text = format!(
        "{SIGNATURE}\n^bb0:\n  %i12:13 = vm.const.i64 1\n  \
         %i14:15 = vm.const.i64 {wide}\n  %i28:29 = vm.const.i64 {narrow}\n  %i30:31 = vm.const.i64 1\n  \
         %i32:33 = vm.const.i64 3\n  %i17 = vm.const.f32 1.5\n  %i18 = vm.const.i32.zero\n  %i19 = vm.const.f32.zero\n"
    );
    // Known when the loop is compiled, mostly: kernels are for matrices of one size.
    for (bound, known) in BOUNDS.into_iter().zip([[2, 3, 5, 8, 9, 14], [8, 16, 17, 24, 33, 40], [1, 2, 3, 4, 7, 16]]) {
        if random.below(3) > 0 {
            let iterations = known[random.below(6) as usize];
            writeln!(text, "  %i{bound}:{} = vm.const.i64 {iterations}", bound + 1).expect("a string takes it");
        }
    }
    let mut writer = Writer { random, text, next: 34, blocks: 1 };
    writer.counted(ROW, BOUNDS[0], Writer::columns);
    writer.line("vm.return %i18, %i19");
    writer.text.push_str("}\n");
    writer.text
}
