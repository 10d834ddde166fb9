//! Loads and stores: the lanes of a path access global, shared, local or parameter memory, each at its own address.
//!
//! An access is checked for its natural alignment and its bounds for all lanes at once; if that fails, lane by lane, so
//! that a trap names the lane.

use vireo_simt::row::lanes;
use vireo_simt::{Access, Fault, LANES, LaneBytes, Mask, Refusal, Row, RowAccess, TrapKind};

use crate::generated::limits::{LOCAL_WINDOW, SHARED_WINDOW};
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

/// Rows of an access: up to 32 bytes of each lane.
type Words = [Row; 8];

/// An access that was refused, in a lane.
type Refused = (Fault, usize);

/// The lanes of a mask in shared and local memory, and the other ones, by their generic addresses.
fn split(addresses: &Addresses, mask: Mask) -> [(Space, Mask); 3] {
    let (mut shared, mut local) = (0, 0);
    for lane in lanes(mask) {
        let window = addresses.lane(lane) >> 24;
        shared |= u32::from(window == SHARED_WINDOW >> 24) << lane;
        local |= u32::from(window == LOCAL_WINDOW >> 24) << lane;
    }
    [(Space::Global, mask & !shared & !local), (Space::Shared, shared), (Space::Local, local)]
}

/// Calls `access` for the lanes of each space.
fn by_space(
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
fn misaligned(addresses: &Addresses, mask: Mask, length: u32) -> Option<usize> {
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

    fn load_words(
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

    fn store_words(
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

    pub(crate) fn refused(&mut self, (fault, lane): Refused) -> Next {
        self.trapped(TrapKind::Memory(fault), Some(lane as u32))
    }
}

pub(crate) fn fault(addresses: &Addresses, lane: usize, length: u32, access: Access, why: Refusal) -> Fault {
    Fault { address: addresses.lane(lane), length, access, why }
}

/// Shows the accesses of an instruction to the sanitizer, and returns the lanes that may make them. Local memory and
/// parameters are of one thread, and not shown.
#[cold]
pub(crate) fn shown(
    warp: &Warp,
    block: &mut Block<'_>,
    (space, addresses): (Space, &Addresses),
    length: u32,
    (access, atomic): (Access, bool),
) -> Mask {
    let mut allowed = warp.mask;
    let parts = match space {
        Space::Generic => split(addresses, warp.mask),
        space => [(space, warp.mask), (Space::Local, 0), (Space::Local, 0)],
    };
    let all: [u64; LANES] = std::array::from_fn(|lane| addresses.lane(lane));
    for (part, mask) in parts {
        let (shown_space, addresses) = match part {
            Space::Global => (vireo_simt::Space::Global, all),
            Space::Shared if space == Space::Generic => {
                (vireo_simt::Space::Group, all.map(|address| address & 0xFF_FFFF))
            }
            Space::Shared => (vireo_simt::Space::Group, all),
            _ => continue,
        };
        let Some(hook) = block.hook.as_mut().filter(|_| mask != 0) else { continue };
        let row = RowAccess {
            instruction: u64::from(warp.paths.pc - 1),
            wave: warp.index,
            mask,
            scalar: false,
            addresses: &addresses,
            length,
            access,
            atomic,
            space: shown_space,
        };
        allowed &= !mask | hook.access(&row, &block.shared);
    }
    allowed
}

/// Runs an access in the lanes that the sanitizer allows.
#[cold]
fn watched(
    warp: &mut Warp,
    block: &mut Block<'_>,
    inst: &Inst,
    access: Access,
    run: fn(&mut Warp, &mut Block<'_>, &Inst) -> Next,
) -> Next {
    let shape = Shape::of(inst.number);
    let addresses = Addresses::of(warp, inst, shape.is_short);
    let all = warp.mask;
    let length = shape.bytes * shape.count;
    let allowed = shown(warp, block, (shape.space, &addresses), length, (access, inst.result2 == VOLATILE));
    if allowed != all && access == Access::Load {
        // Lanes that load nothing get zero.
        for register in list(block, inst, shape.count as usize).iter().filter(|register| **register != NONE) {
            for word in 0..(shape.bytes / 4).max(shape.rows) {
                warp.put(register + word as u16, &Row::ZERO);
            }
        }
    }
    warp.set_mask(allowed);
    let next = if allowed == 0 { Next::Continue } else { run(warp, block, inst) };
    warp.set_mask(all);
    next
}

/// In the place of a second result: other blocks may rely on the access.
pub(crate) const VOLATILE: u16 = 1;

/// The rows of the registers of an instruction.
pub(crate) fn list<'b>(block: &Block<'b>, inst: &Inst, count: usize) -> &'b [u16] {
    let first = usize::from(inst.sources[2]) | usize::from(inst.sources[3]) << 16;
    &block.program.lists[first..first + count]
}

/// The bytes of `N` words that the lanes of a path access, by the usual way: addresses in one allocation, aligned, and
/// with equal upper halves. None where something is unusual.
#[inline(always)]
fn usual<'b, const N: usize>(
    warp: &Warp,
    block: &'b mut Block<'_>,
    inst: &Inst,
    shape: Shape,
    access: Access,
) -> Option<LaneBytes<'b>> {
    if inst.sources[0] == NONE {
        return None;
    }
    let first = usize::from(inst.sources[0]);
    let (low, select, length) = (&warp.rows[first], &warp.select, 4 * N as u32);
    let mut bits = inst.offset as u32;
    for lane in 0..LANES {
        bits |= low.0[lane] & select.0[lane];
    }
    if bits & (length - 1) != 0 {
        return None;
    }
    match shape.space {
        Space::Global => {
            let high = &warp.rows[first + 1];
            let of_first = high.0[warp.mask.trailing_zeros() as usize & 31];
            let mut differs = 0;
            for lane in 0..LANES {
                differs |= (high.0[lane] ^ of_first) & select.0[lane];
            }
            if differs != 0 {
                return None;
            }
            let base = (u64::from(of_first) << 32).wrapping_add(inst.offset as u64);
            block.port.lanes(base, low, select, length, access)
        }
        Space::Shared if inst.offset == 0 => LaneBytes::of_slice(&mut block.shared, low, select, length),
        Space::Shared => {
            let offsets = Row::from_fn(|lane| low.0[lane].wrapping_add(inst.offset as u32));
            LaneBytes::of_slice(&mut block.shared, &offsets, select, length)
        }
        _ => None,
    }
}

