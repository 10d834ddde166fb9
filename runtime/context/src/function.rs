//! [`Function`]: an exported function of a context, which hosts call, and [`PendingCall`], a call that they poll.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Instant;

use super::context::Context;
use super::module::{ExportInfo, Module};
use crate::interp::{ImportTarget, Invocation, Limits, ModuleList, Poll, ValueTarget};
use crate::limits::scope::Scope;
use crate::limits::{Cancellation, check_available};
use crate::status::{Result, Status};
use vireo_module::convention::Convention;
use vireo_vm::Value;

/// Most functions that an error message lists.
const MAX_LISTED: usize = 32;

/// An exported function of a context, which it keeps alive. Cheap to clone.
#[derive(Clone)]
pub struct Function {
    pub(super) context: Context,
    module: usize,
    ordinal: usize,
    name: Arc<str>,
    /// For calls without limits; made by the first one.
    values: OnceLock<ValueTarget>,
}

impl Context {
    /// The function called `name`: either `module.function`, or the name of an export of the last bytecode module that
    /// has one.
    ///
    /// # Errors
    /// `NOT_FOUND`, with the names that exist.
    pub fn function(&self, name: &str) -> Result<Function> {
        let modules = self.modules().iter().enumerate().rev();
        let of = |index: usize, export: ExportInfo<'_>| Function::new(self.clone(), index, export.name, export.ordinal);
        if let Some((module_name, export_name)) = name.split_once('.') {
            for (index, module) in modules.clone().filter(|(_, module)| module.name() == module_name) {
                if let Some(export) = module.exports_named(export_name).next() {
                    return Ok(of(index, export));
                }
            }
        }
        for (index, module) in modules.filter(|(_, module)| module.archive().is_some()) {
            if let Some(export) = module.exports_named(name).next() {
                return Ok(of(index, export));
            }
        }
        let known = self.modules().iter().filter(|module| module.archive().is_some());
        let mut known =
            known.flat_map(|module| module.exports().map(|export| format!("{}.{}", module.name(), export.name)));
        let mut text = known.by_ref().take(MAX_LISTED).collect::<Vec<_>>().join(", ");
        let more = known.count();
        if more > 0 {
            text.push_str(&format!(" and {more} more"));
        }
        Err(Status::not_found(format!("no function `{name}`; there are: {text}")))
    }

    /// The exported function with this ordinal of module number `module`, for hosts that have looked it up in the
    /// module.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none.
    #[doc(hidden)]
    pub fn function_at(&self, module: usize, ordinal: usize) -> Result<Function> {
        let exports = self.modules().get(module).into_iter().flat_map(Module::all_exports);
        let export = exports.into_iter().find(|export| export.ordinal == ordinal);
        let missing = || Status::not_found(format!("module {module} exports no function {ordinal}"));
        export.map(|export| Function::new(self.clone(), module, export.name, ordinal)).ok_or_else(missing)
    }
}

impl Function {
    pub(super) fn new(context: Context, module: usize, name: &str, ordinal: usize) -> Function {
        Function { context, module, ordinal, name: name.into(), values: OnceLock::new() }
    }

    /// The module that exports it.
    pub fn module(&self) -> &Module {
        &self.context.modules()[self.module]
    }

    /// Name without the module.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its calling convention.
    pub fn convention(&self) -> Convention {
        self.module().convention_of(self.ordinal).cloned().unwrap_or_default()
    }

    /// The reflection attributes that the compiler wrote: `iree.abi.declaration`, `iree.abi`, ...
    pub fn attrs(&self) -> Vec<(&str, &str)> {
        let function = self.module().archive().and_then(|archive| archive.function(self.ordinal));
        function.map(|function| function.attrs().collect()).unwrap_or_default()
    }

