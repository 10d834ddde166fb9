//! Collective operations of one rank as data ([`Operation`]), and the bytes that each needs ([`Needs`]).

use std::fmt;

use crate::element::byte_size;
use crate::hal::{CollectiveKind, CollectiveOp, CollectiveReduction};
use crate::status::{Result, Status};

/// The most operations of one round.
pub const MAX_OPERATIONS: usize = 4096;

/// The most ranks of a group.
pub const MAX_RANKS: u32 = 4096;

/// A collective operation, without its buffers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// The kind, with the reduction if it has one, and the element type.
    pub op: CollectiveOp,
    /// The root of a broadcast or reduction and the peer of a transfer. For one that sends and receives, the rank to
    /// send to in the lower half and the rank to receive from in the upper half, each -1 for none.
    pub param: u32,
    /// Elements: those that each rank sends for a gather, those that it receives for a scattered reduction, those of
    /// all parts together for an exchange of all with all.
    pub element_count: u64,
}

/// The bytes that an operation reads and writes at one rank; none for a side that it does not use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// Bytes that it reads.
    pub send: Option<u64>,
    /// Bytes that it writes.
    pub recv: Option<u64>,
}

/// The ranks that a transfer sends to and receives from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Peers {
    /// The rank that it sends to.
    pub to: Option<u32>,
    /// The rank that it receives from.
    pub from: Option<u32>,
}

impl Operation {
    /// An operation, checked as far as that depends on no rank.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for numbers without a name, a reduction without one, or more bytes than can be counted.
    pub fn new(op: CollectiveOp, param: u32, element_count: u64) -> Result<Operation> {
        let CollectiveOp { kind, mut reduction, element_type } = op;
        if kind.name().is_none() {
            return Err(Status::invalid_argument(format!("there is no collective operation {}", kind.0)));
        }
        let size = byte_size(element_type).ok_or_else(|| {
            Status::invalid_argument(format!("collective operations have no element type {}", element_type.0))
        })?;
        if reduces(kind) {
            if reduction == CollectiveReduction::NONE || reduction.name().is_none() {
                let message = format!("{kind:?} with reduction {reduction:?}: expected one that reduces");
                return Err(Status::invalid_argument(message));
            }
        } else {
            // Only a reduction has one, so what others say is not compared.
            reduction = CollectiveReduction::NONE;
        }
        if element_count.checked_mul(size).and_then(|bytes| bytes.checked_mul(MAX_RANKS.into())).is_none() {
            return Err(Status::out_of_range(format!("{kind:?} of {element_count} elements of {size} bytes")));
        }
        Ok(Operation { op: CollectiveOp { kind, reduction, element_type }, param, element_count })
    }

    /// Bytes of an element.
    pub fn element_size(&self) -> u64 {
        // `new` has checked the type.
        byte_size(self.op.element_type).unwrap_or(1)
    }

    /// Bytes of all its elements. `new` has checked that they can be counted.
    pub fn bytes(&self) -> u64 {
        self.element_count * self.element_size()
    }

    /// Whether only two ranks take part.
    pub(crate) fn is_transfer(&self) -> bool {
        matches!(self.op.kind, CollectiveKind::SEND | CollectiveKind::RECV | CollectiveKind::SEND_RECV)
    }

    /// Whether one rank is the root.
    pub(crate) fn has_root(&self) -> bool {
        matches!(self.op.kind, CollectiveKind::BROADCAST | CollectiveKind::REDUCE)
    }

    /// The ranks that a transfer sends to and receives from; none for other kinds.
    pub fn peers(&self) -> Peers {
        let half = |half: u32| if half == 0xFFFF { None } else { Some(half) };
        match self.op.kind {
            CollectiveKind::SEND => Peers { to: Some(self.param), from: None },
            CollectiveKind::RECV => Peers { to: None, from: Some(self.param) },
            CollectiveKind::SEND_RECV => Peers { to: half(self.param & 0xFFFF), from: half(self.param >> 16) },
            _ => Peers::default(),
        }
    }

