//! Copies and fills ([`Copy`], [`Fill`]): checked where they are submitted, with the allocations that they touch kept
//! until they are done.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, Ordering};

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{Copy2d, Copy3d, Copy3dPeer, CuArray, MemoryType};
use vireo_simt::sanitize::Known;
use vireo_soft::memory::backing;
use vireo_soft::memory::map::Allocation;

use crate::api::Outcome;
use crate::memory::{Memory, Sort};
use crate::poisoned::{PoisonedHost, check};
use crate::sanitizer::{Transfers, unwritten_byte};

/// Bytes that are staged at most; the source of a larger copy has to stay until it is done, as pinned memory does.
const MAX_STAGED: u64 = 1 << 30;

/// One side of a copy.
#[derive(Clone, Debug)]
pub(crate) struct Side {
    /// The address of its first byte.
    start: u64,
    /// Bytes from row to row, and from layer to layer.
    pitch: u64,
    layer: u64,
    /// The allocation that has all of it; none for memory of the program.
    allocation: Option<Arc<Allocation>>,
    /// Whether it is memory of the host that devices may access.
    is_pinned: bool,
    /// Whether the program may reuse the memory at once: nothing pins it.
    is_pageable: bool,
}

/// A copy of layers of rows.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    to: Side,
    from: Side,
    /// Bytes of a row, rows of a layer, and layers.
    size: [u64; 3],
    /// The bytes of the source, if they were copied when it was submitted.
    staged: Option<Arc<[u8]>>,
    /// Whether the target has a pattern since it was submitted.
    is_poisoned: bool,
}

/// One side as a program describes it: an address, and the memory that it has to be in.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The address.
    pub(crate) address: u64,
    /// Whether it is of the host, of a device, or of any memory.
    pub(crate) memory: MemoryType,
    /// Bytes from row to row.
    pub(crate) pitch: u64,
    /// Rows from layer to layer.
    pub(crate) height: u64,
    /// The first byte of a row, the first row and the first layer.
    pub(crate) origin: [u64; 3],
}

impl Place {
    /// Bytes one after another.
    pub(crate) fn linear(address: u64, memory: MemoryType) -> Self {
        Place { address, memory, pitch: 0, height: 0, origin: [0; 3] }
    }

    fn side(&self, memory: &Memory, size: [u64; 3]) -> Outcome<Side> {
        let wrong = CuResult::ERROR_INVALID_VALUE;
        let [width, rows, layers] = size;
        let pitch = if self.pitch == 0 { width } else { self.pitch };
        let height = if self.height == 0 { rows } else { self.height };
        let layer = pitch.checked_mul(height).ok_or(wrong)?;
        let offset = |[x, y, z]: [u64; 3]| {
            let (y, z) = (y.checked_mul(pitch)?, z.checked_mul(layer)?);
            x.checked_add(y)?.checked_add(z)
        };
        let first = offset(self.origin).and_then(|offset| self.address.checked_add(offset)).ok_or(wrong)?;
        let last = offset([width, rows - 1, layers - 1]).ok_or(wrong)?;
        let is_narrow = rows > 1 && self.origin[0].checked_add(width).is_none_or(|end| end > pitch);
        if self.address == 0 || is_narrow || first.checked_add(last).is_none() {
            return Err(wrong);
        }
        let (allocation, is_pinned, is_pageable) = match memory.find(first) {
            None => (None, false, true),
            Some((_, detail)) => {
                // Memory that was freed after `find` is gone here.
                let found = memory.range(first, last).ok_or(wrong)?;
                if self.memory == MemoryType::HOST && matches!(detail.sort, Sort::Device | Sort::Variable) {
                    return Err(wrong);
                }
                (Some(found), detail.sort.is_host(), false)
            }
        };
        if self.memory == MemoryType::DEVICE && allocation.is_none() {
            return Err(wrong);
        }
        Ok(Side { start: first, pitch, layer, allocation, is_pinned, is_pageable })
    }
}

impl Side {
    /// Whether it is memory of the host.
    fn is_host(&self) -> bool {
        self.is_pageable || self.is_pinned
    }
}

