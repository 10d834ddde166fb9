//! Device memory with checks: allocations ([`Memory`], [`Region`]), and the accesses of a kernel to them ([`Port`]).
//!
//! A port keeps the allocations that it used last, so that most accesses cost two comparisons. Kernels on several cores
//! and the host share memory, so every access is atomic without an order: of a whole word where it is aligned, else of
//! single bytes. An interpreter shows the accesses of an instruction to a sanitizer ([`AccessHook`]) before it makes
//! them, all lanes at once: one branch for a row where there is none.

use std::fmt;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use crate::row::{LANES, Mask};

mod lane_bytes;
mod window;

pub use lane_bytes::{Addresses, LaneBytes, NearLanes};
pub use window::{Window, lanes_in};

/// The kind of an access.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Access {
    /// It reads.
    Load,
    /// It writes.
    Store,
    /// It reads and writes in one step.
    Atomic,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Load => "load",
            Access::Store => "store",
            Access::Atomic => "atomic access",
        })
    }
}

/// An access that was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The first byte.
    pub address: u64,
    /// How many bytes.
    pub length: u32,
    /// The access that did not happen.
    pub access: Access,
    /// The reason.
    pub why: Refusal,
}

/// Why an access was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The bytes are not all in one allocation.
    Unmapped,
    /// The bytes are there, but may only be read.
    ReadOnly,
    /// The address of an atomic access is no multiple of its length.
    Unaligned,
    /// The address is one of another memory, such as that of the work-group.
    OtherSpace,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self.why {
            Refusal::Unmapped => "no allocation",
            Refusal::ReadOnly => "the allocation is read-only",
            Refusal::Unaligned => "it is not aligned",
            Refusal::OtherSpace => "it is an address of another space",
        };
        write!(f, "{} of {} bytes at 0x{:x}: {why}", self.access, self.length, self.address)
    }
}

/// An allocation.
#[derive(Clone, Copy, Debug)]
pub struct Region {
    /// The address of its first byte as kernels see it.
    pub start: u64,
    /// Its length in bytes; zero for no allocation.
    pub length: u64,
    /// The host's address of its first byte.
    pub host: *mut u8,
    /// False if kernels may only read it.
    pub writable: bool,
    /// How many bytes after its end a load may read that begins in it, is aligned to its length, and is no longer than
    /// [`WIDEST`]. Compilers join loads to such a one, as no memory ends inside of it on hardware.
    pub padding: u64,
}

/// Bytes of the longest load that may pass the end of a region into its padding.
pub const WIDEST: u64 = 16;

/// Whether a load of `length` bytes may pass the end of memory that has `room` bytes from its address on.
pub(crate) fn is_widened(address: u64, length: u64, room: u64, padding: u64) -> bool {
    room != 0 && length <= WIDEST && address.is_multiple_of(length) && room.saturating_add(padding) >= length
}

impl Region {
    const NONE: Region = Region { start: 0, length: 0, host: std::ptr::null_mut(), writable: false, padding: 0 };

    /// The host's address of the bytes, if all of them are in the allocation.
    #[inline(always)]
    fn at(&self, address: u64, length: u64) -> Option<*mut u8> {
        let offset = address.wrapping_sub(self.start);
        (offset < self.length && self.length - offset >= length).then(|| self.host.wrapping_add(offset as usize))
    }

    /// The same for a load that may pass the end.
    fn at_padded(&self, address: u64, length: u64) -> Option<*mut u8> {
        let offset = address.wrapping_sub(self.start);
        let room = self.length.saturating_sub(offset);
        is_widened(address, length, room, self.padding).then(|| self.host.wrapping_add(offset as usize))
    }
}

/// The allocations that a kernel may access.
///
/// # Safety
/// A [`Region`] that was returned stays mapped with its padding, readable, and writable if it says so, until the last
/// [`Port`] to this memory is dropped. There are no Rust references to its bytes meanwhile, except to atomics.
pub unsafe trait Memory: Sync {
    /// The allocation that `address` is in.
    fn region(&self, address: u64) -> Option<Region>;
}

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Space {
    /// Device memory.
    Global,
    /// The memory of the work-group.
    Group,
}

