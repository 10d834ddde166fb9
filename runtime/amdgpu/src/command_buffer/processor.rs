//! The block processor ([`Processor`]): a small interpreter of blocks that writes a [`Template`]. It runs once for each block, when recording ends:
//! executions copy what it wrote. It knows nothing of queues.

use vireo_hsa::blocks::{Block, command_header};
use vireo_hsa::command_buffer::{
    BindingKind, BindingSource, Command, CommandHeader, CopyCommand, DispatchCommand, FillCommand, KernargStrategy,
    NO_IMPLICIT_ARGS, UpdateCommand,
};
use vireo_hsa::kernarg::ImplicitArgs;
use vireo_hsa::packet::{FenceScope, KernelDispatchPacket, PacketHeader, PacketType};
use vireo_hsa::packets::Order;

use super::arguments::reserved_size;
use super::program::StaticBuffer;
use super::recorder::{PATCH_ARGUMENTS, TRANSFER_ARGUMENTS};
use super::template::{Base, End, Operation, Template};
use crate::executable::LoadedKernel;
use crate::hal::{WHOLE_BUFFER, check_range};
use crate::status::{Result, Status};

/// What a transfer moves at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransferUnit {
    /// 16 bytes.
    Sixteen,
    /// 4 bytes.
    Four,
    /// Bytes.
    Byte,
}

impl TransferUnit {
    /// All, the largest first.
    pub const ALL: [TransferUnit; 3] = [TransferUnit::Sixteen, TransferUnit::Four, TransferUnit::Byte];

    /// Bytes.
    pub fn size(self) -> u64 {
        match self {
            TransferUnit::Sixteen => 16,
            TransferUnit::Four => 4,
            TransferUnit::Byte => 1,
        }
    }

    /// Its index in [`TransferUnit::ALL`].
    pub(super) fn index(self) -> usize {
        self as usize
    }

    /// The largest that divides all of some numbers, whose bits are `bits`.
    pub(super) fn of(bits: u64) -> TransferUnit {
        let fitting = TransferUnit::ALL.into_iter().find(|unit| bits.is_multiple_of(unit.size()));
        fitting.unwrap_or(TransferUnit::Byte)
    }
}

/// The driver's own kernels on a device. The order of the arrays is that of [`TransferUnit::ALL`].
#[derive(Clone, Copy, Debug, Default)]
pub struct TransferKernels {
    /// Fill memory with a pattern.
    pub fill: [LoadedKernel; 3],
    /// Copy memory.
    pub copy: [LoadedKernel; 3],
    /// Copy between ranges that overlap.
    pub r#move: [LoadedKernel; 3],
    /// Writes the size of a grid into a packet and publishes it.
    pub patch: LoadedKernel,
}

/// What the processor needs of a program.
#[derive(Clone, Copy, Debug)]
pub struct Processor<'a> {
    /// What static ordinals refer to.
    pub buffers: &'a [StaticBuffer],
    /// The driver's kernels; none where no command needs them.
    pub transfers: Option<&'a TransferKernels>,
    /// Address of the arguments that the program published.
    pub published: u64,
}

