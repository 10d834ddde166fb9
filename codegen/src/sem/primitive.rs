//! Primitives of `semantics`: signature, effects, and how compiled code executes one. The primitives themselves are
//! entries of `spec/primitives`, which `vocabulary` reads.
//!
//! The doc of a primitive states its result; the interpreter's version is the definition that all tiers are compared
//! with.

use std::fmt;
use std::sync::Arc;

use super::primitive_example::PrimitiveExample;
use super::types::{Scalar, Sig};
use crate::diag::Origin;

/// The effect of evaluating a primitive besides computing its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// Nothing: value in, value out.
    Pure,
    /// Stops with a trap, or computes.
    Trap,
    /// Looks at references.
    Refs,
    /// Reads a buffer, or traps.
    Load,
    /// Writes a buffer, or traps.
    Store,
    /// Reads value globals at a proven offset.
    GlobalLoad,
    /// Writes value globals at a proven offset.
    GlobalStore,
    /// Reads value globals at a computed offset, or traps.
    IndirectLoad,
    /// Writes value globals at a computed offset, or traps.
    IndirectStore,
}

impl Effect {
    /// Every effect, with its name in specs.
    pub const NAMED: [(&str, Effect); 9] = [
        ("pure", Effect::Pure),
        ("trap", Effect::Trap),
        ("refs", Effect::Refs),
        ("load", Effect::Load),
        ("store", Effect::Store),
        ("global_load", Effect::GlobalLoad),
        ("global_store", Effect::GlobalStore),
        ("indirect_load", Effect::IndirectLoad),
        ("indirect_store", Effect::IndirectStore),
    ];

    /// True if `?` must follow.
    pub fn traps(self) -> bool {
        matches!(self, Effect::Trap | Effect::Load | Effect::Store | Effect::IndirectLoad | Effect::IndirectStore)
    }

    /// True if it reads memory.
    pub fn reads(self) -> bool {
        matches!(self, Effect::Load | Effect::GlobalLoad | Effect::IndirectLoad)
    }

    /// True if it writes memory.
    pub fn writes(self) -> bool {
        matches!(self, Effect::Store | Effect::GlobalStore | Effect::IndirectStore)
    }
}

/// Where the interpreter's function of a primitive is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Home {
    /// In the trait of integers.
    Int,
    /// In the trait of floats.
    Float,
    /// A function.
    Free,
    /// A function on the value globals.
    Globals,
    /// A function on the value globals that changes them.
    GlobalsMut,
    /// The choice from a register list.
    Table,
}

/// How compiled code executes a primitive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lowering {
    /// By instructions of its own.
    Instructions,
    /// By a call of the function that the interpreter calls.
    Call,
    /// By those of other primitives or by parts of checks, see [`Others`].
    Others,
    /// Not at all: an interpreter executes what uses it.
    Interpreter,
}

impl Lowering {
    /// The names in specs; [`Lowering::Others`] has keys of its own.
    pub const NAMED: [(&str, Lowering); 3] =
        [("instructions", Lowering::Instructions), ("call", Lowering::Call), ("interpreter", Lowering::Interpreter)];
}

/// How compiled code executes a primitive for several values at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// By instructions on vectors, of each number of lanes.
    Instructions,
    /// By a call of a function for all lanes.
    Call,
    /// Not at all: the bits stay the same.
    SameBits,
}

impl Lanes {
    /// The names in specs.
    pub const NAMED: [(&str, Lanes); 3] =
        [("instructions", Lanes::Instructions), ("call", Lanes::Call), ("same_bits", Lanes::SameBits)];
}

/// How the value of a primitive changes over the iterations of a loop in which its operands are linear.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Linear {
    /// As the operands do together.
    Sum,
    /// By the step of the first operand, less that of the second.
    Difference,
    /// As one operand does, times the other one.
    Product,
    /// As the product of the first two does, together with the third one.
    ProductAndSum,
}

impl Linear {
    /// The names in specs.
    pub const NAMED: [(&str, Linear); 4] = [
        ("sum", Linear::Sum),
        ("difference", Linear::Difference),
        ("product", Linear::Product),
        ("product_and_sum", Linear::ProductAndSum),
    ];

    /// How many operands that needs.
    pub fn operands(self) -> usize {
        match self {
            Linear::Sum | Linear::Difference | Linear::Product => 2,
            Linear::ProductAndSum => 3,
        }
    }
}

/// A use of a primitive in the place of another one.
#[derive(Clone, Debug, PartialEq)]
pub struct Use {
    /// Which one.
    pub primitive: Primitive,
    /// The type of `N`, `F` or `T` of its signature; none if it is that of the replaced primitive.
    pub of: Option<Scalar>,
}

/// The replacement of a primitive in compiled code.
#[derive(Clone, Debug, PartialEq)]
pub enum Others {
    /// Another primitive, on the same operands.
    As(Use),
    /// A method of the JIT's graph builder, which expands it.
    Builder {
        /// Its name.
        method: String,
        /// The primitives that it makes nodes of.
        parts: Vec<Use>,
    },
}

