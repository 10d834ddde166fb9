//! The types of the generated tables, and look-ups in them.

pub use crate::generated::counters::COUNTERS;
pub use crate::generated::encodings::{ENCODINGS, Encoding, Field, FieldKind, Slot};
pub use crate::generated::immediates;
pub use crate::generated::instructions::{INSTRUCTIONS, LEFT_OUT, Opcode};
pub use crate::generated::limits;
pub use crate::generated::operands::{self, Bank, OperandType, RegisterText};
use crate::generated::operands::{FLOATS, INTEGERS, REGISTERS, SPECIALS};

/// A field of an encoding.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// Which one.
    pub field: Field,
    /// Its lowest bit, counted from the lowest of the first word.
    pub bit: u32,
    /// How many bits.
    pub width: u32,
    /// Its meaning.
    pub kind: FieldKind,
}

/// An encoding.
#[derive(Clone, Copy, Debug)]
pub struct EncodingInfo {
    /// Which one.
    pub encoding: Encoding,
    /// Its name in the spec.
    pub name: &'static str,
    /// Words without a literal.
    pub words: u32,
    /// Bits that are the same in each instruction: lowest bit, width, value.
    pub fixed: &'static [(u32, u32, u32)],
    /// The fields.
    pub fields: &'static [FieldInfo],
    /// The fields of operands.
    pub operands: &'static [(Slot, Field)],
}

/// Registers with numbers one after another.
#[derive(Clone, Copy, Debug)]
pub struct Registers {
    /// `vcc`
    pub name: &'static str,
    /// Their bank.
    pub bank: Bank,
    /// The number of the first one in its bank.
    pub first: u32,
    /// That of the last one.
    pub last: u32,
    /// How they are written.
    pub text: RegisterText,
}

impl Registers {
    /// The registers to which the one with this number belongs.
    pub fn find(bank: Bank, number: u32) -> Option<&'static Registers> {
        REGISTERS
            .iter()
            .find(|registers| registers.bank == bank && (registers.first..=registers.last).contains(&number))
    }
}

/// Integers that numbers of source fields stand for.
#[derive(Clone, Copy, Debug)]
pub struct Integers {
    /// The first number.
    pub first: u32,
    /// The last number.
    pub last: u32,
    /// The value that the first number stands for.
    pub value: i32,
    /// The difference between the values of neighbouring numbers.
    pub step: i32,
}

/// A float that a number of a source field stands for.
#[derive(Clone, Copy, Debug)]
pub struct FloatConstant {
    /// The number.
    pub number: u32,
    /// Its text as f16 and f32.
    pub text: &'static str,
    /// Its text as f64.
    pub text_f64: &'static str,
    /// Its bits as f16.
    pub f16: u16,
    /// Its bits as f32.
    pub f32: u32,
    /// Its bits as f64.
    pub f64: u64,
}

/// The integer that a number of a source field stands for.
pub fn integer(number: u32) -> Option<i32> {
    let found = INTEGERS.iter().find(|integers| (integers.first..=integers.last).contains(&number))?;
    Some(found.value + found.step * (number - found.first) as i32)
}

/// The float that a number of a source field stands for.
pub fn float(number: u32) -> Option<&'static FloatConstant> {
    FLOATS.iter().find(|float| float.number == number)
}

/// The name of the value of the wave or the device that a number of a source field stands for.
pub fn special(number: u32) -> Option<&'static str> {
    SPECIALS.iter().find(|(other, _)| *other == number).map(|(_, name)| *name)
}

/// A field of a word.
#[derive(Clone, Copy, Debug)]
pub struct BitField {
    /// Its name.
    pub name: &'static str,
    /// Its lowest bit.
    pub bit: u32,
    /// How many bits.
    pub width: u32,
}

impl immediates::Dpp16Word {
    /// A bit for each source whose sign changes, after it may have been cleared.
    pub fn negated(self) -> u32 {
        u32::from(self.neg0()) | u32::from(self.neg1()) << 1
    }