/// The row of a word of an access to whole words.
#[inline(always)]
fn row_of(list: &[u16], shape: Shape, word: usize) -> u16 {
    match shape.bytes {
        4 => list[word],
        _ => list[word / 2] + (word % 2) as u16,
    }
}

#[inline(always)]
fn load_usual<const N: usize>(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst, shape: Shape) -> bool {
    let list = list(block, inst, shape.count as usize);
    let mut rows = [Row::ZERO; N];
    match usual::<N>(warp, block, inst, shape, Access::Load) {
        Some(bytes) => bytes.load_words(&mut rows),
        None => return false,
    }
    for (word, row) in rows.iter().enumerate() {
        // A result that is not wanted has no row.
        if list[word * 4 / shape.bytes as usize] != NONE {
            warp.put(row_of(list, shape, word), row);
        }
    }
    true
}

#[inline(always)]
fn store_usual<const N: usize>(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst, shape: Shape) -> bool {
    let list = list(block, inst, shape.count as usize);
    match usual::<N>(warp, block, inst, shape, Access::Store) {
        Some(bytes) => {
            bytes.store_words::<N>(&std::array::from_fn(|word| *warp.row(row_of(list, shape, word))));
            true
        }
        None => false,
    }
}

/// Values from memory.
#[inline(always)]
pub(crate) fn load(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    if block.hook.is_some() { watched(warp, block, inst, Access::Load, load_any) } else { load_any(warp, block, inst) }
}

