//! A rank of the library ([`Communicator`]). It is made, split and ended on the thread of its channel; queues give it
//! operations in between. None of its calls blocks: what has not ended is asked about, until a limit.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use vireo_core::blocking;
use vireo_cuda::nccl::types::{CONFIG_MAGIC, CudaStream, NcclComm, NcclConfig, NcclUniqueId, UNDEFINED_INT};

use super::library::{CollectivesLibrary, check_progress};
use crate::api::ApiResult;
use crate::context::Context;
use crate::generated::nccl::api::NcclApi;
use crate::hal::ChannelRank;
use crate::status::{Result, Status, StatusCode};

/// The shortest and the longest pause between two questions.
const PAUSE: (Duration, Duration) = (Duration::from_micros(50), Duration::from_millis(5));

/// How long a rank that leaves waits for what it has begun.
const FAREWELL: Duration = Duration::from_secs(1);

/// The version of the configuration.
const CONFIG_VERSION: u32 = 21_800;

/// A rank.
pub(super) struct Communicator {
    pub(super) library: Arc<CollectivesLibrary>,
    pub(super) context: Arc<Context>,
    /// How long ranks wait for each other.
    pub(super) limit: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

struct State {
    /// The handle; zero if there is none.
    handle: NcclComm,
    /// The rank and the number of ranks, once they are known.
    place: Option<ChannelRank>,
    /// The number of things that its thread has yet to do before operations may be given.
    busy: u32,
    /// When operations were given that the library has not begun.
    launching: Option<Instant>,
    failure: Option<Status>,
}

impl Communicator {
    /// A rank that its thread is to make.
    pub(super) fn new(
        library: &Arc<CollectivesLibrary>,
        context: &Arc<Context>,
        limit: Duration,
        place: Option<ChannelRank>,
    ) -> Arc<Communicator> {
        let state = State { handle: NcclComm(0), place, busy: 1, launching: None, failure: None };
        let (library, context) = (library.clone(), context.clone());
        Arc::new(Communicator { library, context, limit, state: Mutex::new(state), changed: Condvar::new() })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls the library with the context.
    fn call<T>(&self, call: impl FnOnce(&dyn NcclApi) -> ApiResult<T>) -> Result<Option<T>> {
        call_with(&self.library, &self.context, call)
    }

    /// Waits until what goes on at a rank of the library has ended.
    fn wait(&self, comm: NcclComm, limit: Duration) -> Result<()> {
        let (began, mut pause) = (Instant::now(), PAUSE.0);
        while !check_progress(&**self.library.calls(), comm)? {
            if began.elapsed() > limit {
                return Err(late(limit));
            }
            thread::sleep(pause);
            pause = (pause * 2).min(PAUSE.1);
        }
        Ok(())
    }

    /// Joins a group.
    pub(super) fn join(&self, id: Result<NcclUniqueId>) {
        let join = || {
            let id = id?;
            let ChannelRank { rank, count } = self.lock().place.unwrap_or_default();
            let (mut comm, mut config) = (NcclComm(0), config());
            // SAFETY: the pointers are to values.
            self.call(|calls| unsafe { calls.init_rank(&raw mut comm, count, id, rank, &raw mut config) })?;
            Ok(comm)
        };
        let outcome: Result<NcclComm> = join();
        self.made(outcome.and_then(|comm| self.wait(comm, self.limit).map(|()| comm).inspect_err(|_| self.end(comm))));
    }

    /// It was made, or could not be.
    pub(super) fn made(&self, outcome: Result<NcclComm>) {
        let mut state = self.lock();
        let mut useless = NcclComm(0);
        match outcome {
            // It may have failed meanwhile, without a rank to end.
            Ok(comm) if state.failure.is_some() => useless = comm,
            Ok(comm) => state.handle = comm,
            Err(failure) => _ = state.failure.get_or_insert(failure),
        }
        state.busy -= 1;
        drop(state);
        self.end(useless);
        self.changed.notify_all();
    }

    /// Announces that its thread is to do something before operations may be given.
    pub(super) fn announce(&self) {
        self.lock().busy += 1;
    }

    /// Waits until it was made, or could not be.
    pub(super) fn wait_until_made(&self) {
        let waits = |state: &mut State| state.handle.0 == 0 && state.failure.is_none();
        drop(self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner));
    }

