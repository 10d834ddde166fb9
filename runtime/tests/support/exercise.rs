//! Runs whatever a module file holds, damaged or not, under `SecurityPolicy::untrusted` with less of everything.
//!
//! Kernels in portable bytecode run, damaged or not, in [`exercise_kernels`] with memory that they read and write.
//!
//! Native kernels never run here. A program decides which kernel runs on which buffers with which constants and how
//! often, so even an intact kernel writes where it likes once the program around it is damaged, as it would in any
//! runtime: kernels are trusted, programs are not. The device of this test therefore has a loader of its own. It maps
//! and relocates the ELF file, damaged or not, as the real one does, which executes nothing, and then hands out an
//! executable whose functions cannot be dispatched: recording a dispatch fails with a status. What surrounds
//! dispatches, from the tables of the file to the queues of the device, runs as always.

use std::sync::Arc;
use std::time::Duration;

use vireo::abi::Step;
use vireo::hal::local::{LocalDevice, VmvxLoader, elf};
use vireo::hal::{
    BufferRef, BufferView, Device, DispatchConfig, DispatchFlags, ElementType, Executable, ExecutableCachingMode,
    ExecutableFunction, ExecutableFunctionFlags, ExecutableFunctionInfo, ExecutableLoader, Fence, QueueAffinity,
    WHOLE_BUFFER, buffer_from_bytes, buffer_to_vec,
};
use vireo::interp::{DispatchMode, Limits, Tier, TraceSink};
use vireo::modules::hal::HalModule;
use vireo::status::StatusCode;
use vireo::vm::convention::{Argument, Kind};
use vireo::vm::{Buffer, Context, List, Module, Ref, Value};
use vireo::{Fuel, MemoryBudget, Result, SecurityPolicy, vm_module};

/// No call of a mutant takes longer than this, because of its limits; a test that takes much longer hangs.
const CALL_TIME: Duration = Duration::from_millis(200);

/// Maps executables as the real loader does and makes functions of any name that cannot be dispatched.
#[derive(Debug)]
struct PaperLoader;

#[derive(Debug)]
struct PaperExecutable;

impl ExecutableLoader for PaperLoader {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
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
            elf::ElfImage::load(data)?;
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

/// The imports of the fixtures besides the `hal` module.
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

/// Formats what programs report, which is part of the test, and drops the text.
struct Quiet;

impl TraceSink for Quiet {
    fn trace(&self, event: &str, values: &[Value]) {
        let _ = format!("{event}{values:?}");
    }

    fn print(&self, text: &str, values: &[Value]) {
        self.trace(text, values);
    }

    fn executed(&self, _: &str) {}
}

/// The outcome of a module.
pub struct Outcome {
    /// It was not refused.
    pub loaded: bool,
    /// How many of its functions were called.
    pub calls: usize,
    /// How many of them returned.
    pub returned: usize,
}

/// The policy under which programs are fuzzed.
fn policy(dispatch: DispatchMode) -> SecurityPolicy {
    let policy = SecurityPolicy::untrusted();
    let limits = Limits {
        stack_bytes: 1 << 20,
        allocation_bytes: 1 << 16,
        timeout: Some(CALL_TIME),
        memory: Some(MemoryBudget::new(32 << 20)),
        dispatch,
        tier: if dispatch == DispatchMode::Compiled { Tier::Compiled } else { Tier::Interpreter },
        ..policy.limits
    };
    SecurityPolicy { limits, ..policy }
}

/// The limits of one call: dispatchers can be compared where fuel ends it, and seldom where time does.
fn limits(policy: &SecurityPolicy) -> Limits {
    Limits { fuel: Some(Fuel::new(5_000)), ..policy.limits.clone() }
}

/// The modules that fixtures import besides the `hal` module; `app` and `provider` are the module files of these names.
pub fn helpers(app: &[u8], provider: &[u8]) -> Vec<Module> {
    let files = [app, provider].map(|file| Module::from_bytes(file).unwrap());
    [Module::native(Custom).unwrap()].into_iter().chain(files).collect()
}

/// Loads a module and calls all it exports, once with each dispatcher.
///
/// # Panics
/// If the dispatchers do not agree on what becomes of a call.
pub fn exercise(bytes: &[u8], helpers: &[Module]) -> Outcome {
    let mut outcome = Outcome { loaded: false, calls: 0, returned: 0 };
    let Ok(module) = Module::from_bytes(bytes) else { return outcome };
    outcome.loaded = true;
    let ways = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled];
    // Machine code belongs to a module, so each way has a module of its own.
    let programs = ways.map(|dispatch| Program::new(&Module::from_bytes(bytes)?, helpers, dispatch));
    if !programs[1..].iter().all(|other| agree(&programs[0], other, |_, _| true, "the initialiser")) {
        return outcome;
    }
    let [Ok(by_loop), Ok(threaded), Ok(compiled)] = programs else { return outcome };
    for (index, export) in module.exports().enumerate().take(64) {
        let name = format!("{}.{}", module.name(), export.name);
        let call = |program: &Program| program.call(&name, &export.convention.args, index);
        let (Some(first), Some(second), Some(third)) = (call(&by_loop), call(&threaded), call(&compiled)) else {
            continue;
        };
        outcome.calls += 1;
        outcome.returned += usize::from(first.is_ok());
        let same = |first: &Vec<Value>, second: &Vec<Value>| {
            first.len() == second.len() && first.iter().zip(second).all(|(first, second)| is_same(first, second))
        };
        if !agree(&first, &second, same, &name) || !agree(&first, &third, same, &name) {
            break;
        }
    }
    outcome
}

