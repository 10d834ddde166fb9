//! The recorder ([`Recorder`]): checks commands and adds them to blocks. What does not depend on the binding table is decided here, once: how a
//! dispatch gets its arguments, which packets wait for earlier ones, and what every block needs of a queue.
//!
//! Arguments are produced by one of these strategies:
//! - *prepublished*: all addresses are known, and the command buffer can be executed again: they are written to its own memory when recording
//!   ends, and executions refer to them;
//! - *hal*: all addresses are those of buffers that the command buffer holds: written at each execution;
//! - *dynamic bindings*: all addresses are those of slots: scattered at each execution, followed by the constants;
//! - *patched template*: some are known: a copy of the template is patched at each execution;
//! - *indirect*: as *hal* or *dynamic*, for grids whose size is in memory, which a kernel of the driver writes into the packet;
//! - *custom direct*: the caller passes the whole block of arguments.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::sync::Arc;

use vireo_hsa::command_buffer::{
    BindingSource, Command, CommandDispatchFlags, CopyCommand, DispatchCommand, FillCommand, KernargStrategy,
    NO_IMPLICIT_ARGS, UpdateCommand,
};

use super::arguments::{IMPLICIT_SIZE, implicit_arguments, put};
use super::block::{BlockBuilder, MAX_KERNARG_LENGTH, Needs, NewCommand, kernarg_need};
use super::place::Place;
use super::processor::{Processor, TransferKernels};
use super::program::{Program, PublishedArguments, SlotUse, StaticBuffer};
use crate::executable::{Export, LoadedKernel};
use crate::hal::deferred::{self, DeferredCommandBuffer, DispatchRequest};
use crate::hal::recycle::{FreeList, MAX_FREE, Uninit, free_list};
use crate::hal::transfer::check_pattern;
use crate::hal::{
    Buffer, BufferRef, BufferUsage, DispatchFlags, Executable, ExecutableFunction, MemoryAccess, WHOLE_BUFFER,
    check_range, require_access, require_usage,
};
use crate::memory::{AgentMask, device_range, fixed_address};
use crate::status::{Result, Status};

/// Bytes of arguments of the kernels for transfers.
pub(super) const TRANSFER_ARGUMENTS: u64 = 32;

/// Bytes of arguments of the kernel that patches the size of a grid.
pub(super) const PATCH_ARGUMENTS: u64 = 40;

/// What a dispatch runs.
#[derive(Clone, Copy, Debug)]
pub struct DispatchTarget<'a> {
    /// The kernel as the device has it.
    pub kernel: LoadedKernel,
    /// What is known of the kernel.
    pub export: &'a Export,
    /// Identifier of the executable, for tools.
    pub executable_id: u64,
}

/// The device that commands are recorded for.
pub trait KernelSource: Debug + Send + Sync {
    /// The function of an executable.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if the executable is for another kind of device, OUT_OF_RANGE if it has no such function.
    fn target<'a>(
        &self,
        executable: &'a Arc<dyn Executable>,
        function: ExecutableFunction,
    ) -> Result<DispatchTarget<'a>>;

    /// The driver's own kernels.
    ///
    /// # Errors
    /// UNIMPLEMENTED if there are none for the device.
    fn transfers(&self) -> Result<TransferKernels>;

    /// Memory for arguments that stays with a command buffer, with these contents.
    ///
    /// # Errors
    /// RESOURCE_EXHAUSTED if there is none.
    fn publish_arguments(&self, contents: &[u8]) -> Result<PublishedArguments>;
}

/// Records a program.
#[derive(Debug)]
pub struct Recorder {
    source: Arc<dyn KernelSource>,
    /// Number of binding table slots that commands may refer to.
    capacity: u32,
    /// Whether it may be executed more than once.
    reusable: bool,
    blocks: Vec<Vec<u8>>,
    block: BlockBuilder,
    buffers: Vec<StaticBuffer>,
    /// The ordinals of buffers, by address.
    ordinals: BTreeMap<usize, u32>,
    executables: Vec<Arc<dyn Executable>>,
    slots: BTreeMap<u32, SlotUse>,
    /// The arguments to publish when recording ends.
    published: Vec<u8>,
    /// Whether the next command follows a barrier.
    barrier: bool,
    commands: u32,
    /// The driver's kernels, once a command needs them.
    kernels: Option<TransferKernels>,
    /// None while a dispatch is put together in it.
    scratch: Option<Box<Scratch>>,
}

