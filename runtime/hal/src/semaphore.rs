//! Timeline semaphores in host memory ([`HostSemaphore`]). Devices of the host create them, queues and fences wait for
//! them.
//!
//! A timeline stores the first failure and hands it to every subscriber, so that all of them see the root cause. A
//! timeline that is dropped before it reaches a point fails the subscribers of that point: nothing waits for what
//! cannot happen.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::task::Waker;
use std::thread;
use std::time::Instant;

use super::recycle::{MAX_FREE, Unshared, free_list};
use super::{SEMAPHORE_MAX_VALUE, Semaphore, Timepoint};
use crate::blocking;
use crate::limits::scope::{self, Scope};
use crate::status::{Result, Status, StatusCode};

free_list! { static TIMELINES: Unshared<HostSemaphore>, MAX_FREE }

/// A timeline that starts at `initial_value`, from the free list if it has one.
pub fn timeline(initial_value: u64) -> Arc<dyn Semaphore> {
    if let Some(mut unused) = TIMELINES.pop(0) {
        unused.start_at(initial_value);
        return unused.into_shared();
    }
    Arc::new(HostSemaphore::new(initial_value))
}

type Callback = Box<dyn FnOnce(Result<()>) + Send>;

/// A subscriber to points of timelines. One object may subscribe to several points, where callbacks would need memory
/// for each.
pub trait Subscriber: Send + Sync {
    /// One of the points was reached, or its timeline failed. Called on the thread that signals, so it must not block.
    fn notified(self: Arc<Self>, outcome: Result<()>);
}

/// Subscribes to a point: notified once, at once if it is reached already.
pub fn subscribe(point: &Timepoint, subscriber: Arc<dyn Subscriber>) {
    let any: &dyn Any = &*point.semaphore;
    match any.downcast_ref::<HostSemaphore>() {
        Some(timeline) => timeline.add_subscription(point.value, Subscription::Subscriber(subscriber)),
        None => point.semaphore.notify(point.value, Box::new(move |outcome| subscriber.notified(outcome))),
    }
}

enum Subscription {
    Subscriber(Arc<dyn Subscriber>),
    Callback(Callback),
}

impl Subscription {
    fn notified(self, outcome: Result<()>) {
        match self {
            Subscription::Subscriber(subscriber) => subscriber.notified(outcome),
            Subscription::Callback(callback) => callback(outcome),
        }
    }
}

/// The first panic of several subscribers: it is passed on once all of them were notified.
#[derive(Default)]
struct FirstPanic(Option<Box<dyn Any + Send>>);

impl FirstPanic {
    fn notify(&mut self, subscription: Subscription, outcome: Result<()>) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| subscription.notified(outcome))) {
            self.0.get_or_insert(panic);
        }
    }

    fn pass_on(self) {
        // A second panic while the thread unwinds would end the process.
        if let Some(panic) = self.0
            && !thread::panicking()
        {
            resume_unwind(panic);
        }
    }
}

/// A recycled timeline drops memory for more subscriptions than this.
const MAX_RECYCLED_SUBSCRIPTIONS: usize = 64;

/// The payload of a timeline that failed, which no signal can reach.
const FAILED: u64 = u64::MAX;

const _: () = assert!(SEMAPHORE_MAX_VALUE < FAILED);

/// A timeline in host memory.
///
/// Reading the payload and advancing it take no lock. Waiters and signals are ordered by sequentially consistent
/// operations: a waiter first increments `waiters` and then reads the payload; a signal first writes the payload and
/// then reads `waiters`. So either the waiter sees the new payload and does not wait, or the signal sees the waiter,
/// takes the lock under which the waiter did both, and finds it subscribed or blocked. Neither can miss the other.
///
/// It has cache lines of its own, because programs make and signal one at each call, and what other threads read may
/// lie beside it.
#[repr(align(64))]
pub struct HostSemaphore {
    /// Only grows; [`FAILED`] is its last value.
    payload: AtomicU64,
    /// Number of subscriptions and blocked threads. Changes only under the lock.
    waiters: AtomicU32,
    /// Set, under the lock, before the payload is [`FAILED`].
    failure: OnceLock<Status>,
    wait_list: Mutex<WaitList>,
    changed: Condvar,
}

