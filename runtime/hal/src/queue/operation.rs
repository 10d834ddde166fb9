//! A queue operation that waits: a submission with all that it needs, from a free list of the driver.

use super::submission::Discipline;
use super::weight::Weight;
use super::work::{Data, Work};
use crate::limits::scope::{self, Scope};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::status::Result;
use crate::timepoints::complete;
use crate::{BufferBinding, Timepoint};

/// Most bytes and points that the memory of an operation is kept with.
const MAX_RECYCLED_BYTES: usize = 64 << 10;
const MAX_RECYCLED_ENTRIES: usize = 1 << 10;

/// What to do and what to signal then. It owns what it needs.
pub struct Operation<D: Discipline> {
    /// What it takes.
    pub weight: Weight,
    pub(super) work: Work<'static, D>,
    /// A pattern, or what an update writes.
    bytes: Vec<u8>,
    /// What the slots of a program are bound to.
    table: Vec<BufferBinding>,
    signal: Vec<Timepoint>,
    /// The limits of the call that submitted it.
    scope: Scope,
    /// What counts the memory of an operation that waits.
    charge: Charge,
}

/// What is submitted to a queue: done at once by the thread that submits it, or later by an operation that owns what it needs.
pub trait Submission<D: Discipline> {
    /// Does it at once.
    ///
    /// # Errors
    /// Those of what is done.
    fn perform(self, signal: &[Timepoint]) -> Result<()>;

    /// Has `operation` do it later.
    fn store_into(self, operation: &mut Operation<D>);
}

/// Work with what it borrows besides from who submits it.
pub struct Request<'a, D: Discipline> {
    /// What to do.
    pub work: Work<'a, D>,
    /// A pattern, or what an update writes.
    pub bytes: &'a [u8],
    /// What the slots of a program are bound to.
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
        D::perform(work, Data { bytes, table, signal })
    }

    fn store_into(self, operation: &mut Operation<D>) {
        operation.bytes.extend_from_slice(self.bytes);
        operation.table.extend_from_slice(self.table);
        operation.work = self.work.into_owned();
    }
}

impl<D: Discipline> Operation<D> {
    /// An operation that does what is submitted.
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

    /// Counts its memory, and that of `waits` points which know of it, for the call that submits it.
    pub fn charge_memory(&mut self, waits: usize) {
        if scope::is_armed() {
            let objects = 2 + waits + self.signal.len() + self.table.len();
            self.charge = Charge::of_call_anyway(self.bytes.len() as u64 + objects as u64 * OBJECT_BYTES);
        }
    }

    /// Does it and signals.
    pub fn run(mut self: Box<Self>) {
        let outcome = {
            let _entered = self.take_scope().enter();
            self.perform()
        };
        self.end(outcome);
    }

    /// The limits to perform it within.
    pub fn take_scope(&mut self) -> Scope {
        std::mem::take(&mut self.scope)
    }

    /// What is still to be done once it was performed: lets go of what it held, passes on how it ended, and keeps the memory.
    pub fn end(mut self: Box<Self>, outcome: Result<()>) {
        // Who waits for the operation finds that nothing of it is left.
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

    /// Does it, without signaling. Within the scope that [`Operation::take_scope`] gives.
    ///
    /// # Errors
    /// Those of what is done, and of limits.
    pub fn perform(&mut self) -> Result<()> {
        let Operation { work, bytes, table, signal, .. } = self;
        // What a limit refuses is let go of, too: nothing of it may be left for who gets the memory next.
        let work = std::mem::take(work);
        if !matches!(work, Work::Fail(_) | Work::Decommit(_)) {
            scope::check()?;
        }
        D::perform(work, Data { bytes, table, signal })
    }
}
