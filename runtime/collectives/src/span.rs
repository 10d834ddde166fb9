//! Ranges of buffers that collective operations read and write ([`Span`]), and what a rank contributes to a round with
//! them ([`Contribution`]).

use std::sync::Arc;

use crate::agreement::Facts;
use crate::hal::transfer::unwatched::buffer_write;
use crate::hal::{Buffer, buffer_read};
use crate::operation::{MAX_OPERATIONS, Operation};
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
    /// The operation at a rank, where its ranges fit.
    fn at(self, rank: u32, count: u32) -> Result<BoundOperation> {
        let length = |span: &Option<Span>| span.as_ref().map(|span| span.length);
        let operation = self.operation.at(rank, count, length(&self.send), length(&self.recv))?;
        Ok(BoundOperation { operation, ..self })
    }
}

impl Contribution {
    /// Checks it at a rank: one with a mistake becomes a failure, which all ranks get to know.
    pub(crate) fn checked(self, rank: u32, count: u32) -> Contribution {
        let Contribution::Operations(operations) = self else { return self };
        if operations.len() > MAX_OPERATIONS {
            let message =
                format!("{} operations without a barrier: expected at most {MAX_OPERATIONS}", operations.len());
            return Contribution::Failed(Status::resource_exhausted(message));
        }
        let at_rank = operations.into_iter().map(|operation| operation.at(rank, count));
        match at_rank.collect::<Result<Vec<BoundOperation>>>() {
            Ok(operations) => Contribution::Operations(operations),
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
