//! The program that a command buffer is recorded to ([`Program`]). It never changes, so any number of executions may
//! run it.

use std::fmt;

use vireo_cuda::types::CuFunction;

use super::graph::Graphs;
use crate::hal::transfer::{check_copy, check_fill};
use crate::hal::{BufferBinding, WHOLE_BUFFER};
use crate::hal_driver::references::{Base, Held, Place, Resolved};
use crate::limits::Charge;
use crate::memory::DeviceSet;
use crate::status::Result;

/// A launch of a kernel.
#[derive(Clone, Copy, Debug)]
pub struct Launch {
    /// The kernel.
    pub function: CuFunction,
    /// Blocks of the grid along each dimension.
    pub grid: [u32; 3],
    /// Threads of a block along each dimension.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// The place of its arguments in the arena, in units of eight bytes.
    pub arguments: u32,
    /// Bytes of its arguments.
    pub length: u32,
    /// Its export, for errors and times.
    pub export: u32,
}

/// The source of the bytes that a transfer writes.
#[derive(Clone, Copy, Debug)]
pub enum Operation {
    /// A pattern of so many bytes, repeated to eight.
    Fill {
        /// The pattern.
        pattern: u64,
        /// Its bytes.
        step: u64,
    },
    /// The bytes of another place.
    Copy {
        /// That place.
        source: Place,
    },
    /// Bytes of the block, from an offset on.
    Update {
        /// The offset.
        start: u32,
    },
}

/// The counts of a grid that the host reads from memory.
#[derive(Clone, Copy, Debug)]
pub struct Counts {
    /// The place of the counts among those of an execution.
    pub index: u32,
    /// The most blocks along each dimension.
    pub most: [u32; 3],
}

/// A command.
#[derive(Clone, Copy, Debug)]
pub enum Command {
    /// A launch.
    Launch(Launch),
    /// A launch of which the host reads the size; the first one of its block.
    Indirect(Launch, Counts),
    /// A transfer to a place.
    Transfer(Place, Operation),
    /// Copies the size of a grid to where the host reads it; the last one of its block.
    ReadCounts(Place, u32),
    /// Orders what follows after what came before.
    Barrier,
}

/// An address in the arena that depends on the execution.
#[derive(Clone, Copy, Debug)]
pub struct Patch {
    /// Its place, in units of eight bytes.
    pub at: u32,
    /// The base of the address.
    pub base: Base,
    /// Bytes from there.
    pub addend: u64,
}

/// Commands that a stream is given at once.
#[derive(Debug, Default)]
pub struct Block {
    /// The commands in their order.
    pub commands: Vec<Command>,
    /// The arguments of launches.
    pub arena: Vec<u64>,
    /// The addresses in it that executions change.
    pub patches: Vec<Patch>,
    /// The bytes of updates.
    pub bytes: Vec<u8>,
    /// The place of the counts that its first command needs.
    pub needs: Option<u32>,
}

impl Block {
    /// Bytes that it takes.
    pub fn byte_length(&self) -> u64 {
        let commands = size_of_val(self.commands.as_slice()) + size_of_val(self.patches.as_slice());
        (commands + size_of_val(self.arena.as_slice()) + self.bytes.len()) as u64
    }
}

/// A recorded command buffer.
pub struct Program {
    /// Its executable graphs. The first field, so they are gone before the kernels that they launch.
    pub(super) graphs: Graphs,
    /// Its blocks, one at least.
    pub(super) blocks: Vec<Block>,
    /// The buffers and executables that its commands refer to.
    pub(super) held: Held<DeviceSet>,
    /// Transfers whose lengths the binding table decides.
    pub(super) unchecked: Vec<(Place, Operation)>,
    /// Number of commands.
    pub(super) commands: u32,
    /// Sizes of grids that the host reads.
    pub(super) counts: u32,
    /// The names of kernels, by [`Launch::export`].
    pub(super) names: Vec<std::sync::Arc<str>>,
    /// Its memory, charged to the call that recorded it.
    pub(super) _charge: Charge,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program({} commands in {} blocks)", self.commands, self.blocks.len())
    }
}

impl Program {
    /// Its blocks, which are executed one after the other.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// Number of commands.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// How many sizes of grids the host reads.
    pub fn counts(&self) -> u32 {
        self.counts
    }

    /// The name of the kernel of a launch.
    pub fn name(&self, launch: &Launch) -> Option<&std::sync::Arc<str>> {
        self.names.get(launch.export as usize)
    }

    /// Finds the memory of everything that commands refer to, and checks the binding table. `resolved` is empty.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for fewer bindings than there are slots, memory of another kind of device, or lengths that do
    /// not fit each other, OUT_OF_RANGE for a binding that is too short, FAILED_PRECONDITION for an empty one or a
    /// buffer without memory, PERMISSION_DENIED for a usage that the buffer does not allow.
    pub fn resolve(&self, table: &[BufferBinding], resolved: &mut Resolved<DeviceSet>) -> Result<()> {
        self.held.resolve(table, resolved)?;
        for (target, operation) in &self.unchecked {
            let (_, length) = target.range(resolved, 0)?;
            match operation {
                Operation::Fill { step, .. } => check_fill(*step, 0, length)?,
                Operation::Copy { source } => check_copy(source.range(resolved, 0)?.1, length)?,
                Operation::Update { .. } => {}
            }
        }
        Ok(())
    }
}

/// Whether the binding table decides a length of a transfer.
pub(super) fn depends_on_lengths(target: &Place, operation: &Operation) -> bool {
    let source = match operation {
        Operation::Copy { source } => source.length,
        Operation::Fill { .. } | Operation::Update { .. } => 0,
    };
    target.length == WHOLE_BUFFER || source == WHOLE_BUFFER
}
