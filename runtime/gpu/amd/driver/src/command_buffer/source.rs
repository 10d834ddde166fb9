//! The device that commands are recorded for ([`KernelSource`]).

use std::fmt::Debug;
use std::sync::Arc;

use super::argument_pool::PublishedMemory;
use super::transfer::TransferKernels;
use crate::agent::DispatchLimits;
use crate::executable::{Export, LoadedKernel};
use crate::hal::{Executable, ExecutableFunction};
use crate::status::Result;

/// The kernel of a dispatch.
#[derive(Clone, Copy, Debug)]
pub struct DispatchTarget<'a> {
    /// The kernel as the device has it.
    pub kernel: LoadedKernel,
    /// The description of the kernel in its executable.
    pub export: &'a Export,
}

/// The device that commands are recorded for.
pub trait KernelSource: Debug + Send + Sync {
    /// The function of an executable.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the executable is for another kind of device, OUT_OF_RANGE if it has no such function.
    fn target<'a>(
        &self,
        executable: &'a Arc<dyn Executable>,
        function: ExecutableFunction,
    ) -> Result<DispatchTarget<'a>>;

    /// The limits of a dispatch.
    fn limits(&self) -> DispatchLimits;

    /// The driver's own kernels.
    ///
    /// # Errors
    /// UNIMPLEMENTED if there are none for the device.
    fn transfers(&self) -> Result<TransferKernels>;

    /// At least so many bytes for arguments that stay with a command buffer, at a multiple of 64.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there are none.
    fn argument_memory(&self, length: usize) -> Result<PublishedMemory>;
}
