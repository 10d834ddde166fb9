//! The types of the model of GPU instructions, such as `spec/isa/gfx11/`.

use super::operands::Source;
use super::words::{Choice, Word};
use crate::diag::Origin;
use crate::model::constant::Constant;
use crate::sem::{Expr, Ty, Vocabulary};

/// Every entry of a folder of GPU instructions.
#[derive(Clone, Debug, Default)]
pub struct Gfx {
    /// The name of the folder.
    pub name: String,
    /// Encodings; those with more fixed bits first, in which order a decoder tries them.
    pub encodings: Vec<Encoding>,
    /// The vocabulary of semantics.
    pub primitives: Vocabulary,
    /// Instructions, in the order of the specs.
    pub instructions: Vec<Instruction>,
    /// The meanings of the numbers of source fields, in the order of the specs.
    pub sources: Vec<Source>,
    /// Named numbers.
    pub constants: Vec<Constant>,
    /// Words of bit fields.
    pub words: Vec<Word>,
    /// The names of values of such fields.
    pub choices: Vec<Choice>,
    /// The counters of profiles, in the order of the specs.
    pub counters: Vec<Counter>,
    /// The mnemonics that an assembler has.
    pub assembler: Vec<Mnemonics>,
    /// Those that are no instructions here.
    pub left_out: Vec<LeftOut>,
}

/// A counter.
#[derive(Clone, Debug)]
pub struct Counter {
    /// `SQ_INSTS_VALU`
    pub name: String,
    /// Its documentation, which profiles have too.
    pub doc: String,
    /// The encodings whose instructions it counts; none if it counts waves.
    pub encodings: Vec<String>,
    /// Whether it counts only accesses that have a result, or only those that have none.
    pub returns: Option<bool>,
    /// Instructions that it does not count.
    pub without: Vec<String>,
    /// Where it is declared.
    pub origin: Origin,
}

/// The mnemonics that an assembler has in an encoding.
#[derive(Clone, Debug)]
pub struct Mnemonics {
    /// The name of the encoding.
    pub encoding: String,
    /// The numbers, and the names without a suffix.
    pub names: Vec<(u32, String)>,
    /// Where they are declared.
    pub origin: Origin,
}

/// Mnemonics that are left out.
#[derive(Clone, Debug)]
pub struct LeftOut {
    /// Their purpose, `of_vertices`.
    pub name: String,
    /// The mnemonics.
    pub names: Vec<String>,
    /// Why.
    pub reason: String,
    /// Where that is declared.
    pub origin: Origin,
}

/// The bits of a family of instructions.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// `vop3`
    pub name: String,
    /// How many words, without a literal.
    pub words: u32,
    /// Its documentation.
    pub doc: String,
    /// Bits with the same value in each instruction.
    pub fixed: Vec<Fixed>,
    /// The other bits that mean something.
    pub fields: Vec<Field>,
    /// The fields of operands, by the names of operands.
    pub operands: Vec<(String, String)>,
    /// Where it is declared.
    pub origin: Origin,
}

/// Bits of a fixed value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fixed {
    /// The lowest bit.
    pub bit: u32,
    /// How many bits.
    pub width: u32,
    /// Their value.
    pub value: u32,
}

/// Bits of an encoding.
#[derive(Clone, Debug)]
pub struct Field {
    /// `src0`
    pub name: String,
    /// The lowest bit; fields do not cross words.
    pub bit: u32,
    /// How many bits.
    pub width: u32,
    /// The meaning of the bits.
    pub kind: FieldKind,
}

/// The meaning of a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FieldKind {
    /// The number of the instruction in its encoding.
    Opcode,
    /// The number of the second instruction of two.
    OpcodeY,
    /// A vector register.
    Vector,
    /// A scalar register.
    Scalar,
    /// The first of two scalar registers, without the lowest bit.
    ScalarPair,
    /// The first of four scalar registers, without the lowest two bits.
    ScalarQuad,
    /// A register of either bank, a constant, or a literal.
    Source,
    /// A number or flags.
    Number,
}

