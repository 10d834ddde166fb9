//! Queues: operations become packets of an HSA queue, and their completion becomes signals of timelines.
//!
//! [`crate::hal_driver::device_queue`] submits, waits for room, completes and ends, and says which thread may wait for
//! what. `hardware` puts packets together and publishes them, with `kernarg_ring` for their arguments. `host_queue` has
//! the queues of a device, and makes them anew, and `times` are those of dispatches, for observers.

mod hardware;
mod host_queue;
mod kernarg_ring;
mod times;

pub(crate) use hardware::{PacketQueue, QueueClock};
pub use host_queue::{HostQueue, QueueOptions};
