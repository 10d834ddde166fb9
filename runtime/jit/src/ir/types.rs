//! Types and effects of IR nodes, and the properties of primitives that passes ask for. The generated table of
//! primitives is written in these terms, so every room uses them.

/// The type of a value in registers of a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Scalar {
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
    /// Whether a value takes a pair of slots.
    pub fn is_wide(self) -> bool {
        matches!(self, Scalar::I64 | Scalar::F64)
    }

    /// Whether a value is kept in a vector register.
    pub fn is_float(self) -> bool {
        matches!(self, Scalar::F32 | Scalar::F64)
    }

    /// The integer type of this width.
    pub fn integer(self) -> Scalar {
        if self.is_wide() { Scalar::I64 } else { Scalar::I32 }
    }
}

/// How many lanes a vector has, and of which size. Those of larger registers come last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Width {
    /// Those of AVX2 of 64 bits; values of 32 bits are in the lower half of a register then.
    Four,
    /// Those of half a register of AVX2, of 8 bits: the lowest bytes of values of 32 bits.
    SixteenBytes,
    /// Those of AVX2 of 8 bits, likewise.
    ThirtyTwoBytes,
    /// Those of AVX2 of 32 bits.
    Eight,
    /// Those of AVX-512 of 32 bits.
    Sixteen,
}

impl Width {
    /// How many there are.
    pub fn lanes(self) -> u64 {
        match self {
            Width::Four => 4,
            Width::Eight => 8,
            Width::Sixteen | Width::SixteenBytes => 16,
            Width::ThirtyTwoBytes => 32,
        }
    }

    /// Bytes of a register of them.
    pub fn bytes(self) -> i32 {
        match self {
            Width::Four | Width::SixteenBytes | Width::ThirtyTwoBytes | Width::Eight => 32,
            Width::Sixteen => 64,
        }
    }

    /// Whether lanes have 8 bits.
    pub fn has_bytes(self) -> bool {
        matches!(self, Width::SixteenBytes | Width::ThirtyTwoBytes)
    }
}

/// How a primitive is computed in several lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lanes {
    /// By instructions on vectors.
    Instructions,
    /// By a call of a function for all of them.
    Call,
    /// Not at all: the bits stay the same.
    SameBits,
}

/// How the value of a primitive depends on operands that are linear in an induction variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Linear {
    /// It grows by what both operands grow by.
    Sum,
    /// It grows by what the first operand grows by, less the second.
    Difference,
    /// It grows by what one operand grows by, times the other operand.
    Product,
    /// It grows by what the product of the first two operands grows by, and the third.
    ProductAndSum,
}

/// The type of a node's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Ty {
    /// A value.
    Scalar(Scalar),
    /// A vector with a value in each lane. A truth value in a lane is all ones or all zeros.
    Lanes(Scalar, Width),
    /// A truth value. It is never materialised: each user emits the test, and reads the flags.
    Truth,
    /// Nothing.
    Nothing,
}

impl Ty {
    /// How many lanes it has, if it is a vector.
    pub fn width(self) -> Option<Width> {
        match self {
            Ty::Lanes(_, width) => Some(width),
            Ty::Scalar(_) | Ty::Truth | Ty::Nothing => None,
        }
    }
}

/// The effect of a primitive besides its value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// Nothing.
    Pure,
    /// Nothing, and it is a call.
    Call,
    /// It stops with a trap, or computes.
    Trap,
    /// It reads a buffer, or traps.
    Load,
    /// It writes a buffer, or traps.
    Store,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::generated::vm::primitive::Primitive;

    #[test]
    fn what_is_called_is_there() {
        let scalars = [Scalar::I32, Scalar::I64, Scalar::F32, Scalar::F64];
        for primitive in Primitive::ALL {
            let is_there = scalars.iter().any(|of| primitive.function(*of).is_some());
            assert!(is_there || primitive.effect() != Effect::Call, "{primitive:?} has no function to call");
        }
    }
}
