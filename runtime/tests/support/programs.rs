//! Random programs of all families of ops, as texts.
//!
//! There are two kinds of functions, and plain ones of either, without references. Some are blocks that branch back and
//! forth at random, with copies, over a few registers that are read soon after they are written. The others are nested
//! loops and choices as compilers write them, over up to forty registers that are all alive to the end, with elements
//! of buffers at indices that are, mostly, in range.
//!
//! Which of two NaNs an operation gives is not defined, and registers can be read as any type. So results of float
//! operations go to registers of their own, and to others only after a test for NaN.

use std::collections::BTreeSet;
use std::fmt::Write;

/// Where choices come from.
pub trait Choices {
    /// A number below `bound`, which is not zero.
    fn below(&mut self, bound: u64) -> u64;
}

impl dyn Choices + '_ {
    fn choose<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }

    fn chance(&mut self, one_in: u64) -> bool {
        self.below(one_in) == 0
    }
}

/// Choices by the bytes of an input, one for each; all are zero after the last one, which soon ends a program.
pub struct Bytes<'a>(pub &'a [u8]);

impl Choices for Bytes<'_> {
    fn below(&mut self, bound: u64) -> u64 {
        let Some((byte, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        u64::from(*byte) % bound
    }
}

const CONSTANTS: &[i64] = &[0, 1, -1, 2, 3, 7, 8, 16, 31, 63, 255, -128, 0x7FFF_FFFF, -0x8000_0000, 0x3F80_0000];

const FLOAT_CONSTANTS: &[&str] = &["0.0", "-0.0", "0.5", "1.0", "-1.5", "3.0e10"];

/// Registers besides those that hold what a program computes: floats of either width, the counters of loops, and
/// constants.
const FLOATS: u64 = 50;
const DOUBLES: u64 = 56;
const COUNTERS: u64 = 64;
const MASK: &str = "%i80:81";
const ONE: &str = "%i82:83";
/// The low half of it.
const NARROW_ONE: &str = "%i82";
const CONDITION: &str = "%i84";
const NAN: &str = "%i85";
const WIDE_NAN: &str = "%i86:87";
const WORD: &str = "%i88";
const PAIR: &str = "%i90:91";
const SUM: &str = "%i92";
/// The first of the registers for operands that are made for one op.
const TEMPORARIES: u64 = 94;

/// The parameters and results of a function: the registers of its parameters with their types, and the types of its
/// results.
type Signature = (&'static [(&'static str, &'static str)], &'static [&'static str]);

const SIGNATURES: [Signature; 7] = [
    (&[("%i0", "i32"), ("%i1", "i32")], &["i32"]),
    (&[("%i0:1", "i64"), ("%i2", "f32"), ("%i3", "i32"), ("%i4:5", "f64")], &["f64", "i64", "i32"]),
    (&[("%i0", "f32"), ("%i1", "i32"), ("%i2:3", "i64")], &["f32", "i32"]),
    (&[("%i0:1", "f64")], &["f64"]),
    (
        &[
            ("%i0", "i32"),
            ("%i2:3", "i64"),
            ("%i4", "f32"),
            ("%i6:7", "f64"),
            ("%i8", "i32"),
            ("%i9", "f32"),
            ("%i10:11", "i64"),
            ("%i12:13", "f64"),
        ],
        &["i64", "i32", "i32"],
    ),
    (&[("%i0", "i32"), ("%r0", "!vm.buffer"), ("%i2:3", "i64")], &["i32"]),
    (&[("%r0", "!vm.buffer"), ("%r1", "!vm.buffer"), ("%i0", "i32")], &["!vm.buffer", "i32"]),
];

struct Writer<'a> {
    random: &'a mut (dyn Choices + 'a),
    text: String,
    /// Registers that hold what the function computes.
    words: u64,
    /// The next block.
    block: u64,
    /// The counters of the loops around.
    counters: Vec<u64>,
    number: usize,
    signatures: &'a [Signature],
    /// Functions from here on are plain: they use no references but to pass them on.
    plain: usize,
    /// If given, only ops of this list, which the reference runtime computes to the bit, and survives.
    portable: Option<&'a BTreeSet<String>>,
}

macro_rules! line {
    ($writer:expr, $($text:tt)*) => {{ $writer.text.push_str("  "); writeln!($writer.text, $($text)*).unwrap(); }};
}

#[path = "control.rs"]
mod control;
#[path = "ops.rs"]
mod ops;
#[path = "references.rs"]
mod references;
#[path = "small.rs"]
mod small;

use ops::Pool;

impl Writer<'_> {
    fn word(&mut self) -> String {
        format!("%i{}", self.random.below(self.words))
    }

    fn pair(&mut self) -> String {
        let low = self.random.below(self.words / 2) * 2;
        format!("%i{low}:{}", low + 1)
    }

    fn integer(&mut self, wide: bool) -> String {
        if wide { self.pair() } else { self.word() }
    }

    /// A register that a float is written to.
    fn float_target(&mut self, wide: bool) -> String {
        if wide {
            let low = DOUBLES + self.random.below(4) * 2;
            format!("%i{low}:{}", low + 1)
        } else {
            format!("%i{}", FLOATS + self.random.below(6))
        }
    }

    /// A register that is read as a float: one of those, or whatever bits an integer has.
    fn float(&mut self, wide: bool) -> String {
        if self.random.chance(6) { self.integer(wide) } else { self.float_target(wide) }
    }

    /// Writes a truth value to `target`.
    fn compare(&mut self, target: &str) {
        let pool = if self.random.chance(4) { Pool::FloatTruth } else { Pool::Truth };
        let op = self.choose_op(pool);
        self.write_op(op, Some(target));
        if self.random.chance(6) {
            // Compilers make the comparisons that the bytecode lacks so.
            line!(self, "{target} = vm.xor.i32 {target}, {NARROW_ONE}");
        }
    }

    /// An index of an element: of a loop around, of a few elements, or anything.
    fn index(&mut self) -> String {
        let kind = self.random.below(16);
        if kind < 9 && !self.counters.is_empty() {
            let counter = self.random.choose(&self.counters);
            let counter = format!("%i{counter}:{}", counter + 1);
            if kind < 4 {
                return counter;
            }
            let other = if kind < 6 { ONE.to_string() } else { counter.clone() };
            let op = self.random.choose(&["add", "mul"]);
            line!(self, "{PAIR} = vm.{op}.i64 {counter}, {other}");
        } else if kind < 15 {
            let pair = self.pair();
            line!(self, "{PAIR} = vm.and.i64 {pair}, {MASK}");
        } else if self.portable.is_some() {
            // Checks of the reference runtime wrap around.
            line!(self, "{PAIR} = vm.const.i64 {}", self.random.below(256));
        } else {
            return self.pair();
        }
        PAIR.to_string()
    }

    /// Whether a register holds a value.
    fn is_value(ty: &str) -> bool {
        !ty.starts_with('!')
    }

    fn takes_refs(&self) -> bool {
        self.signatures[self.number].0.iter().any(|(_, ty)| !Self::is_value(ty))
    }

    fn buffer(&mut self) -> &'static str {
        if self.takes_refs() && self.random.chance(4) {
            return "%r5";
        }
        self.random.choose(&["%r0", "%r0", "%r0", "%r0", "%r0", "%r0", "%r0", "%r3", "%r3", "%r2"])
    }

    fn float_op(&mut self) {
        // Calls that take long are rare, as they are in programs.
        let library = self.random.chance(6) && self.portable.is_none();
        self.one_of(if library { Pool::Library } else { Pool::Float });
    }

    /// From integers to floats and back.
    fn conversion(&mut self) {
        if !self.random.chance(4) {
            return self.one_of(Pool::Convert);
        }
        let wide = self.random.chance(2);
        let (target, source) = (self.integer(wide), self.float_target(wide));
        self.without_nan(&target, &source, wide);
    }

    /// Moves a float, and another number if it is a NaN.
    fn without_nan(&mut self, target: &str, source: &str, wide: bool) {
        let (nan, int, float) = if wide { (WIDE_NAN, "i64", "f64") } else { (NAN, "i32", "f32") };
        line!(self, "{CONDITION} = vm.cmp.nan.{float} {source}");
        let ty = self.random.choose(&[int, float]);
        line!(self, "{target} = vm.select.{ty} {CONDITION} ? {nan} : {source}");
    }

    fn is_plain(&self) -> bool {
        self.number >= self.plain
    }

    fn call(&mut self) {
        let count = self.signatures.len();
        // Functions that call themselves come to an end only where a limit is.
        let later = !self.random.chance(6);
        let callee = if later {
            self.number + 1 + self.random.below(2) as usize
        } else if self.is_plain() && !self.random.chance(8) {
            self.number
        } else {
            self.random.below(count as u64) as usize
        };
        let Some((params, results)) = self.signatures.get(callee).copied() else { return };
        let args: Vec<String> = params.iter().map(|(_, ty)| self.argument(ty)).collect();
        // No register takes two results.
        let mut next = self.random.below(self.words / 2 - 3) * 2;
        let targets = results.iter().map(|ty| {
            if !Self::is_value(ty) {
                return "%r2".to_string();
            }
            let register = if ty.ends_with("64") { format!("%i{next}:{}", next + 1) } else { format!("%i{next}") };
            next += 2;
            register
        });
        let targets = targets.collect::<Vec<_>>().join(", ");
        line!(self, "{targets} = vm.call @f{callee}({})", args.join(", "));
    }

    /// The argument for a parameter of a type.
    fn argument(&mut self, ty: &str) -> String {
        if Self::is_value(ty) {
            return self.integer(ty.ends_with("64"));
        }
        self.random.choose(&["%r0", "%r0", "%r3", "%r2", "%R2", "%r4"]).to_string()
    }

    fn instruction(&mut self) {
        match self.random.below(40) {
            0..10 => self.one_of(Pool::Combine),
            10..17 => self.one_of(Pool::Integer),
            17 | 18 => self.one_of(Pool::Constant),
            19 | 20 => self.one_of(Pool::Choose),
            21 => {
                let target = self.word();
                self.compare(&target);
            }
            22 => self.one_of(Pool::Divide),
            23..28 => self.float_op(),
            28..31 => self.conversion(),
            31..39 if self.is_plain() => self.one_of(Pool::Choose),
            31..38 => self.one_of(Pool::Element),
            38 => self.outside(),
            39 if self.is_plain() || self.random.chance(2) => self.one_of(Pool::Global),
            _ if self.is_plain() => self.call(),
            _ => self.outside(),
        }
    }

    fn instructions(&mut self, most: u64) {
        for _ in 0..self.random.below(most) {
            self.instruction();
        }
    }

    fn copies(&mut self) -> String {
        let count = self.random.choose(&[0, 0, 0, 1, 2, 3]);
        let mut copies: Vec<String> = (0..count).map(|_| format!("{}->{}", self.word(), self.word())).collect();
        if !self.is_plain() && self.random.chance(8) {
            // Copies, two buffers that change places, and one that moves away and comes back.
            let moves = ["%r0->%r2", "%r3->%r2", "%r4->%r2", "%r0->%r2, %R3->%r0, %R2->%r3", "%R3->%r2, %r2->%r3"];
            copies.push(self.random.choose(&moves).to_string());
        }
        copies.join(", ")
    }

    fn function(&mut self) {
        let (params, results) = self.signatures[self.number];
        let params: Vec<String> = params.iter().map(|(register, ty)| format!("{register}: {ty}")).collect();
        writeln!(self.text, "vm.func @f{}({}) -> ({}) {{\n^bb0:", self.number, params.join(", "), results.join(", "))
            .unwrap();
        if self.is_plain() && self.number > 0 && self.random.chance(2) {
            return self.small(self.signatures[self.number].0, results);
        }
        line!(self, "{MASK} = vm.const.i64 7\n  {ONE} = vm.const.i64 1");
        line!(self, "{NAN} = vm.const.i32 {}\n  {WIDE_NAN} = vm.const.i64 {}", 0x7FC0_0000, 0x7FF8_0000_0000_0000_u64);
        line!(self, "{PAIR} = vm.const.i64 128\n  {WORD} = vm.const.i32 16");
        if self.is_plain() {
            self.registers(self.signatures[self.number].0);
        } else {
            if self.takes_refs() {
                line!(self, "%r5 = vm.assign.ref %r0");
            }
            line!(self, "%r0 = vm.buffer.alloc {PAIR}, {WORD}\n  %r3 = vm.buffer.alloc {PAIR}, {WORD}");
            line!(self, "%r2 = vm.assign.ref %r0\n  %r4 = vm.const.ref.rodata 0");
            line!(self, "%r1 = vm.list.alloc {WORD} : !vm.list<i32>");
            if self.portable.is_none() {
                line!(self, "%r6 = vm.list.alloc {WORD} : !vm.list<!vm.opaque>\n  vm.list.resize %r6, {WORD}");
            }
        }
        for word in 6..self.words {
            if self.random.chance(2) {
                line!(self, "%i{word} = vm.const.i32 {}", self.random.choose(CONSTANTS));
            } else {
                let (a, b) = (self.random.below(word), self.random.below(word));
                line!(self, "%i{word} = vm.sub.i32 %i{a}, %i{b}");
            }
        }
        self.block = 1;
        if self.random.chance(2) {
            self.blocks()
        } else {
            self.statements(0)
        }
        self.end(results);
    }

    /// Writes all registers that are not parameters, since a frame that begins with zeros is made by the interpreter.
    fn registers(&mut self, params: &[(&str, &str)]) {
        let mut first: Vec<u64> = Vec::new();
        for (register, _) in params.iter().filter(|(_, ty)| Self::is_value(ty)) {
            first.extend(register[2..].split(':').map(|number| number.parse::<u64>().unwrap()));
        }
        for word in (0..self.words).chain(FLOATS..COUNTERS + 16).filter(|word| !first.contains(word)) {
            line!(self, "%i{word} = vm.const.i32 {}", self.random.choose(CONSTANTS));
        }
        line!(self, "{CONDITION} = vm.const.i32.zero");
    }

    /// All that was computed goes into the results.
    fn end(&mut self, results: &[&str]) {
        line!(self, "{SUM} = vm.const.i32 0\n  {WORD} = vm.const.i32 31");
        for word in 0..self.words {
            line!(self, "{SUM} = vm.mul.i32 {SUM}, {WORD}\n  {SUM} = vm.xor.i32 {SUM}, %i{word}");
        }
        for buffer in if self.is_plain() { &[][..] } else { &["%r0", "%r3"] } {
            line!(self, "%i64:65 = vm.const.i64.zero\n  {PAIR} = vm.buffer.length {buffer}");
            line!(self, "{PAIR} = vm.buffer.hash {buffer}, %i64:65, {PAIR}");
            line!(self, "{WORD} = vm.trunc.i64.i32 {PAIR}\n  {SUM} = vm.xor.i32 {SUM}, {WORD}");
        }
        let values = results.iter().map(|ty| match *ty {
            "i32" => SUM.to_string(),
            ty if !Self::is_value(ty) => self.random.choose(&["%r0", "%r2", "%R2", "%r3"]).to_string(),
            ty => self.integer(ty.ends_with("64")),
        });
        let values = values.collect::<Vec<_>>().join(", ");
        line!(self, "vm.return {values}\n}}\n");
    }
}

