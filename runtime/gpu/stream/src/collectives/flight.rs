//! Collective operations that a stream was given and has not run ([`Flights`]). The library tells of failures only
//! those who ask, so the completion thread of a queue asks, and ends operations whose ranks have failed or do not come.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use super::communicator::{Communicator, late};
use super::issue::communicators;
use super::recorded::RecordedCollective;
use crate::status::{Result, Status, StatusCode};

/// The collective operations of an execution.
#[derive(Debug, Default)]
pub struct Flight {
    failure: OnceLock<Status>,
}

impl Flight {
    /// The outcome of the operations that have run.
    ///
    /// # Errors
    /// The failure of one of them.
    pub fn outcome(&self) -> Result<()> {
        self.failure.get().map_or(Ok(()), |failure| Err(failure.clone()))
    }

    /// The execution has ended before it was given these operations: its ranks leave, so that the others fail.
    pub fn abandon<'a>(recorded: impl Iterator<Item = &'a [RecordedCollective]>) {
        let failure = Status::new(StatusCode::Aborted, "its operation was dropped before it ran");
        for communicator in recorded.flat_map(communicators) {
            communicator.fail(failure.clone());
        }
    }
}

/// A part of a queue with collective operations.
struct Part {
    lane: usize,
    epoch: u64,
    flight: Arc<Flight>,
    communicators: Vec<Arc<Communicator>>,
    /// When it came to be the next that the stream runs.
    began: Option<Instant>,
}

/// The parts with collective operations that a stream has.
#[derive(Default)]
pub struct Flights(Mutex<Vec<Part>>);

impl std::fmt::Debug for Flights {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} flights", self.lock().len())
    }
}

impl Flights {
    fn lock(&self) -> MutexGuard<'_, Vec<Part>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Adds a part that the stream was given.
    pub fn add(&self, (lane, epoch): (usize, u64), flight: &Arc<Flight>, recorded: &[RecordedCollective]) {
        let communicators = communicators(recorded).into_iter().cloned().collect();
        self.lock().push(Part { lane, epoch, flight: flight.clone(), communicators, began: None });
    }

    /// Forgets parts that have run, and looks at the others. `completed` is how far a lane is, and `next` the part that
    /// the stream runs next.
    pub fn check(&self, completed: impl Fn(usize) -> u64, next: Option<(usize, u64)>) {
        let mut parts = self.lock();
        for part in &mut *parts {
            if completed(part.lane) >= part.epoch {
                // A rank that has failed lets streams go on.
                let failure = part.communicators.iter().find_map(|communicator| communicator.failure());
                let _ = failure.map(|failure| part.flight.failure.set(failure));
                continue;
            }
            if next == Some((part.lane, part.epoch)) {
                part.began.get_or_insert_with(Instant::now);
            }
            let began = part.began;
            for communicator in &part.communicators {
                let mut outcome = communicator.check();
                if outcome.is_ok() && began.is_some_and(|began| began.elapsed() > communicator.limit) {
                    outcome = Err(communicator.fail(late(communicator.limit)));
                }
                if let Err(failure) = outcome {
                    let _ = part.flight.failure.set(failure);
                }
            }
        }
        parts.retain(|part| completed(part.lane) < part.epoch);
    }

    /// Ends all of them, for a reason.
    pub fn end(&self, failure: &Status) {
        for part in &*self.lock() {
            for communicator in &part.communicators {
                communicator.fail(failure.clone());
            }
        }
    }
}
