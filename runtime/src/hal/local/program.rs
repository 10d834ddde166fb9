//! What a command buffer records: a flat list of commands, with what they carry in arrays beside it.
//!
//! Everything that does not depend on the binding table is checked while recording. A program never changes once it is recorded, so
//! any number of executions may run it.

use std::ops::Range;
use std::sync::Arc;

use super::dispatch::{self, Grid};
use super::kernels::{Arguments, Bindings, Kernels};
use super::worker::Worker;
use crate::hal::transfer::check_range;
use crate::hal::{
    Buffer, BufferBinding, BufferRef, BufferUsage, ExecutableFunction, buffer_copy, buffer_fill, buffer_read,
    buffer_write, require_usage,
};
use crate::status::{Result, Status};

/// A recorded program.
#[derive(Debug)]
pub(super) struct Program {
    /// Slots of the binding table that commands may refer to.
    capacity: u32,
    commands: Vec<Command>,
    bytes: Vec<u8>,
    constants: Vec<u32>,
    bindings: Vec<BufferRef>,
    /// One more than the highest slot that a command refers to.
    slots: usize,
}

#[derive(Debug)]
enum Command {
    Fill { target: BufferRef, pattern: Range<usize> },
    Update { target: BufferRef, source: Range<usize> },
    Copy { source: BufferRef, target: BufferRef },
    Dispatch(Dispatch),
}

#[derive(Debug)]
struct Dispatch {
    executable: Arc<dyn Kernels>,
    function: ExecutableFunction,
    grid: Grid,
    /// Where the workgroup counts are, if they are read from a buffer.
    indirect: Option<BufferRef>,
    constants: Range<usize>,
    bindings: Range<usize>,
}

/// A dispatch as it is handed in.
#[derive(Debug)]
pub(super) struct DispatchRequest<'a> {
    pub(super) executable: Arc<dyn Kernels>,
    pub(super) function: ExecutableFunction,
    pub(super) grid: Grid,
    pub(super) indirect: Option<&'a BufferRef>,
    pub(super) constants: &'a [u32],
    pub(super) bindings: &'a [BufferRef],
}

/// A range of a buffer that a reference stands for.
struct Resolved<'a> {
    buffer: &'a Arc<dyn Buffer>,
    offset: u64,
    length: u64,
}

impl Program {
    /// An empty program whose commands may refer to `capacity` slots.
    pub(super) fn new(capacity: u32) -> Program {
        Program {
            capacity,
            commands: Vec::new(),
            bytes: Vec::new(),
            constants: Vec::new(),
            bindings: Vec::new(),
            slots: 0,
        }
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
        let pattern = self.store(pattern);
        self.commands.push(Command::Fill { target, pattern });
        Ok(())
    }

    pub(super) fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        let target = self.reference(target, BufferUsage::TRANSFER_TARGET)?;
        if target.length != source.len() as u64 {
            let message = format!("update of {} bytes to a range of {}", source.len(), target.length);
            return Err(Status::invalid_argument(message));
        }
        let source = self.store(source);
        self.commands.push(Command::Update { target, source });
        Ok(())
    }

    pub(super) fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        let source = self.reference(source, BufferUsage::TRANSFER_SOURCE)?;
        let target = self.reference(target, BufferUsage::TRANSFER_TARGET)?;
        if source.length != target.length {
            let message = format!("copy of a range of {} bytes to one of {}", source.length, target.length);
            return Err(Status::invalid_argument(message));
        }
        self.commands.push(Command::Copy { source, target });
        Ok(())
    }

    pub(super) fn dispatch(&mut self, request: DispatchRequest<'_>) -> Result<()> {
        let DispatchRequest { executable, function, grid, indirect, constants, bindings } = request;
        executable.check_arguments(function, constants.len(), bindings.len())?;
        dispatch::check_z(grid.size[2], "workgroup size")?;
        grid.workgroups()?;
        let indirect = match indirect {
            Some(counts) => Some(self.reference(counts, BufferUsage::empty())?),
            None => None,
        };
        let first_binding = self.bindings.len();
        for binding in bindings {
            let binding = self.reference(binding, BufferUsage::empty())?;
            self.bindings.push(binding);
        }
        let first_constant = self.constants.len();
        self.constants.extend_from_slice(constants);
        self.commands.push(Command::Dispatch(Dispatch {
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
        self.commands.len()
    }

    /// One more than the highest slot that a command refers to.
    pub(super) fn slots(&self) -> usize {
        self.slots
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

    /// Runs all commands in order.
    pub(super) fn run(&self, table: &[BufferBinding]) -> Result<()> {
        for (index, command) in self.commands.iter().enumerate() {
            self.run_command(command, table).map_err(|status| {
                // The position tells commands apart that look alike.
                status.context(format!("command {index} of {} ({})", self.len(), command.name()))
            })?;
        }
        Ok(())
    }

    fn run_command(&self, command: &Command, table: &[BufferBinding]) -> Result<()> {
        match command {
            Command::Fill { target, pattern } => {
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_fill(&**target.buffer, target.offset, target.length, &self.bytes[pattern.clone()])
            }
            Command::Update { target, source } => {
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_write(&**target.buffer, target.offset, &self.bytes[source.clone()])
            }
            Command::Copy { source, target } => {
                let source = resolve(source, table, BufferUsage::TRANSFER_SOURCE)?;
                let target = resolve(target, table, BufferUsage::TRANSFER_TARGET)?;
                buffer_copy(&**source.buffer, source.offset, &**target.buffer, target.offset, target.length)
            }
            Command::Dispatch(dispatch) => self.run_dispatch(dispatch, table),
        }
    }

    fn run_dispatch(&self, dispatch: &Dispatch, table: &[BufferBinding]) -> Result<()> {
        let mut grid = dispatch.grid;
        if let Some(counts) = &dispatch.indirect {
            let counts = resolve(counts, table, BufferUsage::empty())?;
            let mut bytes = [0; 12];
            check_range(counts.length, 0, bytes.len() as u64)?;
            buffer_read(&**counts.buffer, counts.offset, &mut bytes)?;
            for (count, word) in grid.count.iter_mut().zip(bytes.chunks_exact(4)) {
                *count = word.iter().rev().fold(0, |value, byte| value << 8 | u32::from(*byte));
            }
        }
        let mut bindings = Bindings::default();
        for binding in &self.bindings[dispatch.bindings.clone()] {
            let Resolved { buffer, offset, length } = resolve(binding, table, BufferUsage::empty())?;
            bindings.bind(&**buffer, offset, length)?;
        }
        let constants = &self.constants[dispatch.constants.clone()];
        let arguments = Arguments { grid, constants, bindings: &bindings, concurrency: 1 };
        let workgroups = 0..grid.workgroups()?;
        Worker::with(|worker| dispatch.executable.run(dispatch.function, &arguments, workgroups, worker))
    }
}

impl Command {
    fn name(&self) -> String {
        match self {
            Command::Fill { .. } => "fill".to_string(),
            Command::Update { .. } => "update".to_string(),
            Command::Copy { .. } => "copy".to_string(),
            Command::Dispatch(dispatch) => {
                format!("dispatch of {}", dispatch.executable.name(dispatch.function))
            }
        }
    }
}

/// The range that a reference stands for. Ranges of buffers it names were checked while recording.
fn resolve<'a>(reference: &'a BufferRef, table: &'a [BufferBinding], usage: BufferUsage) -> Result<Resolved<'a>> {
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
