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
pub mod record;
pub(crate) mod text;
mod trace;
pub(crate) mod validate;

use std::any::Any;
use std::fmt::{self, Debug, Display};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use self::objects::{Exchange, Side, Tables};
pub use self::objects::{Known, ObjectId, Wrapped};
pub use self::record::{Record, Recording};
use self::text::{Show, Text};
pub use self::trace::Trace;
pub use self::validate::Validate;
pub use crate::generated::hal::calls::{Call, Reply};
use crate::hal::Device;
use crate::status::{Result, Status};

/// Is shown calls. Any thread may call it, also from within another call: a queue that calls the host does.
pub trait Observer: Debug + Send + Sync + 'static {
    /// Called before the object is.
    ///
    /// # Errors
    /// A failure is that of the call, and the object is not called. Methods that cannot fail have none.
    fn before(&self, call: &Called<'_>) -> Result<()> {
        let _ = call;
        Ok(())
    }

    /// Called after [`Observer::before`] for an operation of a queue that returns nothing.
    ///
    /// # Errors
    /// A failure is that of the operation, which the device does not get: it goes to the points that the operation
    /// signals, once those it waits for are reached.
    fn submitting(&self, call: &Called<'_>) -> Result<()> {
        let _ = call;
        Ok(())
    }

    /// Called with what came of a call that the object got.
    fn after(&self, call: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        let _ = (call, outcome);
    }

    /// Called when the last reference to the wrapper of an object is gone.
    fn dropped(&self, object: ObjectId) {
        let _ = object;
    }
}

/// An observer, and the objects that it was shown.
pub struct Observation {
    observer: Box<dyn Observer>,
    tables: Tables,
    /// Calls that have begun.
    begun: AtomicU64,
}

impl Observation {
    /// Begins without any objects.
    pub fn new(observer: impl Observer) -> Arc<Observation> {
        Arc::new(Observation { observer: Box::new(observer), tables: Tables::default(), begun: AtomicU64::new(0) })
    }

    /// The device with its calls shown to the observer.
    pub fn device(self: &Arc<Self>, device: &Arc<dyn Device>) -> Arc<dyn Device> {
        self.exchanged(device, Side::Host)
    }

    /// The name of an object here. It gets a number if it has none.
    pub fn id<T: Known + ?Sized>(&self, object: &Arc<T>) -> ObjectId {
        let number = object.wrapper_number(self).unwrap_or_else(|| T::table(&self.tables).number(object));
        ObjectId { kind: T::NAME, number }
    }
}

impl Debug for Observation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Observation").field(&self.observer).finish()
    }
}

/// The wrapper of an object.
pub struct Observed<T: Wrapped + ?Sized> {
    inner: Arc<T>,
    number: u64,
    observation: Arc<Observation>,
}

impl<T: Wrapped + ?Sized> Observed<T> {
    pub(crate) fn wrapped(&self) -> &Arc<T> {
        &self.inner
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    fn id(&self) -> ObjectId {
        ObjectId { kind: T::NAME, number: self.number }
    }

    pub(crate) fn called<'a>(&'a self, call: Call<'a>) -> Called<'a> {
        let number = self.observation.begun.fetch_add(1, Ordering::Relaxed) + 1;
        Called { number, object: self.id(), call, callee: &self.inner, observation: &self.observation }
    }

    /// An argument for the object.
    pub(crate) fn passed_on<E: Exchange>(&self, value: &E) -> E {
        value.exchanged(&self.observation, T::SIDE.other())
    }

    /// The same for each of a list.
    pub(crate) fn all_passed_on<E: Exchange>(&self, values: &[E]) -> Vec<E> {
        values.iter().map(|value| self.passed_on(value)).collect()
    }

    /// A result for the caller.
    pub(crate) fn returned<E: Exchange>(&self, value: &E) -> E {
        value.exchanged(&self.observation, T::SIDE)
    }
}

impl<T: Wrapped + ?Sized> Debug for Observed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Observed({})", self.id())
    }
}

impl<T: Wrapped + ?Sized> Drop for Observed<T> {
    fn drop(&mut self) {
        self.observation.observer.dropped(self.id());
    }
}

/// A call of an object. Its text is `semaphore#1.signal(value=5)`.
pub struct Called<'a> {
    number: u64,
    object: ObjectId,
    call: Call<'a>,
    /// The `Arc` of the object.
    callee: &'a dyn Any,
    observation: &'a Arc<Observation>,
}

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

    pub(crate) fn submits(&self) -> Result<()> {
        self.observation.observer.submitting(self)
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
