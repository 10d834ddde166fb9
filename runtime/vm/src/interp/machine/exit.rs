//! Why the machine stops, and where it goes on.

use crate::BoxedWaitSource;
use crate::bytecode::ListId;
use crate::interp::frame::instruction::{CarriedValues, Ip};

/// Why the machine stopped without an error.
pub enum Exit {
    /// The outermost function returns these registers of its frame, which is still there.
    Returned(ListId),
    /// The program yielded.
    Yielded,
    /// A native function waits for this source.
    Waiting(BoxedWaitSource),
}

/// Where execution continues: what a handler that stops, or machine code that exits to the interpreter, leaves in the
/// machine.
#[derive(Clone, Copy, Debug)]
pub struct Continuation {
    /// The instruction to continue at; null if the op has failed or execution continues at [`Machine::pc`].
    pub(in crate::interp) ip: Ip,
    /// The slots of the frame on top.
    pub(in crate::interp) slots: *mut u32,
    pub(in crate::interp) carried: CarriedValues,
}

impl Default for Continuation {
    fn default() -> Continuation {
        Continuation { ip: std::ptr::null(), slots: std::ptr::null_mut(), carried: CarriedValues::default() }
    }
}