impl Copy {
    /// A copy; none of nothing. With `stage`, pageable memory is read now, as the program may reuse it at once.
    ///
    /// # Errors
    /// INVALID_VALUE if a side leaves its allocation, or is of other memory than it has to be.
    ///
    /// # Safety
    /// Memory of the program at both addresses is readable, and that of the target writable, until the copy is done.
    pub(crate) unsafe fn new(
        memory: &Memory,
        to: Place,
        from: Place,
        size: [u64; 3],
        stage: bool,
    ) -> Outcome<Option<Copy>> {
        if size.contains(&0) {
            return Ok(None);
        }
        let (to, from) = (to.side(memory, size)?, from.side(memory, size)?);
        let total = size[0].checked_mul(size[1]).and_then(|bytes| bytes.checked_mul(size[2]));
        let total = total.ok_or(CuResult::ERROR_INVALID_VALUE)?;
        let mut copy = Copy { to, from, size, staged: None, is_poisoned: false };
        if stage && copy.from.is_pageable && total <= MAX_STAGED {
            let mut bytes = vec![0u8; total as usize];
            let start = bytes.as_mut_ptr().expose_provenance() as u64;
            // SAFETY: the bytes are there, and the caller vouches for memory of the program.
            unsafe { copy.rows(|row, address| (start + row * size[0], address)) };
            copy.staged = Some(bytes.into());
        }
        Ok(Some(copy))
    }

    /// Whether a side is memory of the program that nothing pins.
    pub(crate) fn is_pageable(&self) -> bool {
        self.to.is_pageable || self.from.is_pageable && self.staged.is_none()
    }

    /// Fills the target, if it is pinned and the program goes on before the copy is done.
    pub(crate) fn poison(&mut self, host: &PoisonedHost) {
        let [length, rows, layers] = self.size;
        if self.to.is_pinned && rows == 1 && layers == 1 && !self.is_pageable() {
            // SAFETY: `new` found the target in an allocation, which is kept here.
            self.is_poisoned = unsafe { host.poison(self.to.start, length) };
        }
    }

    /// The host memory that it reads and writes.
    pub(crate) fn host_ranges(&self) -> Vec<(u64, u64)> {
        let [width, rows, layers] = self.size;
        let range = |side: &Side| (side.start, (layers - 1) * side.layer + (rows - 1) * side.pitch + width);
        let from = (self.from.allocation.is_some() && self.staged.is_none()).then_some(&self.from);
        [Some(&self.to), from].into_iter().flatten().map(range).collect()
    }

    /// Calls back with the index of each row and the address of its source, and copies from there to where that says.
    ///
    /// # Safety
    /// Both addresses have the bytes of a row.
    unsafe fn rows(&self, ends: impl Fn(u64, u64) -> (u64, u64)) {
        let [width, rows, layers] = self.size;
        for index in 0..rows * layers {
            let (layer, row) = (index / rows, index % rows);
            let (to, from) = ends(index, self.from.start + layer * self.from.layer + row * self.from.pitch);
            // SAFETY: the caller vouches for both.
            unsafe {
                backing::copy(
                    std::ptr::with_exposed_provenance_mut(to as usize),
                    std::ptr::with_exposed_provenance(from as usize),
                    width as usize,
                );
            }
        }
    }

