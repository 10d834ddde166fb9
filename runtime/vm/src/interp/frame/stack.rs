//! The stack of an invocation: frames in one mapping that is reserved once, so that they never move. The machine pushes
//! and pops them; the threaded dispatcher and machine code build frames of the same layout.
//!
//! A frame consists of its references, last one first, then a [`FrameHeader`], then its 32-bit slots. The address of
//! the slots identifies it: slots are at positive offsets from it, references at negative ones. A 64-bit value takes an
//! even slot and the odd one after it, low half first. References of a new frame are null; they are released when it is
//! popped, however that happens. Slots are zeroed if the function may read one before it writes it.

use std::cell::Cell;
use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;

use super::descriptor::{BoundFunction, FrameDescriptor};
use super::header::{FrameHeader, header_of};
use super::instruction::ThreadedCallSite;
use super::registers::Registers;
use super::stack_memory::StackMapping;
use crate::limits::Charge;
use crate::status::{Result, Status};
use crate::{Call, Ref};

/// The frames of an invocation. It has cache lines of its own, because what other threads read may lie beside it.
#[derive(Debug)]
#[repr(align(64))]
pub struct Stack {
    memory: Option<StackMapping>,
    /// The slots of the frame on top; null if there is none.
    top: *mut u32,
    /// Index of the op at which the frame on top continues when the invocation is resumed.
    pub pc: usize,
    /// Backward branches and calls until the limits of the invocation are checked again. It outlives the machine, so
    /// that a program that yields all the time does not escape its limits.
    pub countdown: u32,
    /// The native call that the frame on top makes, while its callee waits; it is repeated with the same arguments. If
    /// there is no frame, a host makes it.
    pub pending: Option<Box<Call>>,
    limit: usize,
    /// Charges the memory of the stack to the call.
    charge: Charge,
}

// SAFETY: the mapping belongs to this value alone, and the references in it are `Send` and `Sync`.
unsafe impl Send for Stack {}
// SAFETY: the mapping belongs to this value alone, and the references in it are `Send` and `Sync`; a shared stack only
// reads headers.
unsafe impl Sync for Stack {}

impl Stack {
    /// An empty stack that may grow to `limit` bytes, which `charge` counts.
    #[inline]
    pub fn new(limit: usize, charge: Charge) -> Stack {
        Stack { memory: None, top: std::ptr::null_mut(), pc: 0, countdown: 0, pending: None, limit, charge }
    }

    /// The slots of the frame on top; null if there is none.
    #[inline]
    pub fn top(&self) -> *mut u32 {
        self.top
    }

    /// Makes the frame with these slots the top one.
    ///
    /// # Safety
    /// They must be those of a frame of this stack: one that `push` has built, or one that the threaded dispatcher or
    /// machine code has built with the same layout. All frames above it must have been released.
    #[inline]
    pub unsafe fn set_top(&mut self, slots: *mut u32) {
        self.top = slots;
    }

    /// The first byte after the memory that frames may use.
    #[inline]
    pub fn end(&self) -> *mut u8 {
        match &self.memory {
            // The mapping is at least that long.
            Some(memory) => memory.base().wrapping_add(self.limit),
            None => std::ptr::null_mut(),
        }
    }

    /// The header of the frame on top.
    #[inline]
    pub fn header(&self) -> Option<FrameHeader> {
        // SAFETY: `top` is null or the slots of a frame.
        (!self.top.is_null()).then(|| unsafe { FrameHeader::of(self.top) })
    }

    /// The function whose frame is on top.
    #[inline]
    pub fn function(&self) -> Option<BoundFunction> {
        if self.top.is_null() {
            return None;
        }
        // SAFETY: the header of a frame is before its slots; `top` is the slots of a frame. Nothing is copied that is
        // not needed.
        let descriptor = unsafe {
            let header = header_of(self.top);
            match ThreadedCallSite::before((*header).resume) {
                Some(site) => &site.descriptor,
                None => &(*header).descriptor,
            }
        };
        Some(descriptor.bound_function())
    }

    /// The headers of the frames, innermost first.
    pub fn headers(&self) -> impl Iterator<Item = FrameHeader> {
        std::iter::successors(self.header(), |header| {
            // SAFETY: callers are frames of the stack as long as those they called.
            (!header.caller.is_null()).then(|| unsafe { FrameHeader::of(header.caller) })
        })
    }

