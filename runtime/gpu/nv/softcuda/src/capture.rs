//! Captures of streams ([`Capture`]): instead of running, the work of a stream becomes nodes of a graph, ordered as the
//! streams and events would have ordered it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::ThreadId;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CAPTURE_MODE_RELAXED, CAPTURE_MODE_THREAD_LOCAL};

use crate::api::Outcome;
use crate::context::{Context, Event, Stream, StreamKind};
use crate::crew::Op;
use crate::graph::{Graph, Node, NodeKind, task};
use crate::memory::Memory;
use crate::poisoned::{Uses, uses_of_parameters};
use crate::system::System;

/// A capture.
#[derive(Debug)]
pub(crate) struct Capture {
    /// A number that no other capture has.
    pub(crate) id: u64,
    mode: u32,
    context: Arc<Context>,
    /// The stream that began it.
    origin: u64,
    thread: ThreadId,
    graph: Arc<Graph>,
    /// The handle of the graph.
    pub(crate) handle: u64,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// For each stream, the nodes that its next one depends on.
    tails: BTreeMap<u64, BTreeSet<u64>>,
    /// Whether a stream among them waits for the legacy default stream.
    is_blocking: bool,
    is_invalid: bool,
}

/// All captures that have begun and not ended.
#[derive(Debug, Default)]
pub(crate) struct Captures {
    all: Mutex<Vec<Arc<Capture>>>,
    /// Their number, so that programs without captures need no lock.
    count: AtomicUsize,
}

impl Capture {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a call has made it useless.
    pub(crate) fn is_invalid(&self) -> bool {
        self.state().is_invalid
    }

    /// The nodes that the next one of a stream depends on.
    pub(crate) fn tail(&self, stream: &Stream) -> Vec<u64> {
        self.state().tails.get(&stream.id).map(|tail| tail.iter().copied().collect()).unwrap_or_default()
    }

    fn check(&self) -> Outcome {
        if self.is_invalid() { Err(CuResult::ERROR_STREAM_CAPTURE_INVALIDATED) } else { Ok(()) }
    }

    /// Adds a node after those of a stream.
    fn add(&self, system: &System, stream: &Stream, kind: NodeKind) -> u64 {
        let handle = system.nodes.insert(Arc::new(self.handle));
        let mut state = self.state();
        let after = std::mem::replace(state.tails.entry(stream.id).or_default(), BTreeSet::from([handle]));
        self.graph.nodes().push(Node { handle, kind, after, is_enabled: true });
        handle
    }
}

impl Captures {
    fn all(&self) -> MutexGuard<'_, Vec<Arc<Capture>>> {
        self.all.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The capture that a stream is in.
    pub(crate) fn of(&self, stream: &Stream) -> Option<Arc<Capture>> {
        if self.count.load(Ordering::Acquire) == 0 {
            return None;
        }
        let is_it = |capture: &&Arc<Capture>| {
            Arc::ptr_eq(&capture.context, &stream.context) && capture.state().tails.contains_key(&stream.id)
        };
        self.all().iter().find(is_it).cloned()
    }

