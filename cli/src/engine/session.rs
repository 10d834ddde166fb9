//! Sessions: the choice of a function by its name, and calls with [`Datum`]s.

use std::sync::Arc;

use serde_json::json;
use vireo::Result;
use vireo::hal::local::LoadedKernels;
use vireo::inference::{Function, Model, PreparedCall};
use vireo::interp::{LeftOut, MachineCode, SideExits, TraceRecorder};
use vireo::vm::{Module, Value};
use vireo::vmfb::is_for_callers;

use super::values;
use super::{Benchmark, explain};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::suggest::did_you_mean;
use crate::values::Datum;
use vireo::visible_text::visible;

/// A program with state.
pub struct Session {
    session: vireo::Session,
    /// The kernels in bytecode that its devices have loaded, for all sessions of the program.
    kernels: Arc<LoadedKernels>,
    reports: Option<Arc<TraceRecorder>>,
}

/// A function of the last module that is to be called.
pub(super) struct Chosen<'a> {
    /// As it was given.
    given: &'a str,
    /// Without `@`.
    pub(super) name: &'a str,
    module: String,
    exports: Vec<String>,
}

impl<'a> Chosen<'a> {
    /// The function `name`, or the only one that the last module exports.
    pub(super) fn of(model: &'a Model, name: Option<&'a str>) -> Result<Chosen<'a>, Failure> {
        let main = model.main();
        let exports = main.exports().map(|export| export.name.to_string()).collect::<Vec<_>>();
        let module = main.name().to_string();
        let given = match name.filter(|name| !name.is_empty()) {
            Some(name) => name,
            None => model.default_function().map_err(|_| {
                let callable: Vec<String> = exports.iter().filter(|name| is_for_callers(name)).cloned().collect();
                let message = format!("no function is chosen, and module `{module}` exports {}", callable.len());
                let known = format!("module `{module}` exports {}", at_names(&callable));
                Failure::new(Exit::Usage, message).hint(format!("use --function=NAME; {known}"))
            })?,
        };
        // Assembly and messages write `@name`, so users do, too; but a name may begin with `@`.
        let name = given.strip_prefix('@').filter(|_| !exports.iter().any(|export| export == given)).unwrap_or(given);
        Ok(Chosen { given, name, module, exports })
    }

    /// The failure if there is no such function.
    pub(super) fn failure(&self, status: vireo::Status) -> Failure {
        let Chosen { given, name, module, exports } = self;
        let failure = Failure::new(Exit::LoadFailure, format!("there is no function `{given}` to call"));
        if exports.is_empty() || exports.iter().any(|export| export == name) {
            return failure.because(status);
        }
        let meant = did_you_mean(name, exports.iter().map(String::as_str), "@");
        failure.hint(format!("{meant}module `{module}` exports {}", at_names(exports)))
    }
}

impl Session {
    pub(super) fn new(
        session: vireo::Session,
        kernels: Arc<LoadedKernels>,
        reports: Option<Arc<TraceRecorder>>,
    ) -> Session {
        Session { session, kernels, reports }
    }

    /// The traces of programs since the last call, if they are recorded.
    pub fn take_reports(&self) -> Vec<String> {
        self.reports.as_ref().map(|reports| reports.take()).unwrap_or_default()
    }

    /// The function `name` of the last module, or the only one that it exports.
    pub fn function(&self, name: Option<&str>) -> Result<Function, Failure> {
        let chosen = Chosen::of(self.session.model(), name)?;
        self.session.function(chosen.name).map_err(|status| chosen.failure(status))
    }

    /// The functions that a benchmark without a choice measures: those that were compiled as benchmarks, and those that
    /// take nothing.
    pub fn benchmarks(&self) -> Result<Vec<Function>, Failure> {
        let signatures = self.session.model().signatures();
        let functions = signatures.iter().map(|signature| self.function(Some(&signature.name)));
        let functions = functions.collect::<Result<Vec<_>, _>>()?;
        let can_be_called = |function: &Function| {
            is_for_callers(&function.signature().name) && function.signature().arguments.is_empty()
        };
        let is_wanted = |function: &Function| Benchmark::of(function) != Benchmark::Unmarked || can_be_called(function);
        Ok(functions.into_iter().filter(is_wanted).collect())
    }

    /// Values on the device.
    pub fn arguments(&self, inputs: Vec<Datum>) -> Result<Vec<Value>> {
        inputs.into_iter().map(|input| values::to_value(&self.session, input)).collect()
    }

    /// Prepares a call. The program checks the arguments, as it does under the reference's tools.
    pub fn prepare(&self, function: &Function, inputs: Vec<Datum>) -> Result<PreparedCall> {
        function.prepare_values(self.arguments(inputs)?)
    }

    /// Calls `function` and copies its results to the host.
    pub fn call(&self, function: &Function, arguments: Vec<Value>) -> Result<Vec<Datum>> {
        let mut call = function.prepare_values(arguments)?;
        call.run()?;
        self.copy(call.values(), true)
    }

    /// Copies values to the host, as many bytes as the program may use.
    pub fn to_data(&self, values: &[Value]) -> Result<Vec<Datum>> {
        self.copy(values, false)
    }

    fn copy(&self, values: &[Value], are_results: bool) -> Result<Vec<Datum>> {
        let bytes = self.session.model().limits().memory.as_ref().map_or(u64::MAX, |memory| memory.limit());
        values::to_data(values, bytes, are_results)
    }

