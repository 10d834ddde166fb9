//! Ops that compiled code lets the runtime execute: lists, whole buffers, globals at computed offsets, imports, and
//! what is done with references. Only the forms that no pool of ops has are written here.

use std::fmt::Write;

use super::ops::Pool;
use super::{MASK, PAIR, WORD, Writer};

/// The imports with which programs that are not portable begin.
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
        match self.random.below(if self.portable.is_some() { 8 } else { 20 }) {
            0..6 => self.one_of(Pool::Runtime),
            6 | 7 => self.call(),
            8..15 => self.one_of(Pool::Runtime),
            15 => self.new_buffer(),
            16 => {
                let (event, word) = (self.random.choose(&["trace", "print"]), self.word());
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

    /// A buffer that is filled as soon as there is one, mostly as a whole.
    fn new_buffer(&mut self) {
        let first = self.pair();
        line!(self, "{PAIR} = vm.and.i64 {first}, {MASK}");
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
}
