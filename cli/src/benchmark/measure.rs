//! Timing: how many iterations a repetition needs to be long enough, and how long it took.

use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

use crate::arguments::MinTime;

/// Most iterations of a repetition.
const MAX_ITERATIONS: u64 = 1_000_000_000;

/// What to measure.
pub struct Plan {
    /// When a repetition is long enough.
    pub min_time: MinTime,
    /// Seconds to run before measuring.
    pub warm_up: f64,
    /// How often to measure.
    pub repetitions: u32,
}

/// One measurement.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Repetition {
    /// How many iterations were run.
    pub iterations: u64,
    /// Seconds of wall time for each.
    pub real: f64,
    /// Seconds of processor time of the process for each.
    pub cpu: f64,
}

/// Runs `iteration` as often as `plan` says. The first failure ends it.
pub fn measure<E>(plan: &Plan, mut iteration: impl FnMut() -> Result<(), E>) -> Result<Vec<Repetition>, E> {
    // The first call pays for what is made lazily.
    iteration()?;
    let start = Instant::now();
    while start.elapsed().as_secs_f64() < plan.warm_up {
        iteration()?;
    }
    let mut first = repeat(
        match plan.min_time {
            MinTime::Iterations(iterations) => iterations,
            MinTime::Seconds(_) => 1,
        },
        &mut iteration,
    )?;
    if let MinTime::Seconds(seconds) = plan.min_time {
        while let Some(iterations) = more_iterations(&first, seconds) {
            first = repeat(iterations, &mut iteration)?;
        }
    }
    let mut repetitions = vec![first];
    for _ in 1..plan.repetitions {
        repetitions.push(repeat(first.iterations, &mut iteration)?);
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

fn repeat<E>(iterations: u64, iteration: &mut impl FnMut() -> Result<(), E>) -> Result<Repetition, E> {
    let (cpu, real) = (processor_time(), Instant::now());
    for _ in 0..iterations {
        iteration()?;
    }
    let (real, cpu) = (real.elapsed(), processor_time().saturating_sub(cpu));
    let each = |time: Duration| time.as_secs_f64() / iterations as f64;
    Ok(Repetition { iterations, real: each(real), cpu: each(cpu) })
}

/// Processor time that all threads of the process have used.
fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
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
        let mut calls = 0;
        let plan = Plan { min_time: MinTime::Iterations(7), warm_up: 0.0, repetitions: 3 };
        let repetitions = measure(&plan, || {
            calls += 1;
            Ok::<(), ()>(())
        });
        assert_eq!(repetitions.unwrap().iter().map(|one| one.iterations).collect::<Vec<_>>(), [7, 7, 7]);
        assert_eq!(calls, 1 + 3 * 7);
        assert_eq!(measure(&plan, || Err("no")).unwrap_err(), "no");
    }
}
