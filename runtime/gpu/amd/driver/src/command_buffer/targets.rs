//! Functions that were dispatched before ([`Targets`]).

use std::fmt;

use crate::executable::LoadedKernel;
use crate::hal::ExecutableFunction;
use crate::hal_driver::fact_cache::FactCache;

/// The facts of a function of an executable that a dispatch needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Target {
    /// The address of the executable, which the program holds.
    pub(super) executable: usize,
    pub(super) function: ExecutableFunction,
    pub(super) kernel: LoadedKernel,
    pub(super) workgroup_size: [u16; 3],
    pub(super) bindings: usize,
    pub(super) constants: usize,
    /// Bytes that its kernel says it has arguments for.
    pub(super) declared: usize,
    pub(super) implicit_offset: Option<usize>,
    /// Bytes of all arguments.
    pub(super) length: usize,
    /// Bytes of memory of a work-group at most.
    pub(super) most_group_memory: u32,
    /// Work-items of a grid along each dimension at most.
    pub(super) most_items: [u32; 3],
}

/// A table of functions that were dispatched before.
#[derive(Default)]
pub(super) struct Targets(pub(super) FactCache<Target>);

impl fmt::Debug for Targets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Targets")
    }
}

impl Targets {
    /// Forgets all.
    pub(super) fn clear(&mut self) {
        self.0.clear();
    }
}
