//! The rules of packet processors ([`Rule`]) that keep them from hanging, and from running what they may not. All of
//! them hold here, so asking costs nothing. The model checker of `tests/model` breaks one after the other, and has to
//! find each.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// Of several producers one may overwrite the number of another one that was greater, so what is reserved counts
    /// too.
    ReservedPacketsCount,
    /// A packet keeps its slot until it has run.
    PacketsKeepTheirSlots,
    /// A processor asks whether it was stopped before it looks for a packet.
    StopsComeFirst,
    /// A packet that fails is the last one.
    FailuresAreTheLast,
    /// The end of a queue wakes its processor.
    EndsRingTheDoorbell,
    /// The end of a queue wakes a packet that waits for signals.
    EndsRingSignals,
    /// Each thread that ends a queue waits until it runs nothing, not only the first of them.
    AllEndsWait,
    /// A thread that ends a queue waits until the program was told of a failure, unless it is itself in such a
    /// function.
    EndsWaitForCallbacks,
    /// A function of the program that ends a queue does not wait for functions of the program.
    CallbacksDoNotWaitForCallbacks,
    /// A queue that fails runs nothing more before the program is told.
    FailuresAreQuietFirst,
}

/// Whether a rule is kept.
#[inline(always)]
pub(crate) const fn keeps(_rule: Rule) -> bool {
    true
}
