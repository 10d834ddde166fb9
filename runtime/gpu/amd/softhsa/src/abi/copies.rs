//! Asynchronous copies, their times, and moves of shared memory.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vireo_hsa::hsa::{
    Agent as AgentHandle, CBool, CopyDirection, Dim3, HsaStatus, PitchedPointer, ProfilingAsyncCopyTime, SdmaEngine,
};
use vireo_hsa::signal::Signal as SignalHandle;

use super::pointers::{Out, array, call};
use crate::copies::{self, Copy, Pitched};
use crate::signals::Signal;
use crate::status::Result;
use crate::system::System;
use crate::topology::Feature;

/// The signals that a copy waits for.
///
/// # Safety
/// Unless it is null, the pointer has that many handles.
unsafe fn signals(system: &System, count: u32, signals: *const SignalHandle) -> Result<Vec<Arc<Signal>>> {
    // SAFETY: the caller guarantees that the pointer has that many handles.
    let handles = unsafe { array(signals, count as usize) }?;
    handles.into_iter().map(|signal| system.signals.get(signal)).collect()
}

/// A number for each dimension.
///
/// # Safety
/// Unless it is null, the pointer has them.
unsafe fn dimensions(pointer: *const Dim3) -> Result<[u32; 3]> {
    // SAFETY: the caller guarantees that the pointer has the numbers.
    let numbers = unsafe { array(pointer, 1) }?[0];
    Ok([numbers.x, numbers.y, numbers.z])
}

/// The place of the byte at an offset of a box.
///
/// # Safety
/// Unless they are null, the pointers have the box and the offset.
unsafe fn pitched(memory: *const PitchedPointer, offset: *const Dim3) -> Result<Pitched> {
    // SAFETY: the caller guarantees that the pointers have the box and the offset.
    let (memory, offset) = unsafe { (array(memory, 1)?[0], dimensions(offset)?) };
    let place = Pitched { start: memory.base, pitch: memory.pitch, slice: memory.slice };
    place.at(offset).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_async_copy(
    dst: *mut c_void,
    dst_agent: AgentHandle,
    src: *const c_void,
    src_agent: AgentHandle,
    size: u64,
    num_dep_signals: u32,
    dep_signals: *const SignalHandle,
    completion_signal: SignalHandle,
) -> HsaStatus {
    call(|system| {
        system.agent(dst_agent)?;
        system.agent(src_agent)?;
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let waits = unsafe { signals(system, num_dep_signals, dep_signals) }?;
        let (to, from) = (dst.expose_provenance() as u64, src.expose_provenance() as u64);
        let completion = system.signals.get(completion_signal)?;
        // SAFETY: the caller vouches for memory that is its own until the completion signal is decremented.
        unsafe { copies::start(system, [Copy { to, from, size }], waits, completion) }
    })
}

/// There are no engines, so each of them, and none, copies in the same way.
pub(crate) unsafe extern "C" fn hsa_amd_memory_async_copy_on_engine(
    dst: *mut c_void,
    dst_agent: AgentHandle,
    src: *const c_void,
    src_agent: AgentHandle,
    size: u64,
    num_dep_signals: u32,
    dep_signals: *const SignalHandle,
    completion_signal: SignalHandle,
    engine_id: SdmaEngine,
    _force_copy_on_sdma: CBool,
) -> HsaStatus {
    if engine_id.name().is_none() {
        return HsaStatus::ERROR_INVALID_ARGUMENT;
    }
    // SAFETY: the caller promises what the other function asks for.
    unsafe {
        hsa_amd_memory_async_copy(dst, dst_agent, src, src_agent, size, num_dep_signals, dep_signals, completion_signal)
    }
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_async_copy_rect(
    dst: *const PitchedPointer,
    dst_offset: *const Dim3,
    src: *const PitchedPointer,
    src_offset: *const Dim3,
    range: *const Dim3,
    copy_agent: AgentHandle,
    dir: CopyDirection,
    num_dep_signals: u32,
    dep_signals: *const SignalHandle,
    completion_signal: SignalHandle,
) -> HsaStatus {
    call(|system| {
        if dir.name().is_none() || dir == CopyDirection::HOST_TO_HOST {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if !system.agent(copy_agent)?.is_gpu() {
            return Err(HsaStatus::ERROR_INVALID_AGENT);
        }
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (waits, to, from, range) = unsafe {
            let waits = signals(system, num_dep_signals, dep_signals)?;
            (waits, pitched(dst, dst_offset)?, pitched(src, src_offset)?, dimensions(range)?)
        };
        let known = |start| system.memory.find(start).is_some();
        let is_whole = |start, length| !known(start) || system.memory.range(start, length).is_some();
        let rows = copies::rows(to, from, range, &is_whole)?;
        let completion = system.signals.get(completion_signal)?;
        // SAFETY: the caller vouches for memory that is its own until the completion signal is decremented.
        unsafe { copies::start(system, rows, waits, completion) }
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_profiling_async_copy_enable(enable: CBool) -> HsaStatus {
    call(|system| {
        system.copy_profiling.store(enable.0 != 0, Ordering::Relaxed);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_profiling_get_async_copy_time(
    signal: SignalHandle,
    time: *mut ProfilingAsyncCopyTime,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(time) }?;
        let (start, end) = system.signals.get(signal)?.copy_times().ok_or(HsaStatus::ERROR)?;
        out.set(ProfilingAsyncCopyTime { start, end });
        Ok(())
    })
}

/// Memory is where it is, so nothing moves; the completion signal is decremented when the others are zero.
pub(crate) unsafe extern "C" fn hsa_amd_svm_prefetch_async(
    ptr: *mut c_void,
    size: u64,
    agent: AgentHandle,
    num_dep_signals: u32,
    dep_signals: *const SignalHandle,
    completion_signal: SignalHandle,
) -> HsaStatus {
    call(|system| {
        system.agent(agent)?;
        if !system.topology.has(Feature::Svm) || ptr.is_null() || size == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let waits = unsafe { signals(system, num_dep_signals, dep_signals) }?;
        let completion = system.signals.get(completion_signal)?;
        // SAFETY: nothing is copied.
        unsafe { copies::start(system, [], waits, completion) }
    })
}
