//! Collective operations of a command program, as a command buffer is asked for them ([`CollectiveRequest`]) and as
//! they are recorded ([`RecordedCollective`]).

use std::any::Any;
use std::sync::Arc;

use vireo_collectives::{GroupChannel, Operation};

use crate::hal::{BufferRef, Channel, CollectiveOp};
use crate::status::{Result, Status};

/// A collective operation, as a command buffer is asked to record it.
#[derive(Clone, Copy, Debug)]
pub struct CollectiveRequest<'a> {
    /// The channel.
    pub channel: &'a Arc<dyn Channel>,
    /// The operation.
    pub op: CollectiveOp,
    /// The rank of the root or peer, or both peers.
    pub param: u32,
    /// The range to send.
    pub send: &'a BufferRef,
    /// The range to receive into.
    pub recv: &'a BufferRef,
    /// The number of elements.
    pub element_count: u64,
}

/// A recorded collective operation.
#[derive(Debug)]
pub struct RecordedCollective {
    /// The channel.
    pub channel: Arc<GroupChannel>,
    /// The operation.
    pub operation: Operation,
    /// The range to send, if the command names one.
    pub send: Option<BufferRef>,
    /// The range to receive into, if the command names one.
    pub recv: Option<BufferRef>,
}

impl CollectiveRequest<'_> {
    /// The channel and the operation, checked as far as that depends on no rank.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a channel of another driver, and those of [`Operation::new`].
    pub(super) fn check(&self) -> Result<(Arc<GroupChannel>, Operation)> {
        let channel: Arc<dyn Any + Send + Sync> = self.channel.clone();
        let channel = channel
            .downcast::<GroupChannel>()
            .map_err(|_| Status::invalid_argument("the channel was created by another kind of device"))?;
        Ok((channel, Operation::new(self.op, self.param, self.element_count)?))
    }
}
