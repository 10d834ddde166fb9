//! Blocks that branch anywhere, and loops and choices in each other.

use std::fmt::Write;

use super::{CONDITION, COUNTERS, ONE, Writer};

impl Writer<'_> {
    /// Blocks that branch anywhere, and the block at which they end.
    pub fn blocks(&mut self) {
        let count = 2 + self.random.below(5);
        let first = self.block;
        line!(self, "vm.br ^bb{first}()");
        for block in first..first + count {
            writeln!(self.text, "^bb{block}:").unwrap();
            self.instructions(5);
            let mut target = || {
                let target = first + self.random.below(count + 1);
                format!("^bb{target}({})", self.copies())
            };
            let (yes, no, third) = (target(), target(), target());
            // Behind those are branches that the interpreter makes.
            let kind = self.random.below(16);
            match if self.is_plain() && (4..9).contains(&kind) { 7 } else { kind } {
                0 | 1 => line!(self, "vm.br {yes}"),
                // The reference runtime does not come back.
                5 | 6 | 8 if self.portable.is_some() => line!(self, "vm.br {yes}"),
                2 | 3 => {
                    let condition = self.word();
                    line!(self, "vm.cond_br {condition}, {yes}, {no}");
                }
                4 => {
                    let index = self.word();
                    line!(self, "vm.br_table {index} {{ default: {yes}, 0: {no}, 1: {third} }}");
                }
                5 => line!(self, "vm.yield {yes}"),
                6 if self.random.chance(2) => line!(self, "vm.break {yes}"),
                6 => {
                    let condition = self.word();
                    line!(self, "vm.cond_break {condition}, {yes}");
                }
                8 => {
                    let (argument, result) = (self.word(), self.word());
                    let target = first + self.random.below(count + 1);
                    match self.random.below(12) {
                        0 => line!(self, "vm.fail {argument}, \"it fails\""),
                        1..4 => line!(
                            self,
                            "vm.call.variadic.yieldable @host.sum segments[1]({argument}) -> ^bb{target}({result})"
                        ),
                        _ => line!(self, "vm.call.yieldable @host.later({argument}) -> ^bb{target}({result})"),
                    }
                }
                _ => {
                    let condition = if self.random.chance(3) { self.word() } else { CONDITION.to_string() };
                    self.compare(&condition);
                    line!(self, "vm.cond_br {condition}, {yes}, {no}");
                }
            }
        }
        self.block += count + 1;
        writeln!(self.text, "^bb{}:", first + count).unwrap();
    }

    pub fn open(&mut self) -> u64 {
        self.block += 1;
        self.block - 1
    }

    /// Loops and choices in each other.
    pub fn statements(&mut self, depth: u64) {
        for _ in 0..1 + self.random.below(2) {
            self.instructions(6);
            match self.random.below(6) {
                0..4 if depth < 3 => self.repetition(depth),
                4 => self.alternative(depth),
                _ => {}
            }
        }
        self.instructions(4);
    }

    pub fn alternative(&mut self, depth: u64) {
        let (then, otherwise, after) = (self.open(), self.open(), self.open());
        self.compare(CONDITION);
        let (first, second) = (self.copies(), self.copies());
        line!(self, "vm.cond_br {CONDITION}, ^bb{then}({first}), ^bb{otherwise}({second})");
        for block in [then, otherwise] {
            writeln!(self.text, "^bb{block}:").unwrap();
            if self.random.chance(4) {
                self.statements(depth + 1)
            } else {
                self.instructions(4)
            }
            let copies = self.copies();
            line!(self, "vm.br ^bb{after}({copies})");
        }
        writeln!(self.text, "^bb{after}:").unwrap();
    }

    pub fn repetition(&mut self, depth: u64) {
        let counter = COUNTERS + 4 * depth;
        let (counter_pair, limit) =
            (format!("%i{counter}:{}", counter + 1), format!("%i{}:{}", counter + 2, counter + 3));
        let (first, iterations) = (self.random.below(3), 1 + self.random.below(6));
        line!(self, "{counter_pair} = vm.const.i64 {first}");
        line!(self, "{limit} = vm.const.i64 {}", first + iterations);
        let (head, body, after) = (self.open(), self.open(), self.open());
        let copies = self.copies();
        line!(self, "vm.br ^bb{head}({copies})");
        writeln!(self.text, "^bb{head}:").unwrap();
        self.counters.push(counter);
        let (enter, leave) = (self.copies(), self.copies());
        let test = format!("  {CONDITION} = vm.cmp.lt.i64.s {counter_pair}, {limit}\n");
        if self.random.chance(2) {
            // The test comes first.
            self.text.push_str(&test);
            line!(self, "vm.cond_br {CONDITION}, ^bb{body}({enter}), ^bb{after}({leave})");
            writeln!(self.text, "^bb{body}:").unwrap();
            self.statements(depth + 1);
            line!(self, "{counter_pair} = vm.add.i64 {counter_pair}, {ONE}");
            line!(self, "vm.br ^bb{head}()");
        } else {
            self.statements(depth + 1);
            line!(self, "{counter_pair} = vm.add.i64 {counter_pair}, {ONE}");
            self.text.push_str(&test);
            line!(self, "vm.cond_br {CONDITION}, ^bb{head}({enter}), ^bb{after}({leave})");
            // This is unreachable; a block needs an end.
            writeln!(self.text, "^bb{body}:").unwrap();
            line!(self, "vm.br ^bb{after}()");
        }
        self.counters.pop();
        writeln!(self.text, "^bb{after}:").unwrap();
    }
}
