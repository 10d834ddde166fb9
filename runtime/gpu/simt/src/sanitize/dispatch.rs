//! Dispatches as the owner of a sanitizer describes them ([`NewDispatch`]).

use std::sync::Arc;

use super::report::Place;

/// The code of a dispatch, for reports.
pub trait Code: Send + Sync {
    /// The name of the kernel.
    fn kernel(&self) -> &str;

    /// Where an instruction is in the code object.
    fn place(&self, instruction: u64) -> Place;
}

/// A dispatch that begins.
pub struct NewDispatch {
    /// Its code.
    pub code: Arc<dyn Code>,
    /// Its queue.
    pub queue: u64,
    /// The index of its packet in the queue.
    pub packet: u64,
    /// Work-groups of the grid.
    pub groups: [u32; 3],
    /// Waves of a work-group.
    pub waves: u32,
}
