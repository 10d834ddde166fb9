//! The parts of the standard library with which packet processors lock and wait, and the bell where they sleep. The
//! model checker of `tests/model` puts its own in this place, so `doorbell`, `lifecycle` and `packet_loop` name no
//! others.

pub(crate) use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
pub(crate) use std::thread_local;

pub(crate) use vireo_soft::bell::Bell;
