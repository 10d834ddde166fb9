//! The profile of a command program: its expected time, by which executions decide whether workers are worth it, and
//! the measured times of the ways to share it, by which they choose one.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use smallvec::SmallVec;

/// Thresholds of the levels of sharing: each is [`LEVEL_RATIO`] times the one before.
const SHARED_LEVELS: usize = 3;
const LEVEL_RATIO: u64 = 4;
/// Consecutive runs of a level whenever it is tried.
const TRIAL_RUNS: u32 = 6;
/// The first of them do not count: sleeping workers have to wake, and the data is in the caches of other processors.
const WARM_UP_RUNS: u32 = 2;
/// Of so many runs the last [`TRIAL_RUNS`] try a level again, since the load of the machine changes.
const TRIAL_PERIOD: u32 = 1024;
/// A slower run counts for one part in so many of the time of its level, a faster one for all of it: what slows down
/// single runs is others.
const SLOW_WEIGHT: u32 = 8;
/// Other levels than [`SharingLevel::MOST`] have to be faster by one part in so many, which is more than runs differ by
/// chance.
const MARGIN: u32 = 64;
/// Programs that take longer than this, in nanoseconds, are shared without trials if workers are expected to save a
/// quarter: what sharing small groups costs is little beside that, and a trial takes long.
const MAX_TRIED_TIME: u64 = 2_000_000;

/// How much of a program workers share: the groups of commands for which that saves enough time, or nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SharingLevel(usize);

impl SharingLevel {
    /// All groups that are worth waiting for workers.
    pub(super) const MOST: SharingLevel = SharingLevel(0);
    /// No group: the program runs on one thread.
    pub(super) const ALONE: SharingLevel = SharingLevel(SHARED_LEVELS);

    /// The least time in nanoseconds that sharing a group has to save, if that of [`SharingLevel::MOST`] is `least`.
    pub(super) fn threshold(self, least: u64) -> u64 {
        if self == SharingLevel::ALONE { u64::MAX } else { least.saturating_mul(LEVEL_RATIO.pow(self.0 as u32)) }
    }

    /// The levels at which some groups are shared.
    pub(super) fn shared() -> impl Iterator<Item = SharingLevel> {
        (0..SHARED_LEVELS).map(SharingLevel)
    }
}

/// The expected time of commands that may run at the same time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupTime {
    /// Nanoseconds on one thread.
    pub(super) total: u64,
    /// Nanoseconds of the longest tile, which one thread runs.
    longest_tile: u64,
    pub(super) tiles: u64,
}

impl GroupTime {
    /// Adds a command of `tiles` equal tiles.
    pub(super) fn add(&mut self, time: u64, tiles: u64) {
        self.total = self.total.saturating_add(time);
        self.longest_tile = self.longest_tile.max(time.checked_div(tiles).unwrap_or(0));
        self.tiles = self.tiles.saturating_add(tiles);
    }

    /// The nanoseconds that `concurrency` threads save, at most.
    pub(super) fn saved(&self, concurrency: u64) -> u64 {
        let shared = (self.total / concurrency.max(1)).max(self.longest_tile);
        self.total.saturating_sub(shared)
    }
}

/// The expected time of a run, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Estimate {
    /// On one thread.
    pub(super) total: u64,
    /// The time that workers save at each level.
    pub(super) saved: [u64; SHARED_LEVELS],
}

impl Estimate {
    /// The levels that differ, and could be the fastest.
    fn candidates(&self) -> SmallVec<[SharingLevel; SHARED_LEVELS + 1]> {
        let is_new = |level: &SharingLevel| {
            let saved = self.saved[level.0];
            saved > 0 && (level.0 == 0 || saved != self.saved[level.0 - 1])
        };
        if self.total > MAX_TRIED_TIME && self.saved[0] >= self.total / 4 {
            return SmallVec::from_slice(&[SharingLevel::MOST]);
        }
        SharingLevel::shared().filter(is_new).chain([SharingLevel::ALONE]).collect()
    }
}

