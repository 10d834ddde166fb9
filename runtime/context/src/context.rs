//! [`LinkedModules`]: modules with their imports bound, and [`Context`]: the state of linked modules. Hosts create
//! contexts and look up functions in them.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use super::module::{Module, ModuleKind};
use super::turns::Turns;
use crate::background::{self, Urgency};
use crate::blocking::Blocking;
use crate::bytecode::opcode::{BytecodeVersion, DEINITIALIZER, INITIALIZER};
use crate::interp::threaded::{MachineCode, TierUp};
use crate::interp::{
    self, CallState, ImportTarget, Invocation, Limits, ModuleList, ModuleState, PassedList, Poll, Results, Stderr,
    Step, Suspension, TraceSink, TypedResults, TypedTarget, ValueTarget,
};
use crate::limits::scope;
use crate::status::{Result, Status, StatusCode};
use vireo_module::convention::Convention;
use vireo_vm::interp::machine::lent_references::LendableObjects;
use vireo_vm::{List, Obj, Value};

/// Bytes of bytecode for each thread that compiles a module, so that it has more to do than it takes to start it.
const BYTES_PER_THREAD: u64 = 4 << 10;
/// Bytes of machine code that a byte of bytecode may become, and most do not.
const CODE_PER_BYTE: u64 = 64;

/// How many threads help to compile so many bytes of bytecode. None where the code may reach a limit: which functions
/// are left out must not depend on what is compiled first.
fn helpers(bytes: u64, code_limit: u64) -> u64 {
    if !background::is_available() || scope::counts_memory() || bytes.saturating_mul(CODE_PER_BYTE) > code_limit {
        return 0;
    }
    let processors = thread::available_parallelism().map_or(1, usize::from) as u64;
    (bytes / BYTES_PER_THREAD).min(processors.saturating_sub(1))
}

/// Modules that can call each other, and their state. Cheap to clone; the clones are the same context.
///
/// Calls may come from any thread. One call runs at a time; while a call waits, others may run. A native function must
/// not call back into its own context.
#[derive(Clone)]
pub struct Context(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub linked: LinkedModules,
    state: Turns<CallState>,
    limits: Arc<Limits>,
    /// Whether the limits are more than sizes.
    is_limited: bool,
    /// How many modules have been initialised, from the first.
    initialized: usize,
}

/// Modules with their imports bound: what contexts of the same modules share, machine code included. Cheap to clone.
///
/// Nothing of it changes when programs run, except that functions get machine code. So contexts of the same linked
/// modules can run on different threads at the same time.
#[derive(Clone)]
pub struct LinkedModules {
    modules: Arc<[Module]>,
    pub(super) module_list: Arc<ModuleList>,
}

impl LinkedModules {
    /// Binds the imports of `modules`, in order. A module can import from those before it and from itself; of several
    /// with the same name it imports from the last one. Programs trace and print to the standard error stream.
    ///
    /// # Errors
    /// `NOT_FOUND` if a module or function that is needed is missing, `INCOMPATIBLE` if its version or its calling
    /// convention does not match.
    pub fn new(modules: impl IntoIterator<Item = Module>) -> Result<LinkedModules> {
        LinkedModules::with_sink(modules, Arc::new(Stderr))
    }

    /// As [`LinkedModules::new`], with a sink for what programs trace and print.
    ///
    /// # Errors
    /// As [`LinkedModules::new`].
    pub fn with_sink(modules: impl IntoIterator<Item = Module>, sink: Arc<dyn TraceSink>) -> Result<LinkedModules> {
        let modules: Arc<[Module]> = modules.into_iter().collect();
        let mut module_list = ModuleList { modules: Vec::new(), sink };
        for index in 0..modules.len() {
            module_list.modules.push(bind(&modules[..=index])?);
        }
        Ok(LinkedModules { modules, module_list: Arc::new(module_list) })
    }

