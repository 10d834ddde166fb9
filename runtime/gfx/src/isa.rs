//! The types of the generated tables, and look-ups in them.

pub use crate::generated::encodings::{ENCODINGS, Encoding, Field, FieldKind, Slot};
pub use crate::generated::instructions::{INSTRUCTIONS, Opcode};

/// A field of an encoding.
#[derive(Clone, Copy, Debug)]
pub struct FieldInfo {
    /// Which one.
    pub field: Field,
    /// Its lowest bit, counted from the lowest of the first word.
    pub bit: u32,
    /// How many bits.
    pub width: u32,
    /// What it means.
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

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "named as in the spec")]
pub enum OperandType {
    B16,
    B32,
    B64,
    F16,
    F32,
    F64,
    I64,
    Mask,
    Scalar,
    Imm16,
    Unsigned16,
    Packed16,
    Packed8,
    Mixed,
    B96,
    B128,
    B256,
    B512,
    Address,
    Offset,
    Base,
    Buffer,
    Bit,
}

impl OperandType {
    /// How many registers it takes.
    pub fn words(self) -> u32 {
        match self {
            OperandType::B64 | OperandType::F64 | OperandType::I64 => 2,
            OperandType::B96 => 3,
            OperandType::B128 => 4,
            OperandType::B256 => 8,
            OperandType::B512 => 16,
            _ => 1,
        }
    }

    /// True if it is half a register.
    pub fn is_half(self) -> bool {
        matches!(self, OperandType::B16 | OperandType::F16)
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
    /// What its handler reads, in order.
    pub reads: &'static [(Slot, OperandType)],
    /// True if it sets EXEC by another way than its result.
    pub sets_exec: bool,
    /// True if it does nothing that an interpreter could see, such as a wait for what is done already.
    pub has_no_effect: bool,
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
