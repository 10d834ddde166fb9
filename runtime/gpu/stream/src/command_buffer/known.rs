//! A function that was dispatched before ([`Known`]): the next dispatch is often of the same one.

use crate::executable::LoadedKernel;
use crate::hal::ExecutableFunction;

/// A function that was dispatched before.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    /// The address of its executable, which the program holds.
    pub(super) executable: usize,
    pub(super) function: ExecutableFunction,
    pub(super) kernel: LoadedKernel,
    pub(super) block: [u32; 3],
    pub(super) shared: u32,
    pub(super) bindings: usize,
    pub(super) constants: usize,
    pub(super) grid: [u32; 3],
    pub(super) export: u32,
}
