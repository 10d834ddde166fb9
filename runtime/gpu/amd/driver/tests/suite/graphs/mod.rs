//! Random graphs of operations over four queues with the smallest rings: whatever the order in which threads submit
//! them, the bytes are those of a sequential model, and failures reach everyone who waits, with their cause.
//!
//! `VIREO_GRAPHS=1000 cargo test -p vireo-amdgpu --test suite random_graphs` runs so many, `VIREO_GRAPH=7` only the one
//! with this seed. A graph is the same in every run; only the timing differs.

mod plan;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use vireo_core::status::Status;
use vireo_hal::{
    Buffer, BufferBinding, BufferRef, CommandBuffer, CommandBufferMode, CommandCategory, Device, DispatchConfig,
    DispatchFlags, Executable, ExecutableFunction, ExecuteFlags, ExecutionBarrierFlags, ExecutionStage, File,
    MemoryType, Semaphore, Timepoint,
};

use self::plan::{
    Action, BUFFERS, Cause, Graph, Operation, QUEUES, Random, Range, SCRATCH, SIZE, Transfer, expected, make,
};
use super::support::{ABS, ADD, Machine, TestDevice, at, file, queue, whole};

/// Graphs of a run.
const GRAPHS: u64 = 6;
/// Operations of the part in which a kernel traps.
const TRAPPED: usize = 60;

struct Run<'a> {
    device: &'a Arc<dyn Device>,
    graph: &'a Graph,
    executable: Arc<dyn Executable>,
    /// The buffers, and the one for what fails.
    buffers: Vec<Arc<dyn Buffer>>,
    files: Vec<Arc<dyn File>>,
    counts: Arc<dyn Buffer>,
    lines: Vec<Arc<dyn Semaphore>>,
    bodies: Vec<Arc<dyn CommandBuffer>>,
}

