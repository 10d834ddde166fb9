//! Counters of the processors that run dispatches ([`CpuCounters`]), from the `perf_event` of Linux. Each thread that
//! runs a part of a dispatch counts for itself, without the work of the kernel of the system, from its beginning to
//! its end.

use smallvec::SmallVec;
use vireo_core::status::{Result, Status, StatusCode};

use crate::generated::format::CounterUnit;

/// Values of counters, in the order of their selection.
pub(super) type Values = SmallVec<[u64; 4]>;

/// A counter that hosts name.
#[derive(Clone, Copy)]
pub(super) struct Counter {
    /// As `perf list` has it.
    pub(super) name: &'static str,
    pub(super) unit: CounterUnit,
    pub(super) description: &'static str,
    event: Event,
}

/// The counters of a session.
#[derive(Clone)]
pub(super) struct CpuCounters {
    pub(super) counters: Vec<Counter>,
}

impl CpuCounters {
    /// The counters with these names.
    ///
    /// # Errors
    /// NOT_FOUND for a name that is none, ALREADY_EXISTS for one that is there twice; UNIMPLEMENTED for a counter that
    /// the processor or the system does not have, and PERMISSION_DENIED for one that the system does not allow.
    pub(super) fn select(names: &[String]) -> Result<CpuCounters> {
        let mut counters: Vec<Counter> = Vec::new();
        for name in names {
            let Some(counter) = COUNTERS.iter().find(|counter| counter.name == name) else {
                let known: Vec<&str> = COUNTERS.iter().map(|counter| counter.name).collect();
                let message = format!("processors have no counter `{name}`: expected one of {}", known.join(", "));
                return Err(Status::not_found(message));
            };
            if counters.iter().any(|other| other.name == counter.name) {
                return Err(Status::new(StatusCode::AlreadyExists, format!("the counter `{name}` is selected twice")));
            }
            counters.push(*counter);
        }
        let counters = CpuCounters { counters };
        // What the system refuses shows now, not in the middle of a dispatch.
        system::open(&counters.counters)?;
        Ok(counters)
    }

    /// Begins to count on this thread, for the session with this number.
    ///
    /// # Errors
    /// Those of the system.
    pub(super) fn begin(&self, session: u64) -> Result<()> {
        system::begin(session, &self.counters)
    }

    /// What this thread has counted since it began.
    ///
    /// # Errors
    /// Those of the system, and FAILED_PRECONDITION if the thread did not begin.
    pub(super) fn end(&self, session: u64) -> Result<Values> {
        system::end(session)
    }
}

#[cfg(target_os = "linux")]
use linux as system;
#[cfg(target_os = "linux")]
use linux::{COUNTERS, Event};
#[cfg(not(target_os = "linux"))]
use nowhere as system;
#[cfg(not(target_os = "linux"))]
use nowhere::{COUNTERS, Event};

#[cfg(target_os = "linux")]
mod linux {
    use std::cell::RefCell;
    use std::io;

    use perf_event::Builder;
    use perf_event::events::{Hardware, Software};
    use vireo_core::status::{Result, Status, StatusCode};

    use super::{Counter, Values};
    use crate::generated::format::CounterUnit;

    #[derive(Clone, Copy)]
    pub(in super::super) enum Event {
        Hardware(Hardware),
        Software(Software),
    }

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
        let (code, reason) = match error.raw_os_error() {
            // EACCES and EPERM.
            Some(13 | 1) => {
                (StatusCode::PermissionDenied, "the system does not allow it (/proc/sys/kernel/perf_event_paranoid)")
            }
            // ENOENT, ENODEV, EOPNOTSUPP and EINVAL.
            Some(2 | 19 | 95 | 22) => (StatusCode::Unimplemented, "the processor or the system does not have it"),
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
}

#[cfg(not(target_os = "linux"))]
mod nowhere {
    use vireo_core::status::{Result, Status};

    use super::{Counter, Values};

    #[derive(Clone, Copy)]
    pub(in super::super) enum Event {}

    pub(super) const COUNTERS: &[Counter] = &[];

    pub(super) fn open(_: &[Counter]) -> Result<()> {
        Err(Status::unimplemented("this system has no counters of processors"))
    }

    pub(super) fn begin(_: u64, counters: &[Counter]) -> Result<()> {
        open(counters)
    }

    pub(super) fn end(_: u64) -> Result<Values> {
        open(&[]).map(|()| Values::new())
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use super::*;

    fn names(names: &[&str]) -> Vec<String> {
        names.iter().map(|name| (*name).to_string()).collect()
    }

    #[test]
    fn a_thread_counts_between_beginning_and_end() {
        // Counters of the kernel itself are there on every system that allows counters at all.
        let counters = match CpuCounters::select(&names(&["page-faults", "task-clock"])) {
            Ok(counters) => counters,
            Err(status) => return assert!(status.to_string().contains("the counter `"), "{status}"),
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
}