/// Memory of a recorder that ended, for the next one of the thread.
#[derive(Debug, Default)]
struct Workspace {
    block: BlockBuilder,
    published: Vec<u8>,
    scratch: Option<Box<Scratch>>,
}

/// A workspace with more memory than this is not kept.
const MAX_WORKSPACE: usize = 4 << 20;

free_list! { static WORKSPACES: Box<Workspace>, 2 }

/// What a dispatch is put together in, to be used again for the next one.
#[derive(Debug, Default)]
struct Scratch {
    places: Vec<Place>,
    arguments: Vec<u8>,
    sources: Vec<BindingSource>,
}

/// A command buffer of an AMD GPU.
pub type AmdCommandBuffer = DeferredCommandBuffer<Recorder>;

free_list! { static COMMAND_BUFFERS: Uninit<AmdCommandBuffer>, MAX_FREE }

impl deferred::Recorder for Recorder {
    type Device = Arc<dyn KernelSource>;
    type Program = Program;

    fn command_buffers() -> &'static FreeList<Uninit<AmdCommandBuffer>> {
        &COMMAND_BUFFERS
    }

    fn new(source: &Arc<dyn KernelSource>, capacity: u32, reusable: bool) -> Recorder {
        let Workspace { block, published, scratch } = WORKSPACES.pop(0).map(|workspace| *workspace).unwrap_or_default();
        Recorder {
            source: source.clone(),
            capacity,
            reusable,
            blocks: Vec::new(),
            block,
            buffers: Vec::new(),
            ordinals: BTreeMap::new(),
            executables: Vec::new(),
            slots: BTreeMap::new(),
            published,
            barrier: false,
            commands: 0,
            kernels: None,
            scratch,
        }
    }

    fn command_count(&self) -> usize {
        self.commands as usize
    }

    fn commands_of(program: &Program) -> usize {
        program.commands() as usize
    }

    fn barrier(&mut self) -> Result<()> {
        // A flag of the next command, so barriers need no records; those at the beginning order nothing.
        self.barrier = self.commands > 0;
        Ok(())
    }

    fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()> {
        let step = check_pattern(pattern)?;
        let place = self.place(target, BufferUsage::TRANSFER_TARGET)?;
        check_fill(step, target.offset, place.length())?;
        if place.length() == 0 {
            return Ok(());
        }
        let mut repeated = [0; 8];
        repeated.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
        let (target_kind, target_ordinal, target_offset) = place.end();
        let command = FillCommand {
            target_offset,
            length: place.length(),
            pattern: u64::from_le_bytes(repeated),
            target_ordinal,
            target_kind,
            pattern_length: step as u8,
            ..FillCommand::tagged()
        };
        self.push(Command::Fill(command), FillCommand::SIZE, TRANSFER_ARGUMENTS, 0, &[])
    }

    fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        let place = self.place(target, BufferUsage::TRANSFER_TARGET)?;
        let length = source.len() as u64;
        if place.length() != length {
            let message = format!("update of {length} bytes to a range of {}", place.length());
            return Err(Status::invalid_argument(message));
        }
        if length == 0 {
            return Ok(());
        }
        let (target_kind, target_ordinal, target_offset) = place.end();
        let needs = Needs {
            packets: 1,
            kernargs: kernarg_need(TRANSFER_ARGUMENTS) + kernarg_need(length),
            record: UpdateCommand::SIZE,
            rodata: source.len() + 8,
            sources: 0,
        };
        self.make_room(needs)?;
        let data = self.block.add_rodata(source);
        let command = UpdateCommand {
            rodata_ordinal: data.into(),
            target_offset,
            // At most `MAX_UPDATE_SIZE`, which the caller checks, and a block has room for it.
            length: length as u32,
            target_ordinal,
            target_kind,
            ..UpdateCommand::tagged()
        };
        self.push_with(Command::Update(command), &[], needs)
    }

    fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        let from = self.place(source, BufferUsage::TRANSFER_SOURCE)?;
        let to = self.place(target, BufferUsage::TRANSFER_TARGET)?;
        if from.length() != to.length() {
            let message = format!("copy of a range of {} bytes to one of {}", from.length(), to.length());
            return Err(Status::invalid_argument(message));
        }
        if from.length() == 0 {
            return Ok(());
        }
        let (source_kind, source_ordinal, source_offset) = from.end();
        let (target_kind, target_ordinal, target_offset) = to.end();
        let command = CopyCommand {
            length: from.length(),
            source_offset,
            target_offset,
            source_ordinal,
            target_ordinal,
            source_kind,
            target_kind,
            ..CopyCommand::tagged()
        };
        self.push(Command::Copy(command), CopyCommand::SIZE, TRANSFER_ARGUMENTS, 0, &[])
    }

    fn synchronise(&mut self, range: &BufferRef) -> Result<()> {
        // Queues acquire and release memory for the host at both ends of a submission, so only the range is checked.
        self.place(range, BufferUsage::empty()).map(drop)
    }

    fn dispatch(&mut self, source: &Arc<dyn KernelSource>, request: DispatchRequest<'_>) -> Result<()> {
        let mut scratch = self.scratch.take().unwrap_or_default();
        scratch.places.clear();
        scratch.arguments.clear();
        scratch.sources.clear();
        let recorded = self.dispatch_in(&mut scratch, source, request);
        self.scratch = Some(scratch);
        recorded
    }

    fn finish(mut self, source: &Arc<dyn KernelSource>) -> Result<Arc<Program>> {
        self.end_block(None)?;
        let published = if self.published.is_empty() { None } else { Some(source.publish_arguments(&self.published)?) };
        let Recorder {
            blocks,
            buffers,
            executables,
            slots,
            commands,
            kernels,
            block,
            published: mut kept,
            scratch,
            ..
        } = self;
        kept.clear();
        if block.capacity() + kept.capacity() <= MAX_WORKSPACE {
            WORKSPACES.push(0, Box::new(Workspace { block, published: kept, scratch }));
        }
        let address = published.as_ref().map_or(0, |published| published.address);
        let processor = Processor { buffers: &buffers, transfers: kernels.as_ref(), published: address };
        let templates = blocks.iter().map(|block| processor.run(block)).collect::<Result<Vec<_>>>()?;
        // There are fewer than 2^32 of both, which recording has checked.
        let ordinals = (0..).zip(&templates).filter(|(_, template)| template.depends_on_lengths());
        let unchecked = ordinals.map(|(ordinal, _)| ordinal).collect();
        let transient = (0..).zip(&buffers).filter(|(_, buffer)| buffer.fixed.is_none());
        let transient = transient.map(|(ordinal, _)| ordinal).collect();
        let mut reached_by = AgentMask::ALL;
        for buffer in buffers.iter().filter(|buffer| buffer.fixed.is_some()) {
            reached_by = reached_by & device_range(&*buffer.buffer)?.reached_by;
        }
        Ok(Arc::new(Program {
            blocks,
            templates,
            buffers,
            transient,
            reached_by,
            _executables: executables,
            slots: slots.into_values().collect(),
            unchecked,
            _published: published,
            kernels,
            commands,
        }))
    }
}

