//! The cost of submissions to the host: the time that the submitting thread runs, with an agent whose processor does
//! nothing with packets but to complete them.
//!
//! `cargo bench -p vireo-amdgpu --bench submission`. The rows are those of the reference's driver: recording and
//! replaying a chain of 512 dispatches, replaying 792 dispatches alone and in batches, and edges between two queues.
//! The best of several rounds counts; time in which the thread waits does not. An argument restricts the rows to those
//! that contain it.

#[path = "../../../../tests/support/rows.rs"]
mod rows;

use std::ffi::c_void;
use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use vireo_amdgpu::agent::System;
use vireo_amdgpu::device::DeviceOptions;
use vireo_amdgpu::driver::AmdDriver;
use vireo_amdgpu::queue::QueueOptions;
use vireo_amdgpu::symbols::Hsa;
use vireo_hal::{
    Buffer, BufferBinding, BufferParams, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, Device,
    DispatchConfig, DispatchFlags, Driver, Executable, ExecutableCachingMode, ExecutableFunction, ExecuteFlags,
    ExecutionBarrierFlags, ExecutionStage, FillFlags, MemoryType, QueueAffinity, Semaphore, SemaphoreFlags, StringPair,
    Timepoint, WHOLE_BUFFER,
};
use vireo_hsa::hsa::{Agent, HsaStatus, QueueErrorCallback};
use vireo_hsa::packet::Packet;
use vireo_hsa::queue::{AmdQueue, HsaQueue, QueueType};
use vireo_hsa::ring::{Ring, Slot};
use vireo_hsa::signal::{AmdSignal, Signal};

use rows::{report, timed};

const KERNELS: &[u8] = include_bytes!("../../../../../fixtures/amdgpu/kernels_gfx1100.amd1");

/// Functions of the executable: three bindings and four constants, and two bindings.
const ADD: ExecutableFunction = ExecutableFunction(0);
const ABS: ExecutableFunction = ExecutableFunction(1);

/// Rounds of which the best counts.
const ROUNDS: usize = 300;

/// The memory of a queue, with its indices.
#[repr(C, align(64))]
struct QueueMemory([AtomicU64; AmdQueue::SIZE / 8]);

/// A queue whose packets are completed and forgotten.
#[derive(Clone, Copy)]
struct NullQueue {
    memory: &'static QueueMemory,
    slots: &'static [Slot],
}

static QUEUES: Mutex<Vec<NullQueue>> = Mutex::new(Vec::new());

/// Whether the processor leaves packets alone: what is submitted then is not complete before the next submission.
static IS_PAUSED: AtomicBool = AtomicBool::new(false);

impl NullQueue {
    fn index(&self, offset: usize) -> &'static AtomicU64 {
        &self.memory.0[offset / 8]
    }

    /// Completes the packets that are published.
    fn drain(&self) -> bool {
        let write = self.index(std::mem::offset_of!(AmdQueue, write_dispatch_id));
        let read = self.index(std::mem::offset_of!(AmdQueue, read_dispatch_id));
        let ring = Ring::new(self.slots, write, read).expect("the size is a power of two");
        let mut drained = false;
        while read.load(Ordering::Relaxed) < write.load(Ordering::Acquire) {
            let Some(packet) = ring.peek(0) else { break };
            let signal = match packet.expect("the driver writes packets") {
                Packet::KernelDispatch(packet) => packet.completion_signal,
                Packet::BarrierAnd(packet) => packet.completion_signal,
                Packet::BarrierOr(packet) => packet.completion_signal,
                Packet::AgentDispatch(packet) => packet.completion_signal,
                Packet::Pm4Ib(packet) => packet.completion_signal,
                Packet::BarrierValue(packet) => packet.completion_signal,
            };
            if signal != Signal::default() {
                value_of(signal).fetch_sub(1, Ordering::AcqRel);
            }
            ring.retire();
            drained = true;
        }
        drained
    }
}

/// The value of a signal, which is in its memory.
fn value_of(signal: Signal) -> &'static AtomicI64 {
    let address = signal.0 as usize + std::mem::offset_of!(AmdSignal, value);
    // SAFETY: a signal's handle is the address of its memory, and the benchmark destroys none while it uses it.
    unsafe { AtomicI64::from_ptr(ptr::with_exposed_provenance_mut(address)) }
}

/// As the HSA library does for signals that are no doorbells.
unsafe extern "C" fn load(signal: Signal) -> i64 {
    value_of(signal).load(Ordering::Acquire)
}

/// A doorbell is a register, so to ring one is a store.
unsafe extern "C" fn store(signal: Signal, value: i64) {
    value_of(signal).store(value, Ordering::Release);
}

