//! The way into a queue: what a submission waits for is sorted into what packets wait for, what is known to be over, and what the host has to wait
//! for; then it is admitted. A submission that the host has to hold back is owned by the timelines that it waits for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex, PoisonError};

use super::admission::{Reclaim, Submission};
use super::completion::complete;
use super::core::{Hold, QueueCore, SubmissionPoint};
use super::host_worker::HostWorkers;
use crate::command_buffer::Program;
use crate::hal::timepoints::signal_all;
use crate::hal::{BufferBinding, Timepoint};
use crate::limits::scope::{self, Scope};
use crate::limits::{Charge, OBJECT_BYTES};
use crate::semaphore::own;
use crate::status::{Result, Status, StatusCode};

/// What the host does on behalf of a queue; it gets the points that are signaled afterwards.
pub(crate) type HostAction = Box<dyn FnOnce(&[Timepoint]) -> Result<()> + Send>;

/// What a submission does.
pub(crate) enum Payload {
    /// Nothing: it only orders others.
    Barrier,
    /// Runs a program with a binding table.
    Program(Arc<Program>, Vec<BufferBinding>),
    /// Something on a thread of the host, once all points are reached.
    Host(HostAction, Arc<HostWorkers>),
}

/// What the packets of a submission do.
#[derive(Clone, Copy)]
pub(crate) enum Work<'a> {
    /// Nothing: it only orders others.
    Barrier,
    /// Runs a program with a binding table.
    Program(&'a Arc<Program>, &'a [BufferBinding]),
}

/// A submission that owns all it needs.
pub(crate) struct Request {
    /// The points it waits for.
    pub(crate) wait: Vec<Timepoint>,
    /// The points it signals.
    pub(crate) signal: Vec<Timepoint>,
    /// What it does.
    pub(crate) payload: Payload,
    /// What is done once it has completed, before the points are signaled.
    pub(crate) reclaim: Option<Reclaim>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request({} waits, {} signals)", self.wait.len(), self.signal.len())
    }
}

impl Request {
    /// Ends it without running it.
    fn end(self, outcome: Result<()>) {
        let Request { signal, reclaim, .. } = self;
        complete(Box::new(Submission { signal, reclaim, ..Submission::default() }), outcome);
    }
}

/// Something that waits for points on the host: a submission that is held back, or one that is complete but for its points.
struct Parked<T> {
    /// The limits of the call that it is from.
    scope: Scope,
    /// Its memory, charged to that call.
    _charge: Charge,
    /// How many points are not reached yet, and what waits, with its queue, until it is taken.
    state: Mutex<(usize, Option<(Hold, T)>)>,
}

/// Something that became ready, with the outcome of what it waited for.
pub(super) enum Ready {
    /// To be submitted.
    Request(Request),
    /// To be completed.
    Submission(Box<Submission>),
}

impl From<Request> for Ready {
    fn from(request: Request) -> Ready {
        Ready::Request(request)
    }
}

impl From<Box<Submission>> for Ready {
    fn from(submission: Box<Submission>) -> Ready {
        Ready::Submission(submission)
    }
}

impl Ready {
    fn run(self, queue: &Arc<QueueCore>, outcome: Result<()>) {
        match (self, outcome) {
            (Ready::Request(request), Ok(())) => queue.submit(request),
            (Ready::Request(request), Err(failure)) => request.end(Err(failure)),
            (Ready::Submission(submission), outcome) => queue.recycle(complete(submission, outcome)),
        }
    }
}

/// What became ready of which queue, with the limits of its call.
type ReadyQueue = VecDeque<(Hold, Ready, Scope, Result<()>)>;

thread_local! {
    /// What became ready while the thread dealt with something else that did; none if it does not.
    static READY: RefCell<Option<ReadyQueue>> = const { RefCell::new(None) };
}

/// Deals with something that became ready, and with what becomes ready by it, one after the other: chains of any length need no stack.
fn run_ready(ready: (Hold, Ready, Scope, Result<()>)) {
    let mut next = Some(ready);
    let is_running = READY.with_borrow_mut(|queue| match queue {
        Some(queue) => {
            queue.extend(next.take());
            true
        }
        None => {
            *queue = Some(VecDeque::new());
            false
        }
    });
    if is_running {
        return;
    }
    while let Some((queue, ready, scope, outcome)) = next.take() {
        let _entered = scope.enter();
        ready.run(&queue, outcome);
        next = READY.with_borrow_mut(|queue| queue.as_mut().and_then(VecDeque::pop_front));
    }
    READY.with_borrow_mut(|queue| *queue = None);
}

impl<T: Into<Ready>> Parked<T> {
    /// One of the points was reached, or failed.
    fn notified(self: &Arc<Self>, outcome: Result<()>) {
        let parked = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 -= 1;
            match (&outcome, state.0) {
                (Err(_), _) | (Ok(()), 0) => state.1.take(),
                (Ok(()), _) => None,
            }
        };
        if let Some((queue, parked)) = parked {
            run_ready((queue, parked.into(), self.scope.clone(), outcome));
        }
    }
}