    /// These modules with more after them.
    fn with_more(&self, modules: impl IntoIterator<Item = Module>) -> Result<LinkedModules> {
        let before = self.modules.len();
        let modules: Arc<[Module]> = self.modules.iter().cloned().chain(modules).collect();
        let sink = Arc::clone(&self.module_list.sink);
        let mut module_list = ModuleList { modules: self.module_list.modules.clone(), sink };
        for index in before..modules.len() {
            module_list.modules.push(bind(&modules[..=index])?);
        }
        Ok(LinkedModules { modules, module_list: Arc::new(module_list) })
    }

    /// The modules in order.
    pub fn modules(&self) -> &[Module] {
        &self.modules
    }

    /// The machine code that module number `module` has so far, and which functions the interpreter runs. Nothing for a
    /// module in Rust.
    pub fn machine_code(&self, module: usize) -> MachineCode {
        match self.module_list.modules.get(module) {
            Some(interp::BoundModule::Bytecode(bytecode)) => bytecode.code.all_machine_code(),
            _ => MachineCode::default(),
        }
    }

    /// A context with state of its own: creates the state of each module and runs its initialiser, in order. The limits
    /// are those of the initialisers and of all calls that are made without limits.
    ///
    /// # Errors
    /// Any error of an initialiser.
    pub fn context(&self, limits: Limits) -> Result<Context> {
        let state = {
            let _started = scope::start(&limits);
            Turns::new(CallState::new(&self.module_list)?)
        };
        let is_limited = limits.is_armed();
        let limits = Arc::new(limits);
        let mut inner = Inner { linked: self.clone(), state, limits, is_limited, initialized: 0 };
        while inner.initialized < inner.linked.modules.len() {
            let index = inner.initialized;
            inner.run_hook(index, INITIALIZER)?;
            inner.initialized += 1;
        }
        Ok(Context(Arc::new(inner)))
    }
}

impl Context {
    /// A context of `modules`, initialised in order. A module can import from those before it and from itself; of
    /// several with the same name it imports from the last one.
    ///
    /// # Errors
    /// `NOT_FOUND` if a module or function that is needed is missing, `INCOMPATIBLE` if its version or its calling
    /// convention does not match, and any error of an initialiser.
    pub fn new(modules: impl IntoIterator<Item = Module>) -> Result<Context> {
        Context::with_limits(modules, Limits::default())
    }

