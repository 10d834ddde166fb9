//! Collective operations of a command program ([`RecordedCollective`]), which cut it into [`Segment`]s: the commands
//! before them, and those that run at the same time as each other. A queue executes segment after segment, so no thread
//! waits for other ranks.

use std::any::Any;
use std::sync::Arc;

use vireo_collectives::{GroupChannel, Operation};

use super::command_program::{CommandProgram, Deferred};
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

/// The part of a program up to the barrier after collective operations.
#[derive(Debug)]
pub struct Segment<D: Deferred> {
    /// The commands up to that barrier.
    pub commands: Arc<CommandProgram<D>>,
    /// The collective operations, which run after the commands. Since no barrier is between them and the last of these,
    /// the order makes no difference.
    pub collectives: Vec<RecordedCollective>,
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
