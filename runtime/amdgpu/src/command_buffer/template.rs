//! Templates of blocks ([`Template`]): the packets and arguments of an execution, but for what only the execution knows. An execution copies both and
//! patches them: addresses of slots and of transient buffers, the place of the arguments, and the kernels of transfers, which alignment chooses.

use vireo_hsa::packet::{KernelDispatchPacket, PACKET_SIZE};

use super::arguments::ArgumentRange;
use super::processor::{TransferKernels, TransferUnit};
use super::program::{Resolved, ResolvedSlot};
use crate::executable::LoadedKernel;
use crate::hal::WHOLE_BUFFER;
use crate::hal::recycle::free_list;
use crate::status::{Result, Status};

/// Bytes of a packet.
pub type PacketBytes = [u8; PACKET_SIZE as usize];

/// Work-items of a work-group of the kernels for transfers.
const TRANSFER_WORKGROUP: u64 = 256;

/// Most work-items of a transfer; each moves several units if there are more.
const MAX_TRANSFER_ITEMS: u64 = 1 << 16;

/// Work-items of the kernels for ranges that overlap: those of one wave, which moves its units in order.
const MOVE_WORKGROUP: u64 = 32;

/// Templates with memory for more arguments than this are not kept.
const MAX_RECYCLED_ARGUMENTS: usize = 128 << 10;

free_list! { static TEMPLATES: Template, 16 }

/// Where the packets of an execution are published.
#[derive(Clone, Copy, Debug)]
pub struct RingPlace {
    /// Address of the first slot of the ring.
    pub ring: u64,
    /// Slots of the ring, a power of two.
    pub slots: u64,
    /// Index of the template's first packet.
    pub first: u64,
}

impl RingPlace {
    /// The address of the slot of a packet.
    fn slot_address(&self, packet: u64) -> u64 {
        self.ring + (self.first.wrapping_add(packet) & (self.slots - 1)) * u64::from(PACKET_SIZE)
    }
}

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

/// An address in the arguments.
#[derive(Clone, Copy, Debug)]
struct Patch {
    /// Offset in the arguments.
    at: u32,
    base: Base,
    addend: u64,
}

/// One end of a transfer.
#[derive(Clone, Copy, Debug)]
pub(super) struct End {
    pub(super) base: Base,
    /// Bytes from the base.
    pub(super) offset: u64,
    /// Bytes; `WHOLE_BUFFER` for the rest of a slot.
    pub(super) length: u64,
}

/// What a transfer writes to its target.
#[derive(Clone, Copy, Debug)]
pub(super) enum Operation {
    /// A pattern, repeated to eight bytes, of so many bytes.
    Fill { pattern: u64, step: u64 },
    /// What is elsewhere.
    Copy { source: End },
}

/// A transfer, whose kernel depends on the addresses of its ends.
#[derive(Clone, Copy, Debug)]
struct Transfer {
    /// Its packet.
    packet: u32,
    /// Offset of its arguments.
    arguments: u32,
    target: End,
    operation: Operation,
}

/// A block, ready for executions.
#[derive(Debug, Default)]
pub struct Template {
    packets: Vec<PacketBytes>,
    arguments: Vec<u8>,
    /// The packets whose arguments are in this block's: their address is an offset yet.
    relocated: Vec<u32>,
    patches: Vec<Patch>,
    transfers: Vec<Transfer>,
    /// Places in the arguments for the address of the slot of a packet.
    slots: Vec<(u32, u32)>,
}

/// Offset of the address of the arguments in a packet.
const KERNARG_AT: usize = std::mem::offset_of!(KernelDispatchPacket, kernarg_address);

impl Template {
    /// An empty template, in the memory of one that is gone if there is one.
    pub(super) fn recycled() -> Template {
        TEMPLATES.pop(0).unwrap_or_default()
    }

