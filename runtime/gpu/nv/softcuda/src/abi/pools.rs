//! Memory pools, and allocations in the order of a stream. The address of an allocation is known at once; a free takes
//! effect in the order of the stream.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vireo_cuda::attributes::MemPoolAttribute;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    CuDevice, CuMemPool, CuStream, MEM_ACCESS_READ_WRITE, MemAccessDesc, MemAllocationType, MemLocation,
    MemLocationType, MemPoolProps,
};

use crate::api::{Out, Outcome};
use crate::context::Stream;
use crate::crew::Progress;
use crate::memory::{Detail, Sort};
use crate::sanitizer::{Transfers, stream_name};
use crate::system::{MemPool, System, stream, system};

/// Locations of one call at most.
const MAX_LOCATIONS: u64 = 64;

fn known(pool: CuMemPool) -> Outcome<(&'static System, Arc<MemPool>)> {
    let system = system()?;
    system.needs_pools()?;
    Ok((system, system.pools.get(pool.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?))
}

fn allocate(system: &System, stream: &Stream, handle: u64, size: u64) -> Outcome<u64> {
    let pool = system.pools.get(handle).ok_or(CuResult::ERROR_INVALID_HANDLE)?;
    let used = system.memory.used_of_pool(handle).saturating_add(size);
    if pool.limit != 0 && used > pool.limit {
        return Err(CuResult::ERROR_OUT_OF_MEMORY);
    }
    let (context, device) = (stream.context.handle(), pool.device);
    let detail = Detail { sort: Sort::Device, context, device, pool: handle, size, flags: 0, is_ending: false };
    let allocated = system.memory.allocate(detail).or_else(|status| {
        // Frees that are under way may make room.
        stream.context.drain();
        if status == CuResult::ERROR_OUT_OF_MEMORY { system.memory.allocate(detail) } else { Err(status) }
    });
    pool.high.fetch_max(used, Ordering::Relaxed);
    allocated
}

pub(crate) unsafe fn cuMemAllocAsync(address: *mut u64, size: u64, handle: CuStream) -> Outcome {
    let (system, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(address) }?;
    system.needs_pools()?;
    system.captures.refuse(&found)?;
    let pool = system.device(CuDevice(found.context.device as i32))?.pool();
    out.set(allocate(system, &found, pool, size)?);
    Ok(())
}

pub(crate) unsafe fn cuMemAllocFromPoolAsync(
    address: *mut u64,
    size: u64,
    pool: CuMemPool,
    handle: CuStream,
) -> Outcome {
    let (system, found) = stream(handle)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(address) }?;
    system.needs_pools()?;
    system.captures.refuse(&found)?;
    out.set(allocate(system, &found, pool.0, size)?);
    Ok(())
}

pub(crate) unsafe fn cuMemFreeAsync(address: u64, handle: CuStream) -> Outcome {
    let (system, found) = stream(handle)?;
    system.needs_pools()?;
    system.captures.refuse(&found)?;
    if address == 0 {
        return Ok(());
    }
    system.memory.claim(address, |sort| sort == Sort::Device)?;
    let origin = (found.context.device, found.id);
    found.submit_always(Box::new(move |known| {
        let mut transfer = None;
        system.memory.free_and_tell(address, |_, allocation| {
            transfer = Transfers::begin(&system.memory, "cuMemFreeAsync", origin, known);
            if let Some(transfer) = &transfer {
                transfer.frees(allocation, format!("cuMemFreeAsync in {}", stream_name(origin.1)));
            }
        });
        if let Some(transfer) = transfer {
            transfer.end(known);
        }
        Progress::Done
    }));
    Ok(())
}

pub(crate) unsafe fn cuMemPoolCreate(pool: *mut CuMemPool, properties: *const MemPoolProps) -> Outcome {
    let system = system()?;
    system.needs_pools()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(pool) }?;
    if properties.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    let properties = unsafe { properties.read_unaligned() };
    if properties.handle_types != 0 {
        return Err(CuResult::ERROR_NOT_SUPPORTED);
    }
    let is_pinned = properties.alloc_type == MemAllocationType::PINNED;
    if !is_pinned || properties.location.r#type != MemLocationType::DEVICE {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    system.device(CuDevice(properties.location.id))?;
    let created = MemPool::new(properties.location.id as u32, properties.max_size);
    out.set(CuMemPool(system.pools.insert(Arc::new(created))));
    Ok(())
}

