//! Devices and their attributes.

use vireo_cuda::attributes::{DeviceAttribute, P2pAttribute};
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CChar, CuDevice, CuMemPool, CuUuid, DeviceProperties};
use vireo_soft::pointers;

use crate::api::{Out, Outcome, refused};
use crate::system::{Device, System, system};

/// Puts a text with a zero at its end into `length` bytes, cut if it is longer.
///
/// # Safety
/// Unless it is null, the pointer has as many bytes.
unsafe fn put_text(text: &str, to: *mut CChar, length: i32) -> Outcome {
    if to.is_null() || length <= 0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let count = text.len().min(length as usize - 1);
    for (index, byte) in text.bytes().take(count).chain([0]).enumerate() {
        // SAFETY: the caller guarantees the bytes, and the index is below their number.
        unsafe { to.add(index).write(CChar(byte)) };
    }
    Ok(())
}

/// The value of an attribute: pools as the options say, and each device at another PCI address.
fn attribute(system: &System, ordinal: i32, device: &Device, attribute: DeviceAttribute) -> u32 {
    match attribute {
        DeviceAttribute::MEMORY_POOLS_SUPPORTED if !system.options.pools => 0,
        DeviceAttribute::PCI_BUS_ID => device.attribute(attribute) + ordinal as u32,
        _ => device.attribute(attribute),
    }
}

pub(crate) unsafe fn cuDeviceGet(device: *mut CuDevice, ordinal: i32) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(device) }?;
    system.device(CuDevice(ordinal))?;
    out.set(CuDevice(ordinal));
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetCount(count: *mut i32) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    unsafe { Out::new(count) }?.set(system.devices.len() as i32);
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetName(name: *mut CChar, length: i32, device: CuDevice) -> Outcome {
    let found = system()?.device(device)?;
    // SAFETY: the caller vouches for it.
    unsafe { put_text(found.name, name, length) }
}

pub(crate) unsafe fn cuDeviceGetUuid(uuid: *mut CuUuid, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(uuid) }?;
    system.device(device)?;
    let mut bytes = *b"vireo soft cuda\0";
    bytes[15] = device.0 as u8;
    out.set(CuUuid { bytes: bytes.map(CChar) });
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetUuid_v2(uuid: *mut CuUuid, device: CuDevice) -> Outcome {
    // SAFETY: the caller vouches for it.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

pub(crate) unsafe fn cuDeviceTotalMem_v2(size: *mut u64, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(size) }?;
    system.device(device)?;
    out.set(system.memory.limit());
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetAttribute(value: *mut i32, wanted: DeviceAttribute, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(value) }?;
    let found = system.device(device)?;
    if wanted.name().is_none() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    out.set(attribute(system, device.0, found, wanted) as i32);
    Ok(())
}

pub(crate) unsafe fn cuDeviceComputeCapability(major: *mut i32, minor: *mut i32, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for both.
    let (major, minor) = unsafe { (Out::new(major)?, Out::new(minor)?) };
    let found = system.device(device)?;
    major.set(found.attribute(DeviceAttribute::COMPUTE_CAPABILITY_MAJOR) as i32);
    minor.set(found.attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR) as i32);
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetProperties(properties: *mut DeviceProperties, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(properties) }?;
    let found = system.device(device)?;
    let of = |attribute| found.attribute(attribute) as i32;
    let block = [DeviceAttribute::MAX_BLOCK_DIM_X, DeviceAttribute::MAX_BLOCK_DIM_Y, DeviceAttribute::MAX_BLOCK_DIM_Z];
    let grid = [DeviceAttribute::MAX_GRID_DIM_X, DeviceAttribute::MAX_GRID_DIM_Y, DeviceAttribute::MAX_GRID_DIM_Z];
    out.set(DeviceProperties {
        max_threads_per_block: of(DeviceAttribute::MAX_THREADS_PER_BLOCK),
        max_threads_dim: block.map(of),
        max_grid_size: grid.map(of),
        shared_mem_per_block: of(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK),
        total_constant_memory: of(DeviceAttribute::TOTAL_CONSTANT_MEMORY),
        simd_width: of(DeviceAttribute::WARP_SIZE),
        mem_pitch: of(DeviceAttribute::MAX_PITCH),
        regs_per_block: of(DeviceAttribute::MAX_REGISTERS_PER_BLOCK),
        clock_rate: of(DeviceAttribute::CLOCK_RATE),
        texture_align: of(DeviceAttribute::TEXTURE_ALIGNMENT),
    });
    Ok(())
}