    /// As [`Context::new`], with limits for initialisers and for all calls that are made without limits.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn with_limits(modules: impl IntoIterator<Item = Module>, limits: Limits) -> Result<Context> {
        Context::with_sink(modules, limits, Arc::new(Stderr))
    }

    /// As [`Context::with_limits`], with a sink for what programs trace and print, instead of the standard error
    /// stream.
    ///
    /// # Errors
    /// As [`Context::new`].
    pub fn with_sink(
        modules: impl IntoIterator<Item = Module>,
        limits: Limits,
        sink: Arc<dyn TraceSink>,
    ) -> Result<Context> {
        LinkedModules::with_sink(modules, sink)?.context(limits)
    }

    /// Adds modules after those that are there, whose state stays as it is: binds their imports, creates their state
    /// and runs their initialisers, in order. Hosts that register one module after the other use it.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if there are other handles of the context: copies, functions or calls; and as
    /// [`Context::new`]. The context is as before then, except for what initialisers have changed.
    pub fn add_modules(&mut self, modules: impl IntoIterator<Item = Module>) -> Result<()> {
        let Some(inner) = Arc::get_mut(&mut self.0) else {
            let message = "modules can be added only while there is no function or call, and no copy of the context";
            return Err(Status::failed_precondition(message));
        };
        let linked = inner.linked.with_more(modules)?;
        let _started = scope::start(&inner.limits);
        let state = inner.state.get_mut();
        // A call that is ready belongs to the modules as they were.
        let context = std::mem::take(&mut state.context);
        *state = CallState::default();
        state.context = context;
        let before = state.context.modules.len();
        for module in &linked.module_list.modules[before..] {
            match ModuleState::new(module) {
                Ok(new) => state.context.modules.push(new),
                Err(status) => {
                    state.context.modules.truncate(before);
                    return Err(status);
                }
            }
        }
        let former = std::mem::replace(&mut inner.linked, linked);
        while inner.initialized < inner.linked.modules.len() {
            if let Err(status) = inner.run_hook(inner.initialized, INITIALIZER) {
                inner.remove_modules_from(before);
                inner.linked = former;
                return Err(status);
            }
            inner.initialized += 1;
        }
        Ok(())
    }

    /// The modules that it shares with other contexts.
    pub fn linked_modules(&self) -> &LinkedModules {
        &self.0.linked
    }

    /// The modules in order.
    pub fn modules(&self) -> &[Module] {
        &self.0.linked.modules
    }

    /// A function by the index of its module and its ordinal, for [`Context::call_each`].
    ///
    /// # Errors
    /// As [`Function::typed`](crate::Function::typed).
    #[doc(hidden)]
    pub fn typed_at<P: PassedList, R: PassedList>(&self, module: usize, ordinal: usize) -> Result<TypedTarget<P, R>> {
        let target = ImportTarget { module, function: ordinal };
        TypedTarget::new(Arc::clone(&self.0.linked.module_list), target, self.0.limits())
    }

    /// Calls a function again and again, one call after the other, without other calls in between unless one waits:
    /// within limits that have started already and are in force on this thread, or without any. `next` prepares the
    /// arguments of each call, until it returns false. It gets the list, which is one of the arguments, if that may
    /// have been changed since it has been lent last: see [`LendableObjects`].
    ///
    /// # Errors
    /// As [`Function::call`](crate::Function::call), and those of `next`. No further call is made then.
    ///
    /// # Safety
    /// Nothing changes the list but these calls, and `next` if it gets it. The elements are forgotten if something else
    /// may have changed it.
    #[doc(hidden)]
    pub unsafe fn call_each<P: PassedList + Clone, A: AsRef<P>>(
        &self,
        target: &TypedTarget<P, ()>,
        limits: Option<&Limits>,
        list: &mut LendableObjects,
        arguments: &mut A,
        mut next: impl FnMut(&mut A, Option<&Obj<List>>) -> Result<bool>,
    ) -> Result<()> {
        let inner = &*self.0;
        let _blocking = Blocking::enter();
        loop {
            let mut state = inner.state.take_within(limits.unwrap_or(&inner.limits))?;
            // SAFETY: the caller guarantees that nothing changes the list but these calls.
            let suspended = unsafe { target.call_each(&mut state, limits, list, arguments, &mut next) }?;
            drop(state);
            match suspended {
                Some(suspended) => inner.finish(*suspended, &mut TypedResults::<()>::sink())?,
                None => return Ok(()),
            }
        }
    }

    /// Calls a function once, within limits that have started already and are in force on this thread.
    ///
    /// # Errors
    /// As [`Function::call`](crate::Function::call).
    #[doc(hidden)]
    pub fn call_within<P: PassedList>(&self, target: &TypedTarget<P, ()>, limits: &Limits, params: P) -> Result<()> {
        let inner = &*self.0;
        let _blocking = Blocking::enter();
        let mut state = inner.state.take_within(limits)?;
        if let Step::Suspended(suspended) = target.call(&mut state.context, params, limits)? {
            drop(state);
            inner.finish(*suspended, &mut TypedResults::<()>::sink())?;
        }
        Ok(())
    }

    /// The limits of calls that are made without limits.
    #[doc(hidden)]
    pub fn limits(&self) -> &Arc<Limits> {
        self.0.limits()
    }

    /// As [`LinkedModules::machine_code`].
    pub fn machine_code(&self, module: usize) -> MachineCode {
        self.0.linked.machine_code(module)
    }

    /// Compiles all functions of bytecode module `module` now, instead of each when its tier-up counter is full.
    #[doc(hidden)]
    pub fn compile(&self, module: usize) {
        self.compile_with(module, |_, _| {});
    }

    /// As [`Context::compile`]. After functions `progress` gets the bytes of bytecode that are compiled, and how many
    /// there are in all.
    #[doc(hidden)]
    pub fn compile_with(&self, module: usize, mut progress: impl FnMut(u64, u64)) {
        let Some(tier_up) = self.0.tier_up(module) else { return };
        let Some(archive) = self.modules().get(module).and_then(Module::archive) else { return };
        let lengths: Vec<u64> = archive.functions().map(|function| function.code.len() as u64).collect();
        let all = lengths.iter().sum();
        let (next, done) = (AtomicUsize::new(0), AtomicU64::new(0));
        let compile = |report: &mut dyn FnMut(u64)| {
            loop {
                let ordinal = next.fetch_add(1, Ordering::Relaxed);
                let Some(length) = lengths.get(ordinal) else { return };
                // Functions without machine code are left to the interpreter.
                let _ = tier_up.compile(ordinal as u32);
                report(done.fetch_add(*length, Ordering::Relaxed) + length);
            }
        };
        let mut reported = 0;
        thread::scope(|scope| {
            for _ in 0..helpers(all, tier_up.code_limit) {
                // This thread does it alone if there can be no other one.
                let helper = thread::Builder::new().name("vireo-compile".into());
                let _ = helper.spawn_scoped(scope, || compile(&mut |_| {}));
            }
            compile(&mut |done| {
                reported = done;
                progress(done, all);
            });
        });
        if reported < all {
            progress(all, all);
        }
    }

    /// Has all functions of bytecode module `module` compiled in the background, in order. Their code is charged to the
    /// call that the thread runs for.
    #[doc(hidden)]
    pub fn compile_in_background(&self, module: usize) {
        let Some(tier_up) = self.0.tier_up(module) else { return };
        let scope = scope::Scope::current();
        let memory = scope.limits().and_then(|limits| limits.memory.as_ref());
        for ordinal in 0..tier_up.module.functions.len() {
            tier_up.compile_in_background(ordinal as u32, Urgency::Ahead, memory);
        }
    }
}

