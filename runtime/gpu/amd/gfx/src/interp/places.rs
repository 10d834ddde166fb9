//! The bytes that the lanes of an access mean ([`Places`]), and why an access fails.

use vireo_simt::{Fault, LANES, Row, TrapKind};

use crate::machine::{Next, Wave};

/// Why a lane's access fails.
pub(super) enum Refused {
    Fault(Fault),
    Bounds(&'static str),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Refused::Fault(fault)
    }
}

#[cold]
pub(super) fn trapped(wave: &mut Wave, refused: Refused, lane: Option<u32>) -> Next {
    let kind = match refused {
        Refused::Fault(fault) => TrapKind::Memory(fault),
        Refused::Bounds(what) => TrapKind::InvalidOperand(what.into()),
    };
    wave.trapped(kind, lane)
}

/// Where the lanes of an access go.
pub(crate) struct Places {
    /// The offset of each lane from the base.
    pub(super) offsets: Row,
    pub(super) base: u64,
    /// The row with the high words of the offsets, if they differ between lanes.
    pub(super) high: Option<usize>,
    /// All ones in the lanes that access something: those that are active and within bounds.
    pub(crate) select: Row,
}

impl Places {
    /// The places of the active lanes, within bounds: the lane's bytes, and whether it may access them.
    #[inline(always)]
    pub(super) fn within(wave: &Wave, base: u64, mut place: impl FnMut(usize) -> (u32, bool)) -> Self {
        let (mut offsets, mut select) = (Row::ZERO, Row::ZERO);
        for lane in 0..LANES {
            let (offset, inside) = place(lane);
            offsets.0[lane] = offset;
            select.0[lane] = wave.exec_row.0[lane] & 0u32.wrapping_sub(u32::from(inside));
        }
        Places { offsets, base, high: None, select }
    }

    /// The addresses of all lanes.
    pub(crate) fn addresses(&self, rows: &[Row]) -> [u64; LANES] {
        let high = self.high.map_or(&Row::ZERO, |high| &rows[high]);
        let mut addresses = [0; LANES];
        for (lane, address) in addresses.iter_mut().enumerate() {
            let offset = u64::from(self.offsets.0[lane]) | u64::from(high.0[lane]) << 32;
            *address = self.base.wrapping_add(offset);
        }
        addresses
    }
}
