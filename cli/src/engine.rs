//! The room between the command and the runtime: modules, devices and calls, in terms of [`Datum`].
//!
//! The rest of the command knows neither devices nor references.

use std::io::{self, Read, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use vireo::hal::local::{self, ImportProvider};
use vireo::hal::{self, BufferRefObject, BufferViewRef, Device, Fence, QueueAffinity, SemaphoreFlags};
use vireo::interp::{Limits, Recorder, Stderr, Tier, TraceSink, write_perf_map};
use vireo::modules::hal::{HalModule, trace_to, trace_to_stderr};
use vireo::modules::hal_inline::HalInlineModule;
use vireo::modules::hal_loader::HalLoaderModule;
use vireo::modules::vmvx::VmvxModule;
use vireo::vm::convention::{Argument, Kind};
use vireo::vm::list::Element;
use vireo::vm::module::ExportInfo;
use vireo::vm::{self, Context, Convention, InvocationModel, List, Module, Ref, ReflectionAttribute, Value};
use vireo::vmfb::Archive;
use vireo::{Result, SecurityPolicy, Status};

use crate::arguments::{ModuleMode, ProgramArguments, TierChoice};
use crate::devices::Drivers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observers::observed;
use crate::parameters;
use crate::tiers;
use crate::values::datum::{HAL_BUFFER, VM_BUFFER};
use crate::values::{Datum, Tensor};

/// How many fences [`InvocationModel::CoarseFences`] has: the last arguments, one to wait for and one to signal.
const FENCES: usize = 2;
/// What the names of imports begin with that give programs their parameters.
const PARAMETERS: &str = "io_parameters.";
/// The same for the modules of programs that need no device.
const HAL_INLINE: &str = "hal_inline.";
const HAL_LOADER: &str = "hal_loader.";
/// The same for microkernels, of programs that contain their kernels.
const VMVX: &str = "vmvx.";

/// Bytes that are read from stdin as a module at most.
const MAX_STDIN: u64 = 8 << 30;
/// How deep lists of lists are shown, and how many items: a list may contain itself.
const MAX_LIST_DEPTH: usize = 8;
const MAX_LIST_ITEMS: usize = 1 << 16;

/// Reads and verifies the module file at `path`; `-` is stdin.
pub fn open_archive(path: &Path, mode: ModuleMode) -> Result<Archive, Failure> {
    let failed = || Failure::new(Exit::LoadFailure, format!("cannot load the module `{}`", path.display()));
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_STDIN).read_to_end(&mut bytes).map_err(|error| failed().because(error))?;
        return Archive::from_bytes(&bytes).map_err(|status| failed().because(status));
    }
    match mode {
        ModuleMode::Mmap => Archive::open(path).map_err(|status| failed().because(status)),
        ModuleMode::Preload => Archive::read(path).map_err(|status| failed().because(status)),
    }
}

/// Verifies the functions of a module.
pub fn verify(archive: Archive) -> Result<Module, Failure> {
    let failed = Failure::new(Exit::LoadFailure, format!("cannot load the module `{}`", archive.file_name()));
    Module::from_archive(archive).map_err(|status| failed.because(status))
}

/// Modules that are loaded and verified, and what they run with. Nothing has run yet.
pub struct Program {
    devices: Vec<Arc<dyn Device>>,
    /// The `io_parameters` module.
    parameters: Module,
    has_parameters: bool,
    /// What kernels may import.
    imports: Arc<dyn ImportProvider>,
    modules: Vec<Module>,
    policy: SecurityPolicy,
    /// What programs report, where it is compared; else it goes to stderr.
    reports: Option<Arc<Recorder>>,
}

