//! The handlers of calls inside a module, which build frames, and of returns, which release them.

use std::sync::atomic::Ordering;

use super::handlers::{STOP, jump, move_ref, registers, stop, tick};
use super::operands::WordReturn;
use crate::bytecode::ListId;
use crate::interp::frame::header::header_of;
use crate::interp::frame::instruction::{
    CALL_INSTRUCTIONS, CallOperands, CarriedValues, Ip, ReturnOperands, ThreadedCallSite, entry_of, operands_before,
    operands_of,
};
use crate::interp::frame::registers::Registers;
use crate::interp::machine::Machine;
use crate::interp::machine::exit::{Continuation, Exit};

/// One word is passed, which is carried.
pub(super) const CARRIED: usize = 2;
/// One word is passed, which is in a slot.
pub(super) const ONE: usize = 1;
/// Any number of words is passed.
pub(super) const ANY: usize = 3;
/// One 64-bit value is returned, which is in a pair of slots.
pub(super) const PAIR: usize = 4;

/// A call of a function of the module that passes `WORDS`: none, [`ONE`], [`CARRIED`] or [`ANY`]. `PLAIN` if no
/// register has to be made null or zero, and no reference is passed.
pub(super) unsafe extern "C-unwind" fn call<const PLAIN: bool, const WORDS: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets; sites live as long as the code. The new frame is inside the stack if it ends before the stack
    // does, and is made as `Stack::push` makes it.
    unsafe {
        let operands = operands_of::<CallOperands>(ip);
        let site = &*(&raw const (*operands).site).read();
        let entry = entry_of(ip).load(Ordering::Acquire);
        let callee = slots.wrapping_byte_add((&raw const (*operands).advance).read() as usize);
        if entry.is_null() || callee as usize + site.bytes > (*cx).stack_end as usize || !tick(cx) {
            return stop(ip, slots, cx, carried);
        }
        let header = header_of(callee);
        (&raw mut (*header).caller).write(slots);
        // Not loaded from the site, since the return waits for it.
        (&raw mut (*header).resume).write(ip.add(CALL_INSTRUCTIONS));
        if !PLAIN {
            let refs = site.descriptor.refs as usize;
            header.cast::<usize>().sub(refs).write_bytes(0, refs);
            callee.cast::<u8>().write_bytes(0, site.zeroed);
        }
        let (from, mut to) = (registers(slots), registers(callee));
        // The callee is entered with its first slot as the carry, if that is an argument.
        let mut carry = 0;
        if WORDS == ANY {
            for (source, target) in site.words.iter().rev() {
                let word = from.word(usize::from(*source));
                to.set_word(usize::from(*target), word);
                carry = u64::from(word);
            }
        } else if WORDS != 0 {
            let word = if WORDS == CARRIED {
                carried.carry as u32
            } else {
                from.word(usize::from((&raw const (*operands).only_word).read()))
            };
            to.set_word(0, word);
            carry = u64::from(word);
        }
        if !PLAIN {
            for (source, target) in &site.refs {
                move_ref(from, *source, to, usize::from(*target));
            }
        }
        jump(entry, callee, cx, CarriedValues { carry, ..carried })
    }
}

/// Returns `WORDS` (nothing, [`ONE`] slot, the [`CARRIED`] value, or a [`PAIR`] of slots) from a frame without
/// references.
pub(super) unsafe extern "C-unwind" fn return_word<const WORDS: usize>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets; the caller's frame is below and has as many result registers, as the verifier has proven.
    unsafe {
        let header = header_of(slots);
        let resume = (*header).resume;
        let WordReturn { reg, list } = operands_of::<WordReturn>(ip).read();
        if resume.is_null() {
            return stop_at_return(ip, slots, cx, list);
        }
        let caller = (*header).caller;
        let first_result = || usize::from((&raw const (*operands_before(resume)).first_result).read());
        let mut carry = 0;
        if WORDS == PAIR {
            let value = registers(slots).wide(reg);
            registers(caller).set_wide(first_result(), value);
            // As in `pop_frame`, the first word.
            carry = u64::from(value as u32);
        } else if WORDS != 0 {
            let word = if WORDS == CARRIED { carried.carry as u32 } else { registers(slots).word(reg.index()) };
            registers(caller).set_word(first_result(), word);
            carry = u64::from(word);
        }
        jump(resume, caller, cx, CarriedValues { carry, ..carried })
    }
}

/// Stops at the return of a frame without a call site. If it is the outermost frame, the program ends; otherwise the
/// loop dispatcher returns to the caller, which may be a function of another module.
///
/// # Safety
/// As for a [`Handler`].
#[inline(always)]
unsafe fn stop_at_return(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, results: ListId) -> usize {
    // SAFETY: the machine is ours to use. Handlers run only while there is no exit, so none is overwritten.
    unsafe {
        let is_outermost = (*header_of(slots)).caller.is_null();
        if is_outermost {
            (&raw mut (*cx).exit).write(Some(Exit::Returned(results)));
        }
        let ip = if is_outermost { std::ptr::null() } else { ip };
        (*cx).continuation = Continuation { ip, slots, carried: CarriedValues::default() };
    }
    STOP
}

/// Returns any results from any frame.
pub(super) unsafe extern "C-unwind" fn return_any(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the caller's frame is below and has as many result registers, as the verifier has proven.
    unsafe {
        let header = header_of(slots);
        let sources = &*operands_of::<*const ReturnOperands>(ip).read();
        let Some(site) = ThreadedCallSite::before((*header).resume) else {
            return stop_at_return(ip, slots, cx, sources.list);
        };
        let caller = (*header).caller;
        let carry = pop_frame(registers(slots), registers(caller), sources, site);
        jump(site.resume, caller, cx, CarriedValues { carry, ..carried })
    }
}

/// Moves the results to the caller and releases the references of the frame. Returns the first word of the results.
#[inline(never)]
fn pop_frame(from: Registers, mut to: Registers, sources: &ReturnOperands, site: &ThreadedCallSite) -> u64 {
    for (source, target) in sources.words.iter().zip(&site.result_words) {
        to.set_word(usize::from(*target), from.word(usize::from(*source)));
    }
    let first = sources.words.first().map_or(0, |source| u64::from(from.word(usize::from(*source))));
    for (source, target) in sources.refs.iter().zip(&site.result_refs) {
        move_ref(from, *source, to, usize::from(*target));
    }
    let mut from = from;
    for index in 0..site.descriptor.refs as usize {
        from.assign(index, None);
    }
    first
}
