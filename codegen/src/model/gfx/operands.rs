//! The meanings of the numbers of source fields: registers, constants, and words that follow the instruction. Their
//! types, their reader, and the rule that each number is declared once.

use serde::Deserialize;

use crate::diag::{Diagnostics, Origin};
use crate::entry::Entry;

/// How many bits source fields have at most.
pub const SOURCE_BITS: u32 = 9;
/// How many bits fields of vector registers have; in source fields the next bit is set for these registers.
pub const VECTOR_BITS: u32 = 8;
/// How many bits fields of scalar registers have.
pub const SCALAR_BITS: u32 = 7;

/// The kinds of entries that this room reads.
pub(super) const KINDS: [&str; 6] = ["registers", "integers", "float", "special", "extra_word", "reserved"];

/// Numbers of source fields with one meaning.
#[derive(Clone, Debug)]
pub struct Source {
    /// `vcc`
    pub name: String,
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
    /// The meaning of the numbers.
    pub kind: SourceKind,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// The meaning of numbers of source fields.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SourceKind {
    /// Registers.
    Registers {
        /// Of which bank.
        bank: Bank,
        /// How they are written.
        text: RegisterText,
    },
    /// Integers.
    Integers {
        /// The first one.
        first: i32,
        /// The increment for the next one.
        step: i32,
    },
    /// A float, which is named as its text.
    Float(Float),
    /// A value of the wave or the device.
    Special,
    /// A value that is in the word after the instruction.
    ExtraWord,
    /// Nothing.
    Reserved,
}

/// The bits of a float constant.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Float {
    /// As f16.
    pub f16: u16,
    /// As f32.
    pub f32: u32,
    /// As f64.
    pub f64: u64,
}

/// A bank of registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bank {
    /// One value for the wave.
    Scalar,
    /// One value for each lane.
    Vector,
}

/// How registers are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegisterText {
    /// `s5`, `s[2:3]`
    Numbered,
    /// `vcc_lo`, `vcc_hi`, and both as `vcc`.
    Halves,
    /// `m0`
    Single,
}

impl Bank {
    /// The banks by their names in specs and in Rust.
    pub const NAMES: [(&'static str, &'static str, Bank); 2] =
        [("scalar", "Scalar", Bank::Scalar), ("vector", "Vector", Bank::Vector)];
}

impl RegisterText {
    /// The forms by their names in specs and in Rust.
    pub const NAMES: [(&'static str, &'static str, RegisterText); 3] = [
        ("numbered", "Numbered", RegisterText::Numbered),
        ("halves", "Halves", RegisterText::Halves),
        ("single", "Single", RegisterText::Single),
    ];
}

