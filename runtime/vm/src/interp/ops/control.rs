//! The control ops: branches, calls, returns, suspension, and reports to the host. The generated dispatch calls one
//! function here for each, and invocations call [`run`], which chooses the dispatcher.
//!
//! Each handler returns a [`Flow`]: where execution continues. A call pushes a frame and never recurses, so the depth
//! of a program is bounded by the limit of its stack alone.

use crate::bytecode::{
    AnyReg, CallId, Callee, CasesId, EdgeId, ImportId, ListId, Marshal, Passing, Remap, RodataId, StringId, Word,
};
use crate::convention::Kind;
use crate::generated::vm::interp::dispatch as ops;
use crate::interp::call::invocation::{fail_code, in_native_frame};
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::threaded_code::FunctionEntry;
use crate::interp::frame::Frame;
use crate::interp::frame::descriptor::FrameDescriptor;
use crate::interp::machine::bound_modules::{BoundModule, BytecodeModule, ContextState, ModuleState};
use crate::interp::machine::{ArgumentLayout, Machine, lookup};
use crate::interp::threaded;
use crate::limits::{Dispatch, Limits, Tier};
use crate::native::move_out;
use crate::status::{Result, Status};
use crate::{BoxedWaitSource, Call, NativeModule, Outcome, Value};

/// Where execution continues after a control op.
pub enum Flow {
    /// At the next op.
    Next,
    /// At the op of this index in the same function.
    Jump(usize),
    /// At `Machine::pc` of the frame that is now on top.
    Frame,
    /// Not before the next poll. `Machine::exit` has the reason; it is not in here, so that a flow is returned in
    /// registers.
    Exit,
}

/// Why the machine stopped without an error.
pub enum Exit {
    /// The outermost function returns these registers of its frame, which is still there.
    Returned(ListId),
    /// The program yielded.
    Yielded,
    /// A native function waits for this source.
    Waiting(BoxedWaitSource),
}

/// Resolves how ops are dispatched; the result is never `Auto`.
#[inline]
pub(in crate::interp) fn dispatch(limits: &Limits) -> Dispatch {
    match (limits.dispatch, limits.tier) {
        (Dispatch::Auto, Tier::Compiled) => Dispatch::Compiled,
        (Dispatch::Auto, Tier::Traced) => Dispatch::Traced,
        (Dispatch::Auto, _) if threaded::is_fast() => Dispatch::Threaded,
        (Dispatch::Auto, _) => Dispatch::Loop,
        (chosen, _) => chosen,
    }
}

/// Runs until the outermost function returns or something suspends the machine: `Machine::exit` says which.
#[inline]
pub fn run(machine: &mut Machine<'_>) -> Result<()> {
    let result = match dispatch(machine.limits) {
        Dispatch::Loop | Dispatch::Auto => ops::run(machine, false),
        Dispatch::Threaded | Dispatch::Tiered | Dispatch::Kernels | Dispatch::Compiled => threaded::run(machine),
        #[cfg(feature = "trace")]
        Dispatch::Traced => crate::interp::call::traced_dispatcher::run(machine),
        #[cfg(not(feature = "trace"))]
        Dispatch::Traced => {
            Err(Status::unimplemented("ops are not traced: the library was built without the feature `trace`"))
        }
    };
    result.map_err(|status| machine.with_backtrace(status))
}

/// How a function of a module is entered by calls within these limits, if its ops are threaded and the tier-up does not
/// count its calls.
pub fn function_entry(module: &BytecodeModule, target: ImportTarget, limits: &Limits) -> Option<FunctionEntry> {
    match dispatch(limits) {
        Dispatch::Threaded | Dispatch::Tiered | Dispatch::Kernels | Dispatch::Compiled => {
            threaded::function_entry(module, target, limits)
        }
        Dispatch::Auto | Dispatch::Loop | Dispatch::Traced => None,
    }
}

