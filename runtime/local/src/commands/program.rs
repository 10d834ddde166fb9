//! What a command buffer records: a flat list of commands, with what they carry in arrays beside it.
//!
//! Everything that does not depend on the binding table is checked while recording. A program never changes once it is recorded, so
//! any number of executions may run it; how they do is in `execution`.

use std::ops::Range;
use std::sync::Arc;

use super::timing::Timing;
use crate::hal::host_kernels::{Grid, HostKernels, check_z};
use crate::hal::recycle::kept;
use crate::hal::transfer::check_range;
use crate::hal::{Buffer, BufferBinding, BufferRef, BufferUsage, ExecutableFunction, require_usage};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::status::{Result, Status};

/// Most programs whose memory a thread keeps.
const MAX_KEPT: usize = 8;

/// A program that carried more bytes than this is not kept.
const MAX_KEPT_BYTES: usize = 1 << 20;

kept! { static KEPT: Arc<Program>, MAX_KEPT }

/// A recorded program.
#[derive(Debug)]
pub(crate) struct Program {
    /// Slots of the binding table that commands may refer to.
    capacity: u32,
    pub(super) steps: Vec<Step>,
    /// The next command is recorded after a barrier.
    barrier: bool,
    pub(super) bytes: Vec<u8>,
    pub(super) constants: Vec<u32>,
    pub(super) bindings: Vec<BufferRef>,
    /// One more than the highest slot that a command refers to.
    slots: usize,
    pub(super) timing: Timing,
    /// What counts the memory of all that.
    charge: Charge,
}

/// A command and how it is ordered.
#[derive(Debug)]
pub(super) struct Step {
    pub(super) command: Command,
    /// All commands before it are done when it begins. Commands between two such steps may run at the same time.
    pub(super) follows_barrier: bool,
}

#[derive(Debug)]
pub(super) enum Command {
    Fill {
        target: BufferRef,
        pattern: Range<usize>,
    },
    Update {
        target: BufferRef,
        source: Range<usize>,
    },
    Copy {
        source: BufferRef,
        target: BufferRef,
    },
    /// Memory of the host is coherent, so all that a flush or an invalidation does is to check its range.
    Synchronise {
        range: BufferRef,
    },
    Dispatch(Dispatch),
}

#[derive(Debug)]
pub(super) struct Dispatch {
    pub(super) executable: Arc<dyn HostKernels>,
    pub(super) function: ExecutableFunction,
    pub(super) grid: Grid,
    /// Where the workgroup counts are, if they are read from a buffer.
    pub(super) indirect: Option<BufferRef>,
    pub(super) constants: Range<usize>,
    pub(super) bindings: Range<usize>,
}

/// A dispatch as it is handed in.
#[derive(Debug)]
pub(crate) struct DispatchRequest<'a> {
    pub(super) executable: Arc<dyn HostKernels>,
    pub(super) function: ExecutableFunction,
    pub(super) grid: Grid,
    pub(super) indirect: Option<&'a BufferRef>,
    pub(super) constants: &'a [u32],
    pub(super) bindings: &'a [BufferRef],
}

/// A range of a buffer that a reference stands for.
pub(super) struct Resolved<'a> {
    pub(super) buffer: &'a Arc<dyn Buffer>,
    pub(super) offset: u64,
    pub(super) length: u64,
}

impl Program {
    /// An empty program whose commands may refer to `capacity` slots.
    pub(crate) fn new(capacity: u32) -> Program {
        Program {
            capacity,
            steps: Vec::new(),
            barrier: false,
            bytes: Vec::new(),
            constants: Vec::new(),
            bindings: Vec::new(),
            slots: 0,
            timing: Timing::default(),
            charge: Charge::of_call_anyway(OBJECT_BYTES),
        }
    }

    /// The same for who shares it once it is recorded, in memory of a program that is gone if the thread has some.
    pub(super) fn start(capacity: u32) -> Arc<Program> {
        if let Some(mut kept) = KEPT.take(0)
            && let Some(program) = Arc::get_mut(&mut kept)
        {
            program.capacity = capacity;
            program.charge = Charge::of_call_anyway(OBJECT_BYTES);
            return kept;
        }
        Arc::new(Program::new(capacity))
    }

    /// Lets go of a reference. Who has the last one keeps the memory for the next program.
    pub(crate) fn retire(mut this: Arc<Program>) {
        let Some(program) = Arc::get_mut(&mut this) else { return };
        let Program { steps, barrier, bytes, constants, bindings, slots, timing, charge, capacity: _ } = program;
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
        (*barrier, *slots, *timing, *charge) = (false, 0, Timing::default(), Charge::default());
        if bytes.capacity() > MAX_KEPT_BYTES {
            return;
        }
        KEPT.keep(0, this);
    }