#[derive(Default)]
struct WaitList {
    /// Sorted by the value that is waited for, in order of arrival among equals.
    subscriptions: VecDeque<(u64, Subscription)>,
    /// Threads that block. Waking costs a system call, which is saved if there are none.
    blocked_threads: usize,
}

impl Default for HostSemaphore {
    fn default() -> HostSemaphore {
        HostSemaphore::new(0)
    }
}

impl HostSemaphore {
    /// A timeline with this payload.
    pub fn new(initial_value: u64) -> HostSemaphore {
        HostSemaphore {
            payload: AtomicU64::new(initial_value),
            waiters: AtomicU32::new(0),
            failure: OnceLock::new(),
            wait_list: Mutex::default(),
            changed: Condvar::new(),
        }
    }

    /// Fails the remaining subscribers, whose points nothing can reach any more, and resets the timeline for its next
    /// use.
    pub(super) fn reset(&mut self) {
        self.abandon();
        *self.payload.get_mut() = 0;
        *self.waiters.get_mut() = 0;
        self.failure.take();
        let wait_list = self.wait_list.get_mut().unwrap_or_else(PoisonError::into_inner);
        if wait_list.subscriptions.capacity() > MAX_RECYCLED_SUBSCRIPTIONS {
            wait_list.subscriptions = VecDeque::new();
        }
    }

    /// Sets the payload of an unused timeline.
    pub(super) fn start_at(&mut self, initial_value: u64) {
        *self.payload.get_mut() = initial_value;
    }

    fn abandon(&mut self) {
        if *self.waiters.get_mut() == 0 {
            return;
        }
        let wait_list = self.wait_list.get_mut().unwrap_or_else(PoisonError::into_inner);
        let mut panics = FirstPanic::default();
        for (value, subscription) in wait_list.subscriptions.drain(..) {
            let payload = *self.payload.get_mut();
            let message = format!("the timeline went away at {payload} before it reached {value}");
            panics.notify(subscription, Err(Status::new(StatusCode::Aborted, message)));
        }
        panics.pass_on();
    }

    fn lock(&self) -> MutexGuard<'_, WaitList> {
        // The state is consistent whenever the lock is released: callbacks run without it.
        self.wait_list.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The failure, if `payload` is [`FAILED`]. A timeline that was created with that payload has none.
    fn failure(&self, payload: u64) -> Option<&Status> {
        if payload == FAILED { self.failure.get() } else { None }
    }

    /// The outcome of waiting for `value`; none if the timeline is not there yet.
    #[inline]
    fn outcome(&self, value: u64) -> Option<Result<()>> {
        let payload = self.payload.load(Ordering::SeqCst);
        match self.failure(payload) {
            Some(failure) => Some(Err(failure.clone())),
            None => (payload >= value).then_some(Ok(())),
        }
    }

