//! The time that the host spends on launches, graphs, submissions and allocations: a loop of `cuLaunchKernel` in C, and
//! the driver.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use vireo_core::status::{Result, Status};
use vireo_cuda_driver::NAMES;
use vireo_hal::*;
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

use crate::Request;
use crate::container::{executable, module};

const ANY: QueueAffinity = QueueAffinity::ANY;

/// A kernel that does nothing, with two addresses.
const NOTHING: &str = "ret;";

/// Sizes of graphs.
const SIZES: [u64; 4] = [8, 64, 512, 2048];

/// How often each thing is done: the middle one is told.
struct Repeats(usize);

impl Repeats {
    /// The median of what `once` measures, in microseconds.
    fn median(&self, mut once: impl FnMut() -> Result<Duration>) -> Result<f64> {
        let mut all = (0..self.0).map(|_| once()).collect::<Result<Vec<Duration>>>()?;
        all.sort_unstable();
        let middle = all.get(all.len() / 2).copied().unwrap_or_default();
        Ok((middle.as_secs_f64() * 1e8).round() / 100.0)
    }
}

struct Bench {
    device: Arc<dyn Device>,
    kernels: Arc<dyn Executable>,
    buffers: [Arc<dyn Buffer>; 3],
    line: Arc<dyn Semaphore>,
    value: u64,
}

impl Bench {
    fn new(driver: &StreamDriver, params: &[(&str, &str)]) -> Result<Bench> {
        let pair = |(key, value): &(&str, &str)| StringPair { key: key.to_string(), value: value.to_string() };
        let params: Vec<StringPair> = params.iter().map(pair).collect();
        let device = driver.create_device_by_path(NAMES.driver, "0", &params)?;
        let cache = device.create_executable_cache("cost")?;
        let data = executable(&module(2, NOTHING), "main", [32, 1, 1], 2, 0);
        let kernels = cache.prepare_executable(ANY, ExecutableCachingMode::empty(), NAMES.format, &data, &[])?;
        let buffer = || {
            let params = BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() };
            device.allocator().allocate_buffer(params, 4096)
        };
        let buffers = [buffer()?, buffer()?, buffer()?];
        let line = device.create_semaphore(ANY, 0, SemaphoreFlags::empty())?;
        Ok(Bench { device, kernels, buffers, line, value: 0 })
    }

    /// A command buffer of `count` dispatches, of which the first `patched` use slot 1.
    fn commands(&self, count: u64, patched: u64) -> Result<Arc<dyn CommandBuffer>> {
        let commands = self.device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, ANY, 2)?;
        commands.begin()?;
        let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
        for index in 0..count {
            let slot = u32::from(index < patched);
            let of = |slot| BufferRef { buffer: None, slot, offset: 0, length: 64 };
            let (function, flags) = (ExecutableFunction(0), DispatchFlags::empty());
            commands.dispatch(&self.kernels, function, &config, &[], &[of(0), of(slot)], flags)?;
        }
        commands.end()?;
        Ok(commands)
    }

    /// The time of a submission, which is waited for afterwards.
    fn submit(&mut self, submit: impl FnOnce(&Bench, &[Timepoint], &[Timepoint]) -> Result<()>) -> Result<Duration> {
        let at = |value| [Timepoint { semaphore: self.line.clone(), value }];
        let (wait, signal) = (at(self.value), at(self.value + 1));
        let began = Instant::now();
        submit(self, &wait, &signal)?;
        let took = began.elapsed();
        self.value += 1;
        self.line.wait(self.value, None)?;
        Ok(took)
    }

    /// The time that an execution takes the host, where the buffer of slot 1 is another one each time.
    fn executions(&mut self, repeats: &Repeats, count: u64, patched: u64) -> Result<f64> {
        let commands = self.commands(count, patched)?;
        let mut number = 0;
        let mut once = |bench: &mut Bench| {
            number += 1;
            let bound = |index: usize| BufferBinding {
                buffer: Some(bench.buffers[index].clone()),
                offset: 0,
                length: WHOLE_BUFFER,
            };
            let table = [bound(0), bound(1 + number % 2)];
            bench.submit(|bench, wait, signal| {
                bench.device.queue_execute(ANY, wait, signal, &commands, &table, ExecuteFlags::empty())
            })
        };
        // The first two make the graph.
        once(self)?;
        once(self)?;
        repeats.median(|| once(self))
    }
}