impl Run<'_> {
    fn buffer(&self, store: usize) -> &Arc<dyn Buffer> {
        if store == SCRATCH { &self.buffers[BUFFERS] } else { &self.buffers[store] }
    }

    /// How a dispatch of the kernel is sized.
    fn config(&self, indirect: bool) -> (DispatchConfig, DispatchFlags) {
        let config = DispatchConfig { workgroup_count: [2, 1, 1], ..DispatchConfig::default() };
        if !indirect {
            return (config, DispatchFlags::empty());
        }
        let workgroup_count_ref = BufferRef { length: 12, ..whole(&self.counts) };
        (DispatchConfig { workgroup_count_ref, ..config }, DispatchFlags::STATIC_INDIRECT_PARAMETERS)
    }

    fn record(&self, transfers: &[Transfer]) -> Arc<dyn CommandBuffer> {
        let mode = CommandBufferMode::empty();
        let commands = self.device.create_command_buffer(mode, CommandCategory::ANY, queue(0), 2).expect("there are");
        let slot = |range: &Range| BufferRef {
            buffer: None,
            slot: range.store as u32,
            offset: range.offset as u64,
            length: range.length as u64,
        };
        let all = |store: usize| slot(&Range { store, offset: 0, length: SIZE });
        commands.begin().expect("begins");
        for transfer in transfers {
            match transfer {
                Transfer::Fill { to, pattern } => commands.fill_buffer(&slot(to), pattern, Default::default()),
                Transfer::Update { to, value } => {
                    commands.update_buffer(&vec![*value; to.length], &slot(to), Default::default())
                }
                Transfer::Copy { from, to } => commands.copy_buffer(&slot(from), &slot(to), Default::default()),
                Transfer::Abs { from, to, indirect } => {
                    let (config, flags) = self.config(*indirect);
                    let bindings = [all(*from), all(*to)];
                    commands.dispatch(&self.executable, ExecutableFunction(ABS), &config, &[], &bindings, flags)
                }
            }
            .expect("records");
            let stages = ExecutionStage::empty();
            commands.execution_barrier(stages, stages, ExecutionBarrierFlags::empty(), &[], &[]).expect("records");
        }
        commands.end().expect("ends");
        commands
    }

    fn submit(&self, operation: &Operation) {
        let device = self.device;
        let points = operation.after.iter().map(|index| {
            let before = &self.graph.operations[*index];
            at(&self.lines[before.line], before.value)
        });
        let failed = operation.failed_lines.iter().map(|line| at(&self.lines[*line], 1));
        let (wait, signal) =
            (points.chain(failed).collect::<Vec<Timepoint>>(), [at(&self.lines[operation.line], operation.value)]);
        let (wait, signal) = (&wait[..], &signal[..]);
        let affinity = queue(operation.queue as u32);
        let range = |range: &Range| (self.buffer(range.store), range.offset as u64, range.length as u64);
        match &operation.action {
            Action::Barrier => device.queue_barrier(affinity, wait, signal, ExecuteFlags::empty()),
            Action::Transfer(Transfer::Fill { to, pattern }) => {
                let (buffer, offset, length) = range(to);
                device.queue_fill(affinity, wait, signal, buffer, offset, length, pattern, Default::default())
            }
            Action::Transfer(Transfer::Update { to, value }) => {
                let (buffer, offset, length) = range(to);
                let bytes = vec![*value; length as usize];
                device.queue_update(affinity, wait, signal, &bytes, buffer, offset, Default::default())
            }
            Action::Transfer(Transfer::Copy { from, to }) => {
                let ((source, source_offset, length), (target, target_offset, _)) = (range(from), range(to));
                let flags = Default::default();
                device.queue_copy(affinity, wait, signal, source, source_offset, target, target_offset, length, flags)
            }
            Action::Transfer(Transfer::Abs { from, to, indirect }) => {
                let (config, flags) = self.config(*indirect);
                let bindings = [whole(self.buffer(*from)), whole(self.buffer(*to))];
                let (executable, function) = (&self.executable, ExecutableFunction(ABS));
                device.queue_dispatch(affinity, wait, signal, executable, function, &config, &[], &bindings, flags)
            }
            Action::Execute { body, stores } => {
                let bound = |store: usize| BufferBinding {
                    buffer: Some(self.buffer(store).clone()),
                    offset: 0,
                    length: SIZE as u64,
                };
                let table = stores.map(bound);
                device.queue_execute(affinity, wait, signal, &self.bodies[*body], &table, ExecuteFlags::empty())
            }
            Action::Refused => {
                let table = [BufferBinding::default(), BufferBinding::default()];
                device.queue_execute(affinity, wait, signal, &self.bodies[0], &table, ExecuteFlags::empty())
            }
            Action::Read { from, to } => {
                let (buffer, offset, length) = range(to);
                let (file, start) = (&self.files[from.store - BUFFERS], from.offset as u64);
                device.queue_read(affinity, wait, signal, file, start, buffer, offset, length, Default::default())
            }
            Action::Write { from, to } => {
                let (buffer, offset, length) = range(from);
                let (file, start) = (&self.files[to.store - BUFFERS], to.offset as u64);
                device.queue_write(affinity, wait, signal, buffer, offset, file, start, length, Default::default())
            }
        }
        .expect("it is submitted");
    }

    /// Submits all, by several threads in a random order.
    fn submit_all(&self, random: &mut Random) {
        let mut order: Vec<usize> = (0..self.graph.operations.len()).collect();
        // Mostly in the order of the graph, so that queues wait for each other and not for the host.
        for index in 1..order.len() {
            let other = index - random.below(index.min(5) + 1);
            order.swap(index, other);
        }
        let threads = 1 + random.below(3);
        let failing = random.below(order.len());
        let next = AtomicUsize::new(0);
        let submitter = || loop {
            let turn = next.fetch_add(1, Ordering::Relaxed);
            let Some(index) = order.get(turn) else { return };
            self.submit(&self.graph.operations[*index]);
            if turn == failing {
                for line in &self.graph.host_lines {
                    self.lines[*line].fail(Status::internal(format!("cause {line}.")));
                }
            }
        };
        std::thread::scope(|scope| {
            (1..threads).for_each(|_| {
                scope.spawn(submitter);
            });
            submitter();
        });
    }

    fn check(&self) {
        for (index, operation) in self.graph.operations.iter().enumerate() {
            let outcome = self.lines[operation.line].wait(operation.value, None);
            match outcome {
                Ok(()) => assert!(operation.causes.is_empty(), "operation {index} should have failed"),
                Err(failure) => {
                    let fits = operation.causes.iter().any(|cause| cause.is(&failure));
                    assert!(fits, "operation {index} fails with {failure}, not because of {:?}", operation.causes);
                }
            }
        }
    }

    /// A kernel traps on one queue: what depends on it fails, and so does what comes later there, and everything else
    /// completes. Where kernels of a queue overlap, what runs beside it there may fail or not.
    fn trap(&self, random: &mut Random, overlaps: bool) {
        let dead = random.below(QUEUES);
        let at_index = random.below(TRAPPED / 2);
        // None of those of which both may be.
        let mut fails: Vec<Option<bool>> = Vec::new();
        let mut lines: Vec<Arc<dyn Semaphore>> = Vec::new();
        for index in 0..TRAPPED {
            let line = self.device.timeline();
            let signal = [at(&line, 1)];
            let others: BTreeSet<usize> =
                (0..random.below(3)).filter(|_| index > 0).map(|_| random.below(index.max(1))).collect();
            let wait: Vec<Timepoint> = others.iter().map(|other| at(&lines[*other], 1)).collect();
            let is_trap = index == at_index;
            let on = if is_trap { dead } else { random.below(QUEUES) };
            let affinity = queue(on as u32);
            if is_trap {
                let (config, flags) = self.config(false);
                let bindings = [whole(self.buffer(SCRATCH)), whole(self.buffer(SCRATCH)), whole(self.buffer(SCRATCH))];
                let (executable, function) = (&self.executable, ExecutableFunction(ADD));
                self.device
                    .queue_dispatch(affinity, &wait, &signal, executable, function, &config, &[0; 4], &bindings, flags)
            } else {
                let buffer = self.buffer(SCRATCH);
                self.device.queue_fill(affinity, &wait, &signal, buffer, 0, 64, &[index as u8], Default::default())
            }
            .expect("it is submitted");
            let own = match on == dead {
                _ if is_trap => Some(true),
                true if overlaps => None,
                is_dead => Some(is_dead && index > at_index),
            };
            let of_all = others.iter().map(|other| fails[*other]).chain([own]);
            // A failure is certain if one of them is, and if none may be, nothing fails.
            let all: Vec<Option<bool>> = of_all.collect();
            let is_sure = all.contains(&Some(true)) || !all.contains(&None);
            fails.push(is_sure.then(|| all.contains(&Some(true))));
            lines.push(line);
        }
        for (index, (line, fails)) in lines.iter().zip(fails).enumerate() {
            match line.wait(1, None) {
                Ok(()) => assert_ne!(fails, Some(true), "operation {index} should have failed with queue {dead}"),
                Err(failure) => {
                    assert!(fails != Some(false) && Cause::Trap.is(&failure), "operation {index}: {failure}");
                }
            }
        }
    }
}

