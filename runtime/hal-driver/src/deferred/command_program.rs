//! The command program, which a command buffer is recorded to: a flat list of commands, with their bytes, constants and
//! bindings in separate arrays. Queues of a driver run or encode it.
//!
//! Everything that does not depend on the binding table is checked while recording. A program never changes once it is
//! recorded, so any number of executions may run it.

use std::fmt::Debug;
use std::ops::Range;
use std::sync::Arc;

use super::collective::{CollectiveRequest, RecordedCollective};
use super::dispatch_request::DispatchRequest;
use super::recorder::{DeferredCommandBuffer, Recorder};
use crate::hal::host_kernels::Grid;
use crate::hal::recycle::{FreeList, Uninit, Unshared};
use crate::hal::transfer::unwatched::{buffer_copy, buffer_fill, buffer_write};
use crate::hal::transfer::{check_copy, check_fill, check_pattern, check_range};
use crate::hal::{Buffer, BufferBinding, BufferRef, BufferUsage, ExecutableFunction, buffer_read, require_usage};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::status::{Result, Status};

/// Most free programs for each thread.
pub const MAX_FREE_PROGRAMS: usize = 8;

/// A program with memory for more bytes than this is not recycled.
const MAX_RECYCLED_BYTES: usize = 1 << 20;

/// A kind of device with deferred command buffers.
pub trait Deferred: Copy + Debug + Send + Sync + Sized + 'static {
    /// The executable of a dispatch, as it is recorded.
    type Executable: Debug + Send + Sync;
    /// The measurements of a device in executions of a program. It is empty for a new program.
    type Profile: Debug + Default + Send + Sync;

    /// The free lists, which are statics of the driver: a generic type has none of its own.
    fn free_lists() -> CommandFreeLists<Self>;

    /// Checks a dispatch, except for its bindings, and returns what is recorded of its executable.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the executable is for another kind of device or takes other arguments, UNIMPLEMENTED for
    /// flags that the device does not support.
    fn executable(self, dispatch: &DispatchRequest<'_>) -> Result<Self::Executable>;
}

/// The free lists of programs and command buffers.
pub struct CommandFreeLists<D: Deferred> {
    /// At most [`MAX_FREE_PROGRAMS`] for each thread.
    pub programs: &'static FreeList<Unshared<CommandProgram<D>>>,
    /// At most [`crate::hal::recycle::MAX_FREE`] for each thread.
    pub command_buffers: &'static FreeList<Uninit<DeferredCommandBuffer<ProgramRecorder<D>>>>,
}

/// A command program.
#[derive(Debug)]
pub struct CommandProgram<D: Deferred> {
    /// Number of binding table slots that commands may refer to.
    capacity: u32,
    steps: Vec<Step<D>>,
    /// The parts before the steps, each of which ends with collective operations.
    segments: Vec<Segment<D>>,
    /// The collective operations since the last barrier.
    collectives: Vec<RecordedCollective>,
    /// Whether the next command follows a barrier.
    barrier: bool,
    bytes: Vec<u8>,
    constants: Vec<u32>,
    bindings: Vec<BufferRef>,
    /// One more than the highest slot that a command refers to.
    slots: usize,
    profile: D::Profile,
    /// The memory of the program, charged to the call that records it.
    charge: Charge,
}

/// The part of a program up to the barrier after collective operations. A queue executes segment after segment, so no
/// thread waits for other ranks.
#[derive(Debug)]
pub struct Segment<D: Deferred> {
    /// The commands up to that barrier.
    pub commands: Arc<CommandProgram<D>>,
    /// The collective operations, which run after the commands. Since no barrier is between them and the last of these,
    /// the order makes no difference.
    pub collectives: Vec<RecordedCollective>,
}

/// A command, and whether it follows a barrier.
#[derive(Debug)]
pub struct Step<D: Deferred> {
    /// The command.
    pub command: Command<D>,
    /// Whether all commands before it have completed when it begins. Commands between two such steps may run at the
    /// same time.
    pub follows_barrier: bool,
}

