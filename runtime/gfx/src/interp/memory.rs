//! Loads and stores: device memory through its port, buffers with their bounds, the memory of the work-group, and private memory.

use vireo_simt::row::lanes;
use vireo_simt::{Access, Fault, LANES, Port, Row, TrapKind};

use super::Next;
use super::wave::{Group, Wave};
use crate::program::{Inst, NONE};

/// Where an access goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Space {
    Constant,
    Global,
    Buffer,
    Group,
    Scratch,
}

/// What is loaded or stored.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value {
    U8,
    I8,
    U16,
    I16,
    B32,
    B64,
    B96,
    B128,
    B256,
    B512,
}

impl Value {
    #[inline(always)]
    const fn words(self) -> usize {
        match self {
            Value::B64 => 2,
            Value::B96 => 3,
            Value::B128 => 4,
            Value::B256 => 8,
            Value::B512 => 16,
            _ => 1,
        }
    }

    #[inline(always)]
    const fn bytes(self) -> u32 {
        match self {
            Value::U8 | Value::I8 => 1,
            Value::U16 | Value::I16 => 2,
            value => 4 * value.words() as u32,
        }
    }
}

/// Which part of a register a small value is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Part {
    Whole,
    Low,
    High,
}

/// Why a lane's access fails.
enum Refused {
    Fault(Fault),
    Bounds(&'static str),
}

impl From<Fault> for Refused {
    fn from(fault: Fault) -> Self {
        Refused::Fault(fault)
    }
}

#[cold]
fn trapped(wave: &mut Wave, refused: Refused, lane: Option<u32>) -> Next {
    let kind = match refused {
        Refused::Fault(fault) => TrapKind::Memory(fault),
        Refused::Bounds(what) => TrapKind::InvalidOperand(what.into()),
    };
    wave.trapped(kind, lane)
}

/// The offsets or addresses of the lanes of an access.
#[derive(Clone, Copy)]
struct Places<'a> {
    low: Option<&'a Row>,
    high: Option<&'a Row>,
    base: u64,
    /// The bytes of a buffer that a lane may access from its base on.
    limit: Option<u64>,
}

impl Places<'_> {
    /// The offsets of all lanes from the lowest one, that one, and how many bytes from it on values of `bytes` take; none if the rows are wide.
    #[inline(always)]
    fn extent(&self, bytes: u32) -> Option<(Row, u64, u64)> {
        let (Some(row), None) = (self.low, self.high) else { return None };
        // Loops, since closures of the library are not inlined into code for newer processors.
        let (mut lowest, mut highest) = (u32::MAX, 0);
        for lane in 0..LANES {
            lowest = lowest.min(row.0[lane]);
            highest = highest.max(row.0[lane]);
        }
        let relative = Row::from_fn(|lane| row.0[lane] - lowest);
        let length = u64::from(highest - lowest) + u64::from(bytes);
        if self.limit.is_some() && self.base + u64::from(highest) > u64::from(u32::MAX) {
            return None;
        }
        Some((relative, self.base.wrapping_add(u64::from(lowest)), length))
    }

    #[inline(always)]
    fn at(&self, lane: usize) -> u64 {
        let low = self.low.map_or(0, |row| u64::from(row.0[lane]));
        let high = self.high.map_or(0, |row| u64::from(row.0[lane]) << 32);
        let place = self.base.wrapping_add(low | high);
        // Offsets in buffers have 32 bits: a negative one and what the instruction adds are a small one.
        if self.limit.is_some() { u64::from(place as u32) } else { place }
    }
}

#[inline(always)]
fn scalar_pair(wave: &Wave, first: u16) -> u64 {
    let first = usize::from(first);
    u64::from(wave.scalars[first]) | u64::from(wave.scalars[first + 1]) << 32
}

