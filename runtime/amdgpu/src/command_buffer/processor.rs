//! The block processor ([`Processor`]): a small interpreter of blocks that writes packets and arguments into memory reserved for them. Queues run
//! it once for each block of an execution. It knows nothing of queues, so it can be tested by itself.

use vireo_hsa::blocks::{Block, command_header};
use vireo_hsa::command_buffer::{
    BindingKind, BindingSource, Command, CommandHeader, CopyCommand, DispatchCommand, FillCommand, KernargStrategy,
    NO_IMPLICIT_ARGS, UpdateCommand,
};
use vireo_hsa::kernarg::ImplicitArgs;
use vireo_hsa::packet::{KernelDispatchPacket, PACKET_SIZE, PacketHeader, PacketType};
use vireo_hsa::packets::Order;

use super::arguments::{ArgumentRange, put};
use super::program::{Resolved, ResolvedSlot};
use super::recorder::{PATCH_ARGUMENTS, TRANSFER_ARGUMENTS, check_fill};
use crate::executable::LoadedKernel;
use crate::hal::{WHOLE_BUFFER, check_range};
use crate::status::{Result, Status};

/// Work-items of a work-group of the kernels for transfers.
pub(crate) const TRANSFER_WORKGROUP: u64 = 256;

/// Most work-items of a transfer; each moves several units if there are more.
const MAX_TRANSFER_ITEMS: u64 = 1 << 18;

/// Bytes of a packet.
type PacketBytes = [u8; PACKET_SIZE as usize];

/// A unit of a transfer: what a work-item moves at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferUnit {
    /// 16 bytes, where all addresses and the length are multiples of it.
    Bytes16,
    /// 4 bytes.
    Bytes4,
    /// A byte, for everything else.
    Byte,
}

impl TransferUnit {
    /// All units, the largest first.
    pub const ALL: [TransferUnit; 3] = [TransferUnit::Bytes16, TransferUnit::Bytes4, TransferUnit::Byte];

    /// Bytes of it.
    pub fn size(self) -> u64 {
        match self {
            TransferUnit::Bytes16 => 16,
            TransferUnit::Bytes4 => 4,
            TransferUnit::Byte => 1,
        }
    }

    /// The largest unit of which all of `values` are multiples.
    fn of(values: u64) -> TransferUnit {
        Self::ALL.into_iter().find(|unit| values.is_multiple_of(unit.size())).unwrap_or(TransferUnit::Byte)
    }
}

/// The driver's own kernels on a device. The order of the arrays is that of [`TransferUnit::ALL`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferKernels {
    /// Fill memory with a pattern.
    pub fill: [LoadedKernel; 3],
    /// Copy memory.
    pub copy: [LoadedKernel; 3],
    /// Writes the size of a grid into a packet and publishes it.
    pub patch: LoadedKernel,
}

/// Packets for slots of a ring that were reserved.
#[derive(Debug)]
pub struct PacketWriter {
    /// Address of the first slot of the ring.
    ring: u64,
    /// Number of slots less one.
    mask: u64,
    /// Index of the first packet.
    first: u64,
    packets: Vec<PacketBytes>,
}

impl PacketWriter {
    /// A writer of packets from the index `first` on, for a ring of `slots` slots at `ring`. `packets` lends its memory.
    pub fn new(ring: u64, slots: u64, first: u64, mut packets: Vec<PacketBytes>) -> PacketWriter {
        packets.clear();
        PacketWriter { ring, mask: slots - 1, first, packets }
    }

    /// The packets so far.
    pub fn packets(&self) -> &[PacketBytes] {
        &self.packets
    }

    /// The same, to change and recycle.
    pub fn into_packets(self) -> Vec<PacketBytes> {
        self.packets
    }

    /// Adds a packet.
    pub fn push(&mut self, packet: PacketBytes) {
        self.packets.push(packet);
    }

    /// Address of the slot of the next packet but `ahead`.
    fn slot_address(&self, ahead: u64) -> u64 {
        let index = self.first.wrapping_add(self.packets.len() as u64).wrapping_add(ahead);
        self.ring + (index & self.mask) * u64::from(PACKET_SIZE)
    }
}

/// How a block ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Terminator {
    /// The execution continues with this block.
    Branch(u32),
    /// The execution ends.
    Return,
}

