//! A counter as a session names it, whatever the system has for it.

use smallvec::SmallVec;

use crate::generated::format::CounterUnit;

/// Values of counters, in the order of their selection.
pub(in super::super) type Values = SmallVec<[u64; 4]>;

/// A counter that hosts name.
#[derive(Clone, Copy)]
pub(in super::super) struct Counter<E> {
    /// As `perf list` has it.
    pub(in super::super) name: &'static str,
    pub(in super::super) unit: CounterUnit,
    pub(in super::super) description: &'static str,
    /// The event of the system.
    pub(super) event: E,
}
