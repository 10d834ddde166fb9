//! Calls of native functions by programs: the arguments go from registers to a call object that the context keeps, and
//! the results back.

use std::any::Any;

use crate::BoxedWaitSource;
use crate::Call;
use crate::NativeModule;
use crate::Outcome;
use crate::bytecode::Marshal;
use crate::bytecode::Passing;
use crate::bytecode::RodataId;
use crate::bytecode::Word;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::machine::Machine;
use crate::interp::machine::context_state::{ContextState, ModuleState};
use crate::interp::machine::exit::Exit;
use crate::native::move_out;
use crate::status::BacktraceFrame;
use crate::status::Result;
use crate::status::Status;

impl Machine<'_> {
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
        let guard = DroppedByPanic(recycled_call);
        let result = match &mut *guard.0 {
            Some(call) => call_export(module, modules, target, call),
            None => Err(no_native_state(target)),
        };
        std::mem::forget(guard);
        result
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
        self.stack.pc = self.pc;
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

/// Calls an export of a native module with its state, and adds its frame to the backtrace of an error.
#[inline(always)]
pub(in crate::interp) fn call_export(
    module: &dyn NativeModule,
    states: &mut [ModuleState],
    target: ImportTarget,
    call: &mut Call,
) -> Result<Outcome> {
    let state = native_state(states, target)?;
    module.call(target.function, state, call).map_err(|status| in_native_frame(module, target, status))
}

/// The state of a native module.
#[inline(always)]
pub(in crate::interp) fn native_state(
    states: &mut [ModuleState],
    target: ImportTarget,
) -> Result<&mut (dyn Any + Send)> {
    match states.get_mut(target.module) {
        Some(ModuleState::Native(state)) => Ok(&mut **state),
        _ => Err(no_native_state(target)),
    }
}

#[cold]
fn no_native_state(target: ImportTarget) -> Status {
    Status::internal(format!("module {} has no state of a native module", target.module))
}

#[cold]
fn fewer_results(module: &dyn NativeModule, target: ImportTarget) -> Status {
    let function = module.exports().get(target.function).map_or("", |export| export.name);
    Status::internal(format!("`{}.{function}` returned fewer results than its convention has", module.name()))
}

/// Adds the frame of a native function to the backtrace of its error.
#[cold]
pub(in crate::interp) fn in_native_frame(module: &dyn NativeModule, target: ImportTarget, status: Status) -> Status {
    let function = module.exports().get(target.function).map_or("", |export| export.name);
    status.with_frame(BacktraceFrame {
        module: module.name().to_string(),
        function: function.to_string(),
        offset: None,
        op: "",
        location: None,
    })
}
