//! References of commands that were checked ([`Place`]), and the forms in which blocks have them. The recorder makes them.

use vireo_hsa::command_buffer::{BindingKind, BindingSource, BindingSourceFlags};

/// A checked reference. Lengths are `WHOLE_BUFFER` if they depend on the binding table.
#[derive(Clone, Copy, Debug)]
pub(super) enum Place {
    /// A buffer that the program holds, with the address if that never changes.
    Held { ordinal: u32, offset: u64, length: u64, fixed: Option<u64> },
    /// A slot of the binding table.
    Slot { slot: u32, offset: u64, length: u64 },
}

impl Place {
    /// Bytes.
    pub(super) fn length(&self) -> u64 {
        match self {
            Place::Held { length, .. } | Place::Slot { length, .. } => *length,
        }
    }

    /// Its address, if that never changes.
    pub(super) fn fixed(&self) -> Option<u64> {
        match self {
            Place::Held { fixed, .. } => *fixed,
            Place::Slot { .. } => None,
        }
    }

    /// Whether it is in a slot of the binding table.
    pub(super) fn is_slot(&self) -> bool {
        matches!(self, Place::Slot { .. })
    }

    /// The source of its address in the arguments.
    pub(super) fn source(&self, target: u16) -> BindingSource {
        let flags = BindingSourceFlags::default();
        let (offset_or_pointer, slot, flags) = match self {
            Place::Held { fixed: Some(address), .. } => (*address, 0, flags),
            Place::Held { ordinal, offset, .. } => (*offset, *ordinal, flags.with_static_buffer(true)),
            Place::Slot { slot, offset, .. } => (*offset, *slot, flags.with_dynamic(true)),
        };
        BindingSource { offset_or_pointer, slot, target_binding_ordinal: target, flags, reserved0: 0 }
    }

    /// As an end of a transfer.
    pub(super) fn end(&self) -> (BindingKind, u32, u64) {
        match self {
            Place::Held { ordinal, offset, .. } => (BindingKind::STATIC, *ordinal, *offset),
            Place::Slot { slot, offset, .. } => (BindingKind::DYNAMIC, *slot, *offset),
        }
    }
}
