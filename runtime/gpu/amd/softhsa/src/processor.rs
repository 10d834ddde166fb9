//! The packet processor: a thread for each queue, which runs its packets in their order ([`PacketLoop`]), with their
//! fences, waits and completion signals.

use std::cell::RefCell;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock, PoisonError};

use vireo_core::visible_text::visible;
use vireo_hsa::hsa::{HsaStatus, MemoryFaultEvent, MemoryFaultReasons};
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_hsa::packet::{
    BarrierAndPacket, BarrierOrPacket, BarrierValuePacket, FenceScope, KernelDispatchPacket, PACKET_SIZE, Packet,
    PacketHeader, Pm4IbPacket,
};
use vireo_hsa::pm4::{Pm4Command, Pm4IndirectBuffer};
use vireo_hsa::queue::{HsaQueue, QueueType};
use vireo_hsa::signal::{AmdSignal, Signal as SignalHandle};
use vireo_simt::sanitize::{NewDispatch, RunningDispatch, Sanitizer};
use vireo_simt::{AccessHook, LANES, Memory, Port, TrapKind};
use vireo_soft::clock;
use vireo_soft::memory::map::Allocation;

use crate::agents::{MAX_GROUP_MEMORY, MAX_WORKGROUP_SIZE};
use crate::api::AgentView;
use crate::dispatch::KernelDispatch;
use crate::lifecycle::call_back;
use crate::packet_loop::{self, PacketLoop, Packets};
use crate::pm4;
use crate::queue::Queue;
use crate::sanitizer::KernelCode;
use crate::signals::{Signal, compare};
use crate::status::{Failure, tell};
use crate::system::System;
use crate::topology::PacketOrder;
use crate::trace::{PacketEvent, PacketOutcome, PacketPlace, PacketWait, TracedPacket, Tracer};

/// The largest alignment of the first instruction of a kernel.
const CODE_ALIGNMENT: u64 = 256;

/// Where the value of a signal is, from its handle.
const SIGNAL_VALUE: u64 = std::mem::offset_of!(AmdSignal, value) as u64;

/// The facts about a packet that a trace shows, besides its fields.
struct Log {
    waits: Vec<PacketWait>,
    commands: Vec<Pm4Command>,
}

/// Starts the packet processor of a queue.
pub(crate) fn start(system: &Arc<System>, queue: &Arc<Queue>) -> std::io::Result<()> {
    let (system, shared) = (system.clone(), queue.clone());
    let name = format!("softhsa-{}", queue.id);
    // The thread may end before this one goes on.
    queue.life.start();
    let thread = std::thread::Builder::new().name(name).spawn(move || run(&system, &shared));
    let thread = thread.inspect_err(|_| queue.life.set_done(&queue.doorbell.bell))?;
    *queue.thread.lock().unwrap_or_else(PoisonError::into_inner) = Some(thread);
    Ok(())
}

fn run(system: &System, queue: &Queue) {
    let Some(ring) = queue.ring() else { return queue.life.set_done(&queue.doorbell.bell) };
    let packets = PacketLoop {
        ring,
        write: queue.memory.write_index(),
        read: queue.memory.read_index(),
        slots: queue.slots.len() as u64,
        doorbell: &queue.doorbell,
        life: &queue.life,
        single_producer: queue.queue_type == QueueType::SINGLE,
        reorder: system.topology.order == PacketOrder::Reversed,
        overlap: system.topology.order == PacketOrder::Overlapped,
    };
    packets.run(&Processor { system, queue });
}

impl From<Failure> for Interruption {
    fn from(failure: Failure) -> Self {
        Interruption::Failed(failure)
    }
}

type Interruption = packet_loop::Interruption<Failure>;

type Outcome = Result<(), Interruption>;

struct Processor<'a> {
    system: &'a System,
    queue: &'a Queue,
}

fn malformed(what: impl Into<String>) -> Interruption {
    Interruption::Failed(Failure::new(HsaStatus::ERROR_INVALID_PACKET_FORMAT, what))
}

