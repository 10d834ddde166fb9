//! Frame headers, which are between the references and the slots of a frame. `stack.rs` says how frames are laid out;
//! the threaded dispatcher and machine code build them, too.

use super::descriptor::FrameDescriptor;
use super::instruction::{ThreadedCallSite, ThreadedInstruction};
use crate::Ref;

/// The header of a frame: everything in it besides its registers.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct FrameHeader {
    /// The slots of the caller's frame; null in the outermost frame.
    pub caller: *mut u32,
    /// The instruction after the call, if the threaded dispatcher or machine code made it: its [`ThreadedCallSite`] has
    /// what a return needs. Else null.
    pub resume: *const ThreadedInstruction,
    /// The data that all frames of one call site have in common. If there is a site, this is not written and the site
    /// has it.
    pub descriptor: FrameDescriptor,
}

impl FrameHeader {
    /// The call site, if the threaded dispatcher or machine code made the call.
    ///
    /// # Safety
    /// It must be the header of a frame of a stack. The site lives as long as the code that the frame is of.
    pub unsafe fn site<'a>(&self) -> Option<&'a ThreadedCallSite> {
        // SAFETY: the caller guarantees that it is the header of a frame of a stack; calls of both write the
        // instruction after them.
        unsafe { ThreadedCallSite::before(self.resume) }
    }

    /// The header of the frame with these slots.
    ///
    /// # Safety
    /// They must be those of a frame of a stack.
    pub(in crate::interp) unsafe fn of(slots: *mut u32) -> FrameHeader {
        // SAFETY: every frame has a header, and sites live as long as the code that frames are of.
        unsafe {
            let mut header = header_of(slots).read();
            if let Some(site) = header.site() {
                header.descriptor = site.descriptor;
            }
            header
        }
    }
}

const _: () = assert!(size_of::<FrameHeader>().is_multiple_of(8));

impl FrameDescriptor {
    /// Bytes of the slots, rounded up so that what follows is aligned.
    pub fn slot_bytes(&self) -> usize {
        (self.slots as usize * size_of::<u32>()).next_multiple_of(align_of::<FrameHeader>())
    }

    /// Bytes before the slots: references and header.
    pub fn lead_bytes(&self) -> usize {
        self.refs as usize * size_of::<Option<Ref>>() + size_of::<FrameHeader>()
    }
}

/// The address of the header of the frame with these slots.
#[inline(always)]
pub(in crate::interp) fn header_of(slots: *mut u32) -> *mut FrameHeader {
    slots.cast::<FrameHeader>().wrapping_sub(1)
}