    /// How much memory was used, as text.
    pub fn statistics(&self) -> String {
        // The library has put a device there.
        let Some(device) = self.session.model().devices().first() else { return String::new() };
        let statistics = device.allocator().statistics();
        let line = |name: &str, peak: u64, allocated: u64, freed: u64| {
            let live = allocated.saturating_sub(freed);
            format!("{name:>12}: {peak:12}B peak / {allocated:12}B allocated / {freed:12}B freed / {live:12}B live\n")
        };
        let host = (statistics.host_bytes_peak, statistics.host_bytes_allocated, statistics.host_bytes_freed);
        let local = (statistics.device_bytes_peak, statistics.device_bytes_allocated, statistics.device_bytes_freed);
        format!(
            "Device: {}\n[[ memory statistics ]]\n{}{}{}",
            device.id(),
            line("HOST_LOCAL", host.0, host.1, host.2),
            line("DEVICE_LOCAL", local.0, local.1, local.2),
            self.machine_code()
        )
    }

    /// How much machine code the modules of the program and its kernels in bytecode have, and why some of their
    /// functions have none.
    fn machine_code(&self) -> String {
        let context = self.session.context();
        let mut text = String::new();
        for (index, module) in context.modules().iter().enumerate().filter(|(_, module)| module.archive().is_some()) {
            let code = context.machine_code(index);
            text += &machine_code(&format!("functions of `{}`", visible(module.name())), std::slice::from_ref(&code));
            text += &side_exits(&[code], |exits| place(module, exits));
        }
        let kernels = self.kernels.machine_code();
        if !kernels.is_empty() {
            text += &machine_code("functions of kernels in bytecode", &kernels);
            text += &side_exits(&kernels, |exits| format!("function {}, op {}", exits.function, exits.op));
        }
        text
    }

    /// The same of the modules of the program, for programs.
    pub fn machine_code_json(&self) -> serde_json::Value {
        let context = self.session.context();
        let modules = context.modules().iter().enumerate().filter(|(_, module)| module.archive().is_some());
        let list = modules.map(|(index, module)| {
            let code = context.machine_code(index);
            let exits = code.side_exits.iter().map(|exits| {
                json!({
                    "function": module.function_name(exits.function),
                    "op": exits.op,
                    "offset": offset(module, exits),
                    "reason": exits.reason.name(),
                    "count": exits.count,
                })
            });
            json!({
                "module": module.name(),
                "functions": code.functions,
                "bytes": code.bytes,
                "side_exits": exits.collect::<Vec<_>>(),
            })
        });
        list.collect()
    }
}

/// The offset of the op of side exits in its function, in bytes.
fn offset(module: &Module, exits: &SideExits) -> Option<u32> {
    module.functions().get(exits.function)?.decoded().offsets.get(exits.op).copied()
}

fn place(module: &Module, exits: &SideExits) -> String {
    let offset = offset(module, exits).map_or_else(String::new, |offset| format!(" (offset {offset:#x})"));
    format!("@{}, op {}{offset}", visible(&module.function_name(exits.function)), exits.op)
}

/// The side exits that were taken most often, a line each.
fn side_exits(modules: &[MachineCode], place: impl Fn(&SideExits) -> String) -> String {
    let mut all: Vec<&SideExits> = modules.iter().flat_map(|code| &code.side_exits).collect();
    all.sort_by_key(|exits| std::cmp::Reverse(exits.count));
    let mut text = String::new();
    for exits in all.iter().take(MAX_SIDE_EXITS) {
        text += &format!("{:>14}side exits: {} at {}, because {}\n", "", exits.count, place(exits), exits.reason);
    }
    let left: u64 = all.iter().skip(MAX_SIDE_EXITS).map(|exits| exits.count).sum();
    if left > 0 {
        text += &format!("{:>14}side exits: {left} at {} more ops\n", "", all.len() - MAX_SIDE_EXITS);
    }
    text
}

/// The ops of which the side exits of a module are listed.
const MAX_SIDE_EXITS: usize = 16;

/// How much machine code some modules have together: a line, and one for each reason why functions have none.
fn machine_code(what: &str, modules: &[MachineCode]) -> String {
    let functions: usize = modules.iter().map(|code| code.functions).sum();
    let bytes: u64 = modules.iter().map(|code| code.bytes).sum();
    let mut text = format!("MACHINE_CODE: {bytes:12}B in {functions} {what}\n");
    let mut reasons: Vec<(LeftOut, usize)> = Vec::new();
    for (_, why) in modules.iter().flat_map(|code| &code.left_out) {
        match reasons.iter_mut().find(|(reason, _)| reason == why) {
            Some((_, count)) => *count += 1,
            None => reasons.push((*why, 1)),
        }
    }
    for (why, count) in reasons {
        text += &format!("{:>14}left to the interpreter: {count}, because {why}\n", "");
    }
    text
}

/// The failure of a call, with what the function takes.
pub fn cannot_call(function: &Function, status: vireo::Status) -> Failure {
    let signature = function.signature();
    explain(signature, Failure::new(Exit::RunFailure, format!("calling @{}", signature.name)).because(status))
}

fn at_names(names: &[String]) -> String {
    if names.is_empty() {
        "nothing".into()
    } else {
        names.iter().map(|name| format!("@{name}")).collect::<Vec<_>>().join(", ")
    }
}