impl Packets for Processor<'_> {
    type Failure = Failure;

    fn begin(&self, packet: &Packet) {
        self.acquire(packet.header());
    }

    fn run(&self, packet: &Packet, index: u64) -> Outcome {
        self.packet(packet, index)
    }

    fn malformed(&self, what: &str) -> Failure {
        Failure::new(HsaStatus::ERROR_INVALID_PACKET_FORMAT, what)
    }

    fn tell(&self, failure: &Failure, index: u64, ended: bool) {
        self.fail(failure, index, ended);
    }
}

impl Processor<'_> {
    /// Runs a packet, with its fences and its completion signal.
    fn packet(&self, packet: &Packet, index: u64) -> Outcome {
        if let Some(tracer) = &self.system.signals.tracer {
            return self.traced(tracer, packet, index);
        }
        if let Some(completion) = self.execute(packet, index, None)? {
            self.system.signals.change(&completion, |value| value.wrapping_sub(1));
        }
        Ok(())
    }

    /// As [`Self::packet`], and tells the observer of the system.
    fn traced(&self, tracer: &Tracer, packet: &Packet, index: u64) -> Outcome {
        let (agent, queue, signals) = (self.queue.agent, self.queue.id, &self.system.signals);
        let place = PacketPlace { agent, queue, index };
        let symbols = match packet {
            Packet::KernelDispatch(_) => self.system.symbols.all(),
            _ => Vec::new(),
        };
        let kernel = match packet {
            Packet::KernelDispatch(packet) => {
                symbols.iter().find_map(|(_, symbol)| symbol.kernel_at(packet.kernel_object))
            }
            _ => None,
        };
        let waited: &[SignalHandle] = match packet {
            Packet::BarrierAnd(packet) => &packet.dep_signal,
            Packet::BarrierOr(packet) => &packet.dep_signal,
            Packet::BarrierValue(packet) => std::slice::from_ref(&packet.signal),
            _ => &[],
        };
        let waited: Vec<Arc<Signal>> = waited.iter().filter_map(|handle| signals.get(*handle).ok()).collect();
        let wait = |signal: &Arc<Signal>| {
            let (SignalHandle(handle), before) = (signal.handle(), signal.load());
            PacketWait { signal: handle, address: handle + SIGNAL_VALUE, before, after: before }
        };
        let mut log = Log { waits: waited.iter().map(wait).collect(), commands: Vec::new() };

        let begin = clock::now();
        let traced = TracedPacket { place, packet, kernel, begin };
        tracer.observer(&tracer.order()).event(&PacketEvent::Begin(traced));
        let executed = self.execute(packet, index, Some(&mut log));
        for (wait, signal) in log.waits.iter_mut().zip(&waited) {
            wait.after = signal.load();
        }
        // A waiter for the signal continues after this only.
        let order = tracer.order();
        let end = clock::now();
        let outcome = match &executed {
            Ok(Some(completion)) => {
                PacketOutcome::Completed(Some(signals.change(completion, |value| value.wrapping_sub(1))))
            }
            Ok(None) => PacketOutcome::Completed(None),
            Err(Interruption::Failed(failure)) => PacketOutcome::Failed(failure.status, &failure.what),
            Err(Interruption::Stopped) => PacketOutcome::Stopped,
        };
        let Log { waits, commands } = &log;
        tracer.observer(&order).event(&PacketEvent::End { packet: traced, end, waits, commands, outcome });
        executed.map(drop)
    }

    /// Runs a packet with its fences, and returns the completion signal that is to be decremented.
    fn execute(&self, packet: &Packet, index: u64, log: Option<&mut Log>) -> Result<Option<Arc<Signal>>, Interruption> {
        let header = packet.header();
        if header.0 & PacketHeader::RESERVED != 0 {
            return Err(malformed(format!("reserved bits of the header {:#x} are set", header.0)));
        }
        // A completion signal that is not there is found before the packet does anything.
        let completion = match packet.completion_signal() {
            SignalHandle(0) => None,
            handle => Some(self.signal(handle)?),
        };
        let start = clock::now();
        if let Some(sanitizer) = &self.system.sanitizer {
            sanitizer.packet(self.queue.id, index, header.barrier());
        }
        match packet {
            Packet::KernelDispatch(packet) => self.kernel(packet, index, completion.as_deref())?,
            Packet::BarrierAnd(packet) => self.barrier_and(packet)?,
            Packet::BarrierOr(packet) => self.barrier_or(packet)?,
            Packet::BarrierValue(packet) => self.barrier_value(packet)?,
            Packet::Pm4Ib(packet) => self.commands(packet, log)?,
            Packet::AgentDispatch(_) => return Err(malformed("GPUs have no functions for agent dispatches")),
        }
        self.release(header);
        if let Some(completion) = &completion {
            if self.queue.profiling.load(Ordering::Relaxed) {
                completion.set_times(start, clock::now());
            }
            // A thread that sees the new value has to see this, too.
            if let Some(sanitizer) = &self.system.sanitizer {
                sanitizer.signalled_by_queue(self.queue.id, completion.handle().0);
            }
        }
        Ok(completion)
    }

    /// Makes writes of the host visible that the packet acquires.
    fn acquire(&self, header: PacketHeader) {
        if let Some(agent) = self.system.agents.get(self.queue.agent as usize) {
            let _flushing = agent.flushing.lock().unwrap_or_else(PoisonError::into_inner);
            if agent.flush[0].swap(0, Ordering::Acquire) != 0 {
                self.system.memory.publish_to_device(true);
            }
        }
        if header.acquire_fence_scope() == FenceScope::SYSTEM {
            self.system.memory.publish_to_device(false);
        }
    }

    /// Makes writes of the packet visible to the host.
    fn release(&self, header: PacketHeader) {
        self.system.memory.publish_to_host(true);
        if header.release_fence_scope() == FenceScope::SYSTEM {
            self.system.memory.publish_to_host(false);
        }
    }

    fn view(&self) -> AgentView<'_> {
        AgentView::new(&self.system.memory, self.queue.agent)
    }

    fn signal(&self, handle: SignalHandle) -> Result<Arc<Signal>, Interruption> {
        let signal = self.system.signals.get(handle).ok().filter(|signal| !signal.is_doorbell());
        let missing = || Failure::new(HsaStatus::ERROR_INVALID_SIGNAL, format!("{:#x} is not a signal", handle.0));
        signal.ok_or_else(|| missing().into())
    }

    /// Waits until `ready` says so, or is wrong.
    fn wait(&self, mut ready: impl FnMut() -> Result<bool, Failure>) -> Outcome {
        let waited = self.queue.life.wait(&self.system.signals.bell, || match ready() {
            Ok(false) => None,
            Ok(true) => Some(Ok(())),
            Err(failure) => Some(Err(failure.into())),
        });
        waited.unwrap_or(Err(Interruption::Stopped))
    }

    fn signals(&self, handles: &[SignalHandle]) -> Result<Vec<Arc<Signal>>, Interruption> {
        handles.iter().filter(|handle| handle.0 != 0).map(|handle| self.signal(*handle)).collect()
    }

    /// The sanitizer learns that the queue has waited for signals.
    fn learn_from(&self, signals: &[Arc<Signal>]) {
        let Some(sanitizer) = &self.system.sanitizer else { return };
        signals.iter().for_each(|signal| sanitizer.waited(self.queue.id, signal.handle().0));
    }

    /// The same for a wait for memory, which may be the value of a signal.
    fn learn_from_memory(&self, address: u64) {
        let Some(sanitizer) = &self.system.sanitizer else { return };
        let handle = SignalHandle(address.wrapping_sub(SIGNAL_VALUE));
        match self.system.signals.get(handle) {
            Ok(_) => sanitizer.waited(self.queue.id, handle.0),
            Err(_) => sanitizer.waited_for_memory(self.queue.id),
        }
    }

    fn barrier_and(&self, packet: &BarrierAndPacket) -> Outcome {
        let signals = self.signals(&packet.dep_signal)?;
        self.wait(|| {
            let open = signals.iter().find(|signal| signal.load() != 0);
            open.map_or(Ok(true), |signal| check_alive(signal).map(|()| false))
        })?;
        self.learn_from(&signals);
        Ok(())
    }

    fn barrier_or(&self, packet: &BarrierOrPacket) -> Outcome {
        let signals = self.signals(&packet.dep_signal)?;
        self.wait(|| {
            // Without a signal there is nothing to wait for.
            if signals.is_empty() || signals.iter().any(|signal| signal.load() == 0) {
                return Ok(true);
            }
            signals.iter().try_for_each(|signal| check_alive(signal)).map(|()| false)
        })?;
        let open = |signal: &Arc<Signal>| signal.load() != 0;
        self.learn_from(&signals.into_iter().filter(|signal| !open(signal)).collect::<Vec<_>>());
        Ok(())
    }

    fn barrier_value(&self, packet: &BarrierValuePacket) -> Outcome {
        let wrong = || malformed(format!("{packet}: there is no such condition"));
        compare(0, packet.cond, 0).map_err(|_| wrong())?;
        let Some(signal) = self.signals(&[packet.signal])?.pop() else { return Ok(()) };
        self.wait(|| {
            let ready = compare(signal.load() & packet.mask, packet.cond, packet.value) == Ok(true);
            if ready { Ok(true) } else { check_alive(&signal).map(|()| false) }
        })?;
        self.learn_from(&[signal]);
        Ok(())
    }

    fn commands(&self, packet: &Pm4IbPacket, log: Option<&mut Log>) -> Outcome {
        let mut bytes = [0; Pm4IndirectBuffer::SIZE];
        for (bytes, dword) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(packet.ib_jump_cmd) {
            *bytes = dword.to_le_bytes();
        }
        let jump = Pm4IndirectBuffer::read(&bytes);
        let expected = Pm4IbPacket::tagged();
        if jump.header != Pm4IndirectBuffer::tagged().header || packet.dw_cnt_remain != expected.dw_cnt_remain {
            return Err(malformed(format!("{packet}: it has no jump to a buffer")));
        }
        let view = self.view();
        let mut stopped = false;
        let log = RefCell::new(log);
        let decoded = |command| {
            if let Some(log) = log.borrow_mut().as_mut() {
                log.commands.push(command);
            }
        };
        let wait = |wait: &pm4::MemoryWait| {
            let before = log.borrow().is_some().then(|| wait.load(&view)).transpose()?;
            let waited = self.wait(|| wait.is_over(&view));
            if let (Some(log), Some(before)) = (log.borrow_mut().as_mut(), before) {
                log.waits.push(self.memory_wait(wait, before, wait.load(&view)?));
            }
            match waited {
                Ok(()) => {
                    self.learn_from_memory(wait.address());
                    Ok(())
                }
                Err(Interruption::Failed(failure)) => Err(failure),
                Err(Interruption::Stopped) => {
                    stopped = true;
                    Err(Failure::new(HsaStatus::SUCCESS, "the queue was stopped"))
                }
            }
        };
        let run = pm4::run(jump, &view, decoded, wait);
        if stopped { Err(Interruption::Stopped) } else { run.map_err(Interruption::from) }
    }

    /// The trace of a wait for memory, which may be that of a signal.
    fn memory_wait(&self, wait: &pm4::MemoryWait, before: u64, after: u64) -> PacketWait {
        let handle = SignalHandle(wait.address().wrapping_sub(SIGNAL_VALUE));
        let signal = self.system.signals.get(handle).map_or(0, |_| handle.0);
        // Signals have a sign, and traces show other words likewise.
        PacketWait { signal, address: wait.address(), before: before as i64, after: after as i64 }
    }

    fn kernel(&self, packet: &KernelDispatchPacket, index: u64, completion: Option<&Signal>) -> Outcome {
        let isa = &self.system.topology.isa;
        if !self.system.runner.runs(isa) {
            let what = format!("{packet}: there is no interpreter for {isa}");
            return Err(Failure::new(HsaStatus::ERROR_INVALID_ISA, what).into());
        }
        let view = self.view();
        let (descriptor, code, segment) = check_dispatch(packet, &view)?;
        let (ring, bytes) = self.queue.ring_memory();
        let begun = self.begin_checks(packet, &segment, code, index);
        let counts = OnceLock::new();
        let is_counted = completion.is_some() && self.system.counting.load(Ordering::Relaxed) > 0;
        let hook = begun.as_ref().map(|(sanitizer, begun)| sanitizer.hook(begun, &view));
        let dispatch = KernelDispatch {
            packet,
            packet_address: ring + index * u64::from(PACKET_SIZE) % bytes,
            packet_id: index,
            queue_address: self.queue.address(),
            descriptor: &descriptor,
            code,
            code_length: segment.start + segment.length - code,
            code_before: code - segment.start,
            code_segment: segment.id,
            isa,
            memory: &view,
            half_sums: self.system.topology.half_sums,
            counts: is_counted.then_some(&counts),
            hook: hook.as_ref().map(|hook| hook as &dyn AccessHook),
            threads: self.system.threads,
            stop: &self.queue.life.stop,
        };
        let run = self.system.runner.run(&dispatch);
        if let Some((sanitizer, begun)) = &begun {
            sanitizer.complete(begun, (packet.completion_signal.0 != 0).then_some(packet.completion_signal.0));
        }
        if let Some(completion) = completion.filter(|_| is_counted) {
            completion.set_counts(counts.into_inner());
        }
        let Err(trap) = run else { return Ok(()) };
        let (status, fault) = match &trap.kind {
            TrapKind::Memory(fault) => (HsaStatus::ERROR_MEMORY_FAULT, Some(fault.address)),
            TrapKind::UnknownInstruction | TrapKind::NotImplemented(_) | TrapKind::InvalidOperand(_) => {
                (HsaStatus::ERROR_ILLEGAL_INSTRUCTION, None)
            }
            TrapKind::InvalidDispatch(_) => (HsaStatus::ERROR_INVALID_PACKET_FORMAT, None),
            TrapKind::Stopped if self.queue.life.stop.requested() => return Err(Interruption::Stopped),
            _ => (HsaStatus::ERROR_EXCEPTION, None),
        };
        Err(Failure { status, what: trap.to_string(), fault }.into())
    }

    /// Tells the sanitizer of a dispatch that begins.
    fn begin_checks(
        &self,
        packet: &KernelDispatchPacket,
        segment: &Allocation,
        code: u64,
        packet_id: u64,
    ) -> Option<(&Sanitizer, RunningDispatch)> {
        let sanitizer = self.system.sanitizer.as_ref()?;
        let objects = self.system.loaded_objects.all();
        let object = objects.into_iter().map(|(_, object)| object).find(|object| object.contains(segment.start))?;
        let name = visible(object.kernel_at(packet.kernel_object).unwrap_or("a kernel without a name"));
        let size = packet.workgroup_size.map(u32::from);
        let begun = sanitizer.begin(NewDispatch {
            code: Arc::new(KernelCode { name, object, entry: code }),
            queue: self.queue.id,
            packet: packet_id,
            groups: std::array::from_fn(|axis| packet.grid_size[axis].div_ceil(size[axis])),
            waves: size.iter().product::<u32>().div_ceil(LANES as u32),
        });
        Some((sanitizer, begun))
    }

    /// Tells the program why its queue stopped. Completion signals of the packet and of those after it stay as they
    /// are, as on hardware, so a program that is not told would wait for ever: the process ends then, as with the
    /// library of the vendor.
    fn fail(&self, failure: &Failure, index: u64, ended: bool) {
        tell(format_args!("queue {}, packet {index}: {} ({:?})", self.queue.id, failure.what, failure.status));
        let mut told = false;
        if let (Some(address), Some(agent)) = (failure.fault, self.system.agents.get(self.queue.agent as usize)) {
            let event = MemoryFaultEvent {
                agent: agent.handle(),
                virtual_address: address,
                fault_reason_mask: MemoryFaultReasons(0).with_page_not_present(true),
                ..MemoryFaultEvent::default()
            };
            let handlers = self.system.events.lock().unwrap_or_else(PoisonError::into_inner).clone();
            for handler in handlers {
                // SAFETY: the program gave the function to be called with its argument, and the event outlives the
                // call.
                let status = call_back(|| unsafe { (handler.callback)(&raw const event, handler.data) });
                told |= status == HsaStatus::SUCCESS;
            }
        }
        if let Some(handler) = &self.queue.error_handler {
            let source: *mut HsaQueue = std::ptr::with_exposed_provenance_mut(self.queue.address() as usize);
            // SAFETY: the program gave the function to be called with its argument. The queue's memory lives as long as
            // the queue, and begins with the part that programs see.
            call_back(|| unsafe { (handler.callback)(failure.status, source, handler.data) });
            told = true;
        }
        if !told && !ended {
            tell(format_args!("queue {} has no function that is told of errors, so the process ends", self.queue.id));
            std::process::abort();
        }
    }
}

