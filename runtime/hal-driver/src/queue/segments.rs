//! Executions of command programs with collective operations: each segment of the program is a submission of its own,
//! and so is each group of collective operations. A timeline of the execution orders them.
//!
//! A group of collective operations is ready once what is before it has run. Then it arrives at a round of each channel
//! that it uses, and the point of the timeline after it is signaled once all ranks have arrived and the round has run.
//! So no thread waits for other ranks, and ranks on one thread work.

use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vireo_collectives::{BoundOperation, Contribution, Span, Ticket};

use super::discipline::{Discipline, Held, Prepared, Queue, WaitAndSignal};
use super::weight::Weight;
use crate::deferred::{CommandProgram, RecordedCollective, ResolvedRange, Segment, resolve};
use crate::hal::recycle::{MAX_FREE, Uninit, free_list};
use crate::hal::semaphore::timeline;
use crate::hal::timepoints::{Continuation, PendingWait, continue_after, reached, signal_all};
use crate::hal::{BufferBinding, BufferRef, BufferUsage, QueueAffinity, QueueOperation, Timepoint};
use crate::limits::scope::Scope;
use crate::status::{Result, Status, StatusCode};

/// The work that follows once the points before collective operations are reached, or have failed.
struct Ready(Box<dyn FnOnce(Result<()>) + Send>);

impl Continuation for Ready {
    fn ready(self, outcome: Result<()>) {
        (self.0)(outcome);
    }
}

free_list! { static PENDING: Uninit<PendingWait<Ready>>, MAX_FREE }

/// The collective operations of a segment on one channel: the ticket for its round, and their indices in the segment.
type OnChannel = (Ticket, Vec<usize>);

impl<D: Discipline> Queue<D> {
    /// Executes a program segment by segment.
    ///
    /// # Errors
    /// The failure of the last commands, if they signal no points and have run already.
    pub(super) fn execute_segments(
        self: &Arc<Self>,
        queue_affinity: QueueAffinity,
        (wait, signal): WaitAndSignal<'_>,
        operation: QueueOperation<'_>,
        program: Held<'_, CommandProgram<D::Device>>,
    ) -> Result<()> {
        let table: Arc<[BufferBinding]> = match operation {
            QueueOperation::Execute { binding_table, .. } => binding_table.into(),
            _ => Arc::default(),
        };
        // The rounds of channels are in the order of submissions, so all tickets are taken before anything runs.
        let on_channels: Vec<Vec<OnChannel>> = program.segments().iter().map(tickets).collect();
        let line = timeline(0);
        let point = |value| Timepoint { semaphore: line.clone(), value };
        let mut before = wait.to_vec();
        for ((index, segment), on_channels) in (0..).zip(program.segments()).zip(on_channels) {
            let [ready, done] = [point(2 * index + 1), point(2 * index + 2)];
            if !segment.commands.steps().is_empty() {
                let points: WaitAndSignal<'_> = (&before, std::slice::from_ref(&ready));
                self.execute(queue_affinity, points, operation, Cow::Borrowed(&segment.commands))?;
                before = vec![ready];
            }
            let (program, table) = (program.clone().into_owned(), table.clone());
            self.collect(&before, done.clone(), program, index as usize, table, on_channels);
            before = vec![done];
        }
        drop(line);
        self.execute(queue_affinity, (&before, signal), operation, program)
    }

