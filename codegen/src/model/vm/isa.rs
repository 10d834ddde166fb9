//! The types of the instruction set: opcode sets, operand encodings, and ops with their fields and bodies.

use std::collections::BTreeMap;

use serde::Deserialize;

use crate::diag::Origin;
use crate::model::abi::{Grammar, Kind};
use crate::model::constant::Constant;
use crate::model::example::Example;
use crate::sem::{Expr, ExprKind, Properties, Ty, Vocabulary};

/// The instruction set.
#[derive(Clone, Debug, Default)]
pub struct Isa {
    /// The versions of the bytecode that can be read, oldest first.
    pub versions: Vec<Bytecode>,
    /// The opcode sets; `core` first, the others in the order of the file.
    pub sets: Vec<OpcodeSet>,
    /// Bits of the requirement word that do not stand for an opcode set.
    pub features: Vec<Feature>,
    /// Bits and numbers with a meaning in the stream, and names with one in a module.
    pub constants: Vec<Constant>,
    /// The primitives of semantics.
    pub primitives: Vocabulary,
    /// Named operand encodings in the order of the file.
    pub encodings: Vec<Encoding>,
    /// How the conventions of functions in examples are written.
    pub conventions: Grammar,
    /// Every op, sorted by set and opcode.
    pub ops: Vec<Op>,
    /// Ops that the threaded dispatcher executes by one handler, in the order of the file.
    pub sequences: Vec<Sequence>,
}

/// Ops that the threaded dispatcher executes by one handler where they follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequence {
    /// At least two.
    pub steps: Vec<SequenceStep>,
    /// True if a `cond_br` on the result of the last op ends it, which is fused with that op.
    pub branch: bool,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// An op of a sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SequenceStep {
    /// The mnemonic of an op that is made of primitives.
    pub op: String,
    /// The value operand that is the carried register.
    pub carried: Option<String>,
}

/// A bytecode version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Bytecode {
    /// Its major version.
    pub major: u16,
    /// Its minor version.
    pub minor: u16,
    /// The releases of the compiler that write it.
    pub releases: String,
    /// False if the MOVE bit means nothing: references are copied.
    pub moves: bool,
    /// If some compilers put arguments into the gaps that 64-bit arguments leave: how to recognise modules of those.
    pub gap_fill: Option<GapFill>,
    /// Its documentation.
    pub doc: String,
}

/// Modules that need at most this version of another module are of compilers that fill gaps between arguments. Of other
/// modules nothing is known.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct GapFill {
    /// The name of the other module.
    pub module: String,
    /// The version.
    pub version: u32,
    /// The releases of these compilers.
    pub releases: String,
}

/// A set of 256 opcodes.
#[derive(Clone, Debug)]
pub struct OpcodeSet {
    /// `core`, `ext_f32`, ...
    pub name: String,
    /// The mnemonic of the op of `core` that introduces an opcode of this set; none for `core` itself.
    pub prefix: Option<String>,
    /// The bit of the module's feature requirements that permits this set.
    pub feature: Option<u32>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A bit of the requirement word that does not stand for an opcode set.
#[derive(Clone, Debug)]
pub struct Feature {
    /// `yield`, `unwind`
    pub name: String,
    /// One bit.
    pub bit: u32,
    /// The first major version of the bytecode that has it.
    pub since: u16,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A named operand encoding, with type parameters.
#[derive(Clone, Debug)]
pub struct Encoding {
    /// `binary`
    pub name: String,
    /// `["T"]`
    pub parameters: Vec<String>,
    /// Its documentation.
    pub doc: String,
    /// The text form of the operands, if it is not their list; fields are in braces.
    pub text: Option<String>,
    /// Other forms of that text, which are read but not written.
    pub also: Vec<String>,
    /// Its fields in the order of the stream.
    pub fields: Vec<EncodingField>,
    /// False if a field of an unknown kind was left out. That was reported, so errors of ops with this encoding are
    /// not.
    pub(super) complete: bool,
    /// Where it is declared.
    pub origin: Origin,
}

/// A field of an encoding, as written: its type may be a parameter of the encoding.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodingField {
    /// Its name.
    pub name: String,
    /// How it is encoded.
    pub kind: FieldKind,
    /// Its type or type parameter, if the kind has one.
    pub ty: Option<String>,
    /// Whether a register read may carry the MOVE bit.
    pub movable: bool,
}

/// One op: everything that the emitters need, resolved and typed.
#[derive(Clone, Debug)]
pub struct Op {
    /// `add.i32`
    pub mnemonic: String,
    /// `AddI32`
    pub variant: String,
    /// The name of its opcode set.
    pub set: String,
    /// Its number within the set.
    pub opcode: u8,
    /// The first major version of the bytecode that has it.
    pub since: u16,
    /// The stem of its file: `integer`.
    pub family: String,
    /// The encoding as written: `binary(i32)`; empty if it has no operands.
    pub encoding: String,
    /// The operand fields in the order of the stream, type parameters replaced.
    pub fields: Vec<Field>,
    /// The text form of its operands, if it is not their list.
    pub text: Option<Vec<TextPart>>,
    /// Other text forms of its operands, which are read but not written.
    pub also: Vec<Vec<TextPart>>,
    /// One or two sentences.
    pub doc: String,
    /// Its behaviour.
    pub body: Body,
    /// The steps of a helper or control op, for the manual.
    pub effect: Option<String>,
    /// Its properties, inferred from the body.
    pub properties: Properties,
    /// Executable examples.
    pub examples: Vec<Example>,
    /// Where it is declared.
    pub origin: Origin,
    /// The mistakes of it that were told; none in a spec that `load` returns.
    pub told: Told,
}

/// Parts of an op that are wrong and were told, so that nothing that follows from them is. The rest of the op is
/// checked all the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Its opcode or the set of that is wrong.
    pub opcode: bool,
    /// Its body is wrong.
    pub body: bool,
}

