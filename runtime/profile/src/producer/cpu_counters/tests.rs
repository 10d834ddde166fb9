//! Counters of this thread, as far as the system allows them.

#[path = "../../../../tests/support/skip.rs"]
mod skip;

use super::*;
use skip::{Need, skipped};

fn names(names: &[&str]) -> Vec<String> {
    names.iter().map(|name| (*name).to_string()).collect()
}

#[test]
fn a_thread_counts_between_beginning_and_end() {
    // Counters of the kernel itself are there on every system that allows counters at all.
    let counters = match CpuCounters::select(&names(&["page-faults", "task-clock"])) {
        Ok(counters) => counters,
        Err(status) => {
            assert!(status.to_string().contains("the counter `"), "{status}");
            return skipped(Need::Permission("perf_event"), status);
        }
    };
    assert!(counters.end(1).is_err(), "it has not begun");
    counters.begin(1).expect("they can be read");
    let pages = vec![1_u8; 1 << 16];
    let values = counters.end(1).expect("it has begun");
    assert_eq!(pages.iter().map(|page| usize::from(*page)).sum::<usize>(), pages.len());
    assert!(values.len() == 2 && values[1] > 0, "{values:?}");
    assert!(counters.end(2).is_err(), "of another session");
}

#[test]
fn counters_are_refused_by_name() {
    let unknown = CpuCounters::select(&names(&["task-clock", "flops"])).map(drop).expect_err("there is none");
    assert!(unknown.to_string().contains("no counter `flops`: expected one of cycles,"), "{unknown}");
    let twice = CpuCounters::select(&names(&["cycles", "cycles"])).map(drop).expect_err("it is there twice");
    assert!(twice.to_string().contains("`cycles` is selected twice"), "{twice}");
}

#[test]
fn the_guide_names_each_counter() {
    let guide = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/profiles.md");
    let guide = std::fs::read_to_string(guide).expect("the guide exists");
    let (_, listed) = guide.split_once("Counters have the names of `perf list`:").expect("it has counters");
    let listed = listed.split('.').next().unwrap_or_default();
    let listed: Vec<&str> = listed.split('`').skip(1).step_by(2).collect();
    assert_eq!(listed, COUNTERS.iter().map(|counter| counter.name).collect::<Vec<_>>());
}
