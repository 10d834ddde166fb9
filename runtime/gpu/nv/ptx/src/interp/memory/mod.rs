//! Loads and stores: the lanes of a path access global, shared, local or parameter memory, each at its own address.
//!
//! An access is checked for its natural alignment and its bounds for all lanes at once; if that fails, lane by lane, so
//! that a trap names the lane.

use vireo_simt::{Access, LANES, Mask, NearLanes, Row};

mod bytes;
mod copies;
mod watch;

pub(crate) use bytes::fault;
use bytes::{Words, by_space};
pub(crate) use copies::{copy_local, copy_to_shared};
use watch::watched;
pub(crate) use watch::{VOLATILE, shown};

use crate::machine::{Block, Inst, NONE, Next, Warp};

/// Where an access goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Space {
    Global,
    Shared,
    Local,
    Param,
    /// Where the address of each lane says.
    Generic,
}

/// The kind of an access, packed in the number of an instruction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    pub(crate) space: Space,
    /// Bytes of a value, a power of two up to 16.
    pub(crate) bytes: u32,
    /// Whether a smaller value than its register is extended with its sign.
    pub(crate) is_signed: bool,
    /// Values: 1, 2, 4 or 8.
    pub(crate) count: u32,
    /// Rows of each register.
    pub(crate) rows: u32,
    /// Whether addresses have one row.
    pub(crate) is_short: bool,
}

const SPACES: [Space; 5] = [Space::Global, Space::Shared, Space::Local, Space::Param, Space::Generic];

impl Shape {
    pub(crate) fn number(self) -> u32 {
        let space = SPACES.iter().position(|space| *space == self.space).unwrap_or(0) as u32;
        space
            | self.bytes.trailing_zeros() << 3
            | u32::from(self.is_signed) << 6
            | self.count.trailing_zeros() << 7
            | self.rows.trailing_zeros() << 9
            | u32::from(self.is_short) << 11
    }

    #[inline(always)]
    pub(crate) fn of(number: u32) -> Self {
        Shape {
            space: SPACES[(number as usize & 7) % 5],
            bytes: 1 << (number >> 3 & 7),
            is_signed: number >> 6 & 1 != 0,
            count: 1 << (number >> 7 & 3),
            rows: 1 << (number >> 9 & 3),
            is_short: number >> 11 & 1 != 0,
        }
    }
}

/// The addresses of all lanes.
#[derive(Clone, Copy)]
pub(crate) struct Addresses {
    pub(crate) low: Row,
    pub(crate) high: Row,
}

impl Addresses {
    /// Those of an instruction: a row or two plus its offset.
    #[inline(always)]
    pub(crate) fn of(warp: &Warp, inst: &Inst, is_short: bool) -> Self {
        Self::at(warp, inst.sources[0], inst.offset, is_short)
    }

    #[inline(always)]
    pub(crate) fn at(warp: &Warp, source: u16, offset: i64, is_short: bool) -> Self {
        let (low, high) = (offset as u32, (offset >> 32) as u32);
        if source == NONE {
            return Addresses { low: Row::splat(low), high: Row::splat(high) };
        }
        let first = usize::from(source);
        if is_short {
            let row = &warp.rows[first];
            return Addresses { low: Row::from_fn(|lane| row.0[lane].wrapping_add(low)), high: Row::ZERO };
        }
        let (a, b) = (&warp.rows[first], &warp.rows[first + 1]);
        let mut sum = Addresses { low: Row::ZERO, high: Row::ZERO };
        for lane in 0..LANES {
            let total = a.0[lane].wrapping_add(low);
            let carry = u32::from(total < low);
            sum.low.0[lane] = total;
            sum.high.0[lane] = b.0[lane].wrapping_add(high).wrapping_add(carry);
        }
        sum
    }

    pub(crate) fn lane(&self, lane: usize) -> u64 {
        u64::from(self.low.0[lane]) | u64::from(self.high.0[lane]) << 32
    }
}

/// The rows of the registers of an instruction.
#[inline(always)]
pub(crate) fn list<'b>(block: &Block<'b>, inst: &Inst, count: usize) -> &'b [u16] {
    let first = usize::from(inst.sources[2]) | usize::from(inst.sources[3]) << 16;
    &block.program.lists[first..first + count]
}

/// The `LENGTH` bytes, a power of two, that each lane of a path accesses, by the usual way: addresses in one
/// allocation, aligned, and with equal upper halves. None where something is unusual.
#[inline(always)]
fn usual<'b, const LENGTH: u32>(
    warp: &Warp,
    block: &'b mut Block<'_>,
    inst: &Inst,
    shape: Shape,
    access: Access,
    offsets: &'b mut Row,
) -> Option<NearLanes<'b>> {
    if inst.sources[0] == NONE {
        return None;
    }
    let first = usize::from(inst.sources[0]);
    let (low, select, mask) = (&warp.rows[first], &warp.select, warp.mask);
    let at = vireo_simt::Addresses { low, high: None, offset: inst.offset, select, mask };
    match shape.space {
        Space::Global => {
            let at = vireo_simt::Addresses { high: Some(&warp.rows[first + 1]), ..at };
            block.port.near_lanes(at, LENGTH, access, offsets)
        }
        Space::Shared => NearLanes::of_slice(&mut block.shared, at, LENGTH, offsets),
        _ => None,
    }
}