    /// Notifies the subscribers of values up to `reached`, and wakes blocked threads. Called after the payload changed.
    fn notify_reached<'a>(&'a self, mut wait_list: MutexGuard<'a, WaitList>, reached: u64, outcome: &Result<()>) {
        let mut blocked_threads = wait_list.blocked_threads > 0;
        let mut panics = FirstPanic::default();
        // The payload has changed, so no more subscriptions to such values are added and this ends.
        loop {
            let is_due = wait_list.subscriptions.front().is_some_and(|(value, _)| *value <= reached);
            let next = if is_due { wait_list.subscriptions.pop_front() } else { None };
            self.waiters.fetch_sub(next.is_some().into(), Ordering::SeqCst);
            drop(wait_list);
            if std::mem::take(&mut blocked_threads) {
                self.changed.notify_all();
            }
            let Some((_, subscription)) = next else { return panics.pass_on() };
            panics.notify(subscription, outcome.clone());
            wait_list = self.lock();
        }
    }

    /// Adds a subscription, or notifies it at once if the outcome is known.
    fn add_subscription(&self, value: u64, subscription: Subscription) {
        if let Some(outcome) = self.outcome(value) {
            return subscription.notified(outcome);
        }
        let mut wait_list = self.lock();
        self.waiters.fetch_add(1, Ordering::SeqCst);
        if let Some(outcome) = self.outcome(value) {
            self.waiters.fetch_sub(1, Ordering::SeqCst);
            drop(wait_list);
            return subscription.notified(outcome);
        }
        let index = wait_list.subscriptions.partition_point(|(other, _)| *other <= value);
        wait_list.subscriptions.insert(index, (value, subscription));
    }

    /// Removes the subscription of a subscriber to a value.
    pub(crate) fn unsubscribe(&self, value: u64, subscriber: *const ()) {
        if self.waiters.load(Ordering::SeqCst) == 0 {
            return;
        }
        let mut wait_list = self.lock();
        let first = wait_list.subscriptions.partition_point(|(other, _)| *other < value);
        let is_of_subscriber = |subscription: &Subscription| match subscription {
            Subscription::Subscriber(other) => Arc::as_ptr(other).cast() == subscriber,
            Subscription::Callback(_) => false,
        };
        let mut same = wait_list.subscriptions.range(first..).take_while(|(other, _)| *other == value);
        let Some(offset) = same.position(|(_, subscription)| is_of_subscriber(subscription)) else { return };
        let subscription = wait_list.subscriptions.remove(first + offset);
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        drop(wait_list);
        drop(subscription);
    }

    #[cold]
    fn refuse(&self, payload: u64, value: u64) -> Status {
        match self.failure(payload) {
            Some(failure) => failure.clone(),
            None => Status::invalid_argument(format!(
                "cannot signal {value}: the timeline is at {payload} and only advances"
            )),
        }
    }

    /// [`Semaphore::wait`] for a value that is not reached yet.
    #[cold]
    fn wait_blocking(&self, value: u64, deadline: Option<Instant>) -> Result<()> {
        let mut wait_list = self.lock();
        wait_list.blocked_threads += 1;
        self.waiters.fetch_add(1, Ordering::SeqCst);
        let outcome = loop {
            if let Some(outcome) = self.outcome(value) {
                break outcome;
            }
            let Ok(woken) = block(&self.changed, wait_list, deadline) else {
                wait_list = self.lock();
                break Err(too_late(value));
            };
            wait_list = woken;
        };
        wait_list.blocked_threads -= 1;
        self.waiters.fetch_sub(1, Ordering::SeqCst);
        outcome
    }

    /// The same on behalf of a call with limits, which end the wait.
    #[cold]
    fn wait_within(&self, value: u64, deadline: Option<Instant>) -> Result<()> {
        let scope = Scope::current();
        let Some(limits) = scope.limits() else { return blocking::wait(|| self.wait_blocking(value, deadline)) };
        let begin = |waker: &Waker| {
            let subscriber = Arc::new(BlockedThread(waker.clone()));
            self.add_subscription(value, Subscription::Subscriber(subscriber.clone()));
            Ok(Subscribed { timeline: self, value, subscriber })
        };
        blocking::wait_within(limits, deadline, begin, || self.outcome(value))?.unwrap_or_else(|| Err(too_late(value)))
    }
}

fn too_late(value: u64) -> Status {
    Status::new(StatusCode::DeadlineExceeded, format!("the timeline did not reach {value} in time"))
}

/// A thread that waits on behalf of a call.
struct BlockedThread(Waker);

impl Subscriber for BlockedThread {
    fn notified(self: Arc<Self>, _outcome: Result<()>) {
        self.0.wake_by_ref();
    }
}

/// The subscription of such a thread, until this is dropped.
struct Subscribed<'a> {
    timeline: &'a HostSemaphore,
    value: u64,
    subscriber: Arc<BlockedThread>,
}

impl Drop for Subscribed<'_> {
    fn drop(&mut self) {
        self.timeline.unsubscribe(self.value, Arc::as_ptr(&self.subscriber).cast());
    }
}

impl Semaphore for HostSemaphore {
    fn query(&self) -> Result<u64> {
        let payload = self.payload.load(Ordering::SeqCst);
        self.failure(payload).map_or(Ok(payload), |failure| Err(failure.clone()))
    }