/// Goes on where the handlers of a function that was entered have stopped, as [`run`] does.
pub fn go_on(machine: &mut Machine<'_>) -> Result<()> {
    threaded::after_entry(machine).map_err(|status| machine.with_backtrace(status))
}

#[inline(always)]
pub fn br(cx: &mut Machine<'_>, target: EdgeId) -> Result<Flow> {
    cx.branch(target)
}

#[inline(always)]
pub fn cond_br(cx: &mut Machine<'_>, condition: i32, true_target: EdgeId, false_target: EdgeId) -> Result<Flow> {
    // Two branches, not a select of the edge: the processor predicts a branch, but waits for the condition of a select.
    if condition != 0 {
        return cx.branch(true_target);
    }
    cx.branch(false_target)
}

pub fn br_table(cx: &mut Machine<'_>, index: i32, default_target: EdgeId, cases: CasesId) -> Result<Flow> {
    let case = u32::try_from(index).ok().and_then(|index| cx.code().case(cases, index));
    cx.branch(case.unwrap_or(default_target))
}

/// A breakpoint: branches, since there is no debugger to stop in.
pub fn break_(cx: &mut Machine<'_>, target: EdgeId) -> Result<Flow> {
    cx.branch(target)
}

/// A conditional breakpoint: branches whatever the condition is, which only concerns a debugger.
pub fn cond_break(cx: &mut Machine<'_>, _condition: i32, target: EdgeId) -> Result<Flow> {
    cx.branch(target)
}

pub fn yield_(cx: &mut Machine<'_>, target: EdgeId) -> Result<Flow> {
    if let Flow::Jump(pc) = cx.branch(target)? {
        cx.suspend_at(pc);
    }
    Ok(cx.exit(Exit::Yielded))
}

pub fn call(cx: &mut Machine<'_>, call: CallId) -> Result<Flow> {
    // A call that has waited was counted when it was made first.
    if cx.stack.pending.is_none() {
        cx.tick()?;
    }
    call_counted(cx, call)
}

/// A call that has been counted as a step.
#[inline(always)]
pub(in crate::interp) fn call_counted(cx: &mut Machine<'_>, call: CallId) -> Result<Flow> {
    let site = cx.code().call(call);
    let import = match site.callee {
        Callee::Function(_) if site.segments.is_some() => {
            return Err(Status::failed_precondition("a variadic call of a function that is not an import"));
        }
        Callee::Function(function) => return cx.enter(cx.module_index(), function.index(), call),
        Callee::Import(import) => cx.import(import)?,
    };
    let Some(target) = import.target else {
        return Err(Status::not_found(format!(
            "the optional import `{}` ({}) is not resolved: no module provides it",
            import.name, import.convention
        )));
    };
    match cx.module_list.modules.get(target.module) {
        Some(BoundModule::Native(module, _)) => {
            let pending = cx.stack.pending.take();
            if !cx.call_native(&**module, target, cx.function.marshal(call), &[], pending)? {
                return Ok(Flow::Exit);
            }
            Ok(site.resume.map_or(Flow::Next, |block| Flow::Jump(cx.code().entry(block))))
        }
        Some(BoundModule::Bytecode(_)) if site.segments.is_some() => Err(Status::unimplemented(format!(
            "a variadic call of `{}` ({}), which is a bytecode function",
            import.name, import.convention
        ))),
        _ => cx.enter(target.module, target.function, call),
    }
}

pub fn call_variadic(cx: &mut Machine<'_>, id: CallId) -> Result<Flow> {
    call(cx, id)
}

pub fn call_yieldable(cx: &mut Machine<'_>, id: CallId) -> Result<Flow> {
    call(cx, id)
}

pub fn call_variadic_yieldable(cx: &mut Machine<'_>, id: CallId) -> Result<Flow> {
    call(cx, id)
}

