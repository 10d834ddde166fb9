//! Ranges of buffers that collective operations read and write ([`Span`]), and what a rank contributes to a round with
//! them ([`Contribution`]).

use std::sync::Arc;

use crate::agreement::Facts;
use crate::hal::{Buffer, CollectiveKind, buffer_read, buffer_write};
use crate::operation::{MAX_OPERATIONS, Needs, Operation};
use crate::status::{Result, Status};

/// A range of a buffer. It holds the buffer.
#[derive(Clone, Debug)]
pub struct Span {
    /// The buffer.
    pub buffer: Arc<dyn Buffer>,
    /// Bytes from its start.
    pub offset: u64,
    /// Bytes.
    pub length: u64,
}

/// A collective operation with its buffers.
#[derive(Clone, Debug)]
pub struct BoundOperation {
    /// The operation.
    pub operation: Operation,
    /// The range that it reads, if it has one. It may be longer than it needs.
    pub send: Option<Span>,
    /// The range that it writes, if it has one. It may be longer than it needs.
    pub recv: Option<Span>,
}

/// A rank's contribution to a round.
#[derive(Debug)]
pub enum Contribution {
    /// Operations that may run at the same time, so their order does not matter but for finding each other.
    Operations(Vec<BoundOperation>),
    /// A split of the group.
    Split {
        /// The new group, or -1 for none.
        color: i32,
        /// The order in it.
        key: i32,
    },
    /// The rank cannot take part, for this reason; the others fail with it.
    Failed(Status),
}

impl Span {
    /// Copies bytes out of the range.
    pub(crate) fn read(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        buffer_read(&*self.buffer, self.offset + offset, out)
    }

    /// Copies bytes into the range.
    pub(crate) fn write(&self, offset: u64, bytes: &[u8]) -> Result<()> {
        buffer_write(&*self.buffer, self.offset + offset, bytes)
    }

    /// Its allocation by address, and the first byte in it.
    fn place(&self) -> (usize, u64) {
        match self.buffer.allocation() {
            Some(allocation) => (Arc::as_ptr(&allocation).addr(), self.buffer.byte_offset() + self.offset),
            None => (Arc::as_ptr(&self.buffer).addr(), self.offset),
        }
    }

    /// Whether `length` bytes of it and `other_length` of another one have some in common. Two that begin with the same
    /// byte and have one length may be `the_same` range.
    pub(crate) fn overlaps(&self, length: u64, other: &Span, other_length: u64, the_same: bool) -> bool {
        let ((of, from), (other_of, other_from)) = (self.place(), other.place());
        if of != other_of || the_same && from == other_from && length == other_length {
            return false;
        }
        from < other_from + other_length && other_from < from + length
    }
}

impl BoundOperation {
    /// The compiler of IREE 3.13 counts the elements that a gather writes, where the header of IREE, and older
    /// compilers, count those that each rank sends. Ranges of that size make no other sense, so the count is corrected.
    fn with_elements_of_one_rank(mut self, count: u32) -> BoundOperation {
        let (written, count) = (self.operation.bytes(), u64::from(count));
        let length = |span: &Option<Span>| span.as_ref().map(|span| span.length);
        let counts_written = self.operation.op.kind == CollectiveKind::ALL_GATHER
            && self.operation.element_count.is_multiple_of(count)
            && length(&self.recv) == Some(written)
            && length(&self.send) == Some(written / count);
        if counts_written {
            self.operation.element_count /= count;
        }
        self
    }

    /// Checks the operation and its ranges at a rank.
    fn check(&self, rank: u32, count: u32) -> Result<()> {
        let Needs { send, recv } = self.operation.needs(rank, count)?;
        for (side, span, needed) in [("send", &self.send, send), ("receive", &self.recv, recv)] {
            let Some(needed) = needed.filter(|needed| *needed > 0) else { continue };
            let given = span.as_ref().map_or(0, |span| span.length);
            if given < needed || span.is_none() {
                let message = format!("{}: {given} bytes to {side}, expected {needed}", self.operation);
                return Err(Status::out_of_range(message));
            }
        }
        Ok(())
    }
}

impl Contribution {
    /// Checks it at a rank: one with a mistake becomes a failure, which all ranks get to know.
    pub(crate) fn checked(self, rank: u32, count: u32) -> Contribution {
        let Contribution::Operations(operations) = self else { return self };
        let correct = |operation: BoundOperation| operation.with_elements_of_one_rank(count);
        let operations: Vec<BoundOperation> = operations.into_iter().map(correct).collect();
        let outcome = if operations.len() > MAX_OPERATIONS {
            let message =
                format!("{} operations without a barrier: expected at most {MAX_OPERATIONS}", operations.len());
            Err(Status::resource_exhausted(message))
        } else {
            operations.iter().try_for_each(|operation| operation.check(rank, count))
        };
        match outcome {
            Ok(()) => Contribution::Operations(operations),
            Err(status) => Contribution::Failed(status),
        }
    }

    /// The part that ranks compare.
    pub(crate) fn facts(&self) -> Facts {
        match self {
            Contribution::Operations(operations) => {
                Facts::Operations(operations.iter().map(|bound| bound.operation).collect())
            }
            Contribution::Split { color, key } => Facts::Split { color: *color, key: *key },
            Contribution::Failed(status) => Facts::Failed(status.clone()),
        }
    }

    /// The operations; none of other contributions.
    pub(crate) fn operations(&self) -> &[BoundOperation] {
        match self {
            Contribution::Operations(operations) => operations,
            _ => &[],
        }
    }
}