pub(crate) unsafe fn cuMemPoolDestroy(pool: CuMemPool) -> Outcome {
    let (system, found) = known(pool)?;
    let device = &system.devices[found.device as usize];
    if device.default_pool == pool.0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    if device.pool() == pool.0 {
        device.set_pool(device.default_pool);
    }
    system.pools.remove(pool.0);
    Ok(())
}

pub(crate) unsafe fn cuMemPoolTrimTo(pool: CuMemPool, _keep: u64) -> Outcome {
    // Nothing is kept.
    known(pool).map(|_| ())
}

/// Whether an attribute has 64 bits; others have 32.
fn is_wide(attribute: MemPoolAttribute) -> bool {
    !matches!(
        attribute,
        MemPoolAttribute::REUSE_FOLLOW_EVENT_DEPENDENCIES
            | MemPoolAttribute::REUSE_ALLOW_OPPORTUNISTIC
            | MemPoolAttribute::REUSE_ALLOW_INTERNAL_DEPENDENCIES
    )
}

pub(crate) unsafe fn cuMemPoolSetAttribute(
    pool: CuMemPool,
    attribute: MemPoolAttribute,
    value: *mut c_void,
) -> Outcome {
    let (_, found) = known(pool)?;
    if value.is_null() || attribute.name().is_none() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller guarantees the bytes of the attribute.
    let value = unsafe {
        match is_wide(attribute) {
            true => value.cast::<u64>().read_unaligned(),
            false => value.cast::<u32>().read_unaligned().into(),
        }
    };
    match attribute {
        MemPoolAttribute::RESERVED_MEM_HIGH | MemPoolAttribute::USED_MEM_HIGH => {
            // Zero alone resets the mark.
            if value != 0 {
                return Err(CuResult::ERROR_INVALID_VALUE);
            }
            found.high.store(0, Ordering::Relaxed);
        }
        MemPoolAttribute::RESERVED_MEM_CURRENT | MemPoolAttribute::USED_MEM_CURRENT => {
            return Err(CuResult::ERROR_INVALID_VALUE);
        }
        _ => {
            found.attributes().insert(attribute.0, value);
        }
    }
    Ok(())
}

pub(crate) unsafe fn cuMemPoolGetAttribute(
    pool: CuMemPool,
    attribute: MemPoolAttribute,
    value: *mut c_void,
) -> Outcome {
    let (system, found) = known(pool)?;
    if value.is_null() || attribute.name().is_none() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let used = system.memory.used_of_pool(pool.0);
    let result = match attribute {
        MemPoolAttribute::RESERVED_MEM_CURRENT | MemPoolAttribute::USED_MEM_CURRENT => used,
        MemPoolAttribute::RESERVED_MEM_HIGH | MemPoolAttribute::USED_MEM_HIGH => {
            found.high.load(Ordering::Relaxed).max(used)
        }
        // Memory is reused by default, and nothing is kept.
        _ => found.attributes().get(&attribute.0).copied().unwrap_or(u64::from(!is_wide(attribute))),
    };
    // SAFETY: the caller guarantees the bytes of the attribute.
    unsafe {
        match is_wide(attribute) {
            true => value.cast::<u64>().write_unaligned(result),
            false => value.cast::<u32>().write_unaligned(result as u32),
        }
    }
    Ok(())
}

pub(crate) unsafe fn cuMemPoolSetAccess(pool: CuMemPool, map: *const MemAccessDesc, count: u64) -> Outcome {
    let (system, found) = known(pool)?;
    if count > MAX_LOCATIONS || count != 0 && map.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    for index in 0..count as usize {
        // SAFETY: the caller guarantees as many elements as it says.
        let access = unsafe { map.add(index).read_unaligned() };
        if access.location.r#type != MemLocationType::DEVICE {
            return Err(CuResult::ERROR_INVALID_VALUE);
        }
        system.device(CuDevice(access.location.id))?;
        let other = access.location.id as u32;
        if other == found.device && access.flags != MEM_ACCESS_READ_WRITE {
            return Err(CuResult::ERROR_INVALID_VALUE);
        }
        if other != found.device {
            system.memory.set_peer(found.device, other, access.flags != 0);
        }
    }
    Ok(())
}

pub(crate) unsafe fn cuMemPoolGetAccess(flags: *mut u32, pool: CuMemPool, location: *mut MemLocation) -> Outcome {
    let (system, found) = known(pool)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(flags) }?;
    if location.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    let location = unsafe { location.read_unaligned() };
    system.device(CuDevice(location.id))?;
    out.set(if location.id as u32 == found.device { MEM_ACCESS_READ_WRITE } else { 0 });
    Ok(())
}
