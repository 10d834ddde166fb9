//! Contexts: those of devices, those that programs create, and the stack of each thread.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vireo_cuda::attributes::Limit;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CONTEXT_FLAGS, ContextCreateParams, CuContext, CuDevice};

use crate::api::{Out, Outcome};
use crate::context::Context;
use crate::reports::tell;
use crate::system::{System, current, current_handle, current_whatever, system, with_stack};

/// The version of the interface of contexts that are created by the function of this version.
const API_VERSION: u32 = 3020;
/// The lowest and the highest priority of streams.
pub(crate) const PRIORITIES: (i32, i32) = (0, -5);

pub(crate) unsafe fn cuDevicePrimaryCtxRetain(context: *mut CuContext, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(context) }?;
    let mut primary = system.device(device)?.primary();
    let flags = primary.flags;
    let found = primary.context.get_or_insert_with(|| system.add_context(device.0 as u32, API_VERSION, flags));
    out.set(CuContext(found.handle()));
    primary.users += 1;
    Ok(())
}

fn end_primary(system: &System, device: CuDevice, is_last: impl Fn(u64) -> bool) -> Outcome {
    let mut primary = system.device(device)?.primary();
    if !is_last(primary.users) {
        primary.users = primary.users.checked_sub(1).ok_or(CuResult::ERROR_INVALID_CONTEXT)?;
        return Ok(());
    }
    primary.users = 0;
    let ended = primary.context.take();
    drop(primary);
    ended.iter().for_each(|context| system.end_context(context));
    Ok(())
}

pub(crate) unsafe fn cuDevicePrimaryCtxRelease_v2(device: CuDevice) -> Outcome {
    end_primary(system()?, device, |users| users == 1)
}

pub(crate) unsafe fn cuDevicePrimaryCtxReset_v2(device: CuDevice) -> Outcome {
    end_primary(system()?, device, |_| true)
}

pub(crate) unsafe fn cuDevicePrimaryCtxSetFlags_v2(device: CuDevice, flags: u32) -> Outcome {
    let mut primary = system()?.device(device)?.primary();
    if flags & !CONTEXT_FLAGS != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    primary.flags = flags;
    primary.context.iter().for_each(|context| context.flags.store(flags, Ordering::Relaxed));
    Ok(())
}

pub(crate) unsafe fn cuDevicePrimaryCtxRelease(device: CuDevice) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuDevicePrimaryCtxRelease_v2(device) }
}

pub(crate) unsafe fn cuDevicePrimaryCtxReset(device: CuDevice) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuDevicePrimaryCtxReset_v2(device) }
}

pub(crate) unsafe fn cuDevicePrimaryCtxSetFlags(device: CuDevice, flags: u32) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuDevicePrimaryCtxSetFlags_v2(device, flags) }
}

pub(crate) unsafe fn cuCtxDestroy(context: CuContext) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuCtxDestroy_v2(context) }
}

pub(crate) unsafe fn cuCtxPushCurrent(context: CuContext) -> Outcome {
    // SAFETY: it needs no pointers.
    unsafe { cuCtxPushCurrent_v2(context) }
}

pub(crate) unsafe fn cuCtxPopCurrent(context: *mut CuContext) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { cuCtxPopCurrent_v2(context) }
}

pub(crate) unsafe fn cuDevicePrimaryCtxGetState(device: CuDevice, flags: *mut u32, active: *mut i32) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for both.
    let (flags, active) = unsafe { (Out::new(flags)?, Out::new(active)?) };
    let primary = system.device(device)?.primary();
    flags.set(primary.flags);
    active.set(i32::from(primary.context.is_some()));
    Ok(())
}

/// Creates a context and makes it current.
///
/// # Safety
/// Unless it is null, the pointer is writable.
unsafe fn create(context: *mut CuContext, flags: u32, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(context) }?;
    system.device(device)?;
    if flags & !CONTEXT_FLAGS != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let created = system.add_context(device.0 as u32, API_VERSION, flags);
    with_stack(|stack| stack.push(created.handle()));
    out.set(CuContext(created.handle()));
    Ok(())
}

pub(crate) unsafe fn cuCtxCreate_v2(context: *mut CuContext, flags: u32, device: CuDevice) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { create(context, flags, device) }
}

