//! [`Callee`]: a function that is called again and again, and the data that all its calls have in common.

use std::sync::{Arc, OnceLock};

use super::dispatcher;
use crate::bytecode::CallId;
use crate::convention::{Argument, Convention};
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::threaded_code::FunctionEntry;
use crate::interp::frame::argument_layout::ArgumentLayout;
use crate::interp::frame::descriptor::FrameDescriptor;
use crate::interp::frame::registers::Registers;
use crate::interp::frame::stack::Stack;
use crate::interp::machine::bound_modules::{BoundModule, BytecodeModule, ModuleList, lookup};
use crate::interp::machine::lent_references::may_be_lent_to;
use crate::limits::Limits;
use crate::status::{Result, Status};

/// Most slots, and most references, of a frame for a native function: as many as registers can name.
const MAX_REGISTERS: u32 = 1 << 14;

/// The first frame of a call: what runs in it, and whether its slots have to be zeroed.
#[derive(Clone, Copy)]
pub(super) struct FirstFrame {
    pub descriptor: FrameDescriptor,
    pub zero: bool,
    /// Whether the function is native. Then only the arguments and the results are in the frame.
    pub is_native: bool,
}

impl FirstFrame {
    /// Pushes it.
    #[inline(always)]
    pub fn push(self, stack: &mut Stack) -> Result<Registers> {
        stack.push(self.descriptor, self.zero)
    }

    /// The frame for a call of a native function.
    fn native(target: ImportTarget, convention: &Convention) -> Result<FirstFrame> {
        let arguments = ArgumentLayout::of(convention.args.iter().filter_map(Argument::kind));
        let results = ArgumentLayout::of(convention.results.iter().copied());
        let (slots, refs) = arguments.size_with(results);
        if slots.max(refs) > MAX_REGISTERS {
            return Err(Status::unimplemented(format!(
                "a call of a native function with {} registers",
                slots.max(refs)
            )));
        }
        let (module, function) = (target.module as u32, target.function as u32);
        let descriptor = FrameDescriptor { module, function, pc: 0, call: CallId(0), slots, refs };
        Ok(FirstFrame { descriptor, zero: false, is_native: true })
    }
}

/// The convention of a function, and its first frame.
///
/// # Errors
/// `NOT_FOUND` and `INTERNAL` for a target that does not exist.
#[inline]
pub(super) fn first_frame(module_list: &ModuleList, target: ImportTarget) -> Result<(&Convention, FirstFrame)> {
    if let Some(BoundModule::Native(module, conventions)) = module_list.modules.get(target.module) {
        let missing = || Status::not_found(format!("module `{}` has no export {}", module.name(), target.function));
        let convention = conventions.get(target.function).ok_or_else(missing)?;
        return Ok((convention, FirstFrame::native(target, convention)?));
    }
    let (_, function) = lookup(module_list, target.module, target.function)?;
    let descriptor = FrameDescriptor::new(target.module, function, 0, CallId(0));
    let frame = FirstFrame { descriptor, zero: function.reads_unwritten_slots(), is_native: false };
    Ok((function.convention(), frame))
}

/// A function, with the limits of its calls that have none of their own.
pub(super) struct Callee {
    pub module_list: Arc<ModuleList>,
    pub target: ImportTarget,
    pub convention: Convention,
    pub frame: FirstFrame,
    /// Whether references may be lent to the function.
    pub may_be_lent_to: bool,
    /// How it is entered, once it has machine code, which it keeps.
    native_entry: OnceLock<FunctionEntry>,
    pub limits: Arc<Limits>,
}

impl Callee {
    /// The function `target`.
    ///
    /// # Errors
    /// `NOT_FOUND` and `INTERNAL` for a target that does not exist.
    pub fn new(module_list: Arc<ModuleList>, target: ImportTarget, limits: &Arc<Limits>) -> Result<Callee> {
        let (convention, frame) = first_frame(&module_list, target)?;
        let convention = convention.clone();
        let may_be_lent_to =
            lookup(&module_list, target.module, target.function).is_ok_and(|(_, function)| may_be_lent_to(function));
        let (native_entry, limits) = (OnceLock::new(), Arc::clone(limits));
        Ok(Callee { module_list, target, convention, frame, may_be_lent_to, native_entry, limits })
    }

    /// How the function is entered, as [`dispatcher::function_entry`] says.
    #[inline]
    pub fn entry(&self, module: &BytecodeModule) -> Option<FunctionEntry> {
        if let Some(entry) = self.native_entry.get() {
            return Some(*entry);
        }
        let entry = dispatcher::function_entry(module, self.target, &self.limits)?;
        if entry.is_native {
            return Some(*self.native_entry.get_or_init(|| entry));
        }
        Some(entry)
    }
}
