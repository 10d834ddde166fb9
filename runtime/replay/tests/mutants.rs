//! Damaged captures under the limits of untrusted captures: each is refused or runs to an end, within its time
//! and its memory.
//!
//! `VIREO_MUTANTS=10000 cargo test --release -p vireo-replay --test mutants` makes as many of each capture.

#[path = "../../tests/support/counting.rs"]
mod counting;
#[path = "../../tests/support/mutants.rs"]
mod mutants;

use std::alloc::Layout;
use std::collections::BTreeMap;
use std::io::Cursor;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use counting::Counting;
use mutants::Mutants;
use vireo::hal::BuiltinOptions;
use vireo::interp::Limits;
use vireo::{MemoryBudget, Result, SecurityPolicy};
use vireo_replay::{
    Candidate, Comparison, DiffSide, EditOptions, Examined, Expected, FileAccess, Plan, Reader, ReplayOptions, Verdict,
    diff, edit, extract, minimize, reduce, salvage,
};

/// Bytes in use, and the most of them since the last reset.
static USED: AtomicUsize = AtomicUsize::new(0);
static PEAK: AtomicUsize = AtomicUsize::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting {
    allocated: |layout: Layout| {
        let used = USED.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        PEAK.fetch_max(used, Ordering::Relaxed);
    },
    freed: |layout: Layout| {
        USED.fetch_sub(layout.size(), Ordering::Relaxed);
    },
};

/// Bytes that a capture may use.
const BUDGET: u64 = 16 << 20;

/// The memory that the runtime may use besides: stacks of calls, which are counted, and what it keeps between replays.
const BESIDES: usize = 16 << 20;

/// Time that a capture may take, and how much longer it may take to end then.
const LIMIT: Duration = Duration::from_millis(200);
const GRACE: Duration = Duration::from_secs(1);

/// The captures of a folder with their names.
fn captures() -> Vec<(String, Vec<u8>)> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/replay");
    let mut paths: Vec<PathBuf> = Vec::new();
    for folder in [root.clone(), root.join("runs")] {
        let entries = std::fs::read_dir(folder).expect("the folder exists");
        paths.extend(entries.map(|entry| entry.expect("the folder can be read").path()));
    }
    paths.retain(|path| path.extension().is_some_and(|extension| extension == "ireereplay"));
    paths.sort();
    let read = |path: &PathBuf| std::fs::read(path).expect("the capture exists");
    paths.iter().map(|path| (path.display().to_string(), read(path))).collect()
}

/// Reads a capture in every way and replays it.
fn replay(bytes: &[u8]) -> Result<()> {
    let limits = Limits { timeout: Some(LIMIT), memory: Some(MemoryBudget::new(BUDGET)), ..Limits::default() };
    let policy = SecurityPolicy { limits: limits.clone(), ..SecurityPolicy::untrusted() };
    let memory = limits.memory.clone();
    let open = || Reader::new("mutant", Box::new(Cursor::new(bytes.to_vec()))).map_err(|error| error.status());
    let _ = salvage("mutant", Box::new(Cursor::new(bytes.to_vec())), Cursor::new(Vec::new()));
    let _ = open().and_then(|mut reader| Examined::read(&mut reader, memory.as_ref()));
    let _ = open().and_then(|mut reader| extract(&mut reader, &mut |_| Ok(())));
    let mut reader = open()?;
    let mut expected = Expected::read(&mut reader)?;
    let plan = Plan::read(&mut reader, memory.as_ref())?;
    let registry = BuiltinOptions { policy, ..BuiltinOptions::default() }.registry();
    let count = plan.device_count().min(4);
    let devices = (0..count).map(|_| registry.create_device("local-sync")).collect::<Result<Vec<_>>>()?;
    let options = ReplayOptions { limits, files: FileAccess::None, longest_wait: LIMIT, ..ReplayOptions::default() };
    plan.run(&devices, &options, &mut expected).map(drop)
}

/// A way to use a capture.
type Use = fn(&[u8]) -> Result<()>;

fn open(bytes: &[u8]) -> Result<Reader> {
    Reader::new("mutant", Box::new(Cursor::new(bytes.to_vec()))).map_err(|error| error.status())
}

