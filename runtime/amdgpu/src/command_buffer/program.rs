//! The program that a command buffer is recorded to ([`Program`]): its blocks, the buffers and executables that it holds, and the slots of the
//! binding table that it uses. It never changes, so any number of executions may run it.
//!
//! [`Program::resolve`] checks the table of an execution against every use of its slots, once for all blocks, and notes the addresses. What then
//! turns blocks into packets adds offsets that were checked.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use vireo_hsa::command_buffer::CommandBlockHeader;

use super::arguments::ArgumentMemory;
use crate::hal::deferred::resolve;
use crate::hal::{Buffer, BufferBinding, BufferRef, BufferUsage, Executable};
use crate::memory::{DeviceRange, device_range};
use crate::status::Result;

/// A recorded command buffer.
pub struct Program {
    pub(super) blocks: Vec<Vec<u8>>,
    /// What static ordinals refer to.
    pub(super) buffers: Vec<Arc<dyn Buffer>>,
    /// The executables whose kernels it runs.
    pub(super) _executables: Vec<Arc<dyn Executable>>,
    /// Every use of a slot, with what the use needs.
    pub(super) slot_uses: Vec<(BufferRef, BufferUsage)>,
    /// The arguments that were published when recording ended.
    pub(super) published: Option<PublishedArguments>,
    /// Number of commands.
    pub(super) commands: u32,
    /// Whether some are not dispatches of programs alone.
    pub(super) needs_transfers: bool,
}

/// Arguments in memory that belongs to a program.
pub struct PublishedArguments {
    /// The memory.
    pub memory: ArgumentMemory,
    /// Its address for kernels.
    pub address: u64,
    /// Keeps it allocated.
    pub owner: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program({} commands in {} blocks)", self.commands, self.blocks.len())
    }
}

/// A buffer or slot of an execution.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResolvedSlot {
    /// Address of its first byte.
    pub address: u64,
    /// Bytes; no use goes beyond them.
    pub length: u64,
}

/// The addresses of an execution.
#[derive(Default)]
pub struct Resolved {
    /// By slot; those that no command uses are empty.
    pub slots: Vec<ResolvedSlot>,
    /// By static ordinal.
    pub buffers: Vec<ResolvedSlot>,
    /// What keeps the memory allocated until the execution has completed.
    pub owners: Vec<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved").field("slots", &self.slots).field("buffers", &self.buffers).finish()
    }
}

impl Program {
    /// Its blocks; the first one is run first.
    pub fn blocks(&self) -> &[Vec<u8>] {
        &self.blocks
    }

    /// Most bytes of arguments of a block, as its header has it.
    pub fn kernarg_length(&self, block: u32) -> u64 {
        let header = self.blocks.get(block as usize).and_then(|bytes| bytes.first_chunk());
        header.map_or(0, |header| CommandBlockHeader::read(header).kernarg_length.into())
    }

    /// Whether it runs kernels of the driver: those of transfers, or that for grids whose size is in memory.
    pub fn needs_transfers(&self) -> bool {
        self.needs_transfers
    }

    /// Number of commands.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// The address of the arguments that were published when recording ended; 0 if there are none.
    pub fn published_address(&self) -> u64 {
        self.published.as_ref().map_or(0, |published| published.address)
    }

    /// Finds the memory of everything that commands refer to, and checks the binding table.
    ///
    /// # Errors
    /// OUT_OF_RANGE for a slot that is not bound or too short, FAILED_PRECONDITION for an empty one or a buffer without memory,
    /// PERMISSION_DENIED for a usage that the buffer does not allow, INVALID_ARGUMENT for memory of another kind of device.
    pub fn resolve(&self, table: &[BufferBinding]) -> Result<Resolved> {
        let mut resolved = Resolved::default();
        for buffer in &self.buffers {
            let DeviceRange { address, length, owner, .. } = device_range(&**buffer)?;
            resolved.buffers.push(ResolvedSlot { address, length });
            resolved.owners.push(owner);
        }
        for (reference, usage) in &self.slot_uses {
            // Checks the range and the usage.
            let range = resolve(reference, table, *usage)?;
            let slot = reference.slot as usize;
            if resolved.slots.get(slot).is_some_and(|slot| slot.address != 0) {
                continue;
            }
            let DeviceRange { address, length, owner, .. } = device_range(&**range.buffer)?;
            if resolved.slots.len() <= slot {
                resolved.slots.resize(slot + 1, ResolvedSlot::default());
            }
            let binding = &table[slot];
            let available = crate::hal::check_range(length, binding.offset, binding.length)?;
            resolved.slots[slot] = ResolvedSlot { address: address + binding.offset, length: available };
            resolved.owners.push(owner);
        }
        Ok(resolved)
    }
}