/// A recorded command. Ranges are of the program's bytes, constants and bindings.
#[derive(Debug)]
pub enum Command<D: Deferred> {
    /// Fills with a pattern of 1, 2 or 4 bytes.
    Fill {
        /// The range to fill.
        target: BufferRef,
        /// The pattern among the bytes.
        pattern: Range<usize>,
    },
    /// Writes bytes.
    Update {
        /// The target.
        target: BufferRef,
        /// The bytes, as a range of those of the program.
        source: Range<usize>,
    },
    /// Copies between ranges of the same length.
    Copy {
        /// The source.
        source: BufferRef,
        /// The target.
        target: BufferRef,
    },
    /// A flush or an invalidation of mapped memory.
    Synchronise {
        /// The range.
        range: BufferRef,
    },
    /// Runs a kernel.
    Dispatch(RecordedDispatch<D>),
}

/// A recorded dispatch.
#[derive(Debug)]
pub struct RecordedDispatch<D: Deferred> {
    /// The executable.
    pub executable: D::Executable,
    /// Which of its functions.
    pub function: ExecutableFunction,
    /// The size; the counts are zero if they are read from a buffer.
    pub grid: Grid,
    /// The range with the workgroup counts, if they are read from a buffer.
    pub indirect: Option<BufferRef>,
    /// Its constants, as a range of those of the program.
    pub constants: Range<usize>,
    /// Its bindings, as a range of those of the program.
    pub bindings: Range<usize>,
}

/// The range of a buffer that a reference resolves to.
#[derive(Debug)]
pub struct ResolvedRange<'a> {
    /// The buffer.
    pub buffer: &'a Arc<dyn Buffer>,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