/// The text of the PCI address of a device.
fn pci(system: &System, ordinal: i32, device: &Device) -> String {
    format!("0000:{:02X}:00.0", attribute(system, ordinal, device, DeviceAttribute::PCI_BUS_ID))
}

pub(crate) unsafe fn cuDeviceGetPCIBusId(text: *mut CChar, length: i32, device: CuDevice) -> Outcome {
    let system = system()?;
    let found = system.device(device)?;
    // SAFETY: the caller vouches for it.
    unsafe { put_text(&pci(system, device.0, found), text, length) }
}

pub(crate) unsafe fn cuDeviceGetByPCIBusId(device: *mut CuDevice, text: *const CChar) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for both.
    let (out, text) = unsafe { (Out::new(device)?, pointers::text(text.cast()).map_err(refused)?) };
    let short = |full: &str| full.trim_start_matches("0000:").trim_end_matches(".0").to_string();
    let found = system.devices.iter().enumerate().find(|(ordinal, device)| {
        let full = pci(system, *ordinal as i32, device);
        full.eq_ignore_ascii_case(&text) || short(&full).eq_ignore_ascii_case(&short(&text))
    });
    let (ordinal, _) = found.ok_or(CuResult::ERROR_INVALID_DEVICE)?;
    out.set(CuDevice(ordinal as i32));
    Ok(())
}

pub(crate) unsafe fn cuDeviceCanAccessPeer(can: *mut i32, device: CuDevice, peer: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(can) }?;
    system.device(device)?;
    system.device(peer)?;
    out.set(i32::from(device != peer));
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetP2PAttribute(
    value: *mut i32,
    wanted: P2pAttribute,
    from: CuDevice,
    to: CuDevice,
) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(value) }?;
    system.device(from)?;
    system.device(to)?;
    if wanted.name().is_none() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    if from == to {
        return Err(CuResult::ERROR_INVALID_DEVICE);
    }
    let has = matches!(wanted, P2pAttribute::ACCESS_SUPPORTED | P2pAttribute::NATIVE_ATOMIC_SUPPORTED);
    out.set(i32::from(has));
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetDefaultMemPool(pool: *mut CuMemPool, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(pool) }?;
    let found = system.device(device)?;
    system.needs_pools()?;
    out.set(CuMemPool(found.default_pool));
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetMemPool(pool: *mut CuMemPool, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(pool) }?;
    let found = system.device(device)?;
    system.needs_pools()?;
    out.set(CuMemPool(found.pool()));
    Ok(())
}

pub(crate) unsafe fn cuDeviceSetMemPool(device: CuDevice, pool: CuMemPool) -> Outcome {
    let system = system()?;
    let found = system.device(device)?;
    system.needs_pools()?;
    let known = system.pools.get(pool.0).ok_or(CuResult::ERROR_INVALID_HANDLE)?;
    if known.device as i32 != device.0 {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    found.set_pool(pool.0);
    Ok(())
}

pub(crate) unsafe fn cuDeviceGetExecAffinitySupport(value: *mut i32, _kind: u32, device: CuDevice) -> Outcome {
    let system = system()?;
    // SAFETY: the caller vouches for it.
    let out = unsafe { Out::new(value) }?;
    system.device(device)?;
    out.set(0);
    Ok(())
}