/// A signal that was destroyed will never change.
fn check_alive(signal: &Signal) -> Result<(), Failure> {
    match signal.is_destroyed() {
        true => {
            Err(Failure::new(HsaStatus::ERROR_INVALID_SIGNAL, "a signal was destroyed while a packet waits for it"))
        }
        false => Ok(()),
    }
}

/// Checks a dispatch; returns the descriptor, the address of the first instruction, and the segment that it is in.
fn check_dispatch(
    packet: &KernelDispatchPacket,
    view: &AgentView<'_>,
) -> Result<(KernelDescriptor, u64, Arc<Allocation>), Interruption> {
    let wrong = |what: &str| malformed(format!("{packet}: {what}"));
    let dimensions = packet.setup.dimensions();
    if !(1..=3).contains(&dimensions) {
        return Err(wrong("the grid has 1 to 3 dimensions"));
    }
    if packet.grid_size.contains(&0) || packet.workgroup_size.contains(&0) {
        return Err(wrong("the grid or the work-groups are empty"));
    }
    let unused = usize::from(dimensions)..3;
    if unused.clone().any(|index| packet.grid_size[index] != 1 || packet.workgroup_size[index] != 1) {
        return Err(wrong("dimensions that are not used have one work-item"));
    }
    let size: u64 = packet.workgroup_size.iter().map(|size| u64::from(*size)).product();
    if size > u64::from(MAX_WORKGROUP_SIZE) {
        return Err(wrong("a work-group has too many work-items"));
    }
    if packet.group_segment_size > MAX_GROUP_MEMORY {
        return Err(wrong("a work-group has not as much memory"));
    }
    let mut port = Port::new(view);
    let mut bytes = [0; KernelDescriptor::SIZE];
    if !packet.kernel_object.is_multiple_of(KernelDescriptor::SIZE as u64) {
        return Err(wrong("the kernel object is not aligned"));
    }
    let fault = |fault: vireo_simt::Fault| {
        let what = format!("{packet}: {fault}");
        Interruption::Failed(Failure { status: HsaStatus::ERROR_MEMORY_FAULT, what, fault: Some(fault.address) })
    };
    for (index, byte) in bytes.iter_mut().enumerate() {
        *byte = port.load_u8(packet.kernel_object.wrapping_add(index as u64)).map_err(fault)?;
    }
    let descriptor = KernelDescriptor::read(&bytes);
    if packet.group_segment_size < descriptor.group_segment_fixed_size
        || packet.private_segment_size < descriptor.private_segment_fixed_size
    {
        return Err(wrong("there is less memory than the kernel declares"));
    }
    let code = packet.kernel_object.wrapping_add_signed(descriptor.kernel_code_entry_byte_offset);
    let segment = view.code(code).filter(|_| code.is_multiple_of(CODE_ALIGNMENT));
    let segment = segment.ok_or_else(|| wrong("the kernel object does not lead to code"))?;
    if descriptor.kernarg_size != 0 {
        let size = u64::from(descriptor.kernarg_size);
        let region = view.region(packet.kernarg_address);
        let offset = region.map(|region| (packet.kernarg_address - region.start, region.length));
        if offset.is_none_or(|(offset, length)| length - offset < size) {
            return Err(fault(vireo_simt::Fault {
                address: packet.kernarg_address,
                length: descriptor.kernarg_size,
                access: vireo_simt::Access::Load,
                why: vireo_simt::Refusal::Unmapped,
            }));
        }
    }
    Ok((descriptor, code, segment))
}
