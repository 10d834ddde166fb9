//! Fills, at once and in streams. Those at once are in the default stream, and wait for it.

use vireo_cuda::types::{CuStream, MemsetNodeParams};

use crate::api::Outcome;
use crate::capture::submit;
use crate::graph::{NodeKind, Vouched};
use crate::system::stream;
use crate::transfer::Fill;

/// The rows of a fill: the first address, bytes from row to row, elements of a row, and rows.
struct Rows(u64, u64, u64, u64);

/// Fills in a stream, with an element of `width` bytes.
fn fill(rows: Rows, value: u32, width: u32, handle: CuStream, waits: bool) -> Outcome {
    let (system, found) = stream(handle)?;
    let Rows(to, pitch, elements, rows) = rows;
    let Some(fill) = Fill::new(&system.memory, to, pitch, value, width, elements, rows)? else { return Ok(()) };
    let wanted = MemsetNodeParams { dst: to, pitch, value, element_size: width, width: elements, height: rows };
    let op = submit(system, &found, NodeKind::Fill(Vouched(wanted), Some(fill)))?;
    if let Some(op) = op.filter(|_| waits) { found.context.wait(&op) } else { Ok(()) }
}

pub(crate) unsafe fn cuMemsetD8_v2(to: u64, value: u8, count: u64) -> Outcome {
    fill(Rows(to, 0, count, 1), value.into(), 1, CuStream(0), true)
}

pub(crate) unsafe fn cuMemsetD8Async(to: u64, value: u8, count: u64, handle: CuStream) -> Outcome {
    fill(Rows(to, 0, count, 1), value.into(), 1, handle, false)
}

pub(crate) unsafe fn cuMemsetD2D8_v2(to: u64, pitch: u64, value: u8, width: u64, height: u64) -> Outcome {
    fill(Rows(to, pitch, width, height), value.into(), 1, CuStream(0), true)
}

pub(crate) unsafe fn cuMemsetD2D8Async(
    to: u64,
    pitch: u64,
    value: u8,
    width: u64,
    height: u64,
    handle: CuStream,
) -> Outcome {
    fill(Rows(to, pitch, width, height), value.into(), 1, handle, false)
}

pub(crate) unsafe fn cuMemsetD16_v2(to: u64, value: u16, count: u64) -> Outcome {
    fill(Rows(to, 0, count, 1), value.into(), 2, CuStream(0), true)
}

pub(crate) unsafe fn cuMemsetD16Async(to: u64, value: u16, count: u64, handle: CuStream) -> Outcome {
    fill(Rows(to, 0, count, 1), value.into(), 2, handle, false)
}

pub(crate) unsafe fn cuMemsetD2D16_v2(to: u64, pitch: u64, value: u16, width: u64, height: u64) -> Outcome {
    fill(Rows(to, pitch, width, height), value.into(), 2, CuStream(0), true)
}

pub(crate) unsafe fn cuMemsetD2D16Async(
    to: u64,
    pitch: u64,
    value: u16,
    width: u64,
    height: u64,
    handle: CuStream,
) -> Outcome {
    fill(Rows(to, pitch, width, height), value.into(), 2, handle, false)
}

pub(crate) unsafe fn cuMemsetD32_v2(to: u64, value: u32, count: u64) -> Outcome {
    fill(Rows(to, 0, count, 1), value, 4, CuStream(0), true)
}

pub(crate) unsafe fn cuMemsetD32Async(to: u64, value: u32, count: u64, handle: CuStream) -> Outcome {
    fill(Rows(to, 0, count, 1), value, 4, handle, false)
}

pub(crate) unsafe fn cuMemsetD2D32_v2(to: u64, pitch: u64, value: u32, width: u64, height: u64) -> Outcome {
    fill(Rows(to, pitch, width, height), value, 4, CuStream(0), true)
}

pub(crate) unsafe fn cuMemsetD2D32Async(
    to: u64,
    pitch: u64,
    value: u32,
    width: u64,
    height: u64,
    handle: CuStream,
) -> Outcome {
    fill(Rows(to, pitch, width, height), value, 4, handle, false)
}
