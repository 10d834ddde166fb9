//! The layout of the runtime's objects, as offsets for machine code, and the addresses that code is linked to. `emit`
//! uses both, and `install` fills in the addresses.

use std::collections::HashMap;

use crate::interp::machine::lent_references::offsets as lent;
use crate::interp::machine::{self, Machine};
use crate::interp::threaded::offsets;
use crate::ir::graph::BlockIndex;
use crate::vm::offsets as objects;

pub(super) use crate::interp::threaded::offsets::{GO_ON, JUMPS};
pub(super) use crate::interp::threaded::{
    allocate, begin_frame, call_import, check_limits, count_many, end_frame, execute, fail_import, move_references,
    out_of_range,
};

/// The countdown to the next check of the limits.
pub(super) const COUNTDOWN: i32 = std::mem::offset_of!(Machine<'_>, countdown) as i32;
/// Whether the limits bound more than sizes, a byte.
pub(super) const IS_LIMITED: i32 = machine::IS_LIMITED as i32;
/// The op at which the interpreter continues after a side exit.
pub(super) const PC: i32 = std::mem::offset_of!(Machine<'_>, pc) as i32;
/// The address of the value globals of the running module.
pub(super) const GLOBALS: i32 = std::mem::offset_of!(Machine<'_>, globals_data) as i32;
const CONTINUATION: i32 = std::mem::offset_of!(Machine<'_>, continuation) as i32;
/// Where the interpreter continues: the threaded instruction, the slots of the frame, and the carried value.
pub(super) const CONTINUATION_IP: i32 = CONTINUATION + offsets::CONTINUATION_IP as i32;
pub(super) const CONTINUATION_SLOTS: i32 = CONTINUATION + offsets::CONTINUATION_SLOTS as i32;
pub(super) const CONTINUATION_CARRY: i32 = CONTINUATION + offsets::CONTINUATION_CARRY as i32;
/// The native stack pointer when the interpreter entered the code, and the slots of the last frame that may make native
/// calls.
pub(super) const NATIVE_BASE: i32 = std::mem::offset_of!(Machine<'_>, native_base) as i32;
pub(super) const NATIVE_LIMIT: i32 = std::mem::offset_of!(Machine<'_>, native_limit) as i32;
/// The end of the stack of frames.
pub(super) const STACK_END: i32 = std::mem::offset_of!(Machine<'_>, stack_end) as i32;

const LENT: i32 = std::mem::offset_of!(Machine<'_>, lent) as i32;
/// The references that are lent to the frame: the list, the address of its elements, and how many there are.
pub(super) const LENT_LIST: i32 = LENT + lent::LIST as i32;
pub(super) const LENT_ELEMENTS: i32 = LENT + lent::ELEMENTS as i32;
pub(super) const LENT_COUNT: i32 = LENT + lent::COUNT as i32;
/// The bits of the registers that the frame owns all the same.
pub(super) const LENT_OWNED: i32 = LENT + lent::OWNED as i32;
/// The address of the references to data of the module, and the distance between them.
pub(super) const LENT_DATA: i32 = LENT + lent::DATA as i32;
pub(super) const LENT_DATA_STRIDE: i32 = lent::DATA_STRIDE as i32;

/// The vtable in the header of an object, by which its type is known.
pub(super) const VTABLE: i32 = objects::VTABLE as i32;
/// The address of the first byte of a buffer, its length, and whether it may be written.
pub(super) const BUFFER_DATA: i32 = objects::BUFFER_DATA as i32;
pub(super) const BUFFER_LENGTH: i32 = objects::BUFFER_LENGTH as i32;
pub(super) const BUFFER_MUTABLE: i32 = objects::BUFFER_MUTABLE as i32;

/// For [`check_limits`] and [`out_of_range`]: no op.
pub(super) const NO_OP: i32 = -1;

/// The address of the table of buffers.
pub(super) fn buffer_vtable() -> usize {
    objects::buffer_vtable()
}

/// The offset of a reference register from the slots of its frame.
pub(super) fn reference(register: u16) -> i32 {
    -(offsets::HEADER as i32) - offsets::REFERENCE as i32 * (i32::from(register) + 1)
}

/// The offsets, from the slots of a frame, of the fields that a call writes to its header: the caller's slots, and the
/// instruction after the call.
pub(super) const HEADER_CALLER: i32 = offsets::HEADER_CALLER as i32 - offsets::HEADER as i32;
pub(super) const HEADER_RESUME: i32 = offsets::HEADER_RESUME as i32 - offsets::HEADER as i32;

/// The value that the handler of a threaded instruction takes in a register: the slot, or the pair of slots.
pub(crate) type Carried = Option<(u16, bool)>;

/// The addresses that the code of a function is linked to. Listings have none.
#[derive(Default)]
pub(crate) struct LinkTargets {
    /// The threaded instructions at which the interpreter continues, by the block with the side exit, and the values
    /// that they take.
    pub threaded_instructions: HashMap<BlockIndex, (usize, Carried)>,
    /// The threaded instruction after each call inside the module, by its block.
    pub resumes: HashMap<BlockIndex, usize>,
    /// The native entries of the functions that it calls.
    pub functions: HashMap<u32, NativeEntry>,
    /// Whether each access compares its index with the length of the buffer once more.
    pub checks_accesses: bool,
    /// The address of the counts of side exits, by op.
    pub side_exit_counts: usize,
}

/// The native entry of a function.
#[derive(Clone, Copy, Debug)]
pub(crate) enum NativeEntry {
    /// Its address.
    Known(usize),
    /// The address of the variable that has it once the function has code; null until then.
    Pending(usize),
}

impl LinkTargets {
    pub(super) fn threaded_instruction(&self, block: BlockIndex) -> (usize, Carried) {
        self.threaded_instructions.get(&block).copied().unwrap_or((0, None))
    }
}
