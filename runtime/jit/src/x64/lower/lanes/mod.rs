//! Vector instructions on lanes of 32 bits: AVX2 on eight of them, AVX-512 on sixteen, which compute bit for bit what
//! [`super::value`] does for one value; AVX2 on four lanes of 64 bits; and AVX2 on bytes. A truth value is a lane of
//! ones or zeros, with as many bits as what it compares. `emit/vector_nodes.rs` calls this for each node.
//!
//! Instructions may use `r11`, vector register 15 and the mask registers freely. `dst` may be the register of any
//! operand.

mod apart;
mod bytes;
mod common;
mod constant_division;
mod constant_shift;
mod eight;
mod first_lanes;
mod four;
mod sixteen;

use dynasmrt::DynasmApi;

use super::{Asm, Primitive, Scalar, Src, emit};
use crate::generated::vm::primitive;
use crate::ir::graph::{ConstantDivision, Interleave, Rows};
use crate::ir::types::Width;
use crate::math::vector;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};
use bytes::Bytes;
use common::address;
pub(crate) use constant_shift::shift;
use eight::Eight;
use four::Four;
pub(crate) use four::load_wide_splat;
use sixteen::Sixteen;

/// The function of a primitive for all lanes.
pub(crate) fn called(primitive: Primitive, width: Width) -> Option<vector::VectorFunction> {
    vector::code(primitive.function_of_lanes()?, width.lanes() as usize)
}

/// The function of a primitive for all lanes of two vectors.
pub(crate) fn called_for_pair(primitive: Primitive) -> Option<vector::PairFunction> {
    vector::pair_code(primitive.function_of_lanes()?)
}

/// Computes a primitive in all lanes.
pub(crate) fn value(asm: &mut Asm, width: Width, (primitive, of): (Primitive, Scalar), dst: u8, src: &[u8]) {
    let mask = None;
    match width {
        Width::Four if primitive.is_wide(of) => primitive::wide_lanes(&mut Four { asm, mask }, primitive, dst, src),
        // The four lanes are the lower half of eight.
        Width::Four | Width::Eight => primitive::lanes(&mut Eight { asm, mask }, primitive, dst, src),
        Width::Sixteen => primitive::lanes(&mut Sixteen { asm, mask }, primitive, dst, src),
        Width::SixteenBytes | Width::ThirtyTwoBytes => {
            primitive::byte_lanes(&mut Bytes { asm, width }, primitive, dst, src);
        }
    }
}

/// Loads the lanes of vector number `number` from the elements from `index` on. Lanes that a mask leaves out are zero.
pub(crate) fn load(
    asm: &mut Asm,
    width: Width,
    primitive: Primitive,
    dst: u8,
    (base, index): (u8, Src),
    number: u8,
    mask: Option<u8>,
) {
    debug_assert!(mask.is_none() || has_masks(width, primitive), "lanes of {primitive:?} have no masks");
    match width {
        Width::Four if primitive.element_shift() == 3 => {
            primitive::load_wide_lanes(&mut Four { asm, mask }, primitive, dst, base, index, number);
        }
        Width::Four => {
            debug_assert_eq!(primitive.element_shift(), 2, "narrower elements have no four lanes");
            four::load_words(asm, dst, (base, index), number, mask);
        }
        Width::Eight => primitive::load_lanes(&mut Eight { asm, mask }, primitive, dst, base, index, number),
        Width::Sixteen => primitive::load_lanes(&mut Sixteen { asm, mask }, primitive, dst, base, index, number),
        Width::SixteenBytes | Width::ThirtyTwoBytes => {
            primitive::load_byte_lanes(&mut Bytes { asm, width }, primitive, dst, base, index, number);
        }
    }
}