    /// Splits it into a group of which `child` is a member.
    pub(super) fn split(&self, color: i32, key: i32, child: &Communicator) {
        let outcome = self.split_now(color, key);
        let made = outcome.and_then(|(comm, place)| {
            child.lock().place = Some(place);
            if comm.0 == 0 {
                let message = "the channel joins no group: it was split off with color -1";
                return Err(Status::failed_precondition(message));
            }
            Ok(comm)
        });
        child.made(made);
        self.lock().busy -= 1;
        self.changed.notify_all();
    }

    fn split_now(&self, color: i32, key: i32) -> Result<(NcclComm, ChannelRank)> {
        let parent = {
            let state = self.lock();
            match &state.failure {
                Some(failure) => return Err(failure.clone()),
                None => state.handle,
            }
        };
        // The operations that a queue has given go first.
        self.wait(parent, self.limit)?;
        let (mut comm, mut config) = (NcclComm(0), config());
        // SAFETY: the rank is alive, and the pointers are to values.
        self.call(|calls| unsafe { calls.split(parent, color, key, &raw mut comm, &raw mut config) })?;
        self.wait(parent, self.limit)?;
        if comm.0 == 0 {
            return Ok((comm, ChannelRank { rank: -1, count: 0 }));
        }
        let place = self.wait(comm, self.limit).and_then(|()| {
            // SAFETY: the rank is alive.
            let place = self.call(|calls| unsafe { Ok((calls.user_rank(comm)?, calls.count(comm)?)) })?;
            place.ok_or_else(|| Status::internal("a rank of a group that is not formed"))
        });
        let (rank, count) = place.inspect_err(|_| self.end(comm))?;
        Ok((comm, ChannelRank { rank, count }))
    }

    /// The rank and the number of ranks, once they are known. Rank -1 of 0 ranks if it joins none, or that failed.
    pub(super) fn place(&self) -> ChannelRank {
        let mut state = self.lock();
        if state.place.is_none() && state.busy > 0 {
            // The others may run on threads of a pool that this one belongs to.
            state = blocking::wait(|| {
                let waits = |state: &mut State| state.place.is_none() && state.busy > 0;
                self.changed.wait_while(state, waits).unwrap_or_else(PoisonError::into_inner)
            });
        }
        state.place.unwrap_or(ChannelRank { rank: -1, count: 0 })
    }

    /// The handle, if operations may be given now.
    ///
    /// # Errors
    /// Its failure.
    pub(super) fn ready(&self) -> Result<Option<(NcclComm, ChannelRank)>> {
        let state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        let place = state.place.filter(|_| state.busy == 0 && state.launching.is_none());
        Ok(place.map(|place| (state.handle, place)))
    }

    /// Notes that operations were given.
    pub(super) fn given(&self) {
        self.lock().launching.get_or_insert_with(Instant::now);
    }

    /// Whether the library has begun what was given. If other ranks have not come in time, it fails.
    ///
    /// # Errors
    /// Its failure.
    pub(super) fn has_begun(&self) -> Result<bool> {
        let (comm, since) = {
            let state = self.lock();
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            let Some(since) = state.launching else { return Ok(true) };
            (state.handle, since)
        };
        let outcome = check_progress(&**self.library.calls(), comm);
        match outcome {
            Ok(false) if since.elapsed() > self.limit => Err(self.fail(late(self.limit))),
            Ok(false) => Ok(false),
            Ok(true) => {
                self.lock().launching = None;
                Ok(true)
            }
            Err(failure) => Err(self.fail(failure)),
        }
    }

    /// Its failure, if it has failed.
    pub(super) fn failure(&self) -> Option<Status> {
        self.lock().failure.clone()
    }

