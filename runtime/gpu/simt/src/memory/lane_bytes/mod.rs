//! The accesses of all lanes of a wave by one instruction ([`LaneBytes`]): one check that finds the allocation for all
//! of them, then loads and stores of whole rows.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, Ordering};

use self::rows::{Picked, Rows};
use super::{Access, Port, byte, load_word, set_byte, store_half, store_word};
use crate::row::{LANES, Mask, Row, lanes};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2;
mod rows;

/// Loads one byte, or two if `HALVES`, for each lane.
///
/// # Safety
/// The bytes at `host` plus each offset are in an allocation that its owner keeps mapped.
#[inline(always)]
unsafe fn load_small<const HALVES: bool>(host: *mut u8, offsets: &Row, row: &mut Row) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if is_x86_feature_detected!("avx2") {
        // SAFETY: The processor has AVX2, and the caller vouches for the bytes.
        return unsafe {
            if HALVES { avx2::load_halves(host, offsets, row) } else { avx2::load_bytes(host, offsets, row) }
        };
    }
    for lane in 0..LANES {
        let at = host.wrapping_add(offsets.0[lane] as usize);
        row.0[lane] = if !HALVES {
            u32::from(byte(at))
        } else if at.addr().is_multiple_of(2) {
            // SAFETY: The caller vouches for the bytes, which are aligned.
            u32::from(unsafe { AtomicU16::from_ptr(at.cast()) }.load(Ordering::Relaxed))
        } else {
            u32::from(byte(at)) | u32::from(byte(at.wrapping_add(1))) << 8
        };
    }
}

/// Loads `N` words for each lane.
///
/// # Safety
/// The words at `host` plus each offset are in an allocation that its owner keeps mapped.
#[inline(always)]
unsafe fn load_rows<const N: usize, R: Rows>(host: *mut u8, offsets: &Row, rows: &mut R) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx2::has_words(N) && is_x86_feature_detected!("avx2") {
        // SAFETY: The processor has AVX2, and the caller vouches for the words.
        return unsafe { avx2::load_words::<N, _>(host, offsets, rows) };
    }
    for lane in 0..LANES {
        for index in 0..N {
            rows.row(index).0[lane] = load_word(host.wrapping_add(offsets.0[lane] as usize + 4 * index));
        }
    }
}

/// Bytes of one allocation that lanes of a wave access, as most instructions do, found by one test of all lanes.
///
/// Lanes that access nothing have an offset at which there is something, so that loads go one way for all masks.
pub struct NearLanes<'a> {
    host: *mut u8,
    offsets: &'a Row,
    length: u32,
    writable: bool,
    memory: PhantomData<&'a mut u8>,
}

/// The addresses of all lanes, and what they have in common.
#[derive(Clone, Copy)]
pub struct Addresses<'a> {
    /// The low words.
    pub low: &'a Row,
    /// The high words; none if they are zero and do not count.
    pub high: Option<&'a Row>,
    /// A number that is added to each.
    pub offset: i64,
    /// All ones in the lanes of the mask, zero in the others.
    pub select: &'a Row,
    /// The lanes that access something, at least one.
    pub mask: Mask,
}