/// The row of a word of an access to whole words or one small value.
#[inline(always)]
fn row_of(list: &[u16], shape: Shape, word: usize) -> u16 {
    match shape.bytes {
        8 => list[word / 2].wrapping_add((word % 2) as u16),
        _ => list[word],
    }
}

/// Loads by the usual way: `LENGTH` bytes for each lane, as `N` words or as a small value. Returns whether that was
/// possible.
#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "functions of iterators are not inlined into code for newer processors")]
fn load_usual<const N: usize, const LENGTH: u32>(
    warp: &mut Warp,
    block: &mut Block<'_>,
    inst: &Inst,
    shape: Shape,
) -> bool {
    let list = list(block, inst, shape.count as usize);
    let (mut places, mut all) = ([0; N], true);
    for word in 0..N {
        // A result that is not wanted has no row.
        all &= list[word * 4 / shape.bytes.max(4) as usize] != NONE;
        places[word] = row_of(list, shape, word);
    }
    let mut offsets = Row::ZERO;
    let bytes = usual::<LENGTH>(warp, block, inst, shape, Access::Load, &mut offsets);
    let Some(bytes) = bytes else { return false };
    if LENGTH >= 4 && warp.mask == Mask::MAX && all {
        bytes.load_words::<N>(&mut warp.rows, places);
        return true;
    }
    let mut rows = [Row::ZERO; N];
    if LENGTH >= 4 {
        let mut words = [0; N];
        for word in 0..N {
            words[word] = word as u16;
        }
        bytes.load_words::<N>(&mut rows, words);
    } else if LENGTH == 2 {
        bytes.load_small::<true>(&mut rows[0]);
    } else {
        bytes.load_small::<false>(&mut rows[0]);
    }
    if LENGTH < 4 && shape.is_signed {
        let above = 32 - 8 * LENGTH;
        for lane in 0..LANES {
            rows[0].0[lane] = ((rows[0].0[lane] << above) as i32 >> above) as u32;
        }
    }
    for word in 0..N {
        if list[word * 4 / shape.bytes.max(4) as usize] != NONE {
            warp.put(places[word], &rows[word]);
        }
    }
    true
}

#[inline(always)]
#[expect(clippy::needless_range_loop, reason = "functions of iterators are not inlined into code for newer processors")]
fn store_usual<const N: usize, const LENGTH: u32>(
    warp: &Warp,
    block: &mut Block<'_>,
    inst: &Inst,
    shape: Shape,
) -> bool {
    let list = list(block, inst, shape.count as usize);
    let mut places = [0; N];
    for word in 0..N {
        places[word] = row_of(list, shape, word);
    }
    let mut offsets = Row::ZERO;
    let bytes = usual::<LENGTH>(warp, block, inst, shape, Access::Store, &mut offsets);
    let Some(bytes) = bytes else { return false };
    bytes.store_words::<N>(&warp.rows, places, &warp.select);
    true
}

