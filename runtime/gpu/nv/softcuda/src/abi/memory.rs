//! Allocations of devices, of the host and of both.

use std::ffi::c_void;

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    CuDevice, CuStream, HOST_ALLOC_FLAGS, HOST_REGISTER_FLAGS, MEM_ATTACH_GLOBAL, MEM_ATTACH_HOST, TEXTURE_ALIGNMENT,
};

use crate::api::{Out, Outcome};
use crate::context::Context;
use crate::memory::{Detail, Sort};
use crate::system::{current, current_whatever, stream, system};

/// The details of a new allocation of a context.
fn detail(context: &Context, sort: Sort, size: u64, flags: u32) -> Detail {
    Detail { sort, context: context.handle(), device: context.device, pool: 0, size, flags, is_ending: false }
}

pub(crate) unsafe fn cuMemGetInfo_v2(free: *mut u64, total: *mut u64) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for both.
    let (free, total) = unsafe { (Out::new(free)?, Out::new(total)?) };
    let limit = system.memory.limit();
    free.set(limit.saturating_sub(system.memory.used(context.device)));
    total.set(limit);
    Ok(())
}

pub(crate) unsafe fn cuMemAlloc_v2(address: *mut u64, size: u64) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(address) }?;
    out.set(system.memory.allocate(detail(&context, Sort::Device, size, 0))?);
    Ok(())
}

pub(crate) unsafe fn cuMemAllocPitch_v2(
    address: *mut u64,
    pitch: *mut u64,
    width: u64,
    height: u64,
    element: u32,
) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for both.
    let (out, out_pitch) = unsafe { (Out::new(address)?, Out::new(pitch)?) };
    if width == 0 || height == 0 || !matches!(element, 4 | 8 | 16) {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let pitch = width.checked_next_multiple_of(TEXTURE_ALIGNMENT).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let size = pitch.checked_mul(height).ok_or(CuResult::ERROR_OUT_OF_MEMORY)?;
    out.set(system.memory.allocate(detail(&context, Sort::Device, size, 0))?);
    out_pitch.set(pitch);
    Ok(())
}

pub(crate) unsafe fn cuMemFree_v2(address: u64) -> Outcome {
    if address == 0 {
        return system().map(|_| ());
    }
    let (system, context) = current_whatever()?;
    system.memory.claim(address, |sort| matches!(sort, Sort::Device | Sort::Managed))?;
    // Kernels and copies that run may use it.
    context.drain();
    system.memory.free(address, "cuMemFree");
    context.status()
}

pub(crate) unsafe fn cuMemGetAddressRange_v2(base: *mut u64, size: *mut u64, address: u64) -> Outcome {
    let (system, _) = current()?;
    // SAFETY: the caller vouches for both.
    let (base, size) = unsafe { (Out::optional(base), Out::optional(size)) };
    let (start, found) = system.memory.find(address).ok_or(CuResult::ERROR_NOT_FOUND)?;
    base.iter().for_each(|out| out.set(start));
    size.iter().for_each(|out| out.set(found.size));
    Ok(())
}

/// Allocates pinned memory.
///
/// # Safety
/// Unless it is null, the pointer is writable.
unsafe fn pinned(address: *mut *mut c_void, size: u64, flags: u32) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(address) }?;
    if flags & !HOST_ALLOC_FLAGS != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let start = system.memory.allocate(detail(&context, Sort::Pinned, size, flags))?;
    out.set(std::ptr::with_exposed_provenance_mut(start as usize));
    Ok(())
}

pub(crate) unsafe fn cuMemAllocHost_v2(address: *mut *mut c_void, size: u64) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { pinned(address, size, 0) }
}

pub(crate) unsafe fn cuMemHostAlloc(address: *mut *mut c_void, size: u64, flags: u32) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { pinned(address, size, flags) }
}

pub(crate) unsafe fn cuMemFreeHost(address: *mut c_void) -> Outcome {
    let (system, context) = current_whatever()?;
    let start = address.addr() as u64;
    system.memory.claim(start, |sort| sort == Sort::Pinned)?;
    context.drain();
    system.memory.free(start, "cuMemFreeHost");
    Ok(())
}

