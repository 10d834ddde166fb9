//! The wait for a peer ([`Patience`]), and its failures.

use std::io::{self, ErrorKind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::status::{Result, Status, StatusCode};

/// How long a thread waits for one peer before it looks at the others, and at whether they have failed.
pub(super) const SLICE: Duration = Duration::from_millis(20);

/// The end of waiting: a deadline, and whether another thread has failed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Patience<'a> {
    pub(super) deadline: Instant,
    pub(super) limit: Duration,
    pub(super) failed: &'a AtomicBool,
}

impl Patience<'_> {
    /// Fails if it is time to.
    pub(super) fn check(&self, name: &str) -> Result<()> {
        if self.failed.load(Ordering::Relaxed) {
            return Err(Status::new(StatusCode::Cancelled, "another rank has failed"));
        }
        if Instant::now() < self.deadline {
            return Ok(());
        }
        Err(too_late(self.limit, name))
    }
}

/// The failure of a wait for peers that took too long.
#[cold]
pub(super) fn too_late(limit: Duration, names: &str) -> Status {
    Status::new(StatusCode::DeadlineExceeded, format!("collective operations waited {limit:?} for {names}"))
}

pub(super) fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted)
}

/// The failure of a peer that is not there any more.
#[cold]
pub(super) fn left(name: &str) -> Status {
    Status::new(StatusCode::Aborted, format!("{name} has left the group"))
}