impl Recorder {
    /// Records a dispatch, which is put together in `scratch`.
    fn dispatch_in(
        &mut self,
        scratch: &mut Scratch,
        source: &Arc<dyn KernelSource>,
        request: DispatchRequest<'_>,
    ) -> Result<()> {
        let flags = request.flags;
        if flags.intersects(DispatchFlags::DYNAMIC_INDIRECT_ARGUMENTS | DispatchFlags::STATIC_INDIRECT_ARGUMENTS) {
            return Err(Status::unimplemented("the driver `amdgpu` does not read blocks of arguments from buffers"));
        }
        let target = source.target(request.executable, request.function)?;
        let DispatchTarget { kernel, export, executable_id } = target;
        let name = export.kernel.name.as_str();
        let size = request.config.workgroup_size;
        let declared = export.workgroup_size.map(u32::from);
        if size != [0; 3] && size != declared {
            let message = format!("`{name}`: work-groups of {size:?} work-items, its kernel is for {declared:?}");
            return Err(Status::invalid_argument(message));
        }
        let is_custom = flags.contains(DispatchFlags::CUSTOM_DIRECT_ARGUMENTS);
        let bindings = if is_custom { 0 } else { export.bindings.len() };
        let constants =
            if is_custom { export.kernel.kernarg_size.div_ceil(4) as usize } else { export.constants as usize };
        if request.bindings.len() != bindings || request.constants.len() != constants {
            let (given, values) = (request.bindings.len(), request.constants.len());
            return Err(Status::invalid_argument(format!(
                "`{name}` takes {bindings} bindings and {constants} constants, not {given} and {values}"
            )));
        }
        let indirect = match request.indirect() {
            Some(counts) => {
                let counts = BufferRef { length: indirect_length(counts.length)?, ..counts.clone() };
                Some(self.place(&counts, BufferUsage::DISPATCH_INDIRECT_PARAMETERS)?)
            }
            None => None,
        };
        let count = request.config.workgroup_count;
        if indirect.is_none() && count.contains(&0) {
            return Ok(());
        }
        let mut grid_size = [0; 3];
        for (items, (count, size)) in grid_size.iter_mut().zip(count.iter().zip(&declared)) {
            *items = count.checked_mul(*size).ok_or_else(|| {
                Status::out_of_range(format!("`{name}`: {count:?} work-groups of {size:?} work-items are too many"))
            })?;
        }
        let local = request.config.dynamic_workgroup_local_memory;
        let group_segment_size = kernel
            .group_size
            .checked_add(local)
            .ok_or_else(|| Status::out_of_range(format!("`{name}`: {local} bytes of work-group memory")))?;
        let Scratch { places, arguments, sources } = scratch;
        for (ordinal, binding) in request.bindings.iter().enumerate() {
            let place = self
                .place(binding, BufferUsage::empty())
                .map_err(|status| status.context(format!("`{name}`: binding {ordinal}")))?;
            // The arguments as far as they are known.
            arguments.extend_from_slice(&place.fixed().unwrap_or(0).to_le_bytes());
            places.push(place);
        }
        let tail_at = arguments.len();
        for constant in request.constants {
            arguments.extend_from_slice(&constant.to_le_bytes());
        }
        let implicit = export.implicit_offset.filter(|_| !is_custom);
        if let Some(offset) = implicit {
            put(arguments, offset as usize, &implicit_arguments(count, export.workgroup_size, local));
        }
        // Records count their parts in qwords.
        arguments.resize(arguments.len().next_multiple_of(8), 0);
        let kernarg_size = (export.kernel.kernarg_size as usize).max(arguments.len()).next_multiple_of(8);
        if kernarg_size as u64 > MAX_KERNARG_LENGTH / 2 || kernarg_size / 8 > usize::from(u16::MAX) {
            return Err(Status::out_of_range(format!("`{name}`: {kernarg_size} bytes of arguments")));
        }
        let fixed = places.iter().filter(|place| place.fixed().is_some()).count();
        let slots = places.iter().filter(|place| place.is_slot()).count();
        let strategy = if is_custom {
            KernargStrategy::CUSTOM_DIRECT
        } else if indirect.is_some() {
            KernargStrategy::INDIRECT
        } else if self.reusable && fixed == places.len() {
            KernargStrategy::PREPUBLISHED
        } else if slots > 0 && slots == places.len() {
            KernargStrategy::DYNAMIC_BINDINGS
        } else if self.reusable && fixed > 0 {
            KernargStrategy::PATCHED_TEMPLATE
        } else {
            KernargStrategy::HAL
        };
        // Both counts were compared with those of the export, which fit.
        let of_bindings = places.iter().enumerate().map(|(ordinal, place)| (place, ordinal as u16));
        match strategy {
            KernargStrategy::PREPUBLISHED => {}
            KernargStrategy::PATCHED_TEMPLATE => {
                let patches = of_bindings.filter(|(place, _)| place.fixed().is_none());
                sources.extend(patches.map(|(place, ordinal)| place.source(ordinal)));
            }
            _ => {
                sources.extend(of_bindings.map(|(place, ordinal)| place.source(ordinal)));
                sources.extend(indirect.iter().map(|place| {
                    let source = place.source(0);
                    BindingSource { flags: source.flags.with_indirect_parameters(true), ..source }
                }));
            }
        }
        let tail = match strategy {
            KernargStrategy::PREPUBLISHED | KernargStrategy::PATCHED_TEMPLATE => &[],
            _ => &arguments[tail_at..],
        };
        let own = if strategy == KernargStrategy::PREPUBLISHED { 0 } else { kernarg_need(kernarg_size as u64) };
        let patch = if indirect.is_some() { kernarg_need(PATCH_ARGUMENTS) } else { 0 };
        let template = strategy == KernargStrategy::PATCHED_TEMPLATE;
        let needs = Needs {
            packets: 1 + u32::from(indirect.is_some()),
            kernargs: own + patch,
            sources: sources.len(),
            record: DispatchCommand::SIZE + tail.len(),
            rodata: if template { arguments.len() + 8 } else { 0 },
        };
        self.make_room(needs)?;
        let (payload_reference, payload_count) = match strategy {
            KernargStrategy::PREPUBLISHED => {
                let start = self.published.len().next_multiple_of(super::arguments::ARGUMENT_ALIGNMENT as usize);
                put(&mut self.published, start, arguments);
                self.published.resize(start + kernarg_size, 0);
                (start, 0)
            }
            KernargStrategy::PATCHED_TEMPLATE => (self.block.add_rodata(arguments) as usize, arguments.len() / 8),
            _ => (DispatchCommand::SIZE, tail.len() / 8),
        };
        let too_many = |_| Status::out_of_range(format!("`{name}`: the command buffer has too many arguments"));
        let command = DispatchCommand {
            kernel_object: kernel.object,
            binding_source_offset: self.block.add_sources(sources),
            payload_reference: u32::try_from(payload_reference).map_err(too_many)?,
            binding_count: sources.len() as u16,
            kernarg_length_qwords: (kernarg_size / 8) as u16,
            payload_count: u16::try_from(payload_count).map_err(too_many)?,
            kernarg_strategy: strategy,
            dispatch_flags: CommandDispatchFlags::default().with_indirect_parameters(indirect.is_some()),
            setup: vireo_hsa::packet::DispatchSetup::default().with_dimensions(3)?,
            export_ordinal: request.function.0 as u32,
            workgroup_size: export.workgroup_size,
            implicit_args_offset_qwords: implicit.map_or(NO_IMPLICIT_ARGS, |offset| (offset / 8) as u16),
            grid_size,
            private_segment_size: kernel.private_size,
            group_segment_size,
            executable_id,
            ..DispatchCommand::tagged()
        };
        // The last ones first: programs run the kernels of one executable after the other.
        if !self.executables.iter().rev().any(|executable| Arc::ptr_eq(executable, request.executable)) {
            self.executables.push(request.executable.clone());
        }
        self.push_with(Command::Dispatch(command), tail, needs)
    }

