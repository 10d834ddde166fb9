//! Hostile nests of loops: they are drawn (`draw`, `forms`, `statements`, `text`) to leave their buffers wherever
//! compiled code does not look, and run on both tiers over memory with inaccessible pages around it (`run`, `memory`).
//! All of that memory is compared.
//!
//! A process of its own runs them, which may end with a signal; the test then says at which program, and makes that
//! smaller.
//!
//! | variable | |
//! |---|---|
//! | `VIREO_NESTS` | how many programs |
//! | `VIREO_FIRST` | the seed of the first one |
//! | `VIREO_SECONDS` | ends after so many seconds, if they are not all done |
//! | `VIREO_VERIFY` | 1: builds without debug assertions verify graphs and check each access, too, as the others do |
//! | `VIREO_FAILURES` | goes on until so many programs have failed; 0: none is made smaller, either |

mod census;
mod draw;
mod forms;
mod lies;
mod memory;
mod run;
mod statements;
mod text;

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use vireo::asm::assemble;
use vireo::interp::verify_between_passes;
use vireo::vm::{Context, Module};

use super::has_lanes;
use super::skip::{Need, skipped};
use run::{Runner, drawn};

/// Programs of the default run.
const NESTS: u64 = if cfg!(debug_assertions) { 100 } else { 3000 };
/// Seeds whose machine code was wrong once: it lost the last run of a header with what that stores or traps at (146,
/// 174), left its buffers or their guards by the extra run of an inner loop's header (1198, 1533), or by what a
/// parameter is after its loop (6339, 7298, 29189), lost an element that a header stores to (2002), and began a loop at
/// a value that another vector loop had replaced (254, 2361). One was not compiled for a division that overflowed
/// (40007257).
const FOUND: [u64; 11] = [146, 174, 1198, 1533, 6339, 7298, 29189, 2002, 254, 2361, 40_007_257];
/// Tells the process that runs programs which those are: the first seed, and how many, or the path of another text for
/// the first one.
const RUN: &str = "VIREO_HOSTILE_RUN";

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

/// The test that the other process runs.
const PROGRAMS: &str = "hostile::programs_of_the_other_process";

/// How a run in a process of its own went.
enum Ended {
    /// So many programs ran, with what was counted: calls, and those of them that returned.
    Well(u64, Vec<u64>),
    /// At this seed, in this way, with what was counted until then and the code that the process ended with.
    Badly { seed: u64, how: String, counts: Vec<u64>, code: Option<i32> },
}

/// Runs programs in a process of its own, by a test that only does so there.
fn run_apart(test: &str, first: u64, count: u64, other: Option<&str>, until: Option<Instant>) -> Ended {
    let mut request = format!("{first} {count}");
    let file = other.map(|text| {
        let mut file = tempfile::NamedTempFile::new().expect("there is room for a file");
        file.write_all(text.as_bytes()).expect("the file can be written");
        file
    });
    if let Some(file) = &file {
        request += &format!(" {}", file.path().display());
    }
    if let Some(until) = until {
        request = format!("{request} {}", until.saturating_duration_since(Instant::now()).as_secs());
    }
    let own = std::env::current_exe().expect("the test has a path");
    let mut command = Command::new(own);
    command.args(["--exact", test, "--ignored", "--nocapture"]);
    let child = command.env(RUN, request).stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let mut child = child.expect("the test can be started once more");
    let (mut seed, mut seen, mut said, mut counts, mut so_far) = (first, 0_u64, String::new(), None, Vec::new());
    let counts_of = |numbers: &str| numbers.split(' ').filter_map(|number| number.parse().ok()).collect();
    let began = Instant::now();
    let mut told = began;
    for line in BufReader::new(child.stdout.take().expect("it is piped")).lines() {
        let Ok(line) = line else { break };
        if let Some(number) = line.strip_prefix("seed ").and_then(|number| number.parse().ok()) {
            (seed, seen) = (number, seen + 1);
            said.clear();
        } else if let Some(numbers) = line.strip_prefix("ended ") {
            counts = Some(counts_of(numbers));
        } else if let Some(numbers) = line.strip_prefix("so far ") {
            so_far = counts_of(numbers);
        } else if counts.is_none() && seen > 0 && !line.is_empty() {
            said = said + &line + "\n";
        }
        if told.elapsed() > Duration::from_secs(20) {
            told = Instant::now();
            eprintln!("{seen} programs, the last is {seed}, {} a second", seen / began.elapsed().as_secs().max(1));
        }
    }
    let status = child.wait().expect("it was started");
    match counts {
        Some(counts) if status.success() => Ended::Well(seen, counts),
        _ => Ended::Badly { seed, how: format!("{said}  ({status})"), counts: so_far, code: status.code() },
    }
}

/// The programs that a process of its own is to run.
struct Request {
    first: u64,
    count: u64,
    other: Option<String>,
    seconds: Option<u64>,
}

