//! The waves at the barriers of a work-group, for those that wait for some waves alone.

use super::known::Released;

/// Waves of a work-group that have ended, and those at each barrier.
#[derive(Default)]
pub(super) struct Progress {
    pub(super) ended: Vec<u32>,
    pub(super) barriers: Vec<Meeting>,
}

/// The waves at a barrier.
#[derive(Clone, Default)]
pub(super) struct Meeting {
    /// For each wave, before how many barriers its accesses are known to those that have arrived.
    pub(super) seen: Vec<u32>,
    pub(super) acquired: Released,
    pub(super) waiting: Vec<u32>,
}

/// Adds what one knows of each wave to what another one knows.
pub(super) fn join(own: &mut Vec<u32>, other: &[u32]) {
    own.resize(own.len().max(other.len()), 0);
    own.iter_mut().zip(other).for_each(|(own, other)| *own = (*own).max(*other));
}
