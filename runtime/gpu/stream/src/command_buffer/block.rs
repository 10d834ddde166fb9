//! Commands with packed arguments, which a stream is given without the host in between ([`Block`]).

use vireo_cuda::types::CuFunction;

use crate::collectives::RecordedCollective;
use crate::hal::WHOLE_BUFFER;
use crate::hal_driver::references::{Base, Place};

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

impl Counts {
    /// Bytes of the counts of a grid.
    pub(super) const LENGTH: u64 = 3 * size_of::<u32>() as u64;

    /// Bytes from those of one grid to those of the next where the host reads them.
    pub(crate) const BYTES: u64 = Counts::LENGTH.next_power_of_two();
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
    /// Collective operations, which may run at the same time. A block with them has nothing else.
    pub collectives: Vec<RecordedCollective>,
}

impl Block {
    /// Its launches.
    pub fn launches(&self) -> usize {
        self.commands.iter().filter(|command| matches!(command, Command::Launch(_) | Command::Indirect(..))).count()
    }

    /// Bytes that it takes.
    pub fn byte_length(&self) -> u64 {
        let commands = size_of_val(self.commands.as_slice()) + size_of_val(self.patches.as_slice());
        let collectives = size_of_val(self.collectives.as_slice());
        (commands + collectives + size_of_val(self.arena.as_slice()) + self.bytes.len()) as u64
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
