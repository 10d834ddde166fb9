//! Recordings of devices: an observer that keeps every call of a device and of what it makes, with all its arguments
//! and what came of it, for tools that look at it later or do it again. Objects are their numbers, with what made them.
//!
//! **What is in a recording** and what is not: bytes that a call carries (updates, patterns, constants, executables)
//! are. Memory of the host that a call points to, and callbacks, are marked ([`Unseen`]). Buffers that the host can map
//! are marked too ([`RecordedObject::is_mappable`]), since it reads and writes them without any call, and so the end of
//! a buffer is not seen.
//!
//! An encoder is a [`Visitor`]: calls and replies are generated from `spec/hal/` and visited field by field
//! ([`Visit`]). The text of events is written by one.

mod keep;
mod object;
mod text;
mod visit;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

pub use self::keep::{Keep, Keeper, RecordedBuffer, Unseen};
pub use self::object::RecordedObject;
pub use self::visit::{Visit, Visitor};
use super::{Called, ObjectId, Observer, Reply};
pub use crate::generated::hal::records::*;
use crate::status::{Result, Status};

/// Keeps every call in the [`Recording`] that it is of. There it stays until it is taken, so memory grows with what is
/// done.
pub struct Record(Recording);

/// The calls that a [`Record`] keeps, shared with it.
///
/// ```
/// use vireo::hal::observe::{Observation, Recording};
/// use vireo::hal::{QueueAffinity, SemaphoreFlags, create_device};
///
/// # fn main() -> vireo::Result<()> {
/// let recording = Recording::default();
/// let device = Observation::new(recording.observer()).device(&create_device("local-sync")?);
/// let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT)?;
/// semaphore.signal(5)?;
/// let recorded = recording.take();
/// assert_eq!(recorded.events[1].to_string(), "2: semaphore#1.signal(value=5) -> none");
/// assert_eq!(recorded.objects[&semaphore_id()].made_by, Some(1));
/// # fn semaphore_id() -> vireo::hal::observe::ObjectId {
/// #     vireo::hal::observe::ObjectId { kind: "semaphore", number: 1 }
/// # }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Default)]
pub struct Recording(Arc<Mutex<Recorded>>);

/// The calls and objects of a recording.
#[derive(Clone, Debug, Default)]
pub struct Recorded {
    /// Calls in the order in which they returned, and what was dropped between them.
    pub events: Vec<Event>,
    /// The objects that occurred, also in events that were taken before.
    pub objects: BTreeMap<ObjectId, RecordedObject>,
}

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// A call has returned.
    Call(Box<RecordedEvent>),
    /// The last reference to an object is gone. Buffers have no such event.
    Dropped(ObjectId),
}

/// A call that has returned.
#[derive(Clone, Debug)]
pub struct RecordedEvent {
    /// Its number in the order in which calls began: one that began within another one returns before it.
    pub number: u64,
    /// The object that was called.
    pub object: ObjectId,
    /// The method and its arguments.
    pub call: RecordedCall,
    /// The result, or the failure.
    pub outcome: Result<RecordedReply>,
}

impl Recording {
    /// An observer that records.
    pub fn observer(&self) -> Record {
        Record(self.clone())
    }

    /// The calls since the recording was last taken. Objects stay, and keep their numbers.
    pub fn take(&self) -> Recorded {
        let mut recorded = self.lock();
        Recorded { events: std::mem::take(&mut recorded.events), objects: recorded.objects.clone() }
    }

    fn lock(&self) -> MutexGuard<'_, Recorded> {
        // Nothing of others runs under the lock.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Observer for Record {
    fn after(&self, called: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        let mut keeper = Keeper::new(called);
        keeper.note(called.object());
        let call = called.call().keep(&mut keeper);
        keeper.is_reply();
        let outcome = outcome.map(|reply| reply.keep(&mut keeper)).map_err(Status::clone);
        let event = RecordedEvent { number: called.number(), object: called.object(), call, outcome };
        let noted = keeper.into_noted();
        let mut recorded = self.0.lock();
        for (id, object) in noted {
            recorded.objects.entry(id).or_insert(object);
        }
        recorded.events.push(Event::Call(Box::new(event)));
    }

    fn dropped(&self, object: ObjectId) {
        self.0.lock().events.push(Event::Dropped(object));
    }
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Record")
    }
}

impl fmt::Debug for Recording {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Recording({} events)", self.lock().events.len())
    }
}

/// `2: semaphore#1.signal(value=5) -> none`, `semaphore#1 is dropped`
impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordedEvent { number, object, call, outcome } = match self {
            Event::Call(event) => &**event,
            Event::Dropped(object) => return write!(f, "{object} is dropped"),
        };
        let method = call.method().name();
        let method = method.split_once('.').map_or(method, |(_, method)| method);
        let outcome = match outcome {
            Ok(reply) => text::of(reply),
            Err(status) => text::of(status),
        };
        write!(f, "{number}: {object}.{method}({}) -> {outcome}", text::of_arguments(call))
    }
}