impl Program {
    /// Loads the modules that the flags name, and `more` behind them.
    pub fn load(program: &ProgramArguments, more: &[PathBuf]) -> Result<Program, Failure> {
        if program.module.is_empty() && more.is_empty() {
            let failure = Failure::new(Exit::Usage, "no module is given");
            return Err(failure.hint("use --module=file.vmfb, or --module=- for stdin"));
        }
        let tier = tiers::first(program.tier, program.trace_execution)?;
        if program.perf_map {
            let failed = || Failure::new(Exit::Usage, "cannot write a map for perf");
            write_perf_map().map_err(|status| failed().because(status))?;
        }
        let policy = program.policy.policy(tier);
        let (devices, imports) = under(program, &policy)?;
        let devices = observed(devices, program)?;
        let parameters = Module::native(parameters::module(&program.parameters)?.with_policy(&policy));
        let mut loaded = Program {
            devices,
            parameters: parameters.map_err(|status| cannot("make the io_parameters module").because(status))?,
            has_parameters: !program.parameters.parameters.is_empty(),
            imports,
            modules: Vec::new(),
            policy,
            reports: (program.tier == TierChoice::Both).then(Arc::default),
        };
        // Whoever cuts a mapped file short ends the process.
        let mode = if program.policy.untrusted { ModuleMode::Preload } else { program.module_mode };
        for path in program.module.iter().chain(more) {
            loaded.modules.push(verify(open_archive(path, mode)?)?);
        }
        Ok(loaded)
    }

    /// The same modules for machine code, on devices of their own, if both tiers are asked for.
    pub fn other(&self, program: &ProgramArguments) -> Result<Option<Program>, Failure> {
        if program.tier != TierChoice::Both {
            return Ok(None);
        }
        let policy = program.policy.policy(Tier::Compiled);
        let (devices, imports) = under(program, &policy)?;
        let reports = Some(Arc::default());
        let (parameters, modules) = (self.parameters.clone(), self.modules.clone());
        let has_parameters = self.has_parameters;
        Ok(Some(Program { devices, parameters, has_parameters, imports, modules, policy, reports }))
    }

    /// The same with another module in place of the last.
    pub fn with_main(&self, path: &Path, mode: ModuleMode) -> Result<Program, Failure> {
        let mut modules = self.modules.clone();
        modules.pop();
        modules.push(verify(open_archive(path, mode)?)?);
        let (devices, parameters, imports) = (self.devices.clone(), self.parameters.clone(), self.imports.clone());
        let (has_parameters, policy) = (self.has_parameters, self.policy.clone());
        let reports = self.reports.as_ref().map(|_| Arc::default());
        Ok(Program { devices, parameters, has_parameters, imports, modules, policy, reports })
    }

    /// The module that is run.
    pub fn main(&self) -> Option<&Module> {
        self.modules.last()
    }

    /// What the module that is run exports.
    pub fn exports(&self) -> Vec<Export> {
        let Some(main) = self.main() else { return Vec::new() };
        let export = |export: ExportInfo<'_>| {
            // A span takes any number of arguments, so none suffices; but no compiler writes such exports.
            let arguments = export.convention.args.iter().map(Argument::first_letter);
            let arguments = arguments.collect::<String>();
            let made = if takes_fences(main.attr_of(&export, ReflectionAttribute::InvocationModel.name()), &arguments) {
                FENCES
            } else {
                0
            };
            Export {
                name: export.name.to_string(),
                takes_arguments: arguments.len() > made,
                returns_results: !export.convention.results.is_empty(),
            }
        };
        main.exports().map(export).collect()
    }

    /// A context with the modules of the host, those of `host` and the loaded ones, all of them initialized.
    pub fn session(&self, host: impl IntoIterator<Item = Module>) -> Result<Session, Failure> {
        let device = self.devices.first().cloned().ok_or_else(|| Failure::new(Exit::Usage, "no device is given"))?;
        let hal = self.hal_modules(&device).map_err(|status| cannot("make the hal modules").because(status))?;
        let modules = hal.into_iter().chain([self.parameters.clone()]).chain(host).chain(self.modules.iter().cloned());
        let limits = self.policy.limits.clone();
        let sink: Arc<dyn TraceSink> = match &self.reports {
            Some(reports) => reports.clone(),
            None => Arc::new(Stderr),
        };
        let context = Context::with_sink(modules, limits, sink).map_err(|status| {
            let failure = cannot("initialize the modules").because(status);
            if !self.policy.native_code && self.has_native_kernels() {
                failure.hint("with --untrusted kernels have to be portable bytecode: compile for the backend `vmvx`")
            } else if self.imports_from(PARAMETERS) && !self.has_parameters {
                failure.hint("the program has parameters; use --parameters=FILE, or --parameters=SCOPE=FILE")
            } else {
                failure
            }
        })?;
        Ok(Session { context, device, limits: self.policy.limits.clone(), reports: self.reports.clone() })
    }

    /// The `hal` module, and those of its siblings that the programs ask for.
    fn hal_modules(&self, device: &Arc<dyn Device>) -> Result<Vec<Module>> {
        let sink = match &self.reports {
            Some(reports) => trace_to(Tensors(reports.clone())),
            None => trace_to_stderr(),
        };
        let mut modules = vec![Module::native(HalModule::new(self.devices.clone()).with_trace_sink(sink.clone()))?];
        if self.imports_from(HAL_INLINE) {
            modules.push(Module::native(HalInlineModule::new(device.allocator()).with_trace_sink(sink))?);
        }
        if self.imports_from(HAL_LOADER) {
            modules.push(Module::native(HalLoaderModule::with_policy(
                &self.policy,
                local::loaders_for(&self.policy, &self.imports),
            ))?);
        }
        if self.imports_from(VMVX) {
            modules.push(Module::native(VmvxModule::default())?);
        }
        Ok(modules)
    }

    /// What programs have reported since the last time, where it is compared.
    pub fn take_reports(&self) -> Vec<String> {
        self.reports.as_ref().map(|reports| reports.take()).unwrap_or_default()
    }

    /// Whether a program holds an executable that is machine code.
    fn has_native_kernels(&self) -> bool {
        let is_native = |archive: &Archive, range: Range<usize>| {
            archive.bytes().get(range).is_some_and(|bytes| local::elf::infer_format(bytes).is_ok())
        };
        let mut archives = self.modules.iter().filter_map(Module::archive);
        archives.any(|archive| archive.rodata().any(|segment| is_native(archive, segment.range)))
    }

    /// Whether a program imports something whose name begins like this.
    fn imports_from(&self, prefix: &str) -> bool {
        let mut imports = self.modules.iter().filter_map(Module::archive).flat_map(Archive::imports);
        imports.any(|import| import.full_name.starts_with(prefix))
    }
}

