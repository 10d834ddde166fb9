//! Counters of threads on Linux.

use std::cell::RefCell;
use std::io;

use perf_event::Builder;
use perf_event::events::{Hardware, Software};
use rustix::io::Errno;
use vireo_core::status::{Result, Status, StatusCode};

use super::counter::{self, Values};
use crate::generated::format::CounterUnit;

#[derive(Clone, Copy)]
pub(in super::super) enum Event {
    Hardware(Hardware),
    Software(Software),
}

/// A counter of Linux.
pub(in super::super) type Counter = counter::Counter<Event>;

const fn hardware(name: &'static str, unit: CounterUnit, event: Hardware, description: &'static str) -> Counter {
    Counter { name, unit, description, event: Event::Hardware(event) }
}

const fn software(name: &'static str, event: Software, description: &'static str) -> Counter {
    Counter { name, unit: CounterUnit::COUNT, description, event: Event::Software(event) }
}

/// The counters of the system that say something about a thread.
pub(super) const COUNTERS: &[Counter] = &[
    hardware("cycles", CounterUnit::CYCLES, Hardware::CPU_CYCLES, "Cycles of the processor"),
    hardware("instructions", CounterUnit::COUNT, Hardware::INSTRUCTIONS, "Instructions that were completed"),
    hardware("cache-references", CounterUnit::COUNT, Hardware::CACHE_REFERENCES, "Accesses of the last cache"),
    hardware("cache-misses", CounterUnit::COUNT, Hardware::CACHE_MISSES, "Accesses that the last cache missed"),
    hardware("branches", CounterUnit::COUNT, Hardware::BRANCH_INSTRUCTIONS, "Branches that were completed"),
    hardware("branch-misses", CounterUnit::COUNT, Hardware::BRANCH_MISSES, "Branches that were mispredicted"),
    software("task-clock", Software::TASK_CLOCK, "Nanoseconds of the thread on a processor"),
    software("page-faults", Software::PAGE_FAULTS, "Pages that were not there"),
    software("context-switches", Software::CONTEXT_SWITCHES, "Times that the processor went to another thread"),
    software("cpu-migrations", Software::CPU_MIGRATIONS, "Times that the thread went to another processor"),
];

/// The open counters of a thread, and what they were when it began. Each is read alone: in a group,
/// those that the system itself counts were 0 for short times.
pub(super) struct Open {
    session: u64,
    counters: Vec<perf_event::Counter>,
    before: Values,
}

thread_local! {
    static OPEN: RefCell<Option<Open>> = const { RefCell::new(None) };
}

fn refused(counter: &str, error: io::Error) -> Status {
    let (code, reason) = match Errno::from_io_error(&error) {
        Some(Errno::ACCESS | Errno::PERM) => {
            (StatusCode::PermissionDenied, "the system does not allow it (/proc/sys/kernel/perf_event_paranoid)")
        }
        Some(Errno::NOENT | Errno::NODEV | Errno::OPNOTSUPP | Errno::INVAL) => {
            (StatusCode::Unimplemented, "the processor or the system does not have it")
        }
        _ => (StatusCode::Unavailable, "the system cannot open it"),
    };
    Status::new(code, format!("the counter `{counter}`: {reason}")).with_source(error)
}

/// Opens counters of this thread.
pub(super) fn open(counters: &[Counter]) -> Result<Open> {
    let mut opened = Vec::with_capacity(counters.len());
    for counter in counters {
        let mut builder = match counter.event {
            Event::Hardware(event) => Builder::new(event),
            Event::Software(event) => Builder::new(event),
        };
        builder.exclude_kernel(true).exclude_hv(true);
        let refused = |error| refused(counter.name, error);
        let mut open = builder.build().map_err(refused)?;
        open.enable().map_err(refused)?;
        opened.push(open);
    }
    Ok(Open { session: 0, counters: opened, before: Values::new() })
}

impl Open {
    fn read(&mut self) -> Result<Values> {
        let failed = |error| Status::new(StatusCode::Unavailable, "counters cannot be read").with_source(error);
        self.counters.iter_mut().map(|counter| counter.read().map_err(failed)).collect()
    }
}

pub(super) fn begin(session: u64, counters: &[Counter]) -> Result<()> {
    OPEN.with_borrow_mut(|opened| {
        let open = match opened {
            Some(open) if open.session == session => open,
            other => other.insert(Open { session, ..open(counters)? }),
        };
        open.before = open.read()?;
        Ok(())
    })
}

pub(super) fn end(session: u64) -> Result<Values> {
    OPEN.with_borrow_mut(|open| {
        let open = open.as_mut().filter(|open| open.session == session);
        let open = open.ok_or_else(|| Status::failed_precondition("the thread has not begun to count"))?;
        let now = open.read()?;
        Ok(now.iter().zip(&open.before).map(|(now, before)| now.saturating_sub(*before)).collect())
    })
}
