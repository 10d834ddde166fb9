//! Threaded instructions: the format of the stream that handlers execute, and of the calls in it. Frame headers point
//! to instructions, so this is below everything that makes or runs them: `threaded/builder/` writes them,
//! `threaded/handlers.rs` reads them.

use std::mem::MaybeUninit;
use std::sync::atomic::{AtomicPtr, Ordering};

use super::descriptor::FrameDescriptor;
use crate::bytecode::{ListId, RefReg};

/// Values that handlers pass to each other in registers of the processor.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct CarriedValues {
    /// The value of a VM register, mostly the one that was written last: loading a slot that was just stored takes
    /// longer than most ops. Which register that is, is known for each instruction when the code is built.
    pub carry: u64,
    /// In a block that branches back to itself, its first instruction: an iteration need not wait for the branch
    /// distance to be loaded.
    pub loop_header: Ip,
}

const _: () = assert!(std::mem::offset_of!(ThreadedInstruction, handler) == 0);

impl Default for CarriedValues {
    fn default() -> CarriedValues {
        CarriedValues { carry: 0, loop_header: std::ptr::null() }
    }
}

/// The address of a handler. Handlers work on the machine, which is above this, so only `threaded` knows their type.
pub type HandlerAddress = *const ();

/// An instruction: a handler and its operands. Operands of more than 8 bytes extend over the elements that follow in
/// the stream, which have no handler then.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct ThreadedInstruction {
    pub(in crate::interp) handler: MaybeUninit<HandlerAddress>,
    operands: MaybeUninit<u64>,
}

/// Index of an instruction that does not exist.
pub const NO_INSTRUCTION: u32 = u32::MAX;

/// An instruction pointer.
pub type Ip = *const ThreadedInstruction;

impl ThreadedInstruction {
    /// An element for the rest of the operands of the instruction before it.
    pub const EMPTY: ThreadedInstruction =
        ThreadedInstruction { handler: MaybeUninit::uninit(), operands: MaybeUninit::zeroed() };

    /// An instruction whose operands are zero, or yet to be written.
    pub const fn of(handler: HandlerAddress) -> ThreadedInstruction {
        ThreadedInstruction { handler: MaybeUninit::new(handler), operands: MaybeUninit::zeroed() }
    }

    /// An instruction with an operand of one word.
    pub fn with(handler: HandlerAddress, operand: u64) -> ThreadedInstruction {
        ThreadedInstruction { handler: MaybeUninit::new(handler), operands: MaybeUninit::new(operand) }
    }

    /// The handler.
    ///
    /// # Safety
    /// The element must have a handler.
    pub unsafe fn handler(&self) -> HandlerAddress {
        // SAFETY: the caller guarantees that the element has a handler.
        unsafe { self.handler.assume_init() }
    }
}

/// Number of elements of the stream that an instruction with operands of this type takes.
#[inline(always)]
pub(in crate::interp) const fn instructions_of<T>() -> usize {
    assert!(align_of::<T>() <= align_of::<u64>());
    1 + size_of::<T>().saturating_sub(size_of::<u64>()).div_ceil(size_of::<ThreadedInstruction>())
}

/// The address of the operands of an instruction.
#[inline(always)]
pub(in crate::interp) fn operands_of<T>(ip: Ip) -> *const T {
    ip.cast::<u8>().wrapping_add(std::mem::offset_of!(ThreadedInstruction, operands)).cast()
}

/// A call inside a module: everything that the handlers of calls and returns need, computed when the code is built.
pub struct ThreadedCallSite {
    /// The instruction after the call.
    pub(in crate::interp) resume: Ip,
    /// The data that every frame of this call has in common.
    pub(in crate::interp) descriptor: FrameDescriptor,
    /// Bytes from the caller's slots to those of the callee.
    pub(in crate::interp) advance: usize,
    /// Bytes of the callee's slots.
    pub(in crate::interp) bytes: usize,
    /// Bytes of them that have to be zeroed.
    pub(in crate::interp) zeroed: usize,
    /// Pairs of the caller's and the callee's slot for each 32 bits of the arguments.
    pub(in crate::interp) words: Box<[(u16, u16)]>,
    /// Pairs of the caller's and the callee's register for each reference among the arguments.
    pub(in crate::interp) refs: Box<[(RefReg, u16)]>,
    /// The caller's slot for each 32 bits of the results.
    pub(in crate::interp) result_words: Box<[u16]>,
    /// The caller's reference register for each reference among the results.
    pub(in crate::interp) result_refs: Box<[u16]>,
}

