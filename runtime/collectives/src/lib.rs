//! Collective operations: groups of ranks that exchange and reduce data, in one process or in several.
//!
//! `operation` has the operations as data and `element` reduces elements; `agreement` compares what ranks contribute to
//! a round before any data move; `span` and `perform` move the data of ranks that share a process. A [`Transport`] is
//! the membership of a rank in a group: `in_process` is a table of the process, and `tcp` connects processes. `late` is
//! the membership in a group that is not formed yet. A [`GroupChannel`] is the channel that programs hold, and
//! [`Collectives`] creates channels as [`CollectiveOptions`] say.
//!
//! **Who waits**: none. A rank arrives at a round with its buffers and a completion, which the last rank to arrive
//! calls. Only asking a channel that was split off for its rank blocks, until all ranks have split.
//!
//! It stands on `vireo-core` and `vireo-hal`; queues of drivers (`vireo-hal-driver`) call it. Users depend on the crate
//! `vireo`.
#![forbid(unsafe_code)]
#![warn(clippy::missing_errors_doc, clippy::missing_panics_doc)]

mod agreement;
mod channel;
mod element;
mod in_process;
mod late;
mod operation;
mod options;
mod perform;
mod provider;
mod span;
mod tcp;
mod transport;

use vireo_core::status;
use vireo_hal as hal;

pub use channel::{GroupChannel, Ticket};
pub use operation::{MAX_OPERATIONS, MAX_RANKS, Needs, Operation, Peers, reduces};
pub use options::{CollectiveOptions, DEFAULT_LIMIT, Meeting};
pub use provider::Collectives;
pub use span::{BoundOperation, Contribution, Span};
pub use transport::{Completion, Outcome, Transport};
