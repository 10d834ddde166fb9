//! The copies of transfers that are staged ([`StreamStaging`]): through pinned memory of the host, by the queue.

use std::sync::Arc;

use crate::allocator::StreamAllocator;
use crate::command_buffer::{StreamRecorder, Target};
use crate::hal::{Buffer, BufferRef, QueueAffinity, Timepoint};
use crate::hal_driver::deferred::Recorder as _;
use crate::hal_driver::device_queue::{Payload, Request};
use crate::hal_driver::staging::{Place, StagingQueue};
use crate::limits::scope::Scope;
use crate::queue::QueueCore;
use crate::status::Result;

/// A queue that copies what is staged.
pub(crate) struct StreamStaging {
    /// The queue.
    pub(crate) queue: Arc<QueueCore>,
    /// Its affinity.
    pub(crate) affinity: QueueAffinity,
    /// The GPU that copies are recorded for.
    pub(crate) target: Arc<dyn Target>,
    /// The allocator of the device.
    pub(crate) allocator: Arc<StreamAllocator>,
}

impl StagingQueue for StreamStaging {
    fn memory(&self, length: u64) -> Result<Arc<dyn Buffer>> {
        Ok(Arc::new(self.allocator.staging(self.affinity, length)?))
    }

    fn copy(&self, source: Place<'_>, target: Place<'_>, length: u64, signal: Timepoint) -> Result<()> {
        let reference =
            |(buffer, offset): Place<'_>| BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length };
        let mut recorder = StreamRecorder::new(&self.target, 0, false);
        recorder.copy(&reference(source), &reference(target))?;
        let payload = Payload::Job((recorder.finish(&self.target)?, Vec::new()));
        let request = Request { wait: Vec::new(), signal: vec![signal], payload, reclaim: None };
        self.queue.submit(request, Scope::current(), true);
        Ok(())
    }
}
