//! Handlers of calls inside a module, and of returns from them.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::{Cell, Held, Ip, Machine, RefReg, Reg, Registers, jump, move_ref, operands_of, registers, stop, tick};
use crate::interp::stack::{Stamp, header_of};

/// What a call inside a module needs.
pub(crate) struct Site {
    /// The first cell of the callee; null as long as the callee has no code.
    pub(in crate::interp::threaded) entry: AtomicPtr<Cell>,
    /// Where the caller goes on.
    pub(in crate::interp::threaded) resume: Ip,
    pub(in crate::interp::threaded) stamp: Stamp,
    /// Bytes from the caller's slots to those of the callee.
    pub(in crate::interp::threaded) advance: usize,
    /// Bytes of the callee's slots, and how many of them have to be zeroed.
    pub(in crate::interp::threaded) bytes: usize,
    pub(in crate::interp::threaded) zeroed: usize,
    /// Pairs of the caller's and the callee's slot for each 32 bits of the arguments.
    pub(in crate::interp::threaded) words: Box<[(u16, u16)]>,
    /// The caller's slot of the only argument, if it is one of 32 bits.
    pub(in crate::interp::threaded) only_word: u16,
    pub(in crate::interp::threaded) refs: Box<[(RefReg, u16)]>,
    /// The caller's slot of each 32 bits of the results, and the first of them.
    pub(in crate::interp::threaded) result_words: Box<[u16]>,
    pub(in crate::interp::threaded) first_result: u16,
    pub(in crate::interp::threaded) result_refs: Box<[u16]>,
}

/// What a return needs that returns anything else than one slot of a frame without references.
pub(in crate::interp::threaded) struct Return {
    pub words: Box<[u16]>,
    pub refs: Box<[RefReg]>,
}

/// The first or only word that is passed is carried.
pub(in crate::interp::threaded) const CARRIED: usize = 2;
/// One word is passed, which is in a slot.
pub(in crate::interp::threaded) const ONE: usize = 1;
/// Any number of words is passed.
pub(in crate::interp::threaded) const ANY: usize = 3;

/// A call of a function of the module that is passed `WORDS`. `PLAIN` if no register has to be made null or zero, and no reference is
/// passed.
pub(in crate::interp::threaded) unsafe extern "C-unwind" fn call<const PLAIN: bool, const WORDS: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    held: Held,
) -> usize {
    // SAFETY: as in `op`; sites live as long as the code. The new frame is inside the stack if it ends before the stack does, and is
    // made as `Stack::push` makes it.
    unsafe {
        let site = &*operands_of::<*const Site>(ip).read();
        let entry = site.entry.load(Ordering::Acquire);
        let callee = slots.wrapping_byte_add(site.advance);
        if entry.is_null() || callee as usize + site.bytes > (*cx).stack_end as usize || !tick(cx) {
            return stop(ip, slots, cx, held);
        }
        let header = header_of(callee);
        // Field by field, or else the stamp is put together on the native stack.
        (&raw mut (*header).caller).write(slots);
        (&raw mut (*header).site).write(site);
        (&raw mut (*header).stamp).copy_from_nonoverlapping(&site.stamp, 1);
        if !PLAIN {
            let refs = site.stamp.refs as usize;
            header.cast::<usize>().sub(refs).write_bytes(0, refs);
            callee.cast::<u8>().write_bytes(0, site.zeroed);
        }
        let (from, mut to) = (registers(slots), registers(callee));
        // The first word is carried on: it is in the callee's first slot, if that is one of an argument.
        let mut carry = 0;
        if WORDS == ANY {
            for (source, target) in site.words.iter().rev() {
                let word = from.word(usize::from(*source));
                to.set_word(usize::from(*target), word);
                carry = u64::from(word);
            }
        } else if WORDS != 0 {
            let word = if WORDS == CARRIED { held.carry as u32 } else { from.word(usize::from(site.only_word)) };
            to.set_word(0, word);
            carry = u64::from(word);
        }
        if !PLAIN {
            for (source, target) in &site.refs {
                move_ref(from, *source, to, usize::from(*target));
            }
        }
        jump(entry, callee, cx, Held { carry, ..held })
    }
}

/// Returns one slot, or the carry, or nothing, from a frame without references.
pub(in crate::interp::threaded) unsafe extern "C-unwind" fn return_word<const WORDS: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    held: Held,
) -> usize {
    // SAFETY: as in `op`; a caller waits below with as many result registers, as the verifier has found.
    unsafe {
        let header = header_of(slots);
        let site = (*header).site;
        if site.is_null() {
            return stop(ip, slots, cx, held);
        }
        let caller = (*header).caller;
        let mut carry = 0;
        if WORDS != 0 {
            let reg = operands_of::<Reg>(ip).read();
            let word = if WORDS == CARRIED { held.carry as u32 } else { registers(slots).word(reg.index()) };
            registers(caller).set_word(usize::from((*site).first_result), word);
            carry = u64::from(word);
        }
        jump((*site).resume, caller, cx, Held { carry, ..held })
    }
}

/// Returns anything from any frame.
pub(in crate::interp::threaded) unsafe extern "C-unwind" fn return_any(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    held: Held,
) -> usize {
    // SAFETY: as in `return_word`.
    unsafe {
        let header = header_of(slots);
        let site = (*header).site;
        if site.is_null() {
            return stop(ip, slots, cx, held);
        }
        let (caller, site) = ((*header).caller, &*site);
        let sources = &*operands_of::<*const Return>(ip).read();
        let carry = leave(registers(slots), registers(caller), sources, site);
        jump(site.resume, caller, cx, Held { carry, ..held })
    }
}

/// Moves the results to the caller and releases the references of the frame. Returns the first word of the results.
#[inline(never)]
fn leave(from: Registers, mut to: Registers, sources: &Return, site: &Site) -> u64 {
    for (source, target) in sources.words.iter().zip(&site.result_words) {
        to.set_word(usize::from(*target), from.word(usize::from(*source)));
    }
    let first = sources.words.first().map_or(0, |source| u64::from(from.word(usize::from(*source))));
    for (source, target) in sources.refs.iter().zip(&site.result_refs) {
        move_ref(from, *source, to, usize::from(*target));
    }
    let mut from = from;
    for index in 0..site.stamp.refs as usize {
        from.assign(index, None);
    }
    first
}
