//! Single instructions: words that were recognised as an instruction in one of its encodings, with access to fields and
//! operands; and the encoder, which makes the words of an instruction from its fields.

use std::fmt;
use std::sync::OnceLock;

use crate::isa::immediates::Dpp16Word;
use crate::isa::operands::{DPP8, DPP8_FETCH_INACTIVE, DPP16, FIRST_VECTOR, LITERAL, SCALAR_REGISTERS};
use crate::isa::{
    ENCODINGS, Encoding, Field, FieldKind, INSTRUCTIONS, InstructionInfo, LEFT_OUT, Opcode, OperandType, Slot,
};

/// An instruction with its words.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Instruction {
    /// Which one; of two at once, X.
    pub opcode: Opcode,
    /// Its encoding.
    pub encoding: Encoding,
    /// The words; unused ones are zero.
    pub words: [u32; 3],
    /// How many words it has, with the literal or word of DPP.
    pub length: u32,
}

/// Words that are no instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DecodeError {
    /// The code ends within the instruction.
    Truncated,
    /// No encoding has these fixed bits.
    UnknownEncoding(u32),
    /// The encoding has no instruction with this number.
    UnknownOpcode(Encoding, u32),
}

impl DecodeError {
    /// The mnemonic of an instruction that assemblers have and this crate has not, if that is what it is.
    pub fn mnemonic(&self) -> Option<&'static str> {
        let DecodeError::UnknownOpcode(encoding, number) = self else { return None };
        // Two encodings share their numbers, of which tables of assemblers have the first one's.
        let encoding = if *encoding == Encoding::Vop3sd { Encoding::Vop3 } else { *encoding };
        let found = LEFT_OUT.iter().find(|(other, of, _)| (*other, *of) == (encoding, *number));
        found.map(|(.., name)| *name).or(match encoding {
            Encoding::Mimg => Some("image_*"),
            Encoding::Export => Some("exp"),
            _ => None,
        })
    }

    /// How many words what was not decoded has, as far as its encoding says.
    pub fn words(&self) -> usize {
        match self {
            DecodeError::UnknownOpcode(encoding, _) => encoding.info().words as usize,
            DecodeError::Truncated | DecodeError::UnknownEncoding(_) => 1,
        }
    }
}

impl fmt::Display for DecodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            DecodeError::Truncated => f.write_str("the code ends within an instruction"),
            DecodeError::UnknownEncoding(word) => write!(f, "0x{word:08x} begins no encoding"),
            DecodeError::UnknownOpcode(encoding, number) => {
                if let Some(name) = self.mnemonic() {
                    return write!(f, "{name} is not known");
                }
                write!(f, "{} has no instruction 0x{number:x}", encoding.info().name)
            }
        }
    }
}

impl std::error::Error for DecodeError {}

/// An operand as it is encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operand {
    /// This vector register and those after it.
    Vector(u32),
    /// This scalar register and those after it.
    Scalar(u32),
    /// A constant or special register by its number in a source field.
    Constant(u32),
    /// The literal.
    Literal(u32),
    /// An immediate.
    Number(u32),
}

/// The instructions of each encoding at their numbers.
fn by_number() -> &'static [Vec<Option<Opcode>>] {
    static TABLE: OnceLock<Vec<Vec<Option<Opcode>>>> = OnceLock::new();
    TABLE.get_or_init(|| {
        let mut table = vec![Vec::new(); ENCODINGS.len()];
        for info in &INSTRUCTIONS {
            for (encoding, number) in info.forms {
                let row = &mut table[*encoding as usize];
                row.resize(row.len().max(*number as usize + 1), None);
                row[*number as usize] = Some(info.opcode);
            }
        }
        table
    })
}

fn lookup(encoding: Encoding, number: u32) -> Option<Opcode> {
    by_number()[encoding as usize].get(number as usize).copied().flatten()
}

fn bits(words: &[u32; 3], bit: u32, width: u32) -> u32 {
    let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 };
    (words[(bit / 32) as usize] >> (bit % 32)) & mask
}

