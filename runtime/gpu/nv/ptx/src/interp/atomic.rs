//! Atomic accesses, lane by lane.

use std::sync::{Mutex, PoisonError};

use vireo_simt::prim::{self, F16};
use vireo_simt::row::lanes;
use vireo_simt::{Access, Fault, Refusal, Row};

use super::memory::{Addresses, Space, fault, shown};
use crate::generated::limits::{LOCAL_WINDOW, SHARED_WINDOW};
use crate::generated::suffixes::{AtomicSuffix, Type, TypeKind};
use crate::isa::Suffixes;
use crate::machine::{Block, Inst, NONE, Next, Warp};

/// The new value of an operation on values of a type: `old` is in memory, `a` and `b` are operands.
fn change(operation: AtomicSuffix, ty: Type, old: u64, a: u64, b: u64) -> u64 {
    let bits = ty.bits();
    let signed = |value: u64| ((value << (64 - bits)) as i64) >> (64 - bits);
    let is_signed = ty.kind() == TypeKind::Signed;
    let halves = |part: fn(u16, u16) -> u16| {
        let half = |shift: u32| u64::from(part((old >> shift) as u16, (a >> shift) as u16)) << shift;
        if bits == 32 { half(0) | half(16) } else { half(0) }
    };
    match operation {
        AtomicSuffix::And => old & a,
        AtomicSuffix::Or => old | a,
        AtomicSuffix::Xor => old ^ a,
        AtomicSuffix::Exch => a,
        AtomicSuffix::Cas => {
            if old == a {
                b
            } else {
                old
            }
        }
        AtomicSuffix::Inc => {
            if old >= a {
                0
            } else {
                old + 1
            }
        }
        AtomicSuffix::Dec => {
            if old == 0 || old > a {
                a
            } else {
                old - 1
            }
        }
        AtomicSuffix::Min if is_signed => {
            if signed(old) < signed(a) {
                old
            } else {
                a
            }
        }
        AtomicSuffix::Max if is_signed => {
            if signed(old) > signed(a) {
                old
            } else {
                a
            }
        }
        AtomicSuffix::Min => old.min(a),
        AtomicSuffix::Max => old.max(a),
        AtomicSuffix::Add => match ty {
            Type::F32 => u64::from((f32::from_bits(old as u32) + f32::from_bits(a as u32)).to_bits()),
            Type::F64 => (f64::from_bits(old) + f64::from_bits(a)).to_bits(),
            Type::F16 | Type::F16x2 => halves(|old, a| prim::fadd(F16(old), F16(a)).0),
            Type::Bf16 | Type::Bf16x2 => {
                halves(|old, a| prim::fdemote_bf16(prim::fpromote_bf16(old) + prim::fpromote_bf16(a)))
            }
            _ => old.wrapping_add(a),
        },
    }
}

/// An operation and a type, packed in the number of an instruction.
pub(super) fn parts(number: u32) -> Option<(Space, AtomicSuffix, Type, bool)> {
    let space = match number & 3 {
        0 => Space::Global,
        1 => Space::Shared,
        _ => Space::Generic,
    };
    let operation = AtomicSuffix::ALL.get(number as usize >> 2 & 0x1F)?;
    let ty = Type::ALL.get(number as usize >> 7 & 0x3F)?;
    Some((space, *operation, *ty, number >> 13 & 1 != 0))
}

