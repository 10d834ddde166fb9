//! Transfers through mappings, between the host and buffers and between buffers, and the checks of ranges, usage and
//! access that they share. Hosts, queues and objects of the HAL call them.

use std::sync::Arc;

use super::{Buffer, BufferParams, BufferUsage, Device, Mapping, MappingMode, MemoryAccess, MemoryType, WHOLE_BUFFER};
use crate::limits::work;
use crate::status::{Result, Status};

/// Checks `offset..offset + length` against a buffer of `available` bytes and returns the length; `WHOLE_BUFFER` is
/// what is left.
///
/// # Errors
/// `OUT_OF_RANGE` if the range is not inside.
pub fn check_range(available: u64, offset: u64, length: u64) -> Result<u64> {
    // Programs have signed numbers, and no buffer is so long that the sign means anything else.
    let signed = u64::cast_signed;
    let left = available.checked_sub(offset).ok_or_else(|| {
        let offset = signed(offset);
        Status::out_of_range(format!("offset {offset} is past the end of a buffer of {available} bytes"))
    })?;
    match length {
        WHOLE_BUFFER => Ok(left),
        length if length <= left => Ok(length),
        _ => Err(Status::out_of_range(format!(
            "range at offset {} of length {} exceeds a buffer of {available} bytes",
            signed(offset),
            signed(length)
        ))),
    }
}

/// Checks that `buffer` may be used for all of `usage`.
///
/// # Errors
/// `PERMISSION_DENIED` if one of them is not allowed.
pub fn require_usage(buffer: &dyn Buffer, usage: BufferUsage) -> Result<()> {
    let allowed = buffer.allowed_usage();
    if allowed.contains(usage) {
        return Ok(());
    }
    let message = format!("the buffer may not be used as {:?}: it allows {allowed:?}", usage - allowed);
    Err(Status::permission_denied(message))
}

/// Checks that all of `access` may be done with `buffer`. `ANY` is not checked.
///
/// # Errors
/// `PERMISSION_DENIED` if one of them is not allowed.
pub fn require_access(buffer: &dyn Buffer, access: MemoryAccess) -> Result<()> {
    let allowed = buffer.allowed_access();
    let modifiers = MemoryAccess::MAY_ALIAS | MemoryAccess::UNALIGNED;
    if access.contains(MemoryAccess::ANY) || (allowed | modifiers).contains(access) {
        return Ok(());
    }
    let message = format!("the buffer does not allow {:?}: it allows {allowed:?}", access - allowed - modifiers);
    Err(Status::permission_denied(message))
}

/// The mode of mappings of the host.
const HOST: MappingMode = MappingMode::SCOPED;

/// The mode of mappings of devices.
const DEVICE: MappingMode = MappingMode::SCOPED.union(MappingMode::UNWATCHED);

fn map(
    buffer: &dyn Buffer,
    mode: MappingMode,
    access: MemoryAccess,
    offset: u64,
    length: u64,
) -> Result<(Mapping, usize)> {
    let mapping = buffer.map_range(mode, access, offset, length)?;
    let length = usize::try_from(mapping.length)
        .map_err(|_| Status::out_of_range("the mapping does not fit the address space"))?;
    Ok((mapping, length))
}

/// A new buffer of `device` with a copy of `bytes`, which the host can map and programs can use for anything.
///
/// # Errors
/// Those of the allocator of the device, such as `RESOURCE_EXHAUSTED`.
pub fn buffer_from_bytes(device: &dyn Device, bytes: &[u8]) -> Result<Arc<dyn Buffer>> {
    let params = BufferParams {
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        access: MemoryAccess::ALL,
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        ..BufferParams::default()
    };
    let buffer = device.allocator().allocate_buffer(params, bytes.len() as u64)?;
    buffer_write(&*buffer, 0, bytes)?;
    Ok(buffer)
}

