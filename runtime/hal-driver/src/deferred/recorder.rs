//! Recorders ([`Recorder`]): what a command buffer checks and records its commands with. A driver has its own where
//! queues need another form than a [`super::CommandProgram`]. A command buffer and its recorder name each other, so its
//! type is here, and `command_buffer` has its methods.

use std::sync::{Arc, OnceLock};

use super::collective::CollectiveRequest;
use super::dispatch_request::DispatchRequest;
use super::spin_lock::SpinLock;
use crate::hal::recycle::{FreeList, Uninit};
use crate::hal::{BufferRef, CommandBufferMode, CommandCategory, QueueAffinity, unimplemented};
use crate::status::Result;

/// Records commands for a device into a program, which never changes once it is recorded.
pub trait Recorder: Send + Sized + 'static {
    /// The device that commands are recorded for.
    type Device: Send + Sync + 'static;
    /// The recorded program, which queues execute.
    type Program: Send + Sync + 'static;

    /// The free list of command buffers, at most [`crate::hal::recycle::MAX_FREE`] for each thread. It is a static of
    /// the driver: a generic type has none of its own.
    fn command_buffers() -> &'static FreeList<Uninit<DeferredCommandBuffer<Self>>>;

    /// A recorder whose commands may refer to `capacity` binding slots. A reusable program may be executed more than
    /// once.
    fn new(device: &Self::Device, capacity: u32, reusable: bool) -> Self;

    /// Number of commands so far.
    fn command_count(&self) -> usize;

    /// Number of commands of a program.
    fn commands_of(program: &Self::Program) -> usize;

    /// Orders all later commands after all earlier ones. There is no weaker barrier.
    ///
    /// # Errors
    /// OUT_OF_RANGE for more commands than the program can have.
    fn barrier(&mut self) -> Result<()>;

    /// Records a fill.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a pattern or range that is not as fills need it, OUT_OF_RANGE or PERMISSION_DENIED for the
    /// reference.
    fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()>;

    /// Records an update of at most [`crate::hal::MAX_UPDATE_SIZE`] bytes, which are copied now.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the target has another length, OUT_OF_RANGE or PERMISSION_DENIED for the reference.
    fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()>;

    /// Records a copy between ranges of one length.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for ranges of different lengths, OUT_OF_RANGE or PERMISSION_DENIED for the references.
    fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()>;

    /// Records a flush or an invalidation of mapped memory.
    ///
    /// # Errors
    /// OUT_OF_RANGE for the reference.
    fn synchronise(&mut self, range: &BufferRef) -> Result<()>;

    /// Records a dispatch.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the executable is for another kind of device or takes other arguments, UNIMPLEMENTED for
    /// flags that the device does not support, OUT_OF_RANGE or PERMISSION_DENIED for references.
    fn dispatch(&mut self, device: &Self::Device, request: DispatchRequest<'_>) -> Result<()>;

    /// Records a collective operation.
    ///
    /// # Errors
    /// UNIMPLEMENTED for a device without channels, INVALID_ARGUMENT for a channel of another driver or an operation
    /// that is none, OUT_OF_RANGE for references.
    fn collective(&mut self, _request: &CollectiveRequest<'_>) -> Result<()> {
        Err(unimplemented("command_buffer.collective"))
    }

    /// Ends recording.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is no memory for what the program needs on its device.
    fn finish(self, device: &Self::Device) -> Result<Arc<Self::Program>>;

    /// Drops a recorder whose recording did not end; its memory may be recycled.
    fn recycle(self) {}

    /// Drops a reference to a program; the last one may recycle its memory.
    fn recycle_program(program: Arc<Self::Program>) {
        drop(program);
    }
}

/// A deferred command buffer that `R` records.
pub struct DeferredCommandBuffer<R: Recorder> {
    pub(super) mode: CommandBufferMode,
    pub(super) categories: CommandCategory,
    pub(super) queue_affinity: QueueAffinity,
    pub(super) binding_capacity: u32,
    pub(super) device: R::Device,
    pub(super) state: SpinLock<RecordingState<R>>,
    /// The program once it is recorded, unless it is one-shot: executions read it without a turn.
    pub(super) reusable: OnceLock<Arc<R::Program>>,
}

/// The state of a command buffer.
pub(super) enum RecordingState<R: Recorder> {
    Created,
    Recording {
        recorder: R,
        open_groups: u32,
    },
    /// Recording ended with an error.
    Failed,
    Recorded(Arc<R::Program>),
    /// A one-shot command buffer that was handed to a queue. It keeps the program to recycle its memory.
    Spent(Arc<R::Program>),
}