    /// Pushes a frame, whose references are null and whose slots are zero if `zero`.
    #[inline]
    pub fn push(&mut self, descriptor: FrameDescriptor, zero: bool) -> Result<Registers> {
        let memory = match &mut self.memory {
            Some(memory) => memory,
            none => none.insert(StackMapping::new(self.limit)?),
        };
        let base = memory.base();
        let used = match self.header() {
            Some(header) => self.top as usize - base as usize + header.descriptor.slot_bytes(),
            None => 0,
        };
        if used + descriptor.lead_bytes() + descriptor.slot_bytes() > self.limit {
            return Err(self.overflow(&descriptor));
        }
        // SAFETY: the frame was just found to end before the limit, and the mapping is at least that long. It starts on
        // a page and every frame is a multiple of 8 bytes. Zero bytes are null references.
        let slots = unsafe {
            let slots = base.add(used + descriptor.lead_bytes()).cast::<u32>();
            if descriptor.refs > 0 {
                base.add(used).write_bytes(0, descriptor.refs as usize * size_of::<Option<Ref>>());
            }
            header_of(slots).write(FrameHeader { caller: self.top, resume: std::ptr::null(), descriptor });
            if zero {
                slots.write_bytes(0, descriptor.slots as usize);
            }
            slots
        };
        self.top = slots;
        Ok(registers_of(slots, &descriptor))
    }

    /// Pops the only frame and pushes another one, as `push` does.
    ///
    /// # Safety
    /// All references of the frame are null.
    #[inline]
    pub unsafe fn replace_frame(&mut self, descriptor: FrameDescriptor, zero: bool) -> Result<Registers> {
        debug_assert!(self.pending.is_none() && self.headers().count() == 1);
        // Nothing has to be released.
        self.top = std::ptr::null_mut();
        self.push(descriptor, zero)
    }

    /// Makes the frame on top as it was pushed: its references are null, and its slots are zero if `zero`.
    #[inline]
    pub fn renew_top(&mut self, zero: bool) {
        let Some(header) = self.header() else { return };
        let mut registers = registers_of(self.top, &header.descriptor);
        for index in 0..header.descriptor.refs as usize {
            registers.assign(index, None);
        }
        if zero {
            // SAFETY: the frame has that many slots.
            unsafe { self.top.write_bytes(0, header.descriptor.slots as usize) };
        }
    }

    #[cold]
    fn overflow(&self, descriptor: &FrameDescriptor) -> Status {
        Status::resource_exhausted(format!(
            "stack overflow: a frame of {} slots and {} references at depth {} exceeds the stack's {} bytes",
            descriptor.slots,
            descriptor.refs,
            self.headers().count(),
            self.limit
        ))
    }

    /// Pops the frame on top and releases its references.
    #[inline]
    pub fn pop(&mut self) {
        if let Some(header) = self.header() {
            let mut registers = registers_of(self.top, &header.descriptor);
            for index in 0..header.descriptor.refs as usize {
                registers.assign(index, None);
            }
            self.top = header.caller;
        }
    }

    /// The registers of the frame on top.
    #[inline]
    pub fn registers(&mut self) -> Option<Registers> {
        self.header().map(|header| registers_of(self.top, &header.descriptor))
    }

    /// The registers of the caller of the frame on top.
    pub fn caller(&mut self) -> Option<(Registers, FrameHeader)> {
        let caller = self.header()?.caller;
        // SAFETY: callers are frames of the stack as long as those they called.
        let header = (!caller.is_null()).then(|| unsafe { FrameHeader::of(caller) })?;
        Some((registers_of(caller, &header.descriptor), header))
    }

    /// Pops all frames, innermost first, and drops the native call that waits.
    #[inline]
    pub fn clear(&mut self) {
        while !self.top.is_null() {
            self.pop();
        }
        self.pending = None;
    }
}

impl Drop for Stack {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The stack of a call, which goes to the free list of the thread when it is dropped: a mapping costs more than most
/// calls.
#[derive(Debug)]
pub struct CallStack(Option<Box<Stack>>);

/// A stack with more memory than this is unmapped, not put into the free list.
const MAX_FREE_BYTES: usize = 8 << 20;

thread_local! {
    /// The free list of the thread. Kernels of a program may be programs themselves, which run inside of a call: hence
    /// two.
    static FREE_STACKS: [Cell<Option<Box<Stack>>>; 2] = const { [const { Cell::new(None) }; 2] };
}

impl CallStack {
    /// An empty stack that may grow to `limit` bytes, which `charge` counts: from the free list, or a new one.
    #[inline]
    pub fn new(limit: usize, charge: Charge) -> CallStack {
        let free = FREE_STACKS.try_with(|[first, second]| first.take().or_else(|| second.take()));
        match free {
            Ok(Some(mut stack)) if stack.limit == limit && !charge.is_counted() => {
                (stack.pc, stack.countdown) = (0, 0);
                CallStack(Some(stack))
            }
            Ok(free) => CallStack::other(free, limit, charge),
            Err(_) => CallStack::other(None, limit, charge),
        }
    }

    /// A new stack, or a free one that had another limit or has a charge.
    #[cold]
    fn other(free: Option<Box<Stack>>, limit: usize, charge: Charge) -> CallStack {
        let Some(mut stack) = free else { return CallStack(Some(Box::new(Stack::new(limit, charge)))) };
        // A mapping that is too short is given back.
        stack.memory.take_if(|memory| memory.length() < limit);
        (stack.pc, stack.countdown, stack.limit, stack.charge) = (0, 0, limit, charge);
        CallStack(Some(stack))
    }
}

impl CallStack {
    /// Counts the stack as `charge` from here on.
    pub fn set_charge(&mut self, charge: Charge) {
        if let Some(stack) = &mut self.0 {
            stack.charge = charge;
        }
    }

