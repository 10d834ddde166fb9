//! Functions that hosts call again and again, through sessions: with arguments and results of known types, which are
//! checked against the calling convention once ([`TypedTarget`]), or with lists of values ([`ValueTarget`]). The memory
//! of the stack stays with the context. A call that yields or waits becomes an
//! [`Invocation`](super::invocation::Invocation), which is polled like any other.

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::callee::Callee;
use super::dispatcher::dispatch;
use super::invocation::{Step, Suspended};
use super::passed::PassedList;
use super::ready_call::{CallState, ReadyCall};
use super::transfer::{Typed, TypedResults, check_argument_kinds, check_arguments, check_kinds};
use crate::convention::Kind;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::machine::bound_modules::ModuleList;
use crate::interp::machine::context_state::ContextState;
use crate::interp::machine::lent_references::{LendableObjects, LentList};
use crate::limits::{Charge, Limits};
use crate::status::Result;
use crate::{List, Obj, Value};

/// A function that is called with lists of values.
#[derive(Clone)]
pub struct ValueTarget(Arc<Callee>);

impl ValueTarget {
    /// The function `target`, which is called within `limits`. They must not be armed.
    ///
    /// # Errors
    /// `NOT_FOUND` and `INTERNAL` for a target that does not exist.
    pub fn new(module_list: Arc<ModuleList>, target: ImportTarget, limits: &Arc<Limits>) -> Result<ValueTarget> {
        Ok(ValueTarget(Arc::new(Callee::new(module_list, target, limits)?)))
    }

    /// Calls the function and runs it until it returns, yields or waits. The results are added to `results`, which is
    /// empty. `state` must be that of the context's module list.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the arguments are not those of the function's convention, else the error of the program.
    #[inline]
    pub fn call(
        &self,
        state: &mut CallState,
        args: &[Value],
        results: &mut Vec<Value>,
    ) -> Result<Step<(), Suspended<'_>>> {
        check_arguments(&self.0.convention, args)?;
        self.0.call(state, args, results, false)
    }
}

/// A function whose arguments are `P` and whose results are `R`.
pub struct TypedTarget<P, R> {
    callee: Arc<Callee>,
    types: PhantomData<fn(P) -> R>,
}

impl<P: PassedList, R: PassedList> TypedTarget<P, R> {
    /// Checks the types against the convention of the function.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` with the argument or result that differs, `UNIMPLEMENTED` for variadic functions, and
    /// `NOT_FOUND` and `INTERNAL` for a target that does not exist.
    pub fn new(module_list: Arc<ModuleList>, target: ImportTarget, limits: &Arc<Limits>) -> Result<TypedTarget<P, R>> {
        let callee = Callee::new(module_list, target, limits)?;
        let convention = &callee.convention;
        check_argument_kinds(convention, named::<P>())?;
        check_kinds("result", convention, &convention.results, named::<R>())?;
        Ok(TypedTarget { callee: Arc::new(callee), types: PhantomData })
    }

    /// As [`TypedTarget::call`], within the limits that were given to `new`, which must not be armed, and ready if the
    /// last call of the context was of this function.
    ///
    /// # Errors
    /// As [`TypedTarget::call`].
    #[inline]
    pub fn call_ready(&self, state: &mut CallState, params: P) -> Result<Step<R, Suspended<'_>>> {
        self.callee.call(state, Typed(params), &mut TypedResults::sink(), true)
    }

    /// Calls the function and runs it until it returns, yields or waits. `state` must be that of the context's module
    /// list.
    ///
    /// # Errors
    /// The error of the program, and `INVALID_ARGUMENT` if a result is null or an object of another type than `R` has
    /// there.
    #[inline]
    pub fn call<'a>(
        &'a self,
        state: &mut ContextState,
        params: P,
        limits: &'a Limits,
    ) -> Result<Step<R, Suspended<'a>>> {
        self.callee.call_within(state, Typed(params), &mut TypedResults::sink(), limits)
    }
}

