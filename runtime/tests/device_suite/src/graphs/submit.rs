//! Does what a plan says on a device, and looks what became of it.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, OnceLock};
use std::thread;

use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

use super::model::{self, Expected};
use super::plan::{Action, Body, Cause, Line, Operation, Plan, Point, Range, SIZE, Store, Transfer};
use super::random::Random;
use crate::dispatches::{multiply, multiply_constants, over};
use crate::files::memory_file;
use crate::{ANY, Backend, barrier, buffer_of, bytes_of, in_time, params, point, slot, timeline};

/// The device and the objects with which a plan is run.
pub struct Bench<'a> {
    pub device: &'a dyn Device,
    pub executable: Option<&'a Arc<dyn Executable>>,
    pub backend: &'a Backend,
}

/// A store of the device.
enum Held {
    Buffer(Arc<dyn Buffer>),
    /// Known once its allocation is submitted.
    Transient(OnceLock<Arc<dyn Buffer>>),
    /// The bytes that the file is over are looked at when it is gone.
    File(Arc<dyn File>),
}

struct Run<'a> {
    bench: &'a Bench<'a>,
    plan: &'a Plan,
    expected: Expected,
    stores: Vec<Held>,
    lines: Vec<Arc<dyn Semaphore>>,
    bodies: Vec<OnceLock<Arc<dyn CommandBuffer>>>,
    /// Calls of the host that came, by operation.
    calls: Arc<Vec<AtomicUsize>>,
    /// Points that another thread signals.
    later: Sender<Vec<Timepoint>>,
}

/// Runs a plan and checks everything. `seed` decides in which order it is submitted.
pub fn run(bench: &Bench<'_>, plan: &Plan, seed: u64) {
    let mut random = Random::new(!seed);
    let mut files: Vec<Arc<[u8]>> = Vec::new();
    let stores = plan.stores.iter().map(|store| match store {
        Store::Buffer(bytes) => Held::Buffer(buffer_of(bench.device, bytes)),
        Store::Transient => Held::Transient(OnceLock::new()),
        Store::File(bytes) => {
            let mut bytes: Arc<[u8]> = bytes.as_slice().into();
            let file = memory_file(bench.device, &mut bytes, MemoryAccess::READ | MemoryAccess::WRITE);
            files.push(bytes);
            Held::File(file)
        }
    });
    let stores = stores.collect();
    let (later, signals) = channel::<Vec<Timepoint>>();
    let run = Run {
        bench,
        plan,
        expected: model::run(plan, bench.backend.runs_kernels),
        stores,
        lines: plan.lines.iter().map(|_| timeline(bench.device)).collect(),
        bodies: plan.bodies.iter().map(|_| OnceLock::new()).collect(),
        calls: Arc::new(plan.operations.iter().map(|_| AtomicUsize::new(0)).collect()),
        later,
    };
    let helper = thread::spawn(move || {
        for points in signals {
            for point in points {
                // A point whose timeline failed meanwhile needs no signal.
                let _ = point.semaphore.signal(point.value);
            }
        }
    });
    run.submit(&mut random);
    run.check_lines();
    run.check_bytes();
    let Run { stores, later, plan, expected, .. } = run;
    drop((stores, later));
    helper.join().expect("the helper does not panic");
    let held = plan.stores.iter().zip(&expected.stores).filter(|(store, _)| matches!(store, Store::File(_)));
    for (file, (_, expected)) in files.iter().zip(held) {
        while Arc::strong_count(file) > 1 {
            // A queue may take a moment to give back what it used.
            thread::yield_now();
        }
        assert_eq!(**file, **expected, "a file");
    }
}