unsafe extern "C" fn create_queue(
    _agent: Agent,
    size: u32,
    _type: QueueType,
    _callback: Option<QueueErrorCallback>,
    _data: *mut c_void,
    _private_segment_size: u32,
    _group_segment_size: u32,
    queue: *mut *mut HsaQueue,
) -> HsaStatus {
    let slots: Vec<Slot> = (0..size).map(|_| Slot::invalid().expect("the type fits")).collect();
    let slots: &'static [Slot] = slots.leak();
    let mut doorbell = Signal::default();
    // SAFETY: the signal is written.
    unsafe { (vireo_softhsa::functions().hsa_amd_signal_create)(0, 0, ptr::null(), 0, &mut doorbell) };
    let description = AmdQueue {
        hsa_queue: HsaQueue {
            base_address: slots.as_ptr().expose_provenance() as u64,
            doorbell_signal: doorbell,
            size,
            ..HsaQueue::default()
        },
        ..AmdQueue::default()
    };
    let bytes = description.to_bytes();
    let words = bytes.as_chunks::<8>().0;
    let memory = QueueMemory(std::array::from_fn(|index| AtomicU64::new(u64::from_le_bytes(words[index]))));
    let memory: &'static QueueMemory = Box::leak(Box::new(memory));
    QUEUES.lock().unwrap_or_else(PoisonError::into_inner).push(NullQueue { memory, slots });
    // SAFETY: the driver asks for the queue there.
    unsafe { *queue = ptr::from_ref(memory).cast_mut().cast() };
    HsaStatus::SUCCESS
}

unsafe extern "C" fn destroy_queue(_queue: *mut HsaQueue) -> HsaStatus {
    HsaStatus::SUCCESS
}

/// Completes the packets of all queues, for ever.
fn run_processor() {
    let mut queues: Vec<NullQueue> = Vec::new();
    loop {
        let known = QUEUES.lock().unwrap_or_else(PoisonError::into_inner);
        if known.len() > queues.len() {
            queues.clone_from(&known);
        }
        drop(known);
        let is_paused = IS_PAUSED.load(Ordering::Acquire);
        if is_paused || !queues.iter().fold(false, |any, queue| queue.drain() | any) {
            thread::sleep(Duration::from_micros(20));
        }
    }
}

struct Bench {
    device: Arc<dyn Device>,
    executable: Arc<dyn Executable>,
    buffers: [Arc<dyn Buffer>; 3],
    line: Arc<dyn Semaphore>,
}

/// Submits something to a queue, between two points.
type Submit<'a> = &'a dyn Fn(QueueAffinity, &[Timepoint], &[Timepoint]);

/// How dispatches name their buffers.
#[derive(Clone, Copy)]
enum Bindings {
    Static,
    Dynamic,
    Mixed,
}

fn queue(index: u32) -> QueueAffinity {
    QueueAffinity::from_bits_retain(1 << index)
}