/// The operands of a call inside a module. What the next handler waits for is here and not in the call site, which
/// would have to be loaded first.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct CallOperands {
    pub(in crate::interp) site: *const ThreadedCallSite,
    /// The first instruction of the callee; null until the callee has code. Only [`ThreadedCallSite::entry`] reads and
    /// writes it.
    entry: *mut ThreadedInstruction,
    /// Bytes from the caller's slots to those of the callee.
    pub(in crate::interp) advance: u32,
    /// The caller's slot of the only argument, if it is one of 32 bits.
    pub(in crate::interp) only_word: u16,
    /// The caller's slot for the first 32 bits of the results.
    pub(in crate::interp) first_result: u16,
}

/// Number of elements of the stream that a call takes.
pub const CALL_INSTRUCTIONS: usize = instructions_of::<CallOperands>();

impl ThreadedCallSite {
    /// The operands of the call, which enters the callee at `entry`.
    pub fn operands(&self, entry: *mut ThreadedInstruction) -> CallOperands {
        let only_word = self.words.first().map_or(0, |(source, _)| *source);
        let first_result = self.result_words.first().copied().unwrap_or_default();
        CallOperands { site: self, entry, advance: self.advance as u32, only_word, first_result }
    }

    /// The call site of the call before `resume`, if that is not null.
    ///
    /// # Safety
    /// It must be null or the instruction after a call, of code that lives as long as the result is used.
    #[inline(always)]
    pub unsafe fn before<'a>(resume: Ip) -> Option<&'a ThreadedCallSite> {
        // SAFETY: the caller guarantees that it is null or the instruction after a call, of code that lives as long as
        // the result; a call has its operands before anybody can make it.
        (!resume.is_null()).then(|| unsafe { &*(&raw const (*operands_before(resume)).site).read() })
    }

    /// A copy of the call site for a call that machine code leaves to the interpreter, and after which execution
    /// continues at `resume`.
    pub fn resumed_at(&self, resume: Ip) -> ThreadedCallSite {
        ThreadedCallSite {
            resume,
            descriptor: self.descriptor,
            advance: self.advance,
            bytes: self.bytes,
            zeroed: self.zeroed,
            words: self.words.clone(),
            refs: self.refs.clone(),
            result_words: self.result_words.clone(),
            result_refs: self.result_refs.clone(),
        }
    }

    /// The first instruction of the callee; null until it has code.
    pub fn callee_entry(&self) -> *mut ThreadedInstruction {
        self.entry().load(Ordering::Acquire)
    }

    /// The first instruction of the callee, in the operands of the call.
    pub(in crate::interp) fn entry(&self) -> &AtomicPtr<ThreadedInstruction> {
        // SAFETY: `resume` is set before anybody else has the site, and the elements before it are the call's. The
        // stream lives as long as the site, and nothing else accesses this operand once code runs.
        unsafe { entry_of(self.resume.wrapping_sub(CALL_INSTRUCTIONS)) }
    }
}

/// The operands of the call before `resume`.
#[inline(always)]
pub(in crate::interp) fn operands_before(resume: Ip) -> *const CallOperands {
    operands_of::<CallOperands>(resume.wrapping_sub(CALL_INSTRUCTIONS))
}

/// The first instruction of the callee, in the operands of the call at `ip`.
///
/// # Safety
/// There must be a call, which is not written otherwise as long as the result is used.
#[inline(always)]
pub(in crate::interp) unsafe fn entry_of<'a>(ip: Ip) -> &'a AtomicPtr<ThreadedInstruction> {
    let operands = operands_of::<CallOperands>(ip).cast_mut();
    // SAFETY: the caller guarantees that there is a call, which is not written otherwise meanwhile.
    unsafe { AtomicPtr::from_ptr(&raw mut (*operands).entry) }
}

impl ThreadedInstruction {
    /// The elements of a call that `handler` makes.
    pub fn call(handler: HandlerAddress, operands: CallOperands) -> [ThreadedInstruction; CALL_INSTRUCTIONS] {
        let mut elements = [ThreadedInstruction::EMPTY; CALL_INSTRUCTIONS];
        elements[0] = ThreadedInstruction::of(handler);
        // SAFETY: there are as many elements as operands of this type take.
        unsafe { operands_of::<CallOperands>(elements.as_mut_ptr()).cast_mut().write(operands) };
        elements
    }
}

/// The operands of a return of any results: the slots of each 32 bits of them, their reference registers, and the list
/// of results.
pub(in crate::interp) struct ReturnOperands {
    pub words: Box<[u16]>,
    pub refs: Box<[RefReg]>,
    pub list: ListId,
}
