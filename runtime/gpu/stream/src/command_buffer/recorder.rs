//! The recorder ([`StreamRecorder`]): checks commands and writes them to the blocks of a program.

use std::fmt;
use std::sync::Arc;

use super::block::{Block, Command, Operation, depends_on_lengths};
use super::graph::Graphs;
use super::known::Known;
use super::program::Program;
use crate::collectives::{self, RecordedCollective};
use crate::context::{Context, LaunchLimits};
use crate::executable::{Export, LoadedKernel};
use crate::hal::recycle::{FreeList, MAX_FREE, Uninit, free_list};
use crate::hal::transfer::{check_copy, check_fill, check_pattern};
use crate::hal::{BufferRef, BufferUsage, Executable, ExecutableFunction};
use crate::hal_driver::deferred::{
    self, CollectiveRequest, DeferredCommandBuffer, DispatchRequest, EachRecorder, OfOneDevice,
};
use crate::hal_driver::references::{Place, References};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::memory::DeviceSet;
use crate::status::{Result, Status};

/// Bytes of the arena of a block at most.
const MAX_ARENA: usize = 1 << 28;

/// The device that commands are recorded for.
pub trait Target: fmt::Debug + Send + Sync {
    /// The function of an executable.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the executable is for another kind of device, OUT_OF_RANGE if it has no such function.
    fn kernel<'a>(
        &self,
        executable: &'a Arc<dyn Executable>,
        function: ExecutableFunction,
    ) -> Result<(LoadedKernel, &'a Export)>;

    /// The limits of launches.
    fn limits(&self) -> LaunchLimits;

    /// The GPU.
    fn context(&self) -> &Arc<Context>;
}

/// Records a program.
pub struct StreamRecorder {
    pub(super) target: Arc<dyn Target>,
    blocks: Vec<Block>,
    /// The block that commands are added to.
    pub(super) block: Block,
    pub(super) references: References<DeviceSet>,
    unchecked: Vec<(Place, Operation)>,
    pub(super) counts: u32,
    pub(super) names: Vec<Arc<str>>,
    /// The last function that was dispatched, which the next dispatch is often of.
    pub(super) last: Option<Known>,
    follows_barrier: bool,
    commands: u32,
    pub(super) charge: Charge,
}

impl fmt::Debug for StreamRecorder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "recorder({} commands for {:?})", self.commands, self.target)
    }
}

/// A command buffer for a GPU with streams.
pub type StreamCommandBuffer = DeferredCommandBuffer<StreamRecorder>;

/// A command buffer for several GPUs.
pub type StreamsCommandBuffer = DeferredCommandBuffer<EachRecorder<StreamRecorder>>;

free_list! { static COMMAND_BUFFERS: Uninit<StreamCommandBuffer>, MAX_FREE }
free_list! { static STREAMS_COMMAND_BUFFERS: Uninit<StreamsCommandBuffer>, MAX_FREE }

impl OfOneDevice for StreamRecorder {
    fn command_buffers_of_each() -> &'static FreeList<Uninit<StreamsCommandBuffer>> {
        &STREAMS_COMMAND_BUFFERS
    }
}

impl deferred::Recorder for StreamRecorder {
    type Device = Arc<dyn Target>;
    type Program = Program;

    fn command_buffers() -> &'static FreeList<Uninit<StreamCommandBuffer>> {
        &COMMAND_BUFFERS
    }

    fn new(target: &Arc<dyn Target>, capacity: u32, _reusable: bool) -> StreamRecorder {
        let mut references = References::default();
        references.begin(capacity);
        StreamRecorder {
            target: target.clone(),
            blocks: Vec::new(),
            block: Block::default(),
            references,
            unchecked: Vec::new(),
            counts: 0,
            names: Vec::new(),
            last: None,
            follows_barrier: false,
            commands: 0,
            charge: Charge::of_call_anyway(OBJECT_BYTES),
        }
    }

    fn command_count(&self) -> usize {
        self.commands as usize
    }

    fn commands_of(program: &Program) -> usize {
        program.commands() as usize
    }

    fn barrier(&mut self) -> Result<()> {
        // Before the next command; those at the beginning order nothing.
        self.follows_barrier = self.commands > 0;
        Ok(())
    }

    fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()> {
        let step = check_pattern(pattern)?;
        self.record(|recorder| {
            let place = recorder.references.place(target, BufferUsage::TRANSFER_TARGET)?;
            check_fill(step, target.offset, place.length)?;
            let mut repeated = [0; 8];
            repeated.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
            recorder.transfer(place, Operation::Fill { pattern: u64::from_le_bytes(repeated), step })
        })
    }

    fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        self.record(|recorder| {
            let place = recorder.references.place(target, BufferUsage::TRANSFER_TARGET)?;
            let length = source.len() as u64;
            if place.length != length {
                let message = format!("update of {length} bytes to a range of {}", place.length);
                return Err(Status::invalid_argument(message));
            }
            recorder.charge.add(length, "an update of a command buffer")?;
            let start = u32::try_from(recorder.block.bytes.len());
            let start = start.map_err(|_| Status::out_of_range("too many bytes of updates"))?;
            recorder.transfer(place, Operation::Update { start })?;
            recorder.block.bytes.extend_from_slice(source);
            Ok(())
        })
    }

    fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        self.record(|recorder| {
            let from = recorder.references.place(source, BufferUsage::TRANSFER_SOURCE)?;
            let to = recorder.references.place(target, BufferUsage::TRANSFER_TARGET)?;
            check_copy(from.length, to.length)?;
            recorder.transfer(to, Operation::Copy { source: from })
        })
    }

    fn synchronise(&mut self, range: &BufferRef) -> Result<()> {
        // The host is coherent with what it maps, so only the range is checked: that of a slot by executions.
        self.attempt(|recorder| {
            let place = recorder.references.place(range, BufferUsage::empty())?;
            recorder.references.note(&place, BufferUsage::empty());
            Ok(())
        })
    }

    fn dispatch(&mut self, _target: &Arc<dyn Target>, request: DispatchRequest<'_>) -> Result<()> {
        self.record(|recorder| recorder.record_dispatch(&request))
    }

    fn collective(&mut self, request: &CollectiveRequest<'_>) -> Result<()> {
        self.attempt(|recorder| recorder.record_collective(request))
    }

    fn finish(mut self, _target: &Arc<dyn Target>) -> Result<Arc<Program>> {
        self.end_block()?;
        let StreamRecorder { blocks, mut references, unchecked, counts, names, commands, charge, .. } = self;
        Ok(Arc::new(Program {
            blocks,
            held: references.take(),
            unchecked,
            commands,
            counts,
            names,
            graphs: Graphs::default(),
            _charge: charge,
        }))
    }
}

