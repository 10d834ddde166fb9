//! The layout of continuations and frame headers, as offsets for machine code.

use super::handlers;
use crate::Ref;
use crate::interp::frame::header::FrameHeader;
use crate::interp::frame::instruction::CarriedValues;
use crate::interp::machine::exit::Continuation;

/// Offset in a `Continuation` of the instruction to continue at.
pub const CONTINUATION_IP: usize = std::mem::offset_of!(Continuation, ip);
/// Offset in a `Continuation` of the frame.
pub const CONTINUATION_SLOTS: usize = std::mem::offset_of!(Continuation, slots);
/// Offset in a `Continuation` of the carried value.
pub const CONTINUATION_CARRY: usize =
    std::mem::offset_of!(Continuation, carried) + std::mem::offset_of!(CarriedValues, carry);
/// Bytes of a frame header, which is before the slots; the references are before the header.
pub const HEADER: usize = size_of::<FrameHeader>();
/// Bytes of a reference.
pub const REFERENCE: usize = size_of::<Option<Ref>>();
/// Offset in a frame header of the caller's slots.
pub const HEADER_CALLER: usize = std::mem::offset_of!(FrameHeader, caller);
/// Offset in a frame header of the instruction after the call.
pub const HEADER_RESUME: usize = std::mem::offset_of!(FrameHeader, resume);
/// The return value of a handler that has stored a continuation to resume.
pub const GO_ON: usize = handlers::GO_ON;
/// True if handlers jump to each other instead of returning.
pub const JUMPS: bool = cfg!(sibling_calls);
