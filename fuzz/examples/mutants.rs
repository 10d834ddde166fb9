//! Runs mutants of the seeds of a fuzz target for some time, without a fuzzer and without a compiler of C++:
//!
//! ```text
//! cargo run --release -p vireo-fuzz --example mutants -- TARGET [SECONDS [FIRST]]
//! ```
//!
//! Mutants are numbered, and a number always means the same one, so a run that begins with the number `FIRST` of one
//! that failed repeats it. An input that makes the target panic is kept in `fuzz/artifacts`.

use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use vireo_fuzz::{mutant, target};

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let number = |index: usize, default| arguments.get(index).map_or(Some(default), |text| text.parse().ok());
    let (Some(name), Some(seconds), Some(first)) = (arguments.first(), number(1, 60), number(2, 0)) else {
        eprintln!("usage: mutants TARGET [SECONDS [FIRST]]");
        return ExitCode::from(2);
    };
    let target = target(name);
    let seeds = (target.seeds)();
    let (start, mut told, mut slowest) = (Instant::now(), Instant::now(), (Duration::ZERO, first));
    let (mut number, mut failed) = (first, 0);
    while start.elapsed() < Duration::from_secs(seconds) {
        let (seed, bytes) = mutant(&seeds, number);
        let begin = Instant::now();
        if !target.survives(&bytes) {
            failed += 1;
            let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("artifacts").join(name);
            let path = folder.join(number.to_string());
            let written = fs::create_dir_all(&folder).and_then(|()| fs::write(&path, &bytes));
            println!("mutant {number} of {} failed: {}, {written:?}", seed.name, path.display());
        }
        slowest = slowest.max((begin.elapsed(), number));
        number += 1;
        // A mutant that ends the process or does not end is after the last number that was shown.
        if told.elapsed() > Duration::from_secs(10) {
            told = Instant::now();
            println!("{name}: next is {number}");
        }
    }
    let count = number - first;
    println!(
        "{name}: {count} mutants of {} seeds in {:.0} s, {failed} failed; the slowest, {}, took {:?}",
        seeds.len(),
        start.elapsed().as_secs_f64(),
        slowest.1,
        slowest.0
    );
    if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
