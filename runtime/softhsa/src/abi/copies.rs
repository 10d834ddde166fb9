//! Asynchronous copies, and moves of shared memory.

use std::ffi::c_void;

use vireo_hsa::hsa::{Agent as AgentHandle, HsaStatus};
use vireo_hsa::signal::Signal as SignalHandle;

use super::pointers::{array, call};
use crate::copies;
use crate::status::Result;
use crate::topology::Feature;

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
        let waits = unsafe { array(dep_signals, num_dep_signals as usize) }?;
        let waits = waits.into_iter().map(|signal| system.signals.get(signal)).collect::<Result<Vec<_>>>()?;
        let (to, from) = (dst.expose_provenance() as u64, src.expose_provenance() as u64);
        let completion = system.signals.get(completion_signal)?;
        // SAFETY: the caller vouches for memory that is its own until the completion signal is decremented.
        unsafe { copies::start(system, Some(copies::Copy { to, from, size }), waits, completion) }
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
        let waits = unsafe { array(dep_signals, num_dep_signals as usize) }?;
        let waits = waits.into_iter().map(|signal| system.signals.get(signal)).collect::<Result<Vec<_>>>()?;
        let completion = system.signals.get(completion_signal)?;
        // SAFETY: nothing is copied.
        unsafe { copies::start(system, None, waits, completion) }
    })
}
