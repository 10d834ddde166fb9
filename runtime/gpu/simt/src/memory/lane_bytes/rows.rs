//! Rows that words of lanes are loaded into.

use crate::row::Row;

/// Rows that words are loaded into.
pub(super) trait Rows {
    fn row(&mut self, index: usize) -> &mut Row;
}

impl<const N: usize> Rows for [Row; N] {
    #[inline(always)]
    fn row(&mut self, index: usize) -> &mut Row {
        &mut self[index]
    }
}

/// Rows of registers by their numbers.
pub(super) struct Picked<'r, const N: usize>(pub(super) &'r mut [Row], pub(super) [u16; N]);

impl<const N: usize> Rows for Picked<'_, N> {
    #[inline(always)]
    fn row(&mut self, index: usize) -> &mut Row {
        &mut self.0[usize::from(self.1[index])]
    }
}
