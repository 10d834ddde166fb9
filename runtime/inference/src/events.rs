//! Events of models, sessions and calls for subscribers of the crate `tracing`, with the feature of that name. Without
//! it, and without a subscriber that wants to hear them, the work is done and nothing else: no time is read.
//!
//! - target `vireo::model`, level `DEBUG`: `linked a model` and `made a session`, with `module`, `devices` and
//!   `duration`.
//! - target `vireo::call`, level `DEBUG`: a span `call` with the name of the `function`, in which the call runs, and at
//!   its end the event `returned` with `function` and `duration`, or `failed` with the `status`, too.

use std::task::Poll;

use vireo_core::status::Result;

/// Runs `make`, whose outcome is `what`: a model or a session, of which `describe` says the name of the module and the
/// devices.
#[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "no subscriber is told"))]
pub fn made<T>(
    what: &'static str,
    make: impl FnOnce() -> Result<T>,
    describe: fn(&T) -> (&str, Vec<&str>),
) -> Result<T> {
    #[cfg(feature = "tracing")]
    if told::wants_models() {
        return told::made(what, make, describe);
    }
    make()
}

/// A call of a function: its span and its beginning, if somebody wants to hear of it.
#[derive(Default)]
pub struct CallEvents(#[cfg(feature = "tracing")] Option<Box<told::Begun>>);

impl CallEvents {
    /// A call of the function of this name begins.
    #[cfg_attr(not(feature = "tracing"), expect(unused_variables, reason = "no subscriber is told"))]
    #[inline]
    pub fn begin(function: &str) -> CallEvents {
        #[cfg(feature = "tracing")]
        return CallEvents(told::wants_calls().then(|| Box::new(told::Begun::new(function))));
        #[cfg(not(feature = "tracing"))]
        CallEvents()
    }

    /// Runs all of it.
    #[inline]
    pub fn run<T>(mut self, call: impl FnOnce() -> Result<T>) -> Result<T> {
        match self.poll(|| Poll::Ready(call())) {
            Poll::Ready(outcome) => outcome,
            Poll::Pending => unreachable!("the closure is ready"),
        }
    }

    /// Polls it once.
    #[inline]
    pub fn poll<T>(&mut self, poll: impl FnOnce() -> Poll<Result<T>>) -> Poll<Result<T>> {
        #[cfg(feature = "tracing")]
        if let Some(begun) = self.0.take() {
            let polled = begun.enter(poll);
            match &polled {
                Poll::Ready(outcome) => begun.end(outcome),
                Poll::Pending => self.0 = Some(begun),
            }
            return polled;
        }
        poll()
    }
}

#[cfg(feature = "tracing")]
mod told {
    use std::time::Instant;

    use tracing::{Level, Span};

    use super::Result;

    const MODELS: &str = "vireo::model";
    const CALLS: &str = "vireo::call";

    pub fn wants_models() -> bool {
        tracing::enabled!(target: MODELS, Level::DEBUG)
    }

    #[inline]
    pub fn wants_calls() -> bool {
        tracing::enabled!(target: CALLS, Level::DEBUG)
    }

    #[cold]
    pub fn made<T>(
        what: &'static str,
        make: impl FnOnce() -> Result<T>,
        describe: fn(&T) -> (&str, Vec<&str>),
    ) -> Result<T> {
        let start = Instant::now();
        let made = make()?;
        let (module, devices) = describe(&made);
        tracing::debug!(target: MODELS, module, ?devices, duration = ?start.elapsed(), "{what}");
        Ok(made)
    }

    /// A call that has begun.
    pub struct Begun {
        function: String,
        span: Span,
        start: Instant,
    }

    impl Begun {
        pub fn new(function: &str) -> Begun {
            let function = function.to_string();
            let span = tracing::debug_span!(target: CALLS, "call", function);
            Begun { function, span, start: Instant::now() }
        }

        /// Runs `work` in the span.
        pub fn enter<T>(&self, work: impl FnOnce() -> T) -> T {
            self.span.in_scope(work)
        }

        /// Tells how the call ended.
        pub fn end<T>(&self, outcome: &Result<T>) {
            let (function, duration) = (self.function.as_str(), self.start.elapsed());
            self.enter(|| match outcome {
                Ok(_) => tracing::debug!(target: CALLS, function, ?duration, "returned"),
                Err(status) => tracing::debug!(target: CALLS, function, ?duration, %status, "failed"),
            });
        }
    }
}