/// The lanes' addresses in device memory.
#[inline(always)]
fn global<'a>(wave: &'a Wave, inst: &Inst) -> Places<'a> {
    let offset = i64::from(inst.number as i32) as u64;
    let address = usize::from(inst.sources[0]);
    let low = Some(&wave.rows[address]);
    if inst.sources[1] == NONE {
        return Places { low, high: Some(&wave.rows[address + 1]), base: offset, limit: None };
    }
    Places { low, high: None, base: scalar_pair(wave, inst.sources[1]).wrapping_add(offset), limit: None }
}

/// The lanes' offsets in private memory.
#[inline(always)]
fn scratch<'a>(wave: &'a Wave, inst: &Inst) -> Places<'a> {
    let low = (inst.sources[0] != NONE).then(|| &wave.rows[usize::from(inst.sources[0])]);
    let scalar = if inst.sources[1] == NONE { 0 } else { u64::from(wave.scalars[usize::from(inst.sources[1])]) };
    Places { low, high: None, base: scalar.wrapping_add(i64::from(inst.number as i32) as u64), limit: None }
}

/// Runs `access` for each active lane with its place.
#[inline(always)]
fn each_lane(
    exec: u32,
    places: &Places<'_>,
    mut access: impl FnMut(usize, u64) -> Result<(), Refused>,
) -> Result<(), (usize, Refused)> {
    if exec == u32::MAX {
        for lane in 0..LANES {
            access(lane, places.at(lane)).map_err(|refused| (lane, refused))?;
        }
    } else {
        for lane in lanes(exec) {
            access(lane, places.at(lane)).map_err(|refused| (lane, refused))?;
        }
    }
    Ok(())
}

/// The words of a value in device memory.
#[inline(always)]
fn read_port<const N: usize>(port: &mut Port<'_>, address: u64, value: Value) -> Result<[u32; N], Fault> {
    let mut words = [0; N];
    match value {
        Value::U8 => words[0] = u32::from(port.load_u8(address)?),
        Value::I8 => words[0] = port.load_u8(address)? as i8 as u32,
        Value::U16 => words[0] = u32::from(port.load_u16(address)?),
        Value::I16 => words[0] = port.load_u16(address)? as i16 as u32,
        _ => words = port.load_words(address)?,
    }
    Ok(words)
}

#[inline(always)]
fn write_port<const N: usize>(port: &mut Port<'_>, address: u64, value: Value, words: [u32; N]) -> Result<(), Fault> {
    match value {
        Value::U8 | Value::I8 => port.store_u8(address, words[0] as u8),
        Value::U16 | Value::I16 => port.store_u16(address, words[0] as u16),
        _ => port.store_words(address, words),
    }
}

/// The words of a value in bytes of the interpreter's own.
#[inline(always)]
fn read_bytes<const N: usize>(bytes: &[u8], value: Value) -> [u32; N] {
    let mut words = [0; N];
    match value {
        Value::U8 => words[0] = u32::from(bytes[0]),
        Value::I8 => words[0] = bytes[0] as i8 as u32,
        Value::U16 => words[0] = u32::from(u16::from_le_bytes([bytes[0], bytes[1]])),
        Value::I16 => words[0] = i16::from_le_bytes([bytes[0], bytes[1]]) as u32,
        _ => {
            for (word, bytes) in words.iter_mut().zip(bytes.as_chunks::<4>().0) {
                *word = u32::from_le_bytes(*bytes);
            }
        }
    }
    words
}

#[inline(always)]
fn write_bytes<const N: usize>(bytes: &mut [u8], value: Value, words: [u32; N]) {
    match value {
        Value::U8 | Value::I8 => bytes[0] = words[0] as u8,
        Value::U16 | Value::I16 => bytes[..2].copy_from_slice(&(words[0] as u16).to_le_bytes()),
        _ => {
            for (word, bytes) in words.iter().zip(bytes.as_chunks_mut::<4>().0) {
                *bytes = word.to_le_bytes();
            }
        }
    }
}

/// The bytes of a value, or none if they are outside.
#[inline(always)]
fn range(length: usize, offset: u64, value: Value) -> Option<std::ops::Range<usize>> {
    let start = usize::try_from(offset).ok()?;
    let end = start.checked_add(value.bytes() as usize)?;
    (end <= length).then_some(start..end)
}

