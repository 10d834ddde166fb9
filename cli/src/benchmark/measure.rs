//! Timing of benchmarks: chooses the number of iterations of a repetition, and measures wall and processor time. Called
//! by `benchmark`.

use std::time::{Duration, Instant};

use vireo::interp::background;

use crate::arguments::MinTime;

/// Most iterations of a repetition.
const MAX_ITERATIONS: u64 = 1_000_000_000;

/// The plan of a measurement.
#[derive(Clone, Copy)]
pub struct Plan {
    /// When a repetition is long enough.
    pub min_time: MinTime,
    /// Seconds to run before measuring.
    pub warm_up: f64,
    /// How often to measure.
    pub repetitions: u32,
    /// One round is all there is.
    pub dry_run: bool,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition {
    /// How many calls were made.
    pub iterations: u64,
    /// Seconds of wall time for each.
    pub real: f64,
    /// Seconds of processor time of the process for each.
    pub cpu: f64,
}

/// Time that is being measured. It runs when a repetition begins.
pub struct Stopwatch {
    real: Duration,
    cpu: Duration,
    since: Option<(Duration, Instant)>,
}

impl Stopwatch {
    /// Goes on measuring.
    pub fn resume(&mut self) {
        // The wall time is read innermost, so that it does not count reading the other.
        let cpu = processor_time();
        self.since = Some((cpu, Instant::now()));
    }

    /// Stops measuring: what is done from here on is not counted.
    pub fn pause(&mut self) {
        if let Some((cpu, real)) = self.since.take() {
            self.real += real.elapsed();
            self.cpu += processor_time().saturating_sub(cpu);
        }
    }
}

/// The stage of a measurement, for its progress bar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// The first call and the warm-up.
    WarmUp,
    /// A repetition, from 0, of this many iterations; the first is made anew until it is long enough.
    Repetition(u32, u64),
}

/// Runs `round`, which makes `calls` calls, as often as `plan` says. Times are those of one call. The first failure
/// ends it. `tell` learns what comes next, while nothing is measured.
pub fn measure<E>(
    plan: &Plan,
    calls: u64,
    mut tell: impl FnMut(Stage),
    mut round: impl FnMut(&mut Stopwatch) -> Result<(), E>,
) -> Result<Vec<Repetition>, E> {
    tell(Stage::WarmUp);
    // The first round pays for what is made lazily.
    let once = repeat(1, calls, &mut round)?;
    if plan.dry_run {
        return Ok(vec![once]);
    }
    // The measurement includes neither the time until kernels are compiled, nor a processor that compiles them.
    background::wait();
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < plan.warm_up {
        repeat(1, calls, &mut round)?;
    }
    let iterations = match plan.min_time {
        MinTime::Iterations(iterations) => iterations,
        MinTime::Seconds(_) => 1,
    };
    tell(Stage::Repetition(0, iterations));
    let mut first = repeat(iterations, calls, &mut round)?;
    if let MinTime::Seconds(seconds) = plan.min_time {
        while let Some(iterations) = more_iterations(&first, seconds) {
            tell(Stage::Repetition(0, iterations));
            first = repeat(iterations, calls, &mut round)?;
        }
    }
    let mut repetitions = vec![first];
    for repetition in 1..plan.repetitions {
        tell(Stage::Repetition(repetition, first.iterations));
        repetitions.push(repeat(first.iterations, calls, &mut round)?);
    }
    Ok(repetitions)
}

/// How many iterations to try after `last`, which was too short; none if it was long enough.
fn more_iterations(last: &Repetition, seconds: f64) -> Option<u64> {
    let elapsed = last.real * last.iterations as f64;
    if elapsed >= seconds || last.iterations >= MAX_ITERATIONS {
        return None;
    }
    // Aim somewhat higher, so that the next try suffices; a very short one says little about the rate.
    let factor = if elapsed > seconds / 10.0 { (1.4 * seconds / elapsed).max(1.0) } else { 10.0 };
    let iterations = (last.iterations as f64 * factor).ceil() as u64;
    Some(iterations.clamp(last.iterations + 1, MAX_ITERATIONS))
}

/// Makes at least `iterations` calls.
fn repeat<E>(
    iterations: u64,
    calls: u64,
    round: &mut impl FnMut(&mut Stopwatch) -> Result<(), E>,
) -> Result<Repetition, E> {
    let rounds = iterations.div_ceil(calls);
    let mut watch = Stopwatch { real: Duration::ZERO, cpu: Duration::ZERO, since: None };
    watch.resume();
    for _ in 0..rounds {
        round(&mut watch)?;
    }
    watch.pause();
    let iterations = rounds.saturating_mul(calls);
    let each = |time: Duration| time.as_secs_f64() / iterations as f64;
    Ok(Repetition { iterations, real: each(watch.real), cpu: each(watch.cpu) })
}

/// Processor time that all threads of the process have used.
#[cfg(not(windows))]
fn processor_time() -> Duration {
    use rustix::time::{ClockId, clock_gettime};

    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// Processor time that all threads of the process have used.
#[cfg(windows)]
fn processor_time() -> Duration {
    cpu_time::ProcessTime::now().as_duration()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_iterations_grows_until_it_is_long_enough() {
        let of = |iterations, real| Repetition { iterations, real, cpu: 0.0 };
        assert_eq!(more_iterations(&of(1, 1e-9), 0.5), Some(10));
        assert_eq!(more_iterations(&of(100, 1e-3), 0.5), Some(700));
        assert_eq!(more_iterations(&of(700, 1e-3), 0.5), None);
        assert_eq!(more_iterations(&of(100, 4.9e-3), 0.5), Some(143));
        assert_eq!(more_iterations(&of(1, 0.0), 0.0), None);
        assert_eq!(more_iterations(&of(MAX_ITERATIONS, 0.0), 0.5), None);
    }

    #[test]
    fn counts_are_kept() {
        let mut rounds = 0;
        let plan = Plan { min_time: MinTime::Iterations(7), warm_up: 0.0, repetitions: 3, dry_run: false };
        let mut stages = Vec::new();
        let tell = |stage| stages.push(stage);
        let repetitions = measure(&plan, 2, tell, |_| {
            rounds += 1;
            Ok::<(), ()>(())
        });
        let repetition = |index, iterations| Stage::Repetition(index, iterations);
        assert_eq!(stages, [Stage::WarmUp, repetition(0, 7), repetition(1, 8), repetition(2, 8)]);
        assert_eq!(repetitions.unwrap().iter().map(|one| one.iterations).collect::<Vec<_>>(), [8, 8, 8]);
        assert_eq!(rounds, 1 + 3 * 4);
        assert_eq!(measure(&plan, 1, |_| {}, |_| Err("no")).unwrap_err(), "no");
        let dry = measure(&Plan { dry_run: true, ..plan }, 3, |_| {}, |_| Ok::<(), ()>(()));
        assert_eq!(dry.unwrap().iter().map(|one| one.iterations).collect::<Vec<_>>(), [3]);
    }

    #[test]
    fn what_is_done_in_a_pause_is_not_counted() {
        let plan = Plan { min_time: MinTime::Iterations(2), warm_up: 0.0, repetitions: 1, dry_run: false };
        let repetitions = measure(
            &plan,
            1,
            |_| {},
            |watch| {
                watch.pause();
                std::thread::sleep(Duration::from_millis(20));
                watch.resume();
                Ok::<(), ()>(())
            },
        );
        assert!(repetitions.unwrap()[0].real < 0.015);
    }
}