impl Source {
    /// True if `number` is one of its numbers.
    pub fn is_number(&self, number: u32) -> bool {
        (self.first..=self.last).contains(&number)
    }
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawRegisters {
    registers: String,
    numbers: [u32; 2],
    bank: String,
    text: String,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawIntegers {
    integers: String,
    numbers: [u32; 2],
    first: i32,
    step: i32,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawFloat {
    float: String,
    number: u32,
    f16: u16,
    f32: u32,
    f64: u64,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawSpecial {
    special: String,
    number: u32,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawExtraWord {
    extra_word: String,
    number: u32,
    doc: String,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct RawReserved {
    reserved: String,
    numbers: [u32; 2],
    doc: String,
}

/// Reads an entry of one of [`KINDS`].
pub(super) fn read(entry: &Entry, diagnostics: &mut Diagnostics) -> Option<Source> {
    let (name, [first, last], kind, doc) = match entry.kind.as_str() {
        "registers" => {
            let raw: RawRegisters = entry.parse(diagnostics)?;
            let kind = registers(entry, &raw, diagnostics)?;
            (raw.registers, raw.numbers, kind, raw.doc)
        }
        "integers" => {
            let raw: RawIntegers = entry.parse(diagnostics)?;
            let kind = SourceKind::Integers { first: raw.first, step: raw.step };
            (raw.integers, raw.numbers, kind, raw.doc)
        }
        "float" => {
            let raw: RawFloat = entry.parse(diagnostics)?;
            let float = Float { f16: raw.f16, f32: raw.f32, f64: raw.f64 };
            check_float(entry, &raw.float, float, diagnostics);
            (raw.float, [raw.number; 2], SourceKind::Float(float), raw.doc)
        }
        "special" => {
            let raw: RawSpecial = entry.parse(diagnostics)?;
            (raw.special, [raw.number; 2], SourceKind::Special, raw.doc)
        }
        "extra_word" => {
            let raw: RawExtraWord = entry.parse(diagnostics)?;
            (raw.extra_word, [raw.number; 2], SourceKind::ExtraWord, raw.doc)
        }
        _ => {
            let raw: RawReserved = entry.parse(diagnostics)?;
            (raw.reserved, raw.numbers, SourceKind::Reserved, raw.doc)
        }
    };
    entry.need_doc(&doc, diagnostics);
    if first > last || last >> SOURCE_BITS != 0 {
        let message = format!("{first} to {last} is not a range of numbers of {SOURCE_BITS} bits");
        diagnostics.error(&entry.origin_of("numbers"), message);
        return None;
    }
    Some(Source { name, first, last, kind, doc, origin: entry.origin.clone() })
}

fn registers(entry: &Entry, raw: &RawRegisters, diagnostics: &mut Diagnostics) -> Option<SourceKind> {
    let Some((.., bank)) = Bank::NAMES.iter().find(|(name, ..)| *name == raw.bank) else {
        let message = format!("`{}` is not a bank of registers", raw.bank);
        let known = Bank::NAMES.iter().map(|(name, ..)| *name);
        diagnostics.unknown(&entry.origin_of("bank"), &raw.bank, message, known);
        return None;
    };
    let Some((.., text)) = RegisterText::NAMES.iter().find(|(name, ..)| *name == raw.text) else {
        let message = format!("`{}` is not a form of text", raw.text);
        let known = RegisterText::NAMES.iter().map(|(name, ..)| *name);
        diagnostics.unknown(&entry.origin_of("text"), &raw.text, message, known);
        return None;
    };
    let count = raw.numbers[1].saturating_sub(raw.numbers[0]).saturating_add(1);
    let expected = match text {
        RegisterText::Numbered => count,
        RegisterText::Halves => 2,
        RegisterText::Single => 1,
    };
    if count != expected {
        let message = format!("{count} registers cannot be written as `{}`: expected {expected}", raw.text);
        diagnostics.error(&entry.origin_of("text"), message);
    }
    Some(SourceKind::Registers { bank: *bank, text: *text })
}

/// The formats have to agree: each is the float of its width that is nearest to the next wider one, and the name is the
/// text of f32.
fn check_float(entry: &Entry, name: &str, float: Float, diagnostics: &mut Diagnostics) {
    let wide = f64::from_bits(float.f64);
    if (wide as f32).to_bits() != float.f32 {
        let message =
            format!("`{name}`: f32 is 0x{:08X}, but f64 rounds to 0x{:08X}", float.f32, (wide as f32).to_bits());
        diagnostics.error(&entry.origin_of("f32"), message);
    }
    // Normal numbers of f16: a step is 2^-10 of the power of two below.
    let exponent = i32::from(float.f16 >> 10 & 31) - 15;
    let magnitude = (1.0 + f64::from(float.f16 & 0x3FF) / 1024.0) * f64::from(exponent).exp2();
    let value = if float.f16 >> 15 == 1 { -magnitude } else { magnitude };
    if (value - wide).abs() > f64::from(exponent - 11).exp2() {
        let message = format!("`{name}`: f16 is 0x{:04X}, which is {value}, but f64 is {wide}", float.f16);
        diagnostics.error(&entry.origin_of("f16"), message);
    }
    if name.parse::<f32>().map(f32::to_bits) != Ok(float.f32) {
        let message = format!("`{name}` is not the text of f32, {:?}", f32::from_bits(float.f32));
        diagnostics.error(&entry.origin, message);
    }
}

/// Each number is declared once; scalar registers have the numbers of their fields, and vector registers these and one
/// bit above.
pub(super) fn check(sources: &[Source], diagnostics: &mut Diagnostics) {
    let mut sorted: Vec<&Source> = sources.iter().collect();
    sorted.sort_by_key(|source| source.first);
    let mut next = 0;
    for (index, source) in sorted.iter().enumerate() {
        if let Some(other) = sorted[..index].iter().find(|other| other.is_number(source.first)) {
            let message =
                format!("the number {} is that of `{}` at {} already", source.first, other.name, other.origin);
            diagnostics.error(&source.origin, message);
        }
        gap(next, source.first, &source.origin, diagnostics);
        next = next.max(source.last + 1);
        let expected = match source.kind {
            SourceKind::Registers { bank: Bank::Scalar, .. } => 0..1 << SCALAR_BITS,
            SourceKind::Registers { bank: Bank::Vector, .. } => 1 << VECTOR_BITS..1 << SOURCE_BITS,
            _ => 1 << SCALAR_BITS..1 << VECTOR_BITS,
        };
        if !expected.contains(&source.first) || !expected.contains(&source.last) {
            let message = format!(
                "{} to {} is not within {} to {}, the numbers of entries of this kind",
                source.first,
                source.last,
                expected.start,
                expected.end - 1
            );
            diagnostics.error(&source.origin, message);
        }
        if let SourceKind::Integers { first, step } = source.kind {
            let last = i64::from(first) + i64::from(step) * i64::from(source.last - source.first);
            if step == 0 || i32::try_from(last).is_err() {
                diagnostics.error(&source.origin, format!("`{}`: steps of {step} give no integers", source.name));
            }
        }
    }
    if let Some(last) = sorted.last() {
        gap(next, 1 << SOURCE_BITS, &last.origin, diagnostics);
    }
}

fn gap(expected: u32, found: u32, origin: &Origin, diagnostics: &mut Diagnostics) {
    if found > expected {
        let message = format!("the numbers {expected} to {} are not declared; `reserved` says so", found - 1);
        diagnostics.error(origin, message);
    }
}
