//! The way into a queue: what a submission waits for is sorted into what packets wait for, what is known to be over, and what the host has to wait
//! for; then it is admitted. A submission that the host has to hold back is owned by the timelines that it waits for.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::completion::complete;
use super::core::{Admission, Completion, QueueCore, SubmissionPoint};
use super::host_worker::HostWorkers;
use crate::command_buffer::Program;
use crate::hal::timepoints::signal_all;
use crate::hal::{BufferBinding, Timepoint};
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

/// A submission.
pub(crate) struct Request {
    /// The points it waits for.
    pub(crate) wait: Vec<Timepoint>,
    /// The points it signals.
    pub(crate) signal: Vec<Timepoint>,
    /// What it does.
    pub(crate) payload: Payload,
    /// What is done once it has completed, before the points are signaled.
    pub(crate) reclaim: Option<Box<dyn FnOnce() -> Result<()> + Send>>,
}

impl fmt::Debug for Request {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request({} waits, {} signals)", self.wait.len(), self.signal.len())
    }
}

/// What a submission waits for.
#[derive(Default)]
struct Waits {
    /// Submissions that packets wait for.
    device: Vec<SubmissionPoint>,
    /// Points that have not been signaled, but will have been when packets run: a failure there fails the submission.
    pending: Vec<Timepoint>,
    /// Points that the host waits for.
    host: Vec<Timepoint>,
}

impl Request {
    /// Ends it without running it.
    fn end(self, outcome: Result<()>) {
        let Request { signal, reclaim, .. } = self;
        complete(Completion { signal, reclaim, ..Completion::default() }, outcome);
    }
}

/// A submission that the host holds back.
struct Parked {
    queue: Arc<QueueCore>,
    /// How many points are not reached yet, and the request until it is taken.
    state: Mutex<(usize, Option<Request>)>,
}

/// Something that became ready.
type Ready = (Arc<QueueCore>, Request, Result<()>);

thread_local! {
    /// What became ready while the thread dealt with something else that did; none if it does not.
    static READY: RefCell<Option<VecDeque<Ready>>> = const { RefCell::new(None) };
}