/// The accesses of the lanes of a wave by one instruction.
#[derive(Clone, Copy, Debug)]
pub struct RowAccess<'a> {
    /// The address of the instruction.
    pub instruction: u64,
    /// The wave in its work-group.
    pub wave: u32,
    /// The lanes that access something. A scalar instruction has one, and says so in `scalar`.
    pub mask: Mask,
    /// True if the wave as a whole makes one access.
    pub scalar: bool,
    /// The first byte for each lane of the mask: an address, or an offset in the memory of the work-group.
    pub addresses: &'a [u64; LANES],
    /// Bytes of each lane.
    pub length: u32,
    /// The kind of access.
    pub access: Access,
    /// True for a load or store that other work-groups may rely on; atomic accesses always are.
    pub atomic: bool,
    /// Where.
    pub space: Space,
}

/// The hook of a sanitizer for the work-groups of a dispatch.
pub trait AccessHook: Sync {
    /// Follows a work-group from its first instruction on, until the result is dropped.
    fn start_group(&self, group: [u32; 3], local_bytes: u32) -> Box<dyn GroupHook + '_>;
}

/// The hook of a sanitizer for one work-group, whose memory it sees with each call.
pub trait GroupHook {
    /// Sees accesses before they happen. Returns the lanes that may make them; the others read zero and write nothing.
    fn access(&mut self, access: &RowAccess<'_>, local: &[u8]) -> Mask;

    /// A wave has arrived at a barrier. It goes on when all of its work-group that have not ended have arrived.
    fn barrier(&mut self, wave: u32, local: &[u8]);

    /// All waves have ended.
    fn end(&mut self, local: &[u8]);

    /// Lanes of a wave have waited for each other, among `live` ones that have not ended.
    fn met(&mut self, wave: u32, members: Mask, live: Mask, local: &[u8]) {
        let _ = (wave, members, live, local);
    }

    /// A wave has arrived at a barrier with a number, and waits there if it does.
    fn arrived(&mut self, wave: u32, barrier: u8, waits: bool, local: &[u8]) {
        let _ = (barrier, waits);
        self.barrier(wave, local);
    }

    /// As many waves have arrived at a barrier as it expects, of which those go on that wait; of all waves, those that
    /// have ended count.
    fn released(&mut self, barrier: u8, is_of_all: bool) {
        let _ = (barrier, is_of_all);
    }

    /// A wave has ended.
    fn ended(&mut self, wave: u32) {
        let _ = wave;
    }

    /// Two lanes store to the same bytes in one instruction, after [`GroupHook::access`] saw it.
    fn stores_to_one_address(&mut self, access: &RowAccess<'_>, lanes: [usize; 2], is_same_value: bool) {
        let _ = (access, lanes, is_same_value);
    }

    /// Lanes of a wave are at a barrier that needs all of it, and others are elsewhere.
    fn diverges(&mut self, wave: u32, instruction: u64, there: Mask, elsewhere: Mask) {
        let _ = (wave, instruction, there, elsewhere);
    }
}

/// Allocations that a port remembers.
const REMEMBERED: usize = 4;

/// The accesses of one thread to device memory.
pub struct Port<'a> {
    memory: &'a dyn Memory,
    recent: [Region; REMEMBERED],
    next: usize,
}

impl<'a> Port<'a> {
    /// A port to `memory`.
    pub fn new(memory: &'a dyn Memory) -> Self {
        Port { memory, recent: [Region::NONE; REMEMBERED], next: 0 }
    }

    /// The host's address of bytes that may be accessed in this way.
    #[inline(always)]
    fn bytes(&mut self, address: u64, length: u32, access: Access) -> Result<*mut u8, Fault> {
        // Kernels use their operands in turn, so the order stays as it is.
        for known in 0..REMEMBERED {
            let region = &self.recent[known];
            if let Some(host) = region.at(address, u64::from(length))
                && (access == Access::Load || region.writable)
            {
                return Ok(host);
            }
        }
        self.find(address, length, access)
    }