    /// Looks at how it is.
    ///
    /// # Errors
    /// Its failure.
    pub(super) fn check(&self) -> Result<()> {
        let comm = {
            let state = self.lock();
            if let Some(failure) = &state.failure {
                return Err(failure.clone());
            }
            state.handle
        };
        // The library is free again before the failure is dealt with.
        let outcome = check_progress(&**self.library.calls(), comm);
        outcome.map(drop).map_err(|failure| self.fail(failure))
    }

    /// Fails it, unless it has failed already: streams go on, and other ranks get to know of it. Returns its failure.
    pub(super) fn fail(&self, failure: Status) -> Status {
        let (comm, failure) = {
            let mut state = self.lock();
            let is_first = state.failure.is_none();
            let failure = state.failure.get_or_insert(failure).clone();
            (if is_first { std::mem::replace(&mut state.handle, NcclComm(0)) } else { NcclComm(0) }, failure)
        };
        self.end_elsewhere(comm);
        self.changed.notify_all();
        failure
    }

    /// Ends a rank of the library, with what it has begun.
    fn end(&self, comm: NcclComm) {
        end_rank(&self.library, &self.context, comm);
    }

    /// The same, on a thread of its own: the library may wait for what runs, and a completion thread waits for nothing.
    fn end_elsewhere(&self, comm: NcclComm) {
        if comm.0 == 0 {
            return;
        }
        let (library, context) = (self.library.clone(), self.context.clone());
        let end = move || end_rank(&library, &context, comm);
        if thread::Builder::new().name("vireo-channel-end".into()).spawn(end).is_err() {
            self.end(comm);
        }
    }

    /// Leaves the group; nothing uses it any more.
    pub(super) fn leave(&self) {
        let comm = std::mem::replace(&mut self.lock().handle, NcclComm(0));
        if comm.0 == 0 {
            return;
        }
        // SAFETY: nothing else uses the rank.
        let finalized = self.call(|calls| unsafe { calls.finalize(comm) });
        if finalized.and_then(|_| self.wait(comm, FAREWELL)).is_err() {
            return self.end(comm);
        }
        // SAFETY: nothing uses the rank from here on. A failure changes nothing here.
        let _ = self.call(|calls| unsafe { calls.destroy(comm) });
    }
}

/// Calls the library with a context.
fn call_with<T>(
    library: &CollectivesLibrary,
    context: &Context,
    call: impl FnOnce(&dyn NcclApi) -> ApiResult<T>,
) -> Result<Option<T>> {
    let _current = context.enter().map_err(|error| context.failed(error))?;
    let outcome = call(&**library.calls());
    match outcome {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_pending() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Ends a rank of the library, with what it has begun, unless it has none.
fn end_rank(library: &CollectivesLibrary, context: &Context, comm: NcclComm) {
    if comm.0 != 0 {
        // SAFETY: nothing uses the rank from here on. A failure changes nothing here.
        let _ = call_with(library, context, |calls| unsafe { calls.abort(comm) });
    }
}

/// A configuration whose calls do not block.
fn config() -> NcclConfig {
    NcclConfig {
        size: size_of::<NcclConfig>() as u64,
        magic: CONFIG_MAGIC,
        version: CONFIG_VERSION,
        blocking: 0,
        cga_cluster_size: UNDEFINED_INT,
        min_ctas: UNDEFINED_INT,
        max_ctas: UNDEFINED_INT,
        net_name: std::ptr::null(),
        split_share: UNDEFINED_INT,
        padding: 0,
    }
}

/// A stream of the context, as the library names it.
pub(super) fn stream_of(stream: vireo_cuda::types::CuStream) -> CudaStream {
    CudaStream(stream.0)
}

/// The failure of a wait for other ranks.
#[cold]
pub(super) fn late(limit: Duration) -> Status {
    Status::new(StatusCode::DeadlineExceeded, format!("collective operations waited {limit:?} for other ranks"))
}