/// Stores lanes to the elements from `index` on, but for those that a mask leaves out: the first ones are on in it.
pub(crate) fn store(
    asm: &mut Asm,
    width: Width,
    primitive: Primitive,
    (base, index): (u8, Src),
    src: u8,
    number: u8,
    mask: Option<u8>,
) {
    debug_assert!(mask.is_none() || has_masks(width, primitive), "lanes of {primitive:?} have no masks");
    if let Some(mask) = mask.filter(|_| width != Width::Sixteen) {
        let at = number * width.lanes() as u8;
        return first_lanes::store(asm, width, primitive.element_shift(), (base, index), src, at, mask);
    }
    match width {
        Width::Four if primitive.element_shift() == 3 => {
            primitive::store_wide_lanes(&mut Four { asm, mask }, primitive, base, index, src, number);
        }
        Width::Four => {
            debug_assert_eq!(primitive.element_shift(), 2, "narrower elements have no four lanes");
            four::store_words(asm, (base, index), src, number);
        }
        Width::Eight => primitive::store_lanes(&mut Eight { asm, mask }, primitive, base, index, src, number),
        Width::Sixteen => primitive::store_lanes(&mut Sixteen { asm, mask }, primitive, base, index, src, number),
        Width::SixteenBytes | Width::ThirtyTwoBytes => {
            primitive::store_byte_lanes(&mut Bytes { asm, width }, primitive, base, index, src, number);
        }
    }
}

/// Whether instructions leave out lanes of memory: AVX2 has them for elements of 32 and 64 bits only.
fn has_masks(width: Width, primitive: Primitive) -> bool {
    match width {
        Width::Four => primitive.element_shift() >= 2,
        Width::Eight => primitive.element_shift() == 2,
        Width::Sixteen => primitive.element_shift() <= 2,
        Width::SixteenBytes | Width::ThirtyTwoBytes => false,
    }
}

/// Writes a bit for each lane that is on in a mask, as accesses to elements of `1 << shift` bytes take it.
pub(crate) fn mask_bits(asm: &mut Asm, width: Width, shift: u8, dst: u8, mask: u8) {
    match width {
        Width::Sixteen => sixteen::mask_bits(asm, dst, mask),
        Width::SixteenBytes | Width::ThirtyTwoBytes => unreachable!("bytes have no masks"),
        Width::Four | Width::Eight => common::mask_bits(asm, width, shift, dst, mask),
    }
}