    /// A bit for each source whose sign is cleared.
    pub fn absolute(self) -> u32 {
        u32::from(self.abs0()) | u32::from(self.abs1()) << 1
    }
}

impl BitField {
    /// The largest value.
    pub const fn max(self) -> u32 {
        u32::MAX >> (32 - self.width)
    }

    /// The value in `word`.
    pub const fn of(self, word: u32) -> u32 {
        word >> self.bit & self.max()
    }
}

/// An instruction.
#[derive(Clone, Copy, Debug)]
pub struct InstructionInfo {
    /// Which one.
    pub opcode: Opcode,
    /// Its name without a suffix of the encoding.
    pub name: &'static str,
    /// Its encodings and the numbers there.
    pub forms: &'static [(Encoding, u32)],
    /// Its operands in the order of the text form.
    pub operands: &'static [(Slot, OperandType)],
    /// The operands that its handler reads, in order.
    pub reads: &'static [(Slot, OperandType)],
    /// True if it sets EXEC by another way than its result.
    pub sets_exec: bool,
    /// True if it does nothing that an interpreter could see, such as a wait for what is done already.
    pub has_no_effect: bool,
    /// True if it has a result only where the bit `glc` is set.
    pub returns_by_glc: bool,
}

/// A counter of waves, or of instructions that they execute.
#[derive(Clone, Copy, Debug)]
pub struct CounterInfo {
    /// `SQ_INSTS_VALU`
    pub name: &'static str,
    /// The events that it counts, for people.
    pub description: &'static str,
    /// The encodings whose instructions it counts; none if it counts waves.
    pub encodings: &'static [Encoding],
    /// Whether it counts only instructions that have a result, or only those that have none.
    pub returns: Option<bool>,
    /// Instructions that it does not count.
    pub without: &'static [Opcode],
}

impl InstructionInfo {
    /// The number in `encoding`, if it has this form.
    pub fn number(&self, encoding: Encoding) -> Option<u32> {
        self.forms.iter().find(|(form, _)| *form == encoding).map(|(_, number)| *number)
    }

    /// The type of an operand.
    pub fn operand(&self, slot: Slot) -> Option<OperandType> {
        self.operands.iter().find(|(name, _)| *name == slot).map(|(_, ty)| *ty)
    }

    /// True if it works on scalar registers alone.
    pub fn is_scalar(&self) -> bool {
        self.name.starts_with("s_")
    }
}

impl Encoding {
    /// Its table.
    pub fn info(self) -> &'static EncodingInfo {
        &ENCODINGS[self as usize]
    }

    /// The field of an operand.
    pub fn field_of(self, slot: Slot) -> Option<Field> {
        self.info().operands.iter().find(|(name, _)| *name == slot).map(|(_, field)| *field)
    }
}

impl EncodingInfo {
    /// The field `field`, if the encoding has it.
    pub fn field(&self, field: Field) -> Option<&'static FieldInfo> {
        self.fields.iter().find(|info| info.field == field)
    }
}

impl Opcode {
    /// Its table.
    pub fn info(self) -> &'static InstructionInfo {
        &INSTRUCTIONS[self as usize]
    }

    /// The instruction with this number in an encoding.
    pub fn find(encoding: Encoding, number: u32) -> Option<Opcode> {
        let found = INSTRUCTIONS.iter().find(|info| info.number(encoding) == Some(number));
        found.map(|info| info.opcode)
    }

    /// The instruction of this name, without a suffix of the encoding.
    pub fn of_name(name: &str) -> Option<Opcode> {
        INSTRUCTIONS.iter().find(|info| info.name == name).map(|info| info.opcode)
    }
}

/// The tables of families as one.
pub(crate) const fn joined<const N: usize>(families: &[&[InstructionInfo]]) -> [InstructionInfo; N] {
    let mut all = [families[0][0]; N];
    let (mut family, mut index, mut at) = (0, 0, 0);
    while at < N {
        if index == families[family].len() {
            (family, index) = (family + 1, 0);
        } else {
            all[at] = families[family][index];
            (index, at) = (index + 1, at + 1);
        }
    }
    all
}
