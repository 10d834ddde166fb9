//! The parts of the generated checks of arguments: ranges, usage, access, lengths and makers. A reference to a slot of
//! the binding table is kept, and checked when an execution binds it.

use std::sync::{Arc, Weak};

use super::needs::{Collected, Needs, SlotUse};
use super::recording::Recorded;
use super::state::Validate;
use crate::hal::{Buffer, BufferBarrier, BufferBinding, BufferRef, File, check_range};
use crate::observe::Known;
use crate::observe::{Call, Called};
use crate::status::{Result, Status};

/// The checks of one call.
pub(crate) struct Checks<'a> {
    validate: &'a Validate,
    pub(super) called: &'a Called<'a>,
    pub(super) collected: Collected,
}

impl<'a> Checks<'a> {
    pub(super) fn new(validate: &'a Validate, called: &'a Called<'a>) -> Checks<'a> {
        Checks { validate, called, collected: Collected::default() }
    }

    /// The argument has one of these numbers of bytes or items.
    pub(crate) fn length_of(&self, name: &str, length: usize, expected: &[u64]) -> Result<()> {
        if expected.contains(&(length as u64)) {
            return Ok(());
        }
        Err(Status::invalid_argument(format!("`{name}` has length {length}: expected one of {expected:?}")))
    }

    /// The argument has at most so many bytes or items.
    pub(crate) fn length_up_to(&self, name: &str, length: usize, most: u64) -> Result<()> {
        if length as u64 <= most {
            return Ok(());
        }
        Err(Status::out_of_range(format!("`{name}` has length {length}: expected at most {most}")))
    }

    /// The arguments have as many bytes, where that is known before an execution.
    pub(crate) fn same_length(&self, (name, length): (&str, Option<u64>), other: (&str, Option<u64>)) -> Result<()> {
        match (length, other.1) {
            (Some(length), Some(expected)) if length != expected => {
                let other = other.0;
                let message = format!("`{name}` is a range of {length} bytes: expected {expected}, as `{other}` has");
                Err(Status::invalid_argument(message))
            }
            _ => Ok(()),
        }
    }

    /// The object is of the device that is called, or that made the object that is called.
    pub(crate) fn same_device<T: Known + ?Sized>(&self, name: &str, object: &Arc<T>) -> Result<()> {
        let object = self.called.id(object);
        let devices = self.validate.device_of(object).zip(self.validate.device_of(self.called.object()));
        match devices {
            Some((maker, device)) if maker != device => {
                let message = format!("`{name}`: {object} was made by {maker}, expected one of {device}");
                Err(Status::invalid_argument(message))
            }
            _ => Ok(()),
        }
    }

    /// A range of a buffer. Gives the number of its bytes.
    pub(crate) fn buffer(
        &mut self,
        name: &str,
        buffer: &Arc<dyn Buffer>,
        offset: u64,
        length: u64,
        needs: Needs,
    ) -> Result<u64> {
        let check = || {
            let length = check_range(buffer.byte_length(), offset, length)?;
            needs.check_range(offset, length)?;
            needs.check_buffer(&**buffer)?;
            Ok(length)
        };
        let length = check().map_err(|status: Status| status.context(format!("`{name}`")))?;
        self.has_memory(name, buffer)?;
        Ok(length)
    }

    /// A range of a file.
    pub(crate) fn file(&self, name: &str, file: &Arc<dyn File>, offset: u64, length: u64, needs: Needs) -> Result<()> {
        let file = self.called.unwrapped(file);
        check_range(file.length(), offset, length).map_err(|status| status.context(format!("`{name}`")))?;
        let allowed = file.allowed_access();
        if allowed.contains(needs.access) {
            return Ok(());
        }
        let message = format!("`{name}`: the file does not allow {:?}: it allows {allowed:?}", needs.access - allowed);
        Err(Status::permission_denied(message))
    }

    /// A range of a buffer, or of a slot. Gives the number of its bytes if that is known.
    pub(crate) fn reference(&mut self, name: &str, reference: &BufferRef, needs: Needs) -> Result<Option<u64>> {
        let BufferRef { buffer, slot, offset, length } = reference;
        if let Some(buffer) = buffer {
            return self.buffer(name, buffer, *offset, *length, needs).map(Some);
        }
        let slots = self.validate.command_buffers.slots(self.called.object());
        if *slot >= slots {
            let message = format!("`{name}` is slot {slot}: expected a buffer, or one of {slots} slots");
            return Err(Status::out_of_range(message));
        }
        self.collected.uses.push(SlotUse { slot: *slot, offset: *offset, length: *length, needs });
        Ok(Some(*length).filter(|length| *length != crate::hal::WHOLE_BUFFER))
    }

    /// The same for each of a list.
    pub(crate) fn references(&mut self, name: &str, references: &[BufferRef], needs: Needs) -> Result<()> {
        for (index, reference) in references.iter().enumerate() {
            self.reference(&format!("{name}[{index}]"), reference, needs)?;
        }
        Ok(())
    }

    /// The ranges of barriers.
    pub(super) fn check_barriers(&mut self) -> Result<()> {
        let barriers: &[BufferBarrier] = match self.called.call() {
            Call::CommandBufferExecutionBarrier { buffer_barriers, .. }
            | Call::CommandBufferWaitEvents { buffer_barriers, .. } => buffer_barriers,
            _ => return Ok(()),
        };
        for (index, barrier) in barriers.iter().enumerate() {
            self.reference(&format!("buffer_barriers[{index}]"), &barrier.buffer_ref, Needs::default())?;
        }
        Ok(())
    }

    /// Checks that all bindings to which recorded commands refer are in the binding table, and fit for them.
    pub(super) fn check_bindings(&mut self, recorded: &Recorded, table: &[BufferBinding]) -> Result<()> {
        for used in &recorded.uses {
            let name = format!("binding_table[{}]", used.slot);
            let binding = table.get(used.slot as usize);
            let buffer = binding.and_then(|binding| binding.buffer.as_ref());
            let Some((binding, buffer)) = binding.zip(buffer) else {
                return Err(Status::failed_precondition(format!("`{name}` is null, and commands refer to it")));
            };
            let check = || {
                let available = check_range(buffer.byte_length(), binding.offset, binding.length)?;
                let length = check_range(available, used.offset, used.length)?;
                // Both are within the buffer, so the sum is as well.
                used.needs.check_range(binding.offset + used.offset, length)?;
                used.needs.check_buffer(&**buffer)
            };
            check().map_err(|status: Status| status.context(format!("`{name}`")))?;
            self.has_memory(&name, buffer)?;
        }
        for buffer in recorded.transients.iter().filter_map(Weak::upgrade) {
            self.has_memory("command_buffer", &buffer)?;
        }
        Ok(())
    }

    /// The buffer has memory when the operation runs, as far as that can be known. What is recorded is checked when it
    /// is executed.
    fn has_memory(&mut self, name: &str, buffer: &Arc<dyn Buffer>) -> Result<()> {
        match self.called.call().points() {
            Some((wait, _)) => self.validate.transients.check(self.called, name, buffer, wait),
            None if self.called.call().recorded().is_some() => {
                self.collected.transients.extend(self.validate.transients.find(self.called, buffer));
                Ok(())
            }
            None => Ok(()),
        }
    }
}
