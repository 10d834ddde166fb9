//! Templates of blocks ([`Template`]): the packets and arguments of an execution, but for what only the execution
//! knows. Recording writes them; an execution copies both and patches them: addresses of slots and of transient
//! buffers, the place of the arguments, and the kernels of transfers, which alignment chooses.

use vireo_hsa::packet::{KernelDispatchPacket, PACKET_SIZE};

use super::arguments::{ArgumentRange, reserved_size};
use super::resolved::{PacketBytes, Resolved};
use super::transfer::{Operation, TRANSFER_ARGUMENTS, Transfer, TransferKernels};
use crate::hal::recycle::free_list;
use crate::hal_driver::references::{Base, Place};
use crate::status::{Result, Status};

/// Most packets of a block: what a queue must have room for at once.
pub(super) const MAX_PACKETS: usize = 128;

/// Most bytes of arguments of a block.
pub(super) const MAX_ARGUMENTS: usize = 256 << 10;

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

/// An address in the arguments.
#[derive(Clone, Copy, Debug)]
struct Patch {
    /// Offset in the arguments.
    at: u32,
    base: Base,
    addend: u64,
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

    /// Bytes of its memory that recording has filled.
    pub(super) fn byte_length(&self) -> u64 {
        let patches = size_of_val(self.patches.as_slice()) + size_of_val(self.transfers.as_slice());
        (size_of_val(self.packets.as_slice()) + self.arguments.len() + patches) as u64
    }

    /// Whether so many packets, with so many bytes of arguments at multiples of their alignment, fit.
    #[inline]
    pub(super) fn has_room(&self, packets: usize, arguments: usize) -> bool {
        // Neither sum wraps: packets are few, and no command has more arguments than memory has bytes.
        self.packets.len() + packets <= MAX_PACKETS && self.arguments.len() + arguments <= MAX_ARGUMENTS
    }

    /// Adds arguments of so many bytes, which are zero, and what they are padded with; returns their offset. There is
    /// room for them.
    #[inline]
    pub(super) fn add_arguments(&mut self, length: usize) -> usize {
        let start = self.arguments.len();
        self.arguments.resize(start + reserved_size(length), 0);
        start
    }

    /// Bytes of the arguments, from an offset on.
    #[inline]
    pub(super) fn arguments_mut(&mut self, at: usize) -> &mut [u8] {
        &mut self.arguments[at..]
    }

    /// Makes eight bytes of the arguments an address.
    #[inline]
    pub(super) fn patch(&mut self, at: usize, base: Base, addend: u64) {
        match base {
            Base::Fixed => self.put(at, addend),
            // At most `MAX_ARGUMENTS`.
            base => self.patches.push(Patch { at: at as u32, base, addend }),
        }
    }

    /// Writes eight bytes of the arguments.
    pub(super) fn put(&mut self, at: usize, value: u64) {
        self.arguments[at..at + 8].copy_from_slice(&value.to_le_bytes());
    }

    /// Makes eight bytes of the arguments the address of the slot of a packet.
    pub(super) fn put_slot(&mut self, at: usize, packet: usize) {
        self.slots.push((at as u32, packet as u32));
    }

    /// Adds a packet whose arguments are elsewhere.
    #[inline]
    pub(super) fn push(&mut self, packet: &KernelDispatchPacket) {
        self.packets.push(packet.to_bytes());
    }

    /// Adds a packet whose arguments are those of the block at the offset that it names.
    #[inline]
    pub(super) fn push_relocated(&mut self, packet: &KernelDispatchPacket) {
        self.relocated.push(self.packets.len() as u32);
        self.push(packet);
    }

    /// Adds a transfer, with its arguments. The packet lacks the kernel, the arguments and the size.
    pub(super) fn push_transfer(&mut self, packet: KernelDispatchPacket, target: Place, operation: Operation) {
        let arguments = self.add_arguments(TRANSFER_ARGUMENTS);
        let transfer = Transfer { packet: self.packets.len() as u32, arguments: arguments as u32, target, operation };
        self.push_relocated(&KernelDispatchPacket { kernarg_address: arguments as u64, ..packet });
        self.transfers.push(transfer);
    }

    /// Checks the transfers whose lengths the binding table decides.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for lengths that do not fit each other or the pattern.
    pub(super) fn check(&self, resolved: &Resolved) -> Result<()> {
        self.transfers.iter().try_for_each(|transfer| transfer.check(resolved))
    }

    /// Whether [`Template::check`] may fail.
    pub(super) fn depends_on_lengths(&self) -> bool {
        self.transfers.iter().any(Transfer::depends_on_lengths)
    }

    /// Writes the packets and arguments of an execution.
    ///
    /// # Errors
    /// INTERNAL if less memory was reserved than [`Template::argument_bytes`], or if the execution resolved less than
    /// the program needs.
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