impl Instruction {
    /// Decodes the instruction at the start of `code`.
    ///
    /// # Errors
    /// If the words are not an instruction of the spec.
    pub fn decode(code: &[u32]) -> Result<Self, DecodeError> {
        let mut words = [0; 3];
        let first = *code.first().ok_or(DecodeError::Truncated)?;
        words[0] = first;
        let matches = |info: &&crate::isa::EncodingInfo| {
            info.fixed.iter().all(|(bit, width, value)| bits(&[first, 0, 0], *bit, *width) == *value)
        };
        let info = ENCODINGS.iter().find(matches).ok_or(DecodeError::UnknownEncoding(first))?;
        let mut encoding = info.encoding;
        let number = info.fields.iter().find(|field| field.kind == FieldKind::Opcode);
        let number = number.map_or(0, |field| bits(&words, field.bit, field.width));
        // These two share their fixed bits, and the number tells them apart.
        let opcode = match (encoding, lookup(encoding, number)) {
            (Encoding::Vop3 | Encoding::Vop3sd, None) => {
                encoding = if encoding == Encoding::Vop3 { Encoding::Vop3sd } else { Encoding::Vop3 };
                lookup(encoding, number)
            }
            (_, found) => found,
        };
        let opcode = opcode.ok_or(DecodeError::UnknownOpcode(encoding, number))?;
        let mut length = info.words;
        let take = |words: &mut [u32; 3], length: u32| {
            let taken = code.get(..length as usize).ok_or(DecodeError::Truncated)?;
            words[..taken.len()].copy_from_slice(taken);
            Ok(())
        };
        take(&mut words, length)?;
        let mut instruction = Instruction { opcode, encoding, words, length };
        if instruction.has_extra_word() {
            length += 1;
            take(&mut instruction.words, length)?;
            instruction.length = length;
        }
        if let Some(None) = (encoding == Encoding::Vopd).then(|| instruction.opcode_y()) {
            return Err(DecodeError::UnknownOpcode(encoding, instruction.field(Field::OpY)));
        }
        Ok(instruction)
    }

    /// The instruction with zeros in all fields but the number.
    pub fn new(opcode: Opcode, encoding: Encoding) -> Option<Self> {
        let number = opcode.info().number(encoding)?;
        let info = encoding.info();
        let mut instruction = Instruction { opcode, encoding, words: [0; 3], length: info.words };
        for (bit, width, value) in info.fixed {
            instruction.put(*bit, *width, *value);
        }
        instruction.set(Field::Op, number);
        Some(instruction)
    }

    fn put(&mut self, bit: u32, width: u32, value: u32) {
        let mask = if width == 32 { u32::MAX } else { (1 << width) - 1 };
        let word = &mut self.words[(bit / 32) as usize];
        *word = (*word & !(mask << (bit % 32))) | ((value & mask) << (bit % 32));
    }

    /// Sets a field; bits that do not fit are dropped, and so is a field that the encoding does not have.
    pub fn set(&mut self, field: Field, value: u32) {
        if let Some(info) = self.encoding.info().field(field) {
            self.put(info.bit, info.width, value);
        }
    }

    /// Appends a literal or a word of DPP.
    pub fn set_extra_word(&mut self, word: u32) {
        let words = self.encoding.info().words;
        self.words[words as usize] = word;
        self.length = words + 1;
    }

    /// The words.
    pub fn encode(&self) -> &[u32] {
        &self.words[..self.length as usize]
    }