/// Deals with a request that became ready, and with those that become ready by it, one after the other: chains of any length need no stack.
fn run_ready(ready: Ready) {
    let mut ready = Some(ready);
    let is_running = READY.with_borrow_mut(|queue| match queue {
        Some(queue) => {
            queue.extend(ready.take());
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
    while let Some((queue, request, outcome)) = ready.take() {
        match outcome {
            Ok(()) => queue.submit(request),
            Err(failure) => request.end(Err(failure)),
        }
        ready = READY.with_borrow_mut(|queue| queue.as_mut().and_then(VecDeque::pop_front));
    }
    READY.with_borrow_mut(|queue| *queue = None);
}

impl Parked {
    /// One of the points was reached, or failed.
    fn notified(self: &Arc<Self>, outcome: Result<()>) {
        let request = {
            let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
            state.0 -= 1;
            match (&outcome, state.0) {
                (Err(_), _) | (Ok(()), 0) => state.1.take(),
                (Ok(()), _) => None,
            }
        };
        if let Some(request) = request {
            run_ready((self.queue.clone(), request, outcome));
        }
    }
}

impl QueueCore {
    /// Submits. Failures go to the points that the request signals.
    pub(crate) fn submit(self: &Arc<Self>, request: Request) {
        let on_host = matches!(request.payload, Payload::Host(..));
        let waits = match self.sort(&request.wait, on_host) {
            Ok(waits) => waits,
            Err(failure) => return request.end(Err(failure)),
        };
        if !waits.host.is_empty() {
            return self.park(request, waits.host, waits.pending);
        }
        match request.payload {
            Payload::Host(action, workers) => {
                let Request { signal, reclaim, .. } = Request { payload: Payload::Barrier, ..request };
                let points = signal.clone();
                let work = move || {
                    let outcome = action(&signal);
                    if outcome.as_ref().is_err_and(|status| status.code() == StatusCode::Deferred) {
                        return;
                    }
                    complete(Completion { signal, reclaim, ..Completion::default() }, outcome);
                };
                if let Err(status) = workers.run(work) {
                    signal_all(&points, Err(status));
                }
            }
            // Nothing to wait for and nothing to run: the host can signal at once.
            Payload::Barrier if waits.device.is_empty() && waits.pending.is_empty() => request.end(Ok(())),
            _ => self.admit_request(request, waits),
        }
    }

    /// Sorts the points of a submission.
    fn sort(&self, points: &[Timepoint], on_host: bool) -> Result<Waits> {
        let mut waits = Waits::default();
        for point in points {
            if point.semaphore.query()? >= point.value {
                continue;
            }
            let submission =
                own::<SubmissionPoint>(point).filter(|_| !on_host).and_then(|own| own.pending(point.value));
            match submission {
                // What comes later in a queue begins after all that came before.
                Some(other) if other.queue.id == self.id => waits.pending.push(point.clone()),
                Some(other) if other.queue.completed() >= other.epoch => waits.pending.push(point.clone()),
                Some(other) if self.waits_on_device() => {
                    waits.pending.push(point.clone());
                    waits.device.push(other);
                }
                _ => waits.host.push(point.clone()),
            }
        }
        Ok(waits)
    }

    /// Holds a request back until `points` are reached. It keeps the timelines of the others alone: those that it is notified by own it, and
    /// what nothing else refers to will never be reached.
    fn park(self: &Arc<Self>, mut request: Request, points: Vec<Timepoint>, pending: Vec<Timepoint>) {
        request.wait = pending;
        let parked = Arc::new(Parked { queue: self.clone(), state: Mutex::new((points.len(), Some(request))) });
        for point in points {
            let parked = parked.clone();
            point.semaphore.notify(point.value, Box::new(move |outcome| parked.notified(outcome)));
        }
    }

    fn admit_request(self: &Arc<Self>, request: Request, waits: Waits) {
        let Request { signal, payload, reclaim, .. } = request;
        let (mut program, mut failure, mut blocks) = (None, None, 1);
        if let Payload::Program(recorded, table) = payload {
            match recorded.resolve(&table) {
                Ok(resolved) => {
                    blocks = recorded.blocks().len() as u64;
                    program = Some((recorded, resolved));
                }
                // It completes as one that did nothing, after what it waits for.
                Err(status) => failure = Some(status),
            }
        }
        let mut admission = self.lock();
        if let Some(cause) = self.failure.get() {
            drop(admission);
            return complete(Completion { signal, reclaim, ..Completion::default() }, Err(cause.clone()));
        }
        // What the queue knows already needs no packet.
        let device =
            waits.device.into_iter().filter(|point| !admission.frontier.has_reached(point.queue.id, point.epoch));
        let device: Vec<SubmissionPoint> = latest(device);
        let waited = self.admit_waits(&mut admission, &device);
        let point = self.next_point(&admission, blocks);
        for signal in &signal {
            if let Some(own) = own::<SubmissionPoint>(signal) {
                own.add_pending(signal.value, point.clone());
            }
        }
        let completion = Completion { signal, waits: waits.pending, retained: Vec::new(), reclaim, failure };
        let admitted = waited.and_then(|()| self.admit(&mut admission, program, completion, point.epoch));
        drop::<std::sync::MutexGuard<'_, Admission>>(admission);
        if let Err(status) = admitted {
            // Nothing that was not published can complete, so the queue is of no use any more.
            self.fail(status);
        }
    }
}

/// The last submission of each queue.
fn latest(points: impl Iterator<Item = SubmissionPoint>) -> Vec<SubmissionPoint> {
    let mut latest: Vec<SubmissionPoint> = Vec::new();
    for point in points {
        match latest.iter_mut().find(|other| other.queue.id == point.queue.id) {
            Some(other) if other.epoch < point.epoch => *other = point,
            Some(_) => {}
            None => latest.push(point),
        }
    }
    latest
}

/// A failure that is known before anything is submitted: to the points, or to the caller if there are none.
pub(crate) fn refuse(signal: &[Timepoint], status: Status) -> Result<()> {
    if signal.is_empty() {
        return Err(status);
    }
    signal_all(signal, Err(status));
    Ok(())
}
