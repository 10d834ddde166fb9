//! Sessions: a context of loaded modules on a device, and calls of its functions.

use std::sync::Arc;
use std::time::{Duration, Instant};

use vireo::hal::{self, BufferRefObject, Device, Fence, QueueAffinity, SemaphoreFlags};
use vireo::interp::{Limits, Recorder};
use vireo::vm::{Context, Convention, ReflectionAttribute, Value};
use vireo::{Result, Status};

use super::function::{Benchmark, Function, takes_fences};
use super::program::Program;
use super::results;
use crate::arguments::ProgramArguments;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::values::Datum;

/// Loaded modules on a device.
pub struct Session {
    pub(super) context: Context,
    pub(super) device: Arc<dyn Device>,
    /// The limits of calls.
    pub(super) limits: Limits,
    pub(super) reports: Option<Arc<Recorder>>,
}

/// A batch of prepared calls.
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

/// The sessions that a session of the interpreter is compared with.
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

    /// The traces of programs since the last call, if they are recorded.
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
        // Functions that compilers add to a program have a `$` in their names.
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
        // The program may drop the fence without signaling it, so the wait has the time limit of the call.
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
        results::to_data(results, bytes)
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

/// The point in time at which a timeout that starts now ends.
fn deadline(timeout: Option<Duration>) -> Option<Instant> {
    timeout.and_then(|timeout| Instant::now().checked_add(timeout))
}
