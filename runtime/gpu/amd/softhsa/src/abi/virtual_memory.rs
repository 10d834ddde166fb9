//! Addresses apart from memory. Systems without anonymous files have none of it.

use std::ffi::c_void;

use vireo_hsa::hsa::{HsaStatus, MemoryAccessDesc, MemoryPool, MemoryType, VmemHandle};

use super::pointers::call;
use crate::status::Result;
use crate::system::System;
use crate::topology::Feature;

/// Whether the functions below do anything.
pub(super) fn is_supported(system: &System) -> bool {
    cfg!(target_os = "linux") && system.topology.has(Feature::VirtualMemory)
}

/// An error unless they do.
fn check(system: &System) -> Result<()> {
    if is_supported(system) { Ok(()) } else { Err(HsaStatus::ERROR) }
}

#[cfg(target_os = "linux")]
mod functions {
    use vireo_hsa::hsa::AccessPermissions;
    use vireo_soft::memory::virtual_memory::Charge;

    use super::super::pointers::{Out, array};
    use super::*;

    pub(crate) unsafe extern "C" fn hsa_amd_vmem_address_reserve_align(
        va: *mut *mut c_void,
        size: u64,
        _address: u64,
        alignment: u64,
        flags: u64,
    ) -> HsaStatus {
        call(|system| {
            // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
            let out = unsafe { Out::new(va) }?;
            check(system)?;
            if flags != 0 {
                return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
            }
            // The address is a wish, which need not be granted.
            let start = system.virtual_memory.reserve(size, alignment)?;
            out.set(std::ptr::with_exposed_provenance_mut(start as usize));
            Ok(())
        })
    }

    pub(crate) unsafe extern "C" fn hsa_amd_vmem_address_free(va: *mut c_void, size: u64) -> HsaStatus {
        call(|system| {
            check(system)?;
            system.virtual_memory.free(va.addr() as u64, size)
        })
    }

    pub(crate) unsafe extern "C" fn hsa_amd_vmem_handle_create(
        pool: MemoryPool,
        size: u64,
        r#type: MemoryType,
        flags: u64,
        memory_handle: *mut VmemHandle,
    ) -> HsaStatus {
        call(|system| {
            // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
            let out = unsafe { Out::new(memory_handle) }?;
            check(system)?;
            let pool = system.pool(pool)?;
            if flags != 0 || r#type.name().is_none() || !pool.allocates() {
                return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
            }
            pool.charge(size)?;
            let charge = Charge::of(pool.used.clone(), size);
            out.set(VmemHandle(system.virtual_memory.create(size, charge, pool.agent, pool.flags.0)?));
            Ok(())
        })
    }

    pub(crate) unsafe extern "C" fn hsa_amd_vmem_handle_release(memory_handle: VmemHandle) -> HsaStatus {
        call(|system| {
            check(system)?;
            system.virtual_memory.release(memory_handle.0)
        })
    }

    pub(crate) unsafe extern "C" fn hsa_amd_vmem_map(
        va: *mut c_void,
        size: u64,
        in_offset: u64,
        memory_handle: VmemHandle,
        flags: u64,
    ) -> HsaStatus {
        call(|system| {
            check(system)?;
            if flags != 0 {
                return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
            }
            let start = va.addr() as u64;
            system.virtual_memory.map(&system.memory, start, size, in_offset, memory_handle.0)
        })
    }

    pub(crate) unsafe extern "C" fn hsa_amd_vmem_unmap(va: *mut c_void, size: u64) -> HsaStatus {
        call(|system| {
            check(system)?;
            system.virtual_memory.unmap(&system.memory, va.addr() as u64, size)
        })
    }

    pub(crate) unsafe extern "C" fn hsa_amd_vmem_set_access(
        va: *mut c_void,
        size: u64,
        desc: *const MemoryAccessDesc,
        desc_cnt: u64,
    ) -> HsaStatus {
        call(|system| {
            check(system)?;
            let count = usize::try_from(desc_cnt).map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)?;
            // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
            let descriptions = unsafe { array(desc, count) }?;
            let mut access = Vec::with_capacity(descriptions.len());
            for description in descriptions {
                let permissions = AccessPermissions(description.permissions);
                if permissions.0 & AccessPermissions::RESERVED != 0 {
                    return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
                }
                let mask = 1 << system.agent(description.agent)?.index;
                access.push((mask, permissions.read(), permissions.write()));
            }
            system.virtual_memory.set_access(&system.memory, va.addr() as u64, size, &access)
        })
    }
}

#[cfg(not(target_os = "linux"))]
mod functions {
    use super::*;

    /// Functions that fail.
    macro_rules! unsupported {
        ($($function:ident($($argument:ident: $ty:ty),*);)*) => {
            $(pub(crate) unsafe extern "C" fn $function($($argument: $ty),*) -> HsaStatus {
                $(let _ = $argument;)*
                call(|system| check(system))
            })*
        };
    }

    unsupported! {
        hsa_amd_vmem_address_reserve_align(va: *mut *mut c_void, size: u64, address: u64, alignment: u64, flags: u64);
        hsa_amd_vmem_address_free(va: *mut c_void, size: u64);
        hsa_amd_vmem_handle_create(pool: MemoryPool, size: u64, kind: MemoryType, flags: u64, handle: *mut VmemHandle);
        hsa_amd_vmem_handle_release(memory_handle: VmemHandle);
        hsa_amd_vmem_map(va: *mut c_void, size: u64, in_offset: u64, memory_handle: VmemHandle, flags: u64);
        hsa_amd_vmem_unmap(va: *mut c_void, size: u64);
        hsa_amd_vmem_set_access(va: *mut c_void, size: u64, desc: *const MemoryAccessDesc, desc_cnt: u64);
    }
}

pub(crate) use functions::*;
