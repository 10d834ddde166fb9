//! The transport between ranks of one process: a table of groups by their ids, and the rounds of each group. The last
//! rank to arrive at a round runs it.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use vireo_core::timer::Timer;

use crate::agreement::{Agreed, Facts, agree, split_members};
use crate::hal::ChannelRank;
use crate::perform::perform;
use crate::span::{BoundOperation, Contribution};
use crate::status::{Result, Status, StatusCode};
use crate::transport::{Completion, Outcome, Transport};

/// The groups that ranks can join, by their ids. A rank that joins a group again joins the next one of that id.
static GROUPS: Mutex<BTreeMap<Vec<u8>, Vec<Arc<Group>>>> = Mutex::new(BTreeMap::new());

/// A group.
struct Group {
    count: u32,
    /// How long a round waits for its last rank.
    limit: Duration,
    state: Mutex<State>,
}

struct State {
    /// The ranks that joined, and whether they are still there.
    members: BTreeMap<u32, bool>,
    /// The rounds at which some ranks have arrived.
    rounds: BTreeMap<u64, Round>,
    /// The failure of a round that did not take place, which all later rounds fail with.
    failure: Option<Status>,
}

/// The arrivals at a round by rank, and the timer that ends the wait for the others.
#[derive(Default)]
struct Round {
    arrivals: BTreeMap<u32, (Contribution, Completion)>,
    timer: Option<Timer>,
}

/// The membership of a rank.
struct Member {
    group: Arc<Group>,
    rank: u32,
}

/// Ends the wait for the ranks that a round misses.
struct Expiry {
    group: Weak<Group>,
    round: u64,
}

/// Joins the group called `id` as `rank` of `count` ranks.
///
/// # Errors
/// INVALID_ARGUMENT if another rank of the group named another number of ranks.
pub(crate) fn join(id: &[u8], rank: u32, count: u32, limit: Duration) -> Result<Arc<dyn Transport>> {
    let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
    let of_id = groups.entry(id.to_vec()).or_default();
    let place = of_id.iter().position(|group| !group.lock().members.contains_key(&rank));
    let place = place.unwrap_or_else(|| {
        of_id.push(Arc::new(Group::new(count, limit)));
        of_id.len() - 1
    });
    let group = of_id[place].clone();
    if group.count != count {
        let others: Vec<String> = group.lock().members.keys().map(u32::to_string).collect();
        return Err(Status::invalid_argument(format!(
            "rank {rank} joins a group of {count} ranks, which rank {} joined as one of {} ranks",
            others.join(", "),
            group.count
        )));
    }
    let is_full = {
        let mut state = group.lock();
        state.members.insert(rank, true);
        state.members.len() == count as usize
    };
    // A full group is found through its members only, so its id can be used again.
    if is_full {
        of_id.remove(place);
        if of_id.is_empty() {
            groups.remove(id);
        }
    }
    Ok(Arc::new(Member { group, rank }))
}

impl Group {
    fn new(count: u32, limit: Duration) -> Group {
        let state = State { members: BTreeMap::new(), rounds: BTreeMap::new(), failure: None };
        Group { count, limit, state: Mutex::new(state) }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Fails the rounds that `fails` finds, at all ranks that have arrived.
    fn fail_rounds(&self, failure: &Status, fails: impl Fn(u64, &Round) -> bool) {
        let failed: Vec<Round> = {
            let mut state = self.lock();
            state.failure.get_or_insert_with(|| failure.clone());
            let numbers: Vec<u64> = state
                .rounds
                .iter()
                .filter(|(number, round)| fails(**number, round))
                .map(|(number, _)| *number)
                .collect();
            numbers.iter().filter_map(|number| state.rounds.remove(number)).collect()
        };
        // Completions run what waits for them, so the lock is not held.
        for (_, completion) in failed.into_iter().flat_map(|round| round.arrivals.into_values()) {
            completion(Err(failure.clone()));
        }
    }
}

impl Wake for Expiry {
    fn wake(self: Arc<Self>) {
        let Some(group) = self.group.upgrade() else { return };
        let missing: Vec<String> = {
            let state = group.lock();
            let Some(round) = state.rounds.get(&self.round) else { return };
            (0..group.count).filter(|rank| !round.arrivals.contains_key(rank)).map(|rank| rank.to_string()).collect()
        };
        let message = format!(
            "collective operations waited {:?} for rank {} of {} ranks",
            group.limit,
            missing.join(", "),
            group.count
        );
        let failure = Status::new(StatusCode::DeadlineExceeded, message);
        // No rank can know what the others did, so the rounds after it fail as well.
        group.fail_rounds(&failure, |number, _| number >= self.round);
    }
}

impl Transport for Member {
    fn rank_and_count(&self) -> ChannelRank {
        // Both are below the limit of ranks.
        ChannelRank { rank: self.rank as i32, count: self.group.count as i32 }
    }

