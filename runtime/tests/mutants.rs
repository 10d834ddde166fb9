//! A thousand damaged module files: each is refused or loads, and what loads runs to an end. Nothing crashes, hangs or panics.
//!
//! The damage is deterministic: bit flips, bytes and words set to telling values, cuts, shifts, and pieces of other modules, aimed at
//! the FlatBuffer and at the code most of the time. `VIREO_MUTANT=17` runs one mutant alone and tells about it,
//! `VIREO_MUTANTS=100000` runs that many.
//!
//! Native kernels never run here. A program decides which kernel runs on which buffers with which constants and how often, so even an
//! intact kernel writes where it likes once the program around it is damaged, as it would in any runtime: kernels are trusted, programs
//! are not. The device of this test therefore has a loader of its own. It maps and relocates the ELF file, damaged or not, as the real
//! one does, which executes nothing, and then hands out an executable whose functions cannot be dispatched: recording a dispatch fails
//! with a status. What surrounds dispatches, from the tables of the file to the queues of the device, runs as always.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use vireo::abi::Step;
use vireo::hal::local::{LocalDevice, elf};
use vireo::hal::{
    BufferParams, BufferUsage, BufferView, BufferViewRef, Device, ElementType, EncodingType, Executable,
    ExecutableCachingMode, ExecutableFunction, ExecutableFunctionFlags, ExecutableFunctionInfo, ExecutableLoader,
    Fence, FenceRef, Handle, HeapAllocator, MemoryType,
};
use vireo::interp::{Limits, Sink};
use vireo::modules::hal::HalModule;
use vireo::vm::convention::{Argument, Kind};
use vireo::vm::{Buffer, Context, List, Module, Obj, Ref, Value};
use vireo::vmfb::Archive;
use vireo::{Result, Status, vm_module};

const MUTANTS: u64 = 1000;
/// No call of a mutant takes longer than this, because of its limits; a test that takes much longer hangs.
const CALL_TIME: Duration = Duration::from_millis(200);

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound.max(1)
    }
}

/// A module file, and where the parts that matter most are.
struct Fixture {
    name: String,
    bytes: Vec<u8>,
    flatbuffer: std::ops::Range<usize>,
    code: std::ops::Range<usize>,
}

fn fixtures() -> Vec<Fixture> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut paths = Vec::new();
    for folder in ["bench", "context", "golden", "models"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        paths.extend(
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "vmfb")),
        );
    }
    paths.sort();
    paths.iter().map(|path| fixture(path)).collect()
}

fn fixture(path: &Path) -> Fixture {
    let bytes = std::fs::read(path).unwrap();
    let archive = Archive::from_bytes(&bytes).unwrap();
    let start = archive.bytecode().as_ptr() as usize - archive.bytes().as_ptr() as usize;
    Fixture {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        flatbuffer: archive.flatbuffer(),
        code: start..start + archive.bytecode().len(),
        bytes,
    }
}

/// Damages a copy of `fixture`.
fn mutate(fixture: &Fixture, others: &[Fixture], random: &mut Random) -> Vec<u8> {
    let mut bytes = fixture.bytes.clone();
    let all = 0..bytes.len();
    let range = match random.below(8) {
        0 => all,
        1..=3 => fixture.flatbuffer.clone(),
        _ => fixture.code.clone(),
    };
    let place = range.start + random.below(range.len());
    match random.below(10) {
        0..=2 => {
            for _ in 0..1 + random.below(3) {
                let place = range.start + random.below(range.len());
                bytes[place] ^= 1 << random.below(8);
            }
        }
        3 | 4 => bytes[place] = [0, 1, 2, 0x7F, 0x80, 0xC0, 0xFF, random.next() as u8][random.below(8)],
        5 => {
            // Lengths, offsets, counts and ordinals are words on multiples of four.
            let place = (place & !3).min(bytes.len() - 4);
            let length = bytes.len() as u32;
            let values = [0, 1, 3, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, length, random.next() as u32 & 0xFF];
            bytes[place..place + 4].copy_from_slice(&values[random.below(8)].to_le_bytes());
        }
        6 => {
            let place = (place & !1).min(bytes.len() - 2);
            let values = [0, 1, 0x4000, 0x7FFF, 0x8000, 0xC000, 0xFFFF, random.next() as u16 & 0x1F];
            bytes[place..place + 2].copy_from_slice(&values[random.below(8)].to_le_bytes());
        }
        7 => bytes.truncate(place),
        8 => {
            let other = &others[random.below(others.len())];
            let from = other.code.start + random.below(other.code.len());
            let length = (1 + random.below(64)).min(other.bytes.len() - from).min(bytes.len() - place);
            bytes[place..place + length].copy_from_slice(&other.bytes[from..from + length]);
        }
        _ => {
            if random.below(2) == 0 {
                bytes.remove(place);
            } else {
                bytes.insert(place, random.next() as u8);
            }
        }
    }
    bytes
}

