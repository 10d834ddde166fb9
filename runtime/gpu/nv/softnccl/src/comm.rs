//! A rank of a group ([`Comm`]), and all of them by their handles.
//!
//! A rank is formed on a thread of its own. What it has begun and has not ended is counted, and the first failure of a
//! round stays: the streams of the rank stop there, as they do with the library of the vendor, until the rank is
//! destroyed or aborted.

use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use vireo_collectives::{GroupChannel, Ticket};
use vireo_cuda::nccl::result::NcclResult;
use vireo_cuda::nccl::types::NcclComm;
use vireo_cuda::types::CuContext;
use vireo_hal::{Channel, ChannelFlags};
use vireo_soft::handles::Handles;

use crate::cuda::Cuda;
use crate::form::Formed;
use crate::status::{Failure, Outcome, keep};
use crate::words::Word;

/// The value of words of a rank that is gone: streams go on whatever they wait for.
const GONE: u64 = u64::MAX >> 1;

/// A rank of a group.
#[derive(Debug)]
pub(crate) struct Comm {
    pub(crate) device: i32,
    pub(crate) context: CuContext,
    /// Whether its functions return only once they have ended.
    pub(crate) is_blocking: bool,
    pub(crate) limit: Duration,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    formed: Option<Outcome<Member>>,
    /// Whether it was launched without blocking, and its program has not asked for the outcome.
    is_launching: bool,
    is_final: bool,
    is_gone: bool,
    failure: Option<Failure>,
    /// Rounds that have not ended, and the splits.
    outstanding: u64,
    /// The words of its streams, with the number of the last round.
    words: BTreeMap<u64, (Word, u64)>,
}

/// The membership of a rank that is formed.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) formed: Formed,
    pub(crate) rank: u32,
    pub(crate) count: u32,
}

fn comms() -> &'static Handles<Comm> {
    static COMMS: OnceLock<Handles<Comm>> = OnceLock::new();
    COMMS.get_or_init(|| Handles::new(14 << 44))
}

/// The rank with a handle.
///
/// # Errors
/// INVALID_ARGUMENT if there is none.
pub(crate) fn comm(handle: NcclComm) -> Outcome<Arc<Comm>> {
    comms().get(handle.0).ok_or_else(|| Failure::argument(format!("there is no communicator {:#x}", handle.0)))
}

/// Adds a rank.
pub(crate) fn add(comm: Arc<Comm>) -> NcclComm {
    NcclComm(comms().insert(comm))
}

/// Removes a rank.
pub(crate) fn remove(handle: NcclComm) -> Outcome<Arc<Comm>> {
    comms().remove(handle.0).ok_or_else(|| Failure::argument(format!("there is no communicator {:#x}", handle.0)))
}