/// The fields of a primitive, which [`Primitive`] documents.
#[derive(Clone, Debug)]
pub(super) struct Definition {
    pub name: String,
    pub written: Option<String>,
    pub used_by: Vec<String>,
    pub variant: String,
    pub params: Vec<Sig>,
    pub result: Sig,
    pub effect: Effect,
    pub bytes: Option<u8>,
    pub lowering: Lowering,
    pub others: Option<Others>,
    pub lanes: Option<Lanes>,
    pub wide_lanes: Option<Lanes>,
    pub byte_lanes: Option<Lanes>,
    pub linear: Option<Linear>,
    pub is_implicit: bool,
    pub examples: Vec<PrimitiveExample>,
    pub doc: String,
    pub origin: Origin,
    /// Its position among all.
    pub index: usize,
}

/// A primitive of the vocabulary. To clone one is cheap.
#[derive(Clone)]
pub struct Primitive(pub(super) Arc<Definition>);

impl Primitive {
    /// Its name, which is that of the interpreter's function.
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// Its name in `semantics`. Direct and indirect global accesses share names; the type of the receiver decides.
    pub fn written(&self) -> &str {
        self.0.written.as_deref().unwrap_or(&self.0.name)
    }

    /// The instruction sets whose semantics are written with it, by their names.
    pub fn used_by(&self) -> &[String] {
        &self.0.used_by
    }

    /// Its name as a variant of an enum: `WrappingAdd`.
    pub fn variant(&self) -> &str {
        &self.0.variant
    }

    /// Parameter types; the first is the receiver.
    pub fn params(&self) -> &[Sig] {
        &self.0.params
    }

    /// Result type.
    pub fn result(&self) -> Sig {
        self.0.result
    }

    /// Whether each use decides the types of it.
    pub fn is_open(&self) -> bool {
        self.0.params.iter().chain([&self.0.result]).any(|sig| sig.is_open())
    }

    /// Its effect.
    pub fn effect(&self) -> Effect {
        self.0.effect
    }

    /// The trait or module of the interpreter's function, which follows from its signature.
    pub fn home(&self) -> Home {
        let mut all = self.0.params.iter().chain([&self.0.result]);
        match self.0.effect {
            Effect::GlobalLoad | Effect::IndirectLoad => Home::Globals,
            Effect::GlobalStore | Effect::IndirectStore => Home::GlobalsMut,
            _ if all.clone().any(|sig| *sig == Sig::RegsT) => Home::Table,
            _ if all.clone().any(|sig| matches!(sig, Sig::N | Sig::L)) => Home::Int,
            _ if all.any(|sig| matches!(sig, Sig::F | Sig::BitsOfF)) => Home::Float,
            _ => Home::Free,
        }
    }

    /// How the compiler of the VM executes it.
    pub fn lowering(&self) -> Lowering {
        self.0.lowering
    }

    /// Its replacement in compiled code, if it has one.
    pub fn others(&self) -> Option<&Others> {
        self.0.others.as_ref()
    }

    /// How compiled code executes it in several lanes of 32 bits, if it can.
    pub fn lanes(&self) -> Option<Lanes> {
        self.0.lanes
    }

    /// How compiled code executes it in several lanes where operands or results, or the elements that it accesses, have
    /// 64 bits, if it can.
    pub fn wide_lanes(&self) -> Option<Lanes> {
        self.0.wide_lanes
    }

    /// How compiled code executes it in lanes that have the lowest bytes of values of 32 bits, if it can.
    pub fn byte_lanes(&self) -> Option<Lanes> {
        self.0.byte_lanes
    }

    /// How it grows with its operands, if that can be said.
    pub fn linear(&self) -> Option<Linear> {
        self.0.linear
    }

    /// Bytes of each element in memory that it accesses, if it accesses some.
    pub fn bytes(&self) -> Option<u8> {
        self.0.bytes
    }

    /// Whether it converts an `i32` where a truth value is expected.
    pub fn is_implicit(&self) -> bool {
        self.0.is_implicit
    }

    /// Operands, and the result.
    pub fn examples(&self) -> &[PrimitiveExample] {
        &self.0.examples
    }

    /// Its documentation, one sentence.
    pub fn doc(&self) -> &str {
        &self.0.doc
    }

    /// Where it is declared.
    pub fn origin(&self) -> &Origin {
        &self.0.origin
    }
}

impl fmt::Debug for Primitive {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.variant())
    }
}

// Primitives of one vocabulary are compared and ordered by their positions in it.
impl PartialEq for Primitive {
    fn eq(&self, other: &Primitive) -> bool {
        self.0.index == other.0.index
    }
}

impl Eq for Primitive {}

impl PartialOrd for Primitive {
    fn partial_cmp(&self, other: &Primitive) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Primitive {
    fn cmp(&self, other: &Primitive) -> std::cmp::Ordering {
        self.0.index.cmp(&other.0.index)
    }
}
