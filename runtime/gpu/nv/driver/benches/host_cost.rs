//! The cost of the driver to the host: a device of the null library, whose functions return at once.
//!
//! `cargo bench -p vireo-cuda-driver --bench host_cost`. Rows but the last ones are the time that the submitting thread
//! runs, while the stream is held up, so that nothing completes meanwhile. An argument restricts the rows to those that
//! contain it. `benches/compare_cuda_host.py` compares whole programs with the reference.

#[path = "../../../../tests/support/rows.rs"]
mod rows;

use std::sync::Arc;
use std::time::Instant;

use vireo_cuda_driver::{NAMES, library};
use vireo_hal::*;
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

use rows::{report, timed};

/// The executable of `fixtures/cuda/rebuild.sh`.
const KERNELS: &[u8] = include_bytes!("../../../../../fixtures/cuda/conformance_sm_60.cda1");

/// A function of three bindings.
const ADD: ExecutableFunction = ExecutableFunction(0);

/// Rounds of which the best counts.
const ROUNDS: usize = 300;
/// Commands of a command buffer.
const COMMANDS: usize = 512;

/// How dispatches name their buffers.
#[derive(Clone, Copy)]
enum Bindings {
    Static,
    Dynamic,
    /// The first of them from the table in one dispatch alone.
    One,
}

struct Bench {
    device: Arc<dyn Device>,
    executable: Arc<dyn Executable>,
    buffers: [Arc<dyn Buffer>; 3],
    line: Arc<dyn Semaphore>,
}