    fn end_block(&mut self, next: Option<u32>) -> Result<()> {
        let ordinal = self.blocks.len() as u32;
        self.blocks.push(self.block.finish(ordinal, next, self.commands)?);
        Ok(())
    }

    /// Begins another block unless a command with these needs fits.
    fn make_room(&mut self, needs: Needs) -> Result<()> {
        if self.block.has_room(needs) {
            return Ok(());
        }
        if !self.block.is_empty() {
            self.end_block(Some(self.blocks.len() as u32 + 1))?;
        }
        if self.block.has_room(needs) {
            Ok(())
        } else {
            Err(Status::out_of_range("a command is too large for a block"))
        }
    }

    /// Records a command of one packet.
    fn push(&mut self, command: Command, record: usize, kernargs: u64, sources: usize, tail: &[u8]) -> Result<()> {
        let needs = Needs { packets: 1, kernargs: kernarg_need(kernargs), sources, record, rodata: 0 };
        self.make_room(needs)?;
        self.push_with(command, tail, needs)
    }

    fn push_with(&mut self, command: Command, tail: &[u8], needs: Needs) -> Result<()> {
        let follows_barrier = std::mem::take(&mut self.barrier);
        let needs_kernels = match &command {
            Command::Dispatch(dispatch) => dispatch.dispatch_flags.indirect_parameters(),
            _ => true,
        };
        if needs_kernels && self.kernels.is_none() {
            self.kernels = Some(self.source.transfers()?);
        }
        let index = self.commands;
        self.commands = index.checked_add(1).ok_or_else(|| Status::out_of_range("too many commands"))?;
        self.block.push(NewCommand { command, tail, needs, follows_barrier, index })
    }