#[inline(always)]
fn load_any(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let shape = Shape::of(inst.number);
    if matches!(shape.bytes, 4 | 8) && shape.rows == 1 {
        let is_done = match shape.bytes * shape.count {
            4 => load_usual::<1>(warp, block, inst, shape),
            8 => load_usual::<2>(warp, block, inst, shape),
            16 => load_usual::<4>(warp, block, inst, shape),
            _ => false,
        };
        if is_done {
            return Next::Continue;
        }
    }
    load_slowly(warp, block, inst, shape)
}

/// A load of other values, or in which something is unusual.
#[inline(never)]
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
            4 => store_usual::<1>(warp, block, inst, shape),
            8 => store_usual::<2>(warp, block, inst, shape),
            16 => store_usual::<4>(warp, block, inst, shape),
            _ => false,
        };
        if is_done {
            return Next::Continue;
        }
    }
    store_slowly(warp, block, inst, shape)
}

/// A store of other values, or in which something is unusual.
#[inline(never)]
fn store_slowly(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst, shape: Shape) -> Next {
    let addresses = Addresses::of(warp, inst, shape.is_short);
    let length = shape.bytes * shape.count;
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
    let mask = warp.mask;
    let stored = by_space(shape, &addresses, mask, |space, addresses, mask| {
        warp.store_words(block, (space, addresses, mask), length, &words)
    });
    match stored {
        Ok(()) => Next::Continue,
        Err(refused) => warp.refused(refused),
    }
}

/// Bytes from one place in local memory to another: the offset is the first one, the number how many. The list has two
/// words for each place.
pub(crate) fn copy_local(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let words = list(block, inst, 4);
    let place = |index: usize| usize::from(words[index]) | usize::from(words[index + 1]) << 16;
    let (to, from, length, stride) = (place(0), place(2), inst.number as usize, warp.local_stride as usize);
    for lane in lanes(warp.mask) {
        let start = lane * stride;
        warp.local.copy_within(start + from..start + from + length, start + to);
    }
    Next::Continue
}

/// A copy from global to shared memory. Sources are the addresses in shared and in global memory, and the bytes to
/// read, of those that the number says; the others become zero.
pub(crate) fn copy_to_shared(warp: &mut Warp, block: &mut Block<'_>, inst: &Inst) -> Next {
    let length = inst.number & 0xFF;
    let places = list(block, inst, 4);
    let offset = i64::from(u32::from(places[0]) | u32::from(places[1]) << 16);
    let (is_short, limit, ignored) = (inst.number & 0x100 != 0, places[2], places[3]);
    let to = Addresses::at(warp, inst.sources[0], i64::from(offset as i32), is_short);
    let from = Addresses::of_source(warp, inst);
    let mut mask = warp.mask;
    if block.hook.is_some() {
        mask &= shown(warp, block, (Space::Global, &from), length, (Access::Load, false));
        mask &= shown(warp, block, (Space::Shared, &to), length, (Access::Store, false));
    }
    for (addresses, access) in [(&to, Access::Store), (&from, Access::Load)] {
        if let Some(lane) = misaligned(addresses, mask, length) {
            return warp.refused((fault(addresses, lane, length, access, Refusal::Unaligned), lane));
        }
    }
    for lane in lanes(mask) {
        let mut wanted = if limit == NONE { length } else { warp.row(limit).0[lane].min(length) };
        if ignored != NONE && warp.bits(ignored) >> lane & 1 == 1 {
            wanted = 0;
        }
        let mut bytes = [0; 16];
        let loaded = match wanted {
            0 => Ok(()),
            wanted => warp.load_bytes(block, Space::Global, &from, lane, &mut bytes[..wanted as usize]),
        };
        let copied = loaded.and_then(|()| warp.store_bytes(block, Space::Shared, &to, lane, &bytes[..length as usize]));
        if let Err(refused) = copied {
            return warp.refused(refused);
        }
    }
    Next::Continue
}

impl Addresses {
    /// The second source of a copy.
    fn of_source(warp: &Warp, inst: &Inst) -> Self {
        Self::at(warp, inst.sources[1], inst.offset, false)
    }
}