/// A value in memory is changed in one step, and the old one is the result if there is one. Sources are the address,
/// and one or two operands.
pub(crate) fn atomic(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let Some((space, operation, ty, is_short)) = parts(inst.number) else { return Next::Trap };
    let addresses = Addresses::of(warp, inst, is_short);
    let (length, is_wide) = (ty.bits() / 8, ty.bits() == 64);
    let mask = if ty.bits() == 64 { u64::MAX } else { (1 << ty.bits()) - 1 };
    let operand = |warp: &Warp, source: u16, lane: usize| {
        if source == NONE {
            return 0;
        }
        let high = if is_wide { warp.row(source + 1).0[lane] } else { 0 };
        (u64::from(warp.row(source).0[lane]) | u64::from(high) << 32) & mask
    };
    let mut allowed = warp.mask;
    if block.hook.is_some() {
        allowed = shown(warp, block, (space, &addresses), length, (Access::Atomic, true));
    }
    for lane in lanes(allowed) {
        let (a, b) = (operand(warp, inst.sources[1], lane), operand(warp, inst.sources[2], lane));
        let new = |old: u64| change(operation, ty, old, a, b) & mask;
        let address = addresses.lane(lane);
        let refuse = |why: Refusal| (fault(&addresses, lane, length, Access::Atomic, why), lane);
        if !address.is_multiple_of(u64::from(length)) {
            return warp.refused(refuse(Refusal::Unaligned));
        }
        let (space, address) = match space {
            Space::Generic if address >> 24 == SHARED_WINDOW >> 24 => (Space::Shared, address & 0xFF_FFFF),
            Space::Generic if address >> 24 == LOCAL_WINDOW >> 24 => (Space::Local, address & 0xFF_FFFF),
            space => (space, address),
        };
        let old = match space {
            Space::Shared | Space::Local => {
                let (stride, local) = (warp.local_stride as usize, &mut warp.local);
                let memory =
                    if space == Space::Shared { &mut block.shared[..] } else { &mut local[lane * stride..][..stride] };
                let range = usize::try_from(address).ok().and_then(|start| {
                    start.checked_add(length as usize).filter(|end| *end <= memory.len()).map(|end| start..end)
                });
                let Some(range) = range else { return warp.refused(refuse(Refusal::Unmapped)) };
                let bytes = &mut memory[range];
                let mut old = [0; 8];
                old[..bytes.len()].copy_from_slice(bytes);
                let old = u64::from_le_bytes(old);
                bytes.copy_from_slice(&new(old).to_le_bytes()[..bytes.len()]);
                Ok(old)
            }
            _ => match length {
                8 => block.port.atomic_u64(address, new),
                4 => block.port.atomic_u32(address, |old| new(old.into()) as u32).map(u64::from),
                _ => {
                    // The half of a word, of which the other one stays.
                    let shift = 8 * (address & 2) as u32;
                    let whole = block.port.atomic_u32(address & !3, |old| {
                        let half = new(u64::from(old >> shift & 0xFFFF)) as u32;
                        old & !(0xFFFF << shift) | half << shift
                    });
                    whole.map(|old| u64::from(old >> shift & 0xFFFF))
                }
            },
        };
        match old {
            Err(fault) => return warp.refused((Fault { address, length, ..fault }, lane)),
            Ok(old) if inst.result != NONE => {
                warp.rows[usize::from(inst.result)].0[lane] = old as u32;
                if is_wide {
                    warp.rows[usize::from(inst.result) + 1].0[lane] = (old >> 32) as u32;
                }
            }
            Ok(_) => {}
        }
    }
    Next::Continue
}

/// Held by accesses of 128 bits, which are atomic among themselves.
static QUADS: Mutex<()> = Mutex::new(());

/// A value of 128 bits in memory is exchanged, or compared and exchanged, and the old one is the result. Sources are as
/// those of [`atomic`].
pub(crate) fn atomic_quad(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let Some((space, operation, ty, is_short)) = parts(inst.number) else { return Next::Trap };
    let addresses = Addresses::of(warp, inst, is_short);
    let length = ty.bits() / 8;
    let operand = |warp: &Warp, source: u16, lane: usize| [0, 1, 2, 3].map(|word| warp.row(source + word).0[lane]);
    let mut allowed = warp.mask;
    if block.hook.is_some() {
        allowed = shown(warp, block, (space, &addresses), length, (Access::Atomic, true));
    }
    let guard = QUADS.lock().unwrap_or_else(PoisonError::into_inner);
    for lane in lanes(allowed) {
        let refuse = |fault: Fault| (Fault { access: Access::Atomic, ..fault }, lane);
        if !addresses.lane(lane).is_multiple_of(u64::from(length)) {
            return warp.refused(refuse(fault(&addresses, lane, length, Access::Atomic, Refusal::Unaligned)));
        }
        let (mut old, mask) = ([Row::ZERO; 8], 1 << lane);
        if let Err((fault, _)) = warp.load_element(block, (space, &addresses, mask), length, &mut old) {
            return warp.refused(refuse(fault));
        }
        let old = [0, 1, 2, 3].map(|word| old[word].0[lane]);
        let first = operand(warp, inst.sources[1], lane);
        let new = match operation {
            AtomicSuffix::Exch => first,
            _ if old == first => operand(warp, inst.sources[2], lane),
            _ => old,
        };
        let mut words = [Row::ZERO; 8];
        words.iter_mut().zip(new).for_each(|(row, word)| row.0[lane] = word);
        if let Err((fault, _)) = warp.store_element(block, (space, &addresses, mask), length, &words) {
            return warp.refused(refuse(fault));
        }
        if inst.result != NONE {
            for (word, old) in (0..).zip(old) {
                warp.rows[usize::from(inst.result + word)].0[lane] = old;
            }
        }
    }
    drop(guard);
    Next::Continue
}