impl StreamRecorder {
    /// Records a command that is no collective operation, so it is in a block after those.
    #[inline]
    fn record(&mut self, command: impl FnOnce(&mut StreamRecorder) -> Result<()>) -> Result<()> {
        if !self.block.collectives.is_empty() {
            self.end_block()?;
            self.follows_barrier = false;
        }
        self.attempt(command)
    }

    /// Records something. What is refused changes nothing.
    #[inline]
    fn attempt(&mut self, command: impl FnOnce(&mut StreamRecorder) -> Result<()>) -> Result<()> {
        let mark = self.references.mark();
        let recorded = command(self);
        if recorded.is_err() {
            self.references.rewind(mark);
        }
        recorded
    }

    fn transfer(&mut self, target: Place, operation: Operation) -> Result<()> {
        if target.length == 0 {
            return Ok(());
        }
        self.begin_command()?;
        self.references.note(&target, BufferUsage::TRANSFER_TARGET);
        if let Operation::Copy { source } = &operation {
            self.references.note(source, BufferUsage::TRANSFER_SOURCE);
        }
        if depends_on_lengths(&target, &operation) {
            self.unchecked.push((target, operation));
        }
        self.block.commands.push(Command::Transfer(target, operation));
        Ok(())
    }

    fn record_collective(&mut self, request: &CollectiveRequest<'_>) -> Result<()> {
        let (channel, operation) = collectives::check(request)?;
        let context = self.target.context();
        if !channel.is_on(context) {
            return Err(Status::invalid_argument(format!("{channel:?} in commands for {context:?}")));
        }
        let mut side = |reference: &BufferRef| {
            // A range that the operation has no use for may name nothing.
            let names_some = reference.buffer.is_some() || reference.length != 0;
            names_some.then(|| self.references.place(reference, BufferUsage::empty())).transpose()
        };
        let (send, recv) = (side(request.send)?, side(request.recv)?);
        self.charge.add(2 * OBJECT_BYTES, "commands of a command buffer")?;
        // Those since the last barrier are a group.
        let is_group = !self.block.collectives.is_empty() && !self.follows_barrier;
        if !is_group && self.block.byte_length() > 0 {
            self.end_block()?;
        }
        self.commands = self.commands.checked_add(1).ok_or_else(|| Status::out_of_range("too many commands"))?;
        self.follows_barrier = false;
        send.iter().chain(&recv).for_each(|place| self.references.note(place, BufferUsage::empty()));
        self.block.collectives.push(RecordedCollective { channel, operation, send, recv });
        Ok(())
    }

    /// Begins a command. It is recorded then, so nothing may fail afterwards.
    #[inline]
    pub(super) fn begin_command(&mut self) -> Result<()> {
        self.commands = self.commands.checked_add(1).ok_or_else(|| Status::out_of_range("too many commands"))?;
        if std::mem::take(&mut self.follows_barrier) {
            self.block.commands.push(Command::Barrier);
        }
        Ok(())
    }

    /// Memory for the arguments of a launch, in units of eight bytes, and zero; returns its place.
    pub(super) fn arguments(&mut self, length: usize) -> Result<u32> {
        let start = self.block.arena.len();
        let end = start + length.div_ceil(8);
        if end * 8 > MAX_ARENA {
            return Err(Status::resource_exhausted(format!("the arguments of a block have at most {MAX_ARENA} bytes")));
        }
        self.block.arena.resize(end, 0);
        // Less than 2^32, since all of it is.
        Ok(start as u32)
    }

    /// Ends the block; what follows is given to a stream after the host has looked at what this one did.
    pub(super) fn end_block(&mut self) -> Result<()> {
        self.charge.add(self.block.byte_length(), "commands of a command buffer")?;
        self.blocks.push(std::mem::take(&mut self.block));
        Ok(())
    }
}
