//! Calls of imports from threaded code: each call site has what a call needs ([`ImportSite`]), so that a call of a
//! native function looks up nothing but the module. Other calls take the way of the loop dispatcher.

use super::op_execution::After;
use crate::interp::code::import_site::ImportSite;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::BoundModule;
use crate::interp::ops::control::Flow;

/// Makes a call in the frame with these slots, for the handler of such calls. Out of line, so that the handler keeps no
/// frame of its own. If a native function has returned, execution continues at the next instruction, which leads to
/// where a yieldable call goes on.
///
/// # Safety
/// As for a handler.
#[inline(never)]
pub(super) unsafe fn execute_import(cx: *mut Machine<'_>, slots: *mut u32, site: &ImportSite) -> After {
    // SAFETY: the machine is the handler's to use.
    let cx = unsafe { &mut *cx };
    let Some(BoundModule::Native(module, _)) = cx.module_list.modules.get(site.target.module) else {
        return cx.execute_import_call(slots, site.pc as usize, site.call, true);
    };
    // SAFETY: handlers build and release frames as `push` and `pop` do, and these slots are those of the running one.
    unsafe { cx.stack.set_top(slots) };
    let selected = if cx.is_running_function(slots, site.caller) { Ok(()) } else { cx.select_top() };
    cx.pc = site.pc as usize;
    // A call that waits is never repeated by a handler.
    debug_assert!(cx.stack.pending.is_none());
    let counted = selected.and_then(|()| cx.tick());
    match counted.and_then(|()| cx.call_native(&**module, site.target, &site.marshal, &site.rodata, None)) {
        Ok(true) => After::Next,
        Ok(false) => cx.after_import_call(slots, site.pc as usize, Ok(Flow::Exit)),
        Err(status) => cx.after_import_call(slots, site.pc as usize, Err(status)),
    }
}