impl<D: Deferred> CommandProgram<D> {
    /// Runs a command on the calling thread, through mappings of buffers, or returns the dispatch that it is.
    ///
    /// # Errors
    /// Those of the ranges, and of limits.
    pub fn run_transfer<'a>(
        &'a self,
        command: &'a Command<D>,
        table: &[BufferBinding],
    ) -> Result<Option<&'a RecordedDispatch<D>>> {
        match command {
            Command::Fill { target, pattern } => {
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_fill(&**target.buffer, target.offset, target.length, &self.bytes[pattern.clone()])?;
            }
            Command::Update { target, source } => {
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_write(&**target.buffer, target.offset, &self.bytes[source.clone()])?;
            }
            Command::Copy { source, target } => {
                let source = resolve(source, table, BufferUsage::TRANSFER_SOURCE)?;
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_copy(&**source.buffer, source.offset, &**target.buffer, target.offset, target.length)?;
            }
            Command::Synchronise { range } => _ = resolve(range, table, BufferUsage::empty())?,
            Command::Dispatch(dispatch) => return Ok(Some(dispatch)),
        }
        Ok(None)
    }

    /// The size of a dispatch, with the counts read from a buffer if it is indirect.
    ///
    /// # Errors
    /// Those of the range with the counts.
    pub fn grid(&self, dispatch: &RecordedDispatch<D>, table: &[BufferBinding]) -> Result<Grid> {
        let mut grid = dispatch.grid;
        if let Some(counts) = &dispatch.indirect {
            let counts = resolve(counts, table, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?;
            let mut bytes = [0; 12];
            check_range(counts.length, 0, bytes.len() as u64)?;
            buffer_read(&**counts.buffer, counts.offset, &mut bytes)?;
            for (count, word) in grid.count.iter_mut().zip(bytes.chunks_exact(4)) {
                *count = word.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
            }
        }
        Ok(grid)
    }

    /// The ranges of the bindings of a dispatch.
    ///
    /// # Errors
    /// Those of ranges that are not there.
    pub fn bindings_of<'a>(
        &'a self,
        dispatch: &RecordedDispatch<D>,
        table: &'a [BufferBinding],
    ) -> impl Iterator<Item = Result<ResolvedRange<'a>>> {
        self.bindings[dispatch.bindings.clone()].iter().map(|binding| resolve(binding, table, BufferUsage::empty()))
    }

    /// An empty program whose commands may refer to `capacity` slots.
    pub fn new(capacity: u32) -> CommandProgram<D> {
        CommandProgram {
            capacity,
            steps: Vec::new(),
            segments: Vec::new(),
            collectives: Vec::new(),
            barrier: false,
            bytes: Vec::new(),
            constants: Vec::new(),
            bindings: Vec::new(),
            slots: 0,
            profile: D::Profile::default(),
            charge: Charge::of_call_anyway(OBJECT_BYTES),
        }
    }

    /// Drops a reference; the last one recycles the memory.
    pub fn recycle(this: Arc<CommandProgram<D>>) {
        let Some(mut this) = Unshared::new(this) else { return };
        this.segments = Vec::new();
        this.collectives = Vec::new();
        let CommandProgram { steps, barrier, bytes, constants, bindings, slots, profile, charge, .. } = &mut *this;
        let of_steps = steps.drain(..).flat_map(|step| match step.command {
            Command::Fill { target, .. } | Command::Update { target, .. } => [Some(target), None],
            Command::Synchronise { range } => [Some(range), None],
            Command::Copy { source, target } => [Some(source), Some(target)],
            Command::Dispatch(dispatch) => [dispatch.indirect, None],
        });
        for buffer in of_steps.flatten().chain(bindings.drain(..)).filter_map(|reference| reference.buffer) {
            buffer.recycle();
        }
        bytes.clear();
        constants.clear();
        (*barrier, *slots, *profile, *charge) = (false, 0, D::Profile::default(), Charge::default());
        let [of_steps, of_constants, of_bindings] = [
            steps.capacity() * size_of::<Step<D>>(),
            constants.capacity() * size_of::<u32>(),
            bindings.capacity() * size_of::<BufferRef>(),
        ];
        if bytes.capacity() + of_steps + of_constants + of_bindings > MAX_RECYCLED_BYTES {
            return;
        }
        D::free_lists().programs.push(0, this);
    }

    fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()> {
        let step = check_pattern(pattern)?;
        let target = self.check_reference(target, BufferUsage::TRANSFER_TARGET)?;
        // The binding of a slot may begin anywhere, so executions check it.
        if target.buffer.is_some() {
            check_fill(step, target.offset, target.length)?;
        }
        self.charge_memory(pattern.len(), 0)?;
        self.note(&target);
        let pattern = self.store(pattern);
        self.push(Command::Fill { target, pattern });
        Ok(())
    }

    fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        let target = self.check_reference(target, BufferUsage::TRANSFER_TARGET)?;
        if target.length != source.len() as u64 {
            let message = format!("update of {} bytes to a range of {}", source.len(), target.length);
            return Err(Status::invalid_argument(message));
        }
        self.charge_memory(source.len(), 0)?;
        self.note(&target);
        let source = self.store(source);
        self.push(Command::Update { target, source });
        Ok(())
    }

    fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        let source = self.check_reference(source, BufferUsage::TRANSFER_SOURCE)?;
        let target = self.check_reference(target, BufferUsage::TRANSFER_TARGET)?;
        check_copy(source.length, target.length)?;
        self.charge_memory(0, 1)?;
        self.note(&source);
        self.note(&target);
        self.push(Command::Copy { source, target });
        Ok(())
    }

    fn synchronise(&mut self, range: &BufferRef) -> Result<()> {
        let range = self.check_reference(range, BufferUsage::empty())?;
        self.charge_memory(0, 0)?;
        self.note(&range);
        self.push(Command::Synchronise { range });
        Ok(())
    }

    /// Records a dispatch of a device.
    ///
    /// # Errors
    /// Those of [`Deferred::executable`]; INVALID_ARGUMENT, PERMISSION_DENIED or OUT_OF_RANGE for its bindings.
    pub fn dispatch(&mut self, device: D, request: DispatchRequest<'_>) -> Result<()> {
        let executable = device.executable(&request)?;
        let indirect = match request.indirect() {
            Some(counts) => Some(self.check_reference(counts, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?),
            None => None,
        };
        let DispatchRequest { function, constants, bindings, .. } = request;
        self.charge_memory(size_of_val(constants), bindings.len())?;
        let first_binding = self.bindings.len();
        for binding in bindings {
            match self.check_reference(binding, BufferUsage::empty()) {
                Ok(binding) => self.bindings.push(binding),
                Err(status) => {
                    // A dispatch that is refused leaves nothing behind.
                    self.bindings.truncate(first_binding);
                    return Err(status);
                }
            }
        }
        bindings.iter().chain(&indirect).for_each(|reference| self.note(reference));
        let first_constant = self.constants.len();
        self.constants.extend_from_slice(constants);
        self.push(Command::Dispatch(RecordedDispatch {
            executable,
            function,
            grid: request.grid(),
            indirect,
            constants: first_constant..self.constants.len(),
            bindings: first_binding..self.bindings.len(),
        }));
        Ok(())
    }

    /// Records a collective operation.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a channel of another driver or an operation that is none, OUT_OF_RANGE for references.
    pub fn collective(&mut self, request: &CollectiveRequest<'_>) -> Result<()> {
        let (channel, operation) = request.check()?;
        let side = |reference: &BufferRef| {
            // A range that the operation has no use for may name nothing.
            let names_some = reference.buffer.is_some() || reference.length != 0;
            names_some.then(|| self.check_reference(reference, BufferUsage::empty())).transpose()
        };
        let (send, recv) = (side(request.send)?, side(request.recv)?);
        self.charge.add(size_of::<RecordedCollective>() as u64 + 3 * OBJECT_BYTES, "commands of a command buffer")?;
        send.iter().chain(&recv).for_each(|reference| self.note(reference));
        self.collectives.push(RecordedCollective { channel, operation, send, recv });
        Ok(())
    }

    /// Ends a segment if there are collective operations since the last barrier.
    fn end_segment(&mut self) {
        if self.collectives.is_empty() {
            return;
        }
        let mut commands = std::mem::replace(self, CommandProgram::new(self.capacity));
        (self.segments, self.slots) = (std::mem::take(&mut commands.segments), commands.slots);
        let collectives = std::mem::take(&mut commands.collectives);
        self.segments.push(Segment { commands: Arc::new(commands), collectives });
    }

    /// The parts before the steps, in order.
    #[inline]
    pub fn segments(&self) -> &[Segment<D>] {
        &self.segments
    }

    /// Number of all commands.
    fn command_count(&self) -> usize {
        let of_segment = |segment: &Segment<D>| segment.commands.steps.len() + segment.collectives.len();
        self.segments.iter().map(of_segment).sum::<usize>() + self.steps.len() + self.collectives.len()
    }

    /// The commands in the order in which they were recorded, after those of the segments.
    #[inline]
    pub fn steps(&self) -> &[Step<D>] {
        &self.steps
    }

    /// Patterns of fills and bytes of updates.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// The constants of all dispatches.
    #[inline]
    pub fn constants(&self) -> &[u32] {
        &self.constants
    }

    /// The bindings of all dispatches.
    #[inline]
    pub fn bindings(&self) -> &[BufferRef] {
        &self.bindings
    }

    /// The measurements of the device.
    #[inline]
    pub fn profile(&self) -> &D::Profile {
        &self.profile
    }

    /// One more than the highest slot that a command refers to.
    #[inline]
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// Charges the memory of a command with so many bytes and bindings.
    fn charge_memory(&mut self, bytes: usize, bindings: usize) -> Result<()> {
        let objects = (1 + bindings) as u64 * OBJECT_BYTES;
        self.charge.add(size_of::<Step<D>>() as u64 + bytes as u64 + objects, "commands of a command buffer")
    }

    fn push(&mut self, command: Command<D>) {
        self.steps.push(Step { command, follows_barrier: std::mem::take(&mut self.barrier) });
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Checks a reference as far as that does not depend on the binding table, and makes its length explicit if it
    /// names a buffer.
    fn check_reference(&self, reference: &BufferRef, usage: BufferUsage) -> Result<BufferRef> {
        let mut reference = reference.clone();
        match &reference.buffer {
            Some(buffer) => {
                reference.length = check_range(buffer.byte_length(), reference.offset, reference.length)?;
                require_usage(&**buffer, usage)?;
            }
            None if reference.slot >= self.capacity => {
                let message = format!("slot {}: the command buffer has {}", reference.slot, self.capacity);
                return Err(Status::out_of_range(message));
            }
            None => {}
        }
        Ok(reference)
    }

    /// Notes the slot of a command that is recorded.
    fn note(&mut self, reference: &BufferRef) {
        if reference.buffer.is_none() {
            self.slots = self.slots.max(reference.slot as usize + 1);
        }
    }
}

/// Records a [`CommandProgram`].
pub struct ProgramRecorder<D: Deferred>(Unshared<CommandProgram<D>>);

impl<D: Deferred> Recorder for ProgramRecorder<D> {
    type Device = D;
    type Program = CommandProgram<D>;

    fn command_buffers() -> &'static FreeList<Uninit<DeferredCommandBuffer<ProgramRecorder<D>>>> {
        D::free_lists().command_buffers
    }

    /// In the memory of a free program if there is one.
    fn new(_device: &D, capacity: u32, _reusable: bool) -> ProgramRecorder<D> {
        let Some(mut program) = D::free_lists().programs.pop(0) else {
            return ProgramRecorder(Unshared::of(CommandProgram::new(capacity)));
        };
        program.capacity = capacity;
        program.charge = Charge::of_call_anyway(OBJECT_BYTES);
        ProgramRecorder(program)
    }

    fn command_count(&self) -> usize {
        self.0.command_count()
    }

    fn commands_of(program: &CommandProgram<D>) -> usize {
        program.command_count()
    }

    fn barrier(&mut self) -> Result<()> {
        self.0.end_segment();
        self.0.barrier = true;
        Ok(())
    }

    fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()> {
        self.0.fill(target, pattern)
    }

    fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        self.0.update(source, target)
    }

    fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        self.0.copy(source, target)
    }

    fn synchronise(&mut self, range: &BufferRef) -> Result<()> {
        self.0.synchronise(range)
    }

    fn dispatch(&mut self, device: &D, request: DispatchRequest<'_>) -> Result<()> {
        self.0.dispatch(*device, request)
    }

    fn collective(&mut self, request: &CollectiveRequest<'_>) -> Result<()> {
        self.0.collective(request)
    }

    fn finish(mut self, _device: &D) -> Result<Arc<CommandProgram<D>>> {
        self.0.end_segment();
        Ok(self.0.into_shared())
    }

    fn recycle(self) {
        CommandProgram::recycle(self.0.into_shared());
    }

    fn recycle_program(program: Arc<CommandProgram<D>>) {
        CommandProgram::recycle(program);
    }
}

