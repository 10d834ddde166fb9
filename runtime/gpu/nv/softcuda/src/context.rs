//! Contexts ([`Context`]) with the order of their work: for each stream its last operation, and the rule of the legacy
//! default stream, which waits for all blocking streams as they wait for it. An error of work stays with its context.

use std::any::Any;
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use vireo_cuda::result::CuResult;
use vireo_simt::sanitize::Known;

use crate::api::Outcome;
use crate::crew::{Crew, Op, Progress, Work};
use crate::reports::tell;
use crate::sanitizer::DEFAULT_STREAM;

/// Work that may fail, and is shown what it knows to be done before it.
pub(crate) type Task = Box<dyn FnMut(&mut Known) -> Outcome<Progress> + Send>;

/// A context.
#[derive(Debug)]
pub(crate) struct Context {
    /// Its handle, once it has one.
    pub(crate) handle: OnceLock<u64>,
    /// A number that no other context has.
    pub(crate) id: u64,
    /// Its device.
    pub(crate) device: u32,
    /// The version of the interface that it was created with.
    pub(crate) api_version: u32,
    /// Its flags.
    pub(crate) flags: AtomicU32,
    /// Its limits, cache preferences and peers.
    pub(crate) settings: Mutex<Settings>,
    crew: Arc<Crew>,
    /// The first error of its work; 0 if there was none.
    error: AtomicU32,
    has_ended: AtomicBool,
    keeps_done: bool,
    tails: Mutex<Tails>,
}

/// Settings of a context by its program.
#[derive(Debug, Default)]
pub(crate) struct Settings {
    /// Limits by their numbers.
    pub(crate) limits: BTreeMap<u32, u64>,
    /// The preferred division of the cache.
    pub(crate) cache: u32,
    /// The width of banks of shared memory.
    pub(crate) banks: u32,
    /// The contexts whose memory it may access.
    pub(crate) peers: BTreeSet<u64>,
}

#[derive(Debug, Default)]
struct Tails(BTreeMap<u64, Tail>);

#[derive(Debug)]
struct Tail {
    op: Arc<Op>,
    is_blocking: bool,
}

impl Context {
    /// A context. Its streams remember work that is done if the sanitizer asks what was before.
    pub(crate) fn new(id: u64, device: u32, version_and_flags: [u32; 2], crew: Arc<Crew>, keeps_done: bool) -> Self {
        let [api_version, flags] = version_and_flags;
        Context {
            handle: OnceLock::new(),
            id,
            device,
            api_version,
            flags: AtomicU32::new(flags),
            settings: Mutex::default(),
            crew,
            error: AtomicU32::new(0),
            has_ended: AtomicBool::new(false),
            keeps_done,
            tails: Mutex::default(),
        }
    }

    /// Its handle; 0 before it has one.
    pub(crate) fn handle(&self) -> u64 {
        self.handle.get().copied().unwrap_or(0)
    }

    /// Its settings.
    pub(crate) fn settings(&self) -> MutexGuard<'_, Settings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tails(&self) -> MutexGuard<'_, Tails> {
        self.tails.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The legacy default stream. All that is known of a stream's work is here, so it can be made anew.
    pub(crate) fn legacy(self: &Arc<Self>) -> Arc<Stream> {
        let (id, kind) = (Stream::LEGACY, StreamKind::Legacy);
        Arc::new(Stream { handle: OnceLock::new(), id, context: self.clone(), kind, flags: 0, priority: 0 })
    }

    /// The error of its work, if there was one.
    ///
    /// # Errors
    /// That error.
    pub(crate) fn status(&self) -> Outcome {
        match self.error.load(Ordering::Acquire) {
            0 => Ok(()),
            status => Err(CuResult(status)),
        }
    }

    /// Keeps an error, unless there is one already.
    pub(crate) fn fail(&self, status: CuResult) {
        let _ = self.error.compare_exchange(0, status.0, Ordering::AcqRel, Ordering::Relaxed);
    }

    /// Whether it was destroyed.
    pub(crate) fn has_ended(&self) -> bool {
        self.has_ended.load(Ordering::Acquire)
    }

    /// Marks it destroyed; true for the call that did it.
    pub(crate) fn end(&self) -> bool {
        !self.has_ended.swap(true, Ordering::AcqRel)
    }

    /// Waits until all of its work is done.
    ///
    /// # Errors
    /// That of its work.
    pub(crate) fn synchronize(&self) -> Outcome {
        self.drain();
        self.status()
    }

    /// Waits until all of its work is done, whatever became of it.
    pub(crate) fn drain(&self) {
        let all: Vec<Arc<Op>> = self.tails().0.values().map(|tail| tail.op.clone()).collect();
        all.iter().for_each(|op| self.crew.wait(op));
        self.forget_done(&mut self.tails());
    }

    /// Forgets operations that are done, unless the sanitizer has to know what a stream was after.
    fn forget_done(&self, tails: &mut Tails) {
        if !self.keeps_done {
            tails.0.retain(|_, tail| !tail.op.is_done());
        }
    }

    /// Adds operations that `add` makes of the crew and of what they have to wait for; the last one of a stream is what
    /// `add` returns.
    fn submit(&self, stream: &Stream, add: impl FnOnce(&Arc<Crew>, Vec<Arc<Op>>) -> Arc<Op>) -> Arc<Op> {
        self.crew.throttle();
        let mut tails = self.tails();
        self.forget_done(&mut tails);
        let is_before = |id: u64, tail: &Tail| match stream.kind {
            _ if id == stream.id => true,
            StreamKind::Legacy => tail.is_blocking,
            StreamKind::Blocking => id == Stream::LEGACY,
            StreamKind::NonBlocking => false,
        };
        let before = tails.0.iter().filter(|(id, tail)| is_before(**id, tail)).map(|(_, tail)| tail.op.clone());
        let op = add(&self.crew, before.collect());
        let is_blocking = stream.kind != StreamKind::NonBlocking;
        tails.0.insert(stream.id, Tail { op: op.clone(), is_blocking });
        op
    }

    /// The last operation of a stream that is not known to be done.
    fn tail(&self, stream: &Stream) -> Option<Arc<Op>> {
        self.tails().0.get(&stream.id).map(|tail| tail.op.clone())
    }

    /// Work that is not done if other work of the context has failed, and whose own failure stays with the context.
    pub(crate) fn guard(self: &Arc<Self>, mut task: Task) -> Work {
        let context = self.clone();
        Box::new(move |known| {
            if context.status().is_err() {
                return Progress::Done;
            }
            match catch_unwind(AssertUnwindSafe(|| task(known))) {
                Ok(Ok(progress)) => progress,
                Ok(Err(status)) => {
                    context.fail(status);
                    Progress::Done
                }
                Err(panic) => {
                    tell(format_args!("a mistake of this library: {}", text_of(&*panic)));
                    context.fail(CuResult::ERROR_UNKNOWN);
                    Progress::Done
                }
            }
        })
    }

    /// Waits until an operation is done.
    ///
    /// # Errors
    /// That of the work of the context.
    pub(crate) fn wait(&self, op: &Arc<Op>) -> Outcome {
        self.crew.wait(op);
        self.status()
    }

    /// Whether an operation is done, for a program that asks.
    pub(crate) fn is_done(&self, op: &Arc<Op>) -> bool {
        self.crew.query(op)
    }
}

/// The text of a panic.
pub(crate) fn text_of(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_string());
    text.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".to_string())
}

