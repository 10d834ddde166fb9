//! Points of timelines: what is signaled must be ahead of what is reached, and of what the operation itself waits for.

use std::sync::Arc;

use crate::hal::{SEMAPHORE_MAX_VALUE, Semaphore, Timepoint};
use crate::observe::Called;
use crate::status::{Result, Status};

/// The points of an operation can be signaled.
pub(super) fn check_points(called: &Called<'_>, wait: &[Timepoint], signal: &[Timepoint]) -> Result<()> {
    for (index, point) in signal.iter().enumerate() {
        let id = called.id(&point.semaphore);
        let check = || {
            check_advance(&*called.unwrapped(&point.semaphore), point.value)?;
            let is_same = |other: &&Timepoint| Arc::ptr_eq(&other.semaphore, &point.semaphore);
            let ahead = |other: &&Timepoint| other.value >= point.value;
            if let Some(waited) = wait.iter().filter(is_same).find(ahead) {
                let message = format!("the operation waits for {} of that timeline, which only advances", waited.value);
                return Err(Status::invalid_argument(message));
            }
            if let Some(other) = signal[..index].iter().filter(is_same).find(ahead) {
                let message =
                    format!("the operation signals {} of that timeline before, which only advances", other.value);
                return Err(Status::invalid_argument(message));
            }
            Ok(())
        };
        check().map_err(|status: Status| status.context(format!("`signal[{index}]` is {id}@{}", point.value)))?;
    }
    Ok(())
}

/// The timeline that is called can be signaled.
pub(super) fn check_signal(called: &Called<'_>, value: u64) -> Result<()> {
    match called.callee::<dyn Semaphore>() {
        Some(semaphore) => check_advance(&**semaphore, value),
        None => Ok(()),
    }
}

/// Checks that a signal advances a timeline. A failed one stays as it is, and says so itself.
fn check_advance(semaphore: &dyn Semaphore, value: u64) -> Result<()> {
    if value > SEMAPHORE_MAX_VALUE {
        let message = format!("cannot signal {value}: expected at most {SEMAPHORE_MAX_VALUE}");
        return Err(Status::invalid_argument(message));
    }
    match semaphore.query() {
        Ok(payload) if value <= payload => Err(Status::invalid_argument(format!(
            "cannot signal {value}: the timeline is at {payload} and only advances"
        ))),
        _ => Ok(()),
    }
}
