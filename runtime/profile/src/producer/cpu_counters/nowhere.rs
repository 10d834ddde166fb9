//! Counters of systems that have none that are read.

use vireo_core::status::{Result, Status};

use super::counter::{self, Values};

#[derive(Clone, Copy)]
pub(in super::super) enum Event {}

/// No counter is ever selected.
pub(in super::super) type Counter = counter::Counter<Event>;

pub(super) const COUNTERS: &[Counter] = &[];

pub(super) fn open(_: &[Counter]) -> Result<()> {
    Err(Status::unimplemented("this system has no counters of processors"))
}

pub(super) fn begin(_: u64, counters: &[Counter]) -> Result<()> {
    open(counters)
}

pub(super) fn end(_: u64) -> Result<Values> {
    open(&[]).map(|()| Values::new())
}
