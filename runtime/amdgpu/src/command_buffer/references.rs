//! What commands refer to ([`References`]): the buffers and executables that a program holds, and what it needs of the slots of binding tables. A
//! reference of a command becomes a [`Place`] when it is recorded.
//!
//! Most commands refer to what others before them did. What is known of a buffer is looked up in a small table by its address, so that the buffer is
//! asked once; the table holds the buffer, so nothing else can have that address.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use super::known::Known;
use super::program::{Resolved, ResolvedSlot, SlotUse, StaticBuffer};
use crate::hal::{
    Buffer, BufferRef, BufferUsage, Executable, MemoryAccess, WHOLE_BUFFER, check_range, require_access, require_usage,
};
use crate::memory::{AgentMask, fixed_memory};
use crate::status::{Result, Status};

/// What an address is relative to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Base {
    /// Nothing: it never changes.
    Fixed,
    /// A slot of the binding table.
    Slot(u32),
    /// A buffer of the program whose memory changes.
    Buffer(u32),
    /// The arguments of the block.
    Arguments,
}

/// A range of memory: a reference that was checked.
#[derive(Clone, Copy, Debug)]
pub(super) struct Place {
    pub(super) base: Base,
    /// Bytes from the base.
    pub(super) offset: u64,
    /// Bytes; `WHOLE_BUFFER` for the rest of a slot.
    pub(super) length: u64,
}

impl Place {
    /// Its address and length in an execution, with the address of the block's arguments.
    ///
    /// # Errors
    /// INTERNAL if the execution did not resolve its base.
    pub(super) fn range(&self, resolved: &Resolved, arguments: u64) -> Result<(u64, u64)> {
        let length = match (self.base, self.length) {
            (Base::Slot(slot), WHOLE_BUFFER) => resolved.slot(slot)?.length.saturating_sub(self.offset),
            (_, length) => length,
        };
        Ok((resolved.address(self.base, arguments)?.wrapping_add(self.offset), length))
    }
}

impl Resolved {
    #[inline]
    fn slot(&self, slot: u32) -> Result<ResolvedSlot> {
        self.slots.get(slot as usize).copied().ok_or_else(|| unresolved("slot", slot))
    }

    /// The address of a base, with that of the block's arguments.
    #[inline]
    pub(super) fn address(&self, base: Base, arguments: u64) -> Result<u64> {
        match base {
            Base::Fixed => Ok(0),
            Base::Slot(slot) => Ok(self.slot(slot)?.address),
            Base::Buffer(ordinal) => {
                let resolved = self.buffers.get(ordinal as usize);
                Ok(resolved.ok_or_else(|| unresolved("buffer", ordinal))?.address)
            }
            Base::Arguments => Ok(arguments),
        }
    }
}

#[cold]
fn unresolved(what: &str, ordinal: u32) -> Status {
    Status::internal(format!("{what} {ordinal} was not resolved"))
}

/// Addresses that are compared one by one; others are in a map.
const FEW_ADDRESSES: usize = 16;

/// Slots with numbers below this are in a vector, others in a map: programs number them from 0, and a number may be anything.
const FEW_SLOTS: usize = 256;

/// What is known of a buffer.
struct KnownBuffer {
    /// The buffer, which may be a part of an allocation.
    buffer: Arc<dyn Buffer>,
    base: Base,
    /// Bytes from the base to its beginning.
    offset: u64,
    length: u64,
    usage: BufferUsage,
    access: MemoryAccess,
}

/// Addresses of objects, numbered from 0.
#[derive(Default)]
struct Ordinals {
    /// The first of them.
    few: Vec<usize>,
    /// The numbers of the others.
    others: BTreeMap<usize, u32>,
}

impl Ordinals {
    fn get(&self, address: usize) -> Option<u32> {
        match self.few.iter().position(|known| *known == address) {
            // There are few.
            Some(index) => Some(index as u32),
            None => self.others.get(&address).copied(),
        }
    }

    /// Adds an address with the next number.
    fn add(&mut self, address: usize, ordinal: u32) {
        if self.few.len() < FEW_ADDRESSES {
            self.few.push(address);
        } else {
            self.others.insert(address, ordinal);
        }
    }

    fn truncate(&mut self, count: usize) {
        self.few.truncate(count);
        self.others.retain(|_, ordinal| (*ordinal as usize) < count);
    }
}

/// What the commands of a program refer to.
#[derive(Default)]
pub(super) struct References {
    /// Number of binding table slots that commands may refer to.
    capacity: u32,
    buffers: Vec<StaticBuffer>,
    /// The ordinals of buffers.
    ordinals: Ordinals,
    known: Known<KnownBuffer>,
    executables: Vec<Arc<dyn Executable>>,
    /// The places of the executables.
    places: Ordinals,
    /// What commands need of the slots with small numbers.
    few_slots: Vec<Option<SlotUse>>,
    /// What they need of the others.
    slots: BTreeMap<u32, SlotUse>,
}

impl fmt::Debug for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "references({} buffers, {} executables)", self.buffers.len(), self.executables.len())
    }
}

