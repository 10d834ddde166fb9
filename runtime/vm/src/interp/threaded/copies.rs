//! Handlers of the copies of a branch: the values that it passes to the arguments of its target. Up to three copies,
//! the count of a backward branch, the load of the carry and the jump are one instruction.
//!
//! Both halves of a 64-bit value are copied at once: a load of 64 bits that follows two stores of 32 waits until both
//! have left the processor's store buffer.

use super::handler::Handler;
use super::handlers::{jump, next, registers, stop, tick};
use super::operands::at_distance;
use crate::bytecode::{Reg, Remap};
use crate::interp::frame::carried_register::CarriedRegister;
use crate::interp::frame::instruction::{CarriedValues, Ip, operands_of};
use crate::interp::machine::Machine;

/// The most copies of an instruction.
pub(super) const MOST: usize = 3;

/// The carry stays as it is, or is loaded after the copies.
const KEEP: usize = 0;
const LOAD: usize = 1;
const LOAD_WIDE: usize = 2;

/// The operands: of a jump the distance, and of a load of the carry its register.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Copies<const N: usize> {
    /// The distance comes first, so that it can be written once it is known.
    delta: i32,
    carry: Reg,
    copies: [(Reg, Reg); N],
}

/// A copy of a value, or of both halves of one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ValueCopy {
    pub source: Reg,
    pub target: Reg,
    pub wide: bool,
}

/// The copies of values among those of a branch, in order.
pub(super) fn value_copies(remaps: &[Remap]) -> Vec<ValueCopy> {
    let mut copies: Vec<ValueCopy> = Vec::new();
    for remap in remaps.iter().filter(|remap| !remap.source.is_ref()) {
        let (source, target) = (remap.source.reg(), remap.target.reg());
        // The lower half of a value of 64 bits has an even register, so one half is not where the other comes from.
        let is_upper_half = |lower: &ValueCopy| {
            let even = lower.source.0.is_multiple_of(2) && lower.target.0.is_multiple_of(2);
            !lower.wide && even && (lower.source.0 + 1, lower.target.0 + 1) == (source.0, target.0)
        };
        match copies.last_mut().filter(|lower| is_upper_half(lower)) {
            Some(lower) => lower.wide = true,
            None => copies.push(ValueCopy { source, target, wide: false }),
        }
    }
    copies
}

/// Copies `N` values one after the other, of which those are wide whose bits in `WIDE` are set.
unsafe extern "C-unwind" fn copy<
    const N: usize,
    const WIDE: usize,
    const COUNTED: bool,
    const CARRY: usize,
    const JUMP: bool,
>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction, and of a jump a distance to an instruction of
    // the function; frame and machine are those that a [`Handler`] gets.
    unsafe {
        if COUNTED && !tick(cx) {
            return stop(ip, slots, cx, carried);
        }
        let Copies { delta, carry: reg, copies } = operands_of::<Copies<N>>(ip).read();
        let mut frame = registers(slots);
        for (index, (source, target)) in copies.into_iter().enumerate() {
            if WIDE & 1 << index != 0 {
                frame.set_wide(target.index(), frame.wide(source));
            } else {
                frame.set_word(target.index(), frame.word(source.index()));
            }
        }
        let carried = match CARRY {
            KEEP => carried,
            _ => {
                let carry = CarriedRegister { reg, wide: CARRY == LOAD_WIDE }.value(registers(slots));
                CarriedValues { carry, ..carried }
            }
        };
        if JUMP {
            jump(at_distance(ip, delta as isize), slots, cx, carried)
        } else {
            next::<Copies<N>>(ip, slots, cx, carried)
        }
    }
}

/// Handlers by how the carry is loaded, and whether they jump.
type ByEnd = [[Handler; 2]; 3];

const fn by_end<const N: usize, const WIDE: usize, const COUNTED: bool>() -> ByEnd {
    [
        [copy::<N, WIDE, COUNTED, KEEP, false>, copy::<N, WIDE, COUNTED, KEEP, true>],
        [copy::<N, WIDE, COUNTED, LOAD, false>, copy::<N, WIDE, COUNTED, LOAD, true>],
        [copy::<N, WIDE, COUNTED, LOAD_WIDE, false>, copy::<N, WIDE, COUNTED, LOAD_WIDE, true>],
    ]
}

