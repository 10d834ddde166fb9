//! Runs whatever a module file holds, damaged or not, within tight limits.
//!
//! Native kernels never run here. A program decides which kernel runs on which buffers with which constants and how often, so even an
//! intact kernel writes where it likes once the program around it is damaged, as it would in any runtime: kernels are trusted, programs
//! are not. The device of this test therefore has a loader of its own. It maps and relocates the ELF file, damaged or not, as the real
//! one does, which executes nothing, and then hands out an executable whose functions cannot be dispatched: recording a dispatch fails
//! with a status. What surrounds dispatches, from the tables of the file to the queues of the device, runs as always.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::{Duration, Instant};

use vireo::abi::Step;
use vireo::hal::local::{LocalDevice, elf};
use vireo::hal::{
    BufferView, Device, ElementType, Executable, ExecutableCachingMode, ExecutableFunction, ExecutableFunctionFlags,
    ExecutableFunctionInfo, ExecutableLoader, Fence, HeapAllocator,
};
use vireo::interp::{Dispatch, Limits, Sink};
use vireo::modules::hal::HalModule;
use vireo::status::StatusCode;
use vireo::vm::convention::{Argument, Kind};
use vireo::vm::{Buffer, Context, List, Module, Ref, Value};
use vireo::{Result, vm_module};

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

/// What became of a module.
pub struct Outcome {
    /// It was not refused.
    pub loaded: bool,
    /// How many of its functions were called.
    pub calls: usize,
    /// How many of them returned.
    pub returned: usize,
}

fn limits(dispatch: Dispatch) -> Limits {
    Limits {
        stack_bytes: 1 << 20,
        allocation_bytes: 1 << 16,
        deadline: Some(Instant::now() + CALL_TIME),
        fuel: Some(Arc::new(AtomicU64::new(5_000))),
        dispatch,
        ..Limits::default()
    }
}

/// What fixtures import besides the `hal` module; `app` and `provider` are the module files of these names.
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
    let ways = [Dispatch::Loop, Dispatch::Threaded, Dispatch::Compiled];
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
    let late = |result: &Result<T>| result.as_ref().err().is_some_and(|s| s.code() == StatusCode::DeadlineExceeded);
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
    // Which of two NaNs a sum is, depends on the order that the compiler gives the operands; any NaN is as good as another.
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
    dispatch: Dispatch,
}

impl Program {
    fn new(module: &Module, helpers: &[Module], dispatch: Dispatch) -> Result<Program> {
        let allocator = Arc::new(HeapAllocator::with_limit(1 << 24));
        let device: Arc<dyn Device> = Arc::new(LocalDevice::new("local-sync", allocator, vec![Arc::new(PaperLoader)]));
        let hal = Module::native(HalModule::new(vec![device.clone()]))?;
        // A module that a fixture imports from may be the one that is tested.
        let helpers = helpers.iter().filter(|helper| helper.name() != module.name()).cloned();
        let modules = [hal].into_iter().chain(helpers).chain([module.clone()]);
        let context = Context::with_sink(modules, limits(dispatch), Arc::new(Quiet))?;
        Ok(Program { context, device, dispatch })
    }

    /// What becomes of a call; none if there is no such function.
    fn call(&self, name: &str, parameters: &[Argument], index: usize) -> Option<Result<Vec<Value>>> {
        let function = self.context.function(name).ok()?;
        let args: Vec<_> = parameters.iter().map(|parameter| value(parameter, index, &self.device)).collect();
        Some(function.call_with(&args, limits(self.dispatch)))
    }
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
