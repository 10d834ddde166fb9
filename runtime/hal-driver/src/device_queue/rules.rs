//! The rules of a queue ([`Rule`]) that keep it from hanging and from using what is gone. All of them hold here, so
//! asking costs nothing. The model checker of `tests/model` breaks one after the other, and has to find each.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// A thread that signals a timeline does not submit the operations that waited for it, but leaves them to the
    /// feeders of their queues.
    SignalsDoNotSubmit,
    /// A submission owns the signals that its packets wait for until it has run.
    EntriesOwnWaits,
    /// The end of a call ends its wait for room.
    LimitsEndBackPressure,
    /// A submission that is cut short still has all of its parts: others may wait for the last one.
    CutsKeepEpochs,
    /// Packets stop before what they use is let go.
    PacketsStopFirst,
    /// A failure of a queue ends what waits for its room, too.
    FailureEndsTheLine,
    /// A queue that failed lets go of the queues that wait for it.
    FailureReleasesOthers,
    /// A submission that has run fails if what it waited for failed.
    OutcomesOfWaitsCount,
    /// The threads of a queue stay as long as something may still be submitted to it.
    HoldsKeepThreads,
    /// A panic of the host ends no thread of a queue.
    PanicsAreCaught,
    /// Threads of queues do not wait for queues to end.
    DriverThreadsDoNotWait,
    /// The feeder takes over what its submitter does not wait for any more.
    FeederTakesOver,
    /// A submission that waits for one of its own queue begins after it.
    OwnWaitsAreOrdered,
    /// A lane counts one submission at a time.
    LanesAreFree,
}

/// Whether a rule is kept.
#[inline(always)]
pub const fn keeps(_rule: Rule) -> bool {
    true
}