    /// Checks a reference as far as that does not depend on the binding table.
    // Part of its callers, which then use the place without writing it to memory first.
    #[inline(always)]
    fn place(&mut self, reference: &BufferRef, usage: BufferUsage) -> Result<Place> {
        let Some(buffer) = &reference.buffer else {
            let (slot, offset, length) = (reference.slot, reference.offset, reference.length);
            self.use_slot(reference, usage)?;
            return Ok(Place::Slot { slot, offset, length });
        };
        let length = check_range(buffer.byte_length(), reference.offset, reference.length)?;
        require_usage(&**buffer, usage)?;
        require_access(&**buffer, access_of(usage))?;
        let allocation = buffer.allocation();
        let (allocation, offset) = match &allocation {
            Some(allocation) => (allocation, buffer.byte_offset() + reference.offset),
            None => (buffer, reference.offset),
        };
        let ordinal = match self.ordinals.get(&Arc::as_ptr(allocation).addr()) {
            Some(ordinal) => *ordinal,
            None => self.hold(allocation)?,
        };
        let fixed = self.buffers[ordinal as usize].fixed.map(|address| address + offset);
        Ok(Place::Held { ordinal, offset, length, fixed })
    }

    /// Notes what a command needs of a slot.
    fn use_slot(&mut self, reference: &BufferRef, usage: BufferUsage) -> Result<()> {
        let BufferRef { slot, offset, length, .. } = *reference;
        if slot >= self.capacity {
            return Err(Status::out_of_range(format!("slot {slot}: the command buffer has {}", self.capacity)));
        }
        let end = offset.checked_add(if length == WHOLE_BUFFER { 0 } else { length });
        let end = end.ok_or_else(|| Status::out_of_range(format!("{length} bytes at {offset} of slot {slot}")))?;
        let all = self.slots.entry(slot).or_insert(SlotUse { slot, end, usage });
        (all.end, all.usage) = (all.end.max(end), all.usage | usage);
        Ok(())
    }

