//! The recorder ([`PacketRecorder`]): checks commands and writes them to the templates of blocks. What does not depend
//! on the binding table is decided here, once: the packets with the order among them, which arguments are known, and
//! what an execution has to patch.

use std::sync::Arc;

use vireo_hsa::packet::{FenceScope, KernelDispatchPacket};
use vireo_hsa::packets::Order;

use super::arguments::reserved_size;
use super::program::Program;
use super::published::PublishedArguments;
use super::source::KernelSource;
use super::targets::Targets;
use super::template::{MAX_ARGUMENTS, Template};
use super::transfer::{Operation, TRANSFER_ARGUMENTS, TransferKernels};
use crate::hal::recycle::{FreeList, MAX_FREE, Uninit, free_list};
use crate::hal::transfer::{check_copy, check_fill, check_pattern};
use crate::hal::{BufferRef, BufferUsage};
use crate::hal_driver::deferred::{self, DeferredCommandBuffer, DispatchRequest, EachRecorder, OfOneDevice};
use crate::hal_driver::references::{Base, Place, References};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::memory::AgentMask;
use crate::status::{Result, Status};

/// Records a program.
#[derive(Debug)]
pub struct PacketRecorder {
    pub(super) source: Arc<dyn KernelSource>,
    /// Whether it may be executed more than once.
    pub(super) reusable: bool,
    /// The blocks that have ended.
    templates: Vec<Template>,
    /// The block that commands are added to.
    pub(super) template: Template,
    /// The arguments that are the same in all executions.
    pub(super) published: PublishedArguments,
    /// Whether the next command follows a barrier.
    follows_barrier: bool,
    commands: u32,
    /// The driver's kernels, once a command needs them.
    kernels: Option<TransferKernels>,
    /// The memory of the program, charged to the call that records it.
    pub(super) charge: Charge,
    pub(super) work: Box<Work>,
}

/// The working storage of a recorder, to be used again by the next one of the thread.
#[derive(Debug, Default)]
pub(super) struct Work {
    pub(super) references: References<AgentMask>,
    pub(super) targets: Targets,
    /// The bindings of a dispatch.
    pub(super) places: Vec<Place>,
}

free_list! { static WORK: Box<Work>, 2 }

/// A command buffer of an AMD GPU.
pub type AmdCommandBuffer = DeferredCommandBuffer<PacketRecorder>;

/// A command buffer of several AMD GPUs.
pub type AgentsCommandBuffer = DeferredCommandBuffer<EachRecorder<PacketRecorder>>;

free_list! { static COMMAND_BUFFERS: Uninit<AmdCommandBuffer>, MAX_FREE }
free_list! { static AGENTS_COMMAND_BUFFERS: Uninit<AgentsCommandBuffer>, MAX_FREE }

impl OfOneDevice for PacketRecorder {
    fn command_buffers_of_each() -> &'static FreeList<Uninit<AgentsCommandBuffer>> {
        &AGENTS_COMMAND_BUFFERS
    }
}

impl deferred::Recorder for PacketRecorder {
    type Device = Arc<dyn KernelSource>;
    type Program = Program;

    fn command_buffers() -> &'static FreeList<Uninit<AmdCommandBuffer>> {
        &COMMAND_BUFFERS
    }

    fn new(source: &Arc<dyn KernelSource>, capacity: u32, reusable: bool) -> PacketRecorder {
        let mut work = WORK.pop(0).unwrap_or_default();
        work.references.begin(capacity);
        PacketRecorder {
            source: source.clone(),
            reusable,
            templates: Vec::new(),
            template: Template::recycled(),
            published: PublishedArguments::default(),
            follows_barrier: false,
            commands: 0,
            kernels: None,
            charge: Charge::of_call_anyway(OBJECT_BYTES),
            work,
        }
    }

    fn command_count(&self) -> usize {
        self.commands as usize
    }

    fn commands_of(program: &Program) -> usize {
        program.commands() as usize
    }

    fn barrier(&mut self) -> Result<()> {
        // A flag of the next command; those at the beginning order nothing.
        self.follows_barrier = self.commands > 0;
        Ok(())
    }

    fn fill(&mut self, target: &BufferRef, pattern: &[u8]) -> Result<()> {
        let step = check_pattern(pattern)?;
        self.record(|recorder| {
            let place = recorder.work.references.place(target, BufferUsage::TRANSFER_TARGET)?;
            check_fill(step, target.offset, place.length)?;
            if place.length == 0 {
                return Ok(());
            }
            let mut repeated = [0; 8];
            repeated.iter_mut().zip(pattern.iter().cycle()).for_each(|(to, from)| *to = *from);
            recorder.transfer(place, Operation::Fill { pattern: u64::from_le_bytes(repeated), step }, &[])
        })
    }

    fn update(&mut self, source: &[u8], target: &BufferRef) -> Result<()> {
        self.record(|recorder| {
            let place = recorder.work.references.place(target, BufferUsage::TRANSFER_TARGET)?;
            let length = source.len() as u64;
            if place.length != length {
                let message = format!("update of {length} bytes to a range of {}", place.length);
                return Err(Status::invalid_argument(message));
            }
            if length == 0 {
                return Ok(());
            }
            // The bytes are the next arguments of the block, which `transfer` adds.
            let source_place = Place { base: Base::Arguments, offset: 0, length };
            recorder.transfer(place, Operation::Copy { source: source_place }, source)
        })
    }

    fn copy(&mut self, source: &BufferRef, target: &BufferRef) -> Result<()> {
        self.record(|recorder| {
            let from = recorder.work.references.place(source, BufferUsage::TRANSFER_SOURCE)?;
            let to = recorder.work.references.place(target, BufferUsage::TRANSFER_TARGET)?;
            check_copy(from.length, to.length)?;
            if from.length == 0 {
                return Ok(());
            }
            recorder.transfer(to, Operation::Copy { source: from }, &[])
        })
    }

    fn synchronise(&mut self, range: &BufferRef) -> Result<()> {
        // Queues acquire and release memory for the host at both ends of a submission, so only the range is checked:
        // that of a slot by executions.
        self.record(|recorder| {
            let references = &mut recorder.work.references;
            let place = references.place(range, BufferUsage::empty())?;
            references.note(&place, BufferUsage::empty());
            Ok(())
        })
    }

    fn dispatch(&mut self, _source: &Arc<dyn KernelSource>, request: DispatchRequest<'_>) -> Result<()> {
        self.record(|recorder| recorder.record_dispatch(&request))
    }

    fn finish(mut self, _source: &Arc<dyn KernelSource>) -> Result<Arc<Program>> {
        self.end_block()?;
        self.published.publish();
        let PacketRecorder { templates, published, commands, kernels, charge, mut work, .. } = self;
        let held = work.references.take();
        work.targets.clear();
        WORK.push(0, work);
        // There are fewer than 2^32, which recording has checked.
        let ordinals = (0..).zip(&templates).filter(|(_, template)| template.depends_on_lengths());
        let unchecked = ordinals.map(|(ordinal, _)| ordinal).collect();
        Ok(Arc::new(Program { templates, held, unchecked, _published: published, kernels, commands, _charge: charge }))
    }
}