/// A part of the text form of an op's operands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum TextPart {
    /// Written as it is.
    Literal(String),
    /// The field of this name.
    Field(String),
}

impl Op {
    /// The field that holds the result register, if the op has one.
    pub fn result(&self) -> Option<&Field> {
        self.fields.iter().find(|field| field.kind == FieldKind::Result)
    }

    /// The field called `name`.
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields.iter().find(|field| field.name == name)
    }

    /// True if the op is made of primitives on values, buffers and references, so that any `Frame` runs it.
    pub fn is_portable(&self) -> bool {
        let known = |field: &Field| field.kind != FieldKind::Regs && field.ty != Some(Type::List);
        matches!(self.body, Body::Semantics(_)) && self.fields.iter().all(known)
    }

    /// True if a branch on the result is worth fusing, and nothing can fail: the result says whether something is true,
    /// or it is a truth value that was inverted, or a bit that was masked.
    pub fn is_test(&self) -> bool {
        let Body::Semantics(expr) = &self.body else { return false };
        let tests = match &expr.kind {
            ExprKind::BoolToI32(_) => true,
            ExprKind::Call { primitive, .. } => {
                self.result().is_some_and(|field| field.ty == Some(Type::I32))
                    && matches!(primitive.written(), "and" | "xor")
            }
            _ => false,
        };
        tests && !self.properties.can_trap
    }

    /// The fields that are read as values, in their order.
    pub fn values(&self) -> impl Iterator<Item = &Field> {
        self.fields.iter().filter(|field| field.is_value())
    }

    /// True if no op can follow in the same block.
    pub fn is_terminator(&self) -> bool {
        matches!(&self.body, Body::Control(control) if control.is_terminator())
    }
}

/// The behaviour of an op.
#[derive(Clone, Debug)]
pub enum Body {
    /// A typed expression; its value goes to the result field, if there is one.
    Semantics(Expr),
    /// A method of the `Helpers` trait.
    Helper(String),
    /// A control-flow op, known to every emitter.
    Control(ControlOp),
    /// No behaviour.
    Structure(Structure),
}

/// Ops without behaviour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Structure {
    /// The marker at the start of a block.
    Block,
    /// Introduces an opcode of another set.
    Prefix,
}

macro_rules! control_ops {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal;)*) => {
        /// The ops that direct control, or that need more of the context than values.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum ControlOp { $($(#[doc = $doc])+ $variant,)* }

        impl ControlOp {
            /// All of them.
            pub const ALL: &[ControlOp] = &[$(ControlOp::$variant),*];

            /// Its name in specs.
            pub fn name(self) -> &'static str {
                match self { $(ControlOp::$variant => $name,)* }
            }
        }
    };
}

control_ops! {
    /// Branch.
    Br = "br";
    /// Branch on a condition.
    CondBr = "cond_br";
    /// Branch by an index.
    BrTable = "br_table";
    /// Call a function.
    Call = "call";
    /// Call an import with variadic spans.
    CallVariadic = "call_variadic";
    /// Call a function that may yield, and resume at a block.
    CallYieldable = "call_yieldable";
    /// Call an import with variadic spans that may yield, and resume at a block.
    CallVariadicYieldable = "call_variadic_yieldable";
    /// Return from the function.
    Return = "return";
    /// Stop with a status.
    Fail = "fail";
    /// Suspend, and resume at a block.
    Yield = "yield";
    /// Stop in a debugger, then branch.
    Break = "break";
    /// Stop in a debugger on a condition; branches in any case.
    CondBreak = "cond_break";
    /// Report values to a tracer.
    Trace = "trace";
    /// Print values.
    Print = "print";
    /// Whether an optional import is bound.
    ImportResolved = "import_resolved";
}

