//! Calls for asynchronous tasks of any executor: one call ([`Call`]), and many of which a bounded number is in flight
//! ([`Calls`]).

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use vireo_context::CallFuture;
use vireo_core::limits::{CancelSubscription, Limits};
use vireo_core::status::{Result, Status};
use vireo_core::timer::Timer;
use vireo_hal::{Fence, MultiWait};
use vireo_vm::Value;

use crate::events::CallEvents;
use crate::input::Input;
use crate::output::Outputs;
use crate::session::Function;
use crate::signature::Signature;

/// A call that an asynchronous task waits for. Dropping it cancels the call and releases what it holds.
///
/// Arguments are copied to the device when it is made, and the program starts with the first poll. It runs on the
/// thread that polls until it has to wait for a device, which wakes the task; no thread waits meanwhile. On devices
/// with threads of their own kernels run on those, so the thread that polls is not held up by them; on `local-sync` it
/// runs them itself.
pub struct Call {
    state: State,
    signature: Arc<Signature>,
    events: CallEvents,
}

enum State {
    /// The program runs, and signals the fence when its results are there.
    Running {
        call: Box<CallFuture>,
        done: Option<Fence>,
        limits: Limits,
    },
    /// It has returned, and its results are not there yet.
    Finishing {
        values: Vec<Value>,
        wait: MultiWait,
        timer: Option<Timer>,
        cancelled: Option<CancelSubscription>,
        limits: Limits,
    },
    Finished,
}

impl Function {
    /// Calls the function in an asynchronous task: `function.start(inputs![...])?.await`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the number and the name of the argument, if `inputs` are not what the signature says.
    /// Errors of the program are those of the future.
    pub fn start<'i>(&self, inputs: impl AsRef<[Input<'i>]>) -> Result<Call> {
        self.start_with(inputs, self.limits())
    }

    /// As [`Function::start`], within other limits than those of the session.
    ///
    /// # Errors
    /// As [`Function::start`].
    pub fn start_with<'i>(&self, inputs: impl AsRef<[Input<'i>]>, limits: &Limits) -> Result<Call> {
        let (arguments, done) = self.arguments(inputs.as_ref())?;
        // The time of the call counts from now, for the program and for the wait for its results.
        let limits = limits.started().into_owned();
        let call = self.vm_function().start(&arguments, limits.clone())?;
        let state = State::Running { call: Box::new(call.into_future()), done, limits };
        let signature = self.shared_signature().clone();
        let events = CallEvents::begin(&signature.name);
        Ok(Call { state, signature, events })
    }

    /// Makes a call for each of `inputs`, of which at most `in_flight` are under way at a time. Results come in the
    /// order of the inputs.
    pub fn start_each<'i, I, A>(&self, inputs: I, in_flight: usize) -> Calls<I::IntoIter>
    where
        I: IntoIterator<Item = A>,
        A: AsRef<[Input<'i>]>,
    {
        Calls {
            function: self.clone(),
            inputs: inputs.into_iter(),
            slots: VecDeque::new(),
            in_flight: in_flight.max(1),
        }
    }
}

impl Future for Call {
    type Output = Result<Outputs>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Outputs>> {
        let Call { state, signature, events } = &mut *self;
        let outcome = events.poll(|| state.poll(context, signature));
        if outcome.is_ready() {
            self.state = State::Finished;
        }
        outcome
    }
}

impl State {
    fn poll(&mut self, context: &mut Context<'_>, signature: &Arc<Signature>) -> Poll<Result<Outputs>> {
        if let State::Running { call, done, limits } = self {
            let Poll::Ready(values) = Pin::new(&mut **call).poll(context) else { return Poll::Pending };
            let values = values?;
            let Some(done) = done else { return Poll::Ready(Ok(Outputs::of(values, signature))) };
            let (wait, limits) = (done.start_wait(), std::mem::take(limits));
            *self = State::Finishing { values, wait, timer: None, cancelled: None, limits };
        }
        let State::Finishing { values, wait, timer, cancelled, limits } = self else {
            return Poll::Ready(Err(Status::failed_precondition("the call is over")));
        };
        if let Poll::Ready(outcome) = wait.poll_outcome(context.waker()) {
            outcome.map_err(|status| status.context("the results were not produced"))?;
            return Poll::Ready(Ok(Outputs::of(std::mem::take(values), signature)));
        }
        // The program may drop the fence without signaling it, so the wait has the limits of the call.
        if let Some(deadline) = limits.deadline {
            match timer {
                Some(timer) => timer.set_waker(context.waker()),
                None => *timer = Some(Timer::start(deadline, context.waker().clone())?),
            }
        }
        if let Some(cancellation) = &limits.cancellation {
            match cancelled {
                Some(subscription) => subscription.set_waker(context.waker()),
                None => *cancelled = Some(cancellation.subscribe(context.waker())),
            }
        }
        match limits.check_time() {
            Ok(()) => Poll::Pending,
            Err(status) => Poll::Ready(Err(status.context("the results were not produced"))),
        }
    }
}

/// Calls of a function, one for each of many inputs, of which a bounded number is under way. Dropping it cancels those.
pub struct Calls<I> {
    function: Function,
    inputs: I,
    /// In the order of the inputs.
    slots: VecDeque<Slot>,
    in_flight: usize,
}

enum Slot {
    UnderWay(Call),
    Over(Result<Outputs>),
}

impl<'i, I, A> Calls<I>
where
    I: Iterator<Item = A>,
    A: AsRef<[Input<'i>]>,
{
    /// The results of the next call, in the order of the inputs; none after the last.
    pub async fn next(&mut self) -> Option<Result<Outputs>> {
        std::future::poll_fn(|context| self.poll_next(context)).await
    }

    /// The same for who polls.
    pub fn poll_next(&mut self, context: &mut Context<'_>) -> Poll<Option<Result<Outputs>>> {
        while self.slots.len() < self.in_flight
            && let Some(inputs) = self.inputs.next()
        {
            self.slots.push_back(match self.function.start(inputs) {
                Ok(call) => Slot::UnderWay(call),
                Err(status) => Slot::Over(Err(status)),
            });
        }
        // All calls are polled, not the first alone: a call starts with its first poll.
        for slot in &mut self.slots {
            if let Slot::UnderWay(call) = slot
                && let Poll::Ready(outcome) = Pin::new(call).poll(context)
            {
                *slot = Slot::Over(outcome);
            }
        }
        match self.slots.pop_front() {
            None => Poll::Ready(None),
            Some(Slot::Over(outcome)) => Poll::Ready(Some(outcome)),
            Some(under_way) => {
                self.slots.push_front(under_way);
                Poll::Pending
            }
        }
    }
}
