//! How the memory of a pool is divided: what the kinds of pools have for themselves.

use super::frontier::Frontier;
use crate::FrontierEntry;

/// Reservations start at multiples of this and their sizes are rounded up to it.
pub(super) const GRAIN: u64 = 64;

/// A reservation that is wanted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Request {
    /// Bytes, a multiple of [`GRAIN`] and not zero.
    pub size: u64,
    /// A power of two, at least [`GRAIN`].
    pub alignment: u64,
}

/// A range that was taken for a reservation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct TakenRange {
    /// The slab.
    pub slab: u16,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u64,
    /// What the strategy knows it by.
    pub handle: u64,
    /// Whether nobody used any of it before.
    pub fresh: bool,
    /// What its user has to come after.
    pub death_frontier: Frontier,
}

/// Divides slabs. It knows ranges only, not memory.
pub(super) trait Strategy: Send {
    /// What it is called.
    fn name(&self) -> &'static str;

    /// Most bytes of a reservation.
    fn max_size(&self) -> u64;

    /// Takes a free range, if there is one whose death frontier is `usable`.
    fn reserve(&mut self, request: Request, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<TakenRange>;

    /// Returns a range that was taken.
    fn release(&mut self, handle: u64, death_frontier: &[FrontierEntry]);

    /// Bytes of the slab that would make the request possible; none if no slab would.
    fn growth(&self, request: Request) -> Option<u64>;

    /// Adds a slab of at least as many bytes as `growth` said. It is all free and nobody used it.
    fn add_slab(&mut self, slab: u16, length: u64);

    /// Forgets a slab without reservations whose free ranges are `usable`, and tells which.
    fn remove_idle(&mut self, usable: &dyn Fn(&[FrontierEntry]) -> bool) -> Option<u16>;

    /// Whether idle slabs go back as soon as they are idle, not only when the pool is trimmed.
    fn trims_on_release(&self) -> bool {
        false
    }
}