impl References {
    /// Begins with commands that may refer to so many slots.
    pub(super) fn begin(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    /// Checks a reference as far as that does not depend on the binding table. What it needs of a slot is noted by [`References::note`].
    ///
    /// # Errors
    /// OUT_OF_RANGE for a range or slot that is not there, PERMISSION_DENIED for a usage that the buffer does not allow.
    #[inline]
    pub(super) fn place(&mut self, reference: &BufferRef, usage: BufferUsage) -> Result<Place> {
        let BufferRef { slot, offset, length, .. } = *reference;
        let Some(buffer) = &reference.buffer else {
            if slot >= self.capacity {
                return Err(Status::out_of_range(format!("slot {slot}: the command buffer has {}", self.capacity)));
            }
            if length != WHOLE_BUFFER && offset.checked_add(length).is_none() {
                return Err(Status::out_of_range(format!("{length} bytes at {offset} of slot {slot}")));
            }
            return Ok(Place { base: Base::Slot(slot), offset, length });
        };
        let address = Arc::as_ptr(buffer).addr();
        let is_it = |known: &KnownBuffer| Arc::as_ptr(&known.buffer).addr() == address;
        let known = match self.known.get(address as u64, is_it) {
            Some(known) => known,
            None => {
                let known = self.look_up(buffer)?;
                self.known.add(address as u64, known)
            }
        };
        let length = check_range(known.length, offset, length)?;
        if !known.usage.contains(usage) {
            require_usage(&**buffer, usage)?;
        }
        let access = access_of(usage);
        if !known.access.contains(access) {
            require_access(&**buffer, access)?;
        }
        Ok(Place { base: known.base, offset: known.offset.wrapping_add(offset), length })
    }

    /// Asks a buffer, and holds its allocation.
    #[cold]
    fn look_up(&mut self, buffer: &Arc<dyn Buffer>) -> Result<KnownBuffer> {
        let allocation = buffer.allocation();
        let (allocation, offset) = match &allocation {
            Some(allocation) => (allocation, buffer.byte_offset()),
            None => (buffer, 0),
        };
        let address = Arc::as_ptr(allocation).addr();
        let ordinal = match self.ordinals.get(address) {
            Some(ordinal) => ordinal,
            None => {
                let ordinal =
                    u32::try_from(self.buffers.len()).map_err(|_| Status::out_of_range("too many buffers"))?;
                let (fixed, reached_by) = fixed_memory(&**allocation)
                    .map_or((None, AgentMask::ALL), |(address, reached_by)| (Some(address), reached_by));
                self.buffers.push(StaticBuffer { buffer: allocation.clone(), fixed, reached_by });
                self.ordinals.add(address, ordinal);
                ordinal
            }
        };
        let (base, offset) = match self.buffers[ordinal as usize].fixed {
            Some(address) => (Base::Fixed, address.wrapping_add(offset)),
            None => (Base::Buffer(ordinal), offset),
        };
        Ok(KnownBuffer {
            buffer: buffer.clone(),
            base,
            offset,
            length: buffer.byte_length(),
            usage: buffer.allowed_usage(),
            access: buffer.allowed_access(),
        })
    }

    /// Notes what a command that is recorded needs of a place.
    #[inline]
    pub(super) fn note(&mut self, place: &Place, usage: BufferUsage) {
        let Base::Slot(slot) = place.base else { return };
        // The end of a range was checked with its place.
        let end = place.offset + if place.length == WHOLE_BUFFER { 0 } else { place.length };
        let index = slot as usize;
        let all = match self.few_slots.get_mut(index) {
            Some(Some(all)) => all,
            _ => self.slot_use(slot),
        };
        (all.end, all.usage) = (all.end.max(end), all.usage | usage);
    }

    #[cold]
    fn slot_use(&mut self, slot: u32) -> &mut SlotUse {
        let none = SlotUse { slot, end: 0, usage: BufferUsage::empty() };
        let index = slot as usize;
        if index >= FEW_SLOTS {
            return self.slots.entry(slot).or_insert(none);
        }
        if self.few_slots.len() <= index {
            self.few_slots.resize(index + 1, None);
        }
        self.few_slots[index].get_or_insert(none)
    }

    /// Holds an executable.
    ///
    /// # Errors
    /// OUT_OF_RANGE for too many.
    pub(super) fn hold(&mut self, executable: &Arc<dyn Executable>) -> Result<()> {
        let address = Arc::as_ptr(executable).addr();
        if self.places.get(address).is_none() {
            let place = u32::try_from(self.executables.len());
            self.places.add(address, place.map_err(|_| Status::out_of_range("too many executables"))?);
            self.executables.push(executable.clone());
        }
        Ok(())
    }

    /// Moves what a program keeps out: buffers, executables, and what commands need of the slots that they use, in the order of slots. The rest is
    /// cleared, and its memory kept.
    pub(super) fn take(&mut self) -> (Vec<StaticBuffer>, Vec<Arc<dyn Executable>>, Vec<SlotUse>) {
        let slots = self.few_slots.drain(..).flatten().chain(std::mem::take(&mut self.slots).into_values()).collect();
        self.known.clear();
        self.ordinals.truncate(0);
        self.places.truncate(0);
        (std::mem::take(&mut self.buffers), std::mem::take(&mut self.executables), slots)
    }

    /// How many buffers are held.
    #[inline]
    pub(super) fn mark(&self) -> usize {
        self.buffers.len()
    }

    /// Lets go of the buffers that were not held yet at a mark: the command that referred to them was refused, and an execution would look for their
    /// memory.
    #[cold]
    pub(super) fn rewind(&mut self, mark: usize) {
        if self.buffers.len() > mark {
            self.buffers.truncate(mark);
            self.ordinals.truncate(mark);
            self.known.clear();
        }
    }
}

/// The access that transfers of a usage need.
#[inline]
pub(super) fn access_of(usage: BufferUsage) -> MemoryAccess {
    let mut access = MemoryAccess::empty();
    access.set(MemoryAccess::READ, usage.intersects(BufferUsage::TRANSFER_SOURCE));
    access.set(MemoryAccess::WRITE, usage.intersects(BufferUsage::TRANSFER_TARGET));
    access
}
