//! Several values of 32 bits in one vector register: what instructions of AVX2 do to eight of them, and those of AVX-512 to sixteen, bit
//! for bit what [`super::value`] does to one. Truths are lanes of ones or zeros.
//!
//! Instructions may use `r11`, vector register 15 and the mask registers freely. `dst` may be the register of any operand.

mod eight;
mod sixteen;

use dynasmrt::DynasmApi;

use super::{Asm, Primitive, Scalar, Src, Width, emit};
use crate::math::vector::{self, Function};

const SCRATCH: u8 = 15;
const R11: u8 = 11;
const RSP: u8 = 4;

/// Whether there is code for lanes of a primitive whose value and operands have 32 bits.
pub(in crate::jit) fn can(primitive: Primitive, of: Scalar) -> bool {
    use Primitive::*;
    match of {
        Scalar::F32 => match primitive {
            Fadd | Fsub | Fmul | Fdiv | FmulFadd | FminLhs | FmaxLhs | Fneg | Fabs | Fsqrt | Frsqrt | Feq | FeqU
            | Fne | Flt | Fle | FltU | FleU | IsNan | Select | Bits | FromBits | I32ToF => true,
            _ => function(primitive).is_some(),
        },
        Scalar::I32 => matches!(
            primitive,
            WrappingAdd
                | WrappingSub
                | WrappingMul
                | WrappingMulAdd
                | Not
                | And
                | Or
                | Xor
                | Shl
                | ShrS
                | ShrU
                | AbsWrapping
                | MinS
                | MinU
                | MaxS
                | MaxU
                | Low8Zext
                | Low16Zext
                | Low8Sext
                | Low16Sext
                | Eq
                | Ne
                | LtS
                | LtU
                | IsNonzero
                | Select
        ),
        Scalar::I64 | Scalar::F64 => false,
    }
}

/// Whether lanes can be loaded from elements that follow each other.
pub(in crate::jit) fn can_load(primitive: Primitive) -> bool {
    use Primitive::*;
    matches!(primitive, LoadF32 | LoadI32 | LoadI8u | LoadI8s | LoadI16u | LoadI16s)
}

/// Whether lanes can be loaded from elements that are this far apart.
pub(in crate::jit) fn can_gather(primitive: Primitive, by: i64) -> bool {
    matches!(primitive, Primitive::LoadF32 | Primitive::LoadI32) && (1..1 << 20).contains(&by)
}

/// Whether lanes can be stored to elements that follow each other.
pub(in crate::jit) fn can_store(primitive: Primitive) -> bool {
    matches!(primitive, Primitive::StoreF32 | Primitive::StoreI32)
}

fn function(primitive: Primitive) -> Option<Function> {
    Some(match primitive {
        Primitive::Exp => Function::Exp,
        Primitive::Log => Function::Log,
        Primitive::Tanh => Function::Tanh,
        Primitive::Erf => Function::Erf,
        _ => return None,
    })
}

/// The function of a primitive for all lanes, which are in memory.
pub(in crate::jit) fn called(primitive: Primitive, width: Width) -> Option<vector::Vector> {
    vector::code(function(primitive)?, width.lanes() as usize)
}

/// Functions that are there for each number of lanes.
macro_rules! of_width {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        pub(in crate::jit) fn $name(asm: &mut Asm, width: Width, $($arg: $ty),*) {
            match width {
                Width::Eight => eight::$name(asm, $($arg),*),
                Width::Sixteen => sixteen::$name(asm, $($arg),*),
            }
        }
    )*};
}

of_width! {
    /// Computes a primitive in all lanes.
    value(primitive: Primitive, of: Scalar, dst: u8, src: &[u8]);
    /// Copies lanes.
    copy(dst: u8, src: u8);
    /// A value in all lanes.
    splat(of: Scalar, dst: u8, src: u8);
    /// Truths as 0 or 1.
    numbers(dst: u8, src: u8);
    /// The value of one lane.
    extract(of: Scalar, dst: u8, src: u8, lane: u8);
    /// The sum of all lanes.
    sum(dst: u8, src: u8);
    /// Each lane's number times a constant.
    multiples(dst: u8, by: i32);
    /// Loads the lanes of vector number `number` from the elements from `index` on.
    load(primitive: Primitive, dst: u8, base: u8, index: Src, number: u8);
    /// Stores lanes to the elements from `index` on.
    store(primitive: Primitive, base: u8, index: Src, src: u8, number: u8);
    /// Loads lanes from elements of 32 bits whose distances from `index` are in `offsets`, in elements; `behind` more for all of them.
    /// `dst` is none of the registers of operands.
    gather(dst: u8, from: (u8, Src), offsets: u8, behind: i32);
    /// Loads lanes from the native frame.
    load_frame(dst: u8, offset: i32);
    /// Stores lanes to the native frame.
    store_frame(offset: i32, src: u8);
}

/// The value of one of the first four lanes.
fn extract_from_four(asm: &mut Asm, of: Scalar, dst: u8, src: u8, lane: u8) {
    let lane = lane as i8;
    if of.is_float() {
        emit!(asm; vpermilps Rx(dst), Rx(src), BYTE lane);
    } else {
        emit!(asm; vpextrd Rd(dst), Rx(src), BYTE lane);
    }
}

/// Lets code without vectors go on at full speed.
pub(in crate::jit) fn leave(asm: &mut Asm) {
    emit!(asm; vzeroupper);
}
