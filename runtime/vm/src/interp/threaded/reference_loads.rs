//! Ops that put a reference into a register (`const.ref.zero`, `const.ref.rodata` and `global.load.ref`): every
//! function of a program begins with some. Their handlers execute them where the register is null, nothing is lent to
//! the frame, and no check can fail; elsewhere the loop dispatcher does, as for cold ops.

use std::sync::atomic::{AtomicPtr, Ordering};

use super::handlers::{continue_by, go_on, next, registers};
use super::op_execution::{After, execute_cold};
use crate::Ref;
use crate::bytecode::{GlobalRef, RefReg, RodataId};
use crate::interp::frame::instruction::{CarriedValues, Ip, operands_of};
use crate::interp::machine::Machine;

/// The operands of such an op. The register of the result is [`RefReg::frame_relative`].
pub(super) trait ReferenceLoad: Copy {
    /// Index of the op of the instruction at `ip`, which has these operands.
    ///
    /// # Safety
    /// As for a handler.
    unsafe fn pc(ip: Ip) -> usize;

    /// Executes the instruction. False if nothing has been done and the loop dispatcher has to.
    ///
    /// # Safety
    /// As for a handler.
    unsafe fn load(cx: *mut Machine<'_>, slots: *mut u32, ip: Ip) -> bool;

    /// Notes what the loop dispatcher has loaded.
    ///
    /// # Safety
    /// As for a handler.
    #[inline(always)]
    unsafe fn note(_slots: *mut u32, _ip: Ip) {}
}

/// The operands of `const.ref.zero`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct ZeroLoad {
    pub pc: u32,
    pub result: RefReg,
}

/// The operands of `const.ref.rodata`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct RodataLoad {
    pub pc: u32,
    pub result: RefReg,
    pub rodata: RodataId,
}

/// The operands of `global.load.ref` without the MOVE bit.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct GlobalLoad {
    pub pc: u32,
    pub result: RefReg,
    pub global: GlobalRef,
    /// The identity of the type of the first reference that passed the check of the type, which is one of names; null
    /// until then. Only [`seen_type`] accesses it.
    pub seen: *mut (),
}

impl ReferenceLoad for ZeroLoad {
    #[inline(always)]
    unsafe fn pc(ip: Ip) -> usize {
        // SAFETY: the instruction has these operands.
        unsafe { (&raw const (*operands_of::<ZeroLoad>(ip)).pc).read() as usize }
    }

    #[inline(always)]
    unsafe fn load(_cx: *mut Machine<'_>, slots: *mut u32, ip: Ip) -> bool {
        // SAFETY: the instruction has these operands, and ops name only registers that their frame has.
        unsafe { registers(slots).reference_at((*operands_of::<ZeroLoad>(ip)).result).is_none() }
    }
}

impl ReferenceLoad for RodataLoad {
    #[inline(always)]
    unsafe fn pc(ip: Ip) -> usize {
        // SAFETY: the instruction has these operands.
        unsafe { (&raw const (*operands_of::<RodataLoad>(ip)).pc).read() as usize }
    }

    #[inline(always)]
    unsafe fn load(cx: *mut Machine<'_>, slots: *mut u32, ip: Ip) -> bool {
        // SAFETY: the instruction has these operands, which name registers of its frame. Handlers run while the module
        // of their function is the running one.
        unsafe {
            let RodataLoad { result, rodata, .. } = *operands_of::<RodataLoad>(ip);
            is_free(cx, slots, result)
                && (*cx).rodata(rodata).is_some_and(|segment| {
                    put(slots, result, segment.load());
                    true
                })
        }
    }
}

impl ReferenceLoad for GlobalLoad {
    #[inline(always)]
    unsafe fn pc(ip: Ip) -> usize {
        // SAFETY: the instruction has these operands.
        unsafe { (&raw const (*operands_of::<GlobalLoad>(ip)).pc).read() as usize }
    }