    /// Copies, in a stream of a device, after what is known to be done.
    pub(crate) fn run(&self, memory: &Memory, origin: (u32, u64), known: &mut Known) {
        if self.is_poisoned {
            // SAFETY: `new` found the target in an allocation, which is kept here.
            unsafe { check(self.to.start, self.size[0], origin.1) };
        }
        let name = match (self.to.is_host(), self.from.is_host()) {
            (false, true) => "a copy from the host",
            (true, false) => "a copy to the host",
            _ => "a copy",
        };
        let Some(transfer) = Transfers::begin(memory, name, origin, known) else { return self.run_unchecked() };
        let mut unwritten = Vec::new();
        let length = self.size[0];
        for (to, from) in self.row_addresses() {
            let reads = self.from.allocation.is_some() && self.staged.is_none();
            if reads {
                transfer.reads(from, length);
            }
            if reads && self.to.is_host() {
                transfer.leaves(from, length, name);
            }
            if self.to.allocation.is_some() {
                transfer.writes(to, length);
                match reads && !self.to.is_host() {
                    true => unwritten.extend(transfer.copies(to, from, length)),
                    false => transfer.fills(to, length),
                }
            }
        }
        self.run_unchecked();
        for (start, length) in unwritten {
            for address in start..start + length {
                // SAFETY: the range is in the target, whose allocation is kept here. Kernels and copies access it as
                // atomics too.
                let byte = unsafe { AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize)) };
                byte.store(unwritten_byte(address), Ordering::Relaxed);
            }
        }
        transfer.end(known);
    }

    /// The addresses of each row of the target and of the source.
    fn row_addresses(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        let [_, rows, layers] = self.size;
        let at = move |side: &Side, index: u64| side.start + index / rows * side.layer + index % rows * side.pitch;
        (0..rows * layers).map(move |index| (at(&self.to, index), at(&self.from, index)))
    }

    fn run_unchecked(&self) {
        let rows = self.size[1];
        let to = |index: u64| self.to.start + index / rows * self.to.layer + index % rows * self.to.pitch;
        let staged = self.staged.as_ref().map(|bytes| bytes.as_ptr().expose_provenance() as u64);
        let single = self.size[0];
        // SAFETY: the sides were checked when the copy was made: their allocations are kept here, and the program
        // vouched for its own memory until this is done. Staged bytes are as many as all rows have.
        unsafe {
            self.rows(|index, from| (to(index), staged.map_or(from, |start| start + index * single)));
        }
    }
}

/// The two sides and the size of a copy of rows.
pub(crate) fn of_2d(copy: &Copy2d) -> Outcome<(Place, Place, [u64; 3])> {
    let to = place(copy.dst_memory_type, copy.dst_host as u64, copy.dst_device)?;
    let from = place(copy.src_memory_type, copy.src_host as u64, copy.src_device)?;
    let to = Place { pitch: copy.dst_pitch, origin: [copy.dst_xin_bytes, copy.dst_y, 0], ..to };
    let from = Place { pitch: copy.src_pitch, origin: [copy.src_xin_bytes, copy.src_y, 0], ..from };
    Ok((to, from, [copy.width_in_bytes, copy.height, 1]))
}

/// The two sides and the size of a copy of layers.
pub(crate) fn of_3d(copy: &Copy3d) -> Outcome<(Place, Place, [u64; 3])> {
    let to = place(copy.dst_memory_type, copy.dst_host as u64, copy.dst_device)?;
    let from = place(copy.src_memory_type, copy.src_host as u64, copy.src_device)?;
    let (to_origin, from_origin) =
        ([copy.dst_xin_bytes, copy.dst_y, copy.dst_z], [copy.src_xin_bytes, copy.src_y, copy.src_z]);
    let to = Place { pitch: copy.dst_pitch, height: copy.dst_height, origin: to_origin, ..to };
    let from = Place { pitch: copy.src_pitch, height: copy.src_height, origin: from_origin, ..from };
    Ok((to, from, [copy.width_in_bytes, copy.height, copy.depth]))
}

/// The two sides and the size of a copy of layers between contexts.
pub(crate) fn of_3d_peer(copy: &Copy3dPeer) -> Outcome<(Place, Place, [u64; 3])> {
    let to = place(copy.dst_memory_type, copy.dst_host as u64, copy.dst_device)?;
    let from = place(copy.src_memory_type, copy.src_host as u64, copy.src_device)?;
    let (to_origin, from_origin) =
        ([copy.dst_xin_bytes, copy.dst_y, copy.dst_z], [copy.src_xin_bytes, copy.src_y, copy.src_z]);
    let to = Place { pitch: copy.dst_pitch, height: copy.dst_height, origin: to_origin, ..to };
    let from = Place { pitch: copy.src_pitch, height: copy.src_height, origin: from_origin, ..from };
    Ok((to, from, [copy.width_in_bytes, copy.height, copy.depth]))
}

