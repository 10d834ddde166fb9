//! Measured times of kernels, by which devices with workers decide whether to share a dispatch.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// A moving average of the time of a workgroup in nanoseconds. Any number of threads may read and add; additions that
/// race may be lost, which does not matter for an estimate.
#[derive(Debug, Default)]
pub struct KernelTiming(AtomicU32);

/// A new time counts for one part in so many of the average.
const WEIGHT: i64 = 4;

impl KernelTiming {
    /// The average, if there was a measurement yet.
    pub fn nanoseconds(&self) -> Option<u32> {
        self.0.load(Ordering::Relaxed).checked_sub(1)
    }

    /// Adds the time that `count` workgroups took together.
    pub fn add(&self, time: Duration, count: u64) {
        let each = time.as_nanos() / u128::from(count.max(1));
        let each = u32::try_from(each).unwrap_or(u32::MAX).min(u32::MAX - 1);
        let average = match self.nanoseconds() {
            None => each,
            Some(before) => {
                let change = (i64::from(each) - i64::from(before)) / WEIGHT;
                // Between the two, so it has 32 bits.
                (i64::from(before) + change) as u32
            }
        };
        self.0.store(average + 1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_time_is_the_average_and_later_ones_move_it() {
        let timing = KernelTiming::default();
        assert_eq!(timing.nanoseconds(), None);
        timing.add(Duration::from_nanos(4000), 4);
        assert_eq!(timing.nanoseconds(), Some(1000));
        timing.add(Duration::from_nanos(2000), 1);
        assert_eq!(timing.nanoseconds(), Some(1250));
        timing.add(Duration::ZERO, 0);
        assert_eq!(timing.nanoseconds(), Some(938));
        timing.add(Duration::MAX, 1);
        timing.add(Duration::MAX, 1);
        assert!(timing.nanoseconds().is_some_and(|time| time > 1 << 30));
    }
}