/// A copy of the first `length` bytes of `buffer`.
///
/// # Errors
/// `OUT_OF_RANGE` if the buffer is shorter, `RESOURCE_EXHAUSTED` if there is no memory for the copy, and as
/// [`buffer_read`].
pub fn buffer_to_vec(buffer: &dyn Buffer, length: u64) -> Result<Vec<u8>> {
    // The range comes first, so that no more memory is taken than the buffer has.
    check_range(buffer.byte_length(), 0, length)?;
    let mut bytes = Vec::new();
    let size = usize::try_from(length).ok().filter(|size| bytes.try_reserve_exact(*size).is_ok());
    let size = size.ok_or_else(|| Status::resource_exhausted(format!("no memory for a copy of {length} bytes")))?;
    bytes.resize(size, 0);
    buffer_read(buffer, 0, &mut bytes)?;
    Ok(bytes)
}

/// Copies `out.len()` bytes at `offset` into `out`.
///
/// # Errors
/// `OUT_OF_RANGE` if the range is not inside, `PERMISSION_DENIED` if the buffer may not be mapped or read, and other
/// failures of mapping it.
pub fn buffer_read(buffer: &dyn Buffer, offset: u64, out: &mut [u8]) -> Result<()> {
    let (mapping, length) = map(buffer, HOST, MemoryAccess::READ, offset, out.len() as u64)?;
    // SAFETY: `map_range` gives exactly the bytes asked for and they live as long as the mapping; `out` is exclusively
    // ours, so it cannot be part of them.
    unsafe { work::copy_bytes(mapping.data.as_ptr(), out.as_mut_ptr(), length) }
}

/// Copies `bytes` into the buffer at `offset`.
///
/// # Errors
/// `OUT_OF_RANGE` if the range is not inside, `PERMISSION_DENIED` if the buffer may not be mapped or written, and other
/// failures of mapping it.
pub fn buffer_write(buffer: &dyn Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
    write(buffer, HOST, offset, bytes)
}

fn write(buffer: &dyn Buffer, mode: MappingMode, offset: u64, bytes: &[u8]) -> Result<()> {
    let (mapping, length) = map(buffer, mode, MemoryAccess::WRITE, offset, bytes.len() as u64)?;
    // SAFETY: `map_range` gives exactly the bytes asked for and they live as long as the mapping. Memory that buffers
    // write has no Rust references to it, so `bytes` cannot be part of it.
    unsafe { work::copy_bytes(bytes.as_ptr(), mapping.data.as_ptr(), length) }?;
    buffer.flush_range(offset, bytes.len() as u64)
}

/// Fills a range with a repeated pattern of 1, 2, 4 or 8 bytes. Offset and length must be multiples of the pattern's
/// length.
///
/// # Errors
/// `INVALID_ARGUMENT` for a pattern of another length, or a range that is no multiple of it, and as [`buffer_write`].
pub fn buffer_fill(buffer: &dyn Buffer, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
    fill(buffer, HOST, offset, length, pattern)
}

fn fill(buffer: &dyn Buffer, mode: MappingMode, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
    let step = check_pattern(pattern)?;
    let (mapping, length) = map(buffer, mode, MemoryAccess::WRITE, offset, length)?;
    check_fill(step, offset, length as u64)?;
    let data = mapping.data.as_ptr();
    if pattern.iter().all(|byte| *byte == pattern[0]) {
        work::in_parts(length, |part| {
            // SAFETY: the mapping is `length` bytes long.
            unsafe { data.add(part.start).write_bytes(pattern[0], part.len()) };
        })?;
    } else {
        let mut filled = pattern.len().min(length);
        // SAFETY: both are at least `filled` bytes long, and patterns are never part of a buffer.
        unsafe { data.copy_from_nonoverlapping(pattern.as_ptr(), filled) };
        // The filled part is a whole number of patterns, so it is continued by copies of itself.
        while filled < length {
            let step = filled.min(length - filled);
            // SAFETY: the first `filled` bytes and the `step` bytes after them are within the mapping and do not
            // overlap.
            unsafe { work::copy_bytes(data, data.add(filled), step) }?;
            filled += step;
        }
    }
    buffer.flush_range(offset, length as u64)
}