    pub(super) fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()> {
        let step = crate::hal::transfer::check_pattern(pattern)?;
        let target = self.reference(target, BufferUsage::TRANSFER_TARGET)?;
        if target.buffer.is_some() && !(target.offset.is_multiple_of(step) && target.length.is_multiple_of(step)) {
            return Err(Status::invalid_argument(format!(
                "fill at offset {} of length {}: expected multiples of the pattern's {step} bytes",
                target.offset, target.length
            )));
        }
        self.count(pattern.len(), 0)?;
        let pattern = self.store(pattern);
        self.push(Command::Fill { target, pattern });
        Ok(())
    }

    pub(super) fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        let target = self.reference(target, BufferUsage::TRANSFER_TARGET)?;
        if target.length != source.len() as u64 {
            let message = format!("update of {} bytes to a range of {}", source.len(), target.length);
            return Err(Status::invalid_argument(message));
        }
        self.count(source.len(), 0)?;
        let source = self.store(source);
        self.push(Command::Update { target, source });
        Ok(())
    }

    pub(super) fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        let source = self.reference(source, BufferUsage::TRANSFER_SOURCE)?;
        let target = self.reference(target, BufferUsage::TRANSFER_TARGET)?;
        if source.length != target.length {
            let message = format!("copy of a range of {} bytes to one of {}", source.length, target.length);
            return Err(Status::invalid_argument(message));
        }
        self.count(0, 1)?;
        self.push(Command::Copy { source, target });
        Ok(())
    }

    pub(super) fn synchronise(&mut self, range: &BufferRef) -> Result<()> {
        let range = self.reference(range, BufferUsage::empty())?;
        self.push(Command::Synchronise { range });
        Ok(())
    }

    pub(crate) fn dispatch(&mut self, request: DispatchRequest<'_>) -> Result<()> {
        let DispatchRequest { executable, function, grid, indirect, constants, bindings } = request;
        executable.check_arguments(function, constants.len(), bindings.len())?;
        check_z(grid.size[2], "workgroup size")?;
        grid.workgroups()?;
        let indirect = match indirect {
            Some(counts) => Some(self.reference(counts, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?),
            None => None,
        };
        self.count(size_of_val(constants), bindings.len())?;
        let first_binding = self.bindings.len();
        for binding in bindings {
            let binding = self.reference(binding, BufferUsage::empty())?;
            self.bindings.push(binding);
        }
        let first_constant = self.constants.len();
        self.constants.extend_from_slice(constants);
        self.push(Command::Dispatch(Dispatch {
            executable,
            function,
            grid,
            indirect,
            constants: first_constant..self.constants.len(),
            bindings: first_binding..self.bindings.len(),
        }));
        Ok(())
    }

    /// Number of commands.
    pub(super) fn len(&self) -> usize {
        self.steps.len()
    }

    /// One more than the highest slot that a command refers to.
    pub(crate) fn slots(&self) -> usize {
        self.slots
    }

    /// Whatever is recorded from here on begins after everything recorded so far is done.
    pub(super) fn barrier(&mut self) {
        self.barrier = true;
    }

    /// Counts the memory of a command with so many bytes and bindings beside it.
    fn count(&mut self, bytes: usize, bindings: usize) -> Result<()> {
        let objects = (1 + bindings) as u64 * OBJECT_BYTES;
        self.charge.add(size_of::<Step>() as u64 + bytes as u64 + objects, "commands of a command buffer")
    }

    fn push(&mut self, command: Command) {
        self.steps.push(Step { command, follows_barrier: std::mem::take(&mut self.barrier) });
    }

    fn store(&mut self, bytes: &[u8]) -> Range<usize> {
        let start = self.bytes.len();
        self.bytes.extend_from_slice(bytes);
        start..self.bytes.len()
    }

    /// Checks a reference as far as it can be checked now, and makes its length explicit if it names a buffer.
    fn reference(&mut self, reference: &BufferRef, usage: BufferUsage) -> Result<BufferRef> {
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
            None => self.slots = self.slots.max(reference.slot as usize + 1),
        }
        Ok(reference)
    }
}

/// The range that a reference stands for. Ranges of buffers it names were checked while recording.
pub(super) fn resolve<'a>(
    reference: &'a BufferRef,
    table: &'a [BufferBinding],
    usage: BufferUsage,
) -> Result<Resolved<'a>> {
    if let Some(buffer) = &reference.buffer {
        return Ok(Resolved { buffer, offset: reference.offset, length: reference.length });
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
    Ok(Resolved { buffer, offset: binding.offset + reference.offset, length })
}
