//! Collective operations of GPUs, by NCCL or a library with its functions.
//!
//! `library` loads it when the first channel is created. `communicator` is a rank of the library, which is made and
//! split on a thread of its own and never blocks, and `channel` is what programs hold. `recorded` are the operations of
//! a program, and `issue` gives them to a stream; `flight` follows what a stream was given until it has run, and ends
//! it if a rank has failed or does not come.
//!
//! **Who waits**: the thread of a channel, within its limit. A queue whose next operation waits for other ranks tries
//! again and again, by its feeder; so all ranks can be on one thread of a program.

mod channel;
mod communicator;
mod flight;
mod issue;
mod library;
mod recorded;

pub use channel::{StreamChannel, create};
pub use flight::{Flight, Flights};
pub use issue::issue;
pub(crate) use library::failed;
pub use library::{CollectivesLibrary, LibrarySource};
pub use recorded::RecordedCollective;
pub(crate) use recorded::check;
