//! References of commands ([`References`]): the buffers and executables that a program holds ([`Held`]), and its needs
//! of the slots of binding tables. A reference of a command becomes a [`Place`] when it is recorded, and a place an
//! address when it is executed ([`Resolved`]).
//!
//! Most commands refer to what others before them did. What is known of a buffer is looked up in a small table by its
//! address, so that the buffer is asked once; the table holds the buffer, so nothing else can have that address.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::BitAnd;
use std::sync::Arc;

use crate::fact_cache::FactCache;
use crate::hal::{
    Buffer, BufferBinding, BufferRef, BufferUsage, Executable, MemoryAccess, WHOLE_BUFFER, check_range, require_access,
    require_usage,
};
use crate::status::{Result, Status};

/// The devices that reach a piece of memory, as a driver names them, and where they find the memory of buffers.
pub trait Reach: BitAnd<Output = Self> + Copy + fmt::Debug + Default + Send + Sync + 'static {
    /// The address at which devices find an allocation, and which of them may access it, if it is of this driver and
    /// stays there as long as it lives.
    fn fixed_memory(allocation: &dyn Buffer) -> Option<(u64, Self)>;

    /// The memory of a buffer as devices reach it now.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if a transient buffer has no memory, `INVALID_ARGUMENT` if the buffer is of another kind
    /// of device.
    fn range(buffer: &dyn Buffer) -> Result<AddressRange<Self>>;
}

/// A range of memory as devices reach it.
#[derive(Clone)]
pub struct AddressRange<R> {
    /// Address of the first byte.
    pub address: u64,
    /// Bytes.
    pub length: u64,
    /// The devices that may access it.
    pub reached_by: R,
    /// Keeps it allocated.
    pub owner: Arc<dyn Any + Send + Sync>,
}

impl<R> fmt::Debug for AddressRange<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes at {:#x}", self.length, self.address)
    }
}

/// The base of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
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
pub struct Place {
    /// The base of the offset.
    pub base: Base,
    /// Bytes from the base.
    pub offset: u64,
    /// Bytes; `WHOLE_BUFFER` for the rest of a slot.
    pub length: u64,
}

impl Place {
    /// Its address and length in an execution, with the address of the block's arguments.
    ///
    /// # Errors
    /// INTERNAL if the execution did not resolve its base.
    pub fn range<R>(&self, resolved: &Resolved<R>, arguments: u64) -> Result<(u64, u64)> {
        let length = match (self.base, self.length) {
            (Base::Slot(slot), WHOLE_BUFFER) => resolved.slot(slot)?.length.saturating_sub(self.offset),
            (_, length) => length,
        };
        Ok((resolved.address(self.base, arguments)?.wrapping_add(self.offset), length))
    }
}

/// A buffer that a program holds.
#[derive(Debug)]
pub struct StaticBuffer<R> {
    /// The buffer: an allocation, never a part of one.
    pub buffer: Arc<dyn Buffer>,
    /// Its address, if that stays the same as long as the buffer lives.
    pub fixed: Option<u64>,
    /// The devices that may access it, if it has such an address.
    pub reached_by: R,
}

/// The need that the commands of a program have of a slot.
#[derive(Clone, Copy, Debug)]
pub struct SlotUse {
    /// The slot.
    pub slot: u32,
    /// The end of the range that commands use, in bytes from the start of the binding.
    pub end: u64,
    /// The usage that the buffer must allow.
    pub usage: BufferUsage,
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
pub struct Resolved<R> {
    /// The devices that may access all of them.
    pub reached_by: R,
    /// By slot; those that no command uses are empty.
    pub slots: Vec<ResolvedSlot>,
    /// By static ordinal; those whose addresses the templates have are empty.
    pub buffers: Vec<ResolvedSlot>,
    /// The owners that keep the memory allocated until the execution has completed.
    pub owners: Vec<Arc<dyn Any + Send + Sync>>,
}

impl<R> fmt::Debug for Resolved<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Resolved").field("slots", &self.slots).field("buffers", &self.buffers).finish()
    }
}

impl<R: Reach> Resolved<R> {
    /// Lets go of all memory.
    pub fn clear(&mut self) {
        self.reached_by = R::default();
        self.slots.clear();
        self.buffers.clear();
        self.owners.clear();
    }
}

/// The buffers, executables and slots that the commands of a program refer to.
#[derive(Debug)]
pub struct Held<R> {
    /// The buffers by static ordinal.
    buffers: Vec<StaticBuffer<R>>,
    /// The ordinals of buffers whose memory an execution has to find.
    transient: Vec<u32>,
    /// The devices that may access the memory of all others.
    reached_by: R,
    /// The executables whose kernels it runs.
    _executables: Vec<Arc<dyn Executable>>,
    /// The needs of the slots that commands use, by slot.
    slots: Vec<SlotUse>,
}

impl<R: Reach> Held<R> {
    /// The buffers, by their ordinals.
    pub fn buffers(&self) -> &[StaticBuffer<R>] {
        &self.buffers
    }

    /// The needs of the slots that commands use, by slot.
    pub fn slots(&self) -> &[SlotUse] {
        &self.slots
    }

