//! Answers to hosts about the sanitizer, of the system that runs and of those that have ended: its reports and
//! warnings, and whether a result that leaves the device was written; and about what kernels count.

use std::sync::atomic::Ordering;

use vireo_gfx::Counts;
use vireo_hsa::signal::Signal;
use vireo_simt::sanitize::{Checks, Report, Warning};

use crate::api::AgentView;
use crate::sanitizer;
use crate::system::system;

/// The findings of the sanitizer since the last call, in systems that have ended and in the one that runs. See
/// [`crate::Topology::sanitize`].
pub fn take_reports() -> Vec<Report> {
    let mut reports = sanitizer::take_finished();
    if let Ok(system) = system()
        && let Some(sanitizer) = &system.sanitizer
    {
        reports.extend(sanitizer.take_reports());
    }
    reports
}

/// The limits of the sanitizer that were reached since the last call, in systems that have ended and in the one that
/// runs.
pub fn take_warnings() -> Vec<Warning> {
    let mut warnings = sanitizer::take_finished_warnings();
    if let Ok(system) = system()
        && let Some(sanitizer) = &system.sanitizer
    {
        warnings.extend(sanitizer.take_warnings());
    }
    warnings
}

/// Bytes at an address leave the device for the host, under a name for reports. The check `init` of the system that
/// runs, if there is one, finds the unwritten ones; see [`take_reports`].
pub fn check_result(address: u64, length: u64, name: &str) {
    if let Ok(system) = system()
        && let Some(sanitizer) = &system.sanitizer
    {
        // The agent that owns memory may read it. It sees what the host wrote once that was published.
        let Some(allocation) = system.memory.find(address) else { return };
        sanitizer.leaves(address, length, name, &AgentView::new(&system.memory, allocation.owner));
    }
}

/// The checks in the system that runs; none without one.
pub fn active_checks() -> Option<Checks> {
    Some(system().ok()?.topology.sanitize)
}

/// Counts what kernels do that begin from here on and have a completion signal, or one user of that less. The kernels
/// of a runner that is not of this crate may be left out.
pub fn count_kernels(enabled: bool) {
    let Ok(system) = system() else { return };
    let counting = &system.counting;
    let changed = |users: usize| if enabled { users.checked_add(1) } else { users.checked_sub(1) };
    let _ = counting.fetch_update(Ordering::Relaxed, Ordering::Relaxed, changed);
}

/// Takes what the kernel counted whose packet a signal completed; none if it was not counted, or the signal is not
/// there.
pub fn take_counts(signal: Signal) -> Option<Counts> {
    system().ok()?.signals.get(signal).ok()?.take_counts()
}
