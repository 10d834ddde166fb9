//! Frontiers of queues ([`Frontier`]): what is known to have completed before the next packet of a queue begins, as one
//! epoch for each lane of other queues. A wait for something before the frontier is elided.
//!
//! A lane has one place, so that nothing is searched, and lanes of few queues have places of their own. If two share a
//! place, one is forgotten, and waits for it are not elided: a frontier may know less than is true, never more.

/// The lanes of a queue: as many of its submissions may run at once. The completion thread waits for all of them.
pub const LANES: usize = 4;

/// Lanes of queues that a frontier knows of at most.
const CAPACITY: usize = 8;

/// Epochs that have been reached, by queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    /// The numbers of queues, which count from 1, and their epochs, by their places.
    entries: [(u64, u64); CAPACITY],
}

impl Frontier {
    /// Whether the queue is known to have reached the epoch.
    pub fn has_reached(&self, queue: u64, epoch: u64) -> bool {
        let (known, reached) = self.entries[place(queue)];
        known == queue && reached >= epoch
    }

    /// Adds that a queue has reached an epoch. What had its place is forgotten: the later one is more likely to be
    /// waited for again.
    pub fn add(&mut self, queue: u64, epoch: u64) {
        let (known, reached) = &mut self.entries[place(queue)];
        *reached = if *known == queue { epoch.max(*reached) } else { epoch };
        *known = queue;
    }

    /// Adds all that another frontier knows.
    pub fn merge(&mut self, other: &Frontier) {
        for ((known, reached), (queue, epoch)) in self.entries.iter_mut().zip(&other.entries) {
            if *known == *queue {
                *reached = (*reached).max(*epoch);
            } else if *queue != 0 {
                (*known, *reached) = (*queue, *epoch);
            }
        }
    }
}

/// The place of a lane: all lanes of two queues that follow each other have their own, and one lane of each of eight.
fn place(queue: u64) -> usize {
    let (number, lane) = (queue as usize / LANES, queue as usize % LANES);
    (number + lane * CAPACITY / LANES) % CAPACITY
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_added_has_been_reached_and_nothing_else() {
        let mut frontier = Frontier::default();
        assert!(!frontier.has_reached(1, 0));
        frontier.add(1, 5);
        frontier.add(2, 3);
        frontier.add(1, 4);
        assert!(frontier.has_reached(1, 5) && !frontier.has_reached(1, 6));
        let mut other = Frontier::default();
        other.add(2, 9);
        other.add(3, 1);
        frontier.merge(&other);
        assert!(frontier.has_reached(2, 9) && frontier.has_reached(3, 1) && frontier.has_reached(1, 5));
    }

    #[test]
    fn few_lanes_have_places_of_their_own() {
        let lanes = LANES as u64;
        let two = (7 * lanes..9 * lanes).map(place).collect::<std::collections::BTreeSet<_>>();
        let eight = (7..15).map(|number| place(number * lanes + 1)).collect::<std::collections::BTreeSet<_>>();
        assert_eq!((two.len(), eight.len()), (CAPACITY, CAPACITY));
    }

    #[test]
    fn a_frontier_that_overflows_forgets_but_claims_nothing() {
        let mut frontier = Frontier::default();
        let lane = |number: u64| number * LANES as u64;
        let count = CAPACITY as u64 * 2 + 1;
        for number in 1..=count {
            frontier.add(lane(number), number * 10);
        }
        for number in 1..=count {
            assert!(!frontier.has_reached(lane(number), number * 10 + 1));
            let is_known = frontier.has_reached(lane(number), number * 10);
            assert_eq!(is_known, number > count - CAPACITY as u64, "queue {number}");
        }
    }
}