    /// The reflection attribute `key`.
    pub fn attr(&self, key: &str) -> Option<&str> {
        self.attrs().into_iter().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// Compiles the function now, whatever the tier is, so that no call waits for it. False if it is left to the
    /// interpreter; functions of modules in Rust are not compiled either.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` where there is no machine code in this build.
    pub fn compile(&self) -> Result<bool> {
        check_available()?;
        if let Some(tier_up) = self.context.0.tier_up(self.module) {
            return Ok(tier_up.compile(self.ordinal as u32));
        }
        Ok(false)
    }

    /// Calls the function and waits until it returns.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `args` do not match the convention, else the error of the program.
    pub fn call(&self, args: &[Value]) -> Result<Vec<Value>> {
        let mut results = Vec::new();
        self.call_into(args, &mut results)?;
        Ok(results)
    }

    /// As [`Function::call`], and replaces the contents of `results` by the results.
    ///
    /// A program that calls a function again and again and keeps its arguments and this list allocates no memory once
    /// it has warmed up, if the shapes are the same each time: the call reuses the memory of the results that are
    /// dropped here.
    ///
    /// ```
    /// # use vireo_core::status::Result;
    /// # use vireo_context::Function;
    /// # use vireo_vm::Value;
    /// fn steps(function: &Function, mut state: Vec<Value>) -> Result<Vec<Value>> {
    ///     let mut results = Vec::new();
    ///     for _ in 0..1000 {
    ///         function.call_into(&state, &mut results)?;
    ///         std::mem::swap(&mut state, &mut results);
    ///     }
    ///     Ok(state)
    /// }
    /// ```
    ///
    /// # Errors
    /// As [`Function::call`]; there are no results then.
    pub fn call_into(&self, args: &[Value], results: &mut Vec<Value>) -> Result<()> {
        // The results of the last call are dropped first, so that this call can reuse their memory.
        results.clear();
        let context = &self.context.0;
        if context.is_limited() {
            return context.call_into(self.target(), args, results);
        }
        context.call_values(self.value_target()?, args, results)
    }

    /// As [`Function::call`], within `limits`.
    ///
    /// # Errors
    /// As [`Function::call`]; `RESOURCE_EXHAUSTED`, `DEADLINE_EXCEEDED` and `CANCELLED` by the limits.
    pub fn call_with(&self, args: &[Value], limits: Limits) -> Result<Vec<Value>> {
        self.context.0.call(self.target(), args, &limits)
    }

    /// Prepares a call that the caller drives by polling. Nothing runs before the first poll.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if `args` do not match the convention.
    pub fn start(&self, args: &[Value], limits: Limits) -> Result<PendingCall> {
        let program = Arc::clone(&self.context.0.linked.module_list);
        let limits = limits.started().into_owned();
        let scope = Scope::of(&limits);
        let invocation = Invocation::new(program, self.target(), args, limits)?;
        Ok(PendingCall { context: self.context.clone(), invocation, scope })
    }

    fn value_target(&self) -> Result<&ValueTarget> {
        if let Some(target) = self.values.get() {
            return Ok(target);
        }
        let context = &self.context.0;
        let target = ValueTarget::new(Arc::clone(&context.linked.module_list), self.target(), context.limits())?;
        Ok(self.values.get_or_init(|| target))
    }

    pub(super) fn target(&self) -> ImportTarget {
        ImportTarget { module: self.module, function: self.ordinal }
    }
}

/// A call that has been started. Dropping it cancels the call and releases its references.
pub struct PendingCall {
    context: Context,
    invocation: Invocation<Arc<ModuleList>, Limits>,
    /// Its limits, entered while it runs, for operations and kernels that run for it.
    scope: Scope,
}

impl PendingCall {
    /// The point in time at which the call ends at the latest.
    pub(super) fn deadline(&self) -> Option<Instant> {
        self.scope.limits().and_then(|limits| limits.deadline)
    }

    /// The handle that cancels the call.
    pub(super) fn cancellation(&self) -> Option<&Cancellation> {
        self.scope.limits().and_then(|limits| limits.cancellation.as_ref())
    }

    /// Fails if the time of the call is up.
    pub(super) fn check_time(&self) -> Result<()> {
        self.invocation.check_time()
    }

    /// Runs until the function returns, yields, or has to wait. Other calls may run between two polls.
    ///
    /// # Errors
    /// The error of the program; the call is over then.
    pub fn poll(&mut self) -> Result<Poll> {
        let _scope = self.scope.clone().enter();
        self.context.0.poll(&mut self.invocation)
    }

    /// Blocks until the function returns.
    ///
    /// # Errors
    /// As [`PendingCall::poll`], and `DEADLINE_EXCEEDED` or `CANCELLED` by the limits.
    pub fn finish(mut self) -> Result<Vec<Value>> {
        let _scope = self.scope.clone().enter();
        let mut results = Vec::new();
        self.context.0.run(&mut self.invocation, &mut results)?;
        Ok(results)
    }
}

impl fmt::Debug for Function {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Function({}.{} {})", self.module().name(), self.name, self.convention())
    }
}