/// All measurements.
pub fn cost(request: &Request) -> Result<Value> {
    let driver = StreamDriver::new(request.real()?, 0, DeviceOptions::default())?;
    let repeats = Repeats(if request.short { 5 } else { 200 });
    let mut rows: Vec<Value> = Vec::new();
    let mut add = |name: String, microseconds: f64| rows.push(json!({"name": name, "microseconds": microseconds}));
    let raw = request.tools.join("cost_raw");
    if raw.exists() {
        let launches = if request.short { "200" } else { "20000" };
        let output = Command::new(&raw).arg(&request.library).arg(launches).output();
        let output = output.map_err(|error| Status::internal(format!("{}: {error}", raw.display())))?;
        let text = String::from_utf8_lossy(&output.stdout);
        for line in text.lines() {
            if let Some((name, value)) = line.rsplit_once(": ") {
                add(format!("C: {name}"), value.parse().unwrap_or(f64::NAN));
            }
        }
        if !output.status.success() {
            return Err(Status::internal(format!("cost_raw: {}", String::from_utf8_lossy(&output.stderr).trim())));
        }
    }
    let sizes = if request.short { &SIZES[..2] } else { &SIZES[..] };
    for size in sizes {
        let mut bench = Bench::new(&driver, &[("graphs", "never")])?;
        let taken = bench.executions(&repeats, *size, 0)?;
        add(format!("stream, {size} dispatches"), taken);
        add(format!("stream, {size} dispatches, each"), (taken / *size as f64 * 1000.0).round() / 1000.0);
        for patched in [0, 1, size / 2, *size] {
            let mut bench = Bench::new(&driver, &[("graphs", "always")])?;
            add(format!("graph, {size} nodes, {patched} changed"), bench.executions(&repeats, *size, patched)?);
        }
    }
    let mut bench = Bench::new(&driver, &[("streams", "2")])?;
    let barrier = |bench: &Bench, wait: &[Timepoint], signal: &[Timepoint]| {
        bench.device.queue_barrier(ANY, wait, signal, ExecuteFlags::empty())
    };
    add("submission without work".into(), repeats.median(|| bench.submit(barrier))?);
    let whole = repeats.median(|| {
        let began = Instant::now();
        bench.submit(|bench, wait, signal| {
            bench.device.queue_fill(ANY, wait, signal, &bench.buffers[0], 0, 64, &[1], FillFlags::empty())
        })?;
        Ok(began.elapsed())
    })?;
    add("fill and wait".into(), whole);
    let allocation = repeats.median(|| {
        let params = BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() };
        let began = Instant::now();
        let mut buffer = None;
        bench.submit(|bench, wait, signal| {
            let (none, flags) = (None, AllocaFlags::empty());
            buffer = Some(bench.device.queue_alloca(ANY, wait, signal, none, params, 1 << 20, flags)?);
            Ok(())
        })?;
        bench.submit(|bench, wait, signal| match &buffer {
            Some(buffer) => bench.device.queue_dealloca(ANY, wait, signal, buffer, DeallocaFlags::empty()),
            None => Ok(()),
        })?;
        Ok(began.elapsed())
    })?;
    add("allocation and its end, each waited for".into(), allocation);
    const EDGES: u64 = 100;
    let edges = repeats.median(|| {
        let (start, end) = (bench.value, bench.value + EDGES);
        let began = Instant::now();
        for value in start..end {
            let at = |value| [Timepoint { semaphore: bench.line.clone(), value }];
            let affinity = QueueAffinity::from_bits_retain(1 << (value % 2));
            let (target, flags) = (&bench.buffers[0], FillFlags::empty());
            bench.device.queue_fill(affinity, &at(value), &at(value + 1), target, 0, 64, &[1], flags)?;
        }
        bench.value = end;
        bench.line.wait(end, None)?;
        Ok(began.elapsed())
    })?;
    add(format!("{EDGES} fills on two streams in turn, waited for"), edges);
    Ok(json!({"outcome": "passed", "summary": format!("{} rows", rows.len()), "rows": rows}))
}