    /// The allocation that has these bytes, if it may be accessed in this way.
    #[inline(always)]
    fn allocation(&mut self, address: u64, length: u32, access: Access) -> Option<Region> {
        for known in 0..REMEMBERED {
            let region = &self.recent[known];
            if region.at(address, u64::from(length)).is_some() && (access == Access::Load || region.writable) {
                return Some(*region);
            }
        }
        self.find(address, length, access).ok()?;
        // A load that passes the end goes the way of single lanes.
        self.recent[0].at(address, u64::from(length)).map(|_| self.recent[0])
    }

    #[inline(never)]
    fn find(&mut self, address: u64, length: u32, access: Access) -> Result<*mut u8, Fault> {
        let fault = |why| Fault { address, length, access, why };
        let known = self.recent.iter().position(|region| region.at(address, u64::from(length)).is_some());
        if let Some(known) = known {
            self.recent.swap(0, known);
        } else {
            let region = self.memory.region(address).ok_or(fault(Refusal::Unmapped))?;
            self.next = self.next % (REMEMBERED - 1) + 1;
            self.recent[self.next] = self.recent[0];
            self.recent[0] = region;
        }
        let region = &self.recent[0];
        let padded = || (access == Access::Load).then(|| region.at_padded(address, u64::from(length))).flatten();
        let host = region.at(address, u64::from(length)).or_else(padded).ok_or(fault(Refusal::Unmapped))?;
        if access != Access::Load && !region.writable {
            return Err(fault(Refusal::ReadOnly));
        }
        Ok(host)
    }

    /// Loads a byte.
    ///
    /// # Errors
    /// If it is in no allocation.
    #[inline(always)]
    pub fn load_u8(&mut self, address: u64) -> Result<u8, Fault> {
        let host = self.bytes(address, 1, Access::Load)?;
        Ok(byte(host))
    }

    /// Loads two bytes.
    ///
    /// # Errors
    /// If they are not in one allocation.
    #[inline(always)]
    pub fn load_u16(&mut self, address: u64) -> Result<u16, Fault> {
        let host = self.bytes(address, 2, Access::Load)?;
        if host.addr().is_multiple_of(2) {
            // SAFETY: `bytes` found an allocation with these bytes, which the owner keeps mapped; they are aligned.
            return Ok(unsafe { AtomicU16::from_ptr(host.cast()) }.load(Ordering::Relaxed));
        }
        Ok(u16::from_le_bytes([byte(host), byte(host.wrapping_add(1))]))
    }

    /// Loads `N` words of four bytes, in ascending order.
    ///
    /// # Errors
    /// If they are not in one allocation.
    #[inline(always)]
    pub fn load_words<const N: usize>(&mut self, address: u64) -> Result<[u32; N], Fault> {
        let host = self.bytes(address, 4 * N as u32, Access::Load)?;
        let mut words = [0; N];
        for (index, word) in words.iter_mut().enumerate() {
            *word = load_word(host.wrapping_add(4 * index));
        }
        Ok(words)
    }

    /// Stores a byte.
    ///
    /// # Errors
    /// If it is in no allocation that can be written.
    #[inline(always)]
    pub fn store_u8(&mut self, address: u64, value: u8) -> Result<(), Fault> {
        let host = self.bytes(address, 1, Access::Store)?;
        set_byte(host, value);
        Ok(())
    }

    /// Stores two bytes.
    ///
    /// # Errors
    /// If they are not in one allocation that can be written.
    #[inline(always)]
    pub fn store_u16(&mut self, address: u64, value: u16) -> Result<(), Fault> {
        let host = self.bytes(address, 2, Access::Store)?;
        store_half(host, value);
        Ok(())
    }

    /// Stores `N` words of four bytes, in ascending order.
    ///
    /// # Errors
    /// If they are not in one allocation that can be written.
    #[inline(always)]
    pub fn store_words<const N: usize>(&mut self, address: u64, words: [u32; N]) -> Result<(), Fault> {
        let host = self.bytes(address, 4 * N as u32, Access::Store)?;
        for (index, word) in words.into_iter().enumerate() {
            store_word(host.wrapping_add(4 * index), word);
        }
        Ok(())
    }