    fn signal(&self, value: u64) -> Result<()> {
        let mut payload = self.payload.load(Ordering::SeqCst);
        loop {
            if value <= payload || value > SEMAPHORE_MAX_VALUE {
                return Err(self.refuse(payload, value));
            }
            match self.payload.compare_exchange_weak(payload, value, Ordering::SeqCst, Ordering::SeqCst) {
                Ok(_) => break,
                Err(other) => payload = other,
            }
        }
        if self.waiters.load(Ordering::SeqCst) > 0 {
            self.notify_reached(self.lock(), value, &Ok(()));
        }
        Ok(())
    }

    fn fail(&self, status: Status) {
        let wait_list = self.lock();
        if self.failure.set(status.clone()).is_err() {
            return;
        }
        self.payload.store(FAILED, Ordering::SeqCst);
        self.notify_reached(wait_list, u64::MAX, &Err(status));
    }

    fn wait(&self, value: u64, deadline: Option<Instant>) -> Result<()> {
        match self.outcome(value) {
            Some(outcome) => outcome,
            None if scope::is_armed() => self.wait_within(value, deadline),
            None => blocking::wait(|| self.wait_blocking(value, deadline)),
        }
    }

    fn notify(&self, value: u64, callback: Callback) {
        self.add_subscription(value, Subscription::Callback(callback));
    }

    fn recycle(self: Arc<Self>) {
        let Some(mut unused) = Unshared::new(self) else { return };
        // Resetting runs code of subscribers, so no free list is borrowed meanwhile.
        unused.reset();
        TIMELINES.push(0, unused);
    }
}

impl Drop for HostSemaphore {
    fn drop(&mut self) {
        self.abandon();
    }
}

impl fmt::Debug for HostSemaphore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.query() {
            Ok(payload) => write!(f, "semaphore({payload})"),
            Err(failure) => write!(f, "semaphore(failed: {failure})"),
        }
    }
}