impl Comm {
    /// A rank that `form` makes a member, on another thread.
    pub(crate) fn start(
        (device, context): (i32, CuContext),
        is_blocking: bool,
        limit: Duration,
        form: impl FnOnce() -> Outcome<Member> + Send + 'static,
    ) -> Outcome<Arc<Comm>> {
        let comm =
            Arc::new(Comm { device, context, is_blocking, limit, state: Mutex::default(), changed: Condvar::new() });
        let formed = comm.clone();
        let thread = std::thread::Builder::new().name("softnccl-form".into()).spawn(move || {
            let outcome = form();
            if let Err(failure) = &outcome {
                keep(&failure.text);
            }
            let mut state = formed.lock();
            // One that was aborted meanwhile leaves.
            state.formed = Some(if state.is_gone { Err(gone()) } else { outcome });
            drop(state);
            formed.changed.notify_all();
        });
        let no_thread =
            |error| Failure::new(NcclResult::SYSTEM_ERROR, format!("no thread for a communicator: {error}"));
        thread.map_err(no_thread)?;
        Ok(comm)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until it is formed.
    pub(crate) fn wait_until_formed(&self) -> Outcome {
        let waits = |state: &mut State| state.formed.is_none();
        let state = self.changed.wait_while(self.lock(), waits).unwrap_or_else(PoisonError::into_inner);
        match &state.formed {
            Some(Err(failure)) => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// Its membership, for a call that needs it.
    ///
    /// # Errors
    /// The failure of the rank; INVALID_ARGUMENT if it is not formed, INVALID_USAGE if it is finalized.
    pub(crate) fn member(&self) -> Outcome<Member> {
        let state = self.lock();
        if let Some(failure) = &state.failure {
            return Err(failure.clone());
        }
        if state.is_final {
            return Err(Failure::usage("the communicator was finalized"));
        }
        let early = || Failure::argument("a communicator was used before the previous operation returned ncclSuccess");
        if state.is_launching {
            return Err(early());
        }
        state.formed.clone().unwrap_or_else(|| Err(early()))
    }

    /// The status of what goes on.
    pub(crate) fn async_status(&self) -> NcclResult {
        let mut state = self.lock();
        let failed = state.failure.clone().or_else(|| state.formed.as_ref()?.as_ref().err().cloned());
        if let Some(failure) = failed {
            keep(&failure.text);
            return failure.status;
        }
        let is_launching = std::mem::take(&mut state.is_launching);
        if state.formed.is_none() || is_launching || state.is_final && state.outstanding > 0 {
            return NcclResult::IN_PROGRESS;
        }
        NcclResult::SUCCESS
    }

    /// Notes that something was launched without blocking; the program asks until it has ended.
    pub(crate) fn launched(&self) -> NcclResult {
        if self.is_blocking {
            return NcclResult::SUCCESS;
        }
        self.lock().is_launching = true;
        NcclResult::IN_PROGRESS
    }

    /// The word of a stream, and the value with which it goes on after the round that is begun now. The context is
    /// current.
    pub(crate) fn next_round(&self, cuda: &Cuda, stream: u64) -> Outcome<(Word, u64)> {
        let mut state = self.lock();
        let (word, last) = match state.words.remove(&stream) {
            Some(known) => known,
            None => (Word::new(cuda, self.context)?, 0),
        };
        state.words.insert(stream, (word, last + 1));
        Ok((word, last + 1))
    }

    /// Begins a round.
    pub(crate) fn begin(&self, channel: &Arc<GroupChannel>) -> Ticket {
        self.lock().outstanding += 1;
        channel.ticket()
    }

    /// Ends a round. If it succeeded, the streams go on.
    pub(crate) fn end(&self, outcome: Outcome, words: &[(Word, u64)]) {
        let mut state = self.lock();
        state.outstanding -= 1;
        match outcome {
            // A rank that is gone has let the streams go on, beyond this.
            Ok(()) if !state.is_gone => words.iter().for_each(|(word, value)| word.set(*value)),
            Ok(()) => {}
            Err(failure) => {
                keep(&failure.text);
                eprintln!("softnccl: {}", failure.text);
                state.failure.get_or_insert(failure);
            }
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Ends what it has begun; nothing new may follow. One that blocks waits for that.
    pub(crate) fn finalize(&self) -> Outcome<NcclResult> {
        let mut state = self.lock();
        state.is_final = true;
        if !self.is_blocking {
            return Ok(if state.outstanding > 0 { NcclResult::IN_PROGRESS } else { NcclResult::SUCCESS });
        }
        self.wait_for_rounds(state)?;
        Ok(NcclResult::SUCCESS)
    }

    fn wait_for_rounds(&self, mut state: MutexGuard<'_, State>) -> Outcome {
        let end = Instant::now().checked_add(self.limit);
        while state.outstanding > 0 && state.failure.is_none() && !state.is_gone {
            let left = end.map_or(self.limit, |end| end.saturating_duration_since(Instant::now()));
            if left.is_zero() {
                let text = format!("operations of the communicator have not ended after {:?}", self.limit);
                return Err(Failure::new(NcclResult::REMOTE_ERROR, text));
            }
            state = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.failure.clone().map_or(Ok(()), Err)
    }

    /// Leaves the group, after what it has begun unless it `aborts`. Streams go on.
    pub(crate) fn leave(&self, aborts: bool) -> Outcome {
        let outcome = if aborts { Ok(()) } else { self.wait_for_rounds(self.lock()) };
        let left = {
            let mut state = self.lock();
            state.is_gone = true;
            state.words.values().for_each(|(word, _)| word.set(GONE));
            state.formed.replace(Err(gone()))
        };
        // Other ranks get to know of it here.
        drop(left);
        self.changed.notify_all();
        outcome
    }

    /// Splits the group. None for a rank that joins no group.
    pub(crate) fn split(self: &Arc<Self>, color: i32, key: i32, is_blocking: bool) -> Outcome<Option<Arc<Comm>>> {
        let Member { formed: Formed { channel, world }, .. } = self.member()?;
        let split = channel.split(color, key, ChannelFlags::empty())?;
        if color < 0 {
            return Ok(None);
        }
        let form = move || {
            // It waits until all ranks have split.
            let place = split.rank_and_count();
            let split: Arc<dyn std::any::Any + Send + Sync> = split;
            let channel = split.downcast::<GroupChannel>().ok().filter(|_| place.rank >= 0);
            let channel = channel
                .ok_or_else(|| Failure::new(NcclResult::REMOTE_ERROR, "not all ranks of the group have split it"))?;
            let (rank, count) = (place.rank.cast_unsigned(), place.count.cast_unsigned());
            Ok(Member { formed: Formed { channel, world }, rank, count })
        };
        Comm::start((self.device, self.context), is_blocking, self.limit, form).map(Some)
    }
}

fn gone() -> Failure {
    Failure::usage("the communicator was destroyed")
}