/// Panics if two dispatchers differ. False if one of them ran out of time, so that what follows cannot be compared.
fn agree<T>(first: &Result<T>, second: &Result<T>, same: impl Fn(&T, &T) -> bool, what: &str) -> bool {
    // When time is up, and how much memory machine code and the like take, differs.
    let late = |result: &Result<T>| {
        result.as_ref().err().is_some_and(|status| {
            let text = status.to_string();
            status.code() == StatusCode::DeadlineExceeded || text.contains("ran out of memory")
        })
    };
    if late(first) || late(second) {
        return false;
    }
    let agreed = match (first, second) {
        (Ok(first), Ok(second)) => same(first, second),
        (Err(first), Err(second)) => first.code() == second.code() && first.message() == second.message(),
        _ => false,
    };
    assert!(agreed, "the dispatchers differ at {what}: {:?} and {:?}", first.as_ref().err(), second.as_ref().err());
    true
}

/// Whether two results of a function are the same; of objects, as far as they can be looked at.
fn is_same(first: &Value, second: &Value) -> bool {
    // Which of two NaNs a sum is, depends on the order that the compiler gives the operands; any NaN is as good as
    // another.
    match (first, second) {
        (Value::I32(first), Value::I32(second)) => {
            let is_nan = |bits: i32| f32::from_bits(bits as u32).is_nan();
            return first == second || (is_nan(*first) && is_nan(*second));
        }
        (Value::I64(first), Value::I64(second)) => {
            let is_nan = |bits: i64| f64::from_bits(bits as u64).is_nan();
            return first == second || (is_nan(*first) && is_nan(*second));
        }
        (Value::Ref(_), Value::Ref(_)) => {}
        (Value::F32(first), Value::F32(second)) => return first == second || (first.is_nan() && second.is_nan()),
        (Value::F64(first), Value::F64(second)) => return first == second || (first.is_nan() && second.is_nan()),
        _ => return false,
    }
    match (first.object::<Buffer>(), second.object::<Buffer>()) {
        (Some(first), Some(second)) => first.to_vec() == second.to_vec(),
        _ => first.type_name() == second.type_name(),
    }
}

/// The module and what it imports, with a device of its own.
struct Program {
    context: Context,
    device: Arc<dyn Device>,
    policy: SecurityPolicy,
}

impl Program {
    fn new(module: &Module, helpers: &[Module], dispatch: DispatchMode) -> Result<Program> {
        let policy = policy(dispatch);
        let device = device(&policy, policy.limits.clone());
        let hal = Module::native(HalModule::new(vec![device.clone()]))?;
        // A module that a fixture imports from may be the one that is tested.
        let helpers = helpers.iter().filter(|helper| helper.name() != module.name()).cloned();
        let modules = [hal].into_iter().chain(helpers).chain([module.clone()]);
        let context = Context::with_sink(modules, limits(&policy), Arc::new(Quiet))?;
        Ok(Program { context, device, policy })
    }

    /// The outcome of a call; none if there is no such function.
    fn call(&self, name: &str, parameters: &[Argument], index: usize) -> Option<Result<Vec<Value>>> {
        let function = self.context.function(name).ok()?;
        let args: Vec<_> = parameters.iter().map(|parameter| value(parameter, index, &self.device)).collect();
        Some(function.call_with(&args, limits(&self.policy)))
    }
}

fn device(policy: &SecurityPolicy, kernels: Limits) -> Arc<dyn Device> {
    let loaders: Vec<Arc<dyn ExecutableLoader>> =
        vec![Arc::new(PaperLoader), Arc::new(VmvxLoader::default().with_limits(kernels))];
    Arc::new(LocalDevice::new("local-sync", Arc::new(policy.allocator()), loaders).with_zeroed_transients())
}