/// Checks that a fill pattern is 1, 2, 4 or 8 bytes long and returns its length.
///
/// # Errors
/// `INVALID_ARGUMENT` for another length.
pub fn check_pattern(pattern: &[u8]) -> Result<u64> {
    match pattern.len() {
        1 | 2 | 4 | 8 => Ok(pattern.len() as u64),
        length => Err(Status::invalid_argument(format!("fill pattern of {length} bytes: expected 1, 2, 4 or 8"))),
    }
}

/// Checks the range of a fill with a pattern of `step` bytes, as far as it is known.
///
/// # Errors
/// `INVALID_ARGUMENT` unless offset and length are multiples of them.
pub fn check_fill(step: u64, offset: u64, length: u64) -> Result<()> {
    if offset.is_multiple_of(step) && (length == WHOLE_BUFFER || length.is_multiple_of(step)) {
        return Ok(());
    }
    Err(Status::invalid_argument(format!(
        "fill at offset {offset} of length {length}: expected multiples of the pattern's {step} bytes"
    )))
}

/// Checks the lengths of both ends of a copy.
///
/// # Errors
/// `INVALID_ARGUMENT` if they differ.
pub fn check_copy(source: u64, target: u64) -> Result<()> {
    if source == target {
        return Ok(());
    }
    Err(Status::invalid_argument(format!("copy of a range of {source} bytes to one of {target}")))
}

/// Copies a range. Overlapping ranges are copied as if through a temporary buffer (`memmove`).
///
/// # Errors
/// As [`buffer_read`] for the source and [`buffer_write`] for the target.
pub fn buffer_copy(
    source: &dyn Buffer,
    source_offset: u64,
    target: &dyn Buffer,
    target_offset: u64,
    length: u64,
) -> Result<()> {
    copy(HOST, (source, source_offset), (target, target_offset), length)
}

fn copy(
    mode: MappingMode,
    (source, source_offset): (&dyn Buffer, u64),
    (target, target_offset): (&dyn Buffer, u64),
    length: u64,
) -> Result<()> {
    let (from, length) = map(source, mode, MemoryAccess::READ, source_offset, length)?;
    let (to, length) = map(target, mode, MemoryAccess::WRITE, target_offset, length as u64)?;
    // SAFETY: both mappings are `length` bytes long; they may overlap, which `copy_bytes` allows.
    unsafe { work::copy_bytes(from.data.as_ptr(), to.data.as_ptr(), length) }?;
    target.flush_range(target_offset, length as u64)
}

/// The same transfers for devices, which make them for operations of queues: no watcher of what the host writes is told
/// of them.
pub mod unwatched {
    use super::{Buffer, DEVICE, Result, copy, fill, write};

    /// As [`buffer_write`](super::buffer_write).
    ///
    /// # Errors
    /// Those of it.
    pub fn buffer_write(buffer: &dyn Buffer, offset: u64, bytes: &[u8]) -> Result<()> {
        write(buffer, DEVICE, offset, bytes)
    }

    /// As [`buffer_fill`](super::buffer_fill).
    ///
    /// # Errors
    /// Those of it.
    pub fn buffer_fill(buffer: &dyn Buffer, offset: u64, length: u64, pattern: &[u8]) -> Result<()> {
        fill(buffer, DEVICE, offset, length, pattern)
    }

    /// As [`buffer_copy`](super::buffer_copy).
    ///
    /// # Errors
    /// Those of it.
    pub fn buffer_copy(
        source: &dyn Buffer,
        source_offset: u64,
        target: &dyn Buffer,
        target_offset: u64,
        length: u64,
    ) -> Result<()> {
        copy(DEVICE, (source, source_offset), (target, target_offset), length)
    }
}
