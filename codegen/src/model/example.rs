//! The examples of VM ops, typed: vectors (operands and an outcome) and programs (functions and an outcome).
//!
//! `vm::examples` reads them, and the `op_tests` emitter turns each into a test.

use crate::diag::Origin;
use crate::model::abi::Convention;

/// One example.
#[derive(Clone, Debug, PartialEq)]
pub enum Example {
    /// Operands of one op, and the outcome.
    Vector(VectorExample),
    /// Whole functions, the arguments of the first and the outcome of the call.
    Program(ProgramExample),
}

/// The expected outcome of an example.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    /// The values of the results: none for a store, one for most ops, several for a program.
    Results(Vec<Literal>),
    /// A trap with the status code of this name.
    Traps(String),
}

/// Operands of one op, and the outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct VectorExample {
    /// Its name, if it has one.
    pub name: Option<String>,
    /// Field names and their values, in the order of the encoding.
    pub inputs: Vec<(String, Literal)>,
    /// At most one result.
    pub outcome: Outcome,
    /// The bytes of the value globals before.
    pub globals: Option<Vec<u8>>,
    /// The contents of buffers and lists (by field name) and of the value globals (`globals`) afterwards.
    pub after: Vec<(String, After)>,
    /// Any NaN is as good as the stated one.
    pub any_nan: bool,
    /// Units in the last place that the result may be off.
    pub ulp: u32,
    /// Where it is declared.
    pub origin: Origin,
}

/// The contents of memory after an op.
#[derive(Clone, Debug, PartialEq)]
pub enum After {
    /// The bytes of a buffer or of the value globals.
    Bytes(Vec<u8>),
    /// The values of a list.
    List(Vec<Literal>),
}

/// Whole functions, the arguments of the first and the outcome of the call.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramExample {
    /// Its name.
    pub name: String,
    /// The functions by ordinal; the first is called.
    pub functions: Vec<ProgramFunction>,
    /// Its arguments, typed by its convention.
    pub args: Vec<Literal>,
    /// Its results, typed by its convention, or a trap.
    pub outcome: Outcome,
    /// The names of the module's types by ordinal, without `!vm.` where they are built in.
    pub types: Vec<String>,
    /// The module's imports by ordinal: name and convention. They are optional, and nothing provides them.
    pub imports: Vec<(String, String)>,
    /// The module's rodata segments by ordinal.
    pub rodata: Vec<Vec<u8>>,
    /// Bytes of value globals.
    pub global_bytes: u32,
    /// Number of ref globals.
    pub global_refs: u32,
    /// Where it is declared.
    pub origin: Origin,
}

/// A function of a program.
#[derive(Clone, Debug, PartialEq)]
pub struct ProgramFunction {
    /// `0ii_ii`
    pub convention: Convention,
    /// Its blocks; branch targets are indices into this.
    pub blocks: Vec<Vec<Instruction>>,
}

/// An op with operands.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `add.i32`
    pub mnemonic: String,
    /// One operand for each field of the op, in their order.
    pub operands: Vec<Operand>,
}

/// An operand of an instruction.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// `reg`, `result`
    Reg(Register),
    /// `regs`, `results`
    Regs(Vec<Register>),
    /// `imm`
    Imm(Literal),
    /// `global`, `type`, `rodata`, `function`, `import`
    Ordinal(u32),
    /// `function`, `import`: the ordinal of an import, to be marked as one
    Import(u32),
    /// `string`
    String(String),
    /// `edge`
    Edge(Edge),
    /// `target`
    Target(usize),
    /// `segments`
    Segments(Vec<u16>),
    /// `cases`
    Cases(Vec<Edge>),
}

/// A branch to a block with its remap pairs, source first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Edge {
    /// The index of a block.
    pub target: usize,
    /// (source, destination) pairs, executed in order.
    pub remap: Vec<(Register, Register)>,
}

/// A register of either bank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Register {
    /// Whether it is in the bank of references.
    pub is_ref: bool,
    /// Its index.
    pub index: u16,
    /// Whether the MOVE bit is set.
    pub moved: bool,
}

/// A typed value.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `i32`
    I32(i32),
    /// `i64`
    I64(i64),
    /// The bits of an `f32`.
    F32(u32),
    /// The bits of an `f64`.
    F64(u64),
    /// A null reference.
    Null,
    /// An element without a value, in a list of `any`.
    None,
    /// A buffer.
    Buffer {
        /// Its content.
        bytes: Vec<u8>,
        /// Whether it may be written.
        mutable: bool,
    },
    /// A list.
    List {
        /// The name of its element type.
        element: String,
        /// Its values.
        values: Vec<Literal>,
    },
    /// The very object of an earlier field.
    Same(String),
    /// The values of a register list.
    Regs(Vec<Literal>),
    /// An ordinal or byte offset.
    Ordinal(u32),
    /// The name of a type.
    TypeName(String),
    /// A string.
    String(String),
}