    /// The table of the instruction.
    pub fn info(&self) -> &'static InstructionInfo {
        self.opcode.info()
    }

    /// The value of a field, or 0 if the encoding does not have it.
    pub fn field(&self, field: Field) -> u32 {
        self.encoding.info().field(field).map_or(0, |info| bits(&self.words, info.bit, info.width))
    }

    /// The word after those of the encoding: a literal or DPP.
    pub fn extra_word(&self) -> Option<u32> {
        let words = self.encoding.info().words;
        (self.length > words).then(|| self.words[words as usize])
    }

    /// The number of the first source, if a word of DPP follows.
    pub fn dpp(&self) -> Option<u32> {
        let vector = matches!(
            self.encoding,
            Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc | Encoding::Vop3 | Encoding::Vop3sd | Encoding::Vop3p
        );
        let source = self.field(Field::Src0);
        (vector && matches!(source, DPP16 | DPP8 | DPP8_FETCH_INACTIVE)).then_some(source)
    }

    /// Y of two instructions at once.
    pub fn opcode_y(&self) -> Option<Opcode> {
        if self.encoding != Encoding::Vopd {
            return None;
        }
        lookup(Encoding::Vopd, self.field(Field::OpY))
    }

    /// How many words after its own the instruction is that it may branch to; none if it is no branch.
    pub fn branch_words(&self) -> Option<i64> {
        let name = self.info().name;
        let branches =
            self.encoding == Encoding::Sopp && (name.starts_with("s_branch") || name.starts_with("s_cbranch"));
        branches.then(|| i64::from(self.field(Field::Simm16) as u16 as i16) + 1)
    }

    fn has_extra_word(&self) -> bool {
        let info = self.info();
        let sources = self.encoding.info().fields.iter().filter(|field| field.kind == FieldKind::Source);
        let used = |field: Field| {
            let slot = self.encoding.info().operands.iter().find(|(_, other)| *other == field);
            slot.is_none_or(|(slot, _)| info.operand(*slot).is_some())
        };
        let mut values = sources.filter(|source| used(source.field)).map(|source| self.field(source.field));
        // A buffer's offset cannot be a literal, and the number of a message is none.
        let message = matches!(self.opcode, Opcode::SSendmsgRtnB32 | Opcode::SSendmsgRtnB64);
        let literal = self.encoding != Encoding::Mubuf && !message && values.any(|value| value == LITERAL);
        let has_k = |opcode: Opcode| opcode.info().operand(Slot::K).is_some();
        literal || has_k(self.opcode) || self.opcode_y().is_some_and(has_k) || self.dpp().is_some()
    }

    /// The operand `slot`, if this form has a field for it.
    pub fn operand(&self, slot: Slot) -> Option<Operand> {
        if slot == Slot::K {
            return self.extra_word().map(Operand::Literal);
        }
        let field = self.encoding.field_of(slot)?;
        Some(self.operand_at(field, self.info().operand(slot)))
    }

    /// The operand in `field`, of this type.
    pub fn operand_at(&self, field: Field, ty: Option<OperandType>) -> Operand {
        let value = self.field(field);
        let info = self.encoding.info().field(field);
        match info.map(|info| info.kind) {
            // Masks and scalar results are numbers of scalar registers also where vector registers usually are.
            Some(FieldKind::Vector) if !matches!(ty, Some(OperandType::Mask | OperandType::Scalar)) => {
                Operand::Vector(value)
            }
            Some(FieldKind::Vector | FieldKind::Scalar) => Operand::Scalar(value % SCALAR_REGISTERS),
            Some(FieldKind::ScalarPair) => Operand::Scalar(2 * value),
            Some(FieldKind::ScalarQuad) => Operand::Scalar(4 * value),
            Some(FieldKind::Source) => match value {
                ..SCALAR_REGISTERS => Operand::Scalar(value),
                LITERAL => Operand::Literal(self.extra_word().unwrap_or(0)),
                FIRST_VECTOR.. => Operand::Vector(value - FIRST_VECTOR),
                DPP16 | DPP8 | DPP8_FETCH_INACTIVE if field == Field::Src0 && self.dpp().is_some() => {
                    // The register is in the same bits of both words of DPP.
                    Operand::Vector(Dpp16Word(self.extra_word().unwrap_or(0)).src0())
                }
                constant => Operand::Constant(constant),
            },
            _ => Operand::Number(value),
        }
    }

    /// Y of two instructions at once as an instruction of its own, in the encoding of X.
    pub fn y(&self) -> Option<Instruction> {
        let mut y = Instruction { opcode: self.opcode_y()?, ..*self };
        let result = 2 * self.field(Field::VdstY) + (1 - self.field(Field::Vdst) % 2);
        let (source, second) = (self.field(Field::Src0Y), self.field(Field::Vsrc1Y));
        y.set(Field::Vdst, result);
        y.set(Field::Src0, source);
        y.set(Field::Vsrc1, second);
        Some(y)
    }
}

impl Instruction {
    /// The value of a field with a sign.
    pub(crate) fn signed_field(&self, field: Field) -> i32 {
        let width = self.encoding.info().field(field).map_or(32, |info| info.width);
        (self.field(field) << (32 - width)) as i32 >> (32 - width)
    }

    /// The offset of a memory access. That of a flat one has no sign.
    pub(crate) fn offset(&self) -> i32 {
        match self.encoding {
            Encoding::Flat => self.field(Field::Offset) as i32,
            _ => self.signed_field(Field::Offset),
        }
    }

    /// True if the operand `slot` is half a register by the number of its field: VOP1, VOP2 and VOPC have registers 0
    /// to 127 of 16 bits, and the bit above says which half.
    pub(crate) fn has_half_bit(&self, slot: Slot) -> bool {
        let short = matches!(self.encoding, Encoding::Vop1 | Encoding::Vop2 | Encoding::Vopc);
        let field = self.encoding.field_of(slot).and_then(|field| self.encoding.info().field(field));
        let vector = field.is_some_and(|field| matches!(field.kind, FieldKind::Vector | FieldKind::Source));
        short && vector && self.info().operand(slot).is_some_and(OperandType::is_half)
    }
}
