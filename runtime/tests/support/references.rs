//! Ops that compiled code lets the runtime execute: lists, whole buffers, globals at computed offsets, imports, and what is done with
//! references. Those that stock IREE is not compared in are in no portable program.

use std::fmt::Write;

use super::{CONDITION, MASK, PAIR, WORD, Writer};

/// What programs that are not portable begin with.
pub const IMPORTS: &str = "vm.import @host.mix cconv \"0iI_Ii\"
vm.import @host.pick cconv \"0rri_r\"
vm.import @host.sum cconv \"0CiD_i\"
vm.import @host.later cconv \"0i_i\"
vm.import optional @host.missing cconv \"0v_v\"
vm.type !vm.opaque
vm.type !vm.list<!vm.opaque>
";

impl Writer<'_> {
    /// An op on references, or a call.
    pub fn outside(&mut self) {
        let word = self.word();
        match self.random.below(if self.portable { 8 } else { 20 }) {
            0 => line!(self, "{word} = vm.list.size %r1"),
            1 => line!(self, "{word} = vm.cmp.nz.ref %r2"),
            2 | 3 => line!(self, "%r2 = vm.select.ref {word} ? %r0 : %r3 -> !vm.buffer"),
            4 => {
                let source = self.random.choose(&["%r0", "%r0", "%r0", "%r3", "%r4", "%r5"]);
                line!(self, "%r2 = vm.assign.ref {source}");
            }
            5 => line!(self, "{word} = vm.cmp.eq.ref %r0, %r2"),
            6 | 7 => self.call(),
            8 | 9 => self.list(),
            10 | 11 => self.whole_buffer(),
            12 | 13 => self.indirect(),
            14 | 15 => self.reference(),
            16 => {
                let event = self.random.choose(&["trace", "print"]);
                line!(self, "vm.{event} \"seen\", {word}, {word}");
            }
            _ => self.import(),
        }
    }

    /// A call of a function of the host, which may fail.
    fn import(&mut self) {
        let word = self.word();
        match self.random.below(8) {
            0..4 => {
                let (pair, first, second) = (self.pair(), self.word(), self.pair());
                // No register takes two results.
                let low: u64 = pair[2..].split(':').next().and_then(|low| low.parse().ok()).unwrap_or(0);
                let other = (low + 2) % self.words;
                line!(self, "{pair}, %i{other} = vm.call @host.mix({first}, {second})");
            }
            4 => {
                let (first, second) = (self.buffer(), self.buffer());
                line!(self, "%r2 = vm.call @host.pick({first}, {second}, {word})");
            }
            5 | 6 => {
                let count = self.random.below(4);
                let words: Vec<String> = (0..count).map(|_| self.word()).collect();
                line!(self, "{word} = vm.call.variadic @host.sum segments[{count}]({})", words.join(", "));
            }
            _ => line!(self, "{word} = vm.import.resolved @host.missing"),
        }
    }

    /// An op on the list, whose elements are `i32`.
    fn list(&mut self) {
        let (index, wide) = (self.word(), self.random.chance(2));
        line!(self, "{WORD} = vm.const.i32 7\n  {WORD} = vm.and.i32 {index}, {WORD}");
        let index = if self.random.chance(8) { index } else { WORD.to_string() };
        let (int, float) = if wide { ("i64", "f64") } else { ("i32", "f32") };
        match self.random.below(8) {
            0 => line!(self, "vm.list.resize %r1, {WORD}"),
            1 => line!(self, "vm.list.reserve %r1, {WORD}"),
            2 | 3 => {
                let value = self.integer(wide);
                line!(self, "vm.list.set.{int} %r1, {index}, {value}");
            }
            4 => {
                let value = self.float_target(wide);
                line!(self, "vm.list.set.{float} %r1, {index}, {value}");
            }
            5 | 6 => {
                let target = self.integer(wide);
                line!(self, "{target} = vm.list.get.{int} %r1, {index}");
            }
            _ => {
                let target = self.float_target(wide);
                line!(self, "{target} = vm.list.get.{float} %r1, {index}");
            }
        }
    }

    /// An op on many elements of a buffer.
    fn whole_buffer(&mut self) {
        let (buffer, other, first, second) = (self.buffer(), self.buffer(), self.pair(), self.pair());
        line!(self, "%i64:65 = vm.and.i64 {first}, {MASK}\n  {PAIR} = vm.and.i64 {second}, {MASK}");
        let length = if self.random.chance(8) { self.pair() } else { PAIR.to_string() };
        let word = self.word();
        match self.random.below(10) {
            8 | 9 => self.new_buffer(),
            0..4 => {
                let ty = self.random.choose(&["i8", "i16", "i32", "i64", "f32", "f64"]);
                let value = self.integer(ty.ends_with("64"));
                line!(self, "vm.buffer.fill.{ty} {buffer}, %i64:65, {length}, {value}");
            }
            4 => line!(self, "{word} = vm.buffer.compare {buffer}, %i64:65, {other}, {PAIR}, {length}"),
            5 | 6 => line!(self, "vm.buffer.copy {buffer}, %i64:65, {other}, {PAIR}, {length}"),
            _ => {
                line!(self, "{WORD} = vm.const.i32 16");
                line!(self, "%r2 = vm.buffer.clone {buffer}, %i64:65, {length}, {WORD}");
            }
        }
    }

    /// A buffer that is filled as soon as there is one, mostly as a whole.
    fn new_buffer(&mut self) {
        let (ty, size) = self.random.choose(&[("i8", 1), ("i16", 2), ("i32", 4), ("f32", 4), ("i64", 8), ("f64", 8)]);
        let value = self.integer(size == 8);
        line!(self, "{WORD} = vm.const.i32 16\n  %i64:65 = vm.const.i64 {size}");
        line!(self, "%i64:65 = vm.mul.i64 {PAIR}, %i64:65\n  %r2 = vm.buffer.alloc %i64:65, {WORD}");
        match self.random.below(8) {
            0 => line!(self, "%i64:65 = vm.const.i64 1"),
            1 => line!(self, "%i64:65 = vm.const.i64.zero\n  {PAIR} = vm.const.i64 2"),
            _ => line!(self, "%i64:65 = vm.const.i64.zero"),
        }
        line!(self, "vm.buffer.fill.{ty} %r2, %i64:65, {PAIR}, {value}");
    }

    /// A value global whose offset is computed.
    fn indirect(&mut self) {
        let (offset, wide) = (self.word(), self.random.chance(2));
        line!(self, "{WORD} = vm.const.i32 7\n  {WORD} = vm.and.i32 {offset}, {WORD}");
        let (value, ty) = if self.random.chance(3) {
            // Floats are in places of their own.
            line!(self, "{WORD} = vm.const.i32 {}", [24, 32][usize::from(wide)]);
            (self.float_target(wide), ["f32", "f64"][usize::from(wide)])
        } else {
            (self.integer(wide), ["i32", "i64"][usize::from(wide)])
        };
        match self.random.chance(2) {
            true => line!(self, "{value} = vm.global.load.indirect.{ty} {WORD}"),
            false => line!(self, "vm.global.store.indirect.{ty} {WORD}, {value}"),
        }
    }

    /// Moves of references.
    fn reference(&mut self) {
        let (word, buffer) = (self.word(), self.buffer());
        match self.random.below(11) {
            9 | 10 => {
                line!(self, "{WORD} = vm.const.i32 7\n  {WORD} = vm.and.i32 {word}, {WORD}");
                match self.random.chance(2) {
                    true => line!(self, "%r2 = vm.list.get.ref %r6, {WORD} : !vm.buffer"),
                    false => line!(self, "vm.list.set.ref %r6, {WORD}, {buffer}"),
                }
            }
            0 => line!(self, "vm.global.store.ref {buffer}, .refs[0] : !vm.buffer"),
            1 => line!(self, "%r2 = vm.global.load.ref .refs[0] : !vm.buffer"),
            2 => line!(
                self,
                "{CONDITION} = vm.const.i32.zero\n  %r2 = vm.global.load.indirect.ref {CONDITION} : !vm.buffer"
            ),
            3 => line!(
                self,
                "{CONDITION} = vm.const.i32.zero\n  vm.global.store.indirect.ref {CONDITION} : !vm.buffer, {buffer}"
            ),
            4 => line!(self, "{word} = vm.cmp.ne.ref %r2, {buffer}"),
            5 => line!(self, "%r2 = vm.cast.any.ref {buffer} : !vm.ref<?> -> !vm.buffer"),
            6 => line!(self, "%r2 = vm.switch.ref {word}[%r0, %r3] else %r2 -> !vm.buffer"),
            7 => line!(self, "%r2 = vm.const.ref.rodata 0"),
            _ if self.random.chance(4) => line!(self, "%r2 = vm.const.ref.zero"),
            _ => line!(self, "vm.discard.refs %r2"),
        }
    }
}