    /// Refuses a call that cannot be captured, and makes the capture useless. The legacy default stream would wait for
    /// blocking streams that are captured.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED, or STREAM_CAPTURE_IMPLICIT for the legacy default stream.
    pub(crate) fn refuse(&self, stream: &Stream) -> Outcome {
        if let Some(capture) = self.of(stream) {
            capture.state().is_invalid = true;
            return Err(CuResult::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if stream.kind != StreamKind::Legacy || self.count.load(Ordering::Acquire) == 0 {
            return Ok(());
        }
        let all = self.all();
        let mut disturbed = all.iter().filter(|capture| {
            capture.mode != CAPTURE_MODE_RELAXED
                && Arc::ptr_eq(&capture.context, &stream.context)
                && capture.state().is_blocking
        });
        match disturbed.next() {
            None => Ok(()),
            Some(capture) => {
                capture.state().is_invalid = true;
                Err(CuResult::ERROR_STREAM_CAPTURE_IMPLICIT)
            }
        }
    }

    /// Begins a capture.
    ///
    /// # Errors
    /// STREAM_CAPTURE_UNSUPPORTED for the legacy default stream, ILLEGAL_STATE for one that is captured already.
    pub(crate) fn begin(&self, system: &System, stream: &Stream, mode: u32) -> Outcome {
        if stream.kind == StreamKind::Legacy {
            return Err(CuResult::ERROR_STREAM_CAPTURE_UNSUPPORTED);
        }
        if self.of(stream).is_some() {
            return Err(CuResult::ERROR_ILLEGAL_STATE);
        }
        let graph = Arc::new(Graph::default());
        let state = State {
            tails: BTreeMap::from([(stream.id, BTreeSet::new())]),
            is_blocking: stream.kind == StreamKind::Blocking,
            is_invalid: false,
        };
        let capture = Capture {
            id: system.id(),
            mode,
            context: stream.context.clone(),
            origin: stream.id,
            thread: std::thread::current().id(),
            handle: system.graphs.insert(graph.clone()),
            graph,
            state: Mutex::new(state),
        };
        self.all().push(Arc::new(capture));
        self.count.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }

    /// Ends a capture, and returns the handle of its graph.
    ///
    /// # Errors
    /// ILLEGAL_STATE if there is none, STREAM_CAPTURE_UNMATCHED if another stream began it,
    /// STREAM_CAPTURE_WRONG_THREAD, STREAM_CAPTURE_INVALIDATED, or STREAM_CAPTURE_UNJOINED if work of another stream is
    /// left.
    pub(crate) fn end(&self, system: &System, stream: &Stream) -> Outcome<u64> {
        let capture = self.of(stream).ok_or(CuResult::ERROR_ILLEGAL_STATE)?;
        if capture.origin != stream.id {
            capture.state().is_invalid = true;
            return Err(CuResult::ERROR_STREAM_CAPTURE_UNMATCHED);
        }
        if capture.mode <= CAPTURE_MODE_THREAD_LOCAL && capture.thread != std::thread::current().id() {
            return Err(CuResult::ERROR_STREAM_CAPTURE_WRONG_THREAD);
        }
        self.all().retain(|other| !Arc::ptr_eq(other, &capture));
        self.count.fetch_sub(1, Ordering::AcqRel);
        let result = match (capture.is_invalid(), is_joined(&capture)) {
            (true, _) => Err(CuResult::ERROR_STREAM_CAPTURE_INVALIDATED),
            (_, false) => Err(CuResult::ERROR_STREAM_CAPTURE_UNJOINED),
            _ => Ok(capture.handle),
        };
        if result.is_err() {
            system.graphs.remove(capture.handle);
            for node in capture.graph.nodes().iter() {
                system.nodes.remove(node.handle);
            }
        }
        result
    }
}

/// Whether the stream that began a capture comes after all of its nodes.
fn is_joined(capture: &Capture) -> bool {
    let nodes = capture.graph.nodes();
    let after: BTreeMap<u64, &BTreeSet<u64>> = nodes.iter().map(|node| (node.handle, &node.after)).collect();
    let state = capture.state();
    let mut reached: BTreeSet<u64> = BTreeSet::new();
    let mut next: Vec<u64> = state.tails.get(&capture.origin).into_iter().flatten().copied().collect();
    while let Some(node) = next.pop() {
        if reached.insert(node) {
            next.extend(after.get(&node).into_iter().flat_map(|others| others.iter().copied()));
        }
    }
    nodes.iter().all(|node| reached.contains(&node.handle))
}

/// Adds the work of a node to a stream, or the node to its capture; the operation, if it is not captured.
///
/// # Errors
/// STREAM_CAPTURE_INVALIDATED, or STREAM_CAPTURE_IMPLICIT for the legacy default stream.
pub(crate) fn submit(system: &'static System, stream: &Stream, mut kind: NodeKind) -> Outcome<Option<Arc<Op>>> {
    if let Some(capture) = system.captures.of(stream) {
        capture.check()?;
        capture.add(system, stream, kind);
        return Ok(None);
    }
    system.captures.refuse(stream)?;
    if let (NodeKind::Copy(_, Some(copy)), Some(poisoned)) = (&mut kind, &system.poisoned) {
        copy.poison(poisoned);
    }
    let op = match task(system, stream, &kind) {
        Some(task) => stream.submit(task),
        None => stream.submit_marker([]),
    };
    if let Some(poisoned) = &system.poisoned {
        poisoned.note(&op, uses(&system.memory, &kind));
    }
    Ok(Some(op))
}

/// The host memory that the work of a node may use.
fn uses(memory: &Memory, kind: &NodeKind) -> Uses {
    match kind {
        NodeKind::Kernel(node) => uses_of_parameters(memory, &node.launch.parameters),
        NodeKind::Copy(_, copy) => Uses::Ranges(copy.iter().flat_map(|copy| copy.host_ranges()).collect()),
        NodeKind::Host(_) | NodeKind::Child(_) => Uses::Any,
        NodeKind::Empty | NodeKind::Fill(..) | NodeKind::Record(_) | NodeKind::Wait(_) => Uses::Ranges(Vec::new()),
    }
}

/// Lets an event record what a stream has so far, whether it is captured or not.
///
/// # Errors
/// As [`submit`].
pub(crate) fn record(system: &System, stream: &Stream, event: &Event) -> Outcome {
    if let Some(capture) = system.captures.of(stream) {
        capture.check()?;
        let tail = capture.tail(stream);
        event.capture(Some((capture.id, tail)));
        return Ok(());
    }
    system.captures.refuse(stream)?;
    event.capture(None);
    event.record(stream.submit_marker([]));
    Ok(())
}

/// Lets a stream wait for an event. One that was recorded in a capture takes the stream into the capture.
///
/// # Errors
/// As [`submit`]; STREAM_CAPTURE_MERGE for two captures, STREAM_CAPTURE_ISOLATION for an event of work that is not
/// captured, STREAM_CAPTURE_IMPLICIT for the legacy default stream.
pub(crate) fn wait(system: &System, stream: &Stream, event: &Event) -> Outcome {
    let own = system.captures.of(stream);
    if let Some(own) = &own {
        own.check()?;
    }
    let Some((id, nodes)) = event.captured() else {
        if let Some(own) = own {
            // An event that has recorded nothing is no work.
            if event.recorded().is_none() {
                return Ok(());
            }
            own.state().is_invalid = true;
            return Err(CuResult::ERROR_STREAM_CAPTURE_ISOLATION);
        }
        system.captures.refuse(stream)?;
        if let Some(op) = event.recorded() {
            stream.submit_marker([op]);
        }
        return Ok(());
    };
    let found = system.captures.all().iter().find(|capture| capture.id == id).cloned();
    // The capture of the event has ended.
    let capture = found.ok_or(CuResult::ERROR_CAPTURED_EVENT)?;
    capture.check()?;
    if own.is_some_and(|own| own.id != id) {
        return Err(CuResult::ERROR_STREAM_CAPTURE_MERGE);
    }
    if stream.kind == StreamKind::Legacy {
        return Err(CuResult::ERROR_STREAM_CAPTURE_IMPLICIT);
    }
    if !Arc::ptr_eq(&capture.context, &stream.context) {
        return Err(CuResult::ERROR_STREAM_CAPTURE_ISOLATION);
    }
    let mut state = capture.state();
    state.is_blocking |= stream.kind == StreamKind::Blocking;
    state.tails.entry(stream.id).or_default().extend(nodes);
    Ok(())
}