/// Makes handlers of loads, each for one number of bytes of a lane, so that little is to be decided when they run.
macro_rules! loads {
    ($($(#[$doc:meta])* $name:ident: $words:literal $bytes:literal;)*) => {$(
        $(#[$doc])*
        #[inline(always)]
        pub(crate) fn $name(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
            if block.hook.is_none() && load_usual::<$words, $bytes>(warp, block, inst, Shape::of(inst.number)) {
                return Next::Continue;
            }
            load(warp, block, inst)
        }
    )*};
}

loads! {
    /// A byte from memory.
    load_byte: 1 1;
    /// Two bytes.
    load_half: 1 2;
    /// A word.
    load_word: 1 4;
    /// Two words.
    load_pair: 2 8;
    /// Four words.
    load_quad: 4 16;
}

/// Values from memory.
#[inline(never)]
pub(crate) fn load(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if block.hook.is_some() { watched(warp, block, inst, Access::Load, load_any) } else { load_any(warp, block, inst) }
}

fn load_any(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    load_slowly(warp, block, inst, Shape::of(inst.number))
}

/// A load of any values, in which something may be unusual.
fn load_slowly(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst, shape: Shape) -> Next {
    let addresses = Addresses::of(warp, inst, shape.is_short);
    let length = shape.bytes * shape.count;
    let mut words = [Row::ZERO; 8];
    let mask = warp.mask;
    let loaded = by_space(shape, &addresses, mask, |space, addresses, mask| {
        if shape.space != Space::Generic {
            return warp.load_words(block, (space, addresses, mask), length, &mut words);
        }
        let mut some = words;
        warp.load_words(block, (space, addresses, mask), length, &mut some)?;
        let select = Row::of_mask(mask);
        for (all, some) in words.iter_mut().zip(&some) {
            all.blend(some, &select);
        }
        Ok(())
    });
    if let Err(refused) = loaded {
        return warp.refused(refused);
    }
    let list = list(block, inst, shape.count as usize);
    for (index, register) in list.iter().enumerate() {
        if *register == NONE {
            continue;
        }
        let index = index as u32;
        match shape.bytes {
            8 | 16 => {
                for word in 0..shape.bytes / 4 {
                    warp.put(register + word as u16, &words[(index * shape.bytes / 4 + word) as usize]);
                }
            }
            4 => {
                let row = &words[index as usize];
                warp.put(*register, row);
                widen(warp, *register, row, shape);
            }
            bytes => {
                let (word, shift) = (&words[(index * bytes / 4) as usize], index * bytes % 4 * 8);
                let above = 32 - 8 * bytes;
                let row = Row::from_fn(|lane| {
                    let value = word.0[lane] >> shift << above;
                    if shape.is_signed { ((value as i32) >> above) as u32 } else { value >> above }
                });
                warp.put(*register, &row);
                widen(warp, *register, &row, shape);
            }
        }
    }
    Next::Continue
}

/// Extends a value to the second row of its register.
#[inline(always)]
fn widen(warp: &mut Warp, register: u16, row: &Row, shape: Shape) {
    if shape.rows == 2 {
        let high = Row::from_fn(|lane| if shape.is_signed { ((row.0[lane] as i32) >> 31) as u32 } else { 0 });
        warp.put(register + 1, &high);
    }
}

/// Values to memory.
#[inline(always)]
pub(crate) fn store(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if block.hook.is_some() {
        watched(warp, block, inst, Access::Store, store_any)
    } else {
        store_any(warp, block, inst)
    }
}

#[inline(always)]
fn store_any(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let shape = Shape::of(inst.number);
    if matches!(shape.bytes, 4 | 8) {
        let is_done = match shape.bytes * shape.count {
            4 => store_usual::<1, 4>(warp, block, inst, shape),
            8 => store_usual::<2, 8>(warp, block, inst, shape),
            16 => store_usual::<4, 16>(warp, block, inst, shape),
            _ => false,
        };
        if is_done {
            return Next::Continue;
        }
    }
    if shape.bytes <= 2 && shape.count == 1 && store_small(warp, block, inst, shape) {
        return Next::Continue;
    }
    store_slowly(warp, block, inst, shape)
}

/// Stores a byte or two of each lane by the usual way. Returns whether that was possible.
#[inline(always)]
fn store_small(warp: &Warp, block: &mut Block<'_>, inst: &Inst, shape: Shape) -> bool {
    let row = warp.row(list(block, inst, 1)[0]);
    let mut offsets = Row::ZERO;
    if shape.bytes == 1 {
        let bytes = usual::<1>(warp, block, inst, shape, Access::Store, &mut offsets);
        bytes.map(|bytes| bytes.store_small::<false>(row, warp.mask)).is_some()
    } else {
        let bytes = usual::<2>(warp, block, inst, shape, Access::Store, &mut offsets);
        bytes.map(|bytes| bytes.store_small::<true>(row, warp.mask)).is_some()
    }
}

/// A store of other values, or in which something is unusual.
#[inline(never)]
fn store_slowly(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst, shape: Shape) -> Next {
    let addresses = Addresses::of(warp, inst, shape.is_short);
    let length = shape.bytes * shape.count;
    let words = values(warp, block, inst, shape);
    let mask = warp.mask;
    let stored = by_space(shape, &addresses, mask, |space, addresses, mask| {
        warp.store_words(block, (space, addresses, mask), length, &words)
    });
    match stored {
        Ok(()) => Next::Continue,
        Err(refused) => warp.refused(refused),
    }
}

/// The bytes that a store puts for each lane.
fn values(warp: &Warp, block: &Block<'_>, inst: &Inst, shape: Shape) -> Words {
    let mut words = [Row::ZERO; 8];
    for (index, register) in list(block, inst, shape.count as usize).iter().enumerate() {
        let index = index as u32;
        match shape.bytes {
            4 | 8 | 16 => {
                for word in 0..shape.bytes / 4 {
                    words[(index * shape.bytes / 4 + word) as usize] = *warp.row(register + word as u16);
                }
            }
            bytes => {
                let (word, shift) = (&mut words[(index * bytes / 4) as usize], index * bytes % 4 * 8);
                let (row, mask) = (warp.row(*register), (1u32 << (8 * bytes)) - 1);
                for lane in 0..LANES {
                    word.0[lane] |= (row.0[lane] & mask) << shift;
                }
            }
        }
    }
    words
}
