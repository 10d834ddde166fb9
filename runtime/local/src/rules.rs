//! The rules of executors and their queues ([`Rule`]) that keep operations from being lost, and threads from waiting
//! for each other. All of them hold here, so asking costs nothing. The model checker of `tests/model` breaks one after
//! the other, and has to find each.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A task that becomes ready wakes or starts a worker.
    TasksAreAnnounced,
    /// A worker looks for tasks under the lock before it sleeps.
    SleepersLookAgain,
    /// A worker that begins to block while tasks are ready wakes or starts another one.
    BlockedWorkersAreReplaced,
    /// Where all regular workers exist and some block, substitutes start.
    SubstitutesStart,
    /// A task that no thread can run fails.
    UnstartedTasksFail,
    /// Workers run all ready tasks before they stop.
    ReadyTasksRunFirst,
    /// A worker that drops an executor waits for no worker.
    WorkersJoinNobody,
    /// A panic of an operation ends no worker.
    PanicsAreCaught,
    /// A light operation that becomes ready while its thread completes another one runs after that.
    LightOperationsTakeTurns,
    /// A thread runs the light operations that it made ready.
    ThreadQueuesDrain,
    /// A leader waits until the helpers have left its region.
    LeadersWait,
    /// A leader looks for helpers once it has said that it parks.
    LeadersLookBeforeTheyPark,
    /// The last helper of a parked leader wakes it.
    HelpersUnpark,
    /// A panic of a tile fails its region and ends no thread.
    PanicsOfTilesAreCaught,
}

/// Whether a rule is kept.
#[inline(always)]
pub(crate) const fn keeps(_rule: Rule) -> bool {
    true
}
