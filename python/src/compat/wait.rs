//! Waits of Python for timelines: the interpreter is released, and signals such as an interrupt end them.

use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use vireo::hal::{Timepoint, wait_all};
use vireo::{Status, StatusCode};

use super::throw::throw;
use crate::interpreter::detached;
use crate::interrupts::INTERVAL;

/// Waits for points, at most `timeout` nanoseconds, or until the clock shows `deadline`, in nanoseconds since 1970.
/// True if they are reached.
pub fn wait(
    py: Python<'_>,
    what: &str,
    points: &[Timepoint],
    timeout: Option<u64>,
    deadline: Option<u64>,
) -> PyResult<bool> {
    let length = match (timeout, deadline) {
        (Some(_), Some(_)) => return Err(PyValueError::new_err("a wait has a timeout or a deadline, not both")),
        (None, None) => None,
        (Some(timeout), None) => Some(Duration::from_nanos(timeout)),
        (None, Some(deadline)) => {
            let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
            Some(Duration::from_nanos(deadline).saturating_sub(now))
        }
    };
    // A time that no clock reaches is none.
    let end = length.and_then(|length| Instant::now().checked_add(length));
    if let Some(reached) = query(points).map_err(|status| throw(py, &format!("synchronous {what} failure"), &status))? {
        return Ok(reached);
    }
    loop {
        let turn = Instant::now() + INTERVAL;
        let turn = end.map_or(turn, |end| end.min(turn));
        let waited = detached(py, || wait_all(points, Some(turn)));
        let reached = match waited {
            Ok(()) => Some(true),
            // It is the time of this wait that is up, unless a timeline failed with that code.
            Err(status) if status.code() == StatusCode::DeadlineExceeded => {
                query(points).map_err(|status| throw(py, &format!("asynchronous {what} failure"), &status))?
            }
            Err(status) => return Err(throw(py, &format!("asynchronous {what} failure"), &status)),
        };
        if let Some(reached) = reached {
            return Ok(reached);
        }
        if end.is_some_and(|end| Instant::now() >= end) {
            return Ok(false);
        }
        py.check_signals()?;
    }
}

/// Whether all points are reached; nothing if one is not.
fn query(points: &[Timepoint]) -> Result<Option<bool>, Status> {
    for point in points {
        if point.semaphore.query()? < point.value {
            return Ok(None);
        }
    }
    Ok(Some(true))
}
