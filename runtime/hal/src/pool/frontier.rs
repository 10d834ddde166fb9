//! Frontiers: points on timelines that something comes after.

use smallvec::SmallVec;

use crate::FrontierEntry;

/// The points that a piece of memory may be used after, at most one for each timeline.
pub(super) type Frontier = SmallVec<[FrontierEntry; 2]>;

/// Makes `frontier` come after all that `other` comes after too.
pub(super) fn join(frontier: &mut Frontier, other: &[FrontierEntry]) {
    for entry in other {
        match frontier.iter_mut().find(|known| known.axis == entry.axis) {
            Some(known) => known.epoch = known.epoch.max(entry.epoch),
            None => frontier.push(*entry),
        }
    }
}

/// Whether who comes after `requester` comes after `death_frontier` too. `reached` knows of points that are in the past for everybody.
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
