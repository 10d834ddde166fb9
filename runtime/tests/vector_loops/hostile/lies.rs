//! Lies about hostile nests: after all passes, a guard, an index, a mask or a loop of each is changed at random, as a
//! fault of the optimiser would change it, and the proof has to find what that does to accesses
//! (`jit/src/passes/lies.rs`). Machine code that it lets through leaves no buffer, whatever it computes. Code that it
//! refuses is run as well, with the checks of verified builds in place of the proof, to see what it was refused for.
//!
//! `VIREO_NESTS` and `VIREO_FIRST` say which nests, `VIREO_SECONDS` when to end. With `VIREO_VERIFY=0`, builds without
//! debug assertions run code that was proved without those checks; pages around the memory and all bytes beside the
//! buffers are watched in any case.

use std::io::Write;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use vireo::interp::verify_between_passes;
use vireo_jit::lies;

use super::super::has_lanes;
use super::super::skip::{Need, skipped};
use super::run::{Runner, Strayed};
use super::{Ended, Request, number, requested, run_apart};

/// Nests of the default run.
const NESTS: u64 = if cfg!(debug_assertions) { 20 } else { 1000 };
/// Calls of code that is proved. Of other code there are four times as many.
const CALLS: u64 = 5;
/// Lies about each nest.
const LIES: u64 = 3;
/// Seconds after which a nest is taken to go on for ever: a lie about an inner loop, whose iterations are not counted,
/// may do that.
const ENDLESS: u64 = 4;
/// How the other process ends then.
const ENDLESS_EXIT: i32 = 4;

/// Numbers that are counted, in the order in which the other process says it.
#[derive(Clone, Copy)]
enum Count {
    Told,
    Refused,
    /// Of those that are refused, the ones that can be compiled without the proof, and that do leave a buffer then.
    Compiled,
    Harmful,
    /// Of those that are proved, the ones that were run.
    Harmless,
    Calls,
}
const COUNTS: usize = 6;

/// Whether machine code checks each access.
fn is_watched() -> bool {
    cfg!(debug_assertions) || number("VIREO_VERIFY", 1) == 1
}

/// The part of the test that runs in a process of its own.
#[test]
#[ignore = "another test starts it"]
fn lies_of_the_other_process() {
    let Some(Request { first, count, seconds, .. }) = requested() else { return };
    static NOW: AtomicU64 = AtomicU64::new(0);
    std::thread::spawn(|| {
        let (mut last, mut since) = (u64::MAX, Instant::now());
        loop {
            std::thread::sleep(Duration::from_millis(100));
            let now = NOW.load(Ordering::Relaxed);
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed() > Duration::from_secs(ENDLESS) {
                std::process::exit(ENDLESS_EXIT);
            }
        }
    });
    if is_watched() {
        verify_between_passes();
    }
    let (began, mut runner, mut counts) = (Instant::now(), Runner::new(), [0_u64; COUNTS]);
    for seed in first..first + count {
        if seconds.is_some_and(|seconds| began.elapsed() >= Duration::from_secs(seconds)) {
            break;
        }
        let mut out = std::io::stdout();
        let so_far = counts.map(|count| count.to_string()).join(" ");
        writeln!(out, "\nso far {so_far}\nseed {seed}").and_then(|()| out.flush()).expect("somebody reads it");
        for number in 0..LIES {
            NOW.fetch_add(1, Ordering::Relaxed);
            if let Err(how) = one(&mut runner, seed, number, &mut counts) {
                println!("{how}");
                std::process::exit(3);
            }
        }
    }
    let counts = counts.map(|count| count.to_string()).join(" ");
    println!("\nended {counts}");
}

/// Tells a lie about the nest of a seed. Fails if it is proved and leaves a buffer.
fn one(runner: &mut Runner, seed: u64, number: u64, counts: &mut [u64; COUNTS]) -> Result<(), String> {
    let mut count = |what: Count, more: u64| counts[what as usize] += more;
    let calls = runner.calls;
    let (told, strayed) = runner.between((seed, CALLS), || lies::begin(seed * LIES + number, false), lies::end)?;
    count(Count::Calls, runner.calls - calls);
    let Some(lie) = told.last() else { return Ok(()) };
    count(Count::Told, 1);
    if let Some(Strayed::Stopped(how) | Strayed::Wrote(how)) = strayed {
        let is_refused = lie.is_refused;
        return Err(format!("{}, refused: {is_refused}: {how}", lie.what));
    }
    if !lie.is_refused {
        count(Count::Harmless, 1);
        return Ok(());
    }
    count(Count::Refused, 1);
    // Without the checks, code that is not proved would leave its buffers.
    if lie.is_sound && is_watched() {
        count(Count::Compiled, 1);
        let (_, strayed) = runner.between((seed, 4 * CALLS), || lies::begin(seed * LIES + number, true), lies::end)?;
        match strayed {
            Some(Strayed::Stopped(_)) => count(Count::Harmful, 1),
            Some(Strayed::Wrote(how)) => return Err(format!("{}, and no check stops it: {how}", lie.what)),
            None => {}
        }
    }
    Ok(())
}

#[test]
fn lies_of_the_optimiser_leave_no_buffer() {
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors");
    }
    let seconds = std::env::var("VIREO_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    let (first, count) = (number("VIREO_FIRST", 0), number("VIREO_NESTS", NESTS));
    let (mut next, mut totals, mut endless) = (first, [0_u64; COUNTS], 0);
    while next < first + count && until.is_none_or(|until| Instant::now() < until) {
        let (counts, seed) =
            match run_apart("hostile::lies::lies_of_the_other_process", next, first + count - next, None, until) {
                Ended::Well(_, counts) => (counts, first + count),
                Ended::Badly { seed, counts, how, code } => {
                    assert_eq!(code, Some(ENDLESS_EXIT), "a lie about program {seed} is not found: {how}");
                    endless += 1;
                    (counts, seed + 1)
                }
            };
        totals.iter_mut().zip(counts).for_each(|(total, count)| *total += count);
        next = seed;
    }
    let of = |count: Count| totals[count as usize];
    eprintln!(
        "of {} lies, {} are refused; {} of these are compiled all the same, of which {} leave their buffers; {} are proved, and leave none in {} calls; \
         {endless} programs go on for ever",
        of(Count::Told),
        of(Count::Refused),
        of(Count::Compiled),
        of(Count::Harmful),
        of(Count::Harmless),
        of(Count::Calls),
    );
    assert!(count < 20 || of(Count::Refused) * 4 > of(Count::Told), "few lies are refused");
    assert!(count < 20 || of(Count::Harmful) > 0 || !is_watched(), "no lie does anything");
    assert!(endless * 10 <= count, "too many programs go on for ever");
}