impl FieldKind {
    /// The kinds, by their names in specs and in Rust.
    pub const NAMES: [(&'static str, &'static str, FieldKind); 8] = [
        ("opcode", "Opcode", FieldKind::Opcode),
        ("opcode_y", "OpcodeY", FieldKind::OpcodeY),
        ("vector", "Vector", FieldKind::Vector),
        ("scalar", "Scalar", FieldKind::Scalar),
        ("scalar_pair", "ScalarPair", FieldKind::ScalarPair),
        ("scalar_quad", "ScalarQuad", FieldKind::ScalarQuad),
        ("source", "Source", FieldKind::Source),
        ("number", "Number", FieldKind::Number),
    ];
}

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandTy {
    /// A value of each lane, or a scalar one.
    Lane(Ty),
    /// 64 bits, whose literal is extended with its sign.
    I64,
    /// A scalar register with a bit for each lane.
    Mask,
    /// A scalar register or constant, also where the field may name a vector register.
    Scalar,
    /// An immediate with a sign.
    Imm16,
    /// An immediate without a sign.
    Unsigned16,
    /// Two halves.
    Packed16,
    /// Four bytes.
    Packed8,
    /// An f32, or a half of f16.
    Mixed,
    /// This many registers.
    Words(u32),
    /// The address of a global access: 64 bits, or 32 bits next to a scalar base.
    Address,
    /// The offset of a scratch access, which may be off.
    Offset,
    /// A scalar base, which may be off.
    Base,
    /// The index and offset of a buffer access.
    Buffer,
}

impl OperandTy {
    /// The types by their names in specs, and the names of the Rust variants.
    pub const NAMES: [(&'static str, &'static str, OperandTy); 23] = [
        ("b16", "B16", OperandTy::Lane(Ty::I16)),
        ("b32", "B32", OperandTy::Lane(Ty::I32)),
        ("b64", "B64", OperandTy::Lane(Ty::I64)),
        ("f16", "F16", OperandTy::Lane(Ty::F16)),
        ("f32", "F32", OperandTy::Lane(Ty::F32)),
        ("f64", "F64", OperandTy::Lane(Ty::F64)),
        ("i64", "I64", OperandTy::I64),
        ("mask", "Mask", OperandTy::Mask),
        ("s32", "Scalar", OperandTy::Scalar),
        ("i16", "Imm16", OperandTy::Imm16),
        ("u16", "Unsigned16", OperandTy::Unsigned16),
        ("p16", "Packed16", OperandTy::Packed16),
        ("p8", "Packed8", OperandTy::Packed8),
        ("mix", "Mixed", OperandTy::Mixed),
        ("b96", "B96", OperandTy::Words(3)),
        ("b128", "B128", OperandTy::Words(4)),
        ("b256", "B256", OperandTy::Words(8)),
        ("b512", "B512", OperandTy::Words(16)),
        ("address", "Address", OperandTy::Address),
        ("offset", "Offset", OperandTy::Offset),
        ("base", "Base", OperandTy::Base),
        ("buffer", "Buffer", OperandTy::Buffer),
        ("bit", "Bit", OperandTy::Lane(Ty::Bool)),
    ];

    /// The type of its value in semantics, if it has one.
    pub fn lane(self) -> Option<Ty> {
        match self {
            OperandTy::Lane(ty) => Some(ty),
            OperandTy::I64 => Some(Ty::I64),
            OperandTy::Mask => Some(Ty::Bool),
            OperandTy::Scalar | OperandTy::Imm16 | OperandTy::Unsigned16 => Some(Ty::I32),
            _ => None,
        }
    }

    /// How many registers it takes.
    pub fn words(self) -> u32 {
        match self {
            OperandTy::Lane(Ty::I64 | Ty::F64) | OperandTy::I64 => 2,
            OperandTy::Words(words) => words,
            _ => 1,
        }
    }

    /// True if it is half a register.
    pub fn is_half(self) -> bool {
        matches!(self, OperandTy::Lane(Ty::I16 | Ty::F16))
    }

    /// The name of the Rust variant.
    pub fn variant(self) -> &'static str {
        Self::NAMES.iter().find(|(.., ty)| *ty == self).map_or("", |(_, variant, _)| variant)
    }
}

/// An operand.
#[derive(Clone, Debug)]
pub struct Operand {
    /// `s0`
    pub name: String,
    /// Its type.
    pub ty: OperandTy,
}

/// An encoding that an instruction has.
#[derive(Clone, Debug)]
pub struct Form {
    /// The name of the encoding.
    pub encoding: String,
    /// The number there.
    pub opcode: u32,
}

/// The access of a memory instruction.
#[derive(Clone, Debug)]
pub struct Access {
    /// `load`, a function of the interpreter.
    pub op: String,
    /// `global`, one of [`SPACES`].
    pub space: &'static str,
    /// The form of the value that is loaded or stored.
    pub value: MemoryValue,
    /// `whole`, one of [`PARTS`].
    pub part: &'static str,
}

impl Access {
    /// The operation of an atomic access on the value in memory, a function of the interpreter.
    pub fn atomic(&self) -> Option<&str> {
        self.op.strip_prefix("atomic_")
    }
}

