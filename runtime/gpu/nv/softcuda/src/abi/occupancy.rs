//! How many blocks of a kernel a multiprocessor holds.

use vireo_cuda::attributes::DeviceAttribute;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{BlockSizeToShared, CuFunction};

use super::functions::known;
use crate::api::{Out, Outcome};
use crate::launch::blocks_per_multiprocessor;

pub(crate) unsafe fn cuOccupancyMaxActiveBlocksPerMultiprocessor(
    count: *mut i32,
    function: CuFunction,
    block: i32,
    dynamic: u64,
) -> Outcome {
    let (system, found) = known(function)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(count) }?;
    let threads = u64::try_from(block).ok().filter(|threads| *threads != 0).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let device = &system.devices[found.module.context.device as usize];
    out.set(blocks_per_multiprocessor(device, found.kernel(), threads, dynamic) as i32);
    Ok(())
}

pub(crate) unsafe fn cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(
    count: *mut i32,
    function: CuFunction,
    block: i32,
    dynamic: u64,
    flags: u32,
) -> Outcome {
    if flags > 1 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    unsafe { cuOccupancyMaxActiveBlocksPerMultiprocessor(count, function, block, dynamic) }
}

pub(crate) unsafe fn cuOccupancyMaxPotentialBlockSize(
    min_grid: *mut i32,
    block: *mut i32,
    function: CuFunction,
    shared_of: Option<BlockSizeToShared>,
    dynamic: u64,
    limit: i32,
) -> Outcome {
    let (system, found) = known(function)?;
    // SAFETY: the caller vouches for both.
    let (min_grid, block) = unsafe { (Out::new(min_grid)?, Out::new(block)?) };
    let device = &system.devices[found.module.context.device as usize];
    let kernel = found.kernel();
    let most = device.attribute(DeviceAttribute::MAX_THREADS_PER_BLOCK).min(kernel.max_threads);
    let most = u32::try_from(limit).ok().filter(|limit| *limit != 0).map_or(most, |limit| most.min(limit));
    let mut best = (0, 0, 0);
    for threads in (1..=most / 32).rev().map(|warps| warps * 32).chain([most]) {
        // SAFETY: the program gave the function for this.
        let dynamic = shared_of.map_or(dynamic, |shared_of| unsafe { shared_of(threads as i32) });
        let blocks = blocks_per_multiprocessor(device, kernel, threads.into(), dynamic);
        if blocks * threads > best.0 {
            best = (blocks * threads, threads, blocks);
        }
    }
    min_grid.set((best.2 * device.attribute(DeviceAttribute::MULTIPROCESSOR_COUNT)) as i32);
    block.set(best.1 as i32);
    Ok(())
}

pub(crate) unsafe fn cuOccupancyMaxPotentialBlockSizeWithFlags(
    min_grid: *mut i32,
    block: *mut i32,
    function: CuFunction,
    shared_of: Option<BlockSizeToShared>,
    dynamic: u64,
    limit: i32,
    flags: u32,
) -> Outcome {
    if flags > 1 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuOccupancyMaxPotentialBlockSize(min_grid, block, function, shared_of, dynamic, limit) }
}

pub(crate) unsafe fn cuOccupancyAvailableDynamicSMemPerBlock(
    dynamic: *mut u64,
    function: CuFunction,
    blocks: i32,
    block: i32,
) -> Outcome {
    let (system, found) = known(function)?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(dynamic) }?;
    let device = &system.devices[found.module.context.device as usize];
    let threads = u64::try_from(block).ok().filter(|threads| *threads != 0).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let blocks = u32::try_from(blocks).ok().filter(|blocks| *blocks != 0).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let kernel = found.kernel();
    if blocks_per_multiprocessor(device, kernel, threads, 0) < blocks {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let limit = |attribute| device.attribute(attribute);
    let each = limit(DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / blocks;
    let each = each.saturating_sub(limit(DeviceAttribute::RESERVED_SHARED_MEMORY_PER_BLOCK) + kernel.shared);
    let most = limit(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN).saturating_sub(kernel.shared);
    out.set(each.min(most).into());
    Ok(())
}
