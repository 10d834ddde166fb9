//! The core of calls that their caller waits for: enters a function with arguments from any source, ready or not, and
//! hands the results over. Typed calls and calls with lists of values are instances of it.

use std::sync::Arc;

use super::callee::Callee;
use super::invocation::{Invocation, Step, Suspended, begin, run_machine, run_native};
use super::ready_call::{CallState, ReadyCall};
use super::transfer::{Arguments, Results};
use crate::interp::machine::bound_modules::lookup;
use crate::interp::machine::context_state::ContextState;
use crate::interp::machine::{Machine, RunningFrame};
use crate::limits::{Charge, Limits};
use crate::status::Result;

/// So many calls of other functions make a context forget the one that is ready: functions that are called in turn
/// would spend their time on being made ready.
const MAX_UNREADY_CALLS: u32 = 16;

impl Callee {
    /// Calls the function within its own limits, which must not be armed, and runs it until it returns, yields or
    /// waits. `state` must be that of the context's module list. The call is ready if the last one of the context was
    /// of this function. If no call is ready, the next one is made so: `at_once`, or after some calls, since a context
    /// of which functions are called once keeps no stack.
    ///
    /// # Errors
    /// As for [`Invocation::poll`], and those of `results`.
    #[inline(always)]
    pub fn call<R: Results>(
        self: &Arc<Self>,
        state: &mut CallState,
        arguments: impl Arguments,
        results: &mut R,
        at_once: bool,
    ) -> Result<Step<R::Output, Suspended<'_>>> {
        let Some(mut ready) = state.ready.take_if(|ready| ready.is_of(self)) else {
            return self.call_unready(state, arguments, results, at_once);
        };
        let mut frame = ready.frame();
        arguments.store(&mut frame);
        let Some(registers) = ready.run(&mut state.context) else {
            return ready.go_on(self, &mut state.context, (&self.limits, Charge::default()), results);
        };
        let registers = if R::IS_EMPTY { &[] } else { ready.results(registers) };
        let results = results.load(&self.convention.results, &mut frame, registers);
        if ready.reset() {
            state.ready = Some(ready);
        }
        results.map(Step::Done)
    }

    #[cold]
    fn call_unready<R: Results>(
        self: &Arc<Self>,
        state: &mut CallState,
        arguments: impl Arguments,
        results: &mut R,
        at_once: bool,
    ) -> Result<Step<R::Output, Suspended<'_>>> {
        let called = self.call_within(&mut state.context, arguments, results, &self.limits)?;
        if let Step::Done(_) = called {
            // The stack of this call is free for the one that is made ready.
            self.count_unready(state, at_once)?;
        }
        Ok(called)
    }

    /// Counts a call that was not ready, and makes the next one ready after many of them; `at_once` if there is no
    /// other that is ready.
    fn count_unready(self: &Arc<Self>, state: &mut CallState, at_once: bool) -> Result<()> {
        state.unready_calls += 1;
        if at_once && state.ready.is_none() || state.unready_calls > MAX_UNREADY_CALLS {
            state.unready_calls = 0;
            state.ready = ReadyCall::new(self, &mut state.context)?;
        }
        Ok(())
    }

    /// Makes the next call ready, for a caller that makes many of them now.
    ///
    /// # Errors
    /// As for a call.
    pub fn make_ready(self: &Arc<Self>, state: &mut CallState) -> Result<()> {
        let mut ready = state.ready.take();
        let is_ready = match &mut ready {
            Some(ready) => ready.is_of(self) || ready.redirect(self, &mut state.context)?,
            None => false,
        };
        if !is_ready {
            // The stack of the one that was ready is free for this one.
            drop(ready);
            ready = ReadyCall::new(self, &mut state.context)?;
        }
        state.ready = ready;
        Ok(())
    }

    /// As [`Callee::call`], within other limits, or without being made ready.
    ///
    /// # Errors
    /// As [`Callee::call`].
    #[inline]
    pub fn call_within<'a, R: Results>(
        &'a self,
        state: &mut ContextState,
        arguments: impl Arguments,
        results: &mut R,
        limits: &'a Limits,
    ) -> Result<Step<R::Output, Suspended<'a>>> {
        let (module_list, target) = (&*self.module_list, self.target);
        let (mut stack, frame) = begin(self.frame, arguments, limits)?;
        let step = if self.frame.is_native {
            run_native(module_list, target, &mut stack, state, limits, results)?
        } else {
            let (module, function) = lookup(module_list, target.module, target.function)?;
            let running = RunningFrame { index: target.module, module, function, frame };
            let mut machine = Machine::new(module_list, running, &mut stack, state, limits);
            run_machine(&mut machine, results)?
        };
        Ok(match step {
            Step::Done(results) => Step::Done(results),
            Step::Suspended(suspension) => {
                let invocation = Invocation::suspended(module_list, target, stack, limits);
                Step::Suspended(Box::new((invocation, suspension)))
            }
        })
    }
}
