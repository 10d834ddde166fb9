//! Calls with lists of values that are made again and again ([`ValueTarget`]): as typed calls, they keep the machine
//! and the stack of the last call ready for the next one. Sessions make them for hosts whose calls have no limits.

use std::sync::Arc;

use super::invocation::{Invocation, Poll, check_arguments, place_arguments};
use super::ready_call::CallState;
use super::typed_call::{PreparedCall, TypedPoll};
use crate::Value;
use crate::bytecode::AnyReg;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::frame::registers::Registers;
use crate::interp::machine::bound_modules::ModuleList;
use crate::limits::Limits;
use crate::status::Result;

/// A function that is called with lists of values.
#[derive(Clone)]
pub struct ValueTarget(Arc<PreparedCall>);

impl ValueTarget {
    /// The function `target`, which is called within `limits`. They must not be armed.
    ///
    /// # Errors
    /// `INTERNAL` for a target that does not exist.
    pub fn new(module_list: Arc<ModuleList>, target: ImportTarget, limits: &Arc<Limits>) -> Result<ValueTarget> {
        Ok(ValueTarget(Arc::new(PreparedCall::new(module_list, target, limits)?)))
    }

    /// Calls the function and runs it until it returns, yields or waits. The results are added to `results`, which is
    /// empty. If the program is suspended, its invocation has the memory of `results`. `state` must be that of the
    /// context's module list.
    ///
    /// # Errors
    /// As [`Invocation::new`] and [`Invocation::poll`].
    #[inline]
    pub fn call(&self, state: &mut CallState, args: &[Value], results: &mut Vec<Value>) -> Result<TypedPoll<'_, ()>> {
        let convention = &self.0.convention;
        check_arguments(convention, args)?;
        let Some(mut ready) = state.ready.take_if(|ready| ready.is_of(&self.0)) else {
            return self.call_unready(state, args, results);
        };
        let mut frame = ready.frame();
        place_arguments(&mut frame, args);
        let mut load = |frame: &mut Registers, registers: &[AnyReg]| {
            results
                .extend(convention.results.iter().zip(registers).map(|(kind, register)| frame.value(*kind, *register)));
            Ok(())
        };
        let Some(registers) = ready.run(&mut state.context) else {
            return ready.go_on(&self.0, &mut state.context, load);
        };
        load(&mut frame, ready.results(registers))?;
        if ready.reset() {
            state.ready = Some(ready);
        }
        Ok(TypedPoll::Done(()))
    }

    /// Calls the function as any other. Once it has been called several times, the next call is made ready: a context
    /// of which functions are called once keeps no stack.
    #[cold]
    fn call_unready(
        &self,
        state: &mut CallState,
        args: &[Value],
        results: &mut Vec<Value>,
    ) -> Result<TypedPoll<'_, ()>> {
        let PreparedCall { module_list, target, limits, .. } = &*self.0;
        let mut invocation = Invocation::new(&**module_list, *target, args, &**limits)?;
        invocation.return_into(std::mem::take(results));
        match invocation.poll(&mut state.context)? {
            Poll::Done(values) => *results = values,
            poll => return Ok(TypedPoll::Suspended(Box::new((invocation, poll)))),
        }
        // The stack of this call is free for the one that is made ready.
        drop(invocation);
        self.0.count_unready(state, false)?;
        Ok(TypedPoll::Done(()))
    }
}