/// Functions that there are for each width with lanes of 32 or 64 bits.
macro_rules! of_width {
    ($($(#[$doc:meta])* $name:ident($($arg:ident: $ty:ty),*);)*) => {$(
        $(#[$doc])*
        pub(crate) fn $name(asm: &mut Asm, width: Width, $($arg: $ty),*) {
            match width {
                Width::Four => four::$name(asm, $($arg),*),
                Width::Eight => eight::$name(asm, $($arg),*),
                Width::Sixteen => sixteen::$name(asm, $($arg),*),
                Width::SixteenBytes | Width::ThirtyTwoBytes => {
                    unreachable!(concat!("no loop with lanes of bytes needs `", stringify!($name), "`"))
                }
            }
        }
    )*};
}

of_width! {
    /// Quotients by a divisor whose reciprocal is in all lanes of 64 bits. `free` is no register of an operand.
    quotients(dst: u8, a: u8, reciprocal: u8, free: u8, signed: bool);
    /// The value of one lane.
    extract(of: Scalar, dst: u8, src: u8, lane: u8);
    /// The sum of all lanes.
    sum(dst: u8, src: u8);
    /// Each lane's number times a constant.
    multiples(dst: u8, by: i32);
    /// Gathers an element for each lane, at `index` plus a displacement plus each of `offsets`, in elements; a shift
    /// says how large these are. `dst` is none of the registers of operands. Lanes that a mask leaves out may have any
    /// value.
    gather(dst: u8, from: (u8, Src), offsets: u8, displacement: (i32, u8), mask: Option<u8>);
    /// Loads every other element of 32 bits, of vector number `number` of these. Sixteen lanes take those elements of
    /// two vectors that `order` says. `free` is no register of an operand, nor `dst`.
    load_even(dst: u8, from: (u8, Src), order: u8, free: u8, number: u8);
    /// Loads the first or the second of the vectors from which every other element is taken. Lanes that the mask leaves
    /// out are zero.
    load_part_of_even(into: u8, from: (u8, Src), is_second: bool, mask: u8);
    /// Takes every other element of the vector in the scratch register, and of `second`, which begins with the last
    /// element of that.
    even(dst: u8, order: u8, second: u8);
    /// Byte number `number` of each lane, extended with its sign or without.
    byte(dst: u8, a: u8, number: u8, signed: bool);
    /// Loads four elements, of 32 bits or in four lanes of 64, of every fourth row; element `index` is the first one of
    /// row 0.
    load_rows(dst: u8, base: u8, index: u8, rows: Rows);
    /// Loads element `index` plus `displacement`, of 32 bits, to all lanes.
    load_splat(dst: u8, base: u8, index: u8, displacement: i32);
    /// Lanes of both operands in turn.
    interleave(dst: u8, a: u8, b: u8, which: Interleave);
}

/// Loads an element for each lane, of which each is `by` elements after the one before, and the first one is at `index`
/// plus a displacement. Gathers them at `offsets`, the numbers of lanes times `by`, where a mask leaves out some, or
/// where that takes less time. `dst` is not the register of `offsets`, nor of the mask.
pub(crate) fn load_apart(
    asm: &mut Asm,
    width: Width,
    dst: u8,
    from: (u8, Src),
    (offsets, by): (u8, i32),
    displacement: (i32, u8),
    mask: Option<u8>,
) {
    let is_loaded = mask.is_none() && apart::load(asm, width, dst, from, displacement, by);
    if !is_loaded {
        gather(asm, width, dst, from, offsets, displacement, mask);
    }
}

/// Copies lanes.
pub(crate) fn copy(asm: &mut Asm, width: Width, dst: u8, src: u8) {
    match width {
        Width::Sixteen => sixteen::copy(asm, dst, src),
        Width::Four | Width::SixteenBytes | Width::ThirtyTwoBytes | Width::Eight => eight::copy(asm, dst, src),
    }
}

/// Splats a value.
pub(crate) fn splat(asm: &mut Asm, width: Width, of: Scalar, dst: u8, src: u8) {
    match width {
        Width::Four => four::splat(asm, of, dst, src),
        Width::Eight => eight::splat(asm, of, dst, src),
        Width::Sixteen => sixteen::splat(asm, of, dst, src),
        Width::SixteenBytes | Width::ThirtyTwoBytes => bytes::splat(asm, dst, src),
    }
}

/// Quotients by a constant, whose multiplier is in all lanes. `free` is no register of an operand.
pub(crate) fn constant_quotients(
    asm: &mut Asm,
    width: Width,
    dst: u8,
    a: u8,
    multiplier: u8,
    free: u8,
    division: ConstantDivision,
) {
    match width {
        Width::Four | Width::Eight => constant_division::quotients(asm, dst, a, multiplier, free, division),
        Width::Sixteen | Width::SixteenBytes | Width::ThirtyTwoBytes => {
            unreachable!("{width:?} lanes are divided in another way, or not at all")
        }
    }
}

/// The products of the lower halves of four lanes of 64 bits.
pub(crate) fn low_products(asm: &mut Asm, dst: u8, a: u8, b: u8) {
    emit!(asm; vpmuludq Ry(dst), Ry(a), Ry(b));
}

/// Truth values as 0 or 1.
pub(crate) fn numbers(asm: &mut Asm, width: Width, dst: u8, src: u8) {
    match width {
        Width::Four | Width::Eight => eight::numbers(asm, dst, src),
        Width::Sixteen => sixteen::numbers(asm, dst, src),
        Width::SixteenBytes | Width::ThirtyTwoBytes => bytes::numbers(asm, dst, src),
    }
}

/// Loads lanes from the native frame.
pub(crate) fn load_frame(asm: &mut Asm, width: Width, dst: u8, offset: i32) {
    match width {
        Width::Sixteen => sixteen::load_frame(asm, dst, offset),
        Width::Four | Width::SixteenBytes | Width::ThirtyTwoBytes | Width::Eight => eight::load_frame(asm, dst, offset),
    }
}

/// Stores lanes to the native frame.
pub(crate) fn store_frame(asm: &mut Asm, width: Width, offset: i32, src: u8) {
    match width {
        Width::Sixteen => sixteen::store_frame(asm, offset, src),
        Width::Four | Width::SixteenBytes | Width::ThirtyTwoBytes | Width::Eight => {
            eight::store_frame(asm, offset, src);
        }
    }
}

/// Loads one byte of each row, from consecutive rows. `free` is a register for vectors that is free.
pub(crate) fn load_bytes(
    asm: &mut Asm,
    width: Width,
    primitive: Primitive,
    dst: u8,
    from: (u8, Src),
    rows: Rows,
    free: u8,
) {
    address(asm, from, 0);
    debug_assert!(rows.stride == 2 || !width.has_bytes(), "lanes of bytes are loaded at no other stride");
    if rows.stride == 2 {
        even_bytes(asm, width, rows.first.wrapping_mul(2), free);
    } else {
        separate_bytes(asm, width, rows);
    }
    match width {
        // Of eight bytes, four lanes have no use for the upper half.
        Width::Four | Width::Eight => eight::extend_bytes(asm, dst, primitive == Primitive::LoadI8s),
        Width::Sixteen => sixteen::extend_bytes(asm, dst, primitive == Primitive::LoadI8s),
        Width::SixteenBytes | Width::ThirtyTwoBytes => copy(asm, width, dst, VECTOR_SCRATCH),
    }
}

/// Loads every other byte to the vector scratch register, from this far after the address in the scratch register.
fn even_bytes(asm: &mut Asm, width: Width, offset: i32, free: u8) {
    // The second half begins with the last byte of the first, so that nothing beyond the last byte is read.
    match width {
        Width::Four | Width::Eight => emit!(asm
            ; vmovq Rx(VECTOR_SCRATCH), QWORD [Rq(SCRATCH) + offset]
            ; vmovq Rx(free), QWORD [Rq(SCRATCH) + offset.wrapping_add(7)]
        ),
        Width::Sixteen | Width::SixteenBytes => emit!(asm
            ; vmovdqu Rx(VECTOR_SCRATCH), [Rq(SCRATCH) + offset]
            ; vmovdqu Rx(free), [Rq(SCRATCH) + offset.wrapping_add(15)]
        ),
        Width::ThirtyTwoBytes => return bytes::load_even(asm, offset, free),
    }
    emit!(asm
        ; vpsllw Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), BYTE 8
        ; vpsrlw Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), BYTE 8
        ; vpsrlw Rx(free), Rx(free), BYTE 8
        ; vpackuswb Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(free)
    );
    if width == Width::Eight {
        // Four bytes are of each half.
        emit!(asm; vpshufd Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), BYTE 0b10_00);
    }
}

/// Loads one byte of each row to the vector scratch register; the scratch register has the address in row 0.
fn separate_bytes(asm: &mut Asm, width: Width, rows: Rows) {
    emit!(asm; vpxor Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH));
    for lane in 0..width.lanes() as i32 {
        let offset = rows.stride.wrapping_mul(rows.first + lane);
        emit!(asm; vpinsrb Rx(VECTOR_SCRATCH), Rx(VECTOR_SCRATCH), [Rq(SCRATCH) + offset], BYTE lane as i8);
    }
}

/// Zeroes the upper lanes of all registers, before code without vectors runs.
pub(crate) fn zero_upper(asm: &mut Asm) {
    emit!(asm; vzeroupper);
}
