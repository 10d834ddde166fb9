//! The text of random nests around a short loop, whose rows are consecutive as often as not, so that they become one
//! loop. `nests` runs them.

use std::fmt::Write;

use super::program::{Random, SIGNATURE};

/// The loops, from the outermost one on: the first argument is what it counts with, the second its bound.
const OUTER: (u32, u32) = (20, 0);
const ROW: (u32, u32) = (22, 2);
const COLUMN: (u32, u32) = (24, 32);
const WINDOW: (u32, u32) = (26, 34);
/// The distances of rows in `c`, `a` and `b`.
const DISTANCES: [u32; 3] = [36, 38, 40];
/// The distances of what the outermost loop counts.
const OUTER_DISTANCES: [u32; 3] = [42, 44, 46];
/// The distance of elements of a window.
const STEP: u32 = 48;
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

    fn constant(&mut self, into: u32, bits: u64) {
        self.line(&format!("%i{into}:{} = vm.const.i64 {bits}", into + 1));
    }

    /// The index of an element of a buffer, in a window if it is in one.
    fn index(&mut self, buffer: usize, columns: bool, window: bool) -> u32 {
        self.next = self.next.next_multiple_of(2) + 2;
        let into = self.next - 2;
        self.constant(into, 0);
        let mut terms = vec![(OUTER.0, OUTER_DISTANCES[buffer]), (ROW.0, DISTANCES[buffer])];
        terms.extend(columns.then_some((COLUMN.0, 12)));
        terms.extend(window.then_some((WINDOW.0, STEP)));
        for (counter, factor) in terms {
            self.line(&format!(
                "%i{into}:{} = vm.fma.i64 %i{counter}:{}, %i{factor}:{}, %i{into}:{}",
                into + 1,
                counter + 1,
                factor + 1,
                into + 1
            ));
        }
        if self.one_in(8) {
            self.line(&format!("%i{into}:{} = vm.add.i64 %i{into}:{}, %i{SHIFT}:{}", into + 1, into + 1, SHIFT + 1));
        }
        into
    }

    fn load(&mut self, buffer: usize, columns: bool, window: bool) -> u32 {
        let index = self.index(buffer, columns, window);
        self.next += 1;
        let into = self.next - 1;
        self.line(&format!("%i{into} = vm.buffer.load.f32 %r{buffer}, %i{index}:{}", index + 1));
        into
    }

    fn counted(&mut self, (counter, bound): (u32, u32), body: impl FnOnce(&mut Self)) {
        let head = self.blocks;
        self.blocks += 3;
        let (inside, after) = (head + 1, head + 2);
        self.constant(counter, 0);
        self.line(&format!("vm.br ^bb{head}()"));
        writeln!(self.text, "^bb{head}:").expect("a string takes it");
        self.line(&format!("%i16 = vm.cmp.lt.i64.s %i{counter}:{}, %i{bound}:{}", counter + 1, bound + 1));
        self.line(&format!("vm.cond_br %i16, ^bb{inside}(), ^bb{after}()"));
        writeln!(self.text, "^bb{inside}:").expect("a string takes it");
        body(self);
        self.line(&format!("%i{counter}:{} = vm.add.i64 %i{counter}:{}, %i12:13", counter + 1, counter + 1));
        self.line(&format!("vm.br ^bb{head}()"));
        writeln!(self.text, "^bb{after}:").expect("a string takes it");
    }

    fn element(&mut self) {
        let window = self.one_in(2);
        if window {
            self.counted(WINDOW, |writer| writer.sum(true));
        } else {
            self.sum(false);
        }
    }

    fn sum(&mut self, window: bool) {
        let first = self.load(1, true, window);
        let of_row = self.one_in(4);
        let second = self.load(2, !of_row, false);
        let sum = if self.one_in(3) { first } else { self.load(0, true, false) };
        let to = self.index(0, true, false);
        let op = ["vm.mul.f32", "vm.sub.f32", "vm.max.f32"][self.random.below(3) as usize];
        let product = self.next;
        self.next += 1;
        self.line(&format!("%i{product} = {op} %i{first}, %i{second}"));
        self.line(&format!("%i{product} = vm.add.f32 %i{product}, %i{sum}"));
        if self.one_in(5) {
            self.line(&format!("%i{product} = vm.exp.f32 %i{product}"));
        }
        self.line(&format!("vm.buffer.store.f32 %i{product}, %r0, %i{to}:{}", to + 1));
    }
}

/// The text of one.
pub fn short_rows(random: &mut Random) -> String {
    let most = if random.below(2) == 0 { 7 } else { 40 };
    let columns = 1 + random.below(most);
    let text = format!("{SIGNATURE}\n^bb0:\n  %i18 = vm.const.i32.zero\n  %i19 = vm.const.f32.zero\n");
    let mut writer = Writer { random, text, next: 60, blocks: 2 };
    writer.constant(12, 1);
    writer.constant(COLUMN.1, columns);
    let window = 1 + writer.random.below(5);
    writer.constant(WINDOW.1, window);
    let mut rows = 0;
    if !writer.one_in(3) {
        rows = 1 + writer.random.below(20);
        writer.constant(ROW.1, rows);
    }
    if writer.one_in(2) {
        let outer = 1 + writer.random.below(5);
        writer.constant(OUTER.1, outer);
    }
    for (buffer, (inner, outer)) in DISTANCES.into_iter().zip(OUTER_DISTANCES).enumerate() {
        let more = if buffer == 0 { 3 } else { 2 };
        let distance = if writer.one_in(more) { columns + writer.random.below(9) } else { columns };
        writer.constant(inner, distance);
        let between = if writer.one_in(3) { 7 } else { 0 };
        writer.constant(outer, distance * rows.max(1) + between);
    }
    let step = [1, columns, 3][writer.random.below(3) as usize];
    writer.constant(STEP, step);
    writer.line("vm.br ^bb1()");
    writeln!(writer.text, "^bb1:").expect("a string takes it");
    if writer.one_in(3) {
        // The outermost one is left out.
        writer.constant(OUTER.0, 0);
        writer.counted(ROW, |writer| writer.counted(COLUMN, Writer::element));
    } else {
        writer.counted(OUTER, |writer| writer.counted(ROW, |writer| writer.counted(COLUMN, Writer::element)));
    }
    writer.line("vm.return %i18, %i19");
    writer.text.push_str("}\n");
    writer.text
}
