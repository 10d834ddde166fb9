//! The benchmark of the interpreter of GPU code: instructions of waves per second of one core, for each kernel of the
//! programs in `fixtures/gpu`, the slowest first.
//!
//! `cargo bench -p vireo-benches --bench gpu`, with parts of names of programs after `--` to choose some. The software
//! agent runs the kernels on one thread, whose own time counts; the best of several runs.

use std::collections::BTreeMap;
use std::error::Error;
use std::num::NonZeroUsize;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use serde_json::Value;
use vireo::hal::{AmdgpuAgent, AmdgpuConfig, BuiltinOptions};
use vireo::inference::HostTensor;
use vireo::{Input, Session};
use vireo_simt::Trap;
use vireo_softhsa::{Interpreter, KernelDispatch, KernelRunner, Topology};

/// Runs of each program: the fastest dispatch of each kernel counts.
const RUNS: usize = 5;

/// A kernel: the segment of its code object and the address in it, which are in the order in which programs load their
/// kernels.
type Key = (u64, u64);

/// A measurement of a kernel.
#[derive(Clone, Copy)]
struct Sample {
    instructions: u64,
    time: Duration,
}

impl Sample {
    /// Million instructions per second.
    fn speed(&self) -> f64 {
        self.instructions as f64 / self.time.as_secs_f64() / 1e6
    }
}

/// Interprets kernels and measures them.
#[derive(Default)]
struct Measured {
    interpreter: Interpreter,
    kernels: Mutex<BTreeMap<Key, Sample>>,
}

/// The time that this thread has run, so that other programs do not count.
fn thread_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

impl KernelRunner for Measured {
    fn run(&self, dispatch: &KernelDispatch<'_>) -> Result<(), Trap> {
        let on_this_thread = KernelDispatch { threads: NonZeroUsize::MIN, ..*dispatch };
        let start = thread_time();
        let instructions = self.interpreter.execute(&on_this_thread)?;
        let sample = Sample { instructions, time: thread_time() - start };
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let best = kernels.entry((dispatch.code_segment, dispatch.code)).or_insert(sample);
        if sample.speed() > best.speed() {
            *best = sample;
        }
        Ok(())
    }
}

/// An argument as the manifest writes it: a file, or a type and a file without one, of which the type is enough.
fn input(folder: &Path, text: &str) -> Result<Input<'static>, Box<dyn Error>> {
    let tensor = match text.split_once('@') {
        Some(("", file)) => HostTensor::read_npy(folder.join(file))?,
        Some((shape, _)) => HostTensor::parse(&format!("{shape}0.5"), 1 << 30)?,
        None => HostTensor::parse(text, 1 << 30)?,
    };
    Ok(tensor.into())
}

fn main() -> Result<(), Box<dyn Error>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/gpu");
    let manifest: Value = serde_json::from_str(&std::fs::read_to_string(folder.join("manifest.json"))?)?;
    let chosen: Vec<String> = std::env::args().skip(1).filter(|argument| !argument.starts_with('-')).collect();
    let measured = Arc::new(Measured::default());
    vireo_softhsa::configure(Topology::default(), Some(measured.clone()))?;
    let amdgpu = AmdgpuConfig { agent: AmdgpuAgent::Software, ..AmdgpuConfig::default() };
    let drivers = Arc::new(BuiltinOptions { amdgpu, ..BuiltinOptions::default() }.registry());
    let mut rows = Vec::new();
    for (name, program) in manifest["programs"].as_object().ok_or("the manifest has no programs")? {
        if !chosen.is_empty() && !chosen.iter().any(|part| name.contains(part)) {
            continue;
        }
        let module = program["modules"]["gfx1100"].as_str().ok_or("a program has no module for gfx1100")?;
        let texts = program["inputs"].as_array().ok_or("a program has no inputs")?;
        let inputs: Result<Vec<_>, _> =
            texts.iter().map(|text| input(&folder, text.as_str().unwrap_or_default())).collect();
        let inputs = inputs?;
        let session = Session::builder().drivers(drivers.clone()).device("amdgpu").load(folder.join(module))?;
        for _ in 0..RUNS {
            session.call("main", &inputs)?;
        }
        drop(session);
        let kernels = std::mem::take(&mut *measured.kernels.lock().unwrap_or_else(PoisonError::into_inner));
        rows.extend(kernels.into_values().enumerate().map(|(number, sample)| (format!("{name} {number}"), sample)));
    }
    rows.sort_by(|a, b| a.1.speed().total_cmp(&b.1.speed()));
    println!(
        "million instructions of waves per second, instructions, microseconds; kernels are numbered in each program"
    );
    for (name, sample) in rows {
        let micros = sample.time.as_secs_f64() * 1e6;
        println!("{:8.1} {:10} {micros:10.1}  {name}", sample.speed(), sample.instructions);
    }
    Ok(())
}