    fn arrive(&self, number: u64, contribution: Contribution, completion: Completion) {
        let group = &self.group;
        let contribution = contribution.checked(self.rank, group.count);
        let mut state = group.lock();
        // A round at which a rank arrived before it left takes place.
        if let Some(failure) = state.failure.clone().filter(|_| !state.rounds.contains_key(&number)) {
            drop(state);
            return completion(Err(failure));
        }
        let round = state.rounds.entry(number).or_default();
        round.arrivals.insert(self.rank, (contribution, completion));
        if round.arrivals.len() == group.count as usize {
            let round = state.rounds.remove(&number).unwrap_or_default();
            drop(state);
            return run(round, group.limit);
        }
        if round.timer.is_some() {
            return;
        }
        let expiry = Arc::new(Expiry { group: Arc::downgrade(group), round: number });
        let timer = Instant::now().checked_add(group.limit).map(|end| Timer::start(end, Waker::from(expiry)));
        match timer.transpose() {
            Ok(timer) => round.timer = timer,
            Err(failure) => {
                drop(state);
                group.fail_rounds(&failure, |_, _| true);
            }
        }
    }
}

/// Runs a round at which all ranks have arrived, and completes it at each.
fn run(round: Round, limit: Duration) {
    let Round { arrivals, timer } = round;
    drop(timer);
    let (contributions, completions): (Vec<Contribution>, Vec<Completion>) = arrivals.into_values().unzip();
    let outcomes = outcomes(&contributions, limit);
    // A waiter that continues finds none of the buffers held.
    drop(contributions);
    match outcomes {
        Ok(outcomes) => {
            for (completion, outcome) in completions.into_iter().zip(outcomes) {
                completion(Ok(outcome));
            }
        }
        Err(failure) => completions.into_iter().for_each(|completion| completion(Err(failure.clone()))),
    }
}

fn outcomes(contributions: &[Contribution], limit: Duration) -> Result<Vec<Outcome>> {
    let facts: Vec<Facts> = contributions.iter().map(Contribution::facts).collect();
    let facts: Vec<&Facts> = facts.iter().collect();
    match agree(&facts)? {
        Agreed::Operations => {
            let ranks: Vec<&[BoundOperation]> = contributions.iter().map(Contribution::operations).collect();
            perform(&ranks)?;
            Ok(ranks.iter().map(|_| Outcome::Done).collect())
        }
        Agreed::Split(colors) => {
            let mut outcomes: Vec<Outcome> = colors.iter().map(|_| Outcome::Split(None)).collect();
            for members in split_members(&colors).into_values() {
                let group = Group::new(members.len() as u32, limit);
                group.lock().members.extend((0..group.count).map(|rank| (rank, true)));
                let group = Arc::new(group);
                for (old, rank) in members.into_iter().zip(0..) {
                    outcomes[old as usize] = Outcome::Split(Some(Arc::new(Member { group: group.clone(), rank })));
                }
            }
            Ok(outcomes)
        }
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        let rank = self.rank;
        // Dropped once the table is unlocked.
        let mut abandoned: Vec<Arc<Group>> = Vec::new();
        let all_left = {
            let mut groups = GROUPS.lock().unwrap_or_else(PoisonError::into_inner);
            let mut state = self.group.lock();
            state.members.insert(rank, false);
            let all_left = state.members.values().all(|is_there| !is_there);
            drop(state);
            if all_left {
                // Some ranks may never have joined: the next one to join begins a new group.
                groups.retain(|_, of_id| {
                    abandoned.extend(of_id.extract_if(.., |group| Arc::ptr_eq(group, &self.group)));
                    !of_id.is_empty()
                });
            }
            all_left
        };
        let message = format!("rank {rank} of {} ranks has left the group", self.group.count);
        let failure = Status::new(StatusCode::Aborted, message);
        self.group.fail_rounds(&failure, |_, round| all_left || !round.arrivals.contains_key(&rank));
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "rank {} of {} in this process", self.rank, self.group.count)
    }
}