impl PacketRecorder {
    /// Records a command. One that is refused leaves nothing behind.
    #[inline]
    fn record(&mut self, command: impl FnOnce(&mut PacketRecorder) -> Result<()>) -> Result<()> {
        let mark = self.work.references.mark();
        let recorded = command(self);
        if recorded.is_err() {
            self.work.references.rewind(mark);
        }
        recorded
    }

    /// Records a transfer with some bytes, which it copies if there are any.
    fn transfer(&mut self, target: Place, operation: Operation, bytes: &[u8]) -> Result<()> {
        self.transfer_kernels()?;
        let order = self.begin_command(1, reserved_size(bytes.len()) + reserved_size(TRANSFER_ARGUMENTS))?;
        self.work.references.note(&target, BufferUsage::TRANSFER_TARGET);
        let operation = match operation {
            Operation::Copy { source: Place { base: Base::Arguments, length, .. } } => {
                let at = self.template.add_arguments(bytes.len());
                self.template.arguments_mut(at)[..bytes.len()].copy_from_slice(bytes);
                Operation::Copy { source: Place { base: Base::Arguments, offset: at as u64, length } }
            }
            Operation::Copy { source } => {
                self.work.references.note(&source, BufferUsage::TRANSFER_SOURCE);
                operation
            }
            Operation::Fill { .. } => operation,
        };
        let packet = KernelDispatchPacket::new(order, 0, 0, [1; 3], [1; 3])?;
        self.template.push_transfer(packet, target, operation);
        Ok(())
    }

    /// The driver's kernels.
    ///
    /// # Errors
    /// UNIMPLEMENTED if there are none for the device.
    pub(super) fn transfer_kernels(&mut self) -> Result<&TransferKernels> {
        if self.kernels.is_none() {
            self.kernels = Some(self.source.transfers()?);
        }
        self.kernels.as_ref().ok_or_else(|| Status::internal("kernels that were there are not"))
    }

    /// Begins a command of so many packets and bytes of arguments, in another block if they do not fit this one.
    /// Returns the order of its first packet. The command is recorded then, so nothing may fail afterwards.
    ///
    /// # Errors
    /// OUT_OF_RANGE if it does not fit a block, RESOURCE_EXHAUSTED if there is no memory.
    #[inline]
    pub(super) fn begin_command(&mut self, packets: usize, arguments: usize) -> Result<Order> {
        if !self.template.has_room(packets, arguments) {
            self.end_full_block(arguments)?;
        }
        self.commands = self.commands.checked_add(1).ok_or_else(|| Status::out_of_range("too many commands"))?;
        // A barrier or the end of the block comes after each command, so each releases what it writes.
        let release = FenceScope::AGENT;
        Ok(match std::mem::take(&mut self.follows_barrier) {
            false => Order { barrier: false, acquire: FenceScope::NONE, release },
            true => Order { barrier: true, acquire: FenceScope::AGENT, release },
        })
    }

    #[cold]
    fn end_full_block(&mut self, arguments: usize) -> Result<()> {
        if arguments > MAX_ARGUMENTS {
            return Err(Status::out_of_range("a command is too large for a block"));
        }
        self.end_block()
    }

    fn end_block(&mut self) -> Result<()> {
        self.charge.add(self.template.byte_length(), "commands of a command buffer")?;
        self.templates.push(std::mem::replace(&mut self.template, Template::recycled()));
        Ok(())
    }
}