pub fn return_(cx: &mut Machine<'_>, operands: ListId) -> Result<Flow> {
    let kinds = &cx.function.convention().results;
    let sources = cx.code().list(operands);
    let (Some(header), Some((mut target_frame, caller))) = (cx.stack.header(), cx.stack.caller()) else {
        return Ok(cx.exit(Exit::Returned(operands)));
    };
    let (_, function) = lookup(cx.module_list, caller.descriptor.module as usize, caller.descriptor.function as usize)?;
    let site = function.decoded().call(header.descriptor.call);
    for ((kind, source), target) in kinds.iter().zip(sources).zip(function.decoded().list(site.results)) {
        cx.frame.copy_to(*kind, *source, &mut target_frame, register_index(*target));
    }
    cx.stack.pop();
    cx.select_top()?;
    cx.pc = match site.resume {
        Some(block) => function.decoded().entry(block),
        None => header.descriptor.pc as usize + 1,
    };
    Ok(Flow::Frame)
}

pub fn fail(cx: &mut Machine<'_>, status: i32, message: StringId) -> Result<Flow> {
    let message = String::from_utf8_lossy(cx.code().string(message));
    Err(Status::new(fail_code(status), message))
}

pub fn trace(cx: &mut Machine<'_>, event: StringId, operands: ListId) -> Result<Flow> {
    let values = cx.reported(operands);
    cx.module_list.sink.trace(&String::from_utf8_lossy(cx.code().string(event)), &values);
    Ok(Flow::Next)
}

pub fn print(cx: &mut Machine<'_>, event: StringId, operands: ListId) -> Result<Flow> {
    let values = cx.reported(operands);
    cx.module_list.sink.print(&String::from_utf8_lossy(cx.code().string(event)), &values);
    Ok(Flow::Next)
}

pub fn import_resolved(cx: &mut Machine<'_>, import: ImportId) -> Result<i32> {
    Ok(i32::from(cx.import(import)?.target.is_some()))
}

pub(in crate::interp) fn register_index(register: AnyReg) -> usize {
    if register.is_ref() { register.ref_reg().index() } else { register.reg().index() }
}

impl<'a> Machine<'a> {
    fn exit(&mut self, exit: Exit) -> Flow {
        self.exit = Some(exit);
        Flow::Exit
    }

    /// Takes a branch: executes its copies in order and returns its target.
    #[inline(always)]
    fn branch(&mut self, id: EdgeId) -> Result<Flow> {
        let code = self.code();
        let edge = code.edge(id);
        if edge.has_copies() {
            self.copy_all(code.remaps(edge));
        }
        let target = edge.entry as usize;
        if target <= self.pc {
            self.tick()?;
        }
        Ok(Flow::Jump(target))
    }

    /// Executes copies. Out of line, so that a branch without copies does not save the processor registers that this
    /// needs.
    #[inline(never)]
    fn copy_all(&mut self, remaps: &[Remap]) {
        for remap in remaps {
            if remap.source.is_ref() {
                let value = self.take(remap.source.ref_reg());
                self.assign(remap.target.ref_reg(), value);
            } else {
                let value = self.i32(remap.source.reg());
                self.set_i32(remap.target.reg(), value);
            }
        }
    }

    /// Makes the running frame continue at `pc` when the invocation is resumed.
    fn suspend_at(&mut self, pc: usize) {
        self.stack.pc = pc;
    }

