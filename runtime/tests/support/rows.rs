//! Rows of benchmarks that measure the cost of the host: the time that a thread runs, the best of some rounds.

use rustix::time::{ClockId, clock_gettime};

/// Seconds that this thread has run.
fn thread_time() -> f64 {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 * 1e-9
}

/// The seconds that this thread runs in a part.
pub fn timed(run: impl FnOnce()) -> f64 {
    let start = thread_time();
    run();
    thread_time() - start
}

/// Prints a row if `filter` is a part of its name: nanoseconds for each of `count`, in the best of `rounds`. `run`
/// returns the seconds of a round.
pub fn report(filter: &str, row: &str, rounds: usize, count: usize, mut run: impl FnMut() -> f64) {
    if !row.contains(filter) || rounds == 0 {
        return;
    }
    let mut times: Vec<f64> = (0..rounds).map(|_| run()).collect();
    times.sort_by(f64::total_cmp);
    let (best, median) = (times[0], times[rounds / 2]);
    let each = |time: f64| time * 1e9 / count as f64;
    println!("{row:48} {:8.1} ns each (median {:8.1}), {:8.2} us for {count}", each(best), each(median), best * 1e6);
}
