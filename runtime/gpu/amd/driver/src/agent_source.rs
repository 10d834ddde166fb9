//! An agent as command buffers are recorded for it ([`AgentSource`]): its kernels, and memory for arguments.

use std::any::Any;
use std::sync::Arc;

use crate::agent::{DispatchLimits, GpuAgent};
use crate::builtin::Builtins;
use crate::command_buffer::{DispatchTarget, KernelSource, PublishedMemory, PublishedPool, TransferKernels};
use crate::executable::AmdExecutable;
use crate::hal::{Executable, ExecutableFunction};
use crate::memory::MemoryClass;
use crate::status::{Result, Status};

/// An agent, for recorders.
#[derive(Debug)]
pub(crate) struct AgentSource {
    /// The agent.
    pub(crate) agent: Arc<GpuAgent>,
    /// The class of memory for arguments.
    pub(crate) kernargs: MemoryClass,
    /// Its kernels for transfers, or why there are none.
    pub(crate) builtins: Result<Builtins>,
    /// Memory for arguments of programs.
    pub(crate) published: PublishedPool,
}

impl KernelSource for AgentSource {
    fn target<'a>(
        &self,
        executable: &'a Arc<dyn Executable>,
        function: ExecutableFunction,
    ) -> Result<DispatchTarget<'a>> {
        let any: &dyn Any = &**executable;
        let own: Option<&AmdExecutable> = any.downcast_ref();
        let own = own.ok_or_else(|| Status::invalid_argument("the executable is for another kind of device"))?;
        let (kernel, export) = own.kernel(&self.agent, function)?;
        Ok(DispatchTarget { kernel, export })
    }

    fn limits(&self) -> DispatchLimits {
        self.agent.limits
    }

    fn transfers(&self) -> Result<TransferKernels> {
        self.builtins.as_ref().map(|builtins| builtins.kernels).map_err(Status::clone)
    }

    fn argument_memory(&self, length: usize) -> Result<PublishedMemory> {
        self.published.take(length, |length| self.agent.allocate(self.kernargs, length, &[]))
    }
}