impl ControlOp {
    /// True if it ends its block.
    pub fn is_terminator(self) -> bool {
        use ControlOp::*;
        match self {
            Br
            | CondBr
            | BrTable
            | CallYieldable
            | CallVariadicYieldable
            | Return
            | Fail
            | Yield
            | Break
            | CondBreak => true,
            Call | CallVariadic | Trace | Print | ImportResolved => false,
        }
    }

    /// True if it calls a function.
    pub fn is_call(self) -> bool {
        use ControlOp::*;
        matches!(self, Call | CallVariadic | CallYieldable | CallVariadicYieldable)
    }
}

/// The type of a register or immediate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Type {
    /// 32-bit integer
    I32,
    /// 64-bit integer
    I64,
    /// IEEE single
    F32,
    /// IEEE double
    F64,
    /// any reference
    Ref,
    /// a reference to a buffer
    Buffer,
    /// a reference to a list
    List,
    /// typed by a calling convention, or by the bank bit of each register
    Any,
}

impl From<Kind> for Type {
    fn from(kind: Kind) -> Type {
        match kind {
            Kind::I32 => Type::I32,
            Kind::I64 => Type::I64,
            Kind::F32 => Type::F32,
            Kind::F64 => Type::F64,
            Kind::Ref => Type::Ref,
        }
    }
}

impl Type {
    const ALL: [(&'static str, Type); 8] = [
        ("i32", Type::I32),
        ("i64", Type::I64),
        ("f32", Type::F32),
        ("f64", Type::F64),
        ("ref", Type::Ref),
        ("buffer", Type::Buffer),
        ("list", Type::List),
        ("any", Type::Any),
    ];

    /// The names of all of them in specs.
    pub fn names() -> impl Iterator<Item = &'static str> {
        Self::ALL.iter().map(|(name, _)| *name)
    }

    /// The type called `name`.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, ty)| *ty)
    }

    /// Its name in specs.
    pub fn name(self) -> &'static str {
        Self::ALL.iter().find(|(_, ty)| *ty == self).map_or("any", |(name, _)| name)
    }

    /// How a value of it crosses a call.
    pub fn kind(self) -> Kind {
        match self {
            Type::I32 => Kind::I32,
            Type::I64 => Kind::I64,
            Type::F32 => Kind::F32,
            Type::F64 => Kind::F64,
            Type::Ref | Type::Buffer | Type::List | Type::Any => Kind::Ref,
        }
    }

    /// True if a register of this type is in the bank of references.
    pub fn is_ref(self) -> bool {
        matches!(self, Type::Ref | Type::Buffer | Type::List)
    }

    /// The type of an operand of this type in `semantics`.
    pub fn operand(self) -> Option<Ty> {
        Some(match self {
            Type::I32 => Ty::I32,
            Type::I64 => Ty::I64,
            Type::F32 => Ty::F32,
            Type::F64 => Ty::F64,
            Type::Ref => Ty::Ref,
            Type::Buffer => Ty::Buffer,
            Type::List => Ty::List,
            Type::Any => return None,
        })
    }
}

/// An operand of an op.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// Its name, a Rust identifier.
    pub name: String,
    /// How it is encoded.
    pub kind: FieldKind,
    /// Its type, where the kind has one.
    pub ty: Option<Type>,
    /// Whether a register read may carry the MOVE bit.
    pub movable: bool,
}

impl Field {
    /// Whether it is a register that is read as a value.
    pub fn is_value(&self) -> bool {
        self.kind == FieldKind::Reg && !self.ty.is_some_and(Type::is_ref)
    }

    /// The type of this field in `semantics`; none if it cannot be used there.
    pub fn operand(&self) -> Option<Ty> {
        match self.kind {
            FieldKind::Reg | FieldKind::Imm => self.ty?.operand(),
            FieldKind::Global => (!self.ty?.is_ref()).then_some(Ty::Global),
            FieldKind::Regs => self.ty?.operand()?.scalar().map(Ty::Regs),
            _ => None,
        }
    }
}