impl Inner {
    /// The limits of calls that are made without limits.
    pub fn limits(&self) -> &Arc<Limits> {
        &self.limits
    }

    /// The tier-up policy that compiles functions of bytecode module `module` at once.
    pub fn tier_up(&self, module: usize) -> Option<TierUp<'_>> {
        match self.linked.module_list.modules.get(module)? {
            interp::BoundModule::Bytecode(bytecode) => {
                let code_limit = self.limits.machine_code_bytes;
                Some(TierUp { module: bytecode, index: module, always: true, code_limit })
            }
            interp::BoundModule::Native(..) => None,
        }
    }

    /// Polls an invocation once, with exclusive access to the state.
    pub fn poll(&self, invocation: &mut Invocation<impl Borrow<ModuleList>, impl Borrow<Limits>>) -> Result<Poll> {
        let mut state = self.state.take_within(invocation.limits())?;
        invocation.poll(&mut state.context)
    }

    /// Runs an invocation to its end, and adds the results to `results`. The state is free for other calls while this
    /// one waits.
    pub fn run(
        &self,
        invocation: &mut Invocation<impl Borrow<ModuleList>, impl Borrow<Limits>>,
        results: &mut Vec<Value>,
    ) -> Result<()> {
        let _blocking = Blocking::enter();
        match self.step(invocation, results)? {
            Step::Done(()) => Ok(()),
            Step::Suspended(suspension) => self.go_on(invocation, suspension, results),
        }
    }

    /// Polls an invocation once, with exclusive access to the state, and with what becomes of the results.
    fn step<R: Results>(
        &self,
        invocation: &mut Invocation<impl Borrow<ModuleList>, impl Borrow<Limits>>,
        results: &mut R,
    ) -> Result<Step<R::Output>> {
        let mut state = self.state.take_within(invocation.limits())?;
        invocation.poll_into(&mut state.context, results)
    }

    /// Calls a function and waits until it returns.
    pub fn call(&self, target: ImportTarget, args: &[Value], limits: &Limits) -> Result<Vec<Value>> {
        let started = scope::start(limits);
        let limits = started.as_ref().map_or(limits, |started| &started.limits);
        let mut results = Vec::new();
        self.run(&mut Invocation::new(&*self.linked.module_list, target, args, limits)?, &mut results)?;
        Ok(results)
    }

    /// Whether calls that are made without limits have some all the same: those of the context, or of an outer call.
    #[inline]
    pub fn is_limited(&self) -> bool {
        self.is_limited || scope::is_armed()
    }

    /// As `call`, within the limits of the context and with the results in `results`, which is empty and whose memory
    /// is reused.
    pub fn call_into(&self, target: ImportTarget, args: &[Value], results: &mut Vec<Value>) -> Result<()> {
        let started = scope::start_shared(&self.limits);
        let limits = started.as_ref().map_or(&self.limits, |started| &started.limits);
        let mut invocation = Invocation::new(&*self.linked.module_list, target, args, &**limits)?;
        self.run(&mut invocation, results)
    }

    /// As `call_into`, without limits.
    pub fn call_values(&self, target: &ValueTarget, args: &[Value], results: &mut Vec<Value>) -> Result<()> {
        let _blocking = Blocking::enter();
        // A statement of its own: the state is free again when it ends.
        let called = target.call(&mut self.state.take(), args, results)?;
        if let Step::Suspended(suspended) = called {
            self.finish(*suspended, results)?;
        }
        Ok(())
    }

    /// As `call`, with arguments and results of known types, and without limits.
    #[inline]
    pub fn call_typed<P: PassedList, R: PassedList>(&self, target: &TypedTarget<P, R>, params: P) -> Result<R> {
        if self.is_limited() {
            return self.call_typed_with(target, params, &self.limits);
        }
        let _blocking = Blocking::enter();
        // A statement of its own: the state is free again when it ends.
        let called = target.call_ready(&mut self.state.take(), params)?;
        match called {
            Step::Done(results) => Ok(results),
            Step::Suspended(suspended) => self.finish(*suspended, &mut TypedResults::sink()),
        }
    }

    /// As `call`, with arguments and results of known types.
    pub fn call_typed_with<P: PassedList, R: PassedList>(
        &self,
        target: &TypedTarget<P, R>,
        params: P,
        limits: &Limits,
    ) -> Result<R> {
        let started = scope::start(limits);
        let limits = started.as_ref().map_or(limits, |started| &started.limits);
        let _blocking = Blocking::enter();
        let called = target.call(&mut self.state.take_within(limits)?.context, params, limits)?;
        match called {
            Step::Done(results) => Ok(results),
            Step::Suspended(suspended) => self.finish(*suspended, &mut TypedResults::sink()),
        }
    }

    /// Runs a call that has been suspended to its end.
    #[cold]
    fn finish<R: Results>(
        &self,
        (mut invocation, suspension): (Invocation<&ModuleList, &Limits>, Suspension),
        results: &mut R,
    ) -> Result<R::Output> {
        self.go_on(&mut invocation, suspension, results)
    }

    /// Runs an invocation that is suspended to its end.
    #[cold]
    fn go_on<R: Results>(
        &self,
        invocation: &mut Invocation<impl Borrow<ModuleList>, impl Borrow<Limits>>,
        suspension: Suspension,
        results: &mut R,
    ) -> Result<R::Output> {
        let mut suspension = suspension;
        loop {
            match suspension {
                // A program that only yields is held to its limits here.
                Suspension::Yielded => invocation.check_time()?,
                Suspension::Waiting(wait) => invocation.wait(&*wait)?,
            }
            match self.step(invocation, results)? {
                Step::Done(results) => return Ok(results),
                Step::Suspended(next) => suspension = next,
            }
        }
    }

    /// Calls the function `name` of a bytecode module, if it has one.
    fn run_hook(&self, index: usize, name: &str) -> Result<()> {
        let module = &self.linked.modules[index];
        let Some(export) = module.archive().and_then(|_| module.exports_named(name).next()) else {
            return Ok(());
        };
        let target = ImportTarget { module: index, function: export.ordinal };
        self.call(target, &[], &self.limits).map(drop)
    }
}

