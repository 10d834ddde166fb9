//! The threads of a local device's queue, and the names of queues and operations with them.

use std::fmt;
use std::sync::Arc;

use crate::hal_driver::queue::{self, InlineRunner};
use crate::task::Executor;

/// The threads that run ready operations.
pub(crate) enum LocalDiscipline {
    /// The threads that make them ready, at once.
    Inline(InlineRunner<LocalDiscipline>),
    /// Workers, several operations at a time.
    Workers(Arc<Executor>),
}

pub(crate) type Queue = queue::Queue<LocalDiscipline>;
pub(super) type Operation = queue::Operation<LocalDiscipline>;

impl Default for LocalDiscipline {
    fn default() -> LocalDiscipline {
        LocalDiscipline::Inline(InlineRunner::default())
    }
}

impl LocalDiscipline {
    /// The thread pool, if the device has one.
    #[inline]
    pub(crate) fn executor(&self) -> Option<&Executor> {
        match self {
            LocalDiscipline::Inline(_) => None,
            LocalDiscipline::Workers(executor) => Some(executor),
        }
    }
}

impl fmt::Debug for LocalDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            LocalDiscipline::Inline(inline) => inline.fmt(f),
            LocalDiscipline::Workers(executor) => executor.fmt(f),
        }
    }
}
