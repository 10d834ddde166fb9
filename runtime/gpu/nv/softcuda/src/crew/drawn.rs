//! The random order of work ([`Drawn`]), which a seed repeats: one operation after another, drawn from those that may
//! run, and only while the program waits in a call. So the order follows from the seed and from the calls alone, not
//! from how fast the program makes them.
//!
//! A call that waits has operations run until the awaited one is done, and a drawn number more; a query has a drawn
//! number of them run, perhaps none. Two exceptions keep programs from waiting for ever, and cost repetition: if the
//! program makes no call for a while, as it may poll memory or wait for a function of the host that a stream is to
//! call, all that can run does; and if an operation takes very long, others go on beside it, as it may wait for the
//! program.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use vireo_soft::clock;

use super::{Crew, IDLE, Op, POLL, Progress};
use crate::callback;

/// The time without a call after which all work goes on.
const SILENCE: Duration = Duration::from_millis(500);
/// That time while streams are to call functions of the host, for which the program may wait without a call.
const SILENCE_OF_CALLBACKS: Duration = Duration::from_millis(20);
/// The time after which others go on beside a function of the host, and beside other work.
const STUCK_CALLBACK: Duration = Duration::from_secs(1);
const STUCK: Duration = Duration::from_secs(30);
/// Operations after the awaited one at most, and those of a query.
const MOST_MORE: u64 = 3;

/// The operations that may run, and who waits for them.
#[derive(Debug)]
pub(super) struct Drawn {
    state: Mutex<State>,
    /// There is something to do, or something has been done.
    changed: Condvar,
    /// When the last call began or ended.
    last_call: AtomicU64,
    /// Calls that have begun and not ended.
    calls: AtomicUsize,
}

#[derive(Debug, Default)]
struct State {
    random: u64,
    ready: Vec<Arc<Op>>,
    /// Those that wait for memory. They are asked again after each other one.
    stalled: Vec<Arc<Op>>,
    /// The operations that calls wait for, by tickets.
    awaited: Vec<(u64, Arc<Op>)>,
    tickets: u64,
    /// Operations that are to run, whether somebody waits for them or not.
    steps: u64,
    /// All run that can, as the program makes no calls.
    is_silent: bool,
    /// The thread that takes operations; 0 for none.
    runner: u64,
    runners: u64,
    /// When it took the one that it runs.
    running: Option<Instant>,
}

impl State {
    /// A number below a limit, from SplitMix64.
    fn draw(&mut self, limit: u64) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15); // fact: of the generator of random numbers
        let mut bits = self.random;
        bits = (bits ^ bits >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9); // fact: of the generator of random numbers
        bits = (bits ^ bits >> 27).wrapping_mul(0x94d0_49bb_1331_11eb); // fact: of the generator of random numbers
        (bits ^ bits >> 31) % limit
    }

    /// Takes an operation that may run.
    fn take(&mut self) -> Option<Arc<Op>> {
        match self.ready.len() {
            0 => None,
            1 => self.ready.pop(),
            // Not `swap_remove`: the others keep the order in which they became ready.
            count => {
                let index = self.draw(count as u64) as usize;
                Some(self.ready.remove(index))
            }
        }
    }

    /// Whether somebody wants an operation to run.
    fn wants(&self) -> bool {
        !self.awaited.is_empty() || self.steps != 0 || self.is_silent
    }

    /// Whether the program may go on after `ticket`: nothing runs but for others who wait.
    fn is_over(&self, ticket: u64) -> bool {
        let is_quiet = self.running.is_none() && self.steps == 0 || !self.awaited.is_empty();
        is_quiet && self.awaited.iter().all(|(other, _)| *other != ticket)
    }
}