    /// Replaces an aligned word by `change` of it in one step, and returns the old one.
    ///
    /// # Errors
    /// If it is not in an allocation that can be written, or not aligned.
    pub fn atomic_u32(&mut self, address: u64, change: impl Fn(u32) -> u32) -> Result<u32, Fault> {
        let host = self.bytes(address, 4, Access::Atomic)?;
        if !host.addr().is_multiple_of(4) {
            return Err(Fault { address, length: 4, access: Access::Atomic, why: Refusal::Unaligned });
        }
        // SAFETY: `bytes` found an allocation with these bytes, which the owner keeps mapped; the word is aligned.
        let word = unsafe { AtomicU32::from_ptr(host.cast()) };
        let (Ok(old) | Err(old)) = word.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)));
        Ok(old)
    }

    /// Replaces an aligned pair of words by `change` of it in one step, and returns the old one.
    ///
    /// # Errors
    /// If it is not in an allocation that can be written, or not aligned.
    pub fn atomic_u64(&mut self, address: u64, change: impl Fn(u64) -> u64) -> Result<u64, Fault> {
        let host = self.bytes(address, 8, Access::Atomic)?;
        if !host.addr().is_multiple_of(8) {
            return Err(Fault { address, length: 8, access: Access::Atomic, why: Refusal::Unaligned });
        }
        // SAFETY: `bytes` found an allocation with these bytes, which the owner keeps mapped; the pair is aligned.
        let pair = unsafe { AtomicU64::from_ptr(host.cast()) };
        let (Ok(old) | Err(old)) = pair.fetch_update(Ordering::AcqRel, Ordering::Acquire, |old| Some(change(old)));
        Ok(old)
    }
}

/// The functions below are called by a port with addresses that `bytes` returned.
#[inline(always)]
fn byte(host: *mut u8) -> u8 {
    // SAFETY: The byte is in an allocation that its owner keeps mapped.
    unsafe { AtomicU8::from_ptr(host) }.load(Ordering::Relaxed)
}

#[inline(always)]
fn set_byte(host: *mut u8, value: u8) {
    // SAFETY: The bytes are in an allocation that its owner keeps mapped; the allocation can be written.
    unsafe { AtomicU8::from_ptr(host) }.store(value, Ordering::Relaxed);
}

#[inline(always)]
fn store_half(host: *mut u8, value: u16) {
    if host.addr().is_multiple_of(2) {
        // SAFETY: The bytes are in an allocation that its owner keeps mapped; they are aligned; the allocation can be
        // written.
        unsafe { AtomicU16::from_ptr(host.cast()) }.store(value, Ordering::Relaxed);
    } else {
        let [low, high] = value.to_le_bytes();
        set_byte(host, low);
        set_byte(host.wrapping_add(1), high);
    }
}

#[inline(always)]
fn load_word(host: *mut u8) -> u32 {
    if host.addr().is_multiple_of(4) {
        // SAFETY: The bytes are in an allocation that its owner keeps mapped; the word is aligned.
        return unsafe { AtomicU32::from_ptr(host.cast()) }.load(Ordering::Relaxed);
    }
    u32::from_le_bytes([0, 1, 2, 3].map(|index| byte(host.wrapping_add(index))))
}

