//! Queue operations: a submission that waits, with everything it needs, allocated from a free list of the driver.
//! Queues make them, and disciplines run them.

use super::discipline::{Discipline, Operands, Operation, Submission, Work};
use super::weight::Weight;
use crate::hal::timepoints::complete;
use crate::hal::{BufferBinding, Timepoint};
use crate::limits::scope::{self, Scope};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::status::Result;

/// A recycled operation has memory for at most so many bytes, and for so many points or bindings.
const MAX_RECYCLED_BYTES: usize = 64 << 10;
const MAX_RECYCLED_ENTRIES: usize = 1 << 10;

/// Work, with the bytes and bindings that it borrows from the submitter.
pub struct Request<'a, D: Discipline> {
    /// The work.
    pub work: Work<'a, D>,
    /// The pattern of a fill, or the bytes that an update writes.
    pub bytes: &'a [u8],
    /// The binding table of an execution.
    pub table: &'a [BufferBinding],
}

impl<'a, D: Discipline> From<Work<'a, D>> for Request<'a, D> {
    fn from(work: Work<'a, D>) -> Request<'a, D> {
        Request { work, bytes: &[], table: &[] }
    }
}

impl<D: Discipline> Submission<D> for Request<'_, D> {
    #[inline]
    fn perform(self, signal: &[Timepoint]) -> Result<()> {
        let Request { work, bytes, table } = self;
        work.check_limits()?;
        D::perform(work, Operands { bytes, table, signal })
    }

    fn store_into(self, operation: &mut Operation<D>) {
        operation.bytes.extend_from_slice(self.bytes);
        operation.table.extend_from_slice(self.table);
        operation.work = self.work.into_owned();
    }
}

impl<D: Discipline> Operation<D> {
    /// An operation for a submission.
    pub fn new(weight: Weight, signal: &[Timepoint], submission: impl Submission<D>) -> Box<Operation<D>> {
        let mut operation = D::free_lists().operations.pop(0).unwrap_or_else(|| {
            let (bytes, table, signal) = (Vec::new(), Vec::new(), Vec::new());
            let (scope, charge) = (Scope::default(), Charge::default());
            Box::new(Operation { weight, work: Work::Nothing, bytes, table, signal, scope, charge })
        });
        operation.weight = weight;
        operation.signal.extend_from_slice(signal);
        operation.scope = Scope::current();
        submission.store_into(&mut operation);
        operation
    }

    /// Charges its memory, and that of subscriptions to `waits` points, to the call that submits it.
    pub fn charge_memory(&mut self, waits: usize) {
        if scope::is_armed() {
            let objects = 2 + waits + self.signal.len() + self.table.len();
            self.charge = Charge::of_call_anyway(self.bytes.len() as u64 + objects as u64 * OBJECT_BYTES);
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
        // References are dropped first: a waiter that continues finds none of the operation left. Work is there if no
        // thread performed it.
        drop(std::mem::take(&mut self.work));
        for buffer in self.table.drain(..).filter_map(|binding| binding.buffer) {
            buffer.recycle();
        }
        complete(&self.signal, outcome);
        for point in self.signal.drain(..) {
            point.semaphore.recycle();
        }
        self.bytes.clear();
        (self.scope, self.charge) = (Scope::default(), Charge::default());
        if self.bytes.capacity() <= MAX_RECYCLED_BYTES
            && self.table.capacity() <= MAX_RECYCLED_ENTRIES
            && self.signal.capacity() <= MAX_RECYCLED_ENTRIES
        {
            D::free_lists().operations.push(0, self);
        }
    }

    /// Performs it without signaling, within the scope that [`Operation::take_scope`] returned.
    ///
    /// # Errors
    /// Those of the work, and of limits.
    pub fn perform(&mut self) -> Result<()> {
        let Operation { work, bytes, table, signal, .. } = self;
        // Work that a limit refuses is dropped too: none of it may be left in recycled memory.
        let work = std::mem::take(work);
        work.check_limits()?;
        D::perform(work, Operands { bytes, table, signal })
    }
}