fn run(seed: u64) {
    let graph = make(seed);
    let mut random = Random(!seed);
    let topologies = ["", "order=reversed", "order=overlapped", "isa=gfx1100,host-writes=until-acquire"];
    let topology = topologies[random.below(4)];
    let machine = Machine::with(topology, Some("add_dispatch_0_elementwise_D_f32"));
    let device = machine.device("0", &[("amdgpu_queues", "4"), ("amdgpu_queue_packets", "256")]);
    let stores: Vec<Vec<u8>> = (0..SCRATCH).map(|_| (0..SIZE).map(|_| random.below(256) as u8).collect()).collect();
    let mut contents: Vec<Vec<u8>> = stores[BUFFERS..].to_vec();
    let files = contents.iter_mut().map(|bytes| file(&device, bytes)).collect();
    let buffer = |bytes: &Vec<u8>| {
        let buffer = device.buffer(SIZE as u64, MemoryType::DEVICE_LOCAL);
        device.write(&buffer, bytes);
        buffer
    };
    let mut buffers: Vec<Arc<dyn Buffer>> = stores[..BUFFERS].iter().map(buffer).collect();
    buffers.push(device.buffer(SIZE as u64, MemoryType::DEVICE_LOCAL));
    let counts = device.buffer(12, MemoryType::DEVICE_LOCAL);
    device.write(&counts, &[2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0]);
    let lines = (0..graph.lines).map(|_| device.timeline()).collect();
    let mut run = Run {
        device: &device,
        graph: &graph,
        executable: device.executable(),
        buffers,
        files,
        counts,
        lines,
        bodies: Vec::new(),
    };
    run.bodies = graph.bodies.iter().map(|body| run.record(body)).collect();
    run.submit_all(&mut random);
    run.check();
    let expected = expected(&graph, stores);
    for (store, expected) in expected[..BUFFERS].iter().enumerate() {
        assert_eq!(device.read(&run.buffers[store]), *expected, "buffer {store}");
    }
    run.trap(&mut random, topology.starts_with("order="));
    drop(run);
    drop(device);
    for (store, expected) in expected[BUFFERS..].iter().enumerate() {
        assert_eq!(contents[store], *expected, "file {store}");
    }
}

#[test]
fn random_graphs() {
    let number = |variable: &str| {
        let text = std::env::var(variable).ok()?;
        Some(text.parse::<u64>().unwrap_or_else(|_| panic!("{variable}={text}: expected a number")))
    };
    let seeds = match number("VIREO_GRAPH") {
        Some(seed) => seed..seed + 1,
        None => 0..number("VIREO_GRAPHS").unwrap_or(GRAPHS),
    };
    for seed in seeds {
        let outcome = std::panic::catch_unwind(|| run(seed));
        if let Err(panic) = outcome {
            eprintln!("the graph VIREO_GRAPH={seed}:\n{:#?}", make(seed));
            std::panic::resume_unwind(panic);
        }
    }
}

/// The graphs are worth running only if they have everything in them.
#[test]
fn graphs_have_everything_in_them() {
    let (mut actions, mut failing, mut on_queues) = ([0; 9], 0, [0; QUEUES]);
    for seed in 0..GRAPHS {
        for operation in make(seed).operations {
            let kind = match operation.action {
                Action::Barrier => 0,
                Action::Transfer(Transfer::Fill { .. }) => 1,
                Action::Transfer(Transfer::Update { .. }) => 2,
                Action::Transfer(Transfer::Copy { .. }) => 3,
                Action::Transfer(Transfer::Abs { indirect, .. }) => 4 + usize::from(indirect),
                Action::Execute { .. } => 6,
                Action::Read { .. } | Action::Write { .. } => 7,
                Action::Refused => 8,
            };
            actions[kind] += 1;
            failing += usize::from(!operation.causes.is_empty());
            on_queues[operation.queue] += 1;
        }
    }
    assert!(actions.iter().all(|count| *count > 10), "{actions:?}");
    assert!(failing > 50 && on_queues.iter().all(|count| *count > 200), "{failing} {on_queues:?}");
}
