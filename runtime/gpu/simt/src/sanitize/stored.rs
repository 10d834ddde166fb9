//! A store that is about to be made ([`Pending`]): the bytes before it, to be compared with those
//! after it.

use crate::memory::{Access, Port, RowAccess, Space};
use crate::row::{LANES, Mask, lanes};

/// A store of a row, seen before it was made.
pub(super) struct Pending {
    instruction: u64,
    wave: u32,
    scalar: bool,
    atomic: bool,
    length: u32,
    space: Space,
    addresses: [u64; LANES],
    /// The lanes that store.
    mask: Mask,
    /// Barriers that the wave was at before.
    pub(super) phase: u32,
    /// The lanes whose bytes could be read.
    readable: Mask,
    /// The bytes before, of all lanes.
    before: Vec<u8>,
}

/// Memory as it is now.
pub(super) enum Bytes<'a, 'b> {
    /// Device memory.
    Global(&'a mut Port<'b>),
    /// That of the work-group.
    Group(&'a [u8]),
}

impl Bytes<'_, '_> {
    /// Reads bytes. False if they are not in one allocation, or after the memory of the work-group.
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> bool {
        match self {
            Bytes::Global(port) => read(port, address, bytes),
            Bytes::Group(local) => {
                let start = usize::try_from(address).ok();
                let found = start.and_then(|start| local.get(start..)?.get(..bytes.len()));
                found.map(|found| bytes.copy_from_slice(found)).is_some()
            }
        }
    }
}

/// Reads bytes of device memory. False if they are not in one allocation.
fn read(port: &mut Port<'_>, address: u64, bytes: &mut [u8]) -> bool {
    let mut words = bytes.chunks_exact_mut(4);
    let mut at = address;
    for word in words.by_ref() {
        let Ok([value]) = port.load_words::<1>(at) else { return false };
        word.copy_from_slice(&value.to_le_bytes());
        at += 4;
    }
    for byte in words.into_remainder() {
        let Ok(value) = port.load_u8(at) else { return false };
        *byte = value;
        at += 1;
    }
    true
}

impl Pending {
    /// Whether the bytes before and after an access can be compared: there is a bit for each.
    pub(super) fn is_for(access: &RowAccess<'_>) -> bool {
        access.access == Access::Store && access.length <= u64::BITS
    }

    /// Notes the bytes before a store.
    pub(super) fn new(access: &RowAccess<'_>, (mask, phase): (Mask, u32), mut bytes: Bytes<'_, '_>) -> Pending {
        let length = access.length as usize;
        let mut before = vec![0; LANES * length];
        let mut readable = 0;
        for lane in lanes(mask) {
            if bytes.read(access.addresses[lane], &mut before[lane * length..][..length]) {
                readable |= 1 << lane;
            }
        }
        let RowAccess { instruction, wave, scalar, atomic, length, addresses, space, .. } = *access;
        Pending {
            instruction,
            wave,
            scalar,
            atomic,
            length,
            space,
            addresses: *addresses,
            mask,
            phase,
            readable,
            before,
        }
    }

    /// The store as it was seen.
    pub(super) fn access(&self) -> RowAccess<'_> {
        RowAccess {
            instruction: self.instruction,
            wave: self.wave,
            mask: self.mask,
            scalar: self.scalar,
            addresses: &self.addresses,
            length: self.length,
            access: Access::Store,
            atomic: self.atomic,
            space: self.space,
        }
    }

    /// The wave, if it stores a byte of a range.
    pub(super) fn writer_of(&self, address: u64, length: u32) -> Option<u32> {
        self.first_of(address, length.into()).map(|_| self.wave)
    }

    /// The first lane that stores a byte of a range.
    pub(super) fn first_of(&self, address: u64, length: u64) -> Option<usize> {
        let overlaps = |lane: &usize| {
            let start = self.addresses[*lane];
            start < address.saturating_add(length) && address < start.saturating_add(self.length.into())
        };
        lanes(self.mask).find(overlaps)
    }

    /// The bytes of each lane that changed, by bits, once the store has been made. Bytes that cannot be read may have.
    pub(super) fn changed(&self, mut bytes: Bytes<'_, '_>) -> [u64; LANES] {
        let mut changed = [0; LANES];
        let length = self.length as usize;
        let mut now = vec![0; length];
        for lane in lanes(self.mask) {
            let before = &self.before[lane * length..][..length];
            let is_known = self.readable >> lane & 1 == 1 && bytes.read(self.addresses[lane], &mut now);
            let compared = before.iter().zip(&now).enumerate();
            let differ = compared.filter(|(_, (before, now))| before != now || !is_known).map(|(index, _)| 1 << index);
            changed[lane] = differ.fold(0, |all: u64, bit: u64| all | bit);
        }
        changed
    }
}