    /// Submits the collective operations of a segment.
    fn collect(
        self: &Arc<Self>,
        wait: &[Timepoint],
        done: Timepoint,
        program: Arc<CommandProgram<D::Device>>,
        segment: usize,
        table: Arc<[BufferBinding]>,
        on_channels: Vec<OnChannel>,
    ) {
        let (queue, scope) = (self.clone(), Scope::current());
        let ready = move |outcome: Result<()>| {
            if let Err(failure) = outcome {
                on_channels.into_iter().for_each(|(ticket, _)| ticket.fail(failure.clone()));
                return signal_all(&[done], Err(failure));
            }
            let _entered = scope.enter();
            let signal = [done.clone()];
            let recorded = &program.segments()[segment].collectives;
            let bytes = recorded.iter().fold(0u64, |sum, recorded| sum.saturating_add(recorded.operation.bytes()));
            let work = move || arrive(&program.segments()[segment].collectives, &table, on_channels, done);
            // It signals a point, so failures go there.
            _ = queue.submit(&[], &signal, Weight::of_transfer(bytes), Prepared::Other(Box::new(work)));
        };
        match reached(wait) {
            Ok(true) => ready(Ok(())),
            Ok(false) => continue_after(&PENDING, wait, Ready(Box::new(ready))),
            Err(failure) => ready(Err(failure)),
        }
    }
}

/// A ticket for each channel of the collective operations of a segment, in their order.
fn tickets<D: crate::deferred::Deferred>(segment: &Segment<D>) -> Vec<OnChannel> {
    let mut all: Vec<OnChannel> = Vec::new();
    for (index, recorded) in segment.collectives.iter().enumerate() {
        match all.iter_mut().find(|(ticket, _)| ticket.is_of(&recorded.channel)) {
            Some((_, indices)) => indices.push(index),
            None => all.push((recorded.channel.ticket(), vec![index])),
        }
    }
    all
}

/// Arrives at the rounds of all channels. The last rank to arrive at each runs it, and the last round signals.
fn arrive(
    recorded: &[RecordedCollective],
    table: &[BufferBinding],
    on_channels: Vec<OnChannel>,
    done: Timepoint,
) -> Result<()> {
    let operations_of = |(_, indices): &OnChannel| {
        indices.iter().map(|index| bound(&recorded[*index], table)).collect::<Result<Vec<BoundOperation>>>()
    };
    let operations = match on_channels.iter().map(operations_of).collect::<Result<Vec<_>>>() {
        Ok(operations) => operations,
        Err(failure) => {
            on_channels.into_iter().for_each(|(ticket, _)| ticket.fail(failure.clone()));
            return Err(failure);
        }
    };
    let rounds = Arc::new(Rounds { left: AtomicUsize::new(on_channels.len()), done: Mutex::new(Some(done)) });
    for ((ticket, _), operations) in on_channels.into_iter().zip(operations) {
        let rounds = rounds.clone();
        let completion = Box::new(move |outcome: Result<_>| rounds.ended(outcome.map(drop)));
        ticket.arrive(Contribution::Operations(operations), completion);
    }
    Err(Status::new(StatusCode::Deferred, "the ranks signal the point"))
}

/// A collective operation with the ranges that its references resolve to.
fn bound(recorded: &RecordedCollective, table: &[BufferBinding]) -> Result<BoundOperation> {
    let span = |reference: &Option<BufferRef>| -> Result<Option<Span>> {
        let Some(reference) = reference else { return Ok(None) };
        let ResolvedRange { buffer, offset, length } = resolve(reference, table, BufferUsage::empty())?;
        Ok(Some(Span { buffer: buffer.clone(), offset, length }))
    };
    let RecordedCollective { operation, send, recv, .. } = recorded;
    let context = |status: Status| status.context(operation);
    Ok(BoundOperation { operation: *operation, send: span(send).map_err(context)?, recv: span(recv).map_err(context)? })
}

/// The rounds that a group of collective operations takes part in.
struct Rounds {
    /// How many have not ended.
    left: AtomicUsize,
    /// The point to signal, until it is signaled or failed.
    done: Mutex<Option<Timepoint>>,
}

impl Rounds {
    /// A round has ended. The last success signals, the first failure fails.
    fn ended(&self, outcome: Result<()>) {
        let is_last = self.left.fetch_sub(1, Ordering::AcqRel) == 1;
        if outcome.is_err() || is_last {
            let done = self.done.lock().unwrap_or_else(PoisonError::into_inner).take();
            signal_all(done.as_slice(), outcome);
        }
    }
}
