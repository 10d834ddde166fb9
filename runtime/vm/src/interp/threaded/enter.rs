//! The entry into handlers: calls the first one, which may be machine code, and returns when one stops.

#[cfg(doc)]
use super::handler::Handler;
#[cfg(not(all(target_arch = "x86_64", unix)))]
use super::handler::handler_at;
#[cfg(not(sibling_calls))]
use super::handlers::{STOP, stop};
use crate::interp::frame::instruction::{CarriedValues, Ip};
use crate::interp::machine::Machine;
#[cfg(not(sibling_calls))]
use crate::interp::machine::exit::Continuation;

/// Runs handlers from `ip` on until one stops, and leaves the instruction and the frame in `cx.continuation`.
///
/// # Safety
/// As for a [`Handler`].
pub(super) unsafe fn enter(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) {
    // SAFETY: instruction, frame and machine are those that a [`Handler`] gets; a handler that returns `GO_ON` has
    // stored an instruction and a frame for which the promise holds too.
    unsafe {
        #[cfg(sibling_calls)]
        begin(ip, slots, cx, carried);
        #[cfg(not(sibling_calls))]
        {
            stop(ip, slots, cx, carried);
            loop {
                let Continuation { ip, slots, carried } = (*cx).continuation;
                if begin(ip, slots, cx, carried) == STOP {
                    break;
                }
            }
        }
    }
}

/// Calls the handler at `ip`, and saves the callee-saved registers around the call: the handler may be machine code of
/// the JIT, which does not save them.
///
/// # Safety
/// As for a [`Handler`].
#[cfg(all(target_arch = "x86_64", unix))]
#[unsafe(naked)]
unsafe extern "C-unwind" fn begin(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize {
    // The handler is the first word of the instruction; the arguments stay in their registers.
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbp, 0",
        "push rbx",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset rbx, 0",
        "push r12",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r12, 0",
        "push r13",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r13, 0",
        "push r14",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r14, 0",
        "push r15",
        ".cfi_adjust_cfa_offset 8",
        ".cfi_rel_offset r15, 0",
        "sub rsp, 8",
        ".cfi_adjust_cfa_offset 8",
        "call [rdi]",
        "add rsp, 8",
        ".cfi_adjust_cfa_offset -8",
        "pop r15",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r15",
        "pop r14",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r14",
        "pop r13",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r13",
        "pop r12",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore r12",
        "pop rbx",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbx",
        "pop rbp",
        ".cfi_adjust_cfa_offset -8",
        ".cfi_restore rbp",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls the handler at `ip`.
///
/// # Safety
/// As for a [`Handler`].
#[cfg(not(all(target_arch = "x86_64", unix)))]
#[inline(always)]
unsafe fn begin(ip: Ip, slots: *mut u32, cx: *mut Machine<'_>, carried: CarriedValues) -> usize {
    // SAFETY: instruction, frame and machine are those that a [`Handler`] gets.
    unsafe { handler_at(ip)(ip, slots, cx, carried) }
}