fn limits() -> Limits {
    Limits { timeout: Some(LIMIT), memory: Some(MemoryBudget::new(BUDGET)), ..Limits::default() }
}

/// Replays a capture in steps: on two devices, and up to its second dispatch.
fn step(bytes: &[u8]) -> Result<()> {
    let limits = limits();
    let policy = SecurityPolicy { limits: limits.clone(), ..SecurityPolicy::untrusted() };
    let plan = Plan::read(&mut open(bytes)?, limits.memory.as_ref())?;
    let registry = BuiltinOptions { policy, ..BuiltinOptions::default() }.registry();
    let count = plan.device_count().min(4);
    let devices = |name: &str| (0..count).map(|_| registry.create_device(name)).collect::<Result<Vec<_>>>();
    let devices = [devices("local-sync")?, devices("local-task")?];
    let options = ReplayOptions { limits, files: FileAccess::None, longest_wait: LIMIT, ..ReplayOptions::default() };
    let sides = devices.each_ref().map(|devices| DiffSide { plan: &plan, devices, options: &options });
    let minimized = minimize(sides[0], 1, None, Cursor::new(Vec::new()));
    diff(sides, &Comparison::default(), &mut ()).and(minimized.map(drop))
}

/// Writes copies of a capture.
fn copy(bytes: &[u8]) -> Result<()> {
    let limits = limits();
    let memory = limits.memory.as_ref();
    let keep = "7,20-".parse().ok();
    let all = [
        EditOptions { order: true, strip_data: true, strip_paths: true, ..EditOptions::default() },
        EditOptions { keep, ..EditOptions::default() },
        EditOptions { drop: "5-9".parse().ok(), strip_data: true, ..EditOptions::default() },
    ];
    let outcomes = all.map(|options| edit(&mut open(bytes)?, &options, memory, Cursor::new(Vec::new())).map(drop));
    let mut tests = 0;
    let mut test = |candidate: &mut Candidate<'_>| {
        tests += 1;
        candidate.write(Cursor::new(Vec::new()))?;
        let verdict = if candidate.records().is_multiple_of(3) { Verdict::Boring } else { Verdict::Interesting };
        Ok(if tests > 20 { Verdict::Stop } else { verdict })
    };
    let reduced = reduce(&mut open(bytes)?, memory, &mut test, Cursor::new(Vec::new()));
    outcomes.into_iter().chain([reduced.map(drop)]).collect()
}

#[test]
fn damaged_captures_end_within_their_limits() {
    let usual = if cfg!(debug_assertions) { 100 } else { 400 };
    let number = std::env::var("VIREO_MUTANTS").ok().and_then(|text| text.parse().ok()).unwrap_or(usual);
    let mut mutants = Mutants::new(0x9e37_79b9_7f4a_7c15);
    // How many were used in each way, and refused.
    let mut counts = BTreeMap::new();
    for (name, good) in captures() {
        for turn in 0..number {
            let bytes = mutants.of(&good);
            // Others use a capture several times.
            let uses: [(&str, Use, u32); 3] = [("replayed", replay, 1), ("stepped", step, 2), ("copied", copy, 1)];
            for (what, use_it, times) in uses {
                let before = USED.load(Ordering::Relaxed);
                PEAK.store(before, Ordering::Relaxed);
                let start = Instant::now();
                let outcome = use_it(&bytes);
                let taken = start.elapsed();
                let peak = PEAK.load(Ordering::Relaxed).saturating_sub(before);
                let name = format!("{name}: mutant {turn}, {what}");
                assert!(taken < LIMIT * times + GRACE, "{name} took {taken:?}: {outcome:?}");
                let most = BUDGET as usize + BESIDES;
                assert!(peak < most, "{name} took {peak} bytes: expected at most {most}: {outcome:?}");
                let counts: &mut [u64; 2] = counts.entry(what).or_default();
                counts[usize::from(outcome.is_err())] += 1;
            }
        }
    }
    println!("{counts:?}");
    assert!(counts.values().flatten().all(|count| *count > 0), "{counts:?}");
}