impl Addresses<'_> {
    /// The address of the first lane of the mask, and what all have in common with it.
    #[inline(always)]
    fn lead(&self) -> (u64, u64) {
        let lead = self.mask.trailing_zeros() as usize & 31;
        let high = self.high.map_or(0, |high| u64::from(high.0[lead]) << 32);
        let base = high.wrapping_add(self.offset as u64);
        (base.wrapping_add(u64::from(self.low.0[lead])), base)
    }

    /// Tests whether each lane of the mask accesses `length` bytes, a power of two of which its address is a multiple,
    /// of `size` bytes from `start` on, where the bytes of the first lane are. Returns from where `offsets` count.
    ///
    /// All conditions are joined before they are tested: vectors of lanes are compared, and one branch follows.
    #[inline(always)]
    fn test(&self, (start, size): (u64, u64), length: u32, offsets: &mut Row) -> Option<u64> {
        let (_, base) = self.lead();
        let last = size - u64::from(length);
        let ahead = base.wrapping_sub(start);
        // Offsets count from the base if that is in the allocation, else from the start.
        let (from, behind, limit) = if ahead as i64 >= 0 {
            (ahead, 0, last.checked_sub(ahead)?)
        } else {
            let behind = u32::try_from(ahead.wrapping_neg()).ok()?;
            (0, behind, last.min(u64::from(u32::MAX - behind)))
        };
        let limit = limit.min(u32::MAX.into()) as u32;
        let mut refused = 0;
        if self.mask == Mask::MAX {
            for lane in 0..LANES {
                let offset = self.low.0[lane].wrapping_sub(behind);
                offsets.0[lane] = offset;
                refused |= u32::from(offset > limit) | (self.low.0[lane] & (length - 1));
            }
        } else {
            for lane in 0..LANES {
                let offset = self.low.0[lane].wrapping_sub(behind);
                offsets.0[lane] = offset & self.select.0[lane];
                refused |= (u32::from(offset > limit) | (self.low.0[lane] & (length - 1))) & self.select.0[lane];
            }
        }
        if let Some(high) = self.high {
            let of_lead = high.0[self.mask.trailing_zeros() as usize & 31];
            for lane in 0..LANES {
                refused |= (high.0[lane] ^ of_lead) & self.select.0[lane];
            }
        }
        (refused == 0 && self.offset as u32 & (length - 1) == 0).then_some(from)
    }
}

impl<'a> NearLanes<'a> {
    /// The bytes of `memory`, whose addresses begin with zero; none if they are not all in it and aligned.
    #[inline(always)]
    pub fn of_slice(
        memory: &'a mut [u8],
        addresses: Addresses<'_>,
        length: u32,
        offsets: &'a mut Row,
    ) -> Option<NearLanes<'a>> {
        let (size, (first, _)) = (memory.len() as u64, addresses.lead());
        if first >= size || size - first < u64::from(length) {
            return None;
        }
        let from = addresses.test((0, size), length, offsets)?;
        let host = memory.as_mut_ptr().wrapping_add(from as usize);
        Some(NearLanes { host, offsets, length, writable: true, memory: PhantomData })
    }

    /// Loads `N` words of four bytes for each lane, each into a row of `rows`.
    ///
    /// # Panics
    /// If the lanes do not access `N` words, or there are no such rows.
    #[inline(always)]
    pub fn load_words<const N: usize>(&self, rows: &mut [Row], places: [u16; N]) {
        assert!(self.length as usize == 4 * N, "lanes access words");
        // SAFETY: The words of all lanes are in an allocation that its owner keeps mapped, which was checked when the
        // value was made.
        unsafe { load_rows::<N, _>(self.host, self.offsets, &mut Picked(rows, places)) };
    }

    /// Loads a byte, or two if `HALVES`, for each lane.
    ///
    /// # Panics
    /// If the lanes do not access so many bytes.
    #[inline(always)]
    pub fn load_small<const HALVES: bool>(&self, row: &mut Row) {
        assert!(self.length == 1 + u32::from(HALVES), "lanes access bytes or halves");
        // SAFETY: The bytes of all lanes are in an allocation that its owner keeps mapped, which was checked when the
        // value was made.
        unsafe { load_small::<HALVES>(self.host, self.offsets, row) };
    }

    /// Stores `N` words of four bytes of each lane in `select`, each from a row of `rows`. Of lanes that store to the
    /// same place, the last one wins.
    ///
    /// # Panics
    /// If the lanes do not store `N` words, or there are no such rows.
    #[inline(always)]
    pub fn store_words<const N: usize>(&self, rows: &[Row], places: [u16; N], select: &Row) {
        assert!(self.writable && self.length as usize == 4 * N, "lanes store words");
        // SAFETY: The words of all lanes are in an allocation that its owner keeps mapped, which was checked when the
        // value was made; the allocation can be written.
        unsafe { store_rows::<N>(self.host, self.offsets, select, |word| &rows[usize::from(places[word])]) };
    }

    /// Stores the low byte, or two if `HALVES`, of each lane in `mask`.
    ///
    /// # Panics
    /// If the lanes do not store so many bytes.
    #[inline(always)]
    pub fn store_small<const HALVES: bool>(&self, row: &Row, mask: Mask) {
        assert!(self.writable && self.length == 1 + u32::from(HALVES), "lanes store bytes or halves");
        for lane in lanes(mask) {
            let at = self.host.wrapping_add(self.offsets.0[lane] as usize);
            if HALVES { store_half(at, row.0[lane] as u16) } else { set_byte(at, row.0[lane] as u8) }
        }
    }
}