impl Bench {
    fn new() -> Bench {
        let mut functions = vireo_softhsa::functions();
        functions.hsa_queue_create = create_queue;
        functions.hsa_queue_destroy = destroy_queue;
        functions.hsa_signal_load_scacquire = load;
        functions.hsa_signal_store_screlease = store;
        // SAFETY: the functions are those of one library, with queues of the benchmark's own.
        let hsa = unsafe { Hsa::start(functions, None) }.expect("it starts");
        thread::spawn(run_processor);
        // Arguments of all executions that are submitted before the first one completes.
        let queue = QueueOptions { kernarg_bytes: 32 << 20, ..QueueOptions::default() };
        let options = DeviceOptions { queue, ..DeviceOptions::default() };
        let driver = AmdDriver::new(System::discover(&hsa).expect("there are agents"), options);
        let param = |key: &str, value: &str| StringPair { key: key.to_string(), value: value.to_string() };
        let params = [param("amdgpu_queues", "2"), param("amdgpu_queue_packets", "16384")];
        let device = driver.create_device_by_path("amdgpu", "0", &params).expect("there is a device");
        let cache = device.create_executable_cache("benchmark").expect("there are caches");
        let mode = ExecutableCachingMode::empty();
        let executable = cache.prepare_executable(QueueAffinity::ANY, mode, "gfx1100", KERNELS, &[]);
        let buffer = |_| {
            let params = BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() };
            device.allocator().allocate_buffer(params, 256).expect("there is memory")
        };
        let line =
            device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("there are timelines");
        Bench { executable: executable.expect("it loads"), buffers: std::array::from_fn(buffer), line, device }
    }

    fn references(&self, bindings: Bindings) -> [BufferRef; 3] {
        std::array::from_fn(|index| match (bindings, index) {
            (Bindings::Static, _) | (Bindings::Mixed, 0) => {
                BufferRef { buffer: Some(self.buffers[index].clone()), slot: 0, offset: 0, length: 256 }
            }
            _ => BufferRef { buffer: None, slot: index as u32, offset: 0, length: 256 },
        })
    }

    /// Records a chain of dispatches.
    fn record(&self, count: usize, function: ExecutableFunction, references: &[BufferRef]) -> Arc<dyn CommandBuffer> {
        let mode = CommandBufferMode::empty();
        let commands = self.device.create_command_buffer(mode, CommandCategory::ANY, queue(0), 3).expect("there are");
        let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
        let (bindings, constants): (_, &[u32]) = if function == ADD { (3, &[64, 0, 64, 0]) } else { (2, &[]) };
        let (flags, stages) = (DispatchFlags::empty(), ExecutionStage::empty());
        commands.begin().expect("begins");
        for _ in 0..count {
            let references = &references[..bindings];
            commands.dispatch(&self.executable, function, &config, constants, references, flags).expect("records");
            commands.execution_barrier(stages, stages, ExecutionBarrierFlags::empty(), &[], &[]).expect("records");
        }
        commands.end().expect("ends");
        commands
    }

    fn point(&self, value: u64) -> Timepoint {
        Timepoint { semaphore: self.line.clone(), value }
    }

    /// The time of `count` submissions, each after the one before, of which none completes before all are submitted.
    fn submissions(&self, count: u64, submit: impl Fn(u64, &[Timepoint], &[Timepoint])) -> f64 {
        IS_PAUSED.store(true, Ordering::Release);
        let first = self.line.query().expect("did not fail") + 1;
        // The first one waits for this packet, on the other queue.
        let flags = FillFlags::empty();
        let target = &self.buffers[0];
        let begin = [self.point(first)];
        self.device.queue_fill(queue(1), &[], &begin, target, 0, 4, &[0], flags).expect("submits");
        let points: Vec<Timepoint> = (0..=count).map(|step| self.point(first + step)).collect();
        let time = timed(|| {
            for step in 0..count as usize {
                submit(step as u64, &points[step..=step], &points[step + 1..=step + 1]);
            }
        });
        IS_PAUSED.store(false, Ordering::Release);
        self.line.wait(first + count, None).expect("it is reached");
        time
    }

    fn rows(&self, filter: &str) {
        let table =
            self.buffers.clone().map(|buffer| BufferBinding { buffer: Some(buffer), offset: 0, length: WHOLE_BUFFER });
        let names = [("static", Bindings::Static), ("dynamic", Bindings::Dynamic), ("mixed", Bindings::Mixed)];
        let execute = |commands: &Arc<dyn CommandBuffer>, wait: &[Timepoint], signal: &[Timepoint]| {
            let flags = ExecuteFlags::empty();
            self.device.queue_execute(queue(0), wait, signal, commands, &table, flags).expect("submits");
        };
        for (kernel, function) in [("2 bindings", ABS), ("3 bindings, 4 constants", ADD)] {
            for (name, bindings) in names {
                let references = self.references(bindings);
                let row = format!("record 512 dispatches/barriers, {name}, {kernel}");
                report(filter, &row, ROUNDS, 512, || {
                    let mut commands = None;
                    timed(|| commands = Some(self.record(512, function, &references)))
                });
                let commands = self.record(512, function, &references);
                let row = format!("replay 512 dispatches/barriers, {name}, {kernel}");
                report(filter, &row, ROUNDS, 512, || {
                    self.submissions(1, |_, wait, signal| execute(&commands, wait, signal))
                });
            }
        }
        for (name, bindings) in names {
            let commands = self.record(792, ADD, &self.references(bindings));
            for depth in [1, 16] {
                let row = format!("792 dispatches, c1/d{depth}, {name}");
                report(filter, &row, ROUNDS, depth, || {
                    self.submissions(depth as u64, |_, wait, signal| execute(&commands, wait, signal))
                });
            }
        }
        const EDGES: usize = 512;
        let (device, target) = (&self.device, &self.buffers[0]);
        let edge = |row: &str, submit: Submit<'_>| {
            report(filter, row, ROUNDS, EDGES, || {
                self.submissions(EDGES as u64, |step, wait, signal| submit(queue(step as u32 % 2), wait, signal))
            });
        };
        edge("Cross-queue dependency edge", &|queue, wait, signal| {
            device.queue_barrier(queue, wait, signal, ExecuteFlags::empty()).expect("submits");
        });
        edge("Edge + 4-byte device copy", &|queue, wait, signal| {
            let flags = Default::default();
            device.queue_copy(queue, wait, signal, target, 0, &self.buffers[1], 0, 4, flags).expect("submits");
        });
        edge("Edge + 4-byte device fill", &|queue, wait, signal| {
            device.queue_fill(queue, wait, signal, target, 0, 4, &[1], FillFlags::empty()).expect("submits");
        });
        let references = self.references(Bindings::Static);
        let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
        edge("Edge + tiny dispatch", &|queue, wait, signal| {
            let (flags, bindings) = (DispatchFlags::empty(), &references[..2]);
            device
                .queue_dispatch(queue, wait, signal, &self.executable, ABS, &config, &[], bindings, flags)
                .expect("submits");
        });
    }
}

fn main() {
    // Cargo passes options of its own.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    Bench::new().rows(&filter);
}
