//! Dispatches as the owner of a sanitizer describes them ([`NewDispatch`]).

use std::sync::Arc;

use super::report::{Place, Site};

/// The code of a dispatch, for reports.
pub trait Code: Send + Sync {
    /// The name of the kernel.
    fn kernel(&self) -> &str;

    /// Where an instruction is in the code object.
    fn place(&self, instruction: u64) -> Place;

    /// Whether the lanes of a wave progress on their own, so that the order of instructions orders none of them.
    fn has_free_lanes(&self) -> bool {
        false
    }

    /// Whether an instruction loads what no instruction of its dispatch may write.
    fn loads_constants(&self, instruction: u64) -> bool {
        let _ = instruction;
        false
    }

    /// The text of a site in reports, if its owner has words of its own.
    fn describe(&self, site: &Site) -> Option<String> {
        let _ = site;
        None
    }
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