/// Maps executables as the real loader does and makes functions of any name that cannot be dispatched.
#[derive(Debug)]
struct PaperLoader;

#[derive(Debug)]
struct PaperExecutable;

impl ExecutableLoader for PaperLoader {
    fn infer_format(&self, data: &[u8]) -> Result<String> {
        Ok(elf::infer_format(data)?)
    }

    fn supports(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        format.starts_with("embedded-elf-")
    }

    fn load(
        &self,
        _caching_mode: ExecutableCachingMode,
        _format: &str,
        data: &[u8],
        _constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        if cfg!(target_arch = "x86_64") {
            elf::Module::load(data)?;
        }
        Ok(Arc::new(PaperExecutable))
    }
}

impl Executable for PaperExecutable {
    fn function_count(&self) -> u32 {
        1
    }

    fn function_info(&self, _function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        Ok(ExecutableFunctionInfo {
            name: "paper".into(),
            flags: ExecutableFunctionFlags::empty(),
            constant_count: 0,
            binding_count: 0,
            parameter_count: 0,
            workgroup_size: [1; 3],
        })
    }

    fn lookup_function(&self, _name: &str) -> Result<ExecutableFunction> {
        Ok(ExecutableFunction(0))
    }
}

/// What the fixtures import besides the `hal` module.
struct Custom;

#[vm_module(name = "custom", version = 1)]
impl Custom {
    #[vm_export("add")]
    fn add(&self, a: i32, b: i32) -> Result<i32> {
        Ok(a.wrapping_add(b))
    }

    #[vm_export("note")]
    fn note(&self, _value: i32) -> Result<()> {
        Ok(())
    }

    #[vm_export("wait")]
    fn wait(&self, value: i32) -> Result<Step<i32>> {
        Ok(Step::Return(value))
    }
}

/// Formats what programs report, which is part of the test, and shows it to nobody.
struct Quiet;

impl Sink for Quiet {
    fn trace(&self, event: &str, values: &[Value]) {
        let _ = format!("{event}{values:?}");
    }

    fn print(&self, text: &str, values: &[Value]) {
        self.trace(text, values);
    }
}

struct Outcome {
    loaded: bool,
    calls: usize,
    returned: usize,
}

fn limits() -> Limits {
    Limits {
        stack_bytes: 1 << 20,
        allocation_bytes: 1 << 20,
        deadline: Some(Instant::now() + CALL_TIME),
        fuel: Some(Arc::new(AtomicU64::new(20_000))),
        ..Limits::default()
    }
}

