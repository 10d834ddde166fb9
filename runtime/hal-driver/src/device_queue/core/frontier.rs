//! Frontiers of queues ([`Frontier`]): what is known to have completed before the next packet of a queue begins, as one
//! epoch for each other queue. A wait for something before the frontier is elided.
//!
//! A frontier has room for a few queues. If there are more, some are forgotten, and waits for them are not elided: it
//! may know less than is true, never more.

/// Queues that a frontier knows of at most.
const CAPACITY: usize = 8;

/// Epochs that have been reached, by queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Frontier {
    /// The numbers of queues, which count from 1, and their epochs.
    entries: [(u64, u64); CAPACITY],
}

impl Frontier {
    /// Whether the queue is known to have reached the epoch.
    pub fn has_reached(&self, queue: u64, epoch: u64) -> bool {
        self.entries.iter().any(|(other, reached)| *other == queue && *reached >= epoch)
    }

    /// Adds that a queue has reached an epoch.
    pub fn add(&mut self, queue: u64, epoch: u64) {
        let known = self.entries.iter().position(|(other, _)| *other == queue);
        let slot = known.or_else(|| self.entries.iter().position(|(other, _)| *other == 0));
        // If there is no room the queue that was added first is forgotten: the later ones are more likely to be waited
        // for again.
        let slot = slot.unwrap_or_else(|| {
            self.entries.rotate_left(1);
            CAPACITY - 1
        });
        let (other, reached) = &mut self.entries[slot];
        *reached = if *other == queue { epoch.max(*reached) } else { epoch };
        *other = queue;
    }

    /// Adds all that another frontier knows.
    pub fn merge(&mut self, other: &Frontier) {
        for (queue, epoch) in other.entries.iter().filter(|(queue, _)| *queue != 0) {
            self.add(*queue, *epoch);
        }
    }
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
    fn a_frontier_that_overflows_forgets_but_claims_nothing() {
        let mut frontier = Frontier::default();
        let count = CAPACITY as u64 * 2 + 1;
        for queue in 1..=count {
            frontier.add(queue, queue * 10);
        }
        for queue in 1..=count {
            assert!(!frontier.has_reached(queue, queue * 10 + 1));
            assert_eq!(frontier.has_reached(queue, queue * 10), queue > count - CAPACITY as u64, "queue {queue}");
        }
    }
}
