//! Dispatches without a device, for programs that have none: all workgroups run before the call returns, on its thread.

use std::ffi::c_void;
use std::sync::Arc;

use super::{Arguments, Bindings, Grid, WorkgroupMemory, kernels_of};
use crate::status::Result;
use crate::{Executable, ExecutableFunction};

/// What to run, and on what.
pub struct HostDispatch<'a> {
    /// The kernel.
    pub function: ExecutableFunction,
    /// How many workgroups there are.
    pub workgroups: [u32; 3],
    /// Its constants.
    pub constants: &'a [u32],
    /// The memory that it works on.
    pub bindings: &'a [HostBinding],
}

/// Memory of the host that a function is bound to.
#[derive(Clone, Copy)]
pub struct HostBinding {
    /// The first byte.
    pub pointer: *mut c_void,
    /// Bytes.
    pub length: u64,
    /// Whether functions may write there.
    pub writable: bool,
}

/// Runs a function of an executable of local devices.
///
/// # Safety
/// The bindings must be memory that may be read until the call returns, and written where they are `writable`, or where a native function
/// writes.
pub unsafe fn dispatch_on_host(executable: &Arc<dyn Executable>, dispatch: &HostDispatch<'_>) -> Result<()> {
    let HostDispatch { function, workgroups, constants, bindings } = *dispatch;
    let kernels = kernels_of(executable, false)?;
    kernels.check_arguments(function, constants.len(), bindings.len())?;
    let grid = Grid { size: [1; 3], count: workgroups, local_memory: 0 };
    let mut memory = Bindings::default();
    for HostBinding { pointer, length, writable } in bindings {
        // SAFETY: the caller guarantees it.
        unsafe { memory.bind_memory(*pointer, *length, *writable) };
    }
    let arguments = Arguments { grid, constants, bindings: &memory, concurrency: 1, local_memory_limit: None };
    let count = grid.workgroups()?;
    WorkgroupMemory::with(|workgroup_memory| {
        // SAFETY: the arguments were checked above, and these are all workgroups of the grid.
        unsafe { kernels.run(function, &arguments, 0..count, workgroup_memory) }
    })
}
