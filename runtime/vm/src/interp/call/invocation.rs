//! An invocation: a call of a function, as a state machine that is polled until it is done. Contexts of `vireo-context`
//! poll it.

use std::borrow::Borrow;

use vireo_core::blocking;

use super::dispatcher;
use crate::bytecode::CallId;
use crate::bytecode::ListId;
use crate::convention::{Argument, Convention, Kind};
use crate::interp::code::import_site::ImportTarget;
use crate::interp::frame::argument_layout::ArgumentLayout;
use crate::interp::frame::descriptor::FrameDescriptor;
use crate::interp::frame::registers::Registers;
use crate::interp::frame::stack::CallStack;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::{BoundModule, ModuleList, lookup};
use crate::interp::machine::context_state::{ContextState, ModuleState};
use crate::interp::machine::exit::Exit;
use crate::interp::ops::native_call::in_native_frame;
use crate::limits::Charge;
use crate::limits::Limits;
use crate::status::{Result, Status};
use crate::{BoxedWaitSource, Call, Outcome, Value, WaitSource};

/// The outcome of polling an invocation.
pub enum Poll {
    /// The function returned these values.
    Done(Vec<Value>),
    /// The program yielded: other calls may run before it is polled again.
    Yielded,
    /// A native function waits for this source. Polling again before it is ready is allowed.
    Waiting(BoxedWaitSource),
}

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
    /// An empty list with memory for the results.
    results: Vec<Value>,
    finished: bool,
}

impl<P: Borrow<ModuleList>, L: Borrow<Limits>> Invocation<P, L> {
    /// Prepares a call of `target` with `args`. Nothing runs before the first [`Invocation::poll`].
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the arguments are not those of the function's convention.
    #[inline]
    pub fn new(module_list: P, target: ImportTarget, args: &[Value], limits: L) -> Result<Self> {
        let bounds = limits.borrow();
        let charge = Charge::new(bounds.memory.as_ref(), bounds.stack_size() as u64, "a stack")?;
        let mut stack = CallStack::new(bounds.stack_size(), charge);
        match module_list.borrow().modules.get(target.module) {
            Some(BoundModule::Bytecode(_)) => {
                let (_, function) = lookup(module_list.borrow(), target.module, target.function)?;
                check_arguments(function.convention(), args)?;
                let descriptor = FrameDescriptor::new(target.module, function, 0, CallId(0));
                let mut frame = stack.push(descriptor, function.reads_unwritten_slots())?;
                place_arguments(&mut frame, args);
            }
            Some(BoundModule::Native(module, conventions)) => {
                let convention = conventions.get(target.function).ok_or_else(|| {
                    Status::not_found(format!("module `{}` has no export {}", module.name(), target.function))
                })?;
                check_arguments(convention, args)?;
                stack.pending = Some(Box::new(call_of(args)));
            }
            None => return Err(Status::internal(format!("module {} is not one of this program", target.module))),
        }
        Ok(Invocation { module_list, target, stack, limits, results: Vec::new(), finished: false })
    }

    /// A call of bytecode that has been suspended, with its stack.
    pub(in crate::interp) fn suspended(module_list: P, target: ImportTarget, stack: CallStack, limits: L) -> Self {
        Invocation { module_list, target, stack, limits, results: Vec::new(), finished: false }
    }

    /// Puts the results into the memory of `results`, which is emptied.
    #[inline]
    pub fn return_into(&mut self, mut results: Vec<Value>) {
        results.clear();
        self.results = results;
    }

    /// Runs until the function returns, the program yields, or a native function has to wait.
    ///
    /// # Errors
    /// The error of the program or of a native function, with a backtrace. The invocation is over then and holds no
    /// references any more.
    pub fn poll(&mut self, state: &mut ContextState) -> Result<Poll> {
        if self.finished {
            return Err(Status::failed_precondition("the invocation is over"));
        }
        let result = self.run(state);
        if !matches!(result, Ok(Poll::Yielded | Poll::Waiting(_))) {
            self.finished = true;
            self.stack.clear();
        }
        result
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

    fn run(&mut self, state: &mut ContextState) -> Result<Poll> {
        if self.stack.top().is_null() {
            return self.run_native(state);
        }
        let (module_list, limits) = (self.module_list.borrow(), self.limits.borrow());
        let mut machine = Machine::resume(module_list, &mut self.stack, state, limits)?;
        dispatcher::run(&mut machine)?;
        if let Some(Exit::Returned(operands)) = machine.exit {
            let mut results = std::mem::take(&mut self.results);
            machine.take_results(operands, &mut results);
            return Ok(Poll::Done(results));
        }
        machine.suspension()
    }

    /// Runs an invocation whose outermost function is native.
    fn run_native(&mut self, state: &mut ContextState) -> Result<Poll> {
        let Some(call) = &mut self.stack.pending else {
            return Err(Status::internal("an invocation has neither a frame nor a native call"));
        };
        let outcome = call_native(self.module_list.borrow(), state, self.target, call)?;
        self.limits.borrow().check_time()?;
        if let Outcome::Wait(wait) = outcome {
            return Ok(Poll::Waiting(wait));
        }
        let Some(BoundModule::Native(_, conventions)) = self.module_list.borrow().modules.get(self.target.module)
        else {
            return Err(Status::internal("the invoked module is not native"));
        };
        let results = conventions.get(self.target.function).map_or(&[] as &[Kind], |convention| &convention.results);
        values_of(results, call, std::mem::take(&mut self.results)).map(Poll::Done)
    }
}

impl Machine<'_> {
    /// Moves the results of the outermost function, which it returns in these registers, out of its frame.
    pub fn take_results(&mut self, operands: ListId, results: &mut Vec<Value>) {
        let kinds = &self.function.convention().results;
        let sources = self.code().list(operands);
        results.extend(kinds.iter().zip(sources).map(|(kind, source)| self.frame.value(*kind, *source)));
    }