    fn import(&self, import: ImportId) -> Result<&'a crate::interp::Import> {
        let module: &'a BytecodeModule = self.module;
        let found = module.imports.get(import.index());
        found.ok_or_else(|| Status::internal(format!("import {} does not exist", import.index())))
    }

    /// Calls a bytecode function of any module.
    fn enter(&mut self, module: usize, function: usize, id: CallId) -> Result<Flow> {
        let operands = self.code().list(self.code().call(id).operands);
        let (_, callee) = lookup(self.module_list, module, function)?;
        let mut caller = self.frame;
        let descriptor = FrameDescriptor::new(module, callee, self.pc, id);
        let mut new = self.stack.push(descriptor, callee.reads_unwritten_slots())?;
        let mut layout = ArgumentLayout::default();
        let kinds = callee.convention().args.iter().filter_map(|argument| argument.kind());
        for (kind, source) in kinds.zip(operands) {
            caller.copy_to(kind, *source, &mut new, layout.place(kind));
        }
        self.select_top()?;
        self.pc = 0;
        Ok(Flow::Frame)
    }

    /// Moves the results of the outermost function, which it returns in these registers, out of its frame.
    pub fn take_results(&mut self, operands: ListId, results: &mut Vec<Value>) {
        let kinds = &self.function.convention().results;
        let sources = self.code().list(operands);
        results.extend(kinds.iter().zip(sources).map(|(kind, source)| self.frame.value(*kind, *source)));
    }

    /// The operands of a report; references with the MOVE bit are moved out of their registers.
    fn reported(&mut self, operands: ListId) -> Vec<Value> {
        let kind = |source: &AnyReg| if source.is_ref() { Kind::Ref } else { Kind::I32 };
        self.code().list(operands).iter().map(|source| self.frame.value(kind(source), *source)).collect()
    }

    /// Calls a native function with `pending`, or with what is in the registers that `marshal` names, and writes its
    /// results to registers. False if it waits: the call is then kept as pending, and the op is executed again at the
    /// next poll. The arguments of `rodata`, by their position among the references, are given back to these segments
    /// of the running module if the function leaves them.
    #[inline(always)]
    pub(in crate::interp) fn call_native(
        &mut self,
        module: &dyn NativeModule,
        target: ImportTarget,
        marshal: &Marshal,
        rodata: &[(u16, RodataId)],
        pending: Option<Box<Call>>,
    ) -> Result<bool> {
        match pending {
            Some(call) => self.state.recycled_call = Some(call),
            None => self.marshal(marshal),
        }
        let outcome =
            if self.is_limited() { self.invoke_within_limits(module, target) } else { self.invoke(module, target) };
        match outcome {
            Ok(Outcome::Return) => {}
            Ok(Outcome::Wait(wait)) => {
                self.wait_for(wait);
                return Ok(false);
            }
            Err(status) => {
                // Its references are released.
                self.state.recycled_call = None;
                return Err(status);
            }
        }
        let running = self.module_index();
        let ContextState { modules, recycled_call: Some(call), .. } = &mut *self.state else {
            return Err(no_native_state(target));
        };
        let call: &mut Call = call;
        if !rodata.is_empty()
            && let Some(ModuleState::Bytecode { rodata: segments, .. }) = modules.get_mut(running)
        {
            for (position, id) in rodata {
                let reference = call.refs.get_mut(usize::from(*position)).and_then(Option::take);
                if let (Some(reference), Some(segment)) = (reference, segments.get_mut(id.index())) {
                    segment.give_back(reference);
                }
            }
        }
        // Lent references return before the results are written, because a result may go to the same register. The
        // others are released.
        let mut frame = self.frame;
        move_out(&mut call.refs, &marshal.refs, |(reg, passing), reference| {
            if *passing == Passing::Lend {
                // The register is null since the reference was lent.
                std::mem::forget(std::mem::replace(frame.reference_at_mut(*reg), reference));
            } else {
                drop(reference);
            }
        });
        if call.result_words.len() < marshal.result_words.len() || call.result_refs.len() < marshal.result_refs.len() {
            self.state.recycled_call = None;
            return Err(fewer_results(module, target));
        }
        for (word, target) in call.result_words.iter().zip(&marshal.result_words) {
            match *target {
                Word::Wide(reg) => frame.set_wide(reg.index(), *word),
                Word::Narrow(reg) => frame.set_word(reg.index(), *word as u32),
                // Results are no spans.
                Word::Count(_) => {}
            }
        }
        move_out(&mut call.result_refs, &marshal.result_refs, |target, reference| {
            let old = std::mem::replace(frame.reference_at_mut(*target), reference);
            drop(old);
        });
        Ok(true)
    }

    /// Calls a native function with the arguments of `recycled_call`.
    #[inline(always)]
    fn invoke(&mut self, module: &dyn NativeModule, target: ImportTarget) -> Result<Outcome> {
        let ContextState { modules, recycled_call, .. } = &mut *self.state;
        let Some(ModuleState::Native(state)) = modules.get_mut(target.module) else {
            return Err(no_native_state(target));
        };
        let guard = DroppedByPanic(recycled_call);
        let Some(call) = &mut *guard.0 else { return Err(no_native_state(target)) };
        let result = module.call(target.function, &mut **state, call);
        std::mem::forget(guard);
        result.map_err(|status| in_native_frame(module, target, status))
    }

    /// As `invoke`, for calls whose limits bound more than sizes.
    #[inline(never)]
    fn invoke_within_limits(&mut self, module: &dyn NativeModule, target: ImportTarget) -> Result<Outcome> {
        // The function may run programs that use the same fuel.
        let lent = self.lend_steps();
        let outcome = self.invoke(module, target)?;
        if let Outcome::Return = outcome {
            self.check_after_call()?;
            self.reclaim_steps(lent);
        }
        Ok(outcome)
    }

    /// Suspends the invocation until the callee of a native call is ready to go on.
    #[cold]
    fn wait_for(&mut self, wait: BoxedWaitSource) {
        self.stack.pending = self.state.recycled_call.take();
        self.suspend_at(self.pc);
        self.exit = Some(Exit::Waiting(wait));
    }

    /// Makes `recycled_call` a native call with what is in the registers that `marshal` names.
    #[inline(always)]
    fn marshal(&mut self, marshal: &Marshal) {
        let mut frame = self.frame;
        let call: &mut Call = match &mut self.state.recycled_call {
            Some(call) => call,
            none => none.insert(new_call()),
        };
        if !call.refs.is_empty() || !call.result_refs.is_empty() {
            clear_after_panic(call);
        }
        call.result_words.clear();
        call.words.clear();
        call.words.extend(marshal.words.iter().map(|word| match *word {
            Word::Narrow(reg) => u64::from(frame.word(reg.index())),
            Word::Wide(reg) => frame.wide(reg),
            Word::Count(count) => u64::from(count),
        }));
        call.refs.extend(marshal.refs.iter().map(|(reg, passing)| {
            let place = frame.reference_at_mut(*reg);
            if *passing == Passing::Copy { place.clone() } else { place.take() }
        }));
        call.lent = marshal.lent;
    }
}

#[cold]
fn new_call() -> Box<Call> {
    Box::default()
}

/// A call that is dropped if its function panics, so that the context does not hold its references.
struct DroppedByPanic<'a>(&'a mut Option<Box<Call>>);

impl Drop for DroppedByPanic<'_> {
    fn drop(&mut self) {
        *self.0 = None;
    }
}

/// Clears what a destructor that has panicked left in the call.
#[cold]
fn clear_after_panic(call: &mut Call) {
    call.clear();
}

#[cold]
pub(in crate::interp) fn no_native_state(target: ImportTarget) -> Status {
    Status::internal(format!("module {} has no state of a native module", target.module))
}

#[cold]
fn fewer_results(module: &dyn NativeModule, target: ImportTarget) -> Status {
    let function = module.exports().get(target.function).map_or("", |export| export.name);
    Status::internal(format!("`{}.{function}` returned fewer results than its convention has", module.name()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_threaded_dispatcher_runs_where_calls_are_jumps() {
        let chosen = if cfg!(all(sibling_calls, not(debug_assertions))) { Dispatch::Threaded } else { Dispatch::Loop };
        assert_eq!(dispatch(&Limits::default()), chosen);
    }
}