fn requested() -> Option<Request> {
    let request = std::env::var(RUN).ok()?;
    let words: Vec<&str> = request.split(' ').collect();
    let (first, count) = (words[0].parse().expect("a seed"), words[1].parse().expect("a number"));
    let other = words.iter().find(|word| word.starts_with('/'));
    let other = other.map(|path| std::fs::read_to_string(path).expect("the file is there"));
    let seconds = words[2..].iter().find_map(|word| word.parse().ok());
    Some(Request { first, count, other, seconds })
}

/// The part of the test that runs in a process of its own.
#[test]
#[ignore = "other tests start it"]
fn programs_of_the_other_process() {
    let Some(Request { first, count, other, seconds }) = requested() else { return };
    if number("VIREO_VERIFY", 0) == 1 {
        verify_between_passes();
    }
    let (began, mut runner) = (Instant::now(), Runner::new());
    for seed in first..first + count {
        if seconds.is_some_and(|seconds| began.elapsed() >= Duration::from_secs(seconds)) {
            break;
        }
        // The captured output would be lost with the process.
        let mut out = std::io::stdout();
        writeln!(out, "\nseed {seed}").and_then(|()| out.flush()).expect("somebody reads it");
        if let Err(difference) = runner.run(seed, other.as_deref()) {
            println!("{difference}");
            std::process::exit(3);
        }
    }
    println!("\nended {} {}", runner.calls, runner.returned);
}

/// The text with as few lines as possible that still fails at this seed's calls.
fn reduced(seed: u64, text: &str) -> String {
    let fails = |lines: &[String]| {
        let text = lines.join("\n") + "\n";
        let module = assemble(&text).ok().and_then(|bytes| Module::from_bytes(&bytes).ok());
        let is_program = module.and_then(|module| Context::new([module]).ok()?.function("f").ok()).is_some();
        is_program && matches!(run_apart(PROGRAMS, seed, 1, Some(&text), None), Ended::Badly { .. })
    };
    let mut lines: Vec<String> = text.lines().map(str::to_string).collect();
    loop {
        let before = lines.len();
        let mut length = lines.len() / 2;
        while length > 0 {
            let mut start = 0;
            while start + length <= lines.len() {
                let fewer = [&lines[..start], &lines[start + length..]].concat();
                if fails(&fewer) { lines = fewer } else { start += length }
            }
            length /= 2;
        }
        // A branch that always goes one way makes other lines unnecessary.
        for at in 0..lines.len() {
            let Some((_, targets)) = lines[at].split_once("vm.cond_br ").and_then(|(_, rest)| rest.split_once(", "))
            else {
                continue;
            };
            for target in targets.split(", ") {
                let mut other = lines.clone();
                other[at] = format!("  vm.br {target}");
                if fails(&other) {
                    lines = other;
                    break;
                }
            }
        }
        if lines.len() == before {
            return lines.join("\n");
        }
    }
}

/// Fails if a program of these seeds does not do the same on both tiers.
fn check(first: u64, count: u64, until: Option<Instant>) -> [u64; 3] {
    let failures = number("VIREO_FAILURES", 1);
    let (mut next, mut failed, mut totals) = (first, Vec::new(), [0; 3]);
    while next < first + count && until.is_none_or(|until| Instant::now() < until) {
        match run_apart(PROGRAMS, next, first + count - next, None, until) {
            Ended::Well(programs, counts) => {
                totals = [totals[0] + programs, totals[1] + counts[0], totals[2] + counts[1]];
                break;
            }
            Ended::Badly { seed, how, .. } => {
                eprintln!("program {seed}: {how}");
                failed.push(seed);
                if failures > 0 {
                    let small = reduced(seed, &drawn(seed).text);
                    let again = match run_apart(PROGRAMS, seed, 1, Some(&small), None) {
                        Ended::Badly { how, .. } => how,
                        Ended::Well(..) => "it does not fail each time".into(),
                    };
                    eprintln!("smaller, {again}\n{small}\n");
                }
                if failed.len() as u64 >= failures.max(1) && failures > 0 {
                    break;
                }
                totals[0] += seed + 1 - next;
                next = seed + 1;
            }
        }
    }
    assert!(failed.is_empty(), "these programs differ, or end with a signal: {failed:?}");
    totals
}

#[test]
fn hostile_nests_do_the_same_on_both_tiers() {
    if !has_lanes(8) {
        return skipped(Need::Processor("avx2"), "there are no vectors");
    }
    let seconds = std::env::var("VIREO_SECONDS").ok().and_then(|text| text.parse().ok());
    let until = seconds.map(|seconds| Instant::now() + Duration::from_secs(seconds));
    // A search for more begins after these.
    if std::env::var_os("VIREO_FIRST").is_none() {
        FOUND.iter().for_each(|seed| _ = check(*seed, 1, None));
    }
    let [programs, calls, returned] = check(number("VIREO_FIRST", 0), number("VIREO_NESTS", NESTS), until);
    eprintln!("{programs} programs, {calls} calls, {returned} returned");
    assert!(programs < 100 || returned * 10 >= calls * 4, "only {returned} of {calls} calls returned");
}
