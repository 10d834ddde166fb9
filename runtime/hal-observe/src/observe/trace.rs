//! Traces of devices: an observer that writes a line for each call, for people who want to know what a program asks of
//! a device.

use std::fmt;

use super::{Called, Observer, Reply};
use crate::status::{Result, Status};

/// Writes one line for each call when it has returned: the object, the method, the arguments, and the result or
/// failure.
///
/// `device#1.queue_barrier(queue_affinity=any, wait=[semaphore#1@1], signal=[semaphore#1@2], flags=none) -> ok`
pub struct Trace {
    sink: Box<dyn Fn(&str) + Send + Sync>,
}

impl Trace {
    /// Hands the lines, without their ends, to `sink`. Threads call it as they come.
    pub fn new(sink: impl Fn(&str) + Send + Sync + 'static) -> Trace {
        Trace { sink: Box::new(sink) }
    }
}

impl Observer for Trace {
    fn after(&self, call: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        // The call first: objects are numbered in the order of the line.
        let call_text = call.to_string();
        (self.sink)(&format!("{call_text} -> {}", call.outcome_text(&outcome)));
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Trace")
    }
}
