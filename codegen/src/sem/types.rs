//! Types of operands and values in `semantics`, and of the parameters and results in signatures of primitives.

use std::fmt;

/// The type of an operand or of the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ty {
    /// A 16-bit integer; signedness belongs to the primitive.
    I16,
    /// A 32-bit integer.
    I32,
    /// A 64-bit integer.
    I64,
    /// An IEEE half.
    F16,
    /// An IEEE single.
    F32,
    /// An IEEE double.
    F64,
    /// A truth value, or one bit.
    Bool,
    /// Any reference, possibly null.
    Ref,
    /// A reference that must hold a buffer.
    Buffer,
    /// A reference that must hold a list.
    List,
    /// A byte offset into the value globals, proven by the verifier.
    Global,
    /// A list of registers that hold values of one type.
    Regs(Scalar),
    /// No value: a store.
    Unit,
}

/// The types that a signature may leave open.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `i16`
    I16,
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `f16`
    F16,
    /// `f32`
    F32,
    /// `f64`
    F64,
    /// `bool`
    Bool,
}

impl Scalar {
    /// Those of registers of the VM, and of examples of primitives.
    pub const WORDS: [Scalar; 4] = [Scalar::I32, Scalar::I64, Scalar::F32, Scalar::F64];

    /// The type of a value of it.
    pub fn ty(self) -> Ty {
        match self {
            Scalar::I16 => Ty::I16,
            Scalar::I32 => Ty::I32,
            Scalar::I64 => Ty::I64,
            Scalar::F16 => Ty::F16,
            Scalar::F32 => Ty::F32,
            Scalar::F64 => Ty::F64,
            Scalar::Bool => Ty::Bool,
        }
    }

    /// Its name in specs and in Rust.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::I16 => "i16",
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F16 => "f16",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
            Scalar::Bool => "bool",
        }
    }

    /// Bytes of a value.
    pub fn size(self) -> u32 {
        match self {
            Scalar::Bool => 1,
            Scalar::I16 | Scalar::F16 => 2,
            Scalar::I32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::F64 => 8,
        }
    }

    /// The type of the bits of a float.
    pub fn bits_of_float(self) -> Option<Ty> {
        match self {
            Scalar::F16 => Some(Ty::I16),
            Scalar::F32 => Some(Ty::I32),
            Scalar::F64 => Some(Ty::I64),
            Scalar::I16 | Scalar::I32 | Scalar::I64 | Scalar::Bool => None,
        }
    }
}

impl Ty {
    /// The type of numbers, if it is one.
    pub fn scalar(self) -> Option<Scalar> {
        match self {
            Ty::I16 => Some(Scalar::I16),
            Ty::F16 => Some(Scalar::F16),
            Ty::I32 => Some(Scalar::I32),
            Ty::I64 => Some(Scalar::I64),
            Ty::F32 => Some(Scalar::F32),
            Ty::F64 => Some(Scalar::F64),
            _ => None,
        }
    }
}

impl fmt::Display for Ty {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Ty::I16 => "i16",
            Ty::F16 => "f16",
            Ty::I32 => "i32",
            Ty::I64 => "i64",
            Ty::F32 => "f32",
            Ty::F64 => "f64",
            Ty::Bool => "bool",
            Ty::Ref => "ref",
            Ty::Buffer => "buffer",
            Ty::List => "list",
            Ty::Global => "global",
            Ty::Regs(scalar) => return write!(f, "regs[{}]", scalar.name()),
            Ty::Unit => "nothing",
        })
    }
}

/// A parameter or result type of a signature; `N`, `L`, `F` and `T` stand for one type per use of the primitive. Its
/// `Display` is how specs write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sig {
    /// This very type.
    Is(Ty),
    /// The integer type of this use.
    N,
    /// The same, or one bit.
    L,
    /// The float type of this use.
    F,
    /// Any scalar type of this use.
    T,
    /// A register list of `T`.
    RegsT,
    /// The integer type as wide as `F`.
    BitsOfF,
}

impl Sig {
    /// Every type that a signature may name.
    pub const ALL: [Sig; 18] = [
        Sig::N,
        Sig::L,
        Sig::F,
        Sig::T,
        Sig::RegsT,
        Sig::BitsOfF,
        Sig::Is(Ty::I16),
        Sig::Is(Ty::I32),
        Sig::Is(Ty::I64),
        Sig::Is(Ty::F16),
        Sig::Is(Ty::F32),
        Sig::Is(Ty::F64),
        Sig::Is(Ty::Bool),
        Sig::Is(Ty::Ref),
        Sig::Is(Ty::Buffer),
        Sig::Is(Ty::List),
        Sig::Is(Ty::Global),
        Sig::Is(Ty::Unit),
    ];

    /// Whether each use decides its type.
    pub fn is_open(self) -> bool {
        !matches!(self, Sig::Is(_))
    }
}

impl fmt::Display for Sig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sig::Is(ty) => ty.fmt(f),
            Sig::N => f.write_str("N"),
            Sig::L => f.write_str("L"),
            Sig::F => f.write_str("F"),
            Sig::T => f.write_str("T"),
            Sig::RegsT => f.write_str("regs[T]"),
            Sig::BitsOfF => f.write_str("bits(F)"),
        }
    }
}