/// Bytes of each binding of a kernel.
const BINDING_BYTES: usize = 16 << 10;

/// Loads an executable in portable bytecode and runs all its kernels, each once with each dispatcher.
///
/// # Panics
/// If the dispatchers do not agree on what becomes of a kernel.
pub fn exercise_kernels(bytes: &[u8]) -> Outcome {
    let mut outcome = Outcome { loaded: false, calls: 0, returned: 0 };
    let ways = [DispatchMode::Loop, DispatchMode::Threaded, DispatchMode::Compiled].map(|dispatch| {
        let policy = policy(dispatch);
        let fuel = Some(Fuel::new(200_000));
        let device = device(&policy, Limits { fuel, ..policy.limits.clone() });
        let mode = ExecutableCachingMode::empty();
        let cache = device.create_executable_cache("").expect("there is one");
        // Constants are those of an executable that takes none, or a few.
        let load = |constants: &[u32]| {
            cache.prepare_executable(QueueAffinity::ANY, mode, "vmvx-bytecode-fb", bytes, constants)
        };
        let executable = load(&[]).or_else(|_| load(&[16; 8]));
        (device, executable)
    });
    let [(_, first), others @ ..] = &ways;
    if !others.iter().all(|(_, other)| agree(first, other, |_, _| true, "loading")) {
        return outcome;
    }
    let Ok(executable) = first else { return outcome };
    outcome.loaded = true;
    for function in (0..u64::from(executable.function_count()).min(32)).map(ExecutableFunction) {
        let [first, others @ ..] = ways.each_ref().map(|(device, executable)| match executable {
            Ok(executable) => run_kernel(device, executable, function),
            Err(status) => Err(status.clone()),
        });
        outcome.calls += 1;
        outcome.returned += usize::from(first.is_ok());
        // A NaN may be another one; all else is the same, and small differences of numbers are no NaN.
        let same = |first: &Vec<u8>, second: &Vec<u8>| {
            let words =
                |bytes: &Vec<u8>| bytes.chunks_exact(4).map(|w| u32::from_le_bytes([w[0], w[1], w[2], w[3]])).collect();
            let (first, second): (Vec<u32>, Vec<u32>) = (words(first), words(second));
            first.iter().zip(&second).all(|(a, b)| a == b || f32::from_bits(*a).is_nan() && f32::from_bits(*b).is_nan())
        };
        if !others.iter().all(|other| agree(&first, other, same, &format!("kernel {}", function.0))) {
            break;
        }
    }
    outcome
}

/// Dispatches a kernel on memory of its own and returns what is there then.
fn run_kernel(
    device: &Arc<dyn Device>,
    executable: &Arc<dyn Executable>,
    function: ExecutableFunction,
) -> Result<Vec<u8>> {
    let info = executable.function_info(function)?;
    let contents =
        (0..BINDING_BYTES / 4).flat_map(|index| ((index % 61) as f32 * 0.25).to_le_bytes()).collect::<Vec<_>>();
    let bindings = (0..info.binding_count.min(16)).map(|_| {
        Ok(BufferRef {
            buffer: Some(buffer_from_bytes(&**device, &contents)?),
            slot: 0,
            offset: 0,
            length: WHOLE_BUFFER,
        })
    });
    let bindings = bindings.collect::<Result<Vec<_>>>()?;
    // Small numbers, which are often sizes and offsets.
    let constants = (0..u32::from(info.constant_count.min(64))).map(|index| index % 5 * 4).collect::<Vec<_>>();
    let config = DispatchConfig {
        workgroup_size: [1; 3],
        workgroup_count: [2, 2, 1],
        workgroup_count_ref: BufferRef { buffer: None, slot: 0, offset: 0, length: 0 },
        dynamic_workgroup_local_memory: 0,
    };
    let flags = DispatchFlags::empty();
    device.queue_dispatch(QueueAffinity::ANY, &[], &[], executable, function, &config, &constants, &bindings, flags)?;
    let buffers = bindings.iter().filter_map(|binding| binding.buffer.as_ref());
    Ok(buffers.map(|buffer| buffer_to_vec(&**buffer, BINDING_BYTES as u64)).collect::<Result<Vec<_>>>()?.concat())
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
            2 => Fence::create().to_ref().into(),
            3 => Ref::new(List::variant([Value::I32(1), Value::NULL])).into(),
            _ => view(device).map_or(Value::NULL, Value::from),
        },
        Argument::Span(_) => Value::NULL,
    }
}

fn view(device: &Arc<dyn Device>) -> Result<Ref> {
    Ok(BufferView::from_bytes(&**device, &[4], ElementType::FLOAT_32, &[0; 16])?.into_ref())
}