    /// Keeps its memory for the next one.
    pub(super) fn recycle(mut self) {
        let Template { packets, arguments, relocated, patches, transfers, slots } = &mut self;
        packets.clear();
        arguments.clear();
        relocated.clear();
        patches.clear();
        transfers.clear();
        slots.clear();
        // The numbers of the others are bounded by those of packets and arguments.
        if arguments.capacity() <= MAX_RECYCLED_ARGUMENTS {
            TEMPLATES.push(0, self);
        }
    }

    /// Its packets, of which the queue completes the first and the last one.
    pub fn packet_count(&self) -> usize {
        self.packets.len()
    }

    /// Bytes of its arguments.
    pub fn argument_bytes(&self) -> u64 {
        self.arguments.len() as u64
    }

    /// Adds arguments of so many bytes; returns their offset.
    pub(super) fn add_arguments(&mut self, contents: &[u8], reserved: usize) -> usize {
        let start = self.arguments.len();
        self.arguments.extend_from_slice(contents);
        self.arguments.resize(start + reserved.max(contents.len()), 0);
        start
    }

    /// Makes eight bytes of the arguments an address.
    pub(super) fn patch(&mut self, at: usize, base: Base, addend: u64) {
        match base {
            Base::Fixed => self.put(at, addend),
            // Arguments of a block have at most `MAX_KERNARG_LENGTH` bytes.
            base => self.patches.push(Patch { at: at as u32, base, addend }),
        }
    }