/// Tensors that programs trace, as lines of what they report.
struct Tensors(Arc<Recorder>);

impl Write for Tensors {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.add(String::from_utf8_lossy(text).trim_end().to_string());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Devices, and what kernels may import.
type Devices = (Vec<Arc<dyn Device>>, Arc<dyn ImportProvider>);

/// The devices of the flags, whose programs are held to a policy.
fn under(program: &ProgramArguments, policy: &SecurityPolicy) -> Result<Devices, Failure> {
    let drivers = Drivers::load(&program.devices, policy.clone())?;
    let devices = program.device.iter().map(|uri| drivers.create_device(uri)).collect::<Result<Vec<_>, Failure>>()?;
    Ok((devices, drivers.imports()))
}

fn cannot(what: &str) -> Failure {
    Failure::new(Exit::LoadFailure, format!("cannot {what}"))
}

/// Loaded modules on a device.
pub struct Session {
    context: Context,
    device: Arc<dyn Device>,
    /// What calls may use.
    limits: Limits,
    reports: Option<Arc<Recorder>>,
}

/// An exported function, as it is known before there is a context.
pub struct Export {
    /// Its name.
    pub name: String,
    /// True if there are arguments beside fences.
    pub takes_arguments: bool,
    /// True if there are results.
    pub returns_results: bool,
}

/// True for a function that takes a fence to wait for and one to signal.
fn takes_fences(model: Option<&str>, arguments: &str) -> bool {
    model.and_then(InvocationModel::from_name) == Some(InvocationModel::CoarseFences) && ends_with_fences(arguments)
}

/// True if the last arguments, of which these are the letters, can be fences.
fn ends_with_fences(arguments: &str) -> bool {
    let is_reference = |letter: &char| Kind::from_letter(*letter) == Some(Kind::Ref);
    arguments.chars().rev().take(FENCES).filter(is_reference).count() == FENCES
}

/// A function that can be called.
pub struct Function {
    /// Its name.
    pub name: String,
    /// The letters of all its arguments.
    arguments: String,
    /// The letters of its results.
    pub results: String,
    /// How its source declares it.
    declaration: Option<String>,
    takes_fences: bool,
    function: vm::Function,
}

impl Function {
    /// The letters of the arguments that the user gives. Fences are made, not given.
    pub fn given_arguments(&self) -> &str {
        let made = if self.takes_fences { FENCES } else { 0 };
        &self.arguments[..self.arguments.len() - made]
    }