    /// Finds the memory of everything that commands refer to, and checks the binding table. `resolved` is empty.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` for fewer bindings than there are slots, or memory of another kind of device, `OUT_OF_RANGE`
    /// for a binding that is too short, `FAILED_PRECONDITION` for an empty one or a buffer without memory,
    /// `PERMISSION_DENIED` for a usage that the buffer does not allow.
    pub fn resolve(&self, table: &[BufferBinding], resolved: &mut Resolved<R>) -> Result<()> {
        resolved.reached_by = self.reached_by;
        if let Some(last) = self.transient.last() {
            resolved.buffers.resize(*last as usize + 1, ResolvedSlot::default());
        }
        for ordinal in &self.transient {
            let AddressRange { address, length, reached_by, owner } =
                R::range(&*self.buffers[*ordinal as usize].buffer)?;
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
            let AddressRange { address, reached_by, owner, .. } = R::range(&**buffer)?;
            resolved.reached_by = resolved.reached_by & reached_by;
            resolved.slots[*slot as usize] = ResolvedSlot { address: address + binding.offset, length };
            resolved.owners.push(owner);
        }
        Ok(())
    }
}

impl<R> Resolved<R> {
    #[inline]
    fn slot(&self, slot: u32) -> Result<ResolvedSlot> {
        self.slots.get(slot as usize).copied().ok_or_else(|| unresolved("slot", slot))
    }

    /// The address of a base, with that of the block's arguments.
    ///
    /// # Errors
    /// INTERNAL for a slot or buffer that was not resolved.
    #[inline]
    pub fn address(&self, base: Base, arguments: u64) -> Result<u64> {
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

/// Slots with numbers below this are in a vector, others in a map: programs number them from 0, and a number may be
/// anything.
const FEW_SLOTS: usize = 256;

/// A buffer that commands referred to before.
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

/// A builder of [`Held`]: the objects that commands referred to so far.
pub struct References<R> {
    /// Number of binding table slots that commands may refer to.
    capacity: u32,
    buffers: Vec<StaticBuffer<R>>,
    /// The ordinals of buffers.
    ordinals: Ordinals,
    known: FactCache<KnownBuffer>,
    executables: Vec<Arc<dyn Executable>>,
    /// The places of the executables.
    places: Ordinals,
    /// The needs of the slots with small numbers.
    few_slots: Vec<Option<SlotUse>>,
    /// The needs of the other slots.
    slots: BTreeMap<u32, SlotUse>,
}

impl<R> Default for References<R> {
    fn default() -> Self {
        References {
            capacity: 0,
            buffers: Vec::new(),
            ordinals: Ordinals::default(),
            known: FactCache::default(),
            executables: Vec::new(),
            places: Ordinals::default(),
            few_slots: Vec::new(),
            slots: BTreeMap::new(),
        }
    }
}

impl<R> fmt::Debug for References<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "references({} buffers, {} executables)", self.buffers.len(), self.executables.len())
    }
}

impl<R: Reach> References<R> {
    /// Begins with commands that may refer to so many slots.
    pub fn begin(&mut self, capacity: u32) {
        self.capacity = capacity;
    }

    /// Checks a reference as far as that does not depend on the binding table. What it needs of a slot is noted by
    /// [`References::note`].
    ///
    /// # Errors
    /// OUT_OF_RANGE for a range or slot that is not there, PERMISSION_DENIED for a usage that the buffer does not
    /// allow.
    #[inline]
    pub fn place(&mut self, reference: &BufferRef, usage: BufferUsage) -> Result<Place> {
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
                let (fixed, reached_by) = R::fixed_memory(&**allocation)
                    .map_or((None, R::default()), |(address, reached_by)| (Some(address), reached_by));
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
    pub fn note(&mut self, place: &Place, usage: BufferUsage) {
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
    pub fn hold(&mut self, executable: &Arc<dyn Executable>) -> Result<()> {
        let address = Arc::as_ptr(executable).addr();
        if self.places.get(address).is_none() {
            let place = u32::try_from(self.executables.len());
            self.places.add(address, place.map_err(|_| Status::out_of_range("too many executables"))?);
            self.executables.push(executable.clone());
        }
        Ok(())
    }

    /// Moves what a program keeps out. The rest is cleared, and its memory kept.
    pub fn take(&mut self) -> Held<R> {
        let slots = self.few_slots.drain(..).flatten().chain(std::mem::take(&mut self.slots).into_values()).collect();
        self.known.clear();
        self.ordinals.truncate(0);
        self.places.truncate(0);
        let buffers = std::mem::take(&mut self.buffers);
        // There are fewer than 2^32, which recording has checked.
        let transient = (0..).zip(&buffers).filter(|(_, buffer)| buffer.fixed.is_none());
        let transient = transient.map(|(ordinal, _)| ordinal).collect();
        let reached_by = buffers.iter().fold(R::default(), |all, buffer| all & buffer.reached_by);
        Held { buffers, transient, reached_by, _executables: std::mem::take(&mut self.executables), slots }
    }

    /// How many buffers are held.
    #[inline]
    pub fn mark(&self) -> usize {
        self.buffers.len()
    }

    /// Lets go of the buffers that were not held yet at a mark: the command that referred to them was refused, and an
    /// execution would look for their memory.
    #[cold]
    pub fn rewind(&mut self, mark: usize) {
        if self.buffers.len() > mark {
            self.buffers.truncate(mark);
            self.ordinals.truncate(mark);
            self.known.clear();
        }
    }
}

/// The access that transfers of a usage need.
#[inline]
pub fn access_of(usage: BufferUsage) -> MemoryAccess {
    let mut access = MemoryAccess::empty();
    access.set(MemoryAccess::READ, usage.intersects(BufferUsage::TRANSFER_SOURCE));
    access.set(MemoryAccess::WRITE, usage.intersects(BufferUsage::TRANSFER_TARGET));
    access
}