    /// The address of the stack, which stays until `from_raw` takes it back.
    pub fn into_raw(mut self) -> NonNull<Stack> {
        NonNull::from(Box::leak(self.0.take().unwrap_or_else(|| unreachable!("only dropping takes the stack"))))
    }

    /// The stack at an address.
    ///
    /// # Safety
    /// The address must come from `into_raw`, be taken back once, and not be used any more.
    pub unsafe fn from_raw(address: NonNull<Stack>) -> CallStack {
        // SAFETY: `into_raw` leaked a box; the rest is the caller's promise.
        CallStack(Some(unsafe { Box::from_raw(address.as_ptr()) }))
    }
}

impl Deref for CallStack {
    type Target = Stack;

    #[inline(always)]
    fn deref(&self) -> &Stack {
        self.0.as_ref().unwrap_or_else(|| unreachable!("only dropping takes the stack"))
    }
}

impl DerefMut for CallStack {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Stack {
        self.0.as_mut().unwrap_or_else(|| unreachable!("only dropping takes the stack"))
    }
}

impl Drop for CallStack {
    #[inline]
    fn drop(&mut self) {
        let Some(mut stack) = self.0.take() else { return };
        stack.clear();
        if stack.charge.is_counted() {
            stack.charge = Charge::default();
        }
        if stack.memory.as_ref().is_some_and(|memory| memory.length() > MAX_FREE_BYTES) {
            return;
        }
        // At the end of a thread the free list is gone; then the stack is dropped here, as it is if the list is full.
        let _ = FREE_STACKS.try_with(|[first, second]| {
            if let Some(other) = first.replace(Some(stack)) {
                drop(second.replace(Some(other)));
            }
        });
    }
}

/// The registers of a frame of a stack.
fn registers_of(slots: *mut u32, descriptor: &FrameDescriptor) -> Registers {
    // SAFETY: frames have as many registers as their descriptor says, they do not move until they are popped, and
    // references are made null and slots zeroed where that matters. Code that runs in the frame is verified against the
    // same counts.
    unsafe { Registers::new(slots, descriptor.slots as usize, descriptor.refs as usize) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Object;
    use crate::bytecode::CallId;
    use crate::status::StatusCode;
    use std::sync::Arc;

    struct Counted(#[expect(dead_code, reason = "held to count the references")] Arc<()>);

    impl Object for Counted {
        const TYPE_NAME: &'static str = "test.counted";
    }

    fn descriptor(slots: u32, refs: u32) -> FrameDescriptor {
        FrameDescriptor { module: 0, function: 0, pc: 0, call: CallId(0), slots, refs }
    }

    #[test]
    fn frames_are_zeroed_if_asked() {
        let mut stack = Stack::new(1 << 16, Charge::default());
        let mut first = stack.push(descriptor(3, 1), true).unwrap();
        (0..3).for_each(|slot| first.set_word(slot, 7));
        for _ in 0..2 {
            let mut second = stack.push(descriptor(2, 0), true).unwrap();
            assert_eq!([second.word(0), second.word(1)], [0, 0]);
            (0..2).for_each(|slot| second.set_word(slot, 9));
            assert_eq!([first.word(0), first.word(1), first.word(2)], [7, 7, 7]);
            stack.pop();
        }
    }

    #[test]
    fn popping_releases_references() {
        let count = Arc::new(());
        let mut stack = Stack::new(1 << 16, Charge::default());
        for _ in 0..3 {
            let mut registers = stack.push(descriptor(1, 2), false).unwrap();
            assert!(registers.reference(0).is_none() && registers.reference(1).is_none());
            registers.assign(1, Some(Ref::new(Counted(count.clone()))));
        }
        assert_eq!(Arc::strong_count(&count), 4);
        stack.pop();
        assert_eq!(Arc::strong_count(&count), 3);
        stack.push(descriptor(0, 2), false).unwrap();
        stack.clear();
        assert_eq!(Arc::strong_count(&count), 1);
        assert_eq!(stack.headers().count(), 0);
    }

    #[test]
    fn the_limit_is_a_status() {
        let mut stack = Stack::new(1 << 12, Charge::default());
        let error = (0..1000).find_map(|_| stack.push(descriptor(16, 1), false).err()).unwrap();
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        let depth = stack.headers().count();
        assert!(depth > 10 && depth < 64, "{depth}");
        assert!(error.message().contains(&format!("depth {depth}")), "{error}");
    }

    #[test]
    fn a_stack_that_cannot_be_reserved_is_a_status() {
        let error = Stack::new(usize::MAX - 5, Charge::default()).push(descriptor(1, 1), false).unwrap_err();
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
    }
}