/// Resolves a reference with a binding table. Ranges of buffers that it names were checked while recording.
///
/// # Errors
/// OUT_OF_RANGE if it names a slot that does not exist or is too short, FAILED_PRECONDITION if the slot is null,
/// PERMISSION_DENIED for a usage that the buffer does not allow.
#[inline]
pub fn resolve<'a>(
    reference: &'a BufferRef,
    table: &'a [BufferBinding],
    usage: BufferUsage,
) -> Result<ResolvedRange<'a>> {
    if let Some(buffer) = &reference.buffer {
        return Ok(ResolvedRange { buffer, offset: reference.offset, length: reference.length });
    }
    let slot = reference.slot;
    let binding = table
        .get(slot as usize)
        .ok_or_else(|| Status::out_of_range(format!("slot {slot}: the binding table has {} entries", table.len())))?;
    let buffer = binding
        .buffer
        .as_ref()
        .ok_or_else(|| Status::failed_precondition(format!("slot {slot} of the binding table is null")))?;
    if !usage.is_empty() {
        require_usage(&**buffer, usage)?;
    }
    let available = check_range(buffer.byte_length(), binding.offset, binding.length)?;
    let length = check_range(available, reference.offset, reference.length)?;
    Ok(ResolvedRange { buffer, offset: binding.offset + reference.offset, length })
}
