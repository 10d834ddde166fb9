//! Bytes of lanes in all spaces: all lanes at once where that can be, else lane by lane.

use vireo_simt::row::lanes;
use vireo_simt::{Access, Fault, LANES, LaneBytes, Mask, Refusal, Row, TrapKind};

use super::{Addresses, Shape, Space};
use crate::generated::limits::{LOCAL_WINDOW, PARAM_WINDOW, SHARED_WINDOW};
use crate::machine::{Block, Next, Warp};

/// Rows of an access: up to 32 bytes of each lane.
pub(super) type Words = [Row; 8];

/// An access that was refused, in a lane.
pub(super) type Refused = (Fault, usize);

/// Whether an address of global memory is one of shared or local memory.
pub(super) fn is_in_window(address: u64) -> bool {
    [SHARED_WINDOW, LOCAL_WINDOW].iter().any(|window| address >> 24 == window >> 24)
}

/// The lanes of a mask in shared and local memory and parameters, and the other ones, by their generic addresses.
pub(super) fn split(addresses: &Addresses, mask: Mask) -> [(Space, Mask); 4] {
    let (mut shared, mut local, mut param) = (0, 0, 0);
    for lane in lanes(mask) {
        let window = addresses.lane(lane) >> 24;
        shared |= u32::from(window == SHARED_WINDOW >> 24) << lane;
        local |= u32::from(window == LOCAL_WINDOW >> 24) << lane;
        param |= u32::from(window == PARAM_WINDOW >> 24) << lane;
    }
    let rest = mask & !(shared | local | param);
    [(Space::Global, rest), (Space::Shared, shared), (Space::Local, local), (Space::Param, param)]
}

/// Calls `access` for the lanes of each space.
pub(super) fn by_space(
    shape: Shape,
    addresses: &Addresses,
    mask: Mask,
    mut access: impl FnMut(Space, &Addresses, Mask) -> Result<(), Refused>,
) -> Result<(), Refused> {
    if shape.space != Space::Generic {
        return access(shape.space, addresses, mask);
    }
    for (space, mask) in split(addresses, mask) {
        if mask == 0 {
            continue;
        }
        if space == Space::Global {
            access(space, addresses, mask)?;
        } else {
            // The rest of an address in a window is an offset.
            let low = Row::from_fn(|lane| addresses.low.0[lane] & 0xFF_FFFF);
            access(space, &Addresses { low, high: Row::ZERO }, mask)?;
        }
    }
    Ok(())
}

/// The first lane whose address is no multiple of the length.
pub(super) fn misaligned(addresses: &Addresses, mask: Mask, length: u32) -> Option<usize> {
    let mut bits = 0;
    let select = Row::of_mask(mask);
    for lane in 0..LANES {
        bits |= addresses.low.0[lane] & select.0[lane];
    }
    if bits & (length - 1) == 0 {
        return None;
    }
    lanes(mask).find(|lane| addresses.low.0[*lane] & (length - 1) != 0)
}