/// What the processor needs of an execution.
#[derive(Clone, Copy, Debug)]
pub struct Processor<'a> {
    /// The addresses of buffers and slots.
    pub resolved: &'a Resolved,
    /// The driver's kernels; none where the device has none.
    pub transfers: Option<&'a TransferKernels>,
    /// Address of the arguments that the program published.
    pub published: u64,
}

impl Processor<'_> {
    /// Writes the packets and arguments of a block, as many as its header says at most. They are in the order of execution; the queue
    /// completes the first and the last one.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a block that is malformed, UNIMPLEMENTED for commands that this processor does not execute, and those of ranges
    /// whose length only the execution knows.
    pub fn run(&self, block: &[u8], packets: &mut PacketWriter, arguments: &mut ArgumentRange) -> Result<Terminator> {
        let block = Block::read(block)?;
        for (command, tail) in &block.commands {
            let order = order(command_header(command));
            match command {
                // The next packet waits.
                Command::Barrier(_) => {}
                Command::Dispatch(dispatch) => self.dispatch(&block, dispatch, tail, order, packets, arguments)?,
                Command::Fill(fill) => self.fill(fill, order, packets, arguments)?,
                Command::Copy(copy) => self.copy(copy, order, packets, arguments)?,
                Command::Update(update) => self.update(&block, update, order, packets, arguments)?,
                Command::Branch(branch) => return Ok(Terminator::Branch(branch.target_block_ordinal)),
                Command::Return(_) => return Ok(Terminator::Return),
                Command::CondBranch(_) => {
                    return Err(Status::unimplemented("conditional branches of command buffers are not executed"));
                }
            }
        }
        Err(Status::internal("a block without a terminator"))
    }

    fn slot(&self, kind: BindingKind, ordinal: u32) -> Result<ResolvedSlot> {
        let slots = match kind {
            BindingKind::STATIC => &self.resolved.buffers,
            BindingKind::DYNAMIC => &self.resolved.slots,
            _ => return Err(Status::invalid_argument(format!("{kind:?} is no kind of binding"))),
        };
        let slot = slots.get(ordinal as usize);
        slot.copied()
            .ok_or_else(|| Status::out_of_range(format!("{kind:?} binding {ordinal}: there are {}", slots.len())))
    }

    /// The address of a range and its length.
    fn range(&self, kind: BindingKind, ordinal: u32, offset: u64, length: u64) -> Result<(u64, u64)> {
        let slot = self.slot(kind, ordinal)?;
        let length = check_range(slot.length, offset, length)?;
        Ok((slot.address + offset, length))
    }

    fn address(&self, source: &BindingSource) -> Result<u64> {
        let flags = source.flags;
        let kind = match (flags.dynamic(), flags.static_buffer()) {
            (false, false) => return Ok(source.offset_or_pointer),
            (true, false) => BindingKind::DYNAMIC,
            (false, true) => BindingKind::STATIC,
            (true, true) => return Err(Status::invalid_argument("a binding source that is static and dynamic")),
        };
        let slot = self.slot(kind, source.slot)?;
        slot.address.checked_add(source.offset_or_pointer).ok_or_else(|| Status::out_of_range("a binding source"))
    }

    fn transfers(&self) -> Result<&TransferKernels> {
        self.transfers.ok_or_else(|| {
            Status::unimplemented("the device has no kernels of the driver: it cannot fill or copy memory")
        })
    }

    fn fill(
        &self,
        fill: &FillCommand,
        order: Order,
        packets: &mut PacketWriter,
        arguments: &mut ArgumentRange,
    ) -> Result<()> {
        let (target, length) = self.range(fill.target_kind, fill.target_ordinal, fill.target_offset, fill.length)?;
        check_fill(fill.pattern_length.max(1).into(), 0, length)?;
        let unit = TransferUnit::of(target | length);
        self.transfer(self.transfers()?.fill, unit, [target, fill.pattern], length, order, packets, arguments)
    }

    fn copy(
        &self,
        copy: &CopyCommand,
        order: Order,
        packets: &mut PacketWriter,
        arguments: &mut ArgumentRange,
    ) -> Result<()> {
        let (source, from) = self.range(copy.source_kind, copy.source_ordinal, copy.source_offset, copy.length)?;
        let (target, to) = self.range(copy.target_kind, copy.target_ordinal, copy.target_offset, copy.length)?;
        if from != to {
            return Err(Status::invalid_argument(format!("copy of a range of {from} bytes to one of {to}")));
        }
        if source.abs_diff(target) < from && source != target {
            return Err(Status::unimplemented("copies between ranges that overlap are not supported by `amdgpu`"));
        }
        let unit = TransferUnit::of(source | target | from);
        self.transfer(self.transfers()?.copy, unit, [target, source], from, order, packets, arguments)
    }

    fn update(
        &self,
        block: &Block<'_>,
        update: &UpdateCommand,
        order: Order,
        packets: &mut PacketWriter,
        arguments: &mut ArgumentRange,
    ) -> Result<()> {
        let length = u64::from(update.length);
        let (target, _) = self.range(update.target_kind, update.target_ordinal, update.target_offset, length)?;
        let data = rodata(block, update.rodata_ordinal, update.length as usize)?;
        let source = arguments.write(data, data.len())?;
        let unit = TransferUnit::of(source | target | length);
        self.transfer(self.transfers()?.copy, unit, [target, source], length, order, packets, arguments)
    }

    /// A dispatch of one of the driver's kernels: two operands, the number of units, and the number of work-items.
    #[expect(clippy::too_many_arguments, reason = "the fields of one packet")]
    fn transfer(
        &self,
        kernels: [LoadedKernel; 3],
        unit: TransferUnit,
        operands: [u64; 2],
        length: u64,
        order: Order,
        packets: &mut PacketWriter,
        arguments: &mut ArgumentRange,
    ) -> Result<()> {
        let units = length / unit.size();
        // A transfer of nothing has a work-group too, so that the order of the command holds.
        let items = units.min(MAX_TRANSFER_ITEMS).next_multiple_of(TRANSFER_WORKGROUP).max(TRANSFER_WORKGROUP);
        let values = [operands[0], operands[1], units, items];
        let bytes: [u8; TRANSFER_ARGUMENTS as usize] =
            std::array::from_fn(|index| values[index / 8].to_le_bytes()[index % 8]);
        let kernarg = arguments.write(&bytes, bytes.len())?;
        let kernel = kernels[TransferUnit::ALL.iter().position(|other| *other == unit).unwrap_or(2)];
        let grid = [items as u32, 1, 1];
        let packet = KernelDispatchPacket::new(order, kernel.object, kernarg, [TRANSFER_WORKGROUP as u16, 1, 1], grid)?;
        packets.push(with_sizes(packet, kernel.private_size, kernel.group_size).to_bytes());
        Ok(())
    }

    fn dispatch(
        &self,
        block: &Block<'_>,
        dispatch: &DispatchCommand,
        tail: &[u8],
        order: Order,
        packets: &mut PacketWriter,
        arguments: &mut ArgumentRange,
    ) -> Result<()> {
        let sources = sources(block, dispatch)?;
        let size = usize::from(dispatch.kernarg_length_qwords) * 8;
        let tail_length = usize::from(dispatch.payload_count) * 8;
        let counted_tail =
            || tail.get(..tail_length).ok_or_else(|| Status::invalid_argument("a tail that is not in its record"));
        let mut contents = Vec::with_capacity(size);
        let kernarg = match dispatch.kernarg_strategy {
            KernargStrategy::PREPUBLISHED => self.published + u64::from(dispatch.payload_reference),
            KernargStrategy::CUSTOM_DIRECT => arguments.write(counted_tail()?, size)?,
            KernargStrategy::PATCHED_TEMPLATE => {
                contents.extend_from_slice(rodata(block, dispatch.payload_reference.into(), tail_length)?);
                for source in sources {
                    put(
                        &mut contents,
                        usize::from(source.target_binding_ordinal) * 8,
                        &self.address(source)?.to_le_bytes(),
                    );
                }
                arguments.write(&contents, size)?
            }
            KernargStrategy::HAL | KernargStrategy::DYNAMIC_BINDINGS | KernargStrategy::INDIRECT => {
                for source in sources.iter().filter(|source| !source.flags.indirect_parameters()) {
                    contents.extend_from_slice(&self.address(source)?.to_le_bytes());
                }
                contents.extend_from_slice(counted_tail()?);
                arguments.write(&contents, size)?
            }
            other => return Err(Status::unimplemented(format!("arguments by the strategy {other:?}"))),
        };
        let packet = KernelDispatchPacket::new(
            order,
            dispatch.kernel_object,
            kernarg,
            dispatch.workgroup_size,
            dispatch.grid_size,
        )?;
        let packet = with_sizes(packet, dispatch.private_segment_size, dispatch.group_segment_size);
        if !dispatch.dispatch_flags.indirect_parameters() {
            packets.push(packet.to_bytes());
            return Ok(());
        }
        self.indirect(dispatch, sources, packet, order, packets, arguments)
    }

    /// A dispatch whose size is in memory: a kernel of the driver reads it, writes it into the packet after its own and into the implicit
    /// arguments, and publishes the packet.
    fn indirect(
        &self,
        dispatch: &DispatchCommand,
        sources: &[BindingSource],
        packet: KernelDispatchPacket,
        order: Order,
        packets: &mut PacketWriter,
        arguments: &mut ArgumentRange,
    ) -> Result<()> {
        let counts = sources.iter().find(|source| source.flags.indirect_parameters());
        let counts = counts.ok_or_else(|| Status::invalid_argument("an indirect dispatch without its size"))?;
        let patch = self.transfers()?.patch;
        let implicit = match dispatch.implicit_args_offset_qwords {
            NO_IMPLICIT_ARGS => 0,
            offset => {
                let block_count = std::mem::offset_of!(ImplicitArgs, block_count) as u64;
                packet.kernarg_address + u64::from(offset) * 8 + block_count
            }
        };
        // It sees what the patch wrote once that has completed.
        let published = Order { barrier: true, ..order }.apply(packet.header)?;
        let first_dword = u32::from(published.0) | u32::from(packet.setup.0) << 16;
        let [x, y, z] = dispatch.workgroup_size;
        let words = [self.address(counts)?, packets.slot_address(1), implicit];
        let sizes = [u32::from(x), u32::from(y), u32::from(z), first_dword];
        let mut bytes = Vec::with_capacity(PATCH_ARGUMENTS as usize);
        words.iter().for_each(|word| bytes.extend_from_slice(&word.to_le_bytes()));
        sizes.iter().for_each(|size| bytes.extend_from_slice(&size.to_le_bytes()));
        let kernarg = arguments.write(&bytes, bytes.len())?;
        let first = KernelDispatchPacket::new(order, patch.object, kernarg, [1, 1, 1], [1, 1, 1])?;
        packets.push(with_sizes(first, patch.private_size, patch.group_size).to_bytes());
        let header = PacketHeader::default().with_type(PacketType::INVALID)?;
        packets.push(KernelDispatchPacket { header, ..packet }.to_bytes());
        Ok(())
    }
}