impl Drawn {
    pub(super) fn new(seed: u64) -> Self {
        Drawn {
            state: Mutex::new(State { random: seed, ..State::default() }),
            changed: Condvar::new(),
            last_call: AtomicU64::new(0),
            calls: AtomicUsize::new(0),
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of the program begins.
    pub(super) fn begin_call(&self) {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.last_call.store(clock::now(), Ordering::Relaxed);
    }

    /// A call of the program has ended.
    pub(super) fn end_call(&self) {
        self.last_call.store(clock::now(), Ordering::Relaxed);
        self.calls.fetch_sub(1, Ordering::Relaxed);
    }

    /// The time until the program has made no call for long.
    fn until_silence(&self) -> Duration {
        let limit = if callback::is_due() { SILENCE_OF_CALLBACKS } else { SILENCE };
        if self.calls.load(Ordering::Relaxed) != 0 {
            return limit;
        }
        let passed = clock::now().saturating_sub(self.last_call.load(Ordering::Relaxed));
        limit.saturating_sub(Duration::from_nanos(passed))
    }

    /// Adds an operation that may run.
    pub(super) fn push(&self, crew: &Arc<Crew>, op: Arc<Op>) {
        let mut state = self.state();
        state.ready.push(op);
        if state.runner == 0 {
            self.start(crew, &mut state);
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Starts a thread that takes operations.
    fn start(&self, crew: &Arc<Crew>, state: &mut State) {
        state.runners += 1;
        let (number, crew) = (state.runners, crew.clone());
        let spawned = std::thread::Builder::new().name("softcuda".to_string()).spawn(move || {
            if let Some(drawn) = &crew.drawn {
                drawn.run(&crew, number);
            }
        });
        // Without a thread, those who wait look again and start one.
        state.runner = spawned.map_or(0, |_| number);
        state.running = None;
    }

    /// Waits until an operation is done, and a drawn number of others.
    pub(super) fn wait(&self, crew: &Arc<Crew>, op: &Arc<Op>) {
        self.settle();
        let mut state = self.state();
        if op.is_done() {
            return;
        }
        state.tickets += 1;
        let ticket = state.tickets;
        state.awaited.push((ticket, op.clone()));
        self.rest(crew, state, ticket);
    }

    /// Lets a drawn number of operations run.
    pub(super) fn query(&self, crew: &Arc<Crew>) {
        self.settle();
        let mut state = self.state();
        state.steps += state.draw(MOST_MORE);
        self.rest(crew, state, 0);
    }

    /// Lets operations run until `is_room`.
    pub(super) fn make_room(&self, crew: &Arc<Crew>, is_room: impl Fn() -> bool) {
        // An operation that waits for memory leaves the others to run, so this ends unless all of them wait.
        while !is_room() {
            let mut state = self.state();
            state.steps += 1;
            self.rest(crew, state, 0);
            if self.state().ready.is_empty() && !is_room() {
                std::thread::sleep(POLL);
            }
        }
    }

    /// Waits until the work that goes on as the program made no call is done, so that the order does not depend on when
    /// the next call comes; not for ever, as that work may wait for the program.
    pub(super) fn settle(&self) {
        let mut state = self.state();
        let deadline = Instant::now() + SILENCE;
        while state.is_silent && state.running.is_some_and(|since| since.elapsed() < SILENCE) && !callback::is_running()
        {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Waits until what was asked for has been done, and starts another thread if the one that does it is stuck.
    fn rest(&self, crew: &Arc<Crew>, mut state: MutexGuard<'_, State>, ticket: u64) {
        self.changed.notify_all();
        while !state.is_over(ticket) {
            let limit = if callback::is_running() { STUCK_CALLBACK } else { STUCK };
            let is_stuck = state.running.is_some_and(|since| since.elapsed() > limit);
            if state.runner == 0 || is_stuck {
                self.start(crew, &mut state);
            }
            let waited = self.changed.wait_timeout(state, STUCK_CALLBACK / 4);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The loop of a thread that takes operations.
    fn run(&self, crew: &Arc<Crew>, number: u64) {
        let mut state = self.state();
        loop {
            // Another thread has taken over.
            if state.runner != number {
                return;
            }
            if !state.wants() {
                let is_empty = state.ready.is_empty() && state.stalled.is_empty();
                let waits = if is_empty { IDLE } else { self.until_silence() };
                let waited = self.changed.wait_timeout(state, waits.max(POLL));
                let (again, result) = waited.unwrap_or_else(PoisonError::into_inner);
                state = again;
                if state.runner != number || state.wants() || !result.timed_out() {
                    continue;
                }
                if is_empty {
                    state.runner = 0;
                    return;
                }
                state.is_silent = self.until_silence().is_zero() && self.calls.load(Ordering::Relaxed) == 0;
                continue;
            }
            let taken = state.take();
            let is_alone = taken.is_none();
            let mut batch: Vec<Arc<Op>> = taken.into_iter().collect();
            if is_alone {
                // Operations that wait for memory may wait for the program, which has to go on.
                (state.steps, state.is_silent) = (0, false);
                batch = std::mem::take(&mut state.stalled);
            }
            if batch.is_empty() {
                if state.awaited.is_empty() {
                    self.changed.notify_all();
                    continue;
                }
                let waited = self.changed.wait_timeout(state, POLL * 20);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
                continue;
            }
            state.running = Some(Instant::now());
            drop(state);
            let mut has_progress = false;
            for op in batch {
                match crew.perform(&op) {
                    Progress::Done => has_progress = true,
                    Progress::Waiting => self.state().stalled.push(op),
                }
            }
            if is_alone && !has_progress {
                std::thread::sleep(POLL);
            }
            state = self.state();
            if state.runner == number {
                state.running = None;
            }
            if has_progress {
                let stalled = std::mem::take(&mut state.stalled);
                if !is_alone {
                    state.steps = state.steps.saturating_sub(1);
                }
                // They are drawn again, since what they wait for may be there now.
                state.ready.extend(stalled);
            }
            let before = state.awaited.len();
            state.awaited.retain(|(_, op)| !op.is_done());
            if state.awaited.len() != before {
                state.steps += state.draw(MOST_MORE + 1);
            }
            self.changed.notify_all();
        }
    }
}
