//! The program that a command buffer is recorded to ([`Program`]): the templates of its blocks, the buffers and executables that it holds, and
//! the slots of the binding table that it uses. It never changes, so any number of executions may run it.
//!
//! [`Program::resolve`] checks the table of an execution against what commands need of its slots, and notes the addresses. What then writes packets
//! adds offsets that were checked.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::published::PublishedArguments;
use super::references::access_of;
use super::template::Template;
use super::transfer::TransferKernels;
use crate::hal::{Buffer, BufferBinding, BufferUsage, Executable, check_range, require_access, require_usage};
use crate::limits::Charge;
use crate::memory::{AgentMask, DeviceRange, device_range};
use crate::status::{Result, Status};

/// A recorded command buffer.
pub struct Program {
    /// Its blocks, one at least.
    pub(super) templates: Vec<Template>,
    /// What static ordinals refer to.
    pub(super) buffers: Vec<StaticBuffer>,
    /// The ordinals of buffers whose memory an execution has to find.
    pub(super) transient: Vec<u32>,
    /// The GPUs that may access the memory of all others.
    pub(super) reached_by: AgentMask,
    /// The executables whose kernels it runs.
    pub(super) _executables: Vec<Arc<dyn Executable>>,
    /// What commands need of the slots that they use, by slot.
    pub(super) slots: Vec<SlotUse>,
    /// The templates whose transfers have lengths that the binding table decides.
    pub(super) unchecked: Vec<u32>,
    /// The arguments that were published when recording ended.
    pub(super) _published: PublishedArguments,
    /// The driver's kernels, if commands need them.
    pub(super) kernels: Option<TransferKernels>,
    /// Number of commands.
    pub(super) commands: u32,
    /// Its memory, charged to the call that recorded it.
    pub(super) _charge: Charge,
}

/// A buffer that a program holds.
#[derive(Debug)]
pub struct StaticBuffer {
    /// The buffer: an allocation, never a part of one.
    pub buffer: Arc<dyn Buffer>,
    /// Its address, if that stays the same as long as the buffer lives.
    pub fixed: Option<u64>,
    /// The GPUs that may access it, if it has such an address.
    pub reached_by: AgentMask,
}

/// What the commands of a program need of a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotUse {
    pub(super) slot: u32,
    /// The end of the range that commands use, in bytes from the start of the binding.
    pub(super) end: u64,
    pub(super) usage: BufferUsage,
}

impl Drop for Program {
    fn drop(&mut self) {
        self.templates.drain(..).for_each(Template::recycle);
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "program({} commands in {} blocks)", self.commands, self.templates.len())
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

/// The addresses of an execution. Its memory is used again.
#[derive(Default)]
pub struct Resolved {
    /// The GPUs that may access all of them.
    pub reached_by: AgentMask,
    /// By slot; those that no command uses are empty.
    pub slots: Vec<ResolvedSlot>,
    /// By static ordinal; those whose addresses the templates have are empty.
    pub buffers: Vec<ResolvedSlot>,
    /// What keeps the memory allocated until the execution has completed.
    pub owners: Vec<Arc<dyn Any + Send + Sync>>,
}

impl fmt::Debug for Resolved {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved").field("slots", &self.slots).field("buffers", &self.buffers).finish()
    }
}

impl Resolved {
    /// Lets go of all memory.
    pub fn clear(&mut self) {
        self.reached_by = AgentMask::ALL;
        self.slots.clear();
        self.buffers.clear();
        self.owners.clear();
    }
}

impl Program {
    /// The templates of its blocks, which are executed one after the other.
    pub fn templates(&self) -> &[Template] {
        &self.templates
    }

    /// The driver's kernels, if commands need them.
    pub fn kernels(&self) -> Option<&TransferKernels> {
        self.kernels.as_ref()
    }

    /// Number of commands.
    pub fn commands(&self) -> u32 {
        self.commands
    }

    /// Finds the memory of everything that commands refer to, and checks the binding table. `resolved` is empty.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for fewer bindings than there are slots, or memory of another kind of device, OUT_OF_RANGE for a binding that is too
    /// short, FAILED_PRECONDITION for an empty one or a buffer without memory, PERMISSION_DENIED for a usage that the buffer does not allow.
    pub fn resolve(&self, table: &[BufferBinding], resolved: &mut Resolved) -> Result<()> {
        resolved.reached_by = self.reached_by;
        if let Some(last) = self.transient.last() {
            resolved.buffers.resize(*last as usize + 1, ResolvedSlot::default());
        }
        for ordinal in &self.transient {
            let DeviceRange { address, length, reached_by, owner } =
                device_range(&*self.buffers[*ordinal as usize].buffer)?;
            resolved.reached_by = resolved.reached_by & reached_by;
            resolved.buffers[*ordinal as usize] = ResolvedSlot { address, length };
            resolved.owners.push(owner);
        }
        let slots = self.slots.last().map_or(0, |last| last.slot as usize + 1);
        if slots > table.len() {
            let given = table.len();
            return Err(Status::invalid_argument(format!("the commands refer to {slots} slots, {given} are bound")));
        }
        resolved.slots.resize(slots, ResolvedSlot::default());
        for SlotUse { slot, end, usage } in &self.slots {
            let binding = &table[*slot as usize];
            let buffer = binding.buffer.as_ref();
            let buffer = buffer
                .ok_or_else(|| Status::failed_precondition(format!("slot {slot} of the binding table is null")))?;
            require_usage(&**buffer, *usage)?;
            require_access(&**buffer, access_of(*usage))?;
            let length = check_range(buffer.byte_length(), binding.offset, binding.length)?;
            check_range(length, 0, *end).map_err(|status| status.context(format!("slot {slot}")))?;
            let DeviceRange { address, reached_by, owner, .. } = device_range(&**buffer)?;
            resolved.reached_by = resolved.reached_by & reached_by;
            resolved.slots[*slot as usize] = ResolvedSlot { address: address + binding.offset, length };
            resolved.owners.push(owner);
        }
        for index in &self.unchecked {
            self.templates[*index as usize].check(resolved)?;
        }
        Ok(())
    }
}
