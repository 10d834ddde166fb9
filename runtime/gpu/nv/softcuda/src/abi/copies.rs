//! Copies, at once and in streams. Those at once are in the default stream, and wait for it.

use std::ffi::c_void;

use vireo_cuda::types::{Copy2d, Copy3d, Copy3dPeer, CuContext, CuStream, MemoryType};

use crate::api::Outcome;
use crate::capture::submit;
use crate::graph::{NodeKind, Vouched};
use crate::system::{stream, system};
use crate::transfer::{Copy, Place, of_2d, of_3d, of_3d_peer, to_3d};

/// Copies in a stream. It waits for the copy if `waits`, or if memory of the program that nothing pins is written.
///
/// # Safety
/// Memory of the program is as large as the copy, and stays so until the copy is done.
unsafe fn copy(to: Place, from: Place, size: [u64; 3], handle: CuStream, waits: bool) -> Outcome {
    let (system, found) = stream(handle)?;
    // A copy that is waited for needs no second copy of its source, and a captured one reads it later.
    let is_captured = system.captures.of(&found).is_some();
    if waits && is_captured {
        return system.captures.refuse(&found);
    }
    let stage = !waits && !is_captured;
    // SAFETY: the caller vouches for the memory.
    let copy = unsafe { Copy::new(&system.memory, to, from, size, stage) }?;
    let Some(copy) = copy else {
        return if waits { found.synchronize() } else { Ok(()) };
    };
    let waits = waits || copy.is_pageable();
    let kind = NodeKind::Copy(Box::new(Vouched(to_3d(&to, &from, size))), Some(Box::new(copy)));
    let op = submit(system, &found, kind)?;
    if let Some(op) = op.filter(|_| waits) { found.context.wait(&op) } else { Ok(()) }
}

/// The structure at an address.
///
/// # Safety
/// Unless it is null, there is one.
unsafe fn read<T: std::marker::Copy>(pointer: *const T) -> Outcome<T> {
    if pointer.is_null() {
        return Err(vireo_cuda::result::CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    Ok(unsafe { pointer.read_unaligned() })
}

/// Refuses contexts that are not there.
fn check_contexts(contexts: [CuContext; 2]) -> Outcome {
    let system = system()?;
    contexts.iter().try_for_each(|context| system.context(context.0).map(|_| ()))
}

pub(crate) unsafe fn cuMemcpy(to: u64, from: u64, size: u64) -> Outcome {
    let (to, from) = (Place::linear(to, MemoryType::UNIFIED), Place::linear(from, MemoryType::UNIFIED));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpyAsync(to: u64, from: u64, size: u64, handle: CuStream) -> Outcome {
    let (to, from) = (Place::linear(to, MemoryType::UNIFIED), Place::linear(from, MemoryType::UNIFIED));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], handle, false) }
}

pub(crate) unsafe fn cuMemcpyHtoD_v2(to: u64, from: *const c_void, size: u64) -> Outcome {
    let (to, from) =
        (Place::linear(to, MemoryType::DEVICE), Place::linear(from.expose_provenance() as u64, MemoryType::HOST));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpyHtoDAsync_v2(to: u64, from: *const c_void, size: u64, handle: CuStream) -> Outcome {
    let (to, from) =
        (Place::linear(to, MemoryType::DEVICE), Place::linear(from.expose_provenance() as u64, MemoryType::HOST));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], handle, false) }
}

pub(crate) unsafe fn cuMemcpyDtoH_v2(to: *mut c_void, from: u64, size: u64) -> Outcome {
    let (to, from) =
        (Place::linear(to.expose_provenance() as u64, MemoryType::HOST), Place::linear(from, MemoryType::DEVICE));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpyDtoHAsync_v2(to: *mut c_void, from: u64, size: u64, handle: CuStream) -> Outcome {
    let (to, from) =
        (Place::linear(to.expose_provenance() as u64, MemoryType::HOST), Place::linear(from, MemoryType::DEVICE));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], handle, false) }
}

pub(crate) unsafe fn cuMemcpyDtoD_v2(to: u64, from: u64, size: u64) -> Outcome {
    let (to, from) = (Place::linear(to, MemoryType::DEVICE), Place::linear(from, MemoryType::DEVICE));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpyDtoDAsync_v2(to: u64, from: u64, size: u64, handle: CuStream) -> Outcome {
    let (to, from) = (Place::linear(to, MemoryType::DEVICE), Place::linear(from, MemoryType::DEVICE));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], handle, false) }
}

pub(crate) unsafe fn cuMemcpyPeer(
    to: u64,
    to_context: CuContext,
    from: u64,
    from_context: CuContext,
    size: u64,
) -> Outcome {
    check_contexts([to_context, from_context])?;
    let (to, from) = (Place::linear(to, MemoryType::DEVICE), Place::linear(from, MemoryType::DEVICE));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpyPeerAsync(
    to: u64,
    to_context: CuContext,
    from: u64,
    from_context: CuContext,
    size: u64,
    handle: CuStream,
) -> Outcome {
    check_contexts([to_context, from_context])?;
    let (to, from) = (Place::linear(to, MemoryType::DEVICE), Place::linear(from, MemoryType::DEVICE));
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, [size, 1, 1], handle, false) }
}

pub(crate) unsafe fn cuMemcpy2D_v2(wanted: *const Copy2d) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(wanted) }?;
    let (to, from, size) = of_2d(&wanted)?;
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, size, CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpy2DUnaligned_v2(wanted: *const Copy2d) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(wanted) }?;
    let (to, from, size) = of_2d(&wanted)?;
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, size, CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpy3D_v2(wanted: *const Copy3d) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(wanted) }?;
    let (to, from, size) = of_3d(&wanted)?;
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, size, CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpy3DPeer(wanted: *const Copy3dPeer) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(wanted) }?;
    check_contexts([wanted.dst_context, wanted.src_context])?;
    let (to, from, size) = of_3d_peer(&wanted)?;
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, size, CuStream(0), true) }
}

pub(crate) unsafe fn cuMemcpy2DAsync_v2(wanted: *const Copy2d, handle: CuStream) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(wanted) }?;
    let (to, from, size) = of_2d(&wanted)?;
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, size, handle, false) }
}

pub(crate) unsafe fn cuMemcpy3DAsync_v2(wanted: *const Copy3d, handle: CuStream) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(wanted) }?;
    let (to, from, size) = of_3d(&wanted)?;
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, size, handle, false) }
}

pub(crate) unsafe fn cuMemcpy3DPeerAsync(wanted: *const Copy3dPeer, handle: CuStream) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let wanted = unsafe { read(wanted) }?;
    check_contexts([wanted.dst_context, wanted.src_context])?;
    let (to, from, size) = of_3d_peer(&wanted)?;
    // SAFETY: the caller vouches for the memory.
    unsafe { copy(to, from, size, handle, false) }
}