fn with_sizes(packet: KernelDispatchPacket, private: u32, group: u32) -> KernelDispatchPacket {
    KernelDispatchPacket { private_segment_size: private, group_segment_size: group, ..packet }
}

/// The order of a command's first packet.
fn order(header: CommandHeader) -> Order {
    let flags = header.flags;
    Order { barrier: flags.has_barrier(), acquire: flags.acquire_scope(), release: flags.release_scope() }
}

/// The binding sources of a dispatch.
fn sources<'a>(block: &'a Block<'_>, dispatch: &DispatchCommand) -> Result<&'a [BindingSource]> {
    let count = usize::from(dispatch.binding_count);
    let start = dispatch.binding_source_offset.checked_sub(block.header.binding_source_offset);
    let start = start.map(|start| start as usize).filter(|start| start.is_multiple_of(BindingSource::SIZE));
    let sources = start.and_then(|start| block.binding_sources.get(start / BindingSource::SIZE..)?.get(..count));
    sources.ok_or_else(|| Status::invalid_argument("binding sources that are not in their block"))
}

/// A range of a block's data.
fn rodata<'a>(block: &Block<'a>, start: u64, length: usize) -> Result<&'a [u8]> {
    let start = usize::try_from(start).ok();
    let data = start.and_then(|start| block.rodata.get(start..)?.get(..length));
    data.ok_or_else(|| Status::invalid_argument("data that are not in their block"))
}

const _: () = assert!(WHOLE_BUFFER == u64::MAX);