impl Run<'_> {
    fn submit(&self, random: &mut Random) {
        // Buffers have to be known before others can use them; everything else is submitted in any order.
        let (allocas, mut others): (Vec<usize>, Vec<usize>) = (0..self.plan.operations.len())
            .partition(|index| matches!(self.plan.operations[*index].action, Action::Alloca { .. }));
        for index in random.choose(&allocas, allocas.len()) {
            self.submit_one(index);
        }
        random.shuffle(&mut others);
        // The host's part happens somewhere in the middle.
        let mut host: Vec<Box<dyn Fn() + Send + Sync + '_>> = Vec::new();
        for (line, semaphore) in self.plan.lines.iter().zip(&self.lines) {
            match line {
                Line::Host => host.push(Box::new(|| {
                    (1..=3).for_each(|value| semaphore.signal(value).expect("only the host signals it"))
                })),
                Line::Failing => host.push(Box::new(|| semaphore.fail(Status::data_loss("cause of the host")))),
                _ => {}
            }
        }
        let moments: Vec<usize> = host.iter().map(|_| random.below(others.len() + 1)).collect();
        let next = AtomicUsize::new(0);
        thread::scope(|scope| {
            let submitter = || loop {
                let turn = next.fetch_add(1, Ordering::Relaxed);
                for (act, moment) in host.iter().zip(&moments) {
                    if *moment == turn {
                        act();
                    }
                }
                match others.get(turn) {
                    Some(index) => self.submit_one(*index),
                    None => return,
                }
            };
            for _ in 1..self.plan.threads {
                scope.spawn(submitter);
            }
            submitter();
        });
    }

    fn submit_one(&self, index: usize) {
        let operation = &self.plan.operations[index];
        let signal = self.points(&operation.signal);
        if let Err(refused) = self.submit_operation(index, operation, &signal) {
            assert!(!operation.causes.is_empty(), "operation {index} is refused: {refused}");
            // A refused submission signals nothing.
            for point in signal {
                point.semaphore.fail(refused.clone());
            }
        }
    }

    /// The queue of an operation.
    fn queue(&self, index: usize) -> QueueAffinity {
        match self.bench.backend.queues {
            1 => ANY,
            queues => QueueAffinity::from_bits_retain(1 << (index * 7 % queues as usize)),
        }
    }

    fn submit_operation(&self, index: usize, operation: &Operation, signal: &[Timepoint]) -> Result<()> {
        let device = self.bench.device;
        let queue = self.queue(index);
        let wait = &self.points(&operation.wait)[..];
        match &operation.action {
            Action::Barrier => device.queue_barrier(queue, wait, signal, ExecuteFlags::empty()),
            Action::Alloca { store } => {
                let flags = AllocaFlags::empty();
                let buffer = device.queue_alloca(queue, wait, signal, None, params(), SIZE as u64, flags)?;
                let Held::Transient(held) = &self.stores[*store] else { unreachable!("a transient store") };
                held.set(buffer).expect("reserved once");
                Ok(())
            }
            Action::Dealloca { store } => {
                device.queue_dealloca(queue, wait, signal, self.buffer(*store), DeallocaFlags::empty())
            }
            Action::Transfer(Transfer::Fill { to, pattern }) => {
                let (buffer, offset, length) = self.range(to);
                device.queue_fill(queue, wait, signal, buffer, offset, length, pattern, FillFlags::empty())
            }
            Action::Transfer(Transfer::Update { to, bytes }) => {
                let (buffer, offset, _) = self.range(to);
                device.queue_update(queue, wait, signal, bytes, buffer, offset, UpdateFlags::empty())
            }
            Action::Transfer(Transfer::Copy { from, to }) => {
                let ((source, source_offset, length), (target, target_offset, _)) = (self.range(from), self.range(to));
                let flags = CopyFlags::empty();
                device.queue_copy(queue, wait, signal, source, source_offset, target, target_offset, length, flags)
            }
            Action::Transfer(Transfer::Multiply { from, to }) => {
                let executable = self.bench.executable.expect("plans multiply only where there is an executable");
                let bindings = [from[0], from[1], *to].map(|store| self.whole(store));
                let (function, constants) = (multiply(&**executable), multiply_constants(SIZE as u32 / 4));
                let (config, flags) = (over(self.bench.backend, SIZE as u32 / 4), DispatchFlags::empty());
                device.queue_dispatch(queue, wait, signal, executable, function, &config, &constants, &bindings, flags)
            }
            Action::Execute { body, table } => {
                let commands = self.bodies[*body].get_or_init(|| self.record(&self.plan.bodies[*body]));
                let direct = &self.plan.bodies[*body].direct;
                let table: Vec<BufferBinding> = table
                    .iter()
                    .zip(direct)
                    .map(|(store, direct)| BufferBinding {
                        buffer: store.filter(|_| direct.is_none()).map(|store| self.buffer(store).clone()),
                        offset: 0,
                        length: WHOLE_BUFFER,
                    })
                    .collect();
                device.queue_execute(queue, wait, signal, commands, &table, ExecuteFlags::empty())
            }
            Action::ReadFile { from, to } => {
                let (target, target_offset, length) = self.range(to);
                let (file, flags) = (self.file(from.store), ReadFlags::empty());
                let offset = from.offset as u64;
                device.queue_read(queue, wait, signal, file, offset, target, target_offset, length, flags)
            }
            Action::WriteFile { from, to } => {
                let (source, source_offset, length) = self.range(from);
                let (file, flags) = (self.file(to.store), WriteFlags::empty());
                let offset = to.offset as u64;
                device.queue_write(queue, wait, signal, source, source_offset, file, offset, length, flags)
            }
            Action::Look { at } => {
                let (buffer, offset, expected) =
                    (self.buffer(at.store).clone(), at.offset as u64, self.expected.looks[index].clone());
                self.call(index, wait, signal, move |_| {
                    let mut seen = vec![0; expected.len()];
                    buffer_read(&*buffer, offset, &mut seen)?;
                    if seen == expected {
                        return Ok(());
                    }
                    Err(Status::internal(format!("operation {index} sees {seen:?}, not {expected:?}")))
                })
            }
            Action::Later => {
                let later = self.later.clone();
                self.call(index, wait, signal, move |signal| {
                    later.send(signal.to_vec()).expect("the helper outlives the queue");
                    Err(Status::new(StatusCode::Deferred, "another thread signals"))
                })
            }
            Action::FailingCall { cause } => {
                let cause = *cause;
                self.call(index, wait, signal, move |_| Err(Status::data_loss(format!("cause {cause}."))))
            }
            Action::FailingFill { store } => {
                let (buffer, flags) = (self.buffer(*store), FillFlags::empty());
                device.queue_fill(queue, wait, signal, buffer, 0, SIZE as u64 + 1, &[1], flags)
            }
            Action::Never => self.call(index, wait, signal, move |_| Ok(())),
        }
    }

    fn call(
        &self,
        index: usize,
        wait: &[Timepoint],
        signal: &[Timepoint],
        body: impl Fn(&[Timepoint]) -> Result<()> + Send + Sync + 'static,
    ) -> Result<()> {
        let calls = self.calls.clone();
        let call: Arc<dyn HostCall> = Arc::new(Function(Box::new(move |signal| {
            calls[index].fetch_add(1, Ordering::Relaxed);
            body(signal)
        })));
        self.bench.device.queue_host_call(
            self.queue(index),
            wait,
            signal,
            &call,
            &[index as u64],
            HostCallFlags::empty(),
        )
    }

    fn record(&self, body: &Body) -> Arc<dyn CommandBuffer> {
        let mode = if body.one_shot { CommandBufferMode::ONE_SHOT } else { CommandBufferMode::empty() };
        let capacity = body.direct.len() as u32;
        let commands = self
            .bench
            .device
            .create_command_buffer(mode, CommandCategory::ANY, ANY, capacity)
            .expect("a command buffer");
        commands.begin().expect("for the first time");
        for (command, needs_barrier) in body.commands.iter().zip(&body.barriers) {
            if *needs_barrier {
                barrier(&*commands).expect("a barrier");
            }
            self.record_one(&*commands, command, &body.direct).expect("a command");
        }
        commands.end().expect("for the first time");
        commands
    }

    fn record_one(&self, commands: &dyn CommandBuffer, command: &Transfer, direct: &[Option<usize>]) -> Result<()> {
        let reference = |range: &Range| {
            let (offset, length) = (range.offset as u64, range.length as u64);
            match direct[range.store] {
                Some(store) => BufferRef { buffer: Some(self.buffer(store).clone()), slot: 0, offset, length },
                None => slot(range.store as u32, offset, length),
            }
        };
        match command {
            Transfer::Fill { to, pattern } => commands.fill_buffer(&reference(to), pattern, FillFlags::empty()),
            Transfer::Update { to, bytes } => commands.update_buffer(bytes, &reference(to), UpdateFlags::empty()),
            Transfer::Copy { from, to } => commands.copy_buffer(&reference(from), &reference(to), CopyFlags::empty()),
            Transfer::Multiply { from, to } => {
                let executable = self.bench.executable.expect("plans multiply only where there is an executable");
                let bindings = [from[0], from[1], *to].map(|store| reference(&Range::whole(store)));
                let (function, constants) = (multiply(&**executable), multiply_constants(SIZE as u32 / 4));
                let flags = DispatchFlags::empty();
                let config = over(self.bench.backend, SIZE as u32 / 4);
                commands.dispatch(executable, function, &config, &constants, &bindings, flags)
            }
        }
    }

    fn points(&self, points: &[Point]) -> Vec<Timepoint> {
        points.iter().map(|Point { line, value }| point(&self.lines[*line], *value)).collect()
    }

    fn buffer(&self, store: usize) -> &Arc<dyn Buffer> {
        match &self.stores[store] {
            Held::Buffer(buffer) => buffer,
            Held::Transient(buffer) => buffer.get().expect("allocations are submitted first"),
            Held::File(_) => unreachable!("a file is no buffer"),
        }
    }

    fn file(&self, store: usize) -> &Arc<dyn File> {
        let Held::File(file) = &self.stores[store] else { unreachable!("a buffer is no file") };
        file
    }

    fn range(&self, range: &Range) -> (&Arc<dyn Buffer>, u64, u64) {
        (self.buffer(range.store), range.offset as u64, range.length as u64)
    }

    fn whole(&self, store: usize) -> BufferRef {
        BufferRef { buffer: Some(self.buffer(store).clone()), slot: 0, offset: 0, length: SIZE as u64 }
    }

    /// Waits for every timeline, and checks how it ended.
    fn check_lines(&self) {
        for (index, (line, semaphore)) in self.plan.lines.iter().zip(&self.lines).enumerate() {
            match line {
                Line::Host => semaphore.wait(3, in_time()).expect("the host signals it"),
                Line::Reaches(value) => {
                    semaphore.wait(*value, in_time()).unwrap_or_else(|failure| panic!("timeline {index}: {failure}"));
                    assert_eq!(semaphore.query().expect("did not fail"), *value, "timeline {index}");
                }
                Line::Failing => check_failure(index, &**semaphore, &[Cause::Host]),
                Line::Fails(causes) => check_failure(index, &**semaphore, causes),
            }
        }
        for (index, operation) in self.plan.operations.iter().enumerate() {
            let expected = match operation.action {
                Action::FailingCall { .. } => 1,
                Action::Look { .. } | Action::Later => usize::from(operation.causes.is_empty()),
                _ => 0,
            };
            assert_eq!(self.calls[index].load(Ordering::Relaxed), expected, "calls of operation {index}");
        }
    }

    fn check_bytes(&self) {
        let returned: Vec<usize> = self
            .plan
            .operations
            .iter()
            .filter_map(|operation| match operation.action {
                Action::Dealloca { store } => Some(store),
                _ => None,
            })
            .collect();
        for (store, (held, expected)) in self.stores.iter().zip(&self.expected.stores).enumerate() {
            match held {
                Held::Buffer(buffer) => assert_eq!(bytes_of(&**buffer), *expected, "buffer {store}"),
                Held::Transient(_) if returned.contains(&store) => {
                    let read = buffer_read(&**self.buffer(store), 0, &mut [0]);
                    assert_eq!(read.expect_err("returned").code(), StatusCode::FailedPrecondition);
                }
                Held::Transient(_) => {
                    assert_eq!(bytes_of(&**self.buffer(store)), *expected, "transient buffer {store}");
                }
                // Its bytes are looked at when nothing uses them any more.
                Held::File(_) => {}
            }
        }
    }
}

fn check_failure(index: usize, semaphore: &dyn Semaphore, causes: &[Cause]) {
    let failure = semaphore.wait(1, in_time()).expect_err("fails");
    let fits = causes.iter().any(|cause| match cause {
        Cause::Call(number) => {
            failure.code() == StatusCode::DataLoss && failure.message().contains(&format!("cause {number}."))
        }
        Cause::Host => failure.code() == StatusCode::DataLoss && failure.message() == "cause of the host",
        Cause::Range => failure.code() == StatusCode::OutOfRange,
        Cause::Binding => failure.code() == StatusCode::FailedPrecondition,
    });
    assert!(fits, "timeline {index} fails with {failure}, not because of {causes:?}");
}

/// A function of the host.
struct Function(Act);

/// The action of a call of the host on the points that it has to signal.
type Act = Box<dyn Fn(&[Timepoint]) -> Result<()> + Send + Sync>;

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a function of the test")
    }
}

impl HostCall for Function {
    fn call(&self, _context: HostCallContext, signal: &[Timepoint]) -> Result<()> {
        (self.0)(signal)
    }
}