    /// Holds a buffer; returns its ordinal.
    fn hold(&mut self, allocation: &Arc<dyn Buffer>) -> Result<u32> {
        let ordinal = u32::try_from(self.buffers.len()).map_err(|_| Status::out_of_range("too many buffers"))?;
        self.buffers.push(StaticBuffer { buffer: allocation.clone(), fixed: fixed_address(&**allocation) });
        self.ordinals.insert(Arc::as_ptr(allocation).addr(), ordinal);
        Ok(ordinal)
    }
}

/// The access that transfers of a usage need.
pub(super) fn access_of(usage: BufferUsage) -> MemoryAccess {
    let mut access = MemoryAccess::empty();
    access.set(MemoryAccess::READ, usage.intersects(BufferUsage::TRANSFER_SOURCE));
    access.set(MemoryAccess::WRITE, usage.intersects(BufferUsage::TRANSFER_TARGET));
    access
}

/// Checks the range of a fill with a pattern of `step` bytes, as far as it is known.
pub(super) fn check_fill(step: u64, offset: u64, length: u64) -> Result<()> {
    if offset.is_multiple_of(step) && (length == WHOLE_BUFFER || length.is_multiple_of(step)) {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "fill at offset {offset} of length {length}: expected multiples of the pattern's {step} bytes"
    )))
}

/// The three counts of an indirect dispatch.
fn indirect_length(length: u64) -> Result<u64> {
    const COUNTS: u64 = 3 * size_of::<u32>() as u64;
    if length >= COUNTS {
        return Ok(COUNTS);
    }
    Err(Status::out_of_range(format!("{length} bytes for the size of a grid: expected {COUNTS}")))
}

const _: () = assert!(IMPLICIT_SIZE == 124);