    #[inline(always)]
    unsafe fn load(cx: *mut Machine<'_>, slots: *mut u32, ip: Ip) -> bool {
        // SAFETY: the instruction has these operands, which name registers of its frame. Handlers run while the module
        // of their function is the running one.
        unsafe {
            let operands = operands_of::<GlobalLoad>(ip);
            let (global, result) = ((&raw const (*operands).global).read(), (&raw const (*operands).result).read());
            let Some(Some(value)) = (*cx).global_refs().get(global.index()) else { return false };
            let is_seen = std::ptr::eq(value.type_address(), seen_type(ip).load(Ordering::Relaxed));
            let loads = is_seen && is_free(cx, slots, result);
            if loads {
                put(slots, result, value.clone());
            }
            loads
        }
    }

    #[inline(always)]
    unsafe fn note(slots: *mut u32, ip: Ip) {
        // SAFETY: the instruction has these operands, which name registers of its frame.
        unsafe {
            let result = (&raw const (*operands_of::<GlobalLoad>(ip)).result).read();
            if let Some(value) = registers(slots).reference_at(result) {
                let (null, address) = (std::ptr::null_mut(), value.type_address().cast_mut());
                // A later type is not noted: threads that run the function with different types would wait for each
                // other.
                let _ = seen_type(ip).compare_exchange(null, address, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
}

/// The handler of ops that put a reference into a register.
pub(super) unsafe extern "C-unwind" fn load<L: ReferenceLoad>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        if L::load(cx, slots, ip) {
            return next::<L>(ip, slots, cx, carried);
        }
        continue_by(load_cold::<L>, ip, slots, cx, carried)
    }
}

/// Goes on for `load`, which keeps no frame of its own so.
#[cold]
#[inline(never)]
unsafe extern "C-unwind" fn load_cold<L: ReferenceLoad>(
    ip: Ip,
    slots: *mut u32,
    cx: *mut Machine<'_>,
    carried: CarriedValues,
) -> usize {
    // SAFETY: the builder put operands of this type into the instruction; frame and machine are those that a
    // [`Handler`] gets.
    unsafe {
        let after = execute_cold(cx, slots, L::pc(ip));
        // The op is no terminator, so the frame is still this one.
        if after == After::Next {
            L::note(slots, ip);
        }
        go_on::<L>(after, ip, slots, cx, carried)
    }
}

/// The type that has passed the check of the load at `ip`.
///
/// # Safety
/// There must be such a load, of code that lives as long as the result is used.
#[inline(always)]
unsafe fn seen_type<'a>(ip: Ip) -> &'a AtomicPtr<()> {
    let operands = operands_of::<GlobalLoad>(ip).cast_mut();
    // SAFETY: the operands are those of such a load, of code that lives as long as the result is used; nothing else
    // accesses this operand once code runs.
    unsafe { AtomicPtr::from_ptr(&raw mut (*operands).seen) }
}

/// True if a reference can be put into a register. False if the register is not null, whose reference may have a
/// destructor, or references are lent to the frame, which are counted first.
///
/// # Safety
/// As for a handler.
#[inline(always)]
unsafe fn is_free(cx: *mut Machine<'_>, slots: *mut u32, result: RefReg) -> bool {
    // SAFETY: ops name only registers that their frame has, and the machine is the handler's to use.
    unsafe { !(*cx).lent.is_lent() && registers(slots).reference_at(result).is_none() }
}

/// Puts a reference into a register that is free.
///
/// # Safety
/// As for a handler.
#[inline(always)]
unsafe fn put(slots: *mut u32, result: RefReg, value: Ref) {
    // SAFETY: ops name only registers that their frame has, and the machine is the handler's to use.
    let mut registers = unsafe { registers(slots) };
    // Not an assignment, which would release what was there.
    std::mem::forget(registers.reference_at_mut(result).replace(value));
}
