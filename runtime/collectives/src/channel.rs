//! Channels of drivers ([`GroupChannel`]), which are memberships in groups, and [`Ticket`]s for rounds of them.
//!
//! A driver takes a ticket when an operation is submitted, and arrives with it when that is ready. So the rounds of a
//! channel are in the order of submissions, whatever their operations wait for.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::hal::{Channel, ChannelFlags, ChannelRank};
use crate::late::{Former, Late};
use crate::span::Contribution;
use crate::status::{Result, Status, StatusCode};
use crate::transport::{Completion, Outcome, Transport};

/// A channel: the membership of one rank in a group. Dropping the last reference to it, and to its tickets, leaves the
/// group.
pub struct GroupChannel {
    membership: Membership,
    next_round: AtomicU64,
}

enum Membership {
    Now(Arc<dyn Transport>),
    Late(Arc<Late>),
}

/// The right to arrive at a round. Dropping it unused fails the round at all ranks.
#[derive(Debug)]
pub struct Ticket {
    /// None once it is used.
    channel: Option<Arc<GroupChannel>>,
    round: u64,
}

impl GroupChannel {
    /// A channel of a member.
    pub fn new(transport: Arc<dyn Transport>) -> Arc<GroupChannel> {
        GroupChannel::of(Membership::Now(transport))
    }

    /// A channel of a member of a group to come.
    pub(crate) fn late() -> (Arc<GroupChannel>, Former) {
        let (late, former) = Late::new();
        (GroupChannel::of(Membership::Late(late)), former)
    }

    fn of(membership: Membership) -> Arc<GroupChannel> {
        Arc::new(GroupChannel { membership, next_round: AtomicU64::new(0) })
    }

    /// Takes a ticket for the next round.
    pub fn ticket(self: &Arc<Self>) -> Ticket {
        let (channel, round) = (self.clone(), self.next());
        Ticket { channel: Some(channel), round }
    }

    fn next(&self) -> u64 {
        self.next_round.fetch_add(1, Ordering::Relaxed)
    }

    fn arrive(&self, round: u64, contribution: Contribution, completion: Completion) {
        match &self.membership {
            Membership::Now(transport) => transport.arrive(round, contribution, completion),
            Membership::Late(late) => late.arrive(round, contribution, completion),
        }
    }
}

impl Channel for GroupChannel {
    /// Returns at once. The new channel is usable from then on; its rank is known once all ranks have split.
    fn split(&self, color: i32, key: i32, _flags: ChannelFlags) -> Result<Arc<dyn Channel>> {
        let (channel, former) = GroupChannel::late();
        let completion = move |outcome: Result<Outcome>| {
            former.form(outcome.and_then(|outcome| match outcome {
                Outcome::Split(transport) => Ok(transport),
                Outcome::Done => Err(Status::internal("a split without a group")),
            }));
        };
        self.arrive(self.next(), Contribution::Split { color, key }, Box::new(completion));
        Ok(channel)
    }

    /// Of a channel that was split off: blocks until all ranks have split, at most as long as ranks wait for each
    /// other. Rank -1 of 0 ranks if it joins no group, or that failed.
    fn rank_and_count(&self) -> ChannelRank {
        match &self.membership {
            Membership::Now(transport) => transport.rank_and_count(),
            Membership::Late(late) => late.rank_and_count(),
        }
    }
}

impl Ticket {
    /// Arrives at the round. `completion` is called once it has run or failed, possibly before this returns.
    pub fn arrive(mut self, contribution: Contribution, completion: Completion) {
        if let Some(channel) = self.channel.take() {
            let holder = channel.clone();
            let completion = Box::new(move |outcome| {
                completion(outcome);
                drop(holder);
            });
            channel.arrive(self.round, contribution, completion);
        }
    }

    /// Fails the round at all ranks.
    pub fn fail(self, failure: Status) {
        self.arrive(Contribution::Failed(failure), Box::new(|_| ()));
    }

    /// Whether it is for a round of this channel.
    pub fn is_of(&self, channel: &GroupChannel) -> bool {
        self.channel.as_deref().is_some_and(|own| std::ptr::eq(own, channel))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let Some(channel) = self.channel.take() {
            let failure = Status::new(StatusCode::Aborted, "its operation was dropped before it ran");
            channel.arrive(self.round, Contribution::Failed(failure), Box::new(|_| ()));
        }
    }
}

impl fmt::Debug for GroupChannel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.membership {
            Membership::Now(transport) => write!(f, "channel({transport:?})"),
            Membership::Late(late) => write!(f, "channel({late:?})"),
        }
    }
}
