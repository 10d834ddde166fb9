//! Rows: the value of one vector register in all lanes of a wave, and masks with one bit for each lane.
//!
//! A row is an aligned array, and operations on rows are loops over all lanes without branches, so that the compiler
//! makes vector instructions of them; a mask is applied when a result is written.

/// Lanes of a wave.
pub const LANES: usize = 32;

/// One bit for each lane, lane 0 in the lowest.
pub type Mask = u32;

/// A 32-bit value for each lane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct Row(pub [u32; LANES]);

impl Row {
    /// Zero in every lane.
    pub const ZERO: Row = Row([0; LANES]);

    /// The same value in every lane.
    #[inline(always)]
    pub const fn splat(value: u32) -> Self {
        Row([value; LANES])
    }

    /// A value computed for each lane.
    #[inline(always)]
    pub fn from_fn(mut value: impl FnMut(usize) -> u32) -> Self {
        let mut row = Row::ZERO;
        for lane in 0..LANES {
            row.0[lane] = value(lane);
        }
        row
    }

    /// All ones in the lanes of `mask`, zero in the others: the form in which [`Row::blend`] needs it.
    #[inline(always)]
    pub fn of_mask(mask: Mask) -> Self {
        Row::from_fn(|lane| 0u32.wrapping_sub((mask >> lane) & 1))
    }

    /// Takes the lanes of `from` where `select` is all ones.
    #[inline(always)]
    pub fn blend(&mut self, from: &Row, select: &Row) {
        for lane in 0..LANES {
            self.0[lane] = (from.0[lane] & select.0[lane]) | (self.0[lane] & !select.0[lane]);
        }
    }

    /// The mask of the lanes whose lowest bit is set.
    #[inline(always)]
    pub fn to_mask(&self) -> Mask {
        let mut mask = 0;
        for lane in 0..LANES {
            mask |= (self.0[lane] & 1) << lane;
        }
        mask
    }
}

/// The lanes of `mask`, lowest first.
#[inline(always)]
pub fn lanes(mask: Mask) -> impl Iterator<Item = usize> {
    let mut rest = mask;
    std::iter::from_fn(move || {
        let lane = rest.trailing_zeros() as usize;
        (lane < LANES).then(|| {
            rest &= rest - 1;
            lane
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn masks_become_rows_and_return() {
        for mask in [0, 1, 0x8000_0000, 0x1234_5678, u32::MAX] {
            let row = Row::of_mask(mask);
            assert_eq!(row.to_mask(), mask);
            assert!(
                row.0.iter().enumerate().all(|(lane, bits)| *bits == if mask >> lane & 1 == 1 { u32::MAX } else { 0 })
            );
            assert_eq!(lanes(mask).fold(0, |all, lane| all | 1 << lane), mask);
        }
    }

    #[test]
    fn a_blend_changes_the_selected_lanes_alone() {
        let mut row = Row::splat(7);
        row.blend(&Row::from_fn(|lane| lane as u32), &Row::of_mask(0x8000_0002));
        assert!(
            row.0
                .iter()
                .enumerate()
                .all(|(lane, value)| *value == if lane == 1 || lane == 31 { lane as u32 } else { 7 })
        );
    }
}
