//! [`ThreadedCode`]: the instructions of a function, where they are entered, and the call sites in them. The builder
//! makes it, the dispatcher enters and leaves it, and the JIT links its exits to it.

use std::sync::atomic::{Ordering, fence};

use super::import_site::ImportSite;
use super::native_code::NativeTier;
use super::pinned_list::PinnedList;
use crate::interp::frame::carried_register::CarriedRegister;
use crate::interp::frame::instruction::{
    CALL_INSTRUCTIONS, CarriedValues, Ip, NO_INSTRUCTION, ReturnOperands, ThreadedCallSite, ThreadedInstruction,
};
use crate::interp::frame::registers::Registers;
use crate::limits::Charge;

/// How a function is entered at its first op: by the instruction, with the loop header and the carried register.
#[derive(Clone, Copy)]
pub struct FunctionEntry {
    pub(in crate::interp) ip: Ip,
    pub(in crate::interp) loop_header: Ip,
    pub(in crate::interp) carry: Option<CarriedRegister>,
    /// Whether the instruction is machine code.
    pub is_native: bool,
}

// SAFETY: it is read-only, and leads to the code of a function, which all threads that run its module share.
unsafe impl Send for FunctionEntry {}
// SAFETY: it is read-only, and leads to the code of a function, which all threads that run its module share.
unsafe impl Sync for FunctionEntry {}

/// How the code is entered at an op.
#[derive(Clone, Copy)]
pub(in crate::interp) struct Entry {
    /// The first instruction of the op; [`NO_INSTRUCTION`] if it was fused into the one before it.
    pub instruction: u32,
    /// The loop header of the op's block; any instruction if the block is not a loop.
    pub loop_header: u32,
    /// The carried register.
    pub carry: Option<CarriedRegister>,
}

/// The threaded code of a function, and its machine code once there is some.
pub struct ThreadedCode {
    pub(in crate::interp) instructions: PinnedList<ThreadedInstruction>,
    /// For each instruction, the op to execute if the handler stops.
    pub(in crate::interp) pcs: Box<[u32]>,
    /// For each op, how the code is entered at it.
    pub(in crate::interp) entries: Box<[Entry]>,
    pub(in crate::interp) sites: PinnedList<ThreadedCallSite>,
    /// Calls of imports, which only instructions point to.
    pub(in crate::interp) _import_sites: PinnedList<ImportSite>,
    /// Operands of returns, which only instructions point to.
    pub(in crate::interp) _returns: PinnedList<ReturnOperands>,
    pub(in crate::interp) native: NativeTier,
    /// Charges the memory of the code to the call.
    pub(in crate::interp) _charge: Charge,
}

// SAFETY: the pointers in instructions and sites lead to slices of this value or to the code of the same module, and
// nothing changes but the atomic `entry` of sites.
unsafe impl Send for ThreadedCode {}
// SAFETY: the pointers in instructions and sites lead to slices of this value or to the code of the same module, and
// nothing changes but the atomic `entry` of sites.
unsafe impl Sync for ThreadedCode {}

impl ThreadedCode {
    /// The first instruction of op `pc`, if it has one of its own, and the values that its handler takes, loaded from
    /// the frame.
    pub fn entry(&self, pc: usize, frame: Registers) -> Option<(Ip, CarriedValues)> {
        if let Some(ip) = self.native.get().and_then(|native| native.entry(pc)) {
            return Some((ip, CarriedValues::default()));
        }
        let entry = self.entries.get(pc).filter(|entry| entry.instruction != NO_INSTRUCTION)?;
        let carry = entry.carry.map_or(0, |carry| carry.value(frame));
        Some((
            self.instructions.at(entry.instruction as usize),
            CarriedValues { carry, loop_header: self.instructions.at(entry.loop_header as usize) },
        ))
    }

    /// How calls from outside of the module enter the function.
    pub(in crate::interp) fn function_entry(&self) -> Option<FunctionEntry> {
        if let Some(ip) = self.native.get().and_then(|native| native.entry(0)) {
            return Some(FunctionEntry { ip, loop_header: std::ptr::null(), carry: None, is_native: true });
        }
        let entry = self.entries.first().filter(|entry| entry.instruction != NO_INSTRUCTION)?;
        Some(FunctionEntry {
            ip: self.instructions.at(entry.instruction as usize),
            loop_header: self.instructions.at(entry.loop_header as usize),
            carry: entry.carry,
            is_native: false,
        })
    }

    /// The instruction at which a call begins.
    pub(in crate::interp) fn call_entry(&self) -> Ip {
        if let Some(ip) = self.native.get().and_then(|native| native.entry(0)) {
            return ip;
        }
        self.instructions.at(0)
    }

    fn position(&self, ip: Ip) -> usize {
        (ip as usize - self.instructions.at(0) as usize) / size_of::<ThreadedInstruction>()
    }

    /// The op of an instruction.
    pub fn pc(&self, ip: Ip) -> usize {
        if let Some(pc) = self.native.get().and_then(|native| native.pc(ip)) {
            return pc;
        }
        self.pcs[self.position(ip)] as usize
    }

    /// The instruction of op `pc`, which must not be fused into the one before it, and its carried register: the slot,
    /// and whether it is a pair. Side exits of machine code continue there.
    pub fn interpreted(&self, pc: u32) -> (Ip, Option<(u16, bool)>) {
        let entry = self.entries[pc as usize];
        (self.instructions.at(entry.instruction as usize), entry.carry.map(|carry| (carry.reg.0, carry.wide)))
    }

    /// The call at an instruction.
    pub fn site(&self, ip: Ip) -> Option<&ThreadedCallSite> {
        if let Some(site) = self.native.get().and_then(|native| native.site(ip)) {
            return Some(site);
        }
        let after = ip.wrapping_add(CALL_INSTRUCTIONS);
        let sites = self.sites.items();
        let position = sites.binary_search_by_key(&after, |site| site.resume).ok()?;
        sites.get(position)
    }

    /// The function that the call at this instruction calls.
    pub fn callee(&self, ip: Ip) -> Option<u32> {
        Some(self.site(ip)?.descriptor.function)
    }

    /// The function that the call at this instruction calls, if it has never run.
    pub fn unresolved(&self, ip: Ip) -> Option<usize> {
        let site = self.site(ip)?;
        site.entry().load(Ordering::Acquire).is_null().then_some(site.descriptor.function as usize)
    }

    /// Lets the call at this instruction call `callee`.
    pub fn resolve(&self, ip: Ip, callee: &ThreadedCode) {
        if let Some(site) = self.site(ip) {
            site.entry().store(callee.call_entry().cast_mut(), Ordering::Release);
            // If the callee gets machine code at this moment, either the thread that installs it sees the call, or this
            // one sees the code.
            fence(Ordering::SeqCst);
            site.entry().store(callee.call_entry().cast_mut(), Ordering::Release);
        }
    }
}
