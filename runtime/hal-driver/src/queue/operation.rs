//! Queue operations: a submission that waits, with everything it needs, allocated from a free list of the driver.
//! Queues make them, and disciplines run them.

use std::borrow::Cow;

use super::discipline::{Discipline, Operation, Prepared, Submission};
use super::weight::Weight;
use super::work;
use crate::hal::host_times::Watch;
use crate::hal::timepoints::complete;
use crate::hal::{ExecuteFlags, QueueAffinity, QueueOperation, Timepoint};
use crate::limits::scope::{self, Scope};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::status::Result;

/// A recycled operation has memory for at most so many bytes of lists, and for so many points.
const MAX_RECYCLED_BYTES: usize = 64 << 10;
const MAX_RECYCLED_POINTS: usize = 1 << 10;

/// The operation that does nothing.
const NOTHING: QueueOperation<'_> = QueueOperation::Barrier { flags: ExecuteFlags::empty() };

/// An operation, with what is prepared for it, as the submitter has it.
pub struct Request<'a, D: Discipline> {
    /// The queue that the submitter named.
    pub queue_affinity: QueueAffinity,
    /// The operation.
    pub operation: QueueOperation<'a>,
    /// The part that the queue has prepared.
    pub prepared: Prepared<'a, D>,
}

impl<'a, D: Discipline> From<Prepared<'a, D>> for Request<'a, D> {
    fn from(prepared: Prepared<'a, D>) -> Request<'a, D> {
        Request { queue_affinity: QueueAffinity::ANY, operation: NOTHING, prepared }
    }
}

impl<D: Discipline> Submission<D> for Request<'_, D> {
    #[inline]
    fn perform(self, signal: &[Timepoint]) -> Result<()> {
        work::perform(self.queue_affinity, self.operation, self.prepared, signal)
    }

    fn store_into(self, stored: &mut Operation<D>) {
        stored.queue_affinity = self.queue_affinity;
        // The program of a dispatch owns all that it uses.
        if !matches!(self.operation, QueueOperation::Dispatch { .. }) {
            stored.kept.assign(self.operation);
        }
        stored.prepared = self.prepared.into_owned();
    }
}

impl<D: Discipline> Prepared<'_, D> {
    fn into_owned(self) -> Prepared<'static, D> {
        match self {
            Prepared::Program { program, runner } => {
                let runner = runner.map(|runner| Cow::Owned(runner.into_owned()));
                Prepared::Program { program: Cow::Owned(program.into_owned()), runner }
            }
            Prepared::Nothing => Prepared::Nothing,
            Prepared::Memory(allocation) => Prepared::Memory(allocation),
            Prepared::Failure(cause) => Prepared::Failure(cause),
            Prepared::Other(work) => Prepared::Other(work),
        }
    }
}

impl<D: Discipline> Operation<D> {
    /// An operation for a submission.
    pub fn new(weight: Weight, signal: &[Timepoint], submission: impl Submission<D>) -> Box<Operation<D>> {
        let mut operation = D::free_lists().operations.pop(0).unwrap_or_else(|| {
            Box::new(Operation {
                weight,
                queue_affinity: QueueAffinity::ANY,
                kept: NOTHING.into_owned(),
                prepared: Prepared::Nothing,
                signal: Vec::new(),
                scope: Scope::default(),
                watch: Watch::default(),
                charge: Charge::default(),
            })
        });
        operation.weight = weight;
        operation.signal.extend_from_slice(signal);
        operation.scope = Scope::current();
        operation.watch = Watch::current();
        submission.store_into(&mut operation);
        operation
    }

    /// Charges its memory, and that of subscriptions to `waits` points, to the call that submits it.
    pub fn charge_memory(&mut self, waits: usize) {
        if scope::is_armed() {
            let objects = 2 + waits + self.signal.len();
            let bytes = self.kept.list_bytes() as u64 + objects as u64 * OBJECT_BYTES;
            self.charge = Charge::of_call_anyway(bytes);
        }
    }

    /// Performs it and signals.
    pub fn run(mut self: Box<Self>) {
        let outcome = {
            let _entered = self.take_scope().enter();
            self.perform()
        };
        self.end(outcome);
    }

    /// The limits under which to perform it.
    pub fn take_scope(&mut self) -> Scope {
        std::mem::take(&mut self.scope)
    }

    /// Completes it after it was performed, or could not be: drops its references, signals or fails its points, and
    /// recycles its memory.
    pub fn end(mut self: Box<Self>, outcome: Result<()>) {
        // References are dropped first: a waiter that continues finds none of the operation left. What was prepared is
        // there if no thread performed it.
        drop(std::mem::take(&mut self.prepared));
        self.kept.assign(NOTHING);
        complete(&self.signal, outcome);
        for point in self.signal.drain(..) {
            point.semaphore.recycle();
        }
        (self.scope, self.watch, self.charge) = (Scope::default(), Watch::default(), Charge::default());
        if self.kept.list_capacity() <= MAX_RECYCLED_BYTES && self.signal.capacity() <= MAX_RECYCLED_POINTS {
            D::free_lists().operations.push(0, self);
        }
    }

    /// Performs it without signaling, within the scope that [`Operation::take_scope`] returned.
    ///
    /// # Errors
    /// Those of the operation, and of limits.
    pub fn perform(&mut self) -> Result<()> {
        let Operation { queue_affinity, kept, prepared, signal, watch, .. } = self;
        let _watched = std::mem::take(watch).enter();
        work::perform(*queue_affinity, kept.get(), std::mem::take(prepared), signal)
    }
}