/// The base, offset and limit of a buffer access. The resource is raw: without a stride, `num_records` counts bytes.
fn buffer<'a>(wave: &'a Wave, inst: &Inst) -> Result<(Places<'a>, u64), Refused> {
    let first = usize::from(inst.sources[1]);
    let resource = &wave.scalars[first..first + 4];
    let base = u64::from(resource[0]) | u64::from(resource[1] & 0xFFFF) << 32;
    let (stride, swizzled) = (resource[1] >> 16 & 0x3FFF, resource[1] >> 30);
    let (indexed, has_offset) = (inst.number >> 16 & 1 == 1, inst.number >> 17 & 1 == 1);
    if indexed || swizzled != 0 || stride != 0 {
        return Err(Refused::Bounds("a buffer with a stride or index"));
    }
    let scalar = u64::from(wave.scalars[usize::from(inst.sources[2])]);
    let low = has_offset.then(|| &wave.rows[usize::from(inst.sources[0])]);
    let offset = u64::from(inst.number & 0xFFF);
    Ok((Places { low, high: None, base: offset, limit: Some(u64::from(resource[2])) }, base.wrapping_add(scalar)))
}

#[inline(always)]
fn load_lanes<const N: usize>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
) -> Result<[Row; N], (usize, Refused)> {
    let mut rows = [Row::ZERO; N];
    let exec = wave.exec();
    if exec == u32::MAX && value.bytes() == 4 * N as u32 && load_together(wave, group, inst, space, &mut rows) {
        return Ok(rows);
    }
    let mut put = |lane: usize, words: [u32; N]| {
        for (row, word) in rows.iter_mut().zip(words) {
            row.0[lane] = word;
        }
    };
    match space {
        Space::Global | Space::Constant => {
            let port = &mut group.port;
            each_lane(exec, &global(wave, inst), |lane, address| {
                put(lane, read_port(port, address, value)?);
                Ok(())
            })?;
        }
        Space::Buffer => {
            let (places, base) = buffer(wave, inst).map_err(|refused| (0, refused))?;
            let (port, limit) = (&mut group.port, places.limit.unwrap_or(0));
            each_lane(exec, &places, |lane, offset| {
                // What is outside of the bounds reads as zero.
                if offset + u64::from(value.bytes()) <= limit {
                    put(lane, read_port(port, base.wrapping_add(offset), value)?);
                }
                Ok(())
            })?;
        }
        Space::Scratch => {
            let stride = wave.scratch_stride as usize;
            each_lane(exec, &scratch(wave, inst), |lane, offset| {
                let bytes =
                    range(stride, offset, value).ok_or(Refused::Bounds("an offset outside of private memory"))?;
                let bytes = lane * stride + bytes.start..lane * stride + bytes.end;
                put(lane, read_bytes(&wave.scratch[bytes], value));
                Ok(())
            })?;
        }
        Space::Group => {
            let places = local(wave, inst, u64::from(inst.number));
            each_lane(exec, &places, |lane, offset| {
                // Outside of the memory of the work-group everything is zero.
                if let Some(bytes) = range(group.local.len(), offset, value) {
                    put(lane, read_bytes(&group.local[bytes], value));
                }
                Ok(())
            })?;
        }
    }
    Ok(rows)
}

/// The values of all lanes, if they are in bounds and in one allocation.
#[inline(always)]
fn load_together<const N: usize>(
    wave: &Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    rows: &mut [Row; N],
) -> bool {
    let (places, base) = match space {
        Space::Global => (global(wave, inst), 0),
        Space::Buffer => match buffer(wave, inst) {
            Ok(found) => found,
            Err(_) => return false,
        },
        _ => return false,
    };
    let Some((offsets, first, length)) = places.extent(4 * N as u32) else { return false };
    if places.limit.is_some_and(|limit| first.saturating_add(length) > limit) {
        return false;
    }
    let Some(span) = group.port.span(base.wrapping_add(first), length, Access::Load) else { return false };
    for lane in 0..LANES {
        let words = span.load_words::<N>(u64::from(offsets.0[lane]));
        // An iterator's functions would not be inlined into code for newer processors, and this loop take twice as long.
        for index in 0..N {
            rows[index].0[lane] = words[index];
        }
    }
    true
}

