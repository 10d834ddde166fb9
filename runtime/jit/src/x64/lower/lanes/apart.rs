//! Loads of elements that are a constant number of them apart, one by one: half a vector with each insertion in the
//! other ones, which AVX2 does in less than half of the time of its gathers.

use dynasmrt::DynasmApi;
use smallvec::SmallVec;

use super::super::{Asm, Src, emit};
use super::common::address;
use crate::ir::types::Width;
use crate::processor::registers::{SCRATCH, VECTOR_SCRATCH};

/// Loads an element of `1 << shift` bytes, 4 or 8, for each lane: that of lane 0 is `displacement` after `index`, and
/// each other one `by` after the one before. False, and nothing, where distances do not fit into instructions, and for
/// sixteen lanes, which need more insertions than a gather takes time.
pub(super) fn load(
    asm: &mut Asm,
    width: Width,
    dst: u8,
    from: (u8, Src),
    (displacement, shift): (i32, u8),
    by: i32,
) -> bool {
    if !matches!(width, Width::Four | Width::Eight) {
        return false;
    }
    let at = |lane: i64| i32::try_from((i64::from(displacement) + i64::from(by) * lane) << shift).ok();
    let offsets: Option<SmallVec<[i32; 8]>> = (0..width.lanes() as i64).map(at).collect();
    let Some(offsets) = offsets else { return false };
    address(asm, from, shift);
    let half = if shift == 3 { two } else { four };
    let (low, high) = offsets.split_at(16 >> shift);
    if !high.is_empty() {
        half(asm, VECTOR_SCRATCH, high);
    }
    half(asm, dst, low);
    if !high.is_empty() {
        emit!(asm; vinsertf128 Ry(dst), Ry(dst), Rx(VECTOR_SCRATCH), BYTE 1);
    }
    true
}

/// Loads four elements of 32 bits from these distances after the address in the scratch register.
fn four(asm: &mut Asm, dst: u8, offsets: &[i32]) {
    let [a, b, c, d] = std::array::from_fn(|lane| offsets[lane]);
    emit!(asm
        ; vmovss Rx(dst), [Rq(SCRATCH) + a]
        ; vinsertps Rx(dst), Rx(dst), [Rq(SCRATCH) + b], BYTE 0x10
        ; vinsertps Rx(dst), Rx(dst), [Rq(SCRATCH) + c], BYTE 0x20
        ; vinsertps Rx(dst), Rx(dst), [Rq(SCRATCH) + d], BYTE 0x30
    );
}

/// Loads two elements of 64 bits.
fn two(asm: &mut Asm, dst: u8, offsets: &[i32]) {
    let [a, b] = std::array::from_fn(|lane| offsets[lane]);
    emit!(asm
        ; vmovsd Rx(dst), [Rq(SCRATCH) + a]
        ; vmovhpd Rx(dst), Rx(dst), [Rq(SCRATCH) + b]
    );
}