/// Stores `N` words of each lane in `select`.
///
/// # Safety
/// The words at `host` plus each offset are in an allocation that its owner keeps mapped, and that can be written.
#[inline(always)]
unsafe fn store_rows<'r, const N: usize>(
    host: *mut u8,
    offsets: &Row,
    select: &Row,
    row: impl Fn(usize) -> &'r Row + Copy,
) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if avx2::has_words(N) && is_x86_feature_detected!("avx2") {
        // SAFETY: The processor has AVX2, and the caller vouches for the words.
        return unsafe { avx2::store_words::<N>(host, offsets, select, row) };
    }
    for lane in lanes(select.to_mask()) {
        let at = host.wrapping_add(offsets.0[lane] as usize);
        for word in 0..N {
            store_word(at.wrapping_add(4 * word), row(word).0[lane]);
        }
    }
}

/// Bytes of one allocation that the lanes of a wave access, each `length` bytes from an offset of its own on.
pub struct LaneBytes<'a> {
    /// Where an offset of zero would be, which may be outside of the allocation.
    host: *mut u8,
    /// The offsets; those of lanes that access nothing are the lowest of the others.
    offsets: Row,
    /// All ones in the lanes that access something.
    select: Row,
    length: u32,
    writable: bool,
    memory: PhantomData<&'a mut u8>,
}

/// The offsets with the lowest one in lanes that access nothing, that one, and the highest one. The lowest one is
/// higher if no lane accesses anything.
#[inline(always)]
fn extent(offsets: &Row, select: &Row) -> (Row, u32, u32) {
    let (mut lowest, mut highest) = (u32::MAX, 0);
    for lane in 0..LANES {
        lowest = lowest.min(offsets.0[lane] | !select.0[lane]);
        highest = highest.max(offsets.0[lane] & select.0[lane]);
    }
    let mut all = Row::splat(lowest);
    all.blend(offsets, select);
    (all, lowest, highest)
}

impl Port<'_> {
    /// The bytes of lanes that are all in one allocation that allows the access, and aligned; none else.
    #[inline(always)]
    pub fn near_lanes<'s>(
        &'s mut self,
        addresses: Addresses<'_>,
        length: u32,
        access: Access,
        offsets: &'s mut Row,
    ) -> Option<NearLanes<'s>> {
        let (first, _) = addresses.lead();
        let region = self.allocation(first, length, access)?;
        let from = addresses.test((region.start, region.length), length, offsets)?;
        let host = region.host.wrapping_add(from as usize);
        Some(NearLanes { host, offsets, length, writable: access != Access::Load, memory: PhantomData })
    }

    /// The bytes at `base` plus the offsets of the lanes in `select`, which is all ones or zero; none if they are not
    /// all in one allocation that allows the access, or if there is no such lane.
    #[inline(always)]
    pub fn lanes(
        &mut self,
        base: u64,
        offsets: &Row,
        select: &Row,
        length: u32,
        access: Access,
    ) -> Option<LaneBytes<'_>> {
        let (offsets, lowest, highest) = extent(offsets, select);
        let all = highest.checked_sub(lowest)?.checked_add(length)?;
        let first = self.bytes(base.wrapping_add(u64::from(lowest)), all, access).ok()?;
        let host = first.wrapping_sub(lowest as usize);
        let writable = access != Access::Load;
        Some(LaneBytes { host, offsets, select: *select, length, writable, memory: PhantomData })
    }
}