fn local<'a>(wave: &'a Wave, inst: &Inst, offset: u64) -> Places<'a> {
    Places { low: Some(&wave.rows[usize::from(inst.sources[0])]), high: None, base: offset, limit: None }
}

#[inline(always)]
fn finish_load<const N: usize>(
    wave: &mut Wave,
    inst: &Inst,
    part: Part,
    rows: Result<[Row; N], (usize, Refused)>,
) -> Next {
    let mut rows = match rows {
        Ok(rows) => rows,
        Err((lane, refused)) => return trapped(wave, refused, Some(lane as u32)),
    };
    for (index, row) in rows.iter_mut().enumerate() {
        let target = &mut wave.rows[usize::from(inst.result) + index];
        match part {
            Part::Whole => {}
            Part::Low => *row = Row::from_fn(|lane| (row.0[lane] & 0xFFFF) | (target.0[lane] & 0xFFFF_0000)),
            Part::High => *row = Row::from_fn(|lane| (row.0[lane] << 16) | (target.0[lane] & 0xFFFF)),
        }
        target.blend(row, &wave.exec_row);
    }
    Next::Continue
}

#[inline(always)]
pub(crate) fn load(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    if space == Space::Constant {
        return load_scalars(wave, group, inst, value);
    }
    match value.words() {
        1 => {
            let rows = load_lanes::<1>(wave, group, inst, space, value);
            finish_load(wave, inst, part, rows)
        }
        2 => {
            let rows = load_lanes::<2>(wave, group, inst, space, value);
            finish_load(wave, inst, part, rows)
        }
        3 => {
            let rows = load_lanes::<3>(wave, group, inst, space, value);
            finish_load(wave, inst, part, rows)
        }
        _ => {
            let rows = load_lanes::<4>(wave, group, inst, space, value);
            finish_load(wave, inst, part, rows)
        }
    }
}

/// A load to scalar registers.
fn load_scalars(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, value: Value) -> Next {
    let offset = i64::from(inst.number as i32) as u64;
    let scalar = u64::from(wave.scalars[usize::from(inst.sources[1])]);
    // The lowest two bits of the address are dropped.
    let address = scalar_pair(wave, inst.sources[0]).wrapping_add(offset).wrapping_add(scalar) & !3;
    for index in 0..value.words() as u16 {
        match group.port.load_words::<1>(address.wrapping_add(4 * u64::from(index))) {
            Ok([word]) => wave.set_scalar(inst.result + index, word),
            Err(fault) => return trapped(wave, Refused::Fault(fault), None),
        }
    }
    Next::Continue
}

#[inline(always)]
fn store_lanes<const N: usize>(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    let data = usize::from(if space == Space::Group { inst.sources[1] } else { inst.sources[3] });
    let exec = wave.exec();
    let shift = if part == Part::High { 16 } else { 0 };
    let rows = &wave.rows;
    let get = |lane: usize| -> [u32; N] { std::array::from_fn(|index| rows[data + index].0[lane] >> shift) };
    let stored = match space {
        Space::Global | Space::Constant => {
            let port = &mut group.port;
            each_lane(exec, &global(wave, inst), |lane, address| Ok(write_port(port, address, value, get(lane))?))
        }
        Space::Buffer => buffer(wave, inst).map_err(|refused| (0, refused)).and_then(|(places, base)| {
            let (port, limit) = (&mut group.port, places.limit.unwrap_or(0));
            each_lane(exec, &places, |lane, offset| {
                if offset + u64::from(value.bytes()) <= limit {
                    write_port(port, base.wrapping_add(offset), value, get(lane))?;
                }
                Ok(())
            })
        }),
        Space::Scratch => {
            let stride = wave.scratch_stride as usize;
            let mut memory = std::mem::take(&mut wave.scratch);
            let rows = &wave.rows;
            let get = |lane: usize| -> [u32; N] { std::array::from_fn(|index| rows[data + index].0[lane] >> shift) };
            let stored = each_lane(exec, &scratch(wave, inst), |lane, offset| {
                let bytes =
                    range(stride, offset, value).ok_or(Refused::Bounds("an offset outside of private memory"))?;
                write_bytes(&mut memory[lane * stride + bytes.start..lane * stride + bytes.end], value, get(lane));
                Ok(())
            });
            wave.scratch = memory;
            stored
        }
        Space::Group => {
            let local_memory = &mut group.local;
            each_lane(exec, &local(wave, inst, u64::from(inst.number)), |lane, offset| {
                if let Some(bytes) = range(local_memory.len(), offset, value) {
                    write_bytes(&mut local_memory[bytes], value, get(lane));
                }
                Ok(())
            })
        }
    };
    match stored {
        Ok(()) => Next::Continue,
        Err((lane, refused)) => trapped(wave, refused, Some(lane as u32)),
    }
}