    /// True if it takes a fence to wait for and one to signal.
    pub fn is_async(&self) -> bool {
        self.takes_fences
    }

    /// What it was compiled for.
    pub fn benchmark(&self) -> Benchmark {
        match self.function.attr(ReflectionAttribute::Benchmark.name()) {
            Some("dispatch") if self.arguments == Kind::I32.letter().to_string() => Benchmark::Dispatch,
            Some("entry") if self.given_arguments().is_empty() => Benchmark::Entry,
            _ => Benchmark::Unmarked,
        }
    }

    /// Adds to a failure how the function is declared.
    pub fn explain(&self, failure: Failure) -> Failure {
        match &self.declaration {
            Some(declaration) => failure.hint(format!("the function is `{declaration}`")),
            None => failure,
        }
    }
}

/// Calls that are prepared.
pub struct Batch<'a> {
    function: &'a Function,
    calls: Vec<Vec<Value>>,
    results: Vec<Vec<Value>>,
    done: Fence,
    timeout: Option<Duration>,
}

impl Batch<'_> {
    /// Makes the calls and waits for the last ones. Results are kept until the batch is dropped.
    pub fn run(&mut self) -> Result<()> {
        for call in &self.calls {
            self.results.push(self.function.function.call(call)?);
        }
        let end = deadline(self.timeout);
        self.done.wait(end).map_err(|status| status.context("the results were not produced"))
    }
}

/// What a function was compiled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Benchmark {
    /// Nothing in particular.
    Unmarked,
    /// Measuring a whole program with constant arguments.
    Entry,
    /// Measuring a dispatch: it takes the number of times to run it.
    Dispatch,
}

/// What a session of the interpreter is compared with.
pub struct Others {
    program: Program,
    /// A session of machine code.
    pub compiled: Session,
}

impl Others {
    /// Another session of the interpreter.
    pub fn again(&self) -> Result<Session, Failure> {
        self.program.session([])
    }
}

impl Session {
    /// Loads modules, in order, with the `hal` module before them; and once more for machine code if both tiers are asked for.
    pub fn load(arguments: &ProgramArguments) -> Result<(Session, Option<Others>), Failure> {
        let program = Program::load(arguments, &[])?;
        let compiled = program.other(arguments)?.map(|compiled| compiled.session([])).transpose()?;
        let session = program.session([])?;
        Ok((session, compiled.map(|compiled| Others { program, compiled })))
    }

    /// What programs have reported since the last time, where it is compared.
    pub fn take_reports(&self) -> Vec<String> {
        self.reports.as_ref().map(|reports| reports.take()).unwrap_or_default()
    }

    /// The function `name` of the last module, or the only one that it exports.
    pub fn function(&self, name: Option<&str>) -> Result<Function, Failure> {
        let main = self.context.modules().last();
        let main = main.ok_or_else(|| Failure::new(Exit::LoadFailure, "there is no module"))?;
        let exports = main.exports().map(|export| export.name.to_string()).collect::<Vec<_>>();
        let known = format!("module `{}` exports {}", main.name(), at_names(&exports));
        let name = match (name.filter(|name| !name.is_empty()), exports.as_slice()) {
            (Some(name), _) => name,
            (None, [only]) => only,
            (None, _) => {
                let message = format!("no function is chosen, and module `{}` exports {}", main.name(), exports.len());
                return Err(Failure::new(Exit::LoadFailure, message).hint(format!("use --function=NAME; {known}")));
            }
        };
        let not_found = |status| {
            let failure = Failure::new(Exit::LoadFailure, format!("there is no function `{name}` to call"));
            if exports.is_empty() { failure.because(status) } else { failure.hint(known.clone()) }
        };
        let function = self.context.function(&format!("{}.{name}", main.name()));
        let function = function.or_else(|_| self.context.function(name)).map_err(not_found)?;
        let convention: Convention = function.convention();
        let fixed = convention.fixed_args().ok_or_else(|| {
            let message = format!("@{name} takes a variable number of arguments, which is unimplemented");
            Failure::new(Exit::LoadFailure, message)
        })?;
        let arguments = fixed.iter().map(|kind| kind.letter()).collect::<String>();
        let takes_fences = takes_fences(function.attr(ReflectionAttribute::InvocationModel.name()), &arguments);
        Ok(Function {
            name: function.name().to_string(),
            results: convention.results.iter().map(|kind| kind.letter()).collect(),
            declaration: function.attr(ReflectionAttribute::Declaration.name()).map(str::to_string),
            arguments,
            takes_fences,
            function,
        })
    }

