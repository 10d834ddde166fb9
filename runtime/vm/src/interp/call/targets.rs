//! Functions that hosts call again and again, through sessions: with arguments and results of known types, which are
//! checked against the calling convention once ([`TypedTarget`]), or with lists of values ([`ValueTarget`]). The memory
//! of the stack stays with the context. A call that yields or waits becomes an
//! [`Invocation`](super::invocation::Invocation), which is polled like any other.

use std::marker::PhantomData;
use std::sync::Arc;

use super::callee::Callee;
use super::invocation::{Step, Suspended};
use super::passed::PassedList;
use super::ready_call::{CallState, ReadyCall};
use super::transfer::{Typed, TypedResults, check_argument_kinds, check_arguments, check_kinds};
use crate::convention::Kind;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::machine::bound_modules::ModuleList;
use crate::interp::machine::context_state::ContextState;
use crate::interp::machine::lent_references::{KeptBuffer, LendableObjects, LentList};
use crate::limits::Limits;
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
    /// Calls the function again and again, as [`TypedTarget::call_ready`], until `next` returns false or a call is
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
    pub unsafe fn call_each<A: AsRef<P>>(
        &self,
        state: &mut CallState,
        lendable: &mut LendableObjects,
        arguments: &mut A,
        next: &mut impl FnMut(&mut A, Option<&Obj<List>>) -> Result<bool>,
    ) -> Result<Option<Suspended<'_>>> {
        self.callee.make_ready(state)?;
        while next(arguments, lendable.changed())? {
            lendable.look_at_elements();
            // They are known again only if the call leaves them as they are.
            let lent = lendable.known.take();
            // SAFETY: the caller guarantees that nothing changes the list but these calls; the list is lent again after
            // it may have been changed.
            match unsafe { self.call_lent(state, arguments.as_ref(), lent.as_ref(), &mut lendable.buffers) }? {
                None => lendable.known = lent,
                Some(Step::Done(())) => {}
                Some(Step::Suspended(suspended)) => return Ok(Some(suspended)),
            }
        }
        Ok(None)
    }

    /// As [`TypedTarget::call_ready`], with arguments that are lent together with a list. None if the function has
    /// returned, and has left the list as it was.
    ///
    /// # Safety
    /// The list is one of the arguments, and nothing has changed it since `lent` was made.
    #[inline]
    unsafe fn call_lent(
        &self,
        state: &mut CallState,
        params: &P,
        lent: Option<&LentList>,
        buffers: &mut Vec<KeptBuffer>,
    ) -> Result<Option<Step<(), Suspended<'_>>>> {
        let is_ready = |ready: &mut Box<ReadyCall>| ready.takes_lent() && ready.is_of(&self.callee);
        let Some((lent, mut ready)) = lent.and_then(|lent| Some((lent, state.ready.take_if(is_ready)?))) else {
            return self.call_ready(state, params.clone()).map(Some);
        };
        // SAFETY: the caller guarantees that the list is one of the arguments and has not changed. `params` keep the
        // arguments, and the list its elements.
        let is_untouched = unsafe { ready.run_lent(&mut state.context, params, lent, buffers) };
        if !is_untouched && !ready.returned() {
            return ready.go_on(&self.callee, &mut state.context, &mut TypedResults::<()>::sink()).map(Some);
        }
        if is_untouched || ready.reset() {
            state.ready = Some(ready);
        }
        Ok((!is_untouched).then_some(Step::Done(())))
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
