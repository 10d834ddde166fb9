//! Fences: sets of timepoints that are reached when all of them are. Programs create and join them and pass them to
//! queues.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Instant;

use smallvec::{SmallVec, smallvec};

use super::multi_wait::{MultiWait, wait_all};
use super::{HostSemaphore, Semaphore, Timepoint};
use crate::status::{Result, Status};
use crate::vm::abi::{FromRef, RefArgument};
use crate::vm::{Obj, Ref};

/// A set of timepoints with at most one for each timeline. The empty set is reached. Clones share the timelines.
#[derive(Clone, Debug, Default)]
pub struct Fence(Points);

/// Most fences have one or two points, which are stored inline.
type Points = SmallVec<[Timepoint; 2]>;

/// The points of a fence that a program passes; a null fence has none.
#[derive(Clone, Copy, Debug)]
pub struct Timepoints<'call>(&'call [Timepoint]);

impl Deref for Timepoints<'_> {
    type Target = [Timepoint];

    #[inline]
    fn deref(&self) -> &[Timepoint] {
        self.0
    }
}

impl<'call> FromRef<'call> for Timepoints<'call> {
    #[inline]
    fn from_ref(argument: RefArgument<'call>, name: &str) -> Result<Self> {
        let fence = Option::<&Obj<Fence>>::from_ref(argument, name)?;
        Ok(Timepoints(fence.map_or(&[], |fence| fence.timepoints())))
    }
}

/// With more timelines than this, `join` finds them in a hash map instead of by linear search.
const LINEAR_SEARCH_LIMIT: usize = 16;

impl Fence {
    /// A fence at a point of a new timeline, for a program to signal or to hand to a queue.
    pub fn create() -> Fence {
        Fence::at(Arc::new(HostSemaphore::new(0)), 1)
    }

    /// A fence at one point.
    pub fn at(semaphore: Arc<dyn Semaphore>, value: u64) -> Fence {
        Fence(smallvec![Timepoint { semaphore, value }])
    }

    /// A fence at all of these points; of several points of one timeline it keeps the last.
    pub fn join<'a>(points: impl IntoIterator<Item = &'a Timepoint>) -> Fence {
        let mut joined = Points::new();
        // Linear search for each point would take quadratic time where there are many.
        let mut indices: HashMap<*const (), usize> = HashMap::new();
        for point in points {
            let timeline = Arc::as_ptr(&point.semaphore).cast::<()>();
            let index = if indices.is_empty() {
                joined.iter().position(|other| Arc::as_ptr(&other.semaphore).cast() == timeline)
            } else {
                indices.get(&timeline).copied()
            };
            match index {
                Some(index) => joined[index].value = joined[index].value.max(point.value),
                None => {
                    joined.push(point.clone());
                    if !indices.is_empty() {
                        indices.insert(timeline, joined.len() - 1);
                    } else if joined.len() == LINEAR_SEARCH_LIMIT {
                        let timelines = joined.iter().map(|point| Arc::as_ptr(&point.semaphore).cast());
                        indices = timelines.zip(0..).collect();
                    }
                }
            }
        }
        Fence(joined)
    }

    /// A reference for a program.
    pub fn to_ref(&self) -> Ref {
        Ref::new(self.clone())
    }

    /// The points.
    pub fn timepoints(&self) -> &[Timepoint] {
        &self.0
    }

    /// Takes a point out, with its reference to the timeline.
    pub(super) fn pop_timepoint(&mut self) -> Option<Timepoint> {
        self.0.pop()
    }

    /// True if it is reached.
    ///
    /// # Errors
    /// The failure of a timeline.
    pub fn query(&self) -> Result<bool> {
        let mut reached = true;
        for point in &self.0 {
            reached &= point.semaphore.query()? >= point.value;
        }
        Ok(reached)
    }

    /// Signals every point.
    ///
    /// # Errors
    /// Those of [`Semaphore::signal`](super::Semaphore::signal) for the first point that cannot be signalled; points
    /// before it are.
    pub fn signal(&self) -> Result<()> {
        self.0.iter().try_for_each(|point| point.semaphore.signal(point.value))
    }

    /// Fails every timeline.
    pub fn fail(&self, status: &Status) {
        for point in &self.0 {
            point.semaphore.fail(status.clone());
        }
    }

    /// Blocks until it is reached, a timeline fails, or the deadline passes.
    ///
    /// # Errors
    /// The failure of a timeline, `DEADLINE_EXCEEDED` if the deadline passes before, and the end of the call that
    /// waits, such as its cancellation.
    pub fn wait(&self, deadline: Option<Instant>) -> Result<()> {
        wait_all(&self.0, deadline)
    }

    /// Starts to wait without blocking.
    pub fn start_wait(&self) -> MultiWait {
        MultiWait::new(&self.0)
    }
}

/// `fence.await`: waits in an asynchronous task until the fence is reached or a timeline fails.
impl IntoFuture for Fence {
    type IntoFuture = MultiWait;
    type Output = Result<()>;

    fn into_future(self) -> MultiWait {
        self.start_wait()
    }
}

/// `timepoint.await`: waits in an asynchronous task until the timeline gets to the point or fails.
impl IntoFuture for Timepoint {
    type IntoFuture = MultiWait;
    type Output = Result<()>;

    fn into_future(self) -> MultiWait {
        MultiWait::new(&[self])
    }
}