/// The structure for a copy of layers, as programs read it from nodes of captured graphs.
pub(crate) fn to_3d(to: &Place, from: &Place, size: [u64; 3]) -> Copy3d {
    let pointer = |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
    Copy3d {
        src_xin_bytes: from.origin[0],
        src_y: from.origin[1],
        src_z: from.origin[2],
        src_lod: 0,
        src_memory_type: from.memory,
        src_host: pointer(from.address).cast_const(),
        src_device: from.address,
        src_array: CuArray(0),
        reserved0: std::ptr::null_mut(),
        src_pitch: from.pitch,
        src_height: from.height,
        dst_xin_bytes: to.origin[0],
        dst_y: to.origin[1],
        dst_z: to.origin[2],
        dst_lod: 0,
        dst_memory_type: to.memory,
        dst_host: pointer(to.address),
        dst_device: to.address,
        dst_array: CuArray(0),
        reserved1: std::ptr::null_mut(),
        dst_pitch: to.pitch,
        dst_height: to.height,
        width_in_bytes: size[0],
        height: size[1],
        depth: size[2],
    }
}

fn place(memory: MemoryType, host: u64, device: u64) -> Outcome<Place> {
    match memory {
        MemoryType::HOST => Ok(Place::linear(host, memory)),
        MemoryType::DEVICE | MemoryType::UNIFIED => Ok(Place::linear(device, memory)),
        // There are no arrays.
        MemoryType::ARRAY => Err(CuResult::ERROR_NOT_SUPPORTED),
        _ => Err(CuResult::ERROR_INVALID_VALUE),
    }
}

/// A fill of rows.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    start: u64,
    pitch: u64,
    rows: u64,
    elements: u64,
    value: u32,
    width: u32,
    _allocation: Arc<Allocation>,
}

impl Fill {
    /// A fill of `rows` rows of `elements` elements of `width` bytes; none of nothing.
    ///
    /// # Errors
    /// INVALID_VALUE if the rows leave an allocation, or if an element is not aligned.
    pub(crate) fn new(
        memory: &Memory,
        start: u64,
        pitch: u64,
        value: u32,
        width: u32,
        elements: u64,
        rows: u64,
    ) -> Outcome<Option<Fill>> {
        let wrong = CuResult::ERROR_INVALID_VALUE;
        if !matches!(width, 1 | 2 | 4) || !start.is_multiple_of(width.into()) {
            return Err(wrong);
        }
        if elements == 0 || rows == 0 {
            return Ok(None);
        }
        let row = elements.checked_mul(width.into()).ok_or(wrong)?;
        if rows > 1 && (pitch < row || !pitch.is_multiple_of(width.into())) {
            return Err(wrong);
        }
        let length = pitch.checked_mul(rows - 1).and_then(|bytes| bytes.checked_add(row)).ok_or(wrong)?;
        let allocation = memory.range(start, length).ok_or(wrong)?;
        Ok(Some(Fill { start, pitch, rows, elements, value, width, _allocation: allocation }))
    }

    /// Fills, in a stream of a device, after what is known to be done.
    pub(crate) fn run(&self, memory: &Memory, origin: (u32, u64), known: &mut Known) {
        let transfer = Transfers::begin(memory, "a fill", origin, known);
        let length = self.elements * u64::from(self.width);
        for row in (0..self.rows).filter(|_| transfer.is_some()) {
            let start = self.start + row * self.pitch;
            transfer.iter().for_each(|transfer| {
                transfer.writes(start, length);
                transfer.fills(start, length);
            });
        }
        self.run_unchecked();
        transfer.iter().for_each(|transfer| transfer.end(known));
    }

    fn run_unchecked(&self) {
        for row in 0..self.rows {
            let start = self.start + row * self.pitch;
            for element in 0..self.elements {
                let address = start + element * u64::from(self.width);
                // SAFETY: `new` found all rows in the allocation, which is kept here, and aligned elements. Kernels and
                // copies access them as atomics too.
                unsafe {
                    match self.width {
                        1 => AtomicU8::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                            .store(self.value as u8, Ordering::Relaxed),
                        2 => AtomicU16::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                            .store(self.value as u16, Ordering::Relaxed),
                        _ => AtomicU32::from_ptr(std::ptr::with_exposed_provenance_mut(address as usize))
                            .store(self.value, Ordering::Relaxed),
                    }
                }
            }
        }
    }
}