/// How a stream and the legacy default stream wait for each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum StreamKind {
    /// The legacy default stream itself.
    Legacy,
    /// It waits for that one, which waits for it.
    Blocking,
    /// Neither waits for the other.
    NonBlocking,
}

/// A stream.
#[derive(Debug)]
pub(crate) struct Stream {
    /// Its handle, once it has one; default streams have none of their own.
    pub(crate) handle: OnceLock<u64>,
    /// A number that no other stream of its context has.
    pub(crate) id: u64,
    /// Its context.
    pub(crate) context: Arc<Context>,
    /// How it waits for the legacy default stream.
    pub(crate) kind: StreamKind,
    /// The flags that it was created with.
    pub(crate) flags: u32,
    /// Its priority.
    pub(crate) priority: i32,
}

impl Stream {
    /// The number of the legacy default stream of each context.
    pub(crate) const LEGACY: u64 = DEFAULT_STREAM;

    /// Adds work after what the stream has.
    pub(crate) fn submit(&self, task: Task) -> Arc<Op> {
        let work = self.context.guard(task);
        self.context.submit(self, |crew, before| crew.submit(before, Some(work)))
    }

    /// Adds an operation that only waits for what the stream has, and for others.
    pub(crate) fn submit_marker(&self, after: impl IntoIterator<Item = Arc<Op>>) -> Arc<Op> {
        self.context.submit(self, |crew, before| crew.submit(before.into_iter().chain(after), None))
    }

    /// Adds work that runs even if other work of the context has failed.
    pub(crate) fn submit_always(&self, work: Work) -> Arc<Op> {
        self.context.submit(self, |crew, before| crew.submit(before, Some(work)))
    }

    /// Adds operations that `add` makes of what they have to wait for; the stream goes on after what it returns.
    pub(crate) fn submit_all(&self, add: impl FnOnce(&Arc<Crew>, Vec<Arc<Op>>) -> Arc<Op>) -> Arc<Op> {
        self.context.submit(self, add)
    }

    /// Whether all of its work is done.
    pub(crate) fn is_idle(&self) -> bool {
        self.context.tail(self).is_none_or(|op| self.context.is_done(&op))
    }

    /// Waits until all of its work is done.
    ///
    /// # Errors
    /// That of the work of its context.
    pub(crate) fn synchronize(&self) -> Outcome {
        // The legacy default stream has the work of others before it.
        let op = match self.kind {
            StreamKind::Legacy => Some(self.submit_marker([])),
            _ => self.context.tail(self),
        };
        match op {
            Some(op) => self.context.wait(&op),
            None => self.context.status(),
        }
    }
}

/// An event.
#[derive(Debug)]
pub(crate) struct Event {
    /// Its context.
    pub(crate) context: Arc<Context>,
    /// The flags that it was created with.
    pub(crate) flags: u32,
    recorded: Mutex<Option<Arc<Op>>>,
    /// The capture that it was recorded in last, and the nodes that it has recorded there.
    captured: Mutex<Option<(u64, Vec<u64>)>>,
}

impl Event {
    /// An event that has recorded nothing.
    pub(crate) fn new(context: Arc<Context>, flags: u32) -> Self {
        Event { context, flags, recorded: Mutex::default(), captured: Mutex::default() }
    }

    /// Records an operation.
    pub(crate) fn record(&self, op: Arc<Op>) {
        *self.recorded.lock().unwrap_or_else(PoisonError::into_inner) = Some(op);
    }

    /// Remembers nodes of a capture, or that what it records is in none.
    pub(crate) fn capture(&self, nodes: Option<(u64, Vec<u64>)>) {
        *self.captured.lock().unwrap_or_else(PoisonError::into_inner) = nodes;
    }

    /// The capture that it was recorded in last, and the nodes that it has recorded there.
    pub(crate) fn captured(&self) -> Option<(u64, Vec<u64>)> {
        self.captured.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The operation that it has recorded.
    pub(crate) fn recorded(&self) -> Option<Arc<Op>> {
        self.recorded.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}