impl Bench {
    fn new(graphs: &str) -> Bench {
        // SAFETY: it finds the functions of one library, which is part of the program.
        let library = unsafe { library::start_found(vireo_nullcuda::entries::cuGetProcAddress_v2, None) };
        let driver = StreamDriver::new(library.expect("it starts"), 0, DeviceOptions::default()).expect("a driver");
        let params = [StringPair { key: "graphs".to_string(), value: graphs.to_string() }];
        let device = driver.create_device_by_path("cuda", "0", &params).expect("there is a device");
        let cache = device.create_executable_cache("benchmark").expect("there are caches");
        let mode = ExecutableCachingMode::empty();
        let executable = cache.prepare_executable(QueueAffinity::ANY, mode, NAMES.format, KERNELS, &[]);
        let buffer = |_| {
            let params = BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() };
            device.allocator().allocate_buffer(params, 4096).expect("there is memory")
        };
        let line =
            device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("there are timelines");
        Bench { executable: executable.expect("it loads"), buffers: std::array::from_fn(buffer), line, device }
    }

    fn references(&self, bindings: Bindings, index: usize) -> [BufferRef; 3] {
        std::array::from_fn(|slot| match bindings {
            Bindings::Static => BufferRef { buffer: Some(self.buffers[slot].clone()), slot: 0, offset: 0, length: 256 },
            Bindings::One if index != COMMANDS / 2 || slot > 0 => {
                BufferRef { buffer: Some(self.buffers[slot].clone()), slot: 0, offset: 0, length: 256 }
            }
            _ => BufferRef { buffer: None, slot: slot as u32, offset: 0, length: 256 },
        })
    }

    /// Records a chain of dispatches.
    fn record(&self, count: usize, bindings: Bindings) -> Arc<dyn CommandBuffer> {
        let (mode, all) = (CommandBufferMode::empty(), QueueAffinity::ANY);
        let commands = self.device.create_command_buffer(mode, CommandCategory::ANY, all, 3).expect("there are");
        let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
        let (flags, stages) = (DispatchFlags::empty(), ExecutionStage::empty());
        commands.begin().expect("begins");
        for index in 0..count {
            let references = self.references(bindings, index);
            let function = ADD;
            commands.dispatch(&self.executable, function, &config, &[], &references, flags).expect("records");
            commands.execution_barrier(stages, stages, ExecutionBarrierFlags::empty(), &[], &[]).expect("records");
        }
        commands.end().expect("ends");
        commands
    }

    fn point(&self, value: u64) -> Timepoint {
        Timepoint { semaphore: self.line.clone(), value }
    }

    fn table(&self, offset: u64) -> [BufferBinding; 3] {
        let binding = |buffer: Arc<dyn Buffer>| BufferBinding { buffer: Some(buffer), offset, length: 1024 };
        self.buffers.clone().map(binding)
    }

    fn execute(&self, commands: &Arc<dyn CommandBuffer>, points: [&[Timepoint]; 2], table: &[BufferBinding]) {
        let flags = ExecuteFlags::empty();
        let [wait, signal] = points;
        self.device.queue_execute(QueueAffinity::ANY, wait, signal, commands, table, flags).expect("submits");
    }

    /// The time of `count` submissions, each after the one before.
    fn submissions(&self, count: u64, submit: impl Fn(u64, &[Timepoint], &[Timepoint])) -> f64 {
        let first = self.line.query().expect("did not fail");
        let points: Vec<Timepoint> = (0..=count).map(|step| self.point(first + step)).collect();
        let time = timed(|| {
            for step in 0..count as usize {
                submit(step as u64, &points[step..=step], &points[step + 1..=step + 1]);
            }
        });
        self.line.wait(first + count, None).expect("it is reached");
        time
    }

    fn replays(&self, filter: &str, graphs: &str) {
        let names = [("static", Bindings::Static), ("dynamic", Bindings::Dynamic), ("one patched", Bindings::One)];
        let tables = [self.table(0), self.table(1024)];
        for (name, bindings) in names {
            let commands = self.record(COMMANDS, bindings);
            // Graphs are made at the second execution.
            for step in 0..3u64 {
                self.submissions(1, |_, wait, signal| {
                    self.execute(&commands, [wait, signal], &tables[step as usize % 2])
                });
            }
            let step = std::cell::Cell::new(0);
            report(filter, &format!("replay {COMMANDS} dispatches, {name}, graphs {graphs}"), ROUNDS, COMMANDS, || {
                step.set(step.get() + 1);
                self.submissions(1, |_, wait, signal| self.execute(&commands, [wait, signal], &tables[step.get() % 2]))
            });
        }
    }

    fn calls(&self, filter: &str) {
        let (commands, table) = (self.record(1, Bindings::Dynamic), self.table(0));
        report(filter, "a further submission of one dispatch", ROUNDS, 64, || {
            self.submissions(64, |_, wait, signal| self.execute(&commands, [wait, signal], &table))
        });
        let params = BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() };
        report(filter, "a further alloca, dispatch and dealloca", ROUNDS, 64, || {
            let first = self.line.query().expect("did not fail");
            let points: Vec<Timepoint> = (0..=192).map(|step| self.point(first + step)).collect();
            let time = timed(|| {
                for step in (0..192).step_by(3) {
                    let at = |step: usize| &points[step..=step];
                    let (all, flags) = (QueueAffinity::ANY, Default::default());
                    let buffer = self.device.queue_alloca(all, at(step), at(step + 1), None, params, 4096, flags);
                    let buffer = buffer.expect("submits");
                    let result = BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: 1024 };
                    let table = [table[0].clone(), table[1].clone(), result];
                    self.execute(&commands, [at(step + 1), at(step + 2)], &table);
                    let flags = Default::default();
                    self.device.queue_dealloca(all, at(step + 2), at(step + 3), &buffer, flags).expect("submits");
                }
            });
            self.line.wait(first + 192, None).expect("it is reached");
            time
        });
        // The time on the wall: threads hand a call to each other.
        report(filter, "a call that waits for its dispatch, wall time", ROUNDS, 16, || {
            let start = Instant::now();
            for _ in 0..16 {
                let value = self.line.query().expect("did not fail") + 1;
                self.execute(&commands, [&[], &[self.point(value)]], &table);
                self.line.wait(value, None).expect("it is reached");
            }
            start.elapsed().as_secs_f64()
        });
    }
}

fn main() {
    // Cargo passes options of its own.
    let filter = std::env::args().skip(1).find(|argument| !argument.starts_with('-')).unwrap_or_default();
    Bench::new("never").replays(&filter, "never");
    Bench::new("always").replays(&filter, "always");
    Bench::new("auto").calls(&filter);
}