impl<'a> LaneBytes<'a> {
    /// The bytes of `memory` at the offsets of the lanes in `select`, which is all ones or zero; none if they are not
    /// all in it, or if there is no such lane.
    #[inline(always)]
    pub fn of_slice(memory: &'a mut [u8], offsets: &Row, select: &Row, length: u32) -> Option<Self> {
        let (offsets, lowest, highest) = extent(offsets, select);
        let end = u64::from(highest) + u64::from(length);
        if lowest > highest || end > memory.len() as u64 {
            return None;
        }
        let host = memory.as_mut_ptr();
        Some(LaneBytes { host, offsets, select: *select, length, writable: true, memory: PhantomData })
    }

    #[inline(always)]
    fn at(&self, lane: usize) -> *mut u8 {
        self.host.wrapping_add(self.offsets.0[lane] as usize)
    }

    /// Whether each lane accesses something.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        let mut all = u32::MAX;
        for lane in 0..LANES {
            all &= self.select.0[lane];
        }
        all == u32::MAX
    }

    /// Loads a byte for each lane. What lanes that access nothing get is not specified, here and below.
    ///
    /// # Panics
    /// If the lanes do not access bytes.
    #[inline(always)]
    pub fn load_u8(&self) -> Row {
        assert!(self.length == 1, "lanes access bytes");
        let mut row = Row::ZERO;
        // SAFETY: The bytes of all lanes are in an allocation that its owner keeps mapped, which was checked when the
        // value was made.
        unsafe { load_small::<false>(self.host, &self.offsets, &mut row) };
        row
    }

    /// Loads two bytes for each lane.
    ///
    /// # Panics
    /// If the lanes do not access two bytes.
    #[inline(always)]
    pub fn load_u16(&self) -> Row {
        assert!(self.length == 2, "lanes access two bytes");
        let mut row = Row::ZERO;
        // SAFETY: The bytes of all lanes are in an allocation that its owner keeps mapped, which was checked when the
        // value was made.
        unsafe { load_small::<true>(self.host, &self.offsets, &mut row) };
        row
    }

    /// Loads `N` words of four bytes for each lane, each into a row of its own.
    ///
    /// # Panics
    /// If the lanes do not access `N` words.
    #[inline(always)]
    pub fn load_words<const N: usize>(&self, rows: &mut [Row; N]) {
        assert!(self.length as usize == 4 * N, "lanes access words");
        // SAFETY: The words of all lanes are in an allocation that its owner keeps mapped, which was checked when the
        // value was made.
        unsafe { load_rows::<N, _>(self.host, &self.offsets, rows) };
    }

    /// Stores the low byte of each lane.
    ///
    /// # Panics
    /// If the lanes do not store bytes.
    pub fn store_u8(&self, row: &Row) {
        assert!(self.writable && self.length == 1, "lanes store bytes");
        for lane in lanes(self.select.to_mask()) {
            set_byte(self.at(lane), row.0[lane] as u8);
        }
    }

    /// Stores the low two bytes of each lane.
    ///
    /// # Panics
    /// If the lanes do not store two bytes.
    pub fn store_u16(&self, row: &Row) {
        assert!(self.writable && self.length == 2, "lanes store two bytes");
        for lane in lanes(self.select.to_mask()) {
            store_half(self.at(lane), row.0[lane] as u16);
        }
    }

    /// Stores `N` words of four bytes of each lane, each from a row of its own. Of lanes that store to the same place,
    /// the last one wins.
    ///
    /// # Panics
    /// If the lanes do not store `N` words.
    #[inline(always)]
    pub fn store_words<const N: usize>(&self, rows: &[Row; N]) {
        assert!(self.writable && self.length as usize == 4 * N, "lanes store words");
        // SAFETY: The words of all lanes are in an allocation that its owner keeps mapped, which was checked when the
        // value was made; the allocation can be written.
        unsafe { store_rows::<N>(self.host, &self.offsets, &self.select, |word| &rows[word]) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::memory::{Memory, Region};
    use crate::row::Mask;
    use std::sync::atomic::AtomicU8;

    /// Bytes at an address of their own, and another allocation after them.
    struct Bytes(Vec<AtomicU8>);

    const START: u64 = 0xFFFF_FF00;

    // SAFETY: The bytes are atomics, and live as long as the value.
    unsafe impl Memory for Bytes {
        fn region(&self, address: u64) -> Option<Region> {
            let (length, host) = (self.0.len() as u64 / 2, self.0.as_ptr().cast::<u8>().cast_mut());
            let first = Region { start: START, length, host, writable: true, padding: 0 };
            let start = START + length;
            let second = Region { start, host: host.wrapping_add(length as usize), writable: false, ..first };
            [first, second].into_iter().find(|region| address.wrapping_sub(region.start) < length)
        }
    }

    fn bytes() -> Bytes {
        Bytes((0..4096u32).map(|at| AtomicU8::new((at * 37 % 251) as u8)).collect())
    }

    /// Offsets of many kinds below 2048 - 16, and masks.
    fn cases() -> impl Iterator<Item = (Row, Mask)> {
        let scattered = |step: u32| Row::from_fn(|lane| (lane as u32 * 7919 + 13) % 127 * step);
        let rows = [
            Row::from_fn(|lane| 4 * lane as u32),
            Row::from_fn(|lane| 64 + 4 * lane as u32),
            Row::from_fn(|lane| 16 * lane as u32),
            Row::from_fn(|lane| 500 - 4 * lane as u32),
            Row::splat(20),
            // Four lanes after each other load the same, or all but one do.
            Row::from_fn(|lane| 48 * (lane as u32 / 4)),
            Row::from_fn(|lane| 48 * (lane as u32 / 4) + u32::from(lane == 30)),
            Row::from_fn(|lane| 16 * (lane as u32 / 8)),
            scattered(16),
            scattered(4),
            scattered(3),
            Row::from_fn(|lane| 4 * (lane as u32 / 2)),
            Row::from_fn(|lane| 40 + 4 * (lane as u32 % 16)),
            Row::from_fn(|lane| 41 + 2 * (lane as u32 % 16)),
            Row::from_fn(|lane| 42 + lane as u32),
        ];
        rows.into_iter().flat_map(|row| [u32::MAX, 0x8000_0001, 0x0FF0_0FF0, 1].map(|mask| (row, mask)))
    }

    fn check_words<const N: usize>() {
        for (offsets, mask) in cases() {
            let select = Row::of_mask(mask);
            let (memory, other, mut slice) = (bytes(), bytes(), [0; 2048]);
            for (byte, from) in slice.iter_mut().zip(&memory.0) {
                *byte = from.load(Ordering::Relaxed);
            }
            let mut one_by_one = Port::new(&other);
            let values: [Row; N] = std::array::from_fn(|index| Row::from_fn(|lane| (lane * 1000 + index) as u32));
            let length = 4 * N as u32;
            let expected = |port: &mut Port<'_>, lane: usize| -> [u32; N] {
                port.load_words(START + u64::from(offsets.0[lane])).unwrap()
            };
            let check = |bytes: &LaneBytes<'_>, one_by_one: &mut Port<'_>| {
                let mut rows = [Row::ZERO; N];
                bytes.load_words(&mut rows);
                for lane in lanes(mask) {
                    assert_eq!(rows.map(|row| row.0[lane]), expected(one_by_one, lane), "{offsets:?} {mask:x}");
                }
                bytes.store_words(&values);
            };
            let mut port = Port::new(&memory);
            if mask == u32::MAX {
                let (mut rows, mut within) = (vec![Row::ZERO; 9], vec![Row::ZERO; 9]);
                let places = std::array::from_fn(|word| 7 - 2 * word as u16);
                // Aligned accesses alone go this way.
                let aligned = Row::from_fn(|lane| offsets.0[lane] & !(length.next_power_of_two() - 1));
                let at = Addresses { low: &aligned, high: None, offset: 0, select: &select, mask };
                if N != 3 {
                    let mut found = Row::ZERO;
                    let found = &mut found;
                    NearLanes::of_slice(&mut slice, at, length, found).unwrap().load_words::<N>(&mut within, places);
                    for lane in 0..LANES {
                        let loaded = one_by_one.load_words(START + u64::from(aligned.0[lane])).unwrap();
                        assert_eq!(places.map(|place| within[place as usize].0[lane]), loaded);
                    }
                    let (low, high) = (Row::from_fn(|lane| aligned.0[lane].wrapping_add(START as u32)), Row::ZERO);
                    let straight = low.0.iter().all(|low| *low >= START as u32);
                    let at = Addresses { low: &low, high: Some(&high), ..at };
                    if straight {
                        let bytes = port.near_lanes(at, length, Access::Load, found).unwrap();
                        bytes.load_words::<N>(&mut rows, places);
                        assert_eq!(rows, within);
                    }
                }
            }
            check(&port.lanes(START, &offsets, &select, length, Access::Store).unwrap(), &mut one_by_one);
            check(&LaneBytes::of_slice(&mut slice, &offsets, &select, length).unwrap(), &mut one_by_one);
            for lane in lanes(mask) {
                one_by_one.store_words(START + u64::from(offsets.0[lane]), values.map(|row| row.0[lane])).unwrap();
            }
            let value = |byte: &AtomicU8| byte.load(Ordering::Relaxed);
            for ((a, b), c) in memory.0.iter().zip(&other.0).zip(slice) {
                assert_eq!([value(a), c], [value(b); 2], "{offsets:?} {mask:x}");
            }
        }
    }

    #[test]
    fn words_of_lanes_are_those_of_single_accesses() {
        check_words::<1>();
        check_words::<2>();
        check_words::<3>();
        check_words::<4>();
    }

    #[test]
    fn bytes_and_halves_of_lanes_are_those_of_single_accesses() {
        for (offsets, mask) in cases() {
            let (memory, select) = (bytes(), Row::of_mask(mask));
            let (mut port, mut single) = (Port::new(&memory), Port::new(&memory));
            let row = port.lanes(START, &offsets, &select, 1, Access::Load).unwrap().load_u8();
            let halves = port.lanes(START, &offsets, &select, 2, Access::Load).unwrap().load_u16();
            for lane in lanes(mask) {
                let address = START + u64::from(offsets.0[lane]);
                assert_eq!(row.0[lane], u32::from(single.load_u8(address).unwrap()));
                assert_eq!(halves.0[lane], u32::from(single.load_u16(address).unwrap()));
            }
            let values = Row::from_fn(|lane| 0x07CD_0101 * lane as u32);
            // Of lanes that store to one place, the last one wins, so each is compared with the last one there.
            let last = |lane: usize| lanes(mask).filter(|other| offsets.0[*other] == offsets.0[lane]).last().unwrap();
            port.lanes(START, &offsets, &select, 1, Access::Store).unwrap().store_u8(&values);
            for lane in lanes(mask) {
                let address = START + u64::from(offsets.0[lane]);
                assert_eq!(single.load_u8(address), Ok(values.0[last(lane)] as u8));
            }
            port.lanes(START, &offsets, &select, 2, Access::Store).unwrap().store_u16(&values);
            let lane = lanes(mask).last().unwrap();
            assert_eq!(single.load_u16(START + u64::from(offsets.0[lane])), Ok(values.0[lane] as u16));
        }
    }

    #[test]
    fn bytes_outside_of_an_allocation_are_refused_for_all_lanes() {
        let memory = bytes();
        let mut port = Port::new(&memory);
        let mut found = |base: u64, offsets: [u32; 2], mask: u32, access| {
            let offsets = Row::from_fn(|lane| offsets[lane % 2]);
            port.lanes(base, &offsets, &Row::of_mask(mask), 4, access).is_some()
        };
        assert!(found(START, [0, 2044], u32::MAX, Access::Store));
        assert!(!found(START, [0, 2045], u32::MAX, Access::Store), "two allocations");
        assert!(found(START, [0, 2045], 0x5555_5555, Access::Store), "the lanes outside access nothing");
        assert!(!found(START, [2048, 2100], u32::MAX, Access::Store), "read-only");
        assert!(found(START, [2048, 2100], u32::MAX, Access::Load));
        assert!(!found(START, [4000, 4093], u32::MAX, Access::Load), "after the last one");
        assert!(found(START.wrapping_sub(16), [16, 20], u32::MAX, Access::Load), "the base may be outside");
        assert!(!found(START, [0, 0], 0, Access::Load), "no lane");
        assert!(!found(START, [0, u32::MAX], u32::MAX, Access::Load), "nearly all addresses");
        let mut slice = [0; 64];
        let mut within = |offset, mask| {
            let row = Row::from_fn(|lane| if lane == 3 { offset } else { 8 });
            LaneBytes::of_slice(&mut slice, &row, &Row::of_mask(mask), 4).is_some()
        };
        assert!(
            within(60, u32::MAX) && !within(61, u32::MAX) && within(61, 7) && !within(u32::MAX, 8) && !within(0, 0)
        );
    }

    #[test]
    fn lanes_near_each_other_are_told_by_one_test() {
        let mut state = 0x5EED_u64;
        let mut draw = |limit: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % limit
        };
        let memory = bytes();
        let (mut port, mut single) = (Port::new(&memory), Port::new(&memory));
        let (mut found, mut refused) = (0, 0);
        for round in 0..20_000 {
            let length = 1 << draw(5);
            let mask = if draw(3) == 0 { u32::MAX } else { (draw(1 << 31) as u32) << draw(2) | 1 << draw(32) };
            // Ends of the allocation, of which the second half is read-only, and of the low words.
            let center = [START, START + 2048, START + 4096, 1 << 32][draw(4) as usize];
            let (spread, step) = ([8, 64, 600][draw(3) as usize], [1, length, 16][draw(3) as usize]);
            let offset = [0, 16, -16, 4, -3, 1 << 33, i64::from(i32::MIN)][draw(7) as usize];
            let first = (center.wrapping_sub(offset as u64) + draw(64)) & !(length.max(step) - 1);
            let all: [u64; LANES] =
                std::array::from_fn(|_| first.wrapping_add((draw(spread) * step).wrapping_sub(spread * step / 2)));
            let (low, high) = (Row::from_fn(|lane| all[lane] as u32), Row::from_fn(|lane| (all[lane] >> 32) as u32));
            let (select, access) = (Row::of_mask(mask), [Access::Load, Access::Store][draw(2) as usize]);
            let at = Addresses { low: &low, high: Some(&high), offset, select: &select, mask };
            let lead = mask.trailing_zeros() as usize;
            let address = |lane: usize| all[lane].wrapping_add(offset as u64);
            let region = memory.region(address(lead));
            let holds = |lane: usize| {
                region.is_some_and(|region| {
                    let at = address(lane).wrapping_sub(region.start);
                    at < region.length && region.length - at >= length && (access == Access::Load || region.writable)
                })
            };
            let expected = lanes(mask).all(|lane| {
                holds(lane)
                    && all[lane].is_multiple_of(length)
                    && (offset as u64).is_multiple_of(length)
                    && high.0[lane] == high.0[lead]
            });
            let mut offsets = Row::ZERO;
            let near = port.near_lanes(at, length as u32, access, &mut offsets);
            assert_eq!(near.is_some(), expected, "round {round}: {at:x?} of {length}", at = all);
            let Some(near) = near else {
                refused += 1;
                continue;
            };
            found += 1;
            let mut row = Row::ZERO;
            match (length, access) {
                (1, Access::Load) => near.load_small::<false>(&mut row),
                (2, Access::Load) => near.load_small::<true>(&mut row),
                (4, Access::Load) => near.load_words::<1>(std::slice::from_mut(&mut row), [0]),
                _ => continue,
            }
            for lane in lanes(mask) {
                let expected = match length {
                    1 => single.load_u8(address(lane)).unwrap().into(),
                    2 => single.load_u16(address(lane)).unwrap().into(),
                    _ => single.load_words::<1>(address(lane)).unwrap()[0],
                };
                assert_eq!(row.0[lane], expected, "round {round}, lane {lane}");
            }
        }
        assert!(found > 1000 && refused > 1000, "{found} {refused}");
    }
}