const fn of<const N: usize, const WIDE: usize>() -> [ByEnd; 2] {
    [by_end::<N, WIDE, false>(), by_end::<N, WIDE, true>()]
}

/// Handlers by the wide ones among the copies, and whether the branch is counted.
const ONE: [[ByEnd; 2]; 2] = [of::<1, 0>(), of::<1, 1>()];
const TWO: [[ByEnd; 2]; 4] = [of::<2, 0>(), of::<2, 1>(), of::<2, 2>(), of::<2, 3>()];
const THREE: [[ByEnd; 2]; 8] =
    [of::<3, 0>(), of::<3, 1>(), of::<3, 2>(), of::<3, 3>(), of::<3, 4>(), of::<3, 5>(), of::<3, 6>(), of::<3, 7>()];

/// How an instruction of copies begins and ends.
#[derive(Clone, Copy)]
pub(super) struct Around {
    /// Whether the branch is counted before the copies.
    pub counted: bool,
    /// The register to load into the carry after them.
    pub load: Option<CarriedRegister>,
    /// Whether the instruction jumps.
    pub jumps: bool,
}

/// Passes the handler and the operands of at most [`MOST`] copies to `push`, which gets one type of operands for each
/// number.
pub(super) fn emit(copies: &[ValueCopy], around: Around, push: &mut impl CopiesVisitor) {
    let wide = copies.iter().enumerate().map(|(index, copy)| usize::from(copy.wide) << index).sum::<usize>();
    let load = around.load.map_or(KEEP, |carry| if carry.wide { LOAD_WIDE } else { LOAD });
    let handler = |table: &[[ByEnd; 2]]| table[wide][usize::from(around.counted)][load][usize::from(around.jumps)];
    let carry = around.load.map_or(Reg(0), |carry| carry.reg);
    let pair = |copy: ValueCopy| (copy.source, copy.target);
    match *copies {
        [one] => push.copies(handler(&ONE), Copies { delta: 0, carry, copies: [pair(one)] }),
        [one, two] => push.copies(handler(&TWO), Copies { delta: 0, carry, copies: [pair(one), pair(two)] }),
        [one, two, three] => {
            push.copies(handler(&THREE), Copies { delta: 0, carry, copies: [pair(one), pair(two), pair(three)] });
        }
        _ => debug_assert!(false, "{} copies in one instruction", copies.len()),
    }
}

/// Gets the instruction that [`emit`] chose.
pub(super) trait CopiesVisitor {
    /// An instruction with this handler and these operands.
    fn copies<const N: usize>(&mut self, handler: Handler, operands: Copies<N>);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bytecode::AnyReg;

    fn copies(pairs: &[(u16, u16)]) -> Vec<(u16, u16, bool)> {
        let any = AnyReg::from_bits;
        let remaps: Vec<_> =
            pairs.iter().map(|(source, target)| Remap { source: any(*source), target: any(*target) }).collect();
        value_copies(&remaps).iter().map(|copy| (copy.source.0, copy.target.0, copy.wide)).collect()
    }

    #[test]
    fn both_halves_of_a_value_are_one_copy() {
        assert_eq!(copies(&[(4, 6), (5, 7), (1, 2)]), [(4, 6, true), (1, 2, false)]);
        assert_eq!(copies(&[(4, 6), (5, 7), (6, 8), (7, 9)]), [(4, 6, true), (6, 8, true)]);
        // The halves of no value: in odd registers the second copy may read what the first one has written.
        assert_eq!(copies(&[(4, 5), (5, 6)]), [(4, 5, false), (5, 6, false)]);
        assert_eq!(copies(&[(5, 7), (6, 8)]), [(5, 7, false), (6, 8, false)]);
        assert_eq!(copies(&[(4, 6), (7, 7)]), [(4, 6, false), (7, 7, false)]);
        // References are copied by others.
        assert_eq!(copies(&[(0x8001, 0x8002), (3, 1)]), [(3, 1, false)]);
    }
}