impl<P: PassedList + Clone> TypedTarget<P, ()> {
    /// Calls the function again and again, within limits or without any, until `next` returns false or a call is
    /// suspended, which is returned.
    ///
    /// `next` prepares the arguments of each call. It gets the list, which is one of them, if that may have been
    /// changed since it has been lent last. Calls do that, but not those that leave the elements known: these keep no
    /// reference, and change nothing but the bytes of buffers.
    ///
    /// # Errors
    /// As for a call, and those of `next`.
    ///
    /// # Safety
    /// Nothing changes the list but these calls, and `next` if it gets it. The elements are forgotten if something else
    /// may have changed it. The objects are lent to calls of this function only.
    pub unsafe fn call_each<'a, A: AsRef<P>>(
        &'a self,
        state: &mut CallState,
        limits: Option<&'a Limits>,
        lendable: &mut LendableObjects,
        arguments: &mut A,
        next: &mut impl FnMut(&mut A, Option<&Obj<List>>) -> Result<bool>,
    ) -> Result<Option<Suspended<'a>>> {
        self.callee.make_ready(state)?;
        // Where machine code is entered differently, calls are made one by one.
        let is_entered_so = limits.is_none_or(|limits| dispatch(limits) == dispatch(&self.callee.limits));
        // Buffers that are counted are not kept for the calls after these.
        let memory = limits.and_then(|limits| limits.memory.as_ref());
        let mut counted = Vec::new();
        let LendableObjects { buffers, .. } = &mut *lendable;
        let buffers = NonNull::from(if memory.is_some() { &mut counted } else { buffers });
        // A call that is lent to again and again, and the list that is lent to it. All that these calls need is
        // borrowed once: a workgroup of a kernel computes a few elements, and each store that is left out counts.
        let mut lent: Option<(LentList, Box<ReadyCall>)> = None;
        // Its stack, counted while it is lent to: other calls have stacks of their own.
        let mut charge = Charge::default();
        loop {
            let changed = if lent.is_some() { None } else { lendable.changed() };
            let goes_on = next(arguments, changed);
            if !matches!(goes_on, Ok(true)) {
                // The elements are known as long as calls leave them as they are.
                if let Some((list, mut ready)) = lent {
                    ready.end_limits();
                    (lendable.known, state.ready) = (Some(list), Some(ready));
                }
                return goes_on.map(|_| None);
            }
            if lent.is_none() {
                lendable.look_at_elements();
                let is_ready =
                    |ready: &mut Box<ReadyCall>| is_entered_so && ready.takes_lent() && ready.is_of(&self.callee);
                let list = lendable.known.take();
                lent = list.and_then(|list| Some((list, state.ready.take_if(is_ready)?)));
                if let Some((list, ready)) = &mut lent {
                    let bytes = limits.map_or(0, |limits| limits.stack_size() as u64);
                    charge = Charge::new(memory, bytes, "a stack")?;
                    // SAFETY: this function has the state and the buffers for itself. The caller guarantees that
                    // nothing changes the list but these calls; it is lent again after it may have been changed. The
                    // limits outlive this function, which ends them before it gives the ready call back.
                    unsafe {
                        ready.lend(&mut state.context, list, buffers);
                        limits.into_iter().for_each(|limits| ready.begin_limits(limits));
                    }
                }
            }
            if let Some((_, ready)) = &mut lent
                // SAFETY: the call takes lent arguments, and has been lent to. The arguments are kept by their owner,
                // and the list keeps its elements.
                && unsafe { ready.run_lent(arguments.as_ref()) }
            {
                if limits.is_some() {
                    // The counter of workgroups takes from the same fuel.
                    ready.give_back_fuel();
                }
                continue;
            }
            let charge = std::mem::take(&mut charge);
            let step = match (lent.take(), limits) {
                (Some((_, ready)), _) if !ready.returned() => {
                    let limits = (limits.unwrap_or(&self.callee.limits), charge);
                    ready.go_on(&self.callee, &mut state.context, limits, &mut TypedResults::<()>::sink())?
                }
                (Some((_, mut ready)), _) => {
                    ready.end_limits();
                    if ready.reset() {
                        state.ready = Some(ready);
                    }
                    continue;
                }
                (None, None) => self.call_ready(state, arguments.as_ref().clone())?,
                (None, Some(limits)) => self.call(&mut state.context, arguments.as_ref().clone(), limits)?,
            };
            if let Step::Suspended(suspended) = step {
                return Ok(Some(suspended));
            }
        }
    }
}

impl<P, R> Clone for TypedTarget<P, R> {
    fn clone(&self) -> TypedTarget<P, R> {
        TypedTarget { callee: Arc::clone(&self.callee), types: PhantomData }
    }
}

/// The kinds of a list of types, and their names.
fn named<P: PassedList>() -> impl ExactSizeIterator<Item = (Kind, &'static str)> {
    P::KINDS.iter().copied().zip(P::NAMES.iter().copied())
}