impl Warp {
    /// The bytes that lanes access, if they can be accessed all at once.
    #[inline(always)]
    fn at_once<'b>(
        local: &'b mut [u8],
        stride: u32,
        block: &'b mut Block<'_>,
        (space, addresses, mask): (Space, &Addresses, Mask),
        length: u32,
        access: Access,
    ) -> Option<LaneBytes<'b>> {
        let select = Row::of_mask(mask);
        match space {
            Space::Global | Space::Generic => {
                let high = addresses.high.0[mask.trailing_zeros() as usize & 31];
                let mut differs = 0;
                for lane in 0..LANES {
                    differs |= (addresses.high.0[lane] ^ high) & select.0[lane];
                }
                if differs != 0 {
                    return None;
                }
                block.port.lanes(u64::from(high) << 32, &addresses.low, &select, length, access)
            }
            Space::Shared => LaneBytes::of_slice(&mut block.shared, &addresses.low, &select, length),
            Space::Local => {
                let mut highest = 0;
                for lane in 0..LANES {
                    highest = highest.max(addresses.low.0[lane] & select.0[lane]);
                }
                if highest.checked_add(length)? > stride {
                    return None;
                }
                let offsets = Row::from_fn(|lane| addresses.low.0[lane].wrapping_add(lane as u32 * stride));
                LaneBytes::of_slice(local, &offsets, &select, length)
            }
            Space::Param => None,
        }
    }

    pub(super) fn load_words(
        &mut self,
        block: &mut Block<'_>,
        at: (Space, &Addresses, Mask),
        length: u32,
        words: &mut Words,
    ) -> Result<(), Refused> {
        let (space, addresses, mask) = at;
        if let Some(lane) = misaligned(addresses, mask, length) {
            return Err((fault(addresses, lane, length, Access::Load, Refusal::Unaligned), lane));
        }
        if length <= 16 && space != Space::Param {
            let stride = self.local_stride;
            if let Some(bytes) = Self::at_once(&mut self.local, stride, block, at, length, Access::Load) {
                let [first, second, third, fourth, ..] = words;
                match length {
                    1 => *first = bytes.load_u8(),
                    2 => *first = bytes.load_u16(),
                    4 => {
                        let mut rows = [*first];
                        bytes.load_words(&mut rows);
                        [*first] = rows;
                    }
                    8 => {
                        let mut rows = [*first, *second];
                        bytes.load_words(&mut rows);
                        [*first, *second] = rows;
                    }
                    _ => {
                        let mut rows = [*first, *second, *third, *fourth];
                        bytes.load_words(&mut rows);
                        [*first, *second, *third, *fourth] = rows;
                    }
                }
                return Ok(());
            }
        }
        let mut bytes = [0; 32];
        for lane in lanes(mask) {
            let bytes = &mut bytes[..length as usize];
            self.load_bytes(block, space, addresses, lane, bytes)?;
            for (word, row) in bytes.chunks(4).zip(words.iter_mut()) {
                let mut four = [0; 4];
                four[..word.len()].copy_from_slice(word);
                row.0[lane] = u32::from_le_bytes(four);
            }
        }
        Ok(())
    }

    /// Loads a value of up to sixteen bytes of each lane of a mask, from any space.
    pub(crate) fn load_element(
        &mut self,
        block: &mut Block<'_>,
        (space, addresses, mask): (Space, &Addresses, Mask),
        length: u32,
        words: &mut Words,
    ) -> Result<(), Refused> {
        let shape = Shape { space, bytes: length, is_signed: false, count: 1, rows: 1, is_short: false };
        by_space(shape, addresses, mask, |space, addresses, mask| {
            let mut loaded = [Row::ZERO; 8];
            self.load_words(block, (space, addresses, mask), length, &mut loaded)?;
            let select = Row::of_mask(mask);
            words.iter_mut().zip(&loaded).for_each(|(word, loaded)| word.blend(loaded, &select));
            Ok(())
        })
    }

    /// Stores one.
    pub(crate) fn store_element(
        &mut self,
        block: &mut Block<'_>,
        (space, addresses, mask): (Space, &Addresses, Mask),
        length: u32,
        words: &Words,
    ) -> Result<(), Refused> {
        let shape = Shape { space, bytes: length, is_signed: false, count: 1, rows: 1, is_short: false };
        by_space(shape, addresses, mask, |space, addresses, mask| {
            self.store_words(block, (space, addresses, mask), length, words)
        })
    }

    /// Loads bytes of one lane.
    pub(crate) fn load_bytes(
        &self,
        block: &mut Block<'_>,
        space: Space,
        addresses: &Addresses,
        lane: usize,
        bytes: &mut [u8],
    ) -> Result<(), Refused> {
        let refused = || (fault(addresses, lane, bytes.len() as u32, Access::Load, Refusal::Unmapped), lane);
        let range = |limit: usize| {
            let start = usize::try_from(addresses.lane(lane)).ok()?;
            let end = start.checked_add(bytes.len()).filter(|end| *end <= limit)?;
            Some(start..end)
        };
        match space {
            Space::Global | Space::Generic => {
                let address = addresses.lane(lane);
                let length = bytes.len();
                // An access is to one allocation, so the last byte is looked at first.
                for (index, byte) in bytes.iter_mut().enumerate().rev() {
                    let loaded = block.port.load_u8(address.wrapping_add(index as u64));
                    *byte = loaded.map_err(|fault| (Fault { address, length: length as u32, ..fault }, lane))?;
                }
            }
            Space::Shared => {
                let range = range(block.shared.len()).ok_or_else(refused)?;
                bytes.copy_from_slice(&block.shared[range]);
            }
            Space::Local => {
                let stride = self.local_stride as usize;
                let range = range(stride).ok_or_else(refused)?;
                bytes.copy_from_slice(&self.local[lane * stride..][range]);
            }
            Space::Param => {
                let range = range(block.params.len()).ok_or_else(refused)?;
                bytes.copy_from_slice(&block.params[range]);
            }
        }
        Ok(())
    }

    /// Stores bytes of one lane.
    pub(crate) fn store_bytes(
        &mut self,
        block: &mut Block<'_>,
        space: Space,
        addresses: &Addresses,
        lane: usize,
        bytes: &[u8],
    ) -> Result<(), Refused> {
        let refused = || (fault(addresses, lane, bytes.len() as u32, Access::Store, Refusal::Unmapped), lane);
        let range = |limit: usize| {
            let start = usize::try_from(addresses.lane(lane)).ok()?;
            let end = start.checked_add(bytes.len()).filter(|end| *end <= limit)?;
            Some(start..end)
        };
        match space {
            Space::Global | Space::Generic => {
                let address = addresses.lane(lane);
                let length = bytes.len() as u32;
                let of = |fault: Fault| (Fault { address, length, ..fault }, lane);
                // Nothing is stored if a byte cannot be.
                for index in 0..u64::from(length) {
                    let old = block
                        .port
                        .load_u8(address.wrapping_add(index))
                        .map_err(|fault| of(Fault { access: Access::Store, ..fault }))?;
                    let _ = old;
                }
                let word = |index: usize| u32::from_le_bytes([0, 1, 2, 3].map(|byte| bytes[index + byte]));
                match length {
                    1 => block.port.store_u8(address, bytes[0]).map_err(of)?,
                    2 => block.port.store_u16(address, u16::from_le_bytes([bytes[0], bytes[1]])).map_err(of)?,
                    _ => {
                        for index in (0..bytes.len() - 3).step_by(4) {
                            let address = address.wrapping_add(index as u64);
                            block.port.store_words(address, [word(index)]).map_err(of)?;
                        }
                    }
                }
            }
            Space::Shared => {
                let range = range(block.shared.len()).ok_or_else(refused)?;
                block.shared[range].copy_from_slice(bytes);
            }
            Space::Local => {
                let stride = self.local_stride as usize;
                let range = range(stride).ok_or_else(refused)?;
                self.local[lane * stride..][range].copy_from_slice(bytes);
            }
            Space::Param => {
                return Err((fault(addresses, lane, bytes.len() as u32, Access::Store, Refusal::ReadOnly), lane));
            }
        }
        Ok(())
    }

    pub(super) fn store_words(
        &mut self,
        block: &mut Block<'_>,
        at: (Space, &Addresses, Mask),
        length: u32,
        words: &Words,
    ) -> Result<(), Refused> {
        let (space, addresses, mask) = at;
        if let Some(lane) = misaligned(addresses, mask, length) {
            return Err((fault(addresses, lane, length, Access::Store, Refusal::Unaligned), lane));
        }
        if length <= 16 && space != Space::Param {
            let stride = self.local_stride;
            if let Some(bytes) = Self::at_once(&mut self.local, stride, block, at, length, Access::Store) {
                let [first, second, third, fourth, ..] = words;
                match length {
                    1 => bytes.store_u8(first),
                    2 => bytes.store_u16(first),
                    4 => bytes.store_words(&[*first]),
                    8 => bytes.store_words(&[*first, *second]),
                    _ => bytes.store_words(&[*first, *second, *third, *fourth]),
                }
                return Ok(());
            }
        }
        for lane in lanes(mask) {
            let mut bytes = [0; 32];
            for (four, row) in bytes.chunks_mut(4).zip(words) {
                four.copy_from_slice(&row.0[lane].to_le_bytes());
            }
            self.store_bytes(block, space, addresses, lane, &bytes[..length as usize])?;
        }
        Ok(())
    }

    pub(crate) fn refused(&mut self, (mut fault, lane): Refused) -> Next {
        if fault.why == Refusal::Unmapped && is_in_window(fault.address) {
            fault.why = Refusal::OtherSpace;
        }
        self.trapped(TrapKind::Memory(fault), Some(lane as u32))
    }
}

pub(crate) fn fault(addresses: &Addresses, lane: usize, length: u32, access: Access, why: Refusal) -> Fault {
    Fault { address: addresses.lane(lane), length, access, why }
}