    /// Why the program is suspended.
    #[cold]
    pub(in crate::interp) fn suspension(&mut self) -> Result<Poll> {
        match self.exit.take() {
            Some(Exit::Yielded) => Ok(Poll::Yielded),
            Some(Exit::Waiting(wait)) => Ok(Poll::Waiting(wait)),
            Some(Exit::Returned(_)) | None => Err(Status::internal("the machine stopped without a reason")),
        }
    }
}

/// Calls a native export, and adds its frame to the backtrace of an error.
fn call_native(
    module_list: &ModuleList,
    state: &mut ContextState,
    target: ImportTarget,
    call: &mut Call,
) -> Result<Outcome> {
    let (Some(BoundModule::Native(module, _)), Some(ModuleState::Native(state))) =
        (module_list.modules.get(target.module), state.modules.get_mut(target.module))
    else {
        return Err(Status::internal(format!("module {} is not a native module of this program", target.module)));
    };
    module.call(target.function, &mut **state, call).map_err(|status| in_native_frame(&**module, target, status))
}

/// Fails if `args` are not those of `convention`.
#[inline]
pub(in crate::interp) fn check_arguments(convention: &Convention, args: &[Value]) -> Result<()> {
    let is_taken = |(argument, value): (&Argument, &Value)| argument.kind() == Some(kind_of(value));
    match convention.args.iter().zip(args).position(|pair| !is_taken(pair)) {
        None if convention.args.len() == args.len() => Ok(()),
        index => Err(mismatch(convention, args, index.unwrap_or_default())),
    }
}

/// Why `args` are not those of `convention`. If there are as many of them, the one at `index` differs.
#[cold]
fn mismatch(convention: &Convention, args: &[Value], index: usize) -> Status {
    if convention.is_variadic() {
        return Status::unimplemented(format!(
            "a call of a variadic function `{convention}` from outside of a program"
        ));
    }
    if convention.args.len() != args.len() {
        return Status::invalid_argument(format!(
            "the function takes {} arguments (`{convention}`), {} are given",
            convention.args.len(),
            args.len()
        ));
    }
    let expected = convention.args[index].first_letter();
    let given = args[index].type_name();
    Status::invalid_argument(format!("argument {index} is {given}, expected `{expected}` of `{convention}`"))
}

fn kind_of(value: &Value) -> Kind {
    match value {
        Value::I32(_) => Kind::I32,
        Value::I64(_) => Kind::I64,
        Value::F32(_) => Kind::F32,
        Value::F64(_) => Kind::F64,
        Value::Ref(_) => Kind::Ref,
    }
}

/// Writes the arguments to the first frame. The verifier has proven that it has room for them.
#[inline(always)]
pub(in crate::interp) fn place_arguments(frame: &mut Registers, args: &[Value]) {
    let mut layout = ArgumentLayout::default();
    for value in args {
        let index = layout.place(kind_of(value));
        match value {
            Value::I32(value) => frame.set_word(index, *value as u32),
            Value::I64(value) => frame.set_wide(index, *value as u64),
            Value::F32(value) => frame.set_word(index, value.to_bits()),
            Value::F64(value) => frame.set_wide(index, value.to_bits()),
            Value::Ref(value) => frame.assign(index, value.clone()),
        }
    }
}

fn call_of(args: &[Value]) -> Call {
    let mut call = Call::default();
    for value in args {
        match value {
            Value::I32(value) => call.words.push(u64::from(*value as u32)),
            Value::I64(value) => call.words.push(*value as u64),
            Value::F32(value) => call.words.push(u64::from(value.to_bits())),
            Value::F64(value) => call.words.push(value.to_bits()),
            Value::Ref(value) => call.refs.push(value.clone()),
        }
    }
    call
}

fn values_of(kinds: &[Kind], call: &mut Call, mut results: Vec<Value>) -> Result<Vec<Value>> {
    let mut words = call.result_words.iter().copied();
    let mut refs = call.result_refs.drain(..);
    let values = kinds.iter().map(|kind| {
        Some(match kind {
            Kind::I32 => Value::I32(words.next()? as i32),
            Kind::I64 => Value::I64(words.next()? as i64),
            Kind::F32 => Value::F32(f32::from_bits(words.next()? as u32)),
            Kind::F64 => Value::F64(f64::from_bits(words.next()?)),
            Kind::Ref => Value::Ref(refs.next()?),
        })
    });
    for value in values {
        let missing = || Status::internal("a native function returned fewer results than its convention has");
        results.push(value.ok_or_else(missing)?);
    }
    Ok(results)
}
