//! Calls as futures ([`CallFuture`]), for asynchronous tasks of any executor.

use std::future::IntoFuture;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use vireo_core::limits::CancelSubscription;
use vireo_core::timer::Timer;
use vireo_vm::{BoxedWaitSource, Value};

use crate::function::PendingCall;
use crate::interp;
use crate::status::Result;

/// A call that an asynchronous task waits for. Dropping it cancels the call and releases its references.
///
/// The program runs on the thread that polls, until it waits for a device: then what it waits for wakes the task, and
/// no thread waits meanwhile. Between two polls other calls of the context may run. A deadline of the call ends it
/// while it waits, too, and so does its cancellation.
pub struct CallFuture {
    call: PendingCall,
    /// The source for which the program waits.
    waiting: Option<BoxedWaitSource>,
    /// Wakes the task at the deadline of the call.
    timer: Option<Timer>,
    /// Wakes the task when the call is cancelled.
    cancelled: Option<CancelSubscription>,
}

impl CallFuture {
    /// Lets the task be woken when `wait` is over, at the deadline, and when the call is cancelled.
    fn wait(&mut self, wait: BoxedWaitSource, waker: &Waker) -> Result<()> {
        if let Some(deadline) = self.call.deadline() {
            match &self.timer {
                Some(timer) => timer.set_waker(waker),
                None => self.timer = Some(Timer::start(deadline, waker.clone())?),
            }
        }
        if let Some(cancellation) = self.call.cancellation() {
            match &self.cancelled {
                Some(subscription) => subscription.set_waker(waker),
                None => self.cancelled = Some(cancellation.subscribe(waker)),
            }
        }
        wait.wake(waker)?;
        self.waiting = Some(wait);
        Ok(())
    }
}

impl Future for CallFuture {
    type Output = Result<Vec<Value>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Result<Vec<Value>>> {
        let this = &mut *self;
        if let Some(wait) = this.waiting.take()
            && !wait.is_ready()
        {
            this.call.check_time()?;
            this.wait(wait, context.waker())?;
            return Poll::Pending;
        }
        match this.call.poll()? {
            interp::Poll::Done(values) => Poll::Ready(Ok(values)),
            interp::Poll::Yielded => {
                // A program that only yields is held to its limits here. Other tasks run before it continues.
                this.call.check_time()?;
                context.waker().wake_by_ref();
                Poll::Pending
            }
            interp::Poll::Waiting(wait) => {
                this.wait(wait, context.waker())?;
                Poll::Pending
            }
        }
    }
}

/// `call.await`
impl IntoFuture for PendingCall {
    type IntoFuture = CallFuture;
    type Output = Result<Vec<Value>>;

    fn into_future(self) -> CallFuture {
        CallFuture { call: self, waiting: None, timer: None, cancelled: None }
    }
}
