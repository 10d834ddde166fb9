//! Programs with lanes of 64 bits: the text of another program, in which each `f32` is an `f64` and some operations on
//! `i32` are made on `i64`. `nests` makes random ones, and `shape` looks at some.

use std::collections::HashMap;
use std::fmt::Write;

use super::program::Random;

/// Operations on `i32` that there are for `i64`, too, which get the same lower half.
const ON_INTEGERS: [&str; 14] = [
    "vm.add.i32",
    "vm.sub.i32",
    "vm.mul.i32",
    "vm.fma.i32",
    "vm.and.i32",
    "vm.xor.i32",
    "vm.shl.i32",
    "vm.min.i32.s",
    "vm.max.i32.u",
    "vm.max.i32.s",
    "vm.cmp.lt.i32.s",
    "vm.cmp.lt.i32.u",
    "vm.cmp.eq.i32",
    "vm.cmp.ne.i32",
];
/// The register of the sum of `i32` that programs return.
const SUM: u32 = 18;

/// The parts of a line: text, and the numbers of registers of one slot between.
fn split(line: &str) -> (Vec<&str>, Vec<u32>) {
    let (mut texts, mut registers) = (Vec::new(), Vec::new());
    let (mut from, mut at) = (0, 0);
    while let Some(found) = line[at..].find("%i") {
        let digits = at + found + 2;
        let end = line[digits..].find(|letter: char| !letter.is_ascii_digit()).map_or(line.len(), |end| digits + end);
        at = end;
        // The second slot of a pair follows a colon.
        if !line[end..].starts_with(':') {
            texts.push(&line[from..digits - 2]);
            registers.push(line[digits..end].parse().expect("it is a number"));
            from = end;
        }
    }
    texts.push(&line[from..]);
    (texts, registers)
}

struct Widener<'a> {
    /// Decides what becomes wide; all of the floats do without it.
    random: Option<&'a mut Random>,
    text: String,
    next: u32,
    /// The pairs of registers that were one.
    pairs: HashMap<u32, u32>,
    /// Whether floats in memory have 64 bits, and integers.
    is_wide: [bool; 3],
}

impl Widener<'_> {
    fn line(&mut self, line: &str) {
        writeln!(self.text, "{line}").expect("a string takes it");
    }

    fn pair(&mut self) -> String {
        self.next += 2;
        format!("%i{}:{}", self.next - 2, self.next - 1)
    }

    fn single(&mut self) -> String {
        self.next += 2;
        format!("%i{}", self.next - 2)
    }

    fn pair_of(&mut self, register: u32) -> String {
        let next = self.next;
        let first = *self.pairs.entry(register).or_insert(next);
        if first == next {
            self.next += 2;
        }
        format!("%i{first}:{}", first + 1)
    }

    fn one_in_two(&mut self) -> bool {
        self.random.as_mut().is_some_and(|random| random.below(2) == 0)
    }

    /// Whether the elements of the buffer of an access have 64 bits.
    fn is_wide(&self, line: &str) -> bool {
        (0..3).any(|buffer| line.contains(&format!("%r{buffer},")) && self.is_wide[buffer])
    }

    /// A line with an operation on floats.
    fn floats(&mut self, line: &str) {
        let (texts, registers) = split(line);
        // Truths stay what they are: the results of comparisons, and what chooses.
        let truth = if line.contains("vm.cmp.") {
            Some(0)
        } else if line.contains("vm.select.") {
            Some(1)
        } else {
            None
        };
        let (mut wide, mut narrow, mut value) = (texts[0].to_string(), texts[0].to_string(), String::new());
        for (index, register) in registers.iter().enumerate() {
            let (own, is_truth) = (format!("%i{register}"), truth == Some(index));
            let own = if is_truth { own } else { self.pair_of(*register) };
            wide = wide + &own + texts[index + 1];
            if index == 0 && line.contains("vm.buffer.") {
                value = own;
                narrow += "VALUE";
                narrow += texts[1];
            }
        }
        if value.is_empty() || self.is_wide(line) {
            // Functions have no vectors of 64 bits.
            let wide = wide.replace(".f32", ".f64").replace("vm.exp.", "vm.ceil.").replace("vm.tanh.", "vm.floor.");
            return self.line(&wide);
        }
        let single = self.single();
        let access = narrow.replace("VALUE", &single);
        if line.contains("vm.buffer.store.") {
            self.line(&format!("  {single} = vm.trunc.f64.f32 {value}"));
            self.line(&access);
        } else {
            self.line(&access);
            self.line(&format!("  {value} = vm.ext.f32.f64 {single}"));
        }
    }

    /// A line with an operation on integers, made on wider ones.
    fn integers(&mut self, line: &str) {
        let (texts, registers) = split(line);
        let is_test = line.contains("vm.cmp.");
        let mut wide = String::from(texts[0]);
        let mut result = String::new();
        for (index, register) in registers.iter().enumerate() {
            // Amounts of shifts have 32 bits.
            let stays = index == 0 && is_test || index == 2 && line.contains("vm.shl.");
            let own = if stays { format!("%i{register}") } else { self.pair() };
            if index == 0 && !is_test {
                result.clone_from(&own);
            } else if !stays {
                let sign = if self.one_in_two() { "s" } else { "u" };
                self.line(&format!("  {own} = vm.ext.i32.i64.{sign} %i{register}"));
            }
            wide = wide + &own + texts[index + 1];
        }
        self.line(&wide.replace(".i32", ".i64"));
        if !is_test {
            self.line(&format!("  %i{} = vm.trunc.i64.i32 {result}", registers[0]));
        }
    }

    /// An access to elements of 32 bits, which becomes one to wider ones.
    fn integer_access(&mut self, line: &str) {
        let (texts, registers) = split(line);
        let own = self.pair();
        let wide = format!("{}{own}{}", texts[0], texts[1]).replace(".i32", ".i64");
        if line.contains("vm.buffer.store.") {
            self.line(&format!("  {own} = vm.ext.i32.i64.s %i{}", registers[0]));
            self.line(&wide);
        } else {
            self.line(&wide);
            self.line(&format!("  %i{} = vm.trunc.i64.i32 {own}", registers[0]));
        }
    }
}

