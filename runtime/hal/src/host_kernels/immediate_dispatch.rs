//! Dispatches without a device: all workgroups run on the calling thread before the call returns. The module
//! `hal_loader` uses it.

use std::ffi::c_void;
use std::sync::Arc;

use super::{Arguments, Bindings, Grid, WorkgroupMemory, kernels_of};
use crate::status::Result;
use crate::{Executable, ExecutableFunction};

/// A dispatch: the kernel, its size and its arguments.
pub struct HostDispatch<'a> {
    /// The kernel.
    pub function: ExecutableFunction,
    /// Number of workgroups.
    pub workgroups: [u32; 3],
    /// Its constants.
    pub constants: &'a [u32],
    /// The memory it is bound to.
    pub bindings: &'a [HostBinding],
}

/// Memory of the host as a binding.
#[derive(Clone, Copy)]
pub struct HostBinding {
    /// The first byte.
    pub pointer: *mut c_void,
    /// Bytes.
    pub length: u64,
    /// Whether kernels may write there.
    pub writable: bool,
}

/// Runs a function of an executable that was loaded for local devices.
///
/// # Errors
/// `INVALID_ARGUMENT` for an executable of another device, or other constants or bindings than the function has, and
/// those of the function.
///
/// # Safety
/// The bindings must be memory that may be read until the call returns, and written where they are `writable`, or where
/// a native function writes.
pub unsafe fn dispatch_on_host(executable: &Arc<dyn Executable>, dispatch: &HostDispatch<'_>) -> Result<()> {
    let HostDispatch { function, workgroups, constants, bindings } = *dispatch;
    let kernels = kernels_of(executable, false)?;
    kernels.check_arguments(function, constants.len(), bindings.len())?;
    let grid = Grid { size: [1; 3], count: workgroups, local_memory: 0 };
    let mut memory = Bindings::default();
    for HostBinding { pointer, length, writable } in bindings {
        // SAFETY: the caller guarantees that the bindings are memory that may be read until the call returns, and
        // written where they are `writable`.
        unsafe { memory.bind_memory(*pointer, *length, *writable) };
    }
    let arguments = Arguments { grid, constants, bindings: &memory, concurrency: 1, local_memory_limit: None };
    let count = grid.workgroups()?;
    WorkgroupMemory::with(|workgroup_memory| {
        // SAFETY: the arguments were checked above, and these are all workgroups of the grid.
        unsafe { kernels.run(function, &arguments, 0..count, workgroup_memory) }
    })
}