pub(crate) unsafe fn cuMemHostGetDevicePointer_v2(device: *mut u64, address: *mut c_void, flags: u32) -> Outcome {
    let (system, _) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(device) }?;
    let address = address.addr() as u64;
    let found = system.memory.find(address).filter(|(_, detail)| detail.sort.is_host());
    if found.is_none() || flags != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    out.set(address);
    Ok(())
}

pub(crate) unsafe fn cuMemHostGetFlags(flags: *mut u32, address: *mut c_void) -> Outcome {
    let (system, _) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(flags) }?;
    let found = system.memory.find(address.addr() as u64).filter(|(_, detail)| detail.sort.is_host());
    out.set(found.ok_or(CuResult::ERROR_INVALID_VALUE)?.1.flags);
    Ok(())
}

pub(crate) unsafe fn cuMemAllocManaged(address: *mut u64, size: u64, flags: u32) -> Outcome {
    let (system, context) = current()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(address) }?;
    if flags != MEM_ATTACH_GLOBAL && flags != MEM_ATTACH_HOST {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    out.set(system.memory.allocate(detail(&context, Sort::Managed, size, flags))?);
    Ok(())
}

pub(crate) unsafe fn cuMemHostRegister_v2(address: *mut c_void, size: u64, flags: u32) -> Outcome {
    let (system, context) = current()?;
    if address.is_null() || size == 0 || flags & !HOST_REGISTER_FLAGS != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let start = address.expose_provenance() as u64;
    system.memory.register(start, detail(&context, Sort::Registered, size, flags))
}

pub(crate) unsafe fn cuMemHostRegister(address: *mut c_void, size: u64, flags: u32) -> Outcome {
    // SAFETY: the caller vouches for the memory.
    unsafe { cuMemHostRegister_v2(address, size, flags) }
}

pub(crate) unsafe fn cuMemHostUnregister(address: *mut c_void) -> Outcome {
    let (system, context) = current_whatever()?;
    let start = address.addr() as u64;
    let claimed = system.memory.claim(start, |sort| sort == Sort::Registered);
    claimed.map_err(|_| CuResult::ERROR_HOST_MEMORY_NOT_REGISTERED)?;
    context.drain();
    system.memory.free(start, "cuMemHostUnregister");
    Ok(())
}

/// Refuses bytes that are not of one managed allocation.
fn managed(address: u64, count: u64) -> Outcome {
    let system = system()?;
    let found = system.memory.find(address).filter(|(_, detail)| detail.sort == Sort::Managed);
    let (start, detail) = found.ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let is_in = count != 0 && count <= detail.size - (address - start);
    if is_in { Ok(()) } else { Err(CuResult::ERROR_INVALID_VALUE) }
}

pub(crate) unsafe fn cuMemPrefetchAsync(address: u64, count: u64, device: CuDevice, handle: CuStream) -> Outcome {
    let (system, found) = stream(handle)?;
    // The processor is -1.
    if device.0 != -1 {
        system.device(device)?;
    }
    managed(address, count)?;
    system.captures.refuse(&found)?;
    found.submit_marker([]);
    Ok(())
}

pub(crate) unsafe fn cuMemPrefetchAsync_v2(
    address: u64,
    count: u64,
    _location: u64,
    flags: u32,
    handle: CuStream,
) -> Outcome {
    let (system, found) = stream(handle)?;
    if flags != 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    managed(address, count)?;
    system.captures.refuse(&found)?;
    found.submit_marker([]);
    Ok(())
}

pub(crate) unsafe fn cuMemAdvise(address: u64, count: u64, _advice: u32, _device: CuDevice) -> Outcome {
    managed(address, count)
}

pub(crate) unsafe fn cuMemAdvise_v2(address: u64, count: u64, _advice: u32, _location: u64) -> Outcome {
    managed(address, count)
}
