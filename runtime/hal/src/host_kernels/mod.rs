//! Kernels that run on the host: [`HostKernels`] is an executable whose workgroups are run by calling a function. Local
//! devices call it, and loaders implement it. Queues, command buffers and memory do not depend on how kernels run, so
//! the null device reuses them.

mod bindings;
mod convention;
pub mod cpu;
#[cfg(target_arch = "x86_64")]
mod cpuid;
mod float_state;
mod grid;
mod immediate_dispatch;
mod import_table;
mod kernel_timing;
mod workgroup_memory;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub use bindings::Bindings;
pub use cpu::{feature, processor_data};
pub use float_state::FloatState;
pub use grid::{Grid, check_z};
pub use immediate_dispatch::{HostBinding, HostDispatch, dispatch_on_host};
pub use import_table::{Function, thunk};
pub use import_table::{Import, ImportProvider, ImportProviders, ImportTable, NoImports};
pub use kernel_timing::KernelTiming;
pub use workgroup_memory::WorkgroupMemory;

use crate::ExecutableFormat;
use crate::limits::Limits;
use crate::status::{Result, Status};
use crate::{Executable, ExecutableFunction};

/// The arguments of a dispatch, the same for all of its workgroups.
pub struct Arguments<'a> {
    /// Its size.
    pub grid: Grid,
    /// As many as the function takes.
    pub constants: &'a [u32],
    /// As many as the function takes.
    pub bindings: &'a Bindings<'a>,
    /// The most threads that run workgroups of the dispatch at once.
    pub concurrency: u32,
    /// Most bytes of memory that a workgroup may ask for, if there is a limit.
    pub local_memory_limit: Option<u32>,
}

impl Arguments<'_> {
    /// Local memory for one workgroup at a time.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if it exceeds the limit, or if there is not so much memory.
    pub fn local_memory(&self, workgroup_memory: &mut WorkgroupMemory, size: u32) -> Result<*mut u8> {
        self.check_local_memory(size)?;
        workgroup_memory.local_memory(size)
    }

    /// The same, with zeros in it.
    ///
    /// # Errors
    /// As [`Arguments::local_memory`].
    pub fn zeroed_local_memory(&self, workgroup_memory: &mut WorkgroupMemory, size: u32) -> Result<*mut u8> {
        self.check_local_memory(size)?;
        workgroup_memory.zeroed_local_memory(size)
    }

    fn check_local_memory(&self, size: u32) -> Result<()> {
        match self.local_memory_limit {
            Some(limit) if size > limit => Err(Status::resource_exhausted(format!(
                "a workgroup needs {size} bytes of local memory, workers have {limit}"
            ))),
            _ => Ok(()),
        }
    }
}

/// An executable whose kernels the host calls. Devices get it from [`Executable::host_kernels`].
pub trait HostKernels: fmt::Debug + Send + Sync {
    /// Name of a function, for messages.
    fn name(&self, function: ExecutableFunction) -> &str;

    /// Checks that the function exists and takes so many constants and bindings.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if there is no such function, `INVALID_ARGUMENT` if it takes other numbers of them.
    fn check_arguments(&self, function: ExecutableFunction, constants: usize, bindings: usize) -> Result<()>;

    /// Whether its functions do nothing, as those of the null device, which runs no others.
    fn is_null(&self) -> bool {
        false
    }

    /// Whether the workgroups of a function have to run one after the other, in their order.
    fn is_sequential(&self, _function: ExecutableFunction) -> bool {
        false
    }

    /// The limits for dispatches that a host submits outside of calls, if there are some.
    fn limits(&self) -> Option<&Limits> {
        None
    }

    /// The time that workgroups of a function take, as measured so far. None for a function whose time does not matter.
    fn timing(&self, _function: ExecutableFunction) -> Option<&KernelTiming> {
        None
    }

    /// Runs some workgroups of a dispatch, in their order: x varies fastest, then y. Any number of threads may run
    /// parts of one dispatch at once, each with its own workgroup memory.
    ///
    /// # Errors
    /// Those of the function: what it returns instead of success.
    ///
    /// # Safety
    /// The constants and bindings are as many as [`HostKernels::check_arguments`] has accepted for the function, and
    /// all of `workgroups` are in the grid.
    unsafe fn run(
        &self,
        function: ExecutableFunction,
        arguments: &Arguments<'_>,
        workgroups: Range<u64>,
        workgroup_memory: &mut WorkgroupMemory,
    ) -> Result<()>;
}

/// The kernels of an executable, for the null device (`null`) or for devices that run kernels.
///
/// # Errors
/// `INVALID_ARGUMENT` if the executable is for another kind of device.
pub fn kernels_of(executable: &Arc<dyn Executable>, null: bool) -> Result<Arc<dyn HostKernels>> {
    let kernels = executable.clone().host_kernels().filter(|kernels| kernels.is_null() == null);
    kernels.ok_or_else(|| Status::invalid_argument("the executable was prepared for another kind of device"))
}

/// The error for a format that no loader supports. Without `native_code` it is the policy that refuses machine code.
pub fn unsupported(format: &str, native_code: bool) -> Status {
    let format = format.escape_debug();
    if native_code {
        let architecture = std::env::consts::ARCH;
        return Status::unimplemented(format!("no loader for executables of format `{format}` on {architecture}"));
    }
    Status::permission_denied(format!(
        "the security policy refuses executables of format `{format}`: kernels have to be portable bytecode (`{}`)",
        ExecutableFormat::VmvxBytecode
    ))
}
