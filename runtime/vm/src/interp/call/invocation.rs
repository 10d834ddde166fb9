//! An invocation: a call of a function, as a state machine that is polled until it is done. Contexts of `vireo-context`
//! poll it. All calls begin here, but for those that are ready, and become one if they are suspended.

use std::borrow::Borrow;

use smallvec::SmallVec;
use vireo_core::blocking;

use super::callee::{FirstFrame, first_frame};
use super::dispatcher;
use super::transfer::{Arguments, Results, check_arguments};
use crate::Call;
use crate::bytecode::AnyReg;
use crate::bytecode::RefReg;
use crate::bytecode::Reg;
use crate::convention::Kind;
use crate::convention::{Argument, Convention};
use crate::interp::code::import_site::ImportTarget;
use crate::interp::frame::argument_layout::ArgumentLayout;
use crate::interp::frame::registers::Registers;
use crate::interp::frame::stack::{CallStack, Stack};
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::{BoundModule, ModuleList};
use crate::interp::machine::context_state::ContextState;
use crate::interp::machine::exit::Exit;
use crate::interp::ops::native_call::call_export;
use crate::limits::{Charge, Limits};
use crate::status::{Result, Status};
use crate::{BoxedWaitSource, Outcome, Value, WaitSource};

/// The outcome of polling an invocation.
pub enum Poll {
    /// The function returned these values.
    Done(Vec<Value>),
    /// The program yielded: other calls may run before it is polled again.
    Yielded,
    /// A native function waits for this source. Polling again before it is ready is allowed.
    Waiting(BoxedWaitSource),
}

/// Why a program is suspended: as in [`Poll`].
pub enum Suspension {
    /// The program yielded.
    Yielded,
    /// A native function waits for this source.
    Waiting(BoxedWaitSource),
}

/// How far a call came. `S` continues it.
pub enum Step<R, S = Suspension> {
    /// The function returned.
    Done(R),
    /// The program is suspended.
    Suspended(S),
}

/// A call that has been suspended: the invocation that continues, and the reason.
pub type Suspended<'a> = Box<(Invocation<&'a ModuleList, &'a Limits>, Suspension)>;

/// A running call of a function.
///
/// It owns a stack; the state of the modules is borrowed while it is polled. Dropping it cancels the call and releases
/// the references of its frames. The module list and the limits are owned or borrowed: a call that the caller waits for
/// borrows them, which saves the reference counts.
pub struct Invocation<P, L> {
    module_list: P,
    target: ImportTarget,
    stack: CallStack,
    limits: L,
    finished: bool,
}

impl<P: Borrow<ModuleList>, L: Borrow<Limits>> Invocation<P, L> {
    /// Prepares a call of `target` with `args`. Nothing runs before the first [`Invocation::poll`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the arguments are not those of the function's convention.
    #[inline]
    pub fn new(module_list: P, target: ImportTarget, args: &[Value], limits: L) -> Result<Self> {
        let (convention, frame) = first_frame(module_list.borrow(), target)?;
        check_arguments(convention, args)?;
        let (stack, _) = begin(frame, args, limits.borrow())?;
        Ok(Invocation::suspended(module_list, target, stack, limits))
    }

    /// A call that has been suspended, with its stack.
    #[inline(always)]
    pub(super) fn suspended(module_list: P, target: ImportTarget, stack: CallStack, limits: L) -> Self {
        Invocation { module_list, target, stack, limits, finished: false }
    }

    /// Runs until the function returns, the program yields, or a native function has to wait.
    ///
    /// # Errors
    /// The error of the program or of a native function, with a backtrace. The invocation is over then and holds no
    /// references any more.
    pub fn poll(&mut self, state: &mut ContextState) -> Result<Poll> {
        let mut results = Vec::new();
        Ok(match self.poll_into(state, &mut results)? {
            Step::Done(()) => Poll::Done(results),
            Step::Suspended(Suspension::Yielded) => Poll::Yielded,
            Step::Suspended(Suspension::Waiting(wait)) => Poll::Waiting(wait),
        })
    }

    /// As [`Invocation::poll`], with what becomes of the results.
    ///
    /// # Errors
    /// As [`Invocation::poll`], and those of `results`.
    pub fn poll_into<R: Results>(&mut self, state: &mut ContextState, results: &mut R) -> Result<Step<R::Output>> {
        if self.finished {
            return Err(Status::failed_precondition("the invocation is over"));
        }
        let step = self.run(state, results);
        if !matches!(step, Ok(Step::Suspended(_))) {
            self.finished = true;
            self.stack.clear();
        }
        step
    }

    /// The limits of the invocation.
    pub fn limits(&self) -> &Limits {
        self.limits.borrow()
    }

    /// Fails if the time of the invocation is up.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` or `CANCELLED`, as the limits say.
    pub fn check_time(&self) -> Result<()> {
        self.limits.borrow().check_time()
    }

    /// Blocks until `wait` is ready. Cancelling the invocation ends the wait at once.
    ///
    /// # Errors
    /// `DEADLINE_EXCEEDED` or `CANCELLED`, as the limits say.
    pub fn wait(&self, wait: &dyn WaitSource) -> Result<()> {
        let limits = self.limits.borrow();
        if limits.cancellation.is_some() {
            let outcome = || wait.is_ready().then_some(());
            return blocking::wait_within(limits, None, |waker| wait.wake(waker), outcome).map(drop);
        }
        while !wait.is_ready() {
            wait.block(limits.deadline);
            limits.check_time()?;
        }
        Ok(())
    }

