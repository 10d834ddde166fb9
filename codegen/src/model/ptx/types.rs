//! The types of the model of instructions in a text form, such as `spec/isa/ptx/`.

use crate::diag::Origin;
use crate::model::constant::Constant;
use crate::sem::{Expr, Ty, Vocabulary};

/// The implicit bit of each lane that a carry goes through.
pub(super) const CARRY: &str = "carry";

/// Every entry of the folder.
#[derive(Clone, Debug, Default)]
pub struct Ptx {
    /// The name of the folder.
    pub name: String,
    /// The vocabulary of semantics.
    pub primitives: Vocabulary,
    /// Types, in the order of the specs.
    pub types: Vec<Type>,
    /// Classes of suffixes.
    pub suffixes: Vec<Suffix>,
    /// Instructions, sorted by their names.
    pub instructions: Vec<Instruction>,
    /// The functions on lanes that instructions are made of, in the order of the specs.
    pub handlers: Vec<Handler>,
    /// Special registers.
    pub registers: Vec<SpecialRegister>,
    /// Layouts of matrices.
    pub fragments: Vec<Fragment>,
    /// Instructions that are refused by name.
    pub refused: Vec<Refused>,
    /// Functions that the machine has.
    pub externals: Vec<ExternalFunction>,
    /// Named numbers.
    pub constants: Vec<Constant>,
}

/// A type of values.
#[derive(Clone, Debug)]
pub struct Type {
    /// `u32`
    pub name: String,
    /// Bits of a value.
    pub bits: u32,
    /// The kind, one of [`Type::KINDS`].
    pub kind: String,
    /// The type of a value of a lane in semantics.
    pub lane: Ty,
    /// Since when it is there.
    pub since: Since,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

impl Type {
    /// The kinds of types.
    pub const KINDS: [&str; 6] = ["unsigned", "signed", "bits", "float", "packed", "predicate"];
}

/// A class of suffixes, of which a form has one at a position.
#[derive(Clone, Debug)]
pub struct Suffix {
    /// `rounding`
    pub name: String,
    /// The suffixes without their dots, in order.
    pub values: Vec<String>,
    /// Since when each of them is there.
    pub since: Vec<Since>,
    /// Whether they are types.
    pub is_type: bool,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// The versions from which on something is there.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// Ten times the version of the instruction set.
    pub isa: u32,
    /// The number of the target, as in `sm_80`.
    pub target: u32,
}

/// An instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// `add`
    pub name: String,
    /// Its documentation.
    pub doc: String,
    /// The variants, tried in order.
    pub variants: Vec<Variant>,
    /// Where it is declared.
    pub origin: Origin,
}

/// A sequence of suffixes with operands.
#[derive(Clone, Debug)]
pub struct Variant {
    /// The positions of suffixes.
    pub positions: Vec<Position>,
    /// Its operands, the results first.
    pub operands: Vec<Operand>,
    /// How many of them are results.
    pub results: usize,
    /// Whether a carry goes in.
    pub carry_in: bool,
    /// Whether a carry comes out.
    pub carry_out: bool,
    /// Its meaning.
    pub body: Body,
    /// Since when it is there.
    pub since: Since,
}

/// A position of a suffix.
#[derive(Clone, Debug)]
pub struct Position {
    /// The index of its class.
    pub class: usize,
    /// The indices of the values that it may have.
    pub values: Vec<usize>,
    /// Whether it may be left out.
    pub optional: bool,
}

/// The type of an operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OperandTy {
    /// That of a position of the form.
    Position(usize),
    /// This one.
    Type(usize),
}

/// An operand.
#[derive(Clone, Debug)]
pub struct Operand {
    /// `d`
    pub name: String,
    /// Its type.
    pub ty: OperandTy,
    /// Whether a wider register may be given.
    pub may_be_wider: bool,
}

/// The meaning of a variant.
#[derive(Clone, Debug)]
pub enum Body {
    /// The forms, in the order of a number whose digits are the choices at the positions, the last one counting ones;
    /// a position that may be left out has zero for that.
    Lanes(Vec<Option<Form>>),
    /// Something that the interpreter has by this name.
    Special(String),
}

/// A form: a choice at each position.
#[derive(Clone, Debug)]
pub struct Form {
    /// The text with all suffixes.
    pub name: String,
    /// The index of the function that computes it.
    pub handler: usize,
}

/// A function of values of lanes.
#[derive(Clone, Debug)]
pub struct Handler {
    /// The name of its first form as an identifier.
    pub name: String,
    /// Its sources, in the order of the operands.
    pub sources: Vec<(String, Ty)>,
    /// The expressions of its results: at most one value, then at most one bit.
    pub results: Vec<(String, Expr)>,
    /// The type of the parts of a packed value, which are computed one by one.
    pub parts: Option<Ty>,
    /// The documentation of the instruction.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A special register.
#[derive(Clone, Debug)]
pub struct SpecialRegister {
    /// `tid.x`
    pub name: String,
    /// Its bits.
    pub bits: u32,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A bit of a coordinate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bit {
    /// A bit of the number of the lane.
    Lane(u32),
    /// A bit of the number of the element in the lane.
    Element(u32),
}

/// Where the elements of a matrix are.
#[derive(Clone, Debug)]
pub struct Fragment {
    /// `m16n8k16_a_16`
    pub name: String,
    /// The bits of the row, the lowest first.
    pub row: Vec<Bit>,
    /// Those of the column.
    pub column: Vec<Bit>,
    /// The matrices of `wmma` that have it.
    pub tiles: Vec<Tile>,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

/// A matrix of a product that a warp loads, multiplies and stores.
#[derive(Clone, Debug)]
pub struct Tile {
    /// The index of the matrix among the suffixes of [`Tile::CLASSES`].
    pub matrix: usize,
    /// That of the sizes of the product.
    pub shape: usize,
    /// That of the type of elements.
    pub ty: usize,
    /// Registers of a lane: more than its elements need if the matrix is there several times.
    pub registers: u32,
}

impl Tile {
    /// The classes of suffixes that name a matrix and the sizes.
    pub const CLASSES: [&str; 2] = ["matrix", "shape"];
}

/// A function that the machine has.
#[derive(Clone, Debug)]
pub struct ExternalFunction {
    /// Its name.
    pub name: String,
    /// The effect of a call of it, one of [`ExternalFunction::EFFECTS`].
    pub does: String,
    /// Its documentation.
    pub doc: String,
    /// Where it is declared.
    pub origin: Origin,
}

impl ExternalFunction {
    /// The effects that there are.
    pub const EFFECTS: [&str; 2] = ["assertion", "print"];
}

/// Instructions that are refused by name.
#[derive(Clone, Debug)]
pub struct Refused {
    /// Their purpose.
    pub name: String,
    /// The opcodes, or their beginnings.
    pub opcodes: Vec<String>,
    /// Why.
    pub reason: String,
    /// Where that is declared.
    pub origin: Origin,
}