/// The expected time of a program, from the runs so far, and the time of its runs.
#[derive(Debug, Default)]
pub(crate) struct ProgramProfile {
    runs: AtomicU32,
    /// One more than the estimate in nanoseconds; zero for none.
    total: AtomicU32,
    saved: [AtomicU32; SHARED_LEVELS],
    /// Runs for which a level was chosen.
    choices: AtomicU32,
    /// The time of a run at each level in nanoseconds, the last one without workers; zero if there was none.
    times: [AtomicU32; SHARED_LEVELS + 1],
}

/// A level that was chosen for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Choice {
    pub(super) level: SharingLevel,
    /// Whether the time of the run counts.
    pub(super) counts: bool,
}

impl ProgramProfile {
    /// Counts a run; true if it is to be measured: the first few runs, and then one in 64, since reading the clock
    /// costs time. A program with a loop may record a command buffer in each iteration, so of programs whose kernels
    /// are all measured (`is_known`) only one in 16 has its first run measured.
    pub(super) fn count(&self, is_known: impl FnOnce() -> bool) -> bool {
        static FIRST_RUNS: AtomicU32 = AtomicU32::new(0);
        // A run that another thread overwrites is measured once more or once less.
        let runs = self.runs.load(Ordering::Relaxed);
        self.runs.store(runs.wrapping_add(1), Ordering::Relaxed);
        match runs {
            0 => !is_known() || FIRST_RUNS.fetch_add(1, Ordering::Relaxed).is_multiple_of(16),
            1..4 => true,
            _ => runs.is_multiple_of(64),
        }
    }

    pub(super) fn get(&self) -> Option<Estimate> {
        let total = self.total.load(Ordering::Relaxed).checked_sub(1)?.into();
        Some(Estimate { total, saved: self.saved.each_ref().map(|saved| saved.load(Ordering::Relaxed).into()) })
    }

    pub(super) fn set(&self, estimate: Estimate) {
        let limited = |time: u64| u32::try_from(time).unwrap_or(u32::MAX - 1).min(u32::MAX - 1);
        for (own, saved) in self.saved.iter().zip(estimate.saved) {
            own.store(limited(saved), Ordering::Relaxed);
        }
        self.total.store(limited(estimate.total) + 1, Ordering::Relaxed);
    }

    /// Chooses the level of the next run: the one that was fastest, after each has been tried. An estimate cannot tell,
    /// because it does not know what it costs that a thread reads what another one wrote, or that a worker runs late.
    pub(super) fn choose(&self, estimate: &Estimate) -> Choice {
        let candidates = estimate.candidates();
        let count = candidates.len() as u32;
        if count < 2 {
            return Choice { level: candidates.first().copied().unwrap_or(SharingLevel::MOST), counts: false };
        }
        // A count that another thread overwrites moves a trial.
        let choices = self.choices.load(Ordering::Relaxed);
        self.choices.store(choices.wrapping_add(1), Ordering::Relaxed);
        let of_trial =
            |trial: u32, run: u32| Choice { level: candidates[(trial % count) as usize], counts: run >= WARM_UP_RUNS };
        let Some(later) = choices.checked_sub(count * TRIAL_RUNS) else {
            return of_trial(choices / TRIAL_RUNS, choices % TRIAL_RUNS);
        };
        let (period, run) = (later / TRIAL_PERIOD, later % TRIAL_PERIOD);
        if let Some(run) = run.checked_sub(TRIAL_PERIOD - TRIAL_RUNS) {
            return of_trial(period, run);
        }
        let time = |level: &SharingLevel| match self.times[level.0].load(Ordering::Relaxed) {
            0 => u32::MAX,
            time if *level == SharingLevel::MOST => time,
            time => time.saturating_add(time / MARGIN),
        };
        let level = candidates.iter().copied().min_by_key(time).unwrap_or(SharingLevel::MOST);
        Choice { level, counts: run >= WARM_UP_RUNS }
    }

