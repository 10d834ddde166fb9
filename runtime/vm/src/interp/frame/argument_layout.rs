//! [`ArgumentLayout`]: where the arguments of a function are in its frame.

use crate::convention::Kind;

/// The layout of arguments in a frame: 64-bit values go to the next even slot, references to their own bank.
#[derive(Clone, Copy, Debug, Default)]
pub struct ArgumentLayout {
    slot: usize,
    reference: usize,
}

impl ArgumentLayout {
    /// The layout before the first argument.
    pub const EMPTY: ArgumentLayout = ArgumentLayout { slot: 0, reference: 0 };

    /// The layout after arguments of these kinds.
    pub fn of(kinds: impl Iterator<Item = Kind>) -> ArgumentLayout {
        let mut layout = ArgumentLayout::EMPTY;
        kinds.for_each(|kind| _ = layout.place(kind));
        layout
    }

    /// How many slots and references a frame has that holds either these arguments or those of `other`.
    pub fn size_with(self, other: ArgumentLayout) -> (u32, u32) {
        (self.slot.max(other.slot) as u32, self.reference.max(other.reference) as u32)
    }

    /// Places the next value: its slot, or its ref register.
    #[inline]
    pub const fn place(&mut self, kind: Kind) -> usize {
        match kind {
            Kind::Ref => {
                self.reference += 1;
                self.reference - 1
            }
            Kind::I32 | Kind::F32 => {
                self.slot += 1;
                self.slot - 1
            }
            Kind::I64 | Kind::F64 => {
                let slot = self.slot.next_multiple_of(2);
                self.slot = slot + 2;
                slot
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn wide_arguments_land_on_even_slots() {
        let mut layout = ArgumentLayout::default();
        let kinds = [Kind::I32, Kind::I64, Kind::I32, Kind::Ref, Kind::F32, Kind::F64, Kind::Ref, Kind::F64];
        assert_eq!(kinds.map(|kind| layout.place(kind)), [0, 2, 4, 0, 5, 6, 1, 8]);
    }
}
