//! Events.

use std::sync::Arc;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CFloat, CuEvent, CuStream, EVENT_DISABLE_TIMING, EVENT_FLAGS, EVENT_INTERPROCESS};

use crate::api::{Out, Outcome};
use crate::capture;
use crate::context::Event;
use crate::system::{current, stream, system};

/// Nanoseconds of a millisecond.
const MILLISECOND: f64 = 1e6;

pub(super) fn known(event: CuEvent) -> Outcome<Arc<Event>> {
    let found = system()?.events.get(event.0).filter(|event| !event.context.has_ended());
    found.ok_or(CuResult::ERROR_INVALID_HANDLE)
}

pub(crate) unsafe fn cuEventCreate(event: *mut CuEvent, flags: u32) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(event) }?;
    if flags & !EVENT_FLAGS != 0 || flags & EVENT_INTERPROCESS != 0 && flags & EVENT_DISABLE_TIMING == 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    out.set(CuEvent(system.events.insert(Arc::new(Event::new(context, flags)))));
    Ok(())
}

pub(crate) unsafe fn cuEventRecord(event: CuEvent, handle: CuStream) -> Outcome {
    let (system, found) = stream(handle)?;
    let event = known(event)?;
    if !Arc::ptr_eq(&event.context, &found.context) {
        return Err(CuResult::ERROR_INVALID_HANDLE);
    }
    capture::record(system, &found, &event)
}

pub(crate) unsafe fn cuEventRecordWithFlags(event: CuEvent, handle: CuStream, flags: u32) -> Outcome {
    if flags > 1 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: it needs no pointers.
    unsafe { cuEventRecord(event, handle) }
}

/// Refuses an event that was recorded in a capture last.
fn check_captured(event: &Event) -> Outcome {
    if event.captured().is_some() { Err(CuResult::ERROR_CAPTURED_EVENT) } else { Ok(()) }
}

pub(crate) unsafe fn cuEventQuery(event: CuEvent) -> Outcome {
    let event = known(event)?;
    check_captured(&event)?;
    match event.recorded() {
        Some(op) if !event.context.is_done(&op) => {
            event.context.status()?;
            Err(CuResult::ERROR_NOT_READY)
        }
        _ => event.context.status(),
    }
}

pub(crate) unsafe fn cuEventSynchronize(event: CuEvent) -> Outcome {
    let event = known(event)?;
    check_captured(&event)?;
    match event.recorded() {
        Some(op) => event.context.wait(&op),
        None => event.context.status(),
    }
}

pub(crate) unsafe fn cuEventDestroy_v2(event: CuEvent) -> Outcome {
    system()?.events.remove(event.0).map(|_| ()).ok_or(CuResult::ERROR_INVALID_HANDLE)
}

pub(crate) unsafe fn cuEventDestroy(event: CuEvent) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuEventDestroy_v2(event) }
}

pub(crate) unsafe fn cuEventElapsedTime(milliseconds: *mut CFloat, start: CuEvent, end: CuEvent) -> Outcome {
    let (start, end) = (known(start)?, known(end)?);
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(milliseconds) }?;
    if (start.flags | end.flags) & EVENT_DISABLE_TIMING != 0 {
        return Err(CuResult::ERROR_INVALID_HANDLE);
    }
    let context = &start.context;
    context.status()?;
    let (Some(start), Some(end)) = (start.recorded(), end.recorded()) else {
        return Err(CuResult::ERROR_INVALID_HANDLE);
    };
    if !context.is_done(&start) || !context.is_done(&end) {
        return Err(CuResult::ERROR_NOT_READY);
    }
    let passed = (i128::from(end.finished()) - i128::from(start.finished())) as f64 / MILLISECOND;
    out.set(CFloat((passed as f32).to_bits()));
    Ok(())
}

pub(crate) unsafe fn cuEventElapsedTime_v2(milliseconds: *mut CFloat, start: CuEvent, end: CuEvent) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { cuEventElapsedTime(milliseconds, start, end) }
}
