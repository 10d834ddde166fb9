//! The stack of an invocation: one vector of 32-bit slots, one of references, and the frames as offsets into both.
//!
//! A 64-bit value takes an even slot and the odd one after it, low half first. Slots of a new frame read as zero and references as
//! null; the references of a frame are released when it is popped, however that happens.

use super::registers::Registers;
use crate::bytecode::CallId;
use crate::status::{Result, Status};
use crate::vm::Ref;

/// An active function.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Frame {
    /// Index of the module in the program.
    pub module: usize,
    /// Ordinal of the function.
    pub function: usize,
    /// Index of the op that runs, that called the frame above, or that runs next after a suspension.
    pub pc: usize,
    /// The call that the frame above returns to, if there is one.
    pub call: Option<CallId>,
    slots: usize,
    refs: usize,
    size: FrameSize,
}

/// What a new frame needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FrameSize {
    /// 32-bit slots.
    pub slots: usize,
    /// References.
    pub refs: usize,
}

/// The registers and frames of an invocation.
#[derive(Debug)]
pub(crate) struct Stack {
    slots: Vec<u32>,
    refs: Vec<Option<Ref>>,
    frames: Vec<Frame>,
    /// Backward branches and calls until the limits of the invocation are looked at again. Kept here because it has to outlive
    /// the machine: a program that yields all the time is not to escape its limits.
    pub countdown: u32,
    limit: usize,
}

impl Stack {
    /// An empty stack that may grow to `limit` bytes.
    pub fn new(limit: usize) -> Stack {
        Stack { slots: Vec::new(), refs: Vec::new(), frames: Vec::new(), countdown: 0, limit }
    }

    /// The frames, outermost first.
    pub fn frames(&self) -> &[Frame] {
        &self.frames
    }

    /// The frame that runs.
    pub fn top(&self) -> Option<&Frame> {
        self.frames.last()
    }

    /// The frame that runs.
    pub fn top_mut(&mut self) -> Option<&mut Frame> {
        self.frames.last_mut()
    }

    /// Enters a function.
    pub fn push(&mut self, module: usize, function: usize, size: FrameSize) -> Result<()> {
        // An even base keeps the halves of 64-bit values in the pairs that the function's code names.
        let slot_base = self.slots.len().next_multiple_of(2);
        let ref_base = self.refs.len();
        let (slots, refs) = (slot_base + size.slots, ref_base + size.refs);
        let bytes =
            slots * size_of::<u32>() + refs * size_of::<Option<Ref>>() + (self.frames.len() + 1) * size_of::<Frame>();
        if bytes > self.limit {
            return Err(Status::resource_exhausted(format!(
                "stack overflow: a frame of {} slots and {} references at depth {} exceeds the stack's {} bytes",
                size.slots,
                size.refs,
                self.frames.len(),
                self.limit
            )));
        }
        self.slots.resize(slots, 0);
        self.refs.resize(refs, None);
        self.frames.push(Frame { module, function, pc: 0, call: None, slots: slot_base, refs: ref_base, size });
        Ok(())
    }

    /// Leaves the function on top and releases its references.
    pub fn pop(&mut self) {
        if let Some(frame) = self.frames.pop() {
            self.slots.truncate(frame.slots);
            self.refs.truncate(frame.refs);
        }
    }

    /// The registers of a frame. They are valid until the next `push`, `pop` or `clear`.
    pub fn registers(&mut self, frame: &Frame) -> Registers {
        debug_assert!(
            frame.slots + frame.size.slots <= self.slots.len() && frame.refs + frame.size.refs <= self.refs.len()
        );
        // SAFETY: `push` made the vectors long enough for the frame, and they do not shrink or move before the frame is popped or
        // another one pushed. `as_mut_ptr` makes no reference to the elements, so the registers of several frames can be used in turn.
        // Code that runs in the frame is verified against the same counts.
        unsafe {
            Registers::new(
                self.slots.as_mut_ptr().add(frame.slots),
                frame.size.slots,
                self.refs.as_mut_ptr().add(frame.refs),
                frame.size.refs,
            )
        }
    }

    /// Leaves all functions, innermost first.
    pub fn clear(&mut self) {
        while !self.frames.is_empty() {
            self.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::status::StatusCode;
    use crate::vm::{Buffer, Object};
    use std::sync::Arc;

    struct Counted(#[expect(dead_code, reason = "held to count the references")] Arc<()>);

    impl Object for Counted {
        const TYPE_NAME: &'static str = "test.counted";
    }

    #[test]
    fn frames_start_zeroed_and_even() {
        let mut stack = Stack::new(1 << 16);
        stack.push(0, 0, FrameSize { slots: 3, refs: 1 }).unwrap();
        stack.slots.fill(7);
        stack.push(0, 1, FrameSize { slots: 2, refs: 0 }).unwrap();
        assert_eq!(stack.frames().last().map(|frame| (frame.slots, frame.refs)), Some((4, 1)));
        assert_eq!(stack.slots[4..], [0, 0]);
        stack.slots.fill(9);
        stack.pop();
        stack.push(0, 1, FrameSize { slots: 2, refs: 0 }).unwrap();
        assert_eq!(stack.slots[4..], [0, 0]);
    }

    #[test]
    fn popping_releases_references() {
        let count = Arc::new(());
        let mut stack = Stack::new(1 << 16);
        for depth in 0..3 {
            stack.push(0, depth, FrameSize { slots: 0, refs: 2 }).unwrap();
            let frame = stack.frames()[depth];
            *stack.registers(&frame).reference_mut(1) = Some(Ref::new(Counted(count.clone())));
        }
        assert_eq!(Arc::strong_count(&count), 4);
        stack.pop();
        assert_eq!(Arc::strong_count(&count), 3);
        stack.clear();
        assert_eq!(Arc::strong_count(&count), 1);
        assert!(stack.frames().is_empty());
    }

    #[test]
    fn the_limit_is_a_status() {
        let mut stack = Stack::new(1 << 12);
        let size = FrameSize { slots: 16, refs: 1 };
        let error = (0..1000).find_map(|_| stack.push(0, 0, size).err()).unwrap();
        assert_eq!(error.code(), StatusCode::ResourceExhausted);
        let depth = stack.frames().len();
        assert!(depth > 10 && depth < 64, "{depth}");
        // An overflow leaves the stack as it was.
        stack.refs[0] = Some(Ref::new(Buffer::allocate(1, 0).unwrap()));
        stack.clear();
        assert!(stack.slots.is_empty() && stack.refs.is_empty());
    }
}
