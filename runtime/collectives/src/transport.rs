//! The membership of one rank in a group ([`Transport`]). Implementations carry contributions between ranks: a table of
//! the process, or connections between processes.
//!
//! Ranks meet in *rounds*, numbered from 0 in the order in which each rank's program asks for them. A round runs once
//! all ranks have arrived at it. Arriving returns at once; the completion is called later, or by the last rank to
//! arrive, on a thread that must not be blocked.

use std::fmt::Debug;
use std::sync::Arc;

use crate::hal::ChannelRank;
use crate::span::Contribution;
use crate::status::Result;

/// The result of a round for a rank.
#[derive(Debug)]
pub enum Outcome {
    /// The operations have run.
    Done,
    /// The membership in the new group, unless the rank joins none.
    Split(Option<Arc<dyn Transport>>),
}

/// The end of a round for a rank, called once.
pub type Completion = Box<dyn FnOnce(Result<Outcome>) + Send>;

/// The membership of one rank in a group. Dropping it leaves the group; rounds at which the rank has not arrived fail
/// at all others, with its name.
pub trait Transport: Debug + Send + Sync {
    /// The rank, and the number of ranks.
    fn rank_and_count(&self) -> ChannelRank;

    /// Arrives at a round. Each round has one arrival of each rank.
    fn arrive(&self, round: u64, contribution: Contribution, completion: Completion);
}
