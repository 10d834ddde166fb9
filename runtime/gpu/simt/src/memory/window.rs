//! Windows ([`Window`]): ranges of addresses that stand for another memory, such as that of the work-group, so that an
//! access by a generic address goes where its address says, for each lane.

use crate::row::{LANES, Mask, Row};

/// A range of `2^BITS` addresses at a multiple of that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window<const BITS: u32> {
    base: u64,
}

impl<const BITS: u32> Window<BITS> {
    /// The window from `base` on, of which the lowest bits are dropped.
    pub const fn at(base: u64) -> Self {
        Window { base: base >> BITS << BITS }
    }

    /// Whether an address is in it.
    #[inline(always)]
    pub const fn holds(self, address: u64) -> bool {
        (address ^ self.base) >> BITS == 0
    }

    /// The offset of an address in it.
    #[inline(always)]
    pub const fn offset(self, address: u64) -> Option<u64> {
        if self.holds(address) { Some(address ^ self.base) } else { None }
    }
}

/// The lanes of `mask` whose addresses are in each of some windows. The addresses are two rows, their low words first,
/// and `offset` is added to each.
#[inline(always)]
pub fn lanes_in<const BITS: u32, const N: usize>(
    windows: [Window<BITS>; N],
    [low, high]: [&Row; 2],
    offset: u64,
    mask: Mask,
) -> [Mask; N] {
    let mut masks = [0; N];
    for lane in 0..LANES {
        let address = (u64::from(low.0[lane]) | u64::from(high.0[lane]) << 32).wrapping_add(offset);
        for (found, window) in masks.iter_mut().zip(windows) {
            *found |= u32::from(window.holds(address)) << lane;
        }
    }
    masks.map(|found| found & mask)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_holds_its_addresses_and_no_others() {
        let window = Window::<24>::at(0x7_0300_0123);
        assert_eq!((window.offset(0x7_0300_0000), window.offset(0x7_03FF_FFFF)), (Some(0), Some(0xFF_FFFF)));
        for outside in [0x7_02FF_FFFF, 0x7_0400_0000, 0x0300_0000, 0, u64::MAX] {
            assert!(!window.holds(outside) && window.offset(outside).is_none(), "{outside:#x}");
        }
        assert!(Window::<24>::at(u64::MAX).holds(u64::MAX));
    }

    #[test]
    fn lanes_are_told_apart_by_their_windows() {
        let windows = [Window::<24>::at(1 << 32), Window::<24>::at(2 << 32)];
        // Lanes 0 and 3 are in the first one, 1 and 4 in the second one, and an offset takes lane 3 out of it.
        let high = Row::from_fn(|lane| [1, 2, 3][lane % 3]);
        let low = Row::from_fn(|lane| if lane == 3 { 0xFF_FFFC } else { 4 * lane as u32 });
        assert_eq!(lanes_in(windows, [&low, &high], 0, 0b1_1111), [0b0_1001, 0b1_0010]);
        assert_eq!(lanes_in(windows, [&low, &high], 4, 0b1_1111), [0b0_0001, 0b1_0010]);
        // The sum of an address and an offset wraps.
        let last = Row::splat(u32::MAX);
        assert_eq!(lanes_in([Window::<24>::at(0)], [&last, &last], 1, 0b11), [0b11]);
    }
}
