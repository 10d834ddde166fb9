//! The points of timelines that submissions have promised so far: which submissions can end, and which wait for a point
//! that a later one signals, or none.

/// A point by the numbers of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Point {
    /// The semaphore.
    pub(crate) semaphore: u64,
    /// Its place in tables of objects.
    pub(crate) place: usize,
    /// The value.
    pub(crate) value: u64,
}

/// A submission that waits for a point which is not promised yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocked {
    /// The index of its step.
    pub(crate) step: usize,
    waits: Vec<Point>,
    signals: Vec<Point>,
}

/// The points that submissions have promised.
#[derive(Debug)]
pub(crate) struct Timelines {
    /// By the places of semaphores.
    promised: Vec<u64>,
    blocked: Vec<Blocked>,
}

impl Timelines {
    /// Nothing is promised yet, of as many objects as there are places.
    pub(crate) fn new(places: usize) -> Timelines {
        Timelines { promised: vec![0; places], blocked: Vec::new() }
    }

    /// A semaphore that begins at a value.
    pub(crate) fn begin(&mut self, place: usize, value: u64) {
        if let Some(promised) = self.promised.get_mut(place) {
            *promised = value;
        }
    }

    fn promised(&self, point: &Point) -> bool {
        self.promised.get(point.place).is_some_and(|value| *value >= point.value)
    }

    /// The first of these points that nothing has promised.
    pub(crate) fn missing(&self, waits: &[Point]) -> Option<Point> {
        waits.iter().copied().find(|point| !self.promised(point))
    }

    /// A submission. Returns the signals of all that can end now: its own, and those of others that waited for them.
    /// None if it cannot end yet.
    pub(crate) fn submit(&mut self, step: usize, waits: &[Point], signals: &[Point]) -> Vec<Vec<Point>> {
        if self.missing(waits).is_some() {
            self.blocked.push(Blocked { step, waits: waits.to_vec(), signals: signals.to_vec() });
            return Vec::new();
        }
        let mut ending = vec![signals.to_vec()];
        self.promise(signals);
        while !self.blocked.is_empty() {
            let ready = self.blocked.iter().position(|other| self.missing(&other.waits).is_none());
            let Some(ready) = ready else { break };
            let Blocked { signals, .. } = self.blocked.remove(ready);
            self.promise(&signals);
            ending.push(signals);
        }
        ending
    }

    /// Promises points.
    pub(crate) fn promise(&mut self, points: &[Point]) {
        for point in points {
            if let Some(value) = self.promised.get_mut(point.place) {
                *value = (*value).max(point.value);
            }
        }
    }

    /// True if a submission waits for others.
    pub(crate) fn is_blocked(&self) -> bool {
        !self.blocked.is_empty()
    }

    /// The first submission that waits, with a point that nothing signals.
    pub(crate) fn first_blocked(&self) -> Option<(usize, Point)> {
        let first = self.blocked.iter().min_by_key(|blocked| blocked.step)?;
        Some((first.step, self.missing(&first.waits)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn point(semaphore: u64, value: u64) -> Point {
        Point { semaphore, place: semaphore as usize, value }
    }

    #[test]
    fn submissions_end_once_their_points_are_promised() {
        let mut timelines = Timelines::new(3);
        timelines.begin(1, 0);
        timelines.begin(2, 5);
        assert_eq!(timelines.submit(0, &[point(2, 5)], &[point(2, 6)]), [vec![point(2, 6)]]);
        assert!(timelines.submit(1, &[point(1, 2)], &[point(1, 3)]).is_empty());
        assert!(timelines.submit(2, &[point(1, 1)], &[point(1, 2)]).is_empty());
        assert_eq!(timelines.first_blocked(), Some((1, point(1, 2))));
        let ending = timelines.submit(3, &[], &[point(1, 1)]);
        assert_eq!(ending, [vec![point(1, 1)], vec![point(1, 2)], vec![point(1, 3)]]);
        assert!(!timelines.is_blocked());
        assert_eq!(timelines.missing(&[point(9, 1)]), Some(point(9, 1)));
    }
}