/// A program that exports `f0`, of two `i32` to one. One of `portable` ops does the same on the reference runtime, as
/// far as it ends there.
pub fn program(random: &mut dyn Choices, portable: Option<&BTreeSet<String>>) -> String {
    let mut signatures = vec![SIGNATURES[0]];
    for _ in 0..random.below(3) {
        signatures.push(random.choose(&SIGNATURES));
    }
    let mut text = String::from("vm.module @m version 0\nvm.type i32\nvm.type !vm.buffer\nvm.type !vm.list<i32>\n");
    text.push_str(if portable.is_some() { "" } else { references::IMPORTS });
    text.push_str("vm.rodata[0] = 0102038485868788090a0b0c0d0e0f90\nvm.export @f0\n");
    text.push_str("vm.global.i64 @a = 0 : i64\nvm.global.i64 @b = 0 : i64\nvm.global.i64 @c = 0 : i64\n");
    text.push_str("vm.global.f32 @d = 0 : f32\nvm.global.f64 @e = 0 : f64\n");
    text.push_str("vm.state bytes 40 refs 2\n");
    let plain = if random.chance(2) { random.below(signatures.len() as u64 + 1) as usize } else { signatures.len() };
    for number in 0..signatures.len() {
        let words = random.choose(&[8, 8, 10, 16, 40]);
        let mut writer = Writer {
            random: &mut *random,
            text: String::new(),
            words,
            block: 1,
            counters: Vec::new(),
            number,
            signatures: &signatures,
            plain,
            portable,
        };
        writer.function();
        text.push_str(&writer.text);
    }
    text
}