/// Where an access goes, with documentation.
pub const SPACES: [(&str, &str); 7] = [
    ("constant", "Device memory, to scalar registers."),
    ("constant_buffer", "Device memory, to scalar registers, at an offset in a buffer with bounds."),
    ("global", "Device memory, at the address of each lane."),
    ("buffer", "Device memory, at an offset in a buffer with bounds."),
    ("group", "The memory of the work-group."),
    ("scratch", "The private memory of each lane."),
    ("flat", "Any of device memory, the memory of the work-group and private memory, by the address of each lane."),
];

/// Which part of a register a small value is, with documentation.
pub const PARTS: [(&str, &str); 3] = [
    ("whole", "All of it."),
    ("low", "The low half; the high one is kept."),
    ("high", "The high half; the low one is kept."),
];

/// The form of a value that is loaded or stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryValue {
    /// `i8`
    pub name: &'static str,
    /// How many bytes.
    pub bytes: u32,
}

impl MemoryValue {
    /// Every one.
    pub const ALL: [MemoryValue; 10] = [
        MemoryValue { name: "u8", bytes: 1 },
        MemoryValue { name: "i8", bytes: 1 },
        MemoryValue { name: "u16", bytes: 2 },
        MemoryValue { name: "i16", bytes: 2 },
        MemoryValue { name: "b32", bytes: 4 },
        MemoryValue { name: "b64", bytes: 8 },
        MemoryValue { name: "b96", bytes: 12 },
        MemoryValue { name: "b128", bytes: 16 },
        MemoryValue { name: "b256", bytes: 32 },
        MemoryValue { name: "b512", bytes: 64 },
    ];
}

/// The semantics of an instruction.
#[derive(Clone, Debug)]
pub enum Body {
    /// Expressions, by the name of what they set.
    Semantics(Vec<(String, Expr)>),
    /// A function of the interpreter on whole rows.
    Helper(String),
    /// A function of the interpreter that may change the program counter.
    Control(String),
    /// An access to memory.
    Access(Access),
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// `v_add_f32`
    pub name: String,
    /// Its encodings.
    pub forms: Vec<Form>,
    /// Its operands in the order of the text form.
    pub operands: Vec<Operand>,
    /// Its documentation.
    pub doc: String,
    /// The semantics of the instruction.
    pub body: Body,
    /// Its result with the modifier `clamp`, if its result is an integer that saturates.
    pub clamped: Option<Vec<(String, Expr)>>,
    /// Values of operands and results, as written.
    pub examples: Vec<Vec<(String, u64)>>,
    /// Where it is declared.
    pub origin: Origin,
}

/// Operands that are registers by convention: their names, and their types in semantics.
pub const IMPLICIT: [(&str, Ty); 5] =
    [("scc", Ty::Bool), ("vcc", Ty::Bool), ("exec", Ty::I32), ("exec64", Ty::I64), ("pc", Ty::I64)];

impl Instruction {
    /// True if it computes one value for the wave, not one for each lane.
    pub fn is_scalar(&self) -> bool {
        self.name.starts_with("s_")
    }

    /// The values that its semantics read, in the order in which handlers take it: operands, then implicit ones.
    pub fn reads(&self) -> Vec<(&str, Ty)> {
        let Body::Semantics(results) = &self.body else { return Vec::new() };
        let operands = self.operands.iter().filter_map(|operand| Some((operand.name.as_str(), operand.ty.lane()?)));
        let order = |name: &str| (name == "d", name == "k");
        let mut operands: Vec<_> = operands.collect();
        operands.sort_by_key(|(name, _)| order(name));
        let known = operands.into_iter().chain(IMPLICIT);
        // Both variants take the same sources.
        let all = || results.iter().chain(self.clamped.iter().flatten());
        known.filter(|(name, _)| all().any(|(_, expr)| expr.reads(name))).collect()
    }
}

impl Gfx {
    /// The path of a file of its folder, `spec/isa/gfx11/encodings.yaml`.
    pub fn path(&self, file: &str) -> String {
        format!("spec/isa/{}/{file}", self.name)
    }

    /// Why the mnemonic `name` is no instruction here.
    pub fn left_out(&self, name: &str) -> Option<&LeftOut> {
        self.left_out.iter().find(|left_out| left_out.names.iter().any(|other| other == name))
    }

    /// Encoding, number and name of each mnemonic that is left out, in the order of the specs.
    pub fn forms_left_out(&self) -> impl Iterator<Item = (&str, u32, &str)> {
        let forms = self.assembler.iter().flat_map(|table| {
            table.names.iter().map(|(number, name)| (table.encoding.as_str(), *number, name.as_str()))
        });
        forms.filter(|(.., name)| self.left_out(name).is_some())
    }

    /// The encoding `name`.
    pub fn encoding(&self, name: &str) -> Option<&Encoding> {
        self.encodings.iter().find(|encoding| encoding.name == name)
    }
}
