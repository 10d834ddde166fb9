//! Locations of values: registers and spill slots.

/// The location of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Location {
    /// None: it is not computed, or a constant.
    None,
    /// A register of the bank of its type.
    Register(u8),
    /// A spill slot in the native frame, or the first of those that a vector takes.
    SpillSlot(u32),
}

/// Bytes of a spill slot.
pub(super) const SPILL_SLOT_BYTES: usize = 8;

/// The locations of all values.
pub(crate) struct Allocation {
    pub locations: Vec<Location>,
    /// The number of spill slots.
    pub spill_slots: u32,
}
