//! Submissions to a queue before it has sorted them ([`Request`]); they own all that they need.

use std::fmt;
use std::sync::Arc;

use crate::device_queue::HostWorkers;
use crate::hal::Timepoint;
use crate::status::Result;

/// A function of the host that runs on behalf of a queue; it gets the points that are signaled afterwards.
pub type HostAction = Box<dyn FnOnce(&[Timepoint]) -> Result<()> + Send>;

/// A function that runs when a submission has completed without a failure.
pub type Reclaim = Box<dyn FnOnce() -> Result<()> + Send>;

/// The work of a submission.
pub enum Payload<J> {
    /// Nothing: it only orders others.
    Barrier,
    /// Something that packets do.
    Job(J),
    /// Something on a thread of the host, once all points are reached.
    Host(HostAction, Arc<HostWorkers>),
}

/// A submission that owns all it needs.
pub struct Request<J> {
    /// The points it waits for.
    pub wait: Vec<Timepoint>,
    /// The points it signals.
    pub signal: Vec<Timepoint>,
    /// Its work.
    pub payload: Payload<J>,
    /// A function that runs once it has completed without a failure, before the points are signaled.
    pub reclaim: Option<Reclaim>,
}

impl<J> fmt::Debug for Request<J> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "request({} waits, {} signals)", self.wait.len(), self.signal.len())
    }
}