/// Loads a mutant and calls all it exports.
fn exercise(bytes: &[u8], helpers: &[Module]) -> Outcome {
    let mut outcome = Outcome { loaded: false, calls: 0, returned: 0 };
    let Ok(module) = Module::from_bytes(bytes) else { return outcome };
    outcome.loaded = true;
    let allocator = Arc::new(HeapAllocator::with_limit(1 << 24));
    let device: Arc<dyn Device> = Arc::new(LocalDevice::new("local-sync", allocator, vec![Arc::new(PaperLoader)]));
    let Ok(hal) = Module::native(HalModule::new(vec![device.clone()])) else { return outcome };
    let modules = [hal].into_iter().chain(helpers.iter().cloned()).chain([module.clone()]);
    let Ok(context) = Context::with_sink(modules, limits(), Arc::new(Quiet)) else { return outcome };
    for (index, export) in module.exports().enumerate().take(64) {
        let Ok(function) = context.function(&format!("{}.{}", module.name(), export.name)) else { continue };
        let args: Vec<_> = export.convention.args.iter().map(|argument| value(argument, index, &device)).collect();
        outcome.calls += 1;
        outcome.returned += usize::from(function.call_with(&args, limits()).is_ok());
    }
    outcome
}

fn value(argument: &Argument, index: usize, device: &Arc<dyn Device>) -> Value {
    match argument {
        Argument::One(Kind::I32) => Value::I32(index as i32 - 2),
        Argument::One(Kind::I64) => Value::I64(index as i64 - 2),
        Argument::One(Kind::F32) => Value::F32(1.5),
        Argument::One(Kind::F64) => Value::F64(-2.5),
        Argument::One(Kind::Ref) => match index % 5 {
            0 => Value::NULL,
            1 => Ref::new(Buffer::allocate(64, 0).unwrap()).into(),
            2 => Obj::<FenceRef>::new(Handle(Arc::new(Fence::create()))).into(),
            3 => Ref::new(List::variant([Value::I32(1), Value::NULL])).into(),
            _ => view(device).map_or(Value::NULL, Value::from),
        },
        Argument::Span(_) => Value::NULL,
    }
}

fn view(device: &Arc<dyn Device>) -> Result<Ref> {
    let params = BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    let buffer = device.allocator().allocate_buffer(params, 16)?;
    let view = BufferView::new(buffer, &[4], ElementType::parse("f32")?, EncodingType::DENSE_ROW_MAJOR)?;
    Ok(Obj::<BufferViewRef>::new(Handle(Arc::new(view))).into_ref())
}

#[test]
fn damaged_modules_are_refused_or_run_within_their_limits() {
    let fixtures = fixtures();
    let app = fixtures.iter().find(|fixture| fixture.name == "app.vmfb").unwrap();
    let helpers = [Module::native(Custom).unwrap(), Module::from_bytes(&app.bytes).unwrap()];
    let only: Option<u64> = std::env::var("VIREO_MUTANT").ok().and_then(|number| number.parse().ok());
    let total = std::env::var("VIREO_MUTANTS").ok().and_then(|total| total.parse().ok()).unwrap_or(MUTANTS);
    let (mut loaded, mut calls, mut returned, mut slowest) = (0, 0, 0, Duration::ZERO);
    for number in only.map_or(0..total, |number| number..number + 1) {
        // Each mutant has its own numbers, so that one can be run without the others.
        let mut random = Random((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let fixture = &fixtures[number as usize % fixtures.len()];
        let bytes = mutate(fixture, &fixtures, &mut random);
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| exercise(&bytes, &helpers)))
            .unwrap_or_else(|_| panic!("mutant {number} of {} panicked", fixture.name));
        slowest = slowest.max(start.elapsed());
        if only.is_some() {
            let result = Module::from_bytes(&bytes).map(drop).map_err(|status: Status| status.to_string());
            println!("mutant {number} of {}: {result:?} after {:?}", fixture.name, start.elapsed());
        }
        loaded += usize::from(outcome.loaded);
        calls += outcome.calls;
        returned += outcome.returned;
    }
    println!("{loaded} of {total} load; {returned} of {calls} calls return; the slowest took {slowest:?}");
    // The damage must be such that both ways are taken often, or this test shows nothing.
    assert!(
        only.is_some() || (loaded as u64 > total / 10 && (loaded as u64) < total / 10 * 9 && returned > 100),
        "{loaded} load, {returned} return"
    );
}