impl QueueCore {
    /// Submits. Failures go to the points that the request signals.
    pub(crate) fn submit(self: &Arc<Self>, request: Request) {
        let Request { wait, signal, payload, reclaim } = request;
        match payload {
            Payload::Barrier => self.submit_work((&wait, &signal), Work::Barrier, reclaim),
            Payload::Program(program, table) => {
                self.submit_work((&wait, &signal), Work::Program(&program, &table), reclaim);
            }
            Payload::Host(action, workers) => {
                let points = match scope::check().and_then(|()| unreached(&wait)) {
                    Ok(points) => points,
                    Err(failure) => {
                        return Request { wait, signal, payload: Payload::Barrier, reclaim }.end(Err(failure));
                    }
                };
                if !points.is_empty() {
                    let payload = Payload::Host(action, workers);
                    return self.park(Request { wait: Vec::new(), signal, payload, reclaim }, points);
                }
                run_on_host(Hold::new(self), action, &workers, signal, reclaim);
            }
        }
    }

    /// Submits work of packets. Failures go to the points that it signals.
    pub(crate) fn submit_work(
        self: &Arc<Self>,
        (wait, signal): (&[Timepoint], &[Timepoint]),
        work: Work<'_>,
        reclaim: Option<Reclaim>,
    ) {
        let mut submission = self.new_submission();
        submission.signal.extend_from_slice(signal);
        submission.reclaim = reclaim;
        let host = match scope::check().and_then(|()| self.sort(wait, &mut submission)) {
            Ok(host) => host,
            Err(failure) => return self.recycle(complete(submission, Err(failure))),
        };
        if !host.is_empty() {
            let payload = match work {
                Work::Barrier => Payload::Barrier,
                Work::Program(program, table) => Payload::Program(program.clone(), table.to_vec()),
            };
            let Submission { signal, waits, reclaim, .. } = *submission;
            return self.park(Request { wait: waits, signal, payload, reclaim }, host);
        }
        match work {
            // Nothing to wait for and nothing to run: the host can signal at once.
            Work::Barrier if submission.waits.is_empty() => return self.recycle(complete(submission, Ok(()))),
            Work::Barrier => {}
            Work::Program(program, table) => match program.resolve(table, &mut submission.resolved) {
                Ok(()) if !submission.resolved.reached_by.contains(self.agent.mask()) => {
                    let agent = &self.agent;
                    let message = format!("{agent:?} may not access the memory of a buffer: it is of another device");
                    submission.failure = Some(Status::invalid_argument(message));
                }
                Ok(()) => submission.program = Some(program.clone()),
                Err(status) => submission.failure = Some(status),
            },
        }
        self.admit(submission);
    }

    /// Sorts the points of a submission into what packets wait for and what is known to be over; returns those that the host waits for.
    fn sort(&self, points: &[Timepoint], submission: &mut Submission) -> Result<Vec<Timepoint>> {
        let mut host = Vec::new();
        for point in points {
            if point.semaphore.query()? >= point.value {
                continue;
            }
            match own::<SubmissionPoint>(point).and_then(|own| own.pending(point.value)) {
                // What comes later in a queue begins after all that came before.
                Some(other) if other.queue.id == self.id => submission.waits.push(point.clone()),
                Some(other) if other.queue.completed() >= other.epoch => submission.waits.push(point.clone()),
                // Packets wait for signals of their own library only.
                Some(other) if self.waits_on_device() && Arc::ptr_eq(self.hsa(), other.queue.hsa()) => {
                    submission.waits.push(point.clone());
                    submission.device.push(other);
                }
                _ => host.push(point.clone()),
            }
        }
        Ok(host)
    }

    /// Holds a request or a submission back until `points` are reached. It keeps the timelines of the others alone: those that it is notified by
    /// own it, and what nothing else refers to will never be reached.
    pub(super) fn park<T: Into<Ready> + Send + 'static>(self: &Arc<Self>, parked: T, points: Vec<Timepoint>) {
        let parked = Arc::new(Parked {
            scope: Scope::current(),
            _charge: Charge::of_call_anyway((2 + points.len() as u64) * OBJECT_BYTES),
            state: Mutex::new((points.len(), Some((Hold::new(self), parked)))),
        });
        for point in points {
            let parked = parked.clone();
            point.semaphore.notify(point.value, Box::new(move |outcome| parked.notified(outcome)));
        }
    }
}

/// The points that are not reached yet.
pub(super) fn unreached(points: &[Timepoint]) -> Result<Vec<Timepoint>> {
    let mut left = Vec::new();
    for point in points {
        if point.semaphore.query()? < point.value {
            left.push(point.clone());
        }
    }
    Ok(left)
}

/// Runs an action on a thread, and signals its points. The action may submit to the queue.
fn run_on_host(
    queue: Hold,
    action: HostAction,
    workers: &HostWorkers,
    signal: Vec<Timepoint>,
    reclaim: Option<Reclaim>,
) {
    let points = signal.clone();
    let work = move || {
        let _queue = queue;
        // A panic must not leave the points to nobody.
        let outcome = catch_unwind(AssertUnwindSafe(|| action(&signal)))
            .unwrap_or_else(|_| Err(Status::internal("an operation of the queue panicked")));
        if outcome.as_ref().is_err_and(|status| status.code() == StatusCode::Deferred) {
            return;
        }
        complete(Box::new(Submission { signal, reclaim, ..Submission::default() }), outcome);
    };
    if let Err(status) = workers.run(work) {
        signal_all(&points, Err(status));
    }
}

/// A failure that is known before anything is submitted: to the points, or to the caller if there are none.
pub(crate) fn refuse(signal: &[Timepoint], status: Status) -> Result<()> {
    if signal.is_empty() {
        return Err(status);
    }
    signal_all(signal, Err(status));
    Ok(())
}
