//! A thousand damaged module files (250 in builds without optimisation): each is refused or loads, and what loads runs
//! to an end. Nothing crashes, hangs or panics.
//!
//! The damage is deterministic: bit flips, bytes and words set to telling values, cuts, shifts, and pieces of other
//! modules, aimed at the FlatBuffer and at the code most of the time. `VIREO_MUTANT=17` runs one mutant alone and tells
//! about it, `VIREO_MUTANTS=100000` runs that many, `VIREO_FIRST=5000` begins at that number.
//!
//! Files run under `SecurityPolicy::untrusted` with less of everything; one that takes much longer than its limits
//! fails the test. `VIREO_MUTANTS=1000000 cargo test --release -p vireo-runtime --test mutants` takes a while.
//! Executables in portable bytecode are damaged by themselves as well, and their kernels run. Native kernels never run
//! here; `support/exercise.rs` says how and why. Damaged texts go through the assembler in the same way.

#[path = "support/exercise.rs"]
mod exercise;
#[path = "support/texts.rs"]
mod texts;

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use exercise::{Outcome, exercise, exercise_kernels, helpers};
use vireo::Status;
use vireo::vm::Module;
use vireo::vmfb::Archive;

/// Fewer in builds without optimisation, which take fifteen times as long; `.ci/run` runs the tests in both.
const MUTANTS: u64 = if cfg!(debug_assertions) { 250 } else { 1000 };

/// Every call ends at its limits, and there are some for each mutant. This is no measure of speed: what takes longer
/// does not end.
const MOST_TIME: Duration = Duration::from_secs(120);

/// xorshift64*: the same numbers everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() >> 16) as usize % bound.max(1)
    }
}

/// A module file, and where the parts that matter most are.
struct Fixture {
    name: String,
    bytes: Vec<u8>,
    flatbuffer: Range<usize>,
    code: Range<usize>,
}

/// The files of `fixtures/` with this extension.
fn paths(extension: &str) -> Vec<PathBuf> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut paths = Vec::new();
    for folder in ["bench", "context", "golden", "models", "old/3.1", "old/3.4", "old/3.10"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        paths.extend(
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == extension)),
        );
    }
    paths.sort();
    paths
}

fn fixtures() -> Vec<Fixture> {
    paths("vmfb").iter().map(|path| fixture(path)).collect()
}

fn fixture(path: &Path) -> Fixture {
    let bytes = std::fs::read(path).unwrap();
    let archive = Archive::from_bytes(&bytes).unwrap();
    fixture_of(path.file_name().unwrap().to_string_lossy().into_owned(), bytes, &archive)
}

/// A fixture of bytes, of which `archive` is made.
fn fixture_of(name: String, bytes: Vec<u8>, archive: &Archive) -> Fixture {
    let start = archive.bytecode().as_ptr() as usize - archive.bytes().as_ptr() as usize;
    Fixture { name, flatbuffer: archive.flatbuffer(), code: start..start + archive.bytecode().len(), bytes }
}

/// Damages a copy of `fixture`.
fn mutate(fixture: &Fixture, others: &[Fixture], random: &mut Random) -> Vec<u8> {
    let mut bytes = fixture.bytes.clone();
    let all = 0..bytes.len();
    let range = match random.below(8) {
        0 => all,
        1..=3 => fixture.flatbuffer.clone(),
        _ => fixture.code.clone(),
    };
    let place = range.start + random.below(range.len());
    match random.below(10) {
        0..=2 => {
            for _ in 0..1 + random.below(3) {
                let place = range.start + random.below(range.len());
                bytes[place] ^= 1 << random.below(8);
            }
        }
        3 | 4 => bytes[place] = [0, 1, 2, 0x7F, 0x80, 0xC0, 0xFF, random.next() as u8][random.below(8)],
        5 => {
            // Lengths, offsets, counts and ordinals are words on multiples of four.
            let place = (place & !3).min(bytes.len() - 4);
            let length = bytes.len() as u32;
            let values = [0, 1, 3, 0x7FFF_FFFF, 0x8000_0000, 0xFFFF_FFFF, length, random.next() as u32 & 0xFF];
            bytes[place..place + 4].copy_from_slice(&values[random.below(8)].to_le_bytes());
        }
        6 => {
            let place = (place & !1).min(bytes.len() - 2);
            let values = [0, 1, 0x4000, 0x7FFF, 0x8000, 0xC000, 0xFFFF, random.next() as u16 & 0x1F];
            bytes[place..place + 2].copy_from_slice(&values[random.below(8)].to_le_bytes());
        }
        7 => bytes.truncate(place),
        8 => {
            let other = &others[random.below(others.len())];
            let from = other.code.start + random.below(other.code.len());
            let length = (1 + random.below(64)).min(other.bytes.len() - from).min(bytes.len() - place);
            bytes[place..place + length].copy_from_slice(&other.bytes[from..from + length]);
        }
        _ => {
            if random.below(2) == 0 {
                bytes.remove(place);
            } else {
                bytes.insert(place, random.next() as u8);
            }
        }
    }
    bytes
}

/// The numbers of the mutants that run, and whether one alone was asked for.
fn numbers() -> (Range<u64>, bool) {
    let number = |name| std::env::var(name).ok().and_then(|number| number.parse::<u64>().ok());
    let first = number("VIREO_FIRST").unwrap_or(0);
    match number("VIREO_MUTANT") {
        Some(only) => (only..only + 1, true),
        None => (first..first + number("VIREO_MUTANTS").unwrap_or(MUTANTS), false),
    }
}

