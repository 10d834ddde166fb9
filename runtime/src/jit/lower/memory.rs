//! Elements of buffers, and slots of registers that were spilled. Whoever emits these has checked the range.

use dynasmrt::DynasmApi;

use super::{Asm, Primitive, Scalar, Src, emit};

/// The logarithm of the size of the element that a load or store accesses.
pub(in crate::jit) fn element_shift(primitive: Primitive) -> u8 {
    match primitive {
        Primitive::LoadI16u | Primitive::LoadI16s | Primitive::StoreI16 => 1,
        Primitive::LoadI32 | Primitive::LoadF32 | Primitive::StoreI32 | Primitive::StoreF32 => 2,
        Primitive::LoadI64 | Primitive::LoadF64 | Primitive::StoreI64 | Primitive::StoreF64 => 3,
        _ => 0,
    }
}

/// The load of what a store of this kind stores whole, and the type of it.
pub(in crate::jit) fn load_of(store: Primitive) -> Option<(Primitive, Scalar)> {
    Some(match store {
        Primitive::StoreF32 => (Primitive::LoadF32, Scalar::F32),
        Primitive::StoreF64 => (Primitive::LoadF64, Scalar::F64),
        Primitive::StoreI32 => (Primitive::LoadI32, Scalar::I32),
        Primitive::StoreI64 => (Primitive::LoadI64, Scalar::I64),
        _ => return None,
    })
}

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

/// Loads the element at `base + index * size`.
pub(in crate::jit) fn load(asm: &mut Asm, primitive: Primitive, dst: u8, base: u8, index: Src) {
    match primitive {
        Primitive::LoadI8u => element!(asm, base, index * 1; [movzx Rd(dst), BYTE] []),
        Primitive::LoadI8s => element!(asm, base, index * 1; [movsx Rd(dst), BYTE] []),
        Primitive::LoadI16u => element!(asm, base, index * 2; [movzx Rd(dst), WORD] []),
        Primitive::LoadI16s => element!(asm, base, index * 2; [movsx Rd(dst), WORD] []),
        Primitive::LoadI32 => element!(asm, base, index * 4; [mov Rd(dst), DWORD] []),
        Primitive::LoadI64 => element!(asm, base, index * 8; [mov Rq(dst), QWORD] []),
        Primitive::LoadF32 if asm.features.avx => element!(asm, base, index * 4; [vmovss Rx(dst), DWORD] []),
        Primitive::LoadF32 => element!(asm, base, index * 4; [movss Rx(dst), DWORD] []),
        Primitive::LoadF64 if asm.features.avx => element!(asm, base, index * 8; [vmovsd Rx(dst), QWORD] []),
        Primitive::LoadF64 => element!(asm, base, index * 8; [movsd Rx(dst), QWORD] []),
        _ => unreachable!("{primitive:?} is not a load"),
    }
}

/// Stores the low bits of a value to the element at `base + index * size`.
pub(in crate::jit) fn store(asm: &mut Asm, primitive: Primitive, base: u8, index: Src, value: Src) {
    match (primitive, value) {
        (Primitive::StoreI8, Src::Reg(value)) => element!(asm, base, index * 1; [mov BYTE] [, Rb(value)]),
        (Primitive::StoreI16, Src::Reg(value)) => element!(asm, base, index * 2; [mov WORD] [, Rw(value)]),
        (Primitive::StoreI32, Src::Reg(value)) => element!(asm, base, index * 4; [mov DWORD] [, Rd(value)]),
        (Primitive::StoreI64, Src::Reg(value)) => element!(asm, base, index * 8; [mov QWORD] [, Rq(value)]),
        (Primitive::StoreI8, Src::Imm(imm)) => element!(asm, base, index * 1; [mov BYTE] [, BYTE imm as i8]),
        (Primitive::StoreI16, Src::Imm(imm)) => element!(asm, base, index * 2; [mov WORD] [, WORD imm as i16]),
        (Primitive::StoreI32, Src::Imm(imm)) => element!(asm, base, index * 4; [mov DWORD] [, DWORD imm]),
        (Primitive::StoreI64, Src::Imm(imm)) => element!(asm, base, index * 8; [mov QWORD] [, DWORD imm]),
        (Primitive::StoreF32, Src::Reg(value)) if asm.features.avx => {
            element!(asm, base, index * 4; [vmovss DWORD] [, Rx(value)]);
        }
        (Primitive::StoreF32, Src::Reg(value)) => element!(asm, base, index * 4; [movss DWORD] [, Rx(value)]),
        (Primitive::StoreF64, Src::Reg(value)) if asm.features.avx => {
            element!(asm, base, index * 8; [vmovsd QWORD] [, Rx(value)]);
        }
        (Primitive::StoreF64, Src::Reg(value)) => element!(asm, base, index * 8; [movsd QWORD] [, Rx(value)]),
        _ => unreachable!("{primitive:?} is not a store of {value:?}"),
    }
}

/// Loads a value from `base + offset`.
pub(in crate::jit) fn load_slot(asm: &mut Asm, of: Scalar, dst: u8, base: u8, offset: i32) {
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
pub(in crate::jit) fn store_slot(asm: &mut Asm, of: Scalar, base: u8, offset: i32, src: u8) {
    match of {
        Scalar::I32 => slot!(asm, base, offset; [mov DWORD] [, Rd(src)]),
        Scalar::I64 => slot!(asm, base, offset; [mov QWORD] [, Rq(src)]),
        Scalar::F32 if asm.features.avx => slot!(asm, base, offset; [vmovss DWORD] [, Rx(src)]),
        Scalar::F32 => slot!(asm, base, offset; [movss DWORD] [, Rx(src)]),
        Scalar::F64 if asm.features.avx => slot!(asm, base, offset; [vmovsd QWORD] [, Rx(src)]),
        Scalar::F64 => slot!(asm, base, offset; [movsd QWORD] [, Rx(src)]),
    }
}
