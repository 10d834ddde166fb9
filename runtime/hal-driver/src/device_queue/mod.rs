//! Queues of devices that run by themselves ([`Core`]): operations become work for the hardware, and their completion
//! becomes signals of timelines.
//!
//! `core` is a queue without anything of a device, generic over it: the way in, the line for room, the threads, the
//! end. `host_worker` runs what the host does in between. `sync` and `rules` are what the model checker replaces.
//!
//! # Which thread waits for what
//! A queue cannot hang because no thread waits for one that waits for it. Locks are held only while something is moved
//! from one place to another, or packets are put together: never while a thread waits, and never while code of the host
//! runs.
//!
//! | thread | waits for | its wait ends by |
//! |---|---|---|
//! | submitter | room in the ring, without a lock | room, which completions of earlier submissions give; a failure of the queue; the end of its call |
//! | signaller of a timeline | nothing | |
//! | completion thread | its own hardware: the epoch signal, and the end of a kernel that it stops | a completed part; being woken for a failure, a limit, the end |
//! | feeder | something that became ready; room in the ring | the same as for a submitter, except that it is of no call |
//! | host worker | what the code of the host waits for, and for staging memory | that; the end of its call |
//! | owner that drops the queue | the two threads of the queue, unless it is itself such a thread or a holder may still submit | their end; a kernel that does not end is stopped after the patience of the queue, and after twice that the owner waits no more |
//!
//! | lock | taken by | while it is held |
//! |---|---|---|
//! | `admission` | submitters, the feeder; the completion thread, to see what is in line after a failure or at the end | packets are put together, `entries` is locked |
//! | `entries`, `spare`, `feed`, `settled`, `threads` | all of them | nothing is called |
//! | of a parked operation | signallers of the points it waits for | nothing is called |
//!
//! It follows that work that becomes ready by a completion is not submitted by the completion thread but by the feeder
//! of its own queue. A submission is completed by the thread of its own queue, also if it has to wait for what it
//! depends on to be signaled. What packets refer to (the clocks of other queues, programs, buffers, memory for
//! arguments) belongs to their entry until they have run, or have been stopped. Code of the host (callbacks, observers,
//! what is done after an operation) may panic: that is caught where it is called, and stops nothing else.

mod core;
mod host_worker;
mod rules;
mod sync;

pub use core::*;
pub use host_worker::HostWorkers;