    /// Writes bytes of the arguments.
    pub(super) fn copy_arguments(&mut self, at: usize, bytes: &[u8]) {
        self.arguments[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes eight bytes of the arguments.
    pub(super) fn put(&mut self, at: usize, value: u64) {
        self.copy_arguments(at, &value.to_le_bytes());
    }

    /// Makes eight bytes of the arguments the address of the slot of a packet.
    pub(super) fn put_slot(&mut self, at: usize, packet: usize) {
        self.slots.push((at as u32, packet as u32));
    }

    /// Adds a packet whose arguments are those of the block at the offset that it names, or elsewhere.
    pub(super) fn push(&mut self, packet: &KernelDispatchPacket, is_relocated: bool) {
        if is_relocated {
            self.relocated.push(self.packets.len() as u32);
        }
        self.packets.push(packet.to_bytes());
    }

    /// Adds a transfer, whose packet lacks the kernel and the size.
    pub(super) fn push_transfer(
        &mut self,
        packet: &KernelDispatchPacket,
        arguments: usize,
        target: End,
        operation: Operation,
    ) {
        let (packet_index, arguments) = (self.packets.len() as u32, arguments as u32);
        self.push(packet, true);
        self.transfers.push(Transfer { packet: packet_index, arguments, target, operation });
    }

    /// Checks the transfers whose lengths the binding table decides.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for lengths that do not fit each other or the pattern.
    pub(super) fn check(&self, resolved: &Resolved) -> Result<()> {
        for transfer in &self.transfers {
            let (_, length) = transfer.target.range(resolved, 0)?;
            match transfer.operation {
                Operation::Fill { step, .. } => super::recorder::check_fill(step, 0, length)?,
                Operation::Copy { source } => {
                    let (_, from) = source.range(resolved, 0)?;
                    if from != length {
                        let message = format!("copy of a range of {from} bytes to one of {length}");
                        return Err(Status::invalid_argument(message));
                    }
                }
            }
        }
        Ok(())
    }

    /// Whether [`Template::check`] may fail.
    pub(super) fn depends_on_lengths(&self) -> bool {
        self.transfers.iter().any(|transfer| {
            let source = match transfer.operation {
                Operation::Fill { .. } => None,
                Operation::Copy { source } => Some(source.length),
            };
            transfer.target.length == WHOLE_BUFFER || source == Some(WHOLE_BUFFER)
        })
    }

    /// Writes the packets and arguments of an execution.
    ///
    /// # Errors
    /// INTERNAL if less memory was reserved than [`Template::argument_bytes`], or if the execution resolved less than the program needs.
    pub fn write(
        &self,
        resolved: &Resolved,
        kernels: Option<&TransferKernels>,
        place: RingPlace,
        arguments: &mut ArgumentRange,
        packets: &mut Vec<PacketBytes>,
    ) -> Result<()> {
        let first = packets.len();
        packets.extend_from_slice(&self.packets);
        let packets = &mut packets[first..];
        arguments.fill(&self.arguments)?;
        let base = arguments.address();
        for index in &self.relocated {
            let field = packets[*index as usize][KERNARG_AT..].first_chunk_mut();
            let field: &mut [u8; 8] = field.ok_or_else(|| Status::internal("a packet without arguments"))?;
            *field = (base + u64::from_le_bytes(*field)).to_le_bytes();
        }
        for Patch { at, base: of, addend } in &self.patches {
            let address = resolved.address(*of, base)?.wrapping_add(*addend);
            arguments.put_u64(*at as usize, address)?;
        }
        for (at, packet) in &self.slots {
            arguments.put_u64(*at as usize, place.slot_address(u64::from(*packet)))?;
        }
        if !self.transfers.is_empty() {
            let kernels = kernels.ok_or_else(|| Status::internal("transfers without kernels for them"))?;
            for transfer in &self.transfers {
                transfer.write(resolved, kernels, arguments, &mut packets[transfer.packet as usize])?;
            }
        }
        Ok(())
    }
}

impl End {
    /// Its address and length, of which a slot decides.
    fn range(&self, resolved: &Resolved, arguments: u64) -> Result<(u64, u64)> {
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
    fn address(&self, base: Base, arguments: u64) -> Result<u64> {
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

impl Transfer {
    /// Writes the arguments, and completes the packet.
    fn write(
        &self,
        resolved: &Resolved,
        kernels: &TransferKernels,
        arguments: &mut ArgumentRange,
        packet: &mut PacketBytes,
    ) -> Result<()> {
        let (target, length) = self.target.range(resolved, arguments.address())?;
        let (kernels, operand, unit, overlap) = match self.operation {
            Operation::Fill { pattern, .. } => (&kernels.fill, pattern, TransferUnit::of(target | length), None),
            Operation::Copy { source } => {
                let (source, _) = source.range(resolved, arguments.address())?;
                let unit = TransferUnit::of(source | target | length);
                if source.abs_diff(target) < length && source != target {
                    // Towards the end if the target is there: each unit is read before it is overwritten.
                    let step = if target < source { MOVE_WORKGROUP } else { MOVE_WORKGROUP.wrapping_neg() };
                    (&kernels.r#move, source, unit, Some(step))
                } else {
                    (&kernels.copy, source, unit, None)
                }
            }
        };
        let units = length / unit.size();
        // A transfer of nothing has a work-group too, so that the order of the command holds.
        let items = units.min(MAX_TRANSFER_ITEMS).next_multiple_of(TRANSFER_WORKGROUP).max(TRANSFER_WORKGROUP);
        let (workgroup, items, step) = match overlap {
            Some(step) => (MOVE_WORKGROUP, MOVE_WORKGROUP, step),
            None => (TRANSFER_WORKGROUP, items, items),
        };
        let values = [target, operand, units, step];
        let bytes: [u8; 32] = std::array::from_fn(|index| values[index / 8].to_le_bytes()[index % 8]);
        arguments.put(self.arguments as usize, &bytes)?;
        let LoadedKernel { object, private_size, group_size } = kernels[unit.index()];
        let whole = KernelDispatchPacket {
            kernel_object: object,
            private_segment_size: private_size,
            group_segment_size: group_size,
            workgroup_size: [workgroup as u16, 1, 1],
            // At most `MAX_TRANSFER_ITEMS`.
            grid_size: [items as u32, 1, 1],
            ..KernelDispatchPacket::read(packet)
        };
        *packet = whole.to_bytes();
        Ok(())
    }
}