impl Processor<'_> {
    /// The template of a block. It has as many packets and bytes of arguments as the header says at most.
    ///
    /// # Errors
    /// INVALID_ARGUMENT or OUT_OF_RANGE for a block that is malformed, UNIMPLEMENTED for commands that this processor does not execute.
    pub fn run(&self, bytes: &[u8]) -> Result<Template> {
        let block = Block::read(bytes)?;
        let mut template = Template::recycled();
        // The scope that the next command acquires after a barrier.
        let mut barrier = None;
        for (command, tail) in &block.commands {
            let mut order = order(command_header(command));
            if let Some(acquire) = barrier.take() {
                (order.barrier, order.acquire) = (true, FenceScope(order.acquire.0.max(acquire)));
            }
            match command {
                Command::Barrier(command) => barrier = Some(command.acquire_scope.0),
                // Blocks follow each other, so a branch is one to the next block.
                Command::Return(_) => {}
                Command::Branch(branch)
                    if branch.target_block_ordinal == block.header.block_ordinal.wrapping_add(1) => {}
                Command::Dispatch(dispatch) => self.dispatch(&block, dispatch, tail, order, &mut template)?,
                Command::Fill(fill) => self.fill(fill, order, &mut template)?,
                Command::Copy(copy) => self.copy(copy, order, &mut template)?,
                Command::Update(update) => self.update(&block, update, order, &mut template)?,
                Command::Branch(_) => return Err(Status::unimplemented("branches to another than the next block")),
                Command::CondBranch(_) => {
                    return Err(Status::unimplemented("conditional branches of command buffers are not executed"));
                }
            }
        }
        let (packets, arguments) = (template.packet_count() as u64, template.argument_bytes());
        if packets > block.header.aql_packet_count.into() || arguments > block.header.kernarg_length.into() {
            let message = format!("a block of {packets} packets and {arguments} bytes of arguments says it has less");
            return Err(Status::invalid_argument(message));
        }
        Ok(template)
    }

    /// What an ordinal refers to, with bytes to add.
    fn base(&self, kind: BindingKind, ordinal: u32, offset: u64) -> Result<(Base, u64)> {
        match kind {
            BindingKind::DYNAMIC => Ok((Base::Slot(ordinal), offset)),
            BindingKind::STATIC => {
                let buffer = self.buffers.get(ordinal as usize).ok_or_else(|| {
                    Status::out_of_range(format!("static binding {ordinal}: there are {}", self.buffers.len()))
                })?;
                Ok(match buffer.fixed {
                    Some(address) => (Base::Fixed, address.wrapping_add(offset)),
                    None => (Base::Buffer(ordinal), offset),
                })
            }
            _ => Err(Status::invalid_argument(format!("{kind:?} is no kind of binding"))),
        }
    }

    /// One end of a transfer. Lengths of slots may depend on the table.
    fn end(&self, kind: BindingKind, ordinal: u32, offset: u64, length: u64) -> Result<End> {
        if kind == BindingKind::STATIC
            && let Some(buffer) = self.buffers.get(ordinal as usize)
        {
            check_range(buffer.buffer.byte_length(), offset, length)?;
        }
        let (base, offset) = self.base(kind, ordinal, offset)?;
        if length == WHOLE_BUFFER && !matches!(base, Base::Slot(_)) {
            return Err(Status::invalid_argument("a transfer of a buffer without its length"));
        }
        Ok(End { base, offset, length })
    }

    /// Writes the address of a binding source to arguments.
    fn address(&self, source: &BindingSource, at: usize, template: &mut Template) -> Result<()> {
        let flags = source.flags;
        let kind = match (flags.dynamic(), flags.static_buffer()) {
            (false, false) => {
                template.put(at, source.offset_or_pointer);
                return Ok(());
            }
            (true, false) => BindingKind::DYNAMIC,
            (false, true) => BindingKind::STATIC,
            (true, true) => return Err(Status::invalid_argument("a binding source that is static and dynamic")),
        };
        let (base, addend) = self.base(kind, source.slot, source.offset_or_pointer)?;
        template.patch(at, base, addend);
        Ok(())
    }

    fn transfers(&self) -> Result<&TransferKernels> {
        self.transfers.ok_or_else(|| {
            Status::unimplemented("the device has no kernels of the driver: it cannot fill or copy memory")
        })
    }

    fn fill(&self, fill: &FillCommand, order: Order, template: &mut Template) -> Result<()> {
        let target = self.end(fill.target_kind, fill.target_ordinal, fill.target_offset, fill.length)?;
        let operation = Operation::Fill { pattern: fill.pattern, step: fill.pattern_length.max(1).into() };
        self.transfer(order, target, operation, template)
    }

    fn copy(&self, copy: &CopyCommand, order: Order, template: &mut Template) -> Result<()> {
        let source = self.end(copy.source_kind, copy.source_ordinal, copy.source_offset, copy.length)?;
        let target = self.end(copy.target_kind, copy.target_ordinal, copy.target_offset, copy.length)?;
        self.transfer(order, target, Operation::Copy { source }, template)
    }

    fn update(&self, block: &Block<'_>, update: &UpdateCommand, order: Order, template: &mut Template) -> Result<()> {
        let length = u64::from(update.length);
        let target = self.end(update.target_kind, update.target_ordinal, update.target_offset, length)?;
        let data = rodata(block, update.rodata_ordinal, update.length as usize)?;
        let at = template.add_arguments(data, reserved_size(length) as usize);
        let source = End { base: Base::Arguments, offset: at as u64, length };
        self.transfer(order, target, Operation::Copy { source }, template)
    }

    /// A dispatch of one of the driver's kernels.
    fn transfer(&self, order: Order, target: End, operation: Operation, template: &mut Template) -> Result<()> {
        self.transfers()?;
        let arguments = template.add_arguments(&[], reserved_size(TRANSFER_ARGUMENTS) as usize);
        let packet = KernelDispatchPacket::new(order, 0, arguments as u64, [1; 3], [1; 3])?;
        template.push_transfer(&packet, arguments, target, operation);
        Ok(())
    }

    fn dispatch(
        &self,
        block: &Block<'_>,
        dispatch: &DispatchCommand,
        tail: &[u8],
        order: Order,
        template: &mut Template,
    ) -> Result<()> {
        let sources = sources(block, dispatch)?;
        let size = usize::from(dispatch.kernarg_length_qwords) * 8;
        let tail_length = usize::from(dispatch.payload_count) * 8;
        let counted_tail =
            || tail.get(..tail_length).ok_or_else(|| Status::invalid_argument("a tail that is not in its record"));
        let reserved = reserved_size(size as u64) as usize;
        // The address that is patched later has to be within the arguments.
        let fits = |end: usize| {
            (end <= size).then_some(()).ok_or_else(|| Status::invalid_argument("arguments that exceed their size"))
        };
        let kernarg = match dispatch.kernarg_strategy {
            KernargStrategy::PREPUBLISHED => self.published + u64::from(dispatch.payload_reference),
            KernargStrategy::CUSTOM_DIRECT => {
                fits(tail_length)?;
                template.add_arguments(counted_tail()?, reserved) as u64
            }
            KernargStrategy::PATCHED_TEMPLATE => {
                let contents = rodata(block, dispatch.payload_reference.into(), tail_length)?;
                fits(tail_length)?;
                let start = template.add_arguments(contents, reserved);
                for source in sources {
                    let at = usize::from(source.target_binding_ordinal) * 8;
                    fits(at + 8)?;
                    self.address(source, start + at, template)?;
                }
                start as u64
            }
            KernargStrategy::HAL | KernargStrategy::DYNAMIC_BINDINGS | KernargStrategy::INDIRECT => {
                let bindings = sources.iter().filter(|source| !source.flags.indirect_parameters());
                let tail_at = bindings.clone().count() * 8;
                let tail = counted_tail()?;
                fits(tail_at + tail.len())?;
                let start = template.add_arguments(&[], reserved);
                for (index, source) in bindings.enumerate() {
                    self.address(source, start + index * 8, template)?;
                }
                template.copy_arguments(start + tail_at, tail);
                start as u64
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
        let is_relocated = dispatch.kernarg_strategy != KernargStrategy::PREPUBLISHED;
        if !dispatch.dispatch_flags.indirect_parameters() {
            template.push(&packet, is_relocated);
            return Ok(());
        }
        if !is_relocated {
            return Err(Status::invalid_argument("an indirect dispatch whose arguments are published"));
        }
        self.indirect(dispatch, sources, packet, order, template)
    }

    /// A dispatch whose size is in memory: a kernel of the driver reads it, writes it into the packet after its own and into the implicit
    /// arguments, and publishes the packet.
    fn indirect(
        &self,
        dispatch: &DispatchCommand,
        sources: &[BindingSource],
        packet: KernelDispatchPacket,
        order: Order,
        template: &mut Template,
    ) -> Result<()> {
        let counts = sources.iter().find(|source| source.flags.indirect_parameters());
        let counts = counts.ok_or_else(|| Status::invalid_argument("an indirect dispatch without its size"))?;
        let patch = self.transfers()?.patch;
        // It sees what the patch wrote once that has completed.
        let published = Order { barrier: true, ..order }.apply(packet.header)?;
        let first_dword = u32::from(published.0) | u32::from(packet.setup.0) << 16;
        let start = template.add_arguments(&[], reserved_size(PATCH_ARGUMENTS) as usize);
        self.address(counts, start, template)?;
        template.put_slot(start + 8, template.packet_count() + 1);
        if dispatch.implicit_args_offset_qwords != NO_IMPLICIT_ARGS {
            let offset = u64::from(dispatch.implicit_args_offset_qwords) * 8;
            let block_count = std::mem::offset_of!(ImplicitArgs, block_count) as u64;
            template.patch(start + 16, Base::Arguments, packet.kernarg_address + offset + block_count);
        }
        let [x, y, z] = dispatch.workgroup_size.map(u64::from);
        template.put(start + 24, y << 32 | x);
        template.put(start + 32, u64::from(first_dword) << 32 | z);
        let first = KernelDispatchPacket::new(order, patch.object, start as u64, [1, 1, 1], [1, 1, 1])?;
        template.push(&with_sizes(first, patch.private_size, patch.group_size), true);
        let header = PacketHeader::default().with_type(PacketType::INVALID)?;
        template.push(&KernelDispatchPacket { header, ..packet }, true);
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