    /// The functions that a benchmark without a choice measures: those that were compiled as benchmarks, and those that take nothing.
    pub fn benchmarks(&self) -> Result<Vec<Function>, Failure> {
        let main = self.context.modules().last();
        let names = main.iter().flat_map(|main| main.exports()).map(|export| export.name.to_string());
        let functions = names.map(|name| self.function(Some(&name))).collect::<Result<Vec<_>, _>>()?;
        // What compilers add to a program has a `$` in its name.
        let can_be_called = |function: &Function| !function.name.contains('$') && function.given_arguments().is_empty();
        let is_wanted = |function: &Function| function.benchmark() != Benchmark::Unmarked || can_be_called(function);
        Ok(functions.into_iter().filter(is_wanted).collect())
    }

    /// Prepares `size` calls of a function that takes fences, of which `concurrency` may be under way at a time: call number `i` waits
    /// for number `i - concurrency`.
    pub fn batch<'a>(
        &self,
        function: &'a Function,
        arguments: &[Value],
        size: u32,
        concurrency: u32,
    ) -> Result<Batch<'a>> {
        let semaphore = |_| self.device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::default());
        let timelines = (0..concurrency).map(semaphore).collect::<Result<Vec<_>>>()?;
        let (mut calls, mut last) = (Vec::new(), Vec::new());
        let timeout = self.limits.timeout;
        for index in 0..size {
            let (timeline, value) = (&timelines[(index % concurrency) as usize], u64::from(index / concurrency));
            let before = if value == 0 { Value::NULL } else { Fence::at(timeline.clone(), value).to_ref().into() };
            let done = Fence::at(timeline.clone(), value + 1);
            if index + concurrency >= size {
                last.extend_from_slice(done.timepoints());
            }
            calls.push([arguments, &[before, done.to_ref().into()]].concat());
        }
        Ok(Batch { function, results: Vec::with_capacity(calls.len()), calls, done: Fence::join(&last), timeout })
    }

    /// Values on the device.
    pub fn arguments(&self, inputs: Vec<Datum>) -> Result<Vec<Value>> {
        inputs.into_iter().map(|input| self.to_value(input)).collect()
    }

    /// Calls `function` and waits until its results are there.
    pub fn call(&self, function: &Function, arguments: &[Value]) -> Result<Vec<Value>> {
        if !function.takes_fences {
            return function.function.call(arguments);
        }
        let semaphore = self.device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::default())?;
        let done = Fence::at(semaphore, 1);
        // Inputs are there already, so there is nothing to wait for.
        let fences = [Value::NULL, done.to_ref().into()];
        // The program may hand the fence to nobody, so that waiting for it has to end as a call does.
        let end = deadline(self.limits.timeout);
        let results = function.function.call(&[arguments, &fences].concat())?;
        done.wait(end).map_err(|status| status.context("the results were not produced"))?;
        Ok(results)
    }

    /// The same, with the results in the memory of `results`.
    pub fn call_into(&self, function: &Function, arguments: &[Value], results: &mut Vec<Value>) -> Result<()> {
        if !function.takes_fences {
            return function.function.call_into(arguments, results);
        }
        *results = self.call(function, arguments)?;
        Ok(())
    }

    /// Copies results to the host.
    pub fn to_data(&self, results: &[Value]) -> Result<Vec<Datum>> {
        let bytes = self.limits.memory.as_ref().map_or(u64::MAX, |memory| memory.limit());
        let mut room = Room { items: MAX_LIST_ITEMS, bytes };
        results.iter().map(|result| to_datum(result, 0, &mut room)).collect()
    }

    fn to_value(&self, datum: Datum) -> Result<Value> {
        Ok(match datum {
            Datum::I32(value) => value.into(),
            Datum::I64(value) => value.into(),
            Datum::F32(value) => value.into(),
            Datum::F64(value) => value.into(),
            Datum::Null | Datum::Ignored => Value::NULL,
            Datum::View(tensor) => {
                hal::BufferView::from_bytes(&*self.device, &tensor.shape, tensor.element, &tensor.bytes)?
                    .into_ref()
                    .into()
            }
            Datum::Buffer { bytes, .. } => {
                BufferRefObject::to_ref(hal::buffer_from_bytes(&*self.device, &bytes)?).into()
            }
            other => return Err(Status::unimplemented(format!("!{} as an argument", other.type_name()))),
        })
    }

    /// How much memory was used, as text.
    pub fn statistics(&self) -> String {
        let statistics = self.device.allocator().statistics();
        let line = |name: &str, peak: u64, allocated: u64, freed: u64| {
            let live = allocated.saturating_sub(freed);
            format!("{name:>12}: {peak:12}B peak / {allocated:12}B allocated / {freed:12}B freed / {live:12}B live\n")
        };
        let host = (statistics.host_bytes_peak, statistics.host_bytes_allocated, statistics.host_bytes_freed);
        let device = (statistics.device_bytes_peak, statistics.device_bytes_allocated, statistics.device_bytes_freed);
        format!(
            "Device: {}\n[[ memory statistics ]]\n{}{}",
            self.device.id(),
            line("HOST_LOCAL", host.0, host.1, host.2),
            line("DEVICE_LOCAL", device.0, device.1, device.2)
        )
    }
}

