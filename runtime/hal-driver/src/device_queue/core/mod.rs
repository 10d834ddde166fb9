//! The core of a queue ([`Core`]): submission, the wait for room, completion and the end, without anything of a GPU.
//! The parts that depend on one are [`Hardware`], which `hardware` implements by packets of an HSA queue, and the model
//! checker by threads.
//!
//! `hardware` has the traits, `request` what is submitted, `state` the queue itself, and `driver_thread` what its
//! threads have in common. `submission` sorts the points that a submission waits for, and holds it back if the host has
//! to wait for some. `admission` puts submissions in line and gives them to the hardware as there is room. `feeder` is
//! the thread that does so for those without a waiting submitter, `completion` the one that completes what has run, and
//! `ending` the end of a queue. `frontier` is the knowledge that a queue has of others. The table in the module above
//! says which of them may wait for what.
//!
//! Submissions that nothing orders may run at once, and end in any order, so one count cannot say which of them have
//! completed. A queue has [`LANES`], each with a count of its own: a submission has the next number of a lane, and the
//! submissions of a lane run one after the other. `admission` chooses the lane, and decides what begins only after all
//! that the queue has begun before.

mod admission;
mod completion;
mod driver_thread;
mod ending;
mod feeder;
mod frontier;
mod hardware;
mod request;
mod state;
mod submission;

pub use driver_thread::{guarded, is_driver_thread, join_driver};
pub use ending::Owner;
pub use frontier::{Frontier, LANES};
pub use hardware::{Clock, Hardware, Job, Part, SubmissionPoint, Work};
pub use request::{Payload, Request};
pub use state::{Core, Hold, Parked, ParkedMemory, Submission};
pub use submission::refuse;
