//! Groups of calls of a thread, between `ncclGroupStart` and `ncclGroupEnd`: operations are launched together, and
//! calls that make ranks wait for each other at the end only.

use std::cell::RefCell;
use std::sync::Arc;

use vireo_cuda::nccl::result::NcclResult;

use crate::comm::Comm;
use crate::operations::{Asked, launch};
use crate::status::{Failure, Outcome};

#[derive(Default)]
struct Group {
    depth: u32,
    asked: Vec<Asked>,
    forming: Vec<Arc<Comm>>,
    failure: Option<Failure>,
}

thread_local! {
    static GROUP: RefCell<Group> = RefCell::default();
}

/// Begins a group, or one in a group.
pub(crate) fn start() -> Outcome<NcclResult> {
    GROUP.with_borrow_mut(|group| group.depth += 1);
    Ok(NcclResult::SUCCESS)
}

/// Ends a group.
pub(crate) fn end() -> Outcome<NcclResult> {
    let ended = GROUP.with_borrow_mut(|group| {
        match group.depth {
            0 => return Err(Failure::usage("not in a group call")),
            1 => {}
            _ => {
                group.depth -= 1;
                return Ok(None);
            }
        }
        Ok(Some(std::mem::take(group)))
    });
    ended?.map_or(Ok(NcclResult::SUCCESS), run)
}

/// Makes a call, in the group of the thread or in one of its own.
pub(crate) fn call(call: impl FnOnce() -> Outcome<Part>) -> Outcome<NcclResult> {
    start()?;
    let part = call();
    GROUP.with_borrow_mut(|group| match part {
        Ok(Part::Asked(asked)) => group.asked.push(asked),
        Ok(Part::Forming(comm)) => group.forming.push(comm),
        Ok(Part::Done) => {}
        // All of the group fails.
        Err(ref failure) => _ = group.failure.get_or_insert(failure.clone()),
    });
    let failure = GROUP.with_borrow(|group| group.failure.clone().filter(|_| group.depth > 1));
    let ended = end();
    failure.map_or(ended, Err)
}

/// A part that a call adds to a group.
pub(crate) enum Part {
    /// An operation.
    Asked(Asked),
    /// A rank that is being formed.
    Forming(Arc<Comm>),
    /// Nothing.
    Done,
}

fn run(group: Group) -> Outcome<NcclResult> {
    if let Some(failure) = group.failure {
        return Err(failure);
    }
    let mut status = NcclResult::SUCCESS;
    for comm in group.forming {
        if comm.is_blocking {
            comm.wait_until_formed()?;
        } else {
            status = NcclResult::IN_PROGRESS;
        }
    }
    let mut asked = group.asked;
    while let Some(first) = asked.first() {
        let comm = first.comm.clone();
        let (of_rank, others): (Vec<Asked>, Vec<Asked>) =
            asked.into_iter().partition(|asked| Arc::ptr_eq(&asked.comm, &comm));
        launch(&of_rank)?;
        if comm.launched() != NcclResult::SUCCESS {
            status = NcclResult::IN_PROGRESS;
        }
        asked = others;
    }
    Ok(status)
}