    /// Runs on, as far as the program gets.
    fn run<R: Results>(&mut self, state: &mut ContextState, results: &mut R) -> Result<Step<R::Output>> {
        let (module_list, limits) = (self.module_list.borrow(), self.limits.borrow());
        if let Some(BoundModule::Native(..)) = module_list.modules.get(self.target.module) {
            return run_native(module_list, self.target, &mut self.stack, state, limits, results);
        }
        let mut machine = Machine::resume(module_list, &mut self.stack, state, limits)?;
        run_machine(&mut machine, results)
    }
}

/// The stack of a call before it runs, and the only frame on it, with the arguments. They are those of the function's
/// convention, and `frame` is its first frame.
#[inline(always)]
pub(super) fn begin(frame: FirstFrame, arguments: impl Arguments, limits: &Limits) -> Result<(CallStack, Registers)> {
    let charge = Charge::new(limits.memory.as_ref(), limits.stack_size() as u64, "a stack")?;
    let mut stack = CallStack::new(limits.stack_size(), charge);
    let mut frame = frame.push(&mut stack)?;
    arguments.store(&mut frame);
    Ok((stack, frame))
}

/// Runs the frame on top of a machine's stack, as far as the program gets.
#[inline(always)]
pub(super) fn run_machine<R: Results>(machine: &mut Machine<'_>, results: &mut R) -> Result<Step<R::Output>> {
    dispatcher::run(machine)?;
    machine.outcome(results)
}

/// Calls a native function that a host calls, with the arguments in the only frame of the stack.
#[cold]
pub(super) fn run_native<R: Results>(
    module_list: &ModuleList,
    target: ImportTarget,
    stack: &mut Stack,
    state: &mut ContextState,
    limits: &Limits,
    results: &mut R,
) -> Result<Step<R::Output>> {
    let (Some(BoundModule::Native(module, _)), Some(mut frame)) =
        (module_list.modules.get(target.module), stack.registers())
    else {
        return Err(Status::internal("a native function was called without a frame"));
    };
    let (convention, _) = first_frame(module_list, target)?;
    let call = stack.pending.get_or_insert_with(|| Box::new(call_in(&mut frame, convention)));
    let outcome = call_export(&**module, &mut state.modules, target, call)?;
    limits.check_time()?;
    if let Outcome::Wait(wait) = outcome {
        return Ok(Step::Suspended(Suspension::Waiting(wait)));
    }
    let registers = put_results(&mut frame, &convention.results, call)?;
    results.load(&convention.results, &mut frame, &registers).map(Step::Done)
}

/// The call object with the arguments in a frame. References are moved.
fn call_in(frame: &mut Registers, convention: &Convention) -> Call {
    let (mut call, mut layout) = (Call::default(), ArgumentLayout::EMPTY);
    for kind in convention.args.iter().filter_map(Argument::kind) {
        let index = layout.place(kind);
        match kind {
            Kind::I32 | Kind::F32 => call.words.push(u64::from(frame.word(index))),
            Kind::I64 | Kind::F64 => call.words.push(frame.wide(Reg(index as u16))),
            Kind::Ref => call.refs.push(frame.reference_mut(index).take()),
        }
    }
    call
}

/// Moves the results of a native function to a frame, and returns their registers.
fn put_results(frame: &mut Registers, kinds: &[Kind], call: &mut Call) -> Result<SmallVec<[AnyReg; 4]>> {
    let (mut words, mut refs) = (call.result_words.iter().copied(), call.result_refs.drain(..));
    let mut layout = ArgumentLayout::EMPTY;
    let mut put = |kind: Kind| {
        let index = layout.place(kind);
        match kind {
            Kind::I32 | Kind::F32 => frame.set_word(index, words.next()? as u32),
            Kind::I64 | Kind::F64 => frame.set_wide(index, words.next()?),
            Kind::Ref => frame.assign(index, refs.next()?),
        }
        Some(if kind == Kind::Ref { RefReg::new(index as u16, true).into() } else { Reg(index as u16).into() })
    };
    let missing = || Status::internal("a native function returned fewer results than its convention has");
    kinds.iter().map(|kind| put(*kind).ok_or_else(missing)).collect()
}

impl Machine<'_> {
    /// The step that the program has come to after a run.
    #[inline(always)]
    pub(super) fn outcome<R: Results>(&mut self, results: &mut R) -> Result<Step<R::Output>> {
        if let Some(Exit::Returned(registers)) = self.exit {
            let (kinds, registers) = (&self.function.convention().results, self.register_list(registers));
            return results.load(kinds, &mut self.frame, registers).map(Step::Done);
        }
        self.suspension().map(Step::Suspended)
    }

    /// Why the program is suspended.
    #[cold]
    fn suspension(&mut self) -> Result<Suspension> {
        match self.exit.take() {
            Some(Exit::Yielded) => Ok(Suspension::Yielded),
            Some(Exit::Waiting(wait)) => Ok(Suspension::Waiting(wait)),
            Some(Exit::Returned(_)) | None => Err(Status::internal("the machine stopped without a reason")),
        }
    }
}
