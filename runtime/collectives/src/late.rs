//! The membership in a group that is yet to be formed ([`Late`]): the new group of a split whose ranks have yet to
//! split. What arrives before it is formed is passed on then, so that only those who ask for the rank wait.

use std::fmt;
use std::mem;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use vireo_core::blocking;

use crate::hal::ChannelRank;
use crate::span::Contribution;
use crate::status::{Result, Status, StatusCode};
use crate::transport::{Completion, Transport};

/// A membership that may be yet to come.
pub(crate) struct Late {
    state: Mutex<State>,
    formed: Condvar,
}

enum State {
    /// The arrivals so far.
    Waiting(Vec<(u64, Contribution, Completion)>),
    /// The membership; none of a rank that joins no group.
    Formed(Result<Option<Arc<dyn Transport>>>),
}

/// The duty to say what became of the group. Dropping it without that fails the membership.
pub(crate) struct Former(Option<Arc<Late>>);

impl Late {
    /// A membership to come.
    pub(crate) fn new() -> (Arc<Late>, Former) {
        let late = Arc::new(Late { state: Mutex::new(State::Waiting(Vec::new())), formed: Condvar::new() });
        (late.clone(), Former(Some(late)))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Arrives at a round, now or once the group is formed.
    pub(crate) fn arrive(&self, round: u64, contribution: Contribution, completion: Completion) {
        let mut state = self.lock();
        let formed = match &mut *state {
            State::Waiting(arrivals) => return arrivals.push((round, contribution, completion)),
            State::Formed(formed) => formed.clone(),
        };
        drop(state);
        pass_on(&formed, round, contribution, completion);
    }

    /// The rank and the number of ranks, once the group is formed. Rank -1 of 0 ranks if the rank joins none.
    pub(crate) fn rank_and_count(&self) -> ChannelRank {
        let mut state = self.lock();
        if matches!(&*state, State::Waiting(_)) {
            // The others may run on threads of a pool that this one belongs to.
            state = blocking::wait(|| {
                let waits = |state: &mut State| matches!(state, State::Waiting(_));
                self.formed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner)
            });
        }
        match &*state {
            State::Formed(Ok(Some(transport))) => transport.rank_and_count(),
            _ => ChannelRank { rank: -1, count: 0 },
        }
    }
}

fn pass_on(
    formed: &Result<Option<Arc<dyn Transport>>>,
    round: u64,
    contribution: Contribution,
    completion: Completion,
) {
    match formed {
        Ok(Some(transport)) => transport.arrive(round, contribution, completion),
        Ok(None) => {
            completion(Err(Status::failed_precondition("the channel joins no group: it was split off with color -1")))
        }
        Err(failure) => completion(Err(failure.clone())),
    }
}

impl Former {
    /// Says what became of the group.
    pub(crate) fn form(mut self, formed: Result<Option<Arc<dyn Transport>>>) {
        if let Some(late) = self.0.take() {
            form(&late, formed);
        }
    }
}

fn form(late: &Late, formed: Result<Option<Arc<dyn Transport>>>) {
    let arrivals = mem::replace(&mut *late.lock(), State::Formed(formed.clone()));
    late.formed.notify_all();
    if let State::Waiting(arrivals) = arrivals {
        for (round, contribution, completion) in arrivals {
            pass_on(&formed, round, contribution, completion);
        }
    }
}

impl Drop for Former {
    fn drop(&mut self) {
        if let Some(late) = self.0.take() {
            form(&late, Err(Status::new(StatusCode::Aborted, "the group of the channel was never formed")));
        }
    }
}

impl fmt::Debug for Late {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.lock() {
            State::Waiting(_) => f.write_str("a rank of a group that is not formed yet"),
            State::Formed(Ok(Some(transport))) => transport.fmt(f),
            State::Formed(Ok(None)) => f.write_str("no rank"),
            State::Formed(Err(_)) => f.write_str("a rank of a group that could not be formed"),
        }
    }
}
