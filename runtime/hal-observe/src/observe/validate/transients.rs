//! Transient buffers between their allocation and their deallocation. Queues decide when they have memory, so only what
//! no order of the submitted operations allows is refused: a use that waits for nothing that is still to come while the
//! allocation is, and one that comes after a point of the deallocation was reached.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, Weak};

use super::table::lock;
use crate::hal::timepoints::reached;
use crate::hal::{AllocaFlags, Buffer, Semaphore, Timepoint};
use crate::observe::{Called, ObjectId};
use crate::status::{Result, Status};

/// The transient buffers that were allocated since they are observed.
#[derive(Debug, Default)]
pub(super) struct Transients(Mutex<Entries>);

#[derive(Debug, Default)]
struct Entries {
    by_object: HashMap<ObjectId, Transient>,
    /// Entries of buffers that are gone are removed when there are so many.
    limit: usize,
}

#[derive(Debug)]
struct Transient {
    buffer: Weak<dyn Buffer>,
    allocated: Vec<Point>,
    /// Whether deallocations are ignored, since the last use of the memory is then not known.
    kept: bool,
    returned: Option<Returned>,
}

#[derive(Clone, Debug)]
enum Returned {
    /// Once one of the points is reached.
    At(Vec<Point>),
    /// Nothing can be ordered before it any more.
    Now,
}

/// A point of a timeline that is not kept alive: one that goes away fails those who wait for it.
#[derive(Clone, Debug)]
struct Point {
    semaphore: Weak<dyn Semaphore>,
    value: u64,
}

impl Point {
    fn all(called: &Called<'_>, points: &[Timepoint]) -> Vec<Point> {
        let point = |point: &Timepoint| Point {
            semaphore: Arc::downgrade(&called.unwrapped(&point.semaphore)),
            value: point.value,
        };
        points.iter().map(point).collect()
    }

    /// Whether the point is reached; none if the timeline failed or is gone.
    fn is_reached(&self) -> Option<bool> {
        Some(self.semaphore.upgrade()?.query().ok()? >= self.value)
    }
}

impl Transients {
    /// A transient buffer was allocated.
    pub(super) fn allocated(
        &self,
        called: &Called<'_>,
        buffer: &Arc<dyn Buffer>,
        signal: &[Timepoint],
        flags: AllocaFlags,
    ) {
        let (buffer, allocated) = (allocation(buffer), Point::all(called, signal));
        let id = called.id(&buffer);
        let mut entries = lock(&self.0);
        let Entries { by_object, limit } = &mut *entries;
        if by_object.len() >= *limit {
            by_object.retain(|_, transient| transient.buffer.strong_count() > 0);
            *limit = 64.max(2 * by_object.len());
        }
        let kept = flags.contains(AllocaFlags::INDETERMINATE_LIFETIME);
        by_object.insert(id, Transient { buffer: Arc::downgrade(&buffer), allocated, kept, returned: None });
    }

    /// A deallocation was submitted.
    pub(super) fn returned(
        &self,
        called: &Called<'_>,
        buffer: &Arc<dyn Buffer>,
        wait: &[Timepoint],
        signal: &[Timepoint],
    ) {
        let returned = match signal {
            [] if !is_due(called, wait) => return,
            [] => Returned::Now,
            signal => Returned::At(Point::all(called, signal)),
        };
        let id = called.id(&allocation(buffer));
        if let Some(transient) = lock(&self.0).by_object.get_mut(&id)
            && !transient.kept
        {
            transient.returned.get_or_insert(returned);
        }
    }

    /// The allocation of a buffer if it is a transient one.
    pub(super) fn find(&self, called: &Called<'_>, buffer: &Arc<dyn Buffer>) -> Option<Weak<dyn Buffer>> {
        let id = called.id(&allocation(buffer));
        lock(&self.0).by_object.get(&id).map(|transient| transient.buffer.clone())
    }

    /// A buffer that an operation uses after the points of `wait` can have memory then.
    pub(super) fn check(
        &self,
        called: &Called<'_>,
        name: &str,
        buffer: &Arc<dyn Buffer>,
        wait: &[Timepoint],
    ) -> Result<()> {
        let id = called.id(&allocation(buffer));
        let Some((allocated, returned)) = self.state(id) else { return Ok(()) };
        check_returned(name, id, returned.as_ref())?;
        // The waits come first: if all of them are reached, and the allocation is not yet, neither waits for the other.
        let is_pending = |point: &Point| point.is_reached() == Some(false);
        if is_due(called, wait) && !allocated.is_empty() && allocated.iter().all(is_pending) {
            let message =
                format!("`{name}`: {id} has no memory yet, and the operation does not wait for its allocation");
            return Err(Status::failed_precondition(message));
        }
        Ok(())
    }

    /// A buffer that is to be deallocated was not deallocated before.
    pub(super) fn check_returned(&self, called: &Called<'_>, buffer: &Arc<dyn Buffer>) -> Result<()> {
        let id = called.id(&allocation(buffer));
        let Some((_, returned)) = self.state(id) else { return Ok(()) };
        check_returned("buffer", id, returned.as_ref())
    }

    fn state(&self, id: ObjectId) -> Option<(Vec<Point>, Option<Returned>)> {
        let entries = lock(&self.0);
        let transient = entries.by_object.get(&id)?;
        Some((transient.allocated.clone(), transient.returned.clone()))
    }
}

fn check_returned(name: &str, id: ObjectId, returned: Option<&Returned>) -> Result<()> {
    let is_returned = returned.is_some_and(|returned| match returned {
        Returned::At(points) => points.iter().any(|point| point.is_reached() == Some(true)),
        Returned::Now => true,
    });
    if is_returned {
        return Err(Status::failed_precondition(format!("`{name}`: {id} was deallocated")));
    }
    Ok(())
}

/// The buffer whose memory another one is part of.
fn allocation(buffer: &Arc<dyn Buffer>) -> Arc<dyn Buffer> {
    buffer.allocation().unwrap_or_else(|| buffer.clone())
}

/// Whether an operation need not wait any more.
fn is_due(called: &Called<'_>, wait: &[Timepoint]) -> bool {
    let point = |point: &Timepoint| Timepoint { semaphore: called.unwrapped(&point.semaphore), value: point.value };
    let wait: Vec<Timepoint> = wait.iter().map(point).collect();
    reached(&wait).is_ok_and(|reached| reached)
}
