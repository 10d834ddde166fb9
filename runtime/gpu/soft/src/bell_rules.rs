//! The rules of bells ([`Rule`]) that keep threads from sleeping for ever. All of them hold here, so asking costs
//! nothing. The model checker of the software HSA agent puts another module in this place, breaks one after the other,
//! and has to find each.

/// A rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rule {
    /// A thread that rings a bell takes its lock, so that no thread is between a look and a sleep.
    RingsTakeTheLock,
    /// A thread that is about to sleep looks once more, since the bell may have rung before it was counted.
    SleepersLookAgain,
}

/// Whether a rule is kept.
#[inline(always)]
pub(crate) const fn keeps(_rule: Rule) -> bool {
    true
}
