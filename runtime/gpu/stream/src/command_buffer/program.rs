//! The program that a command buffer is recorded to ([`Program`]). It never changes, so any number of executions may
//! run it.

use std::fmt;

use super::block::{Block, Launch, Operation};
use super::graph::Graphs;
use crate::collectives::RecordedCollective;
use crate::hal::BufferBinding;
use crate::hal::transfer::{check_copy, check_fill};
use crate::hal_driver::references::{Held, Place, Resolved};
use crate::limits::Charge;
use crate::memory::DeviceSet;
use crate::status::Result;

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

    /// The groups of collective operations, in their order.
    pub fn collectives(&self) -> impl Iterator<Item = &[RecordedCollective]> {
        self.blocks.iter().map(|block| block.collectives.as_slice()).filter(|group| !group.is_empty())
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
