//! Frontiers: sets of points on timelines that an operation comes after, and their order. Strategies and pools compare
//! them.

use smallvec::SmallVec;

use crate::hal::FrontierEntry;

/// The points after which a range of memory may be used, at most one for each timeline.
pub(super) type Frontier = SmallVec<[FrontierEntry; 2]>;

/// Adds the points of `other` to `frontier`; of two on one timeline the later one stays.
pub(super) fn join(frontier: &mut Frontier, other: &[FrontierEntry]) {
    for entry in other {
        match frontier.iter_mut().find(|known| known.axis == entry.axis) {
            Some(known) => known.epoch = known.epoch.max(entry.epoch),
            None => frontier.push(*entry),
        }
    }
}

/// Whether everything after `requester` is after `death_frontier` too. `reached` is true for points that are in the
/// past.
pub(super) fn dominates(
    requester: &[FrontierEntry],
    death_frontier: &[FrontierEntry],
    reached: impl Fn(FrontierEntry) -> bool,
) -> bool {
    death_frontier.iter().all(|needed| {
        requester.iter().any(|known| known.axis == needed.axis && known.epoch >= needed.epoch) || reached(*needed)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(points: &[(u64, u64)]) -> Frontier {
        points.iter().map(|&(axis, epoch)| FrontierEntry { axis, epoch }).collect()
    }

    #[test]
    fn later_points_of_all_timelines_are_needed() {
        let never = |_| false;
        assert!(dominates(&[], &[], never));
        assert!(dominates(&at(&[(1, 5), (2, 7)]), &at(&[(1, 5)]), never));
        assert!(!dominates(&at(&[(1, 4), (2, 7)]), &at(&[(1, 5)]), never));
        assert!(!dominates(&at(&[(2, 7)]), &at(&[(1, 1), (2, 7)]), never));
        assert!(dominates(&at(&[(2, 7)]), &at(&[(1, 1), (2, 7)]), |entry| entry.axis == 1));
        let mut joined = at(&[(1, 5), (2, 7)]);
        join(&mut joined, &at(&[(2, 6), (1, 9), (3, 1)]));
        assert_eq!(joined, at(&[(1, 9), (2, 7), (3, 1)]));
    }
}