impl Inner {
    /// Deinitialises the modules from number `first` on, and drops their state.
    fn remove_modules_from(&mut self, first: usize) {
        for index in (first..self.initialized).rev() {
            // There is no caller to return an error to, and the other modules have to be deinitialised as well.
            let _ = self.run_hook(index, DEINITIALIZER);
        }
        self.initialized = self.initialized.min(first);
        let state = self.state.get_mut();
        // The initialisers may have made a call ready, which belongs to the modules.
        let mut context = std::mem::take(&mut state.context);
        *state = CallState::default();
        // Later modules may refer to objects of earlier ones, so their state is dropped first.
        while context.modules.len() > first {
            context.modules.pop();
        }
        state.context = context;
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.remove_modules_from(0);
    }
}

impl fmt::Debug for LinkedModules {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("LinkedModules").field(&self.modules).finish()
    }
}

impl fmt::Debug for Context {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Context").field(&self.modules()).finish()
    }
}

/// Binds the last of `modules`: resolves its imports to any of them.
fn bind(modules: &[Module]) -> Result<interp::BoundModule> {
    let Some(module) = modules.last() else { return Err(Status::internal("no module to bind")) };
    let bytecode = match &module.0 {
        ModuleKind::Native(native) => {
            return Ok(interp::BoundModule::Native(Arc::clone(&native.module), Arc::clone(&native.conventions)));
        }
        ModuleKind::Bytecode(bytecode) => bytecode,
    };
    let archive = &bytecode.archive;
    let needs = |what: String| format!("module `{}` needs {what}", archive.name());
    for dependency in archive.dependencies() {
        let (name, minimum) = (dependency.name, dependency.minimum_version);
        match modules.iter().rev().find(|module| module.name() == name) {
            None if dependency.optional => {}
            None => {
                let message = format!("a module `{name}` of version {minimum}, but none is before it in the context");
                return Err(Status::not_found(needs(message)));
            }
            Some(found) if found.version() < minimum && !dependency.optional => {
                let message =
                    format!("version {minimum} of module `{name}`, but the one there has version {}", found.version());
                return Err(Status::incompatible(needs(message)));
            }
            Some(_) => {}
        }
    }
    let bound = bytecode.bind(modules, |import, convention| {
        let target = match import.split() {
            Some((module, function)) => resolve(modules, module, function, convention),
            None => Err(Status::not_found("it has no module name")),
        };
        match target {
            Ok(target) => Ok(Some(target)),
            Err(status) if import.optional && status.code() == StatusCode::NotFound => Ok(None),
            Err(status) => {
                let mut what = format!("`{}`", import.full_name);
                if status.code() == StatusCode::Incompatible {
                    let BytecodeVersion { major, minor, releases, .. } = archive.bytecode_rules();
                    what.push_str(&format!(" and is of {releases} (bytecode {major}.{minor})"));
                }
                Err(status.context(needs(what)))
            }
        }
    })?;
    Ok(interp::BoundModule::Bytecode(Arc::new(bound)))
}

/// Resolves an import: the export `function` of module `name` with this convention. A module may have several exports
/// of one name.
fn resolve(modules: &[Module], name: &str, function: &str, convention: &Convention) -> Result<ImportTarget> {
    let mut found_module = false;
    for (index, module) in modules.iter().enumerate().rev().filter(|(_, module)| module.name() == name) {
        found_module = true;
        let mut others = Vec::new();
        for export in module.exports_named(function) {
            if export.convention == convention {
                return Ok(ImportTarget { module: index, function: export.ordinal });
            }
            others.push(format!("`{}`", export.convention));
        }
        if !others.is_empty() {
            return Err(Status::incompatible(format!(
                "it is imported as `{convention}`, but version {} of module `{name}` exports it as {}",
                module.version(),
                others.join(" or ")
            )));
        }
    }
    Err(Status::not_found(if found_module {
        format!("module `{name}` does not export it")
    } else {
        format!("no module `{name}` is before it in the context")
    }))
}