macro_rules! field_kinds {
    ($($(#[doc = $doc:literal])+ $variant:ident = $name:literal, $typed:literal;)*) => {
        /// How an operand is encoded; `spec/README.md` holds the table of bytes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum FieldKind { $($(#[doc = $doc])+ $variant,)* }

        impl FieldKind {
            /// All of them.
            pub const ALL: &[FieldKind] = &[$(FieldKind::$variant),*];

            /// Its name in specs.
            pub fn name(self) -> &'static str {
                match self { $(FieldKind::$variant => $name,)* }
            }

            /// Whether a field of this kind has a `type`.
            pub fn is_typed(self) -> bool {
                match self { $(FieldKind::$variant => $typed,)* }
            }
        }
    };
}

field_kinds! {
    /// Register read.
    Reg = "reg", true;
    /// Register written.
    Result = "result", true;
    /// Immediate of 4 or 8 bytes.
    Imm = "imm", true;
    /// Byte offset into value globals, or ordinal of a ref global.
    Global = "global", true;
    /// Ordinal in the type table.
    Type = "type", false;
    /// Ordinal of a rodata segment.
    Rodata = "rodata", false;
    /// Function ordinal; `import_bit` marks an import.
    Function = "function", false;
    /// Import ordinal, `import_bit` optional.
    Import = "import", false;
    /// Length-prefixed bytes.
    String = "string", false;
    /// Branch target with its register remap list.
    Edge = "edge", false;
    /// Branch target.
    Target = "target", false;
    /// Register list read.
    Regs = "regs", true;
    /// Register list written.
    Results = "results", true;
    /// Segment sizes of a variadic call.
    Segments = "segments", false;
    /// Branch table.
    Cases = "cases", false;
}

impl FieldKind {
    /// Bytes of a list's or string's number of items.
    pub const COUNT_BYTES: u32 = 2;

    /// Bytes of a field in the stream; none if they vary, or if its type is still open.
    pub fn bytes(self, ty: Option<Type>) -> Option<u32> {
        use FieldKind::*;
        match self {
            Reg | Result => Some(2),
            Imm => ty?.operand()?.scalar().map(|scalar| scalar.size()),
            Global | Type | Rodata | Function | Import | Target => Some(4),
            String | Edge | Regs | Results | Segments | Cases => None,
        }
    }
}

impl Isa {
    /// The newest version of the bytecode, which the assembler writes.
    pub fn newest(&self) -> Bytecode {
        self.versions.last().cloned().unwrap_or_default()
    }

    /// The oldest major version of the bytecode, which has everything without `since`.
    pub fn oldest(&self) -> u16 {
        self.versions.first().map_or(0, |version| version.major)
    }

    /// The versions in words: `15.0 (IREE 3.1 to 3.9) and 16.0 (IREE 3.10)`.
    pub fn versions_in_words(&self) -> String {
        let one = |version: &Bytecode| format!("{}.{} ({})", version.major, version.minor, version.releases);
        match self.versions.split_last() {
            Some((last, rest)) if !rest.is_empty() => {
                format!("{} and {}", rest.iter().map(one).collect::<Vec<_>>().join(", "), one(last))
            }
            _ => self.versions.iter().map(one).collect(),
        }
    }

    /// The prefix opcode of the set called `name`; none for `core`.
    pub fn prefix(&self, name: &str) -> Option<u8> {
        let set = self.sets.iter().find(|set| set.name == name)?;
        self.op(set.prefix.as_deref()?).map(|op| op.opcode)
    }

    /// The value of the constant `name`. `check` has verified that the constants of emitters exist.
    pub fn number(&self, name: &str) -> u64 {
        let constant = self.constants.iter().find(|constant| constant.name == name);
        constant.and_then(|constant| constant.value.number()).unwrap_or_default()
    }

    /// The opcodes of a set that no op has.
    pub fn free_opcodes(&self, set: &str) -> Vec<u8> {
        let taken = |opcode: u8| self.ops.iter().any(|op| op.opcode == opcode && op.set == set && !op.told.opcode);
        (0..=u8::MAX).filter(|opcode| !taken(*opcode)).collect()
    }

    /// The op called `mnemonic`.
    pub fn op(&self, mnemonic: &str) -> Option<&Op> {
        self.ops.iter().find(|op| op.mnemonic == mnemonic)
    }

    /// The families, sorted, each with its ops in the order of their opcodes.
    pub fn families(&self) -> BTreeMap<&str, Vec<&Op>> {
        let mut families: BTreeMap<&str, Vec<&Op>> = BTreeMap::new();
        for op in &self.ops {
            families.entry(&op.family).or_default().push(op);
        }
        families
    }
}