/// Each mutant has its own random numbers, so that one can be run without the others.
fn random(number: u64) -> Random {
    Random((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15))
}

/// Damages fixtures and runs what comes of it.
fn run(fixtures: &[Fixture], exercise: impl Fn(&[u8]) -> Outcome) {
    let (numbers, only) = numbers();
    let total = numbers.end - numbers.start;
    let (mut loaded, mut calls, mut returned, mut slowest) = (0, 0, 0, (Duration::ZERO, 0));
    let begin = Instant::now();
    for number in numbers {
        let mut random = random(number);
        let fixture = &fixtures[number as usize % fixtures.len()];
        let bytes = mutate(fixture, fixtures, &mut random);
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| exercise(&bytes)))
            .unwrap_or_else(|_| panic!("mutant {number} of {} panicked", fixture.name));
        let elapsed = start.elapsed();
        assert!(elapsed < MOST_TIME, "mutant {number} of {} took {elapsed:?}", fixture.name);
        slowest = slowest.max((elapsed, number));
        if only {
            let result = Module::from_bytes(&bytes).map(drop).map_err(|status: Status| status.to_string());
            println!("mutant {number} of {}: {result:?} after {elapsed:?}", fixture.name);
        }
        loaded += usize::from(outcome.loaded);
        calls += outcome.calls;
        returned += outcome.returned;
    }
    let seconds = begin.elapsed().as_secs_f64();
    println!("{loaded} of {total} load; {returned} of {calls} calls return; {:.0} per second", total as f64 / seconds);
    println!("the slowest, {}, took {:?}", slowest.1, slowest.0);
    // The damage must be such that both ways are taken often, or this test shows nothing.
    assert!(
        only || (loaded as u64 > total / 10 && (loaded as u64) < total / 10 * 9 && returned as u64 > total / 10),
        "{loaded} load, {returned} return"
    );
}

#[test]
fn damaged_modules_are_refused_or_run_within_their_limits() {
    let fixtures = fixtures();
    let file = |name| &fixtures.iter().find(|fixture| fixture.name == name).unwrap().bytes[..];
    let helpers = helpers(file("app.vmfb"), file("provider.vmfb"));
    run(&fixtures, |bytes| exercise(bytes, &helpers));
}

/// The executables in portable bytecode that modules hold.
fn kernels() -> Vec<Fixture> {
    let mut kernels = Vec::new();
    for path in paths("vmfb") {
        let archive = Archive::open(&path).unwrap();
        for segment in archive.rodata() {
            let Some(bytes) = archive.bytes().get(segment.range.clone()) else { continue };
            let Ok(executable) = Archive::from_bytes(bytes) else { continue };
            let name = format!("{} in {}", segment.range.start, path.file_name().unwrap().display());
            kernels.push(fixture_of(name, bytes.to_vec(), &executable));
        }
    }
    kernels
}

#[test]
fn damaged_kernels_are_refused_or_run_within_their_limits() {
    run(&kernels(), exercise_kernels);
}

/// Lines of a text, some of them damaged, missing, doubled, or from other texts.
fn mutate_text(lines: &[&str], others: &[&str], random: &mut Random) -> String {
    // Whole files take long, and one wrong line ends them: the head with a few functions will do.
    let head = lines.iter().position(|line| line.is_empty()).unwrap_or(lines.len());
    let start = head + random.below(lines.len() - head);
    let start = (start..lines.len()).find(|line| lines[*line].starts_with("vm.export")).unwrap_or(head);
    let mut lines = [&lines[..head], &lines[start..lines.len().min(start + 40)]].concat();
    let place = random.below(lines.len());
    let other = others[random.below(others.len())];
    let changed;
    match random.below(6) {
        0 => drop(lines.remove(place)),
        1 => lines.insert(place, lines[random.below(lines.len())]),
        2 => lines.insert(place, other),
        3 => lines[place] = other,
        _ => {
            let mut bytes = lines[place].as_bytes().to_vec();
            let at = random.below(bytes.len() + 1);
            let values = b"0179%@^!<>()[]{},:->.=\"\\ \txrRib#-";
            let byte = values[random.below(values.len())];
            match (random.below(3), bytes.get_mut(at)) {
                (0, Some(old)) => *old = byte,
                (1, Some(_)) => drop(bytes.remove(at)),
                _ => bytes.insert(at, byte),
            }
            changed = String::from_utf8_lossy(&bytes).into_owned();
            lines[place] = &changed;
        }
    }
    lines.join("\n")
}

#[test]
fn damaged_texts_are_refused_or_come_out_as_they_went_in() {
    let texts: Vec<String> = paths("vmasm").iter().map(|path| std::fs::read_to_string(path).unwrap()).collect();
    let texts: Vec<Vec<&str>> = texts.iter().map(|text| text.lines().collect()).collect();
    let all: Vec<&str> = texts.concat();
    let (numbers, only) = numbers();
    let total = numbers.end - numbers.start;
    let mut assembled = 0;
    for number in numbers {
        let text = mutate_text(&texts[number as usize % texts.len()], &all, &mut random(number));
        let outcome = catch_unwind(|| texts::round_trip(&text));
        assembled += u64::from(outcome.unwrap_or_else(|_| panic!("text {number} panicked:\n{text}")));
    }
    println!("{assembled} of {total} are assembled");
    assert!(only || (assembled > total / 20 && assembled < total / 20 * 19), "{assembled} are assembled");
}
