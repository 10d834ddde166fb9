//! A thousand damaged module files: each is refused or loads, and what loads runs to an end. Nothing crashes, hangs or panics.
//!
//! The damage is deterministic: bit flips, bytes and words set to telling values, cuts, shifts, and pieces of other modules, aimed at
//! the FlatBuffer and at the code most of the time. `VIREO_MUTANT=17` runs one mutant alone and tells about it,
//! `VIREO_MUTANTS=100000` runs that many.
//!
//! Native kernels never run here; `support/exercise.rs` says how and why.

#[path = "support/exercise.rs"]
mod exercise;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use exercise::{exercise, helpers};
use vireo::Status;
use vireo::vm::Module;
use vireo::vmfb::Archive;

const MUTANTS: u64 = 1000;

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
    flatbuffer: std::ops::Range<usize>,
    code: std::ops::Range<usize>,
}

fn fixtures() -> Vec<Fixture> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures");
    let mut paths = Vec::new();
    for folder in ["bench", "context", "golden", "models"] {
        let entries = std::fs::read_dir(root.join(folder)).unwrap();
        paths.extend(
            entries.map(|entry| entry.unwrap().path()).filter(|path| path.extension().is_some_and(|e| e == "vmfb")),
        );
    }
    paths.sort();
    paths.iter().map(|path| fixture(path)).collect()
}

fn fixture(path: &Path) -> Fixture {
    let bytes = std::fs::read(path).unwrap();
    let archive = Archive::from_bytes(&bytes).unwrap();
    let start = archive.bytecode().as_ptr() as usize - archive.bytes().as_ptr() as usize;
    Fixture {
        name: path.file_name().unwrap().to_string_lossy().into_owned(),
        flatbuffer: archive.flatbuffer(),
        code: start..start + archive.bytecode().len(),
        bytes,
    }
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

#[test]
fn damaged_modules_are_refused_or_run_within_their_limits() {
    let fixtures = fixtures();
    let file = |name| &fixtures.iter().find(|fixture| fixture.name == name).unwrap().bytes[..];
    let helpers = helpers(file("app.vmfb"), file("provider.vmfb"));
    let only: Option<u64> = std::env::var("VIREO_MUTANT").ok().and_then(|number| number.parse().ok());
    let total = std::env::var("VIREO_MUTANTS").ok().and_then(|total| total.parse().ok()).unwrap_or(MUTANTS);
    let (mut loaded, mut calls, mut returned, mut slowest) = (0, 0, 0, Duration::ZERO);
    for number in only.map_or(0..total, |number| number..number + 1) {
        // Each mutant has its own numbers, so that one can be run without the others.
        let mut random = Random((number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
        let fixture = &fixtures[number as usize % fixtures.len()];
        let bytes = mutate(fixture, &fixtures, &mut random);
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| exercise(&bytes, &helpers)))
            .unwrap_or_else(|_| panic!("mutant {number} of {} panicked", fixture.name));
        slowest = slowest.max(start.elapsed());
        if only.is_some() {
            let result = Module::from_bytes(&bytes).map(drop).map_err(|status: Status| status.to_string());
            println!("mutant {number} of {}: {result:?} after {:?}", fixture.name, start.elapsed());
        }
        loaded += usize::from(outcome.loaded);
        calls += outcome.calls;
        returned += outcome.returned;
    }
    println!("{loaded} of {total} load; {returned} of {calls} calls return; the slowest took {slowest:?}");
    // The damage must be such that both ways are taken often, or this test shows nothing.
    assert!(
        only.is_some() || (loaded as u64 > total / 10 && (loaded as u64) < total / 10 * 9 && returned > 100),
        "{loaded} load, {returned} return"
    );
}
