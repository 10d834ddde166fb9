//! Loads and stores: of elements of buffers, of slots of the frame and of spill slots. The graph has the range checks.

use dynasmrt::DynasmApi;

use super::{Asm, Scalar, emit};

/// Assembles an instruction with the element `$index` at `$base` as its memory operand, which is between what stands in
/// brackets.
macro_rules! element {
    ($asm:expr, $base:ident, $index:ident * $size:tt; [$($before:tt)*] [$($after:tt)*]) => {
        match $index {
            Src::Reg(index) => emit!($asm; $($before)* [Rq($base) + Rq(index) * $size] $($after)*),
            Src::Imm(index) => {
                let offset = index.wrapping_mul($size);
                slot!($asm, $base, offset; [$($before)*] [$($after)*]);
            }
        }
    };
}

/// The same for a number of bytes.
macro_rules! slot {
    ($asm:expr, $base:ident, $offset:ident; [$($before:tt)*] [$($after:tt)*]) => {
        match i8::try_from($offset) {
            Ok(offset) => emit!($asm; $($before)* [BYTE Rq($base) + offset] $($after)*),
            Err(_) => emit!($asm; $($before)* [DWORD Rq($base) + $offset] $($after)*),
        }
    };
}

pub(super) use {element, slot};

/// Loads a value from `base + offset`.
pub(crate) fn load_slot(asm: &mut Asm, of: Scalar, dst: u8, base: u8, offset: i32) {
    match of {
        Scalar::I32 => slot!(asm, base, offset; [mov Rd(dst), DWORD] []),
        Scalar::I64 => slot!(asm, base, offset; [mov Rq(dst), QWORD] []),
        Scalar::F32 if asm.features.avx => slot!(asm, base, offset; [vmovss Rx(dst), DWORD] []),
        Scalar::F32 => slot!(asm, base, offset; [movss Rx(dst), DWORD] []),
        Scalar::F64 if asm.features.avx => slot!(asm, base, offset; [vmovsd Rx(dst), QWORD] []),
        Scalar::F64 => slot!(asm, base, offset; [movsd Rx(dst), QWORD] []),
    }
}

/// Stores a value to `base + offset`.
pub(crate) fn store_slot(asm: &mut Asm, of: Scalar, base: u8, offset: i32, src: u8) {
    match of {
        Scalar::I32 => slot!(asm, base, offset; [mov DWORD] [, Rd(src)]),
        Scalar::I64 => slot!(asm, base, offset; [mov QWORD] [, Rq(src)]),
        Scalar::F32 if asm.features.avx => slot!(asm, base, offset; [vmovss DWORD] [, Rx(src)]),
        Scalar::F32 => slot!(asm, base, offset; [movss DWORD] [, Rx(src)]),
        Scalar::F64 if asm.features.avx => slot!(asm, base, offset; [vmovsd QWORD] [, Rx(src)]),
        Scalar::F64 => slot!(asm, base, offset; [movsd QWORD] [, Rx(src)]),
    }
}