/// A program with each `f32` as an `f64`. If something decides about them, elements of some buffers stay narrow, and
/// integers become wider.
pub fn widened(text: &str, random: Option<&mut Random>) -> String {
    let numbers = text.split("%i").skip(1).map(|rest| {
        let end = rest.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(rest.len());
        rest[..end].parse::<u32>().expect("it is a number")
    });
    let next = (numbers.max().unwrap_or(0) + 2).next_multiple_of(2);
    let mut widener = Widener { random, text: String::new(), next, pairs: HashMap::new(), is_wide: [true; 3] };
    if let Some(random) = &mut widener.random {
        widener.is_wide = [0; 3].map(|_| random.below(4) > 0);
    }
    for line in text.lines() {
        let (_, registers) = split(line);
        if line == "vm.type f32" {
            widener.line("vm.type f32\nvm.type f64");
        } else if line.contains("vm.return %i") && registers.len() == 2 {
            let (pair, single) = (widener.pair_of(registers[1]), widener.single());
            widener.line(&format!("  {single} = vm.trunc.f64.f32 {pair}"));
            widener.line(&format!("  vm.return %i{}, {single}", registers[0]));
        } else if line.contains(".f32") {
            widener.floats(line);
        } else if line.contains("vm.buffer.")
            && line.contains(".i32 ")
            && widener.is_wide(line)
            && widener.random.is_some()
        {
            widener.integer_access(line);
        } else if ON_INTEGERS.iter().any(|op| line.contains(op))
            && registers.first() != Some(&SUM)
            && widener.one_in_two()
        {
            widener.integers(line);
        } else {
            widener.line(line);
        }
    }
    widener.text
}

#[test]
fn floats_become_wide() {
    let text = "vm.type f32\n  %i3 = vm.const.f32 1.5\n  %i5 = vm.cmp.lt.f32.o %i3, %i3\n  \
                %i4 = vm.select.f32 %i5 ? %i3 : %i4\n  vm.buffer.store.f32 %i4, %r0, %i6:7\n  vm.return %i18, %i4\n";
    let expected = "vm.type f32\nvm.type f64\n  %i20:21 = vm.const.f64 1.5\n  %i5 = vm.cmp.lt.f64.o %i20:21, %i20:21\n  \
                    %i22:23 = vm.select.f64 %i5 ? %i20:21 : %i22:23\n  vm.buffer.store.f64 %i22:23, %r0, %i6:7\n  \
                    %i24 = vm.trunc.f64.f32 %i22:23\n  vm.return %i18, %i24\n";
    assert_eq!(widened(text, None), expected);
}