pub(crate) unsafe fn cuCtxCreate_v3(
    context: *mut CuContext,
    _parameters: *mut c_void,
    count: i32,
    flags: u32,
    device: CuDevice,
) -> Outcome {
    if count != 0 {
        return Err(CuResult::ERROR_UNSUPPORTED_EXEC_AFFINITY);
    }
    // SAFETY: the caller vouches for it.
    unsafe { create(context, flags, device) }
}

pub(crate) unsafe fn cuCtxCreate_v4(
    context: *mut CuContext,
    parameters: *mut ContextCreateParams,
    flags: u32,
    device: CuDevice,
) -> Outcome {
    if !parameters.is_null() {
        // SAFETY: the caller vouches for it.
        let parameters = unsafe { parameters.read_unaligned() };
        if parameters.num_exec_affinity_params != 0 || !parameters.cig_params.is_null() {
            return Err(CuResult::ERROR_UNSUPPORTED_EXEC_AFFINITY);
        }
    }
    // SAFETY: the caller vouches for it.
    unsafe { create(context, flags, device) }
}

pub(crate) unsafe fn cuCtxDestroy_v2(context: CuContext) -> Outcome {
    let system = system()?;
    let found = system.context(context.0)?;
    let is_primary = system
        .devices
        .iter()
        .any(|device| device.primary().context.as_ref().is_some_and(|primary| Arc::ptr_eq(primary, &found)));
    if is_primary {
        return Err(CuResult::ERROR_INVALID_CONTEXT);
    }
    with_stack(|stack| {
        if stack.last() == Some(&context.0) {
            stack.pop();
        }
    });
    system.end_context(&found);
    Ok(())
}

pub(crate) unsafe fn cuCtxPushCurrent_v2(context: CuContext) -> Outcome {
    system()?.context(context.0)?;
    with_stack(|stack| stack.push(context.0));
    Ok(())
}

pub(crate) unsafe fn cuCtxPopCurrent_v2(context: *mut CuContext) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::optional(context) };
    let popped = with_stack(Vec::pop).ok_or(CuResult::ERROR_INVALID_CONTEXT)?;
    out.iter().for_each(|out| out.set(CuContext(popped)));
    Ok(())
}

pub(crate) unsafe fn cuCtxSetCurrent(context: CuContext) -> Outcome {
    let system = system()?;
    if context.0 != 0 {
        system.context(context.0)?;
    }
    with_stack(|stack| {
        stack.pop();
        if context.0 != 0 {
            stack.push(context.0);
        }
    });
    Ok(())
}

pub(crate) unsafe fn cuCtxGetCurrent(context: *mut CuContext) -> Outcome {
    system()?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(context) }?.set(CuContext(current_handle()));
    Ok(())
}

pub(crate) unsafe fn cuCtxGetDevice(device: *mut CuDevice) -> Outcome {
    let (_, context) = current_whatever()?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(device) }?.set(CuDevice(context.device as i32));
    Ok(())
}

/// The context with a handle, or the current one for 0.
fn context_or_current(handle: CuContext) -> Outcome<Arc<Context>> {
    match handle.0 {
        0 => current_whatever().map(|(_, context)| context),
        handle => system()?.context(handle),
    }
}

pub(crate) unsafe fn cuCtxGetDevice_v2(device: *mut CuDevice, context: CuContext) -> Outcome {
    let found = context_or_current(context)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(device) }?.set(CuDevice(found.device as i32));
    Ok(())
}

pub(crate) unsafe fn cuCtxGetFlags(flags: *mut u32) -> Outcome {
    let (_, context) = current_whatever()?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(flags) }?.set(context.flags.load(Ordering::Relaxed));
    Ok(())
}

pub(crate) unsafe fn cuCtxSetFlags(flags: u32) -> Outcome {
    let (_, context) = current()?;
    if flags & !CONTEXT_FLAGS != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    context.flags.store(flags, Ordering::Relaxed);
    Ok(())
}

pub(crate) unsafe fn cuCtxGetId(context: CuContext, id: *mut u64) -> Outcome {
    let found = context_or_current(context)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(id) }?.set(found.id);
    Ok(())
}

pub(crate) unsafe fn cuCtxSynchronize() -> Outcome {
    let (_, context) = current_whatever()?;
    context.synchronize()
}

pub(crate) unsafe fn cuCtxSynchronize_v2(context: CuContext) -> Outcome {
    context_or_current(context)?.synchronize()
}