#[inline(always)]
pub(crate) fn store(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    space: Space,
    value: Value,
    part: Part,
) -> Next {
    match value.words() {
        1 => store_lanes::<1>(wave, group, inst, space, value, part),
        2 => store_lanes::<2>(wave, group, inst, space, value, part),
        3 => store_lanes::<3>(wave, group, inst, space, value, part),
        _ => store_lanes::<4>(wave, group, inst, space, value, part),
    }
}

/// Loads two values whose offsets count `unit` bytes.
#[inline(always)]
fn load_two(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, value: Value, unit: u64) -> Next {
    let words = value.words();
    let mut rows = [Row::ZERO; 4];
    for (half, offset) in [inst.number & 0xFF, inst.number >> 8].into_iter().enumerate() {
        let places = local(wave, inst, u64::from(offset) * unit);
        for lane in lanes(wave.exec()) {
            if let Some(bytes) = range(group.local.len(), places.at(lane), value) {
                let loaded: [u32; 2] = read_bytes(&group.local[bytes], value);
                for (index, word) in loaded.into_iter().enumerate().take(words) {
                    rows[half * words + index].0[lane] = word;
                }
            }
        }
    }
    for (index, row) in rows.iter().enumerate().take(2 * words) {
        wave.rows[usize::from(inst.result) + index].blend(row, &wave.exec_row);
    }
    Next::Continue
}

#[inline(always)]
fn store_two(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, value: Value, unit: u64) -> Next {
    for (half, offset) in [inst.number & 0xFF, inst.number >> 8].into_iter().enumerate() {
        let places = local(wave, inst, u64::from(offset) * unit);
        let data = usize::from(inst.sources[1 + half]);
        for lane in lanes(wave.exec()) {
            if let Some(bytes) = range(group.local.len(), places.at(lane), value) {
                let high = if value.words() == 2 { wave.rows[data + 1].0[lane] } else { 0 };
                write_bytes(&mut group.local[bytes], value, [wave.rows[data].0[lane], high]);
            }
        }
    }
    Next::Continue
}

#[inline(always)]
pub(crate) fn load2(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, _: Space, value: Value, _: Part) -> Next {
    load_two(wave, group, inst, value, u64::from(value.bytes()))
}

#[inline(always)]
pub(crate) fn load2_stride64(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    _: Space,
    value: Value,
    _: Part,
) -> Next {
    load_two(wave, group, inst, value, 64 * u64::from(value.bytes()))
}

#[inline(always)]
pub(crate) fn store2(wave: &mut Wave, group: &mut Group<'_>, inst: &Inst, _: Space, value: Value, _: Part) -> Next {
    store_two(wave, group, inst, value, u64::from(value.bytes()))
}

#[inline(always)]
pub(crate) fn store2_stride64(
    wave: &mut Wave,
    group: &mut Group<'_>,
    inst: &Inst,
    _: Space,
    value: Value,
    _: Part,
) -> Next {
    store_two(wave, group, inst, value, 64 * u64::from(value.bytes()))
}