/// Waits for the condition variable, or fails once the deadline has passed.
pub(crate) fn block<'a, T>(
    condition: &Condvar,
    guard: MutexGuard<'a, T>,
    deadline: Option<Instant>,
) -> std::result::Result<MutexGuard<'a, T>, ()> {
    let Some(deadline) = deadline else {
        return Ok(condition.wait(guard).unwrap_or_else(PoisonError::into_inner));
    };
    let left = deadline.checked_duration_since(Instant::now()).filter(|left| !left.is_zero()).ok_or(())?;
    Ok(condition.wait_timeout(guard, left).unwrap_or_else(PoisonError::into_inner).0)
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::sync::atomic::AtomicUsize;
    use std::time::Duration;

    use super::*;
    use crate::{MultiWait, wait_all};

    #[test]
    fn a_wait_that_ends_early_removes_its_subscriptions() {
        let lines: [Arc<HostSemaphore>; 2] = std::array::from_fn(|_| Arc::new(HostSemaphore::new(0)));
        let point = |line: usize, value| Timepoint { semaphore: lines[line].clone(), value };
        let points = [point(0, 5), point(1, 5), point(0, 5), point(0, 7)];
        let waiters = || lines.each_ref().map(|line| line.waiters.load(Ordering::SeqCst));
        let notified = Arc::new(AtomicUsize::new(0));
        let subscription = notified.clone();
        lines[0].notify(5, Box::new(move |_| subscription.store(1, Ordering::Relaxed)));
        let other = MultiWait::new(&points[..1]);
        let copy = other.clone();
        assert_eq!(waiters(), [2, 0]);
        // Its time is up.
        assert!(wait_all(&points, Some(Instant::now())).is_err());
        assert_eq!(waiters(), [2, 0]);
        let any = MultiWait::any(&points);
        assert_eq!(waiters(), [5, 1]);
        // Another point was reached.
        lines[1].signal(5).expect("advances");
        any.wait(None).expect("reached");
        drop(any);
        assert_eq!(waiters(), [2, 0]);
        drop(copy);
        assert_eq!(waiters(), [2, 0]);
        lines[0].signal(6).expect("advances");
        other.wait(None).expect("reached");
        assert_eq!((waiters(), notified.load(Ordering::Relaxed)), ([0, 0], 1));
    }

    /// Each round, threads wait in every way while others signal: a thread that misses a signal waits for ever.
    #[test]
    fn waiters_and_signals_that_meet_do_not_miss_each_other() {
        const ROUNDS: u64 = 2000;
        let semaphore = Arc::new(HostSemaphore::new(0));
        let called = Arc::new(AtomicUsize::new(0));
        let barrier = Barrier::new(3);
        let in_time = || Some(Instant::now() + Duration::from_secs(60));
        thread::scope(|scope| {
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    barrier.wait();
                    semaphore.wait(round, in_time()).expect("signaled");
                }
            });
            scope.spawn(|| {
                for round in 1..=ROUNDS {
                    barrier.wait();
                    let called = called.clone();
                    semaphore.notify(
                        round,
                        Box::new(move |outcome| {
                            outcome.expect("signaled");
                            called.fetch_add(1, Ordering::Relaxed);
                        }),
                    );
                }
            });
            for round in 1..=ROUNDS {
                barrier.wait();
                semaphore.signal(round).expect("advances");
            }
        });
        assert_eq!(called.load(Ordering::Relaxed), ROUNDS as usize);
        assert_eq!(semaphore.waiters.load(Ordering::SeqCst), 0);
    }

    #[test]
    fn a_failure_that_meets_signals_and_waiters_reaches_all_of_them() {
        for _ in 0..500 {
            let semaphore = Arc::new(HostSemaphore::new(0));
            let notified = Arc::new(AtomicUsize::new(0));
            thread::scope(|scope| {
                scope.spawn(|| semaphore.fail(Status::internal("the cause")));
                scope.spawn(|| {
                    let notified = notified.clone();
                    semaphore.notify(
                        9,
                        Box::new(move |outcome| {
                            assert!(outcome.expect_err("never reached").to_string().contains("the cause"));
                            notified.fetch_add(1, Ordering::Relaxed);
                        }),
                    );
                });
                scope.spawn(|| (1..9).find(|value| semaphore.signal(*value).is_err()));
                let deadline = Instant::now() + Duration::from_secs(60);
                let failure = semaphore.wait(9, Some(deadline)).expect_err("never reached");
                assert!(failure.to_string().contains("the cause"));
            });
            assert_eq!(notified.load(Ordering::Relaxed), 1);
            assert!(semaphore.query().is_err() && semaphore.signal(100).is_err());
        }
    }

    #[test]
    fn callbacks_come_by_value_then_in_order_of_arrival() {
        let semaphore = HostSemaphore::new(0);
        let order = Arc::new(Mutex::new(Vec::new()));
        for (name, value) in [("c", 2), ("a", 1), ("e", 3), ("d", 2), ("b", 1)] {
            let order = order.clone();
            semaphore.notify(value, Box::new(move |_| order.lock().expect("not poisoned").push(name)));
        }
        semaphore.signal(2).expect("advances");
        assert_eq!(*order.lock().expect("not poisoned"), ["a", "b", "c", "d"]);
        drop(semaphore);
        assert_eq!(*order.lock().expect("not poisoned"), ["a", "b", "c", "d", "e"]);
    }

    #[test]
    fn any_payload_to_begin_with_is_no_failure() {
        let semaphore = HostSemaphore::new(u64::MAX);
        assert_eq!(semaphore.query().expect("did not fail"), u64::MAX);
        assert!(semaphore.signal(1).is_err());
        semaphore.wait(5, None).expect("reached");
    }

    #[test]
    fn a_callback_that_panics_keeps_no_other_from_being_called() {
        let line = HostSemaphore::new(0);
        let called = Arc::new(AtomicUsize::new(0));
        for index in 0..3 {
            let called = called.clone();
            let callback = move |_| {
                called.fetch_add(1, Ordering::SeqCst);
                assert!(index != 0, "on purpose");
            };
            line.notify(1, Box::new(callback));
        }
        let signaled = catch_unwind(AssertUnwindSafe(|| line.signal(1)));
        assert!(signaled.is_err(), "who signals learns of it");
        assert_eq!((called.load(Ordering::SeqCst), line.query().expect("it did not fail")), (3, 1));
    }
}
