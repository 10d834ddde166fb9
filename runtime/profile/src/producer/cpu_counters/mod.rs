//! Counters of the processors that run dispatches ([`CpuCounters`]), from the `perf_event` of Linux. Each thread that
//! runs a part of a dispatch counts for itself, without the work of the kernel of the system, from its beginning to
//! its end.

mod counter;
#[cfg(target_os = "linux")]
mod linux;
#[cfg(not(target_os = "linux"))]
mod nowhere;
#[cfg(all(test, target_os = "linux"))]
mod tests;

use vireo_core::status::{Result, Status, StatusCode};

pub(super) use self::counter::Values;
#[cfg(target_os = "linux")]
use self::linux as system;
#[cfg(not(target_os = "linux"))]
use self::nowhere as system;
use self::system::{COUNTERS, Counter};

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
        // A refusal of the system shows now, not in the middle of a dispatch.
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

    /// Values that this thread has counted since it began.
    ///
    /// # Errors
    /// Those of the system, and FAILED_PRECONDITION if the thread did not begin.
    pub(super) fn end(&self, session: u64) -> Result<Values> {
        system::end(session)
    }
}