/// Bytes of the heap of each module, which `device_heap.ptx` has.
const HEAP_BYTES: u64 = 8 << 20;

/// The value of a limit that the program did not set.
fn default_limit(limit: Limit) -> Outcome<u64> {
    Ok(match limit {
        Limit::STACK_SIZE => 1 << 10,
        Limit::PRINTF_FIFO_SIZE => 1 << 20,
        Limit::MALLOC_HEAP_SIZE => HEAP_BYTES,
        Limit::DEV_RUNTIME_SYNC_DEPTH => 2,
        Limit::DEV_RUNTIME_PENDING_LAUNCH_COUNT => 2048,
        Limit::MAX_L2_FETCH_GRANULARITY => 64,
        Limit::PERSISTING_L2_CACHE_SIZE => 0,
        _ if limit.name().is_some() => return Err(CuResult::ERROR_UNSUPPORTED_LIMIT),
        _ => return Err(CuResult::ERROR_INVALID_VALUE),
    })
}

pub(crate) unsafe fn cuCtxSetLimit(limit: Limit, value: u64) -> Outcome {
    let (_, context) = current()?;
    default_limit(limit)?;
    if limit == Limit::MALLOC_HEAP_SIZE {
        // The heap is of fixed size, and a driver may give more than is asked for.
        if value > HEAP_BYTES {
            tell(format_args!("cuCtxSetLimit: a heap of {value} bytes: expected {HEAP_BYTES} at most"));
            return Err(CuResult::ERROR_OUT_OF_MEMORY);
        }
        return Ok(());
    }
    context.settings().limits.insert(limit.0, value);
    Ok(())
}

pub(crate) unsafe fn cuCtxGetLimit(value: *mut u64, limit: Limit) -> Outcome {
    let (_, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(value) }?;
    let default = default_limit(limit)?;
    out.set(context.settings().limits.get(&limit.0).copied().unwrap_or(default));
    Ok(())
}

pub(crate) unsafe fn cuCtxGetCacheConfig(config: *mut u32) -> Outcome {
    let (_, context) = current()?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(config) }?.set(context.settings().cache);
    Ok(())
}

pub(crate) unsafe fn cuCtxSetCacheConfig(config: u32) -> Outcome {
    let (_, context) = current()?;
    context.settings().cache = config;
    Ok(())
}

pub(crate) unsafe fn cuCtxGetSharedMemConfig(config: *mut u32) -> Outcome {
    let (_, context) = current()?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(config) }?.set(context.settings().banks);
    Ok(())
}

pub(crate) unsafe fn cuCtxSetSharedMemConfig(config: u32) -> Outcome {
    let (_, context) = current()?;
    context.settings().banks = config;
    Ok(())
}

pub(crate) unsafe fn cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32) -> Outcome {
    current()?;
    // SAFETY: the caller vouches for both.
    let (least, greatest) = unsafe { (Out::optional(least), Out::optional(greatest)) };
    least.iter().for_each(|out| out.set(PRIORITIES.0));
    greatest.iter().for_each(|out| out.set(PRIORITIES.1));
    Ok(())
}

pub(crate) unsafe fn cuCtxResetPersistingL2Cache() -> Outcome {
    current().map(|_| ())
}

pub(crate) unsafe fn cuCtxGetApiVersion(context: CuContext, version: *mut u32) -> Outcome {
    let found = context_or_current(context)?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(version) }?.set(found.api_version);
    Ok(())
}

pub(crate) unsafe fn cuCtxEnablePeerAccess(peer: CuContext, flags: u32) -> Outcome {
    let (system, context) = current()?;
    let other = system.context(peer.0)?;
    if flags != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    if other.device == context.device {
        return Err(CuResult::ERROR_INVALID_DEVICE);
    }
    if !context.settings().peers.insert(peer.0) {
        return Err(CuResult::ERROR_PEER_ACCESS_ALREADY_ENABLED);
    }
    system.memory.set_peer(other.device, context.device, true);
    Ok(())
}

pub(crate) unsafe fn cuCtxDisablePeerAccess(peer: CuContext) -> Outcome {
    let (system, context) = current()?;
    let other = system.context(peer.0)?;
    if !context.settings().peers.remove(&peer.0) {
        return Err(CuResult::ERROR_PEER_ACCESS_NOT_ENABLED);
    }
    system.memory.set_peer(other.device, context.device, false);
    Ok(())
}