fn at_names(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".into()
    } else {
        names.iter().map(|name| format!("@{name}")).collect::<Vec<_>>().join(", ")
    }
}

/// When what takes this long and starts now has to be done.
fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}

/// What copies of results may still take.
struct Room {
    /// Items of lists.
    items: usize,
    bytes: u64,
}

impl Room {
    /// Takes bytes of it: one buffer may be in many lists, so that copies can be larger than all there is.
    fn take(&mut self, bytes: u64) -> Result<()> {
        let exhausted = || Status::resource_exhausted("the results are larger than the memory limit of the program");
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(exhausted)?;
        Ok(())
    }
}

fn to_datum(value: &Value, depth: usize, room: &mut Room) -> Result<Datum> {
    Ok(match value {
        Value::I32(value) => Datum::I32(*value),
        Value::I64(value) => Datum::I64(*value),
        Value::F32(value) => Datum::F32(*value),
        Value::F64(value) => Datum::F64(*value),
        Value::Ref(None) => Datum::Null,
        Value::Ref(Some(reference)) => object(reference, depth, room)?,
    })
}

fn object(reference: &Ref, depth: usize, room: &mut Room) -> Result<Datum> {
    if let Some(view) = reference.get::<BufferViewRef>() {
        room.take(view.buffer().byte_length())?;
        let bytes = view.to_vec()?;
        return Ok(Datum::View(Tensor { element: view.element_type(), shape: view.shape().to_vec(), bytes }));
    }
    if let Some(buffer) = reference.get::<BufferRefObject>() {
        room.take(buffer.byte_length())?;
        let bytes = hal::buffer_to_vec(&**buffer, buffer.byte_length())?;
        return Ok(Datum::Buffer { type_name: HAL_BUFFER, bytes });
    }
    if let Some(buffer) = reference.get::<vm::Buffer>() {
        room.take(buffer.len() as u64)?;
        return Ok(Datum::Buffer { type_name: VM_BUFFER, bytes: buffer.to_vec() });
    }
    let Some(list) = reference.get::<List>().filter(|_| depth < MAX_LIST_DEPTH) else {
        return Ok(Datum::Object(reference.type_name()));
    };
    let mut contents = Vec::new();
    for index in 0..list.len() {
        let Some(left) = room.items.checked_sub(1) else {
            return Err(Status::resource_exhausted(format!("the lists have more than {MAX_LIST_ITEMS} items")));
        };
        room.items = left;
        contents.push(match list.get(index)? {
            Element::None => Datum::Null,
            Element::I8(value) => Datum::I8(value),
            Element::I16(value) => Datum::I16(value),
            Element::I32(value) => Datum::I32(value),
            Element::I64(value) => Datum::I64(value),
            Element::F32(value) => Datum::F32(value),
            Element::F64(value) => Datum::F64(value),
            Element::Ref(None) => Datum::Null,
            Element::Ref(Some(reference)) => object(&reference, depth + 1, room)?,
        });
    }
    Ok(Datum::List(contents))
}