#[inline(always)]
fn store_word(host: *mut u8, value: u32) {
    if host.addr().is_multiple_of(4) {
        // SAFETY: The bytes are in an allocation that its owner keeps mapped and that can be written; the word is
        // aligned.
        unsafe { AtomicU32::from_ptr(host.cast()) }.store(value, Ordering::Relaxed);
    } else {
        for (index, value) in value.to_le_bytes().into_iter().enumerate() {
            set_byte(host.wrapping_add(index), value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words at an address of their own, the second half of them read-only.
    struct Words(Box<[AtomicU64]>);

    // SAFETY: The words are atomics, and live as long as the value.
    unsafe impl Memory for Words {
        fn region(&self, address: u64) -> Option<Region> {
            let length = self.0.len() as u64 * 4;
            let half = u64::from(address >= 0x1000 + length);
            let start = 0x1000 + half * length;
            let host = self.0.as_ptr().cast::<u8>().cast_mut().wrapping_add((half * length) as usize);
            // The last word of the second half is padding.
            let padding = 4 * half;
            let length = length - padding;
            let region = Region { start, length, host, writable: half == 0, padding };
            region.at(address, 1).map(|_| region)
        }
    }

    fn words(count: usize) -> Words {
        Words((0..count).map(|_| AtomicU64::new(0)).collect())
    }

    #[test]
    fn values_of_all_sizes_are_stored_and_loaded_at_any_address() {
        let memory = words(8);
        let mut port = Port::new(&memory);
        for address in 0x1000..0x1008 {
            port.store_words(address, [0x0403_0201, 0x0807_0605]).unwrap();
            assert_eq!(port.load_words(address), Ok([0x0403_0201, 0x0807_0605]));
            assert_eq!(port.load_u8(address + 7), Ok(8));
            assert_eq!(port.load_u16(address + 1), Ok(0x0302));
            port.store_u16(address + 1, 0xABCD).unwrap();
            port.store_u8(address + 3, 0xEE).unwrap();
            assert_eq!(port.load_words(address), Ok([0xEEAB_CD01]));
        }
    }

    #[test]
    fn bytes_outside_of_an_allocation_are_refused() {
        let memory = words(8);
        let mut port = Port::new(&memory);
        let refused = |address, length, access, why| Fault { address, length, access, why };
        assert_eq!(port.load_u8(0xFFF), Err(refused(0xFFF, 1, Access::Load, Refusal::Unmapped)));
        assert_eq!(port.load_words::<4>(0x1000), Ok([0; 4]));
        assert_eq!(
            port.load_words::<4>(0x1014),
            Err(refused(0x1014, 16, Access::Load, Refusal::Unmapped)),
            "two allocations"
        );
        assert_eq!(port.load_words::<1>(0x1020), Ok([0]));
        assert_eq!(port.store_words(0x1020, [1]), Err(refused(0x1020, 4, Access::Store, Refusal::ReadOnly)));
        assert_eq!(port.store_u8(0x101F, 1), Ok(()));
        assert_eq!(port.load_words::<1>(0x103D), Err(refused(0x103D, 4, Access::Load, Refusal::Unmapped)));
        assert_eq!(port.load_words::<2>(u64::MAX - 3), Err(refused(u64::MAX - 3, 8, Access::Load, Refusal::Unmapped)));
        assert_eq!(port.atomic_u32(0x1002, |old| old), Err(refused(0x1002, 4, Access::Atomic, Refusal::Unaligned)));
    }

    #[test]
    fn an_aligned_load_that_begins_in_an_allocation_may_end_in_its_padding() {
        let memory = words(8);
        let mut port = Port::new(&memory);
        let refused = |address, length, access, why| Fault { address, length, access, why };
        assert_eq!(port.load_words::<4>(0x1030), Ok([0; 4]));
        assert_eq!(port.load_words::<2>(0x1038), Ok([0; 2]));
        assert_eq!(port.load_words::<2>(0x1030), Ok([0; 2]));
        assert_eq!(
            port.load_words::<4>(0x1034),
            Err(refused(0x1034, 16, Access::Load, Refusal::Unmapped)),
            "not aligned"
        );
        assert_eq!(
            port.load_words::<1>(0x103C),
            Err(refused(0x103C, 4, Access::Load, Refusal::Unmapped)),
            "begins in the padding"
        );
        assert_eq!(
            port.load_words::<8>(0x1020),
            Err(refused(0x1020, 32, Access::Load, Refusal::Unmapped)),
            "longer than any instruction"
        );
        assert_eq!(
            port.store_words(0x1038, [0; 2]),
            Err(refused(0x1038, 8, Access::Store, Refusal::Unmapped)),
            "a store"
        );
    }

    #[test]
    fn atomics_return_the_old_value() {
        let memory = words(2);
        let mut port = Port::new(&memory);
        assert_eq!(port.atomic_u32(0x1004, |old| old + 3), Ok(0));
        assert_eq!(port.atomic_u64(0x1000, |old| old | 1), Ok(3 << 32));
        assert_eq!(port.load_words(0x1000), Ok([1, 3]));
    }
}
