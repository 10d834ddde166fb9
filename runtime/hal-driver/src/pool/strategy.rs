//! The interface of pools to their strategies ([`Strategy`]): how slabs are divided into ranges.

use super::frontier::Frontier;
use crate::hal::FrontierEntry;

/// Reservations start at multiples of this and their sizes are rounded up to it.
pub(super) const GRAIN: u64 = 64;

/// A requested range.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Bytes, a multiple of [`GRAIN`] and not zero.
    pub size: u64,
    /// A power of two, at least [`GRAIN`].
    pub alignment: u64,
}

/// A range that a strategy has reserved.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TakenRange {
    /// The slab.
    pub slab: u16,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// The strategy's handle of it.
    pub handle: u64,
    /// Whether it was never used before.
    pub fresh: bool,
    /// The points that its next user has to come after.
    pub death_frontier: Frontier,
}

/// Divides slabs into ranges. It does not access their memory.
pub(super) trait Strategy: Send {
    /// Its name, for messages.
    fn name(&self) -> &'static str;

    /// Most bytes of a reservation.
    fn max_size(&self) -> u64;

    /// Reserves a free range whose death frontier is `usable`, if there is one.
    fn reserve(&mut self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<TakenRange>;

    /// Releases a range.
    fn release(&mut self, handle: u64, death_frontier: &[FrontierEntry]);

    /// The size of a slab that would make the request possible; none if no slab would.
    fn growth(&self, request: Request) -> Option<u64>;

    /// Adds a slab of at least as many bytes as `growth` returned. All of it is free and unused.
    fn add_slab(&mut self, slab: u16, length: u64);

    /// Removes a slab without reservations whose death frontiers are all `usable`, and returns its index.
    fn remove_idle(&mut self, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u16>;

    /// Whether the pool releases idle slabs after each release of a range, not only when it is trimmed.
    fn trims_on_release(&self) -> bool {
        false
    }
}
