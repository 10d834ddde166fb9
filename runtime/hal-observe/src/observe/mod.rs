//! Observers of devices: wrappers that show an [`Observer`] each call of a device, and of the objects it makes, with
//! the arguments and what came of it. Hosts wrap a device to trace it ([`Trace`]) or to hold its callers to the
//! contract ([`Validate`]), or record what they do ([`Record`]); programs and drivers see no difference.
//!
//! ```
//! use std::sync::{Arc, Mutex};
//!
//! use vireo::Result;
//! use vireo::hal::observe::{Observation, Trace};
//! use vireo::hal::{QueueAffinity, SemaphoreFlags, create_device};
//!
//! # fn main() -> Result<()> {
//! let lines = Arc::new(Mutex::new(Vec::new()));
//! let sink = lines.clone();
//! let observation = Observation::new(Trace::new(move |line| sink.lock().unwrap().push(line.to_string())));
//! let device = observation.device(&create_device("local-sync")?);
//! let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT)?;
//! semaphore.signal(5)?;
//! assert_eq!(
//!     *lines.lock().unwrap(),
//!     [
//!         "device#1.create_semaphore(queue_affinity=any, initial_value=0, \
//!          flags=host_interrupt|exportable_timepoints) -> semaphore#1",
//!         "semaphore#1.signal(value=5) -> ok",
//!     ]
//! );
//! # Ok(())
//! # }
//! ```
//!
//! **What is wrapped** follows from `spec/hal/`: a device, and every object with methods that it or such an object
//! returns. Where a wrapper is an argument, also within a struct or a list, the device gets the object itself, so it
//! works as without an observer. Objects of the host are wrapped if devices hand them objects: a function that a queue
//! calls gets the wrappers of its timelines. Buffers, which devices know by their types, are not wrapped; they have a
//! number all the same.
//!
//! **Several devices** of one observation share the numbers, and objects of one are unwrapped for the other.

pub(crate) mod failure;
pub(crate) mod objects;
pub(crate) mod observation;
pub mod record;
pub(crate) mod text;
mod trace;
pub(crate) mod validate;

use std::cell::Cell;
use std::fmt::{self, Debug, Display};
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

pub use self::objects::ObjectId;
pub use self::observation::{Called, Known, Observation, Observed, Observer, Wrapped};
pub use self::record::{Record, Recording};
use self::text::{Show, Text};
pub use self::trace::Trace;
pub use self::validate::Validate;
pub use crate::generated::hal::calls::{Call, Reply};
use crate::hal::QueueOperation;
use crate::status::{Result, Status};

impl<'a> Called<'a> {
    /// Counts the calls of the observation from 1, in the order in which they begin.
    pub fn number(&self) -> u64 {
        self.number
    }

    /// The object that is called.
    pub fn object(&self) -> ObjectId {
        self.object
    }

    /// The method and the arguments.
    pub fn call(&self) -> &Call<'a> {
        &self.call
    }

    /// A number that the observer may keep with the object that is called, 0 at first.
    pub fn note(&self) -> &'a AtomicU64 {
        self.note
    }

    /// The same for an object among the arguments, or for the result; none if calls of such objects are not observed.
    pub fn note_of<'b, T: Known + ?Sized>(&self, object: &'b Arc<T>) -> Option<&'b AtomicU64> {
        self.observation.note(object)
    }

    /// Numbers that the observer may keep from before the call until after it, 0 at first.
    pub fn kept(&self) -> &Cell<[u64; 2]> {
        &self.kept
    }

    /// The object itself, if it is of this kind. Its calls are not observed.
    pub fn callee<T: Wrapped + ?Sized>(&self) -> Option<&'a Arc<T>> {
        self.callee.downcast_ref()
    }

    /// The object that an argument wraps, or the argument if it is no wrapper. Calls of it are not observed.
    pub fn unwrapped<T: Wrapped + ?Sized>(&self, object: &Arc<T>) -> Arc<T> {
        self.observation.exchanged(object, T::SIDE.other())
    }

    /// The object and the method: `semaphore#1.signal`.
    pub fn name(&self) -> String {
        let method = self.call.method().name();
        let method = method.split_once('.').map_or(method, |(_, method)| method);
        format!("{}.{method}", self.object)
    }

    /// The name of an object among the arguments, or of the result.
    pub fn id<T: Known + ?Sized>(&self, object: &Arc<T>) -> ObjectId {
        self.observation.id(object)
    }

    /// The outcome as text: `ok`, a result, or a failure.
    pub fn outcome_text(&self, outcome: &Result<Reply<'_>, &Status>) -> String {
        let mut text = Text::new(self.observation);
        match outcome {
            Ok(Reply::Nothing) => text.push("ok"),
            Ok(reply) => reply.show(&mut text),
            Err(status) => status.show(&mut text),
        }
        text.into_string()
    }

    pub(crate) fn begins(&self) -> Result<()> {
        self.observation.observer.before(self)
    }

    pub(crate) fn submits(&self, operation: QueueOperation<'_>) -> Result<()> {
        self.observation.observer.submitting(self, operation)
    }

    pub(crate) fn ends(&self, outcome: Result<Reply<'_>, &Status>) {
        self.observation.observer.after(self, outcome);
    }

    pub(crate) fn returns(&self, reply: Reply<'_>) {
        self.ends(Ok(reply));
    }
}

impl Display for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Text::new(self.observation);
        self.call.show(&mut text);
        write!(f, "{}({})", self.name(), text.into_string())
    }
}

impl Debug for Called<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        Display::fmt(self, f)
    }
}