    /// The operation at `rank` of `count` ranks, for ranges to send and to receive of so many bytes.
    ///
    /// The compiler of IREE 3.13 counts the elements that a gather writes, where the header of IREE, and older
    /// compilers, count those that each rank sends. Ranges of that size make no other sense, so the count is corrected.
    ///
    /// # Errors
    /// OUT_OF_RANGE for a range that is too short, and those of [`Operation::needs`].
    pub fn at(mut self, rank: u32, count: u32, send: Option<u64>, recv: Option<u64>) -> Result<Operation> {
        let (written, ranks) = (self.bytes(), u64::from(count));
        let counts_written = self.op.kind == CollectiveKind::ALL_GATHER
            && self.element_count.is_multiple_of(ranks)
            && recv == Some(written)
            && send == Some(written / ranks);
        if counts_written {
            self.element_count /= ranks;
        }
        let needs = self.needs(rank, count)?;
        for (side, given, needed) in [("send", send, needs.send), ("receive", recv, needs.recv)] {
            let Some(needed) = needed.filter(|needed| *needed > 0) else { continue };
            let length = given.unwrap_or(0);
            if length < needed {
                return Err(Status::out_of_range(format!("{self}: {length} bytes to {side}, expected {needed}")));
            }
        }
        Ok(self)
    }

    /// The bytes that it needs at `rank` of `count` ranks.
    ///
    /// # Errors
    /// INVALID_ARGUMENT for a root or peer that is no rank, or elements that cannot be divided among the ranks.
    pub fn needs(&self, rank: u32, count: u32) -> Result<Needs> {
        let is_rank = |role: &str, named: u32| {
            if named < count {
                return Ok(());
            }
            Err(Status::invalid_argument(format!("{self}: {role} {named} of {count} ranks")))
        };
        let (bytes, all) = (self.bytes(), self.bytes() * u64::from(count));
        let both = |send, recv| Needs { send: Some(send), recv: Some(recv) };
        Ok(match self.op.kind {
            CollectiveKind::ALL_GATHER => both(bytes, all),
            CollectiveKind::ALL_REDUCE => both(bytes, bytes),
            CollectiveKind::ALL_TO_ALL => {
                if !self.element_count.is_multiple_of(count.into()) {
                    let message = format!("{self}: expected a multiple of the {count} ranks");
                    return Err(Status::invalid_argument(message));
                }
                both(bytes, bytes)
            }
            CollectiveKind::BROADCAST => {
                is_rank("root", self.param)?;
                Needs { send: (rank == self.param).then_some(bytes), recv: Some(bytes) }
            }
            CollectiveKind::REDUCE => {
                is_rank("root", self.param)?;
                Needs { send: Some(bytes), recv: (rank == self.param).then_some(bytes) }
            }
            CollectiveKind::REDUCE_SCATTER => both(all, bytes),
            _ => {
                let Peers { to, from } = self.peers();
                to.map_or(Ok(()), |to| is_rank("to rank", to))?;
                from.map_or(Ok(()), |from| is_rank("from rank", from))?;
                let receives = from.is_some() || self.op.kind == CollectiveKind::SEND_RECV;
                Needs { send: to.map(|_| bytes), recv: receives.then_some(bytes) }
            }
        })
    }
}

/// Whether operations of a kind reduce.
pub fn reduces(kind: CollectiveKind) -> bool {
    matches!(kind, CollectiveKind::ALL_REDUCE | CollectiveKind::REDUCE | CollectiveKind::REDUCE_SCATTER)
}

impl fmt::Display for Operation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let CollectiveOp { kind, reduction, element_type } = self.op;
        write!(f, "{kind:?}")?;
        if reduction != CollectiveReduction::NONE {
            write!(f, " {reduction:?}")?;
        }
        write!(f, " of {} {element_type:?}", self.element_count)?;
        if self.has_root() {
            write!(f, " with root {}", self.param)?;
        }
        let Peers { to, from } = self.peers();
        to.map_or(Ok(()), |to| write!(f, " to rank {to}"))?;
        from.map_or(Ok(()), |from| write!(f, " from rank {from}"))
    }
}
