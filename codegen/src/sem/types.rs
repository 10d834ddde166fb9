//! Types of operands and values in `semantics`, and of the parameters and results in signatures of primitives.

use std::fmt;

/// The type of an operand or of the value of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Ty {
    /// A 32-bit integer; signedness belongs to the primitive.
    I32,
    /// A 64-bit integer.
    I64,
    /// An IEEE single.
    F32,
    /// An IEEE double.
    F64,
    /// A truth value; converted to 0 or 1 where an `i32` is expected.
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

/// The value types that registers of the 32-bit bank hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Scalar {
    /// `i32`
    I32,
    /// `i64`
    I64,
    /// `f32`
    F32,
    /// `f64`
    F64,
}

impl Scalar {
    /// All of them.
    pub const ALL: [Scalar; 4] = [Scalar::I32, Scalar::I64, Scalar::F32, Scalar::F64];

    /// The type of a value of it.
    pub fn ty(self) -> Ty {
        match self {
            Scalar::I32 => Ty::I32,
            Scalar::I64 => Ty::I64,
            Scalar::F32 => Ty::F32,
            Scalar::F64 => Ty::F64,
        }
    }

    /// Its name in specs and in Rust.
    pub fn name(self) -> &'static str {
        match self {
            Scalar::I32 => "i32",
            Scalar::I64 => "i64",
            Scalar::F32 => "f32",
            Scalar::F64 => "f64",
        }
    }

    /// Bytes of a value.
    pub fn size(self) -> u32 {
        match self {
            Scalar::I32 | Scalar::F32 => 4,
            Scalar::I64 | Scalar::F64 => 8,
        }
    }
}

impl Ty {
    /// The scalar type, if it is one.
    pub fn scalar(self) -> Option<Scalar> {
        match self {
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

/// A parameter or result type of a signature; `N`, `F` and `T` stand for one type per use of the primitive. Its
/// `Display` is how specs write it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sig {
    /// This very type.
    Is(Ty),
    /// The integer type of this use: `i32` or `i64`.
    N,
    /// The float type of this use: `f32` or `f64`.
    F,
    /// The scalar type of this use.
    T,
    /// A register list of `T`.
    RegsT,
    /// The integer type as wide as `F`.
    BitsOfF,
}

impl Sig {
    /// Every type that a signature may name.
    pub const ALL: [Sig; 15] = [
        Sig::N,
        Sig::F,
        Sig::T,
        Sig::RegsT,
        Sig::BitsOfF,
        Sig::Is(Ty::I32),
        Sig::Is(Ty::I64),
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
            Sig::F => f.write_str("F"),
            Sig::T => f.write_str("T"),
            Sig::RegsT => f.write_str("regs[T]"),
            Sig::BitsOfF => f.write_str("bits(F)"),
        }
    }
}