    /// Adds the time of a run.
    pub(super) fn add(&self, level: SharingLevel, time: Duration) {
        let time = u32::try_from(time.as_nanos()).unwrap_or(u32::MAX).max(1);
        let own = &self.times[level.0];
        let before = own.load(Ordering::Relaxed);
        let now = if before == 0 || time < before { time } else { before + (time - before) / SLOW_WEIGHT };
        own.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ESTIMATE: Estimate = Estimate { total: 100_000, saved: [40_000, 30_000, 30_000] };

    /// The levels of `runs` runs, whose times are those of `time`.
    fn levels(profile: &ProgramProfile, runs: u32, time: impl Fn(SharingLevel) -> u64) -> Vec<SharingLevel> {
        let run = |_| {
            let choice = profile.choose(&ESTIMATE);
            if choice.counts {
                profile.add(choice.level, Duration::from_nanos(time(choice.level)));
            }
            choice.level
        };
        (0..runs).map(run).collect()
    }

    #[test]
    fn what_workers_save_is_bounded_by_the_longest_tile() {
        let mut group = GroupTime::default();
        group.add(8_000, 8);
        assert_eq!((group.saved(2), group.saved(4)), (4_000, 6_000));
        group.add(50_000, 1);
        assert_eq!((group.total, group.tiles), (58_000, 9));
        assert_eq!((group.saved(1), group.saved(2), group.saved(4)), (0, 8_000, 8_000));
        group.add(0, 0);
        assert_eq!(group.saved(2), 8_000);
    }

    #[test]
    fn the_fastest_level_is_chosen_once_all_that_differ_were_tried() {
        let (most, middle) = (SharingLevel::MOST, SharingLevel(1));
        for fastest in [most, middle, SharingLevel::ALONE] {
            let profile = ProgramProfile::default();
            let time = |level| if level == fastest { 50_000 } else { 60_000 };
            let tried = levels(&profile, 3 * TRIAL_RUNS, time);
            for (index, level) in [most, middle, SharingLevel::ALONE].into_iter().enumerate() {
                assert!(tried[index * TRIAL_RUNS as usize..].iter().take(TRIAL_RUNS as usize).all(|one| *one == level));
            }
            let chosen = levels(&profile, TRIAL_PERIOD - TRIAL_RUNS, time);
            assert!(chosen.iter().all(|level| *level == fastest));
        }
    }

    #[test]
    fn a_level_that_becomes_slower_is_left_and_others_are_tried_again() {
        let profile = ProgramProfile::default();
        let most = SharingLevel::MOST;
        let idle = |level| if level == most { 50_000 } else { 100_000 };
        assert_eq!(levels(&profile, 100, idle).last(), Some(&most));
        // One slow run changes nothing.
        profile.add(most, Duration::from_micros(200));
        assert_eq!(levels(&profile, 1, idle), [most]);
        let loaded = |level| if level == SharingLevel::ALONE { 100_000 } else { 400_000 };
        assert_eq!(levels(&profile, 100, loaded).last(), Some(&SharingLevel::ALONE));
        // Each level gets its turn again.
        let later = levels(&profile, 4 * TRIAL_PERIOD, idle);
        assert!(later.contains(&most) && later.contains(&SharingLevel(1)));
        assert_eq!(later.last(), Some(&most));
    }

    #[test]
    fn a_long_program_that_gains_much_is_not_tried() {
        let long = Estimate { total: 40_000_000, saved: [19_000_000, 18_000_000, 18_000_000] };
        assert_eq!(long.candidates()[..], [SharingLevel::MOST]);
        let choice = ProgramProfile::default().choose(&long);
        assert_eq!(choice, Choice { level: SharingLevel::MOST, counts: false });
        let gains_little = Estimate { saved: [1_000_000; 3], ..long };
        assert_eq!(gains_little.candidates()[..], [SharingLevel::MOST, SharingLevel::ALONE]);
    }

    #[test]
    fn thresholds_grow_with_the_levels() {
        let thresholds: Vec<u64> = SharingLevel::shared().map(|level| level.threshold(2_000)).collect();
        assert_eq!(thresholds, [2_000, 8_000, 32_000]);
        assert_eq!(SharingLevel::ALONE.threshold(0), u64::MAX);
    }
}
