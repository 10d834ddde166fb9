//! The copies of transfers that are staged ([`AgentStaging`]): through coarse-grained memory of the host, by the queue.

use std::sync::Arc;

use crate::allocator::AmdAllocator;
use crate::command_buffer::{KernelSource, PacketRecorder};
use crate::hal::{Buffer, BufferRef, QueueAffinity, Timepoint};
use crate::hal_driver::deferred::Recorder as _;
use crate::hal_driver::device_queue::{Payload, Request};
use crate::hal_driver::staging::{Place, StagingQueue};
use crate::limits::scope::Scope;
use crate::queue::QueueCore;
use crate::status::Result;

/// A queue that copies what is staged.
pub(crate) struct AgentStaging {
    /// The queue.
    pub(crate) queue: Arc<QueueCore>,
    /// Its affinity.
    pub(crate) affinity: QueueAffinity,
    /// The kernels that copies are recorded with.
    pub(crate) source: Arc<dyn KernelSource>,
    /// The allocator of the device.
    pub(crate) allocator: Arc<AmdAllocator>,
}

impl StagingQueue for AgentStaging {
    fn memory(&self, length: u64) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(self.allocator.staging(self.affinity, length)?))
    }

    fn copy(&self, source: Place<'_>, target: Place<'_>, length: u64, signal: Timepoint) -> Result<()> {
        let reference =
            |(buffer, offset): Place<'_>| BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length };
        let mut recorder = PacketRecorder::new(&self.source, 0, false);
        recorder.copy(&reference(source), &reference(target))?;
        let payload = Payload::Job((recorder.finish(&self.source)?, Vec::new()));
        let request = Request { wait: Vec::new(), signal: vec![signal], payload, reclaim: None };
        self.queue.submit(request, Scope::current(), true);
        Ok(())
    }
}
