//! What compiled code knows of the interpreter: where the parts of its objects are.

use std::collections::HashMap;

use crate::interp::machine::Machine;
use crate::interp::threaded::offsets;
use crate::vm::offsets as objects;

use crate::interp::threaded::make_frames as make_frames_of;
pub(super) use crate::interp::threaded::offsets::{GO_ON, JUMPS};
pub(super) use crate::interp::threaded::{call_import, check_limits, execute};

/// The countdown to the next look at the limits.
pub(super) const COUNTDOWN: i32 = std::mem::offset_of!(Machine<'_>, countdown) as i32;
/// The limits, and in them the fuel: null if it is not counted.
pub(super) const LIMITS: i32 = std::mem::offset_of!(Machine<'_>, limits) as i32;
pub(super) const FUEL: i32 = std::mem::offset_of!(crate::interp::Limits, fuel) as i32;
/// The op at which the interpreter goes on.
pub(super) const PC: i32 = std::mem::offset_of!(Machine<'_>, pc) as i32;
/// The address of the value globals of the running module.
pub(super) const GLOBALS: i32 = std::mem::offset_of!(Machine<'_>, globals_data) as i32;
const LEFT: i32 = std::mem::offset_of!(Machine<'_>, left) as i32;
/// Where it goes on: the cell, the frame, and what is handed on.
pub(super) const LEFT_IP: i32 = LEFT + offsets::LEFT_IP as i32;
pub(super) const LEFT_SLOTS: i32 = LEFT + offsets::LEFT_SLOTS as i32;
/// Where the native stack was when the interpreter entered the code, and the slots of the last frame that may call natively.
pub(super) const NATIVE_BASE: i32 = std::mem::offset_of!(Machine<'_>, native_base) as i32;
pub(super) const NATIVE_LIMIT: i32 = std::mem::offset_of!(Machine<'_>, native_limit) as i32;
/// The end of the frames.
pub(super) const STACK_END: i32 = std::mem::offset_of!(Machine<'_>, stack_end) as i32;
pub(super) const LEFT_CARRY: i32 = LEFT + offsets::LEFT_CARRY as i32;

/// The table that tells what an object is, in its header.
pub(super) const VTABLE: i32 = objects::VTABLE as i32;
/// The address of the first byte of a buffer, its length, and whether it may be written.
pub(super) const BUFFER_DATA: i32 = objects::BUFFER_DATA as i32;
pub(super) const BUFFER_LENGTH: i32 = objects::BUFFER_LENGTH as i32;
pub(super) const BUFFER_MUTABLE: i32 = objects::BUFFER_MUTABLE as i32;

/// For [`check_limits`]: no op.
pub(super) const NO_OP: i32 = -1;

/// Makes the frames of compiled code that was called by compiled code.
pub(super) fn make_frames() -> usize {
    make_frames_of as *const () as usize
}

/// The address of the table of buffers.
pub(super) fn buffer_vtable() -> usize {
    objects::buffer_vtable()
}

/// The distance of a register of references from the slots of its frame.
pub(super) fn reference(register: u16) -> i32 {
    -(offsets::HEADER as i32) - 8 * (i32::from(register) + 1)
}

/// What a cell hands on to its handler: the slot, or pair of slots, whose value is carried.
pub(crate) type Carried = Option<(u16, bool)>;

/// The cells to go on at, by the block whose end leaves the code, with what they want carried.
pub(crate) struct Outside {
    pub cells: HashMap<usize, (usize, Carried)>,
    /// Where other functions are entered by compiled code.
    pub functions: HashMap<u32, Entrance>,
}

/// Where compiled code is entered by other compiled code.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Entrance {
    /// The address.
    pub address: usize,
    /// Bytes of its native frame.
    pub frame: u32,
}

impl Outside {
    pub(super) fn cell(&self, block: usize) -> (usize, Carried) {
        self.cells.get(&block).copied().unwrap_or((0, None))
    }
}
