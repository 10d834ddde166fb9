//! The accesses of all lanes of a wave by one instruction ([`LaneBytes`]): one check that finds the allocation for all
//! of them, then loads and stores of whole rows.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU16, Ordering};

use self::rows::{Picked, Rows};
use super::{Access, Port, byte, load_word, set_byte, store_word};
use crate::row::{LANES, Row, lanes};

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod avx2;
mod rows;

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

/// The words of one allocation that all lanes of a wave access, as most instructions do: nothing is to be chosen by a
/// mask.
pub struct AllLanes<'a> {
    host: *mut u8,
    offsets: &'a Row,
    length: u32,
    memory: PhantomData<&'a mut u8>,
}

impl AllLanes<'_> {
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

    /// The bytes of `memory` from `base` on at the offsets of all lanes; none if they are not all in it.
    #[inline(always)]
    pub fn of_slice<'a>(memory: &'a mut [u8], base: u32, offsets: &'a Row, length: u32) -> Option<AllLanes<'a>> {
        let (_, highest) = bounds(offsets);
        let end = u64::from(base) + u64::from(highest) + u64::from(length);
        if end > memory.len() as u64 {
            return None;
        }
        let host = memory.as_mut_ptr().wrapping_add(base as usize);
        Some(AllLanes { host, offsets, length, memory: PhantomData })
    }
}

/// The lowest and the highest offset.
#[inline(always)]
fn bounds(offsets: &Row) -> (u32, u32) {
    let (mut lowest, mut highest) = (u32::MAX, 0);
    for lane in 0..LANES {
        lowest = lowest.min(offsets.0[lane]);
        highest = highest.max(offsets.0[lane]);
    }
    (lowest, highest)
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
    /// The bytes at `base` plus the offsets of all lanes; none if they are not all in one allocation that allows the
    /// access.
    #[inline(always)]
    pub fn all_lanes<'s>(
        &'s mut self,
        base: u64,
        offsets: &'s Row,
        length: u32,
        access: Access,
    ) -> Option<AllLanes<'s>> {
        let (lowest, highest) = bounds(offsets);
        let all = (highest - lowest).checked_add(length)?;
        let first = self.bytes(base.wrapping_add(u64::from(lowest)), all, access).ok()?;
        let host = first.wrapping_sub(lowest as usize);
        Some(AllLanes { host, offsets, length, memory: PhantomData })
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

    /// Whether the offsets of all lanes are multiples of a power of two from the host's point of view.
    #[inline(always)]
    fn aligned(&self, to: usize) -> bool {
        let mut bits = 0;
        for lane in 0..LANES {
            bits |= self.offsets.0[lane];
        }
        (self.host.addr() | bits as usize).is_multiple_of(to)
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
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: The processor has AVX2, and the bytes of all lanes are in an allocation that its owner keeps
            // mapped, which was checked when the value was made.
            unsafe { avx2::load_bytes(self.host, &self.offsets, &mut row) };
            return row;
        }
        for lane in 0..LANES {
            row.0[lane] = u32::from(byte(self.at(lane)));
        }
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
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: The processor has AVX2, and the bytes of all lanes are in an allocation that its owner keeps
            // mapped, which was checked when the value was made.
            unsafe { avx2::load_halves(self.host, &self.offsets, &mut row) };
            return row;
        }
        if self.aligned(2) {
            for lane in 0..LANES {
                // SAFETY: The bytes are in an allocation that its owner keeps mapped, which was checked when the value
                // was made; they are aligned.
                let half = unsafe { AtomicU16::from_ptr(self.at(lane).cast()) };
                row.0[lane] = u32::from(half.load(Ordering::Relaxed));
            }
        } else {
            for lane in 0..LANES {
                let (low, high) = (byte(self.at(lane)), byte(self.at(lane).wrapping_add(1)));
                row.0[lane] = u32::from(low) | u32::from(high) << 8;
            }
        }
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
        let aligned = self.aligned(2);
        for lane in lanes(self.select.to_mask()) {
            if aligned {
                // SAFETY: The bytes are in an allocation that its owner keeps mapped, which was checked when the value
                // was made; they are aligned; the allocation can be written.
                let half = unsafe { AtomicU16::from_ptr(self.at(lane).cast()) };
                half.store(row.0[lane] as u16, Ordering::Relaxed);
            } else {
                let [low, high, ..] = row.0[lane].to_le_bytes();
                set_byte(self.at(lane), low);
                set_byte(self.at(lane).wrapping_add(1), high);
            }
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
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if avx2::has_words(N) && is_x86_feature_detected!("avx2") {
            let each = |lane: usize| self.store_lane(rows, lane);
            // SAFETY: The processor has AVX2, and the bytes of all lanes are in an allocation that its owner keeps
            // mapped, which was checked when the value was made; the allocation can be written.
            return unsafe { avx2::store_words(self.host, &self.offsets, &self.select, rows, each) };
        }
        for lane in lanes(self.select.to_mask()) {
            self.store_lane(rows, lane);
        }
    }

    /// Stores the words of a lane.
    #[inline(always)]
    #[expect(
        clippy::needless_range_loop,
        reason = "functions of iterators are not inlined into code for newer processors"
    )]
    fn store_lane<const N: usize>(&self, rows: &[Row; N], lane: usize) {
        for index in 0..N {
            store_word(self.at(lane).wrapping_add(4 * index), rows[index].0[lane]);
        }
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
                let mut rows = vec![Row::ZERO; 9];
                let places = std::array::from_fn(|word| 7 - 2 * word as u16);
                port.all_lanes(START, &offsets, length, Access::Load).unwrap().load_words::<N>(&mut rows, places);
                AllLanes::of_slice(&mut slice[4..], 0, &offsets, length).unwrap();
                let mut within = [Row::ZERO; 9];
                AllLanes::of_slice(&mut slice, 0, &offsets, length).unwrap().load_words::<N>(&mut within, places);
                assert_eq!(rows, within);
                for lane in 0..LANES {
                    assert_eq!(places.map(|place| rows[place as usize].0[lane]), expected(&mut one_by_one, lane));
                }
                let highest = offsets.0.iter().max().unwrap() + length;
                assert!(AllLanes::of_slice(&mut slice, 2048 - highest, &offsets, length).is_some());
                assert!(AllLanes::of_slice(&mut slice, 2049 - highest, &offsets, length).is_none());
                assert!(port.all_lanes(START + 2049 - u64::from(highest), &offsets, length, Access::Load).is_none());
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
}
