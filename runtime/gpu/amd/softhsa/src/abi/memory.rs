//! Allocations, access to them, pinned memory of the program, copies and fills.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vireo_core::pages::PageMapping;
use vireo_hsa::hsa::{
    Agent as AgentHandle, AllocCallback, HsaStatus, MemoryPool, MemoryPoolAccess, PointerInfo, PointerType,
    SvmAttribute, SvmAttributePair,
};
use vireo_soft::api::Api;
use vireo_soft::memory::GRANULE;
use vireo_soft::memory::backing::Backing;
use vireo_soft::memory::map::{Allocation, Kind};

use super::pointers::{Attribute, Out, array, call};
use crate::agents::Pool;
use crate::api::Hsa;
use crate::sanitizer;
use crate::status::Result;
use crate::system::System;
use crate::topology::{Feature, HostWrites};

/// Words that a fill copies at a time.
const MAX_FILL_WORDS: u64 = 4 << 20;

/// Allocates from a pool.
fn allocate(system: &System, pool: &Pool, size: u64) -> Result<u64> {
    if !pool.allocates() {
        return Err(HsaStatus::ERROR_INVALID_ALLOCATION);
    }
    if size == 0 {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let length = size.checked_next_multiple_of(GRANULE).ok_or(HsaStatus::ERROR_OUT_OF_RESOURCES)?;
    pool.charge(length)?;
    let allocate = || {
        // The page after each allocation is in none, so that a kernel which leaves one does not find the next one
        // there.
        let guarded = length.checked_add(GRANULE).and_then(|bytes| usize::try_from(bytes).ok());
        let bytes = guarded.ok_or(HsaStatus::ERROR_OUT_OF_RESOURCES)?;
        let pages = PageMapping::reserved(bytes, "device memory").map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
        let start = pages.base().as_ptr().expose_provenance() as u64;
        let (kind, mask) = (Kind::Pool(pool.handle.0), 1 << pool.agent);
        let mut allocation = Allocation::new(start, length, kind, pool.agent, mask, Backing::of(Arc::new(pages)));
        allocation.flags = pool.flags.0;
        let hidden = match system.topology.host_writes {
            HostWrites::Visible => None,
            HostWrites::UntilAcquire => pool.flags.coarse_grained().then_some(false),
            HostWrites::UntilFlush => (pool.agent != 0).then_some(true),
        };
        if let Some(until_flush) = hidden {
            allocation = allocation.with_shadow(until_flush).map_err(Hsa::status)?;
        }
        let allocation = system.memory.insert(allocation)?;
        if let Some(sanitizer) = &system.sanitizer {
            sanitizer::allocated(sanitizer, &allocation, size, GRANULE);
        }
        Ok(start)
    };
    allocate().inspect_err(|_| pool.release(length))
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_pool_allocate(
    memory_pool: MemoryPool,
    size: u64,
    flags: u32,
    ptr: *mut *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(ptr) }?;
        // Other kinds of memory, such as executable memory, do not exist.
        if flags != 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let start = allocate(system, system.pool(memory_pool)?, size)?;
        out.set(std::ptr::with_exposed_provenance_mut(start as usize));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_pool_free(ptr: *mut c_void) -> HsaStatus {
    call(|system| {
        if ptr.is_null() {
            return Ok(());
        }
        let is_pool = |allocation: &Allocation| matches!(allocation.kind, Kind::Pool(_));
        let start = ptr.addr() as u64;
        let found = system.memory.find(start).filter(|found| found.start == start && is_pool(found));
        // It hears of it first: an access that finds no memory any more finds there why.
        if let (Some(sanitizer), Some(allocation)) = (&system.sanitizer, found) {
            sanitizer::freed(sanitizer, allocation);
        }
        let removed = system.memory.remove(start, is_pool);
        let allocation = removed.ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        if let Kind::Pool(pool) = allocation.kind {
            system.pool(MemoryPool(pool))?.release(allocation.length);
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_agents_allow_access(
    num_agents: u32,
    agents: *const AgentHandle,
    flags: *const u32,
    ptr: *const c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let agents = unsafe { array(agents, num_agents as usize) }?;
        if agents.is_empty() || !flags.is_null() || ptr.is_null() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let allocation = system.memory.find(ptr.addr() as u64).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        let Kind::Pool(pool) = allocation.kind else { return Err(HsaStatus::ERROR_INVALID_ALLOCATION) };
        let pool = system.pool(MemoryPool(pool))?;
        let mut mask = 1 << allocation.owner;
        for agent in agents {
            let agent = system.agent(agent)?;
            if agent.access(pool, &system.topology) == MemoryPoolAccess::NEVER_ALLOWED {
                return Err(HsaStatus::ERROR_INVALID_AGENT);
            }
            mask |= 1 << agent.index;
        }
        allocation.readers.store(mask, Ordering::Relaxed);
        allocation.writers.store(mask, Ordering::Relaxed);
        Ok(())
    })
}

/// The bits of some agents; those of all GPUs if there are none.
fn mask_of(system: &System, agents: &[AgentHandle]) -> Result<u64> {
    if agents.is_empty() {
        return Ok(system.all_agents());
    }
    // The processor has its own memory in any case.
    agents.iter().try_fold(1, |mask, agent| Ok(mask | 1 << system.agent(*agent)?.index))
}

/// Pins memory of the program; agents use it at the same address.
fn lock(system: &System, host: *mut c_void, size: u64, agents: &[AgentHandle], pool: Option<&Pool>) -> Result<u64> {
    if host.is_null() || size == 0 {
        return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
    }
    let start = host.expose_provenance() as u64;
    let mask = mask_of(system, agents)?;
    if let Some(again) = system.memory.pin_again(start, size, mask) {
        return again.map(|()| start);
    }
    let mut allocation = Allocation::new(start, size, Kind::Locked, 0, mask, Backing::PROGRAM);
    allocation.flags = pool.map_or(0, |pool| pool.flags.0);
    system.memory.insert(allocation)?;
    Ok(start)
}

/// Agents of the base profile, as these are, gain nothing from it: memory that they are to use is pinned.
pub(crate) unsafe extern "C" fn hsa_memory_register(ptr: *mut c_void, size: u64) -> HsaStatus {
    call(|_| match size == 0 && !ptr.is_null() {
        true => Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        false => Ok(()),
    })
}

pub(crate) unsafe extern "C" fn hsa_memory_deregister(_ptr: *mut c_void, _size: u64) -> HsaStatus {
    call(|_| Ok(()))
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_lock(
    host_ptr: *mut c_void,
    size: u64,
    agents: *mut AgentHandle,
    num_agent: i32,
    agent_ptr: *mut *mut c_void,
) -> HsaStatus {
    call(|system| {
        let count = usize::try_from(num_agent).map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (out, agents) = unsafe { (Out::new(agent_ptr)?, array(agents, count)?) };
        let start = lock(system, host_ptr, size, &agents, None)?;
        out.set(std::ptr::with_exposed_provenance_mut(start as usize));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_lock_to_pool(
    host_ptr: *mut c_void,
    size: u64,
    agents: *mut AgentHandle,
    num_agent: i32,
    pool: MemoryPool,
    flags: u32,
    agent_ptr: *mut *mut c_void,
) -> HsaStatus {
    call(|system| {
        let count = usize::try_from(num_agent).map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (out, agents) = unsafe { (Out::new(agent_ptr)?, array(agents, count)?) };
        let pool = system.pool(pool)?;
        if pool.agent != 0 || flags != 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let start = lock(system, host_ptr, size, &agents, Some(pool))?;
        out.set(std::ptr::with_exposed_provenance_mut(start as usize));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_unlock(host_ptr: *mut c_void) -> HsaStatus {
    call(|system| system.memory.unpin(host_ptr.addr() as u64))
}

pub(crate) unsafe extern "C" fn hsa_amd_pointer_info(
    ptr: *const c_void,
    info: *mut PointerInfo,
    alloc: Option<AllocCallback>,
    num_agents_accessible: *mut u32,
    accessible: *mut *mut AgentHandle,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks; the
        // first field is there whatever the size is.
        let (out, asked) = unsafe { (Attribute::new(info.cast())?, info.cast::<u32>().read_unaligned()) };
        let found = system.memory.find(ptr.addr() as u64);
        let mut answer = PointerInfo { size: PointerInfo::SIZE as u32, ..PointerInfo::default() };
        if let Some(allocation) = &found {
            answer.r#type = match allocation.kind {
                Kind::Locked => PointerType::LOCKED.0,
                _ => PointerType::HSA.0,
            };
            answer.agent_base_address = allocation.start;
            answer.host_base_address = allocation.start;
            answer.size_in_bytes = allocation.length;
            answer.user_data = allocation.user_data.load(Ordering::Relaxed);
            answer.agent_owner =
                system.agents.get(allocation.owner as usize).map_or(AgentHandle(0), |agent| agent.handle());
            answer.global_flags = allocation.flags;
        }
        // Programs of other releases have a shorter struct, or a longer one.
        let size = (asked as usize).min(PointerInfo::SIZE);
        if size < 4 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        answer.size = size as u32;
        out.set(&answer.to_bytes()[..size]);
        let readers = found.map_or(0, |allocation| allocation.readers.load(Ordering::Relaxed));
        let handles: Vec<AgentHandle> =
            system.agents.iter().filter(|agent| readers >> agent.index & 1 != 0).map(|agent| agent.handle()).collect();
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let (count, list) = unsafe { (Out::optional(num_agents_accessible), Out::optional(accessible)) };
        let (Some(alloc), Some(count), Some(list)) = (alloc, count, list) else { return Ok(()) };
        // SAFETY: the program gave the function to be called with a number of bytes.
        let memory: *mut AgentHandle = unsafe { alloc(size_of_val(handles.as_slice()) as u64) }.cast();
        if memory.is_null() {
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        // SAFETY: the function allocated as many bytes.
        unsafe { std::ptr::copy_nonoverlapping(handles.as_ptr(), memory, handles.len()) };
        count.set(handles.len() as u32);
        list.set(memory);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_memory_copy(dst: *mut c_void, src: *const c_void, size: u64) -> HsaStatus {
    call(|system| {
        let (to, from) = (dst.expose_provenance() as u64, src.expose_provenance() as u64);
        // SAFETY: the caller vouches for memory that is its own.
        unsafe { system.copy(to, from, size) }
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_fill(ptr: *mut c_void, value: u32, count: u64) -> HsaStatus {
    call(|system| {
        let size = count.checked_mul(4).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let start = ptr.expose_provenance() as u64;
        if ptr.is_null() || !start.is_multiple_of(4) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        system.memory.range(start, size).ok_or(HsaStatus::ERROR_INVALID_ALLOCATION)?;
        // A copy publishes the whole allocation, so there are few of them.
        let pattern = vec![value; count.min(MAX_FILL_WORDS) as usize];
        let bytes = size_of_val(pattern.as_slice()) as u64;
        let mut done = 0;
        while done < size {
            let length = bytes.min(size - done);
            let from = pattern.as_ptr().expose_provenance() as u64;
            // SAFETY: the pattern is as long, and the target is an allocation.
            unsafe { system.copy(start + done, from, length) }?;
            done += length;
        }
        Ok(())
    })
}

/// Allows and denies agents the access to a range of memory, pinned or not.
pub(crate) unsafe extern "C" fn hsa_amd_svm_attributes_set(
    ptr: *mut c_void,
    size: u64,
    attribute_list: *mut SvmAttributePair,
    attribute_count: u64,
) -> HsaStatus {
    call(|system| {
        let count = usize::try_from(attribute_count).map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let pairs = unsafe { array(attribute_list, count) }?;
        if !system.topology.has(Feature::Svm) || ptr.is_null() || size == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let start = ptr.expose_provenance() as u64;
        let mut changes = Vec::new();
        for pair in pairs {
            let allowed = match SvmAttribute(pair.attribute) {
                SvmAttribute::AGENT_ACCESSIBLE | SvmAttribute::AGENT_ACCESSIBLE_IN_PLACE => true,
                SvmAttribute::AGENT_NO_ACCESS => false,
                // Others say where memory should be, of which there is one place.
                _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
            };
            changes.push((1 << system.agent(AgentHandle(pair.value))?.index, allowed));
        }
        let allocation = match system.memory.range(start, size) {
            Some(allocation) => allocation,
            None => system.memory.insert(Allocation::new(start, size, Kind::Locked, 0, 1, Backing::PROGRAM))?,
        };
        for (mask, allowed) in changes {
            for agents in [&allocation.readers, &allocation.writers] {
                if allowed {
                    agents.fetch_or(mask, Ordering::Relaxed);
                } else {
                    agents.fetch_and(!mask, Ordering::Relaxed);
                }
            }
        }
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_svm_attributes_get(
    ptr: *mut c_void,
    size: u64,
    attribute_list: *mut SvmAttributePair,
    attribute_count: u64,
) -> HsaStatus {
    call(|system| {
        let count = usize::try_from(attribute_count).map_err(|_| HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let pairs = unsafe { array(attribute_list, count) }?;
        if !system.topology.has(Feature::Svm) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let found = system.memory.range(ptr.addr() as u64, size);
        let readers = found.map_or(0, |allocation| allocation.readers.load(Ordering::Relaxed));
        for (index, pair) in pairs.into_iter().enumerate() {
            if SvmAttribute(pair.attribute) != SvmAttribute::ACCESS_QUERY {
                return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
            }
            let agent = system.agent(AgentHandle(pair.value))?;
            let accessible = readers >> agent.index & 1 != 0;
            let SvmAttribute(attribute) = match accessible {
                true => SvmAttribute::AGENT_ACCESSIBLE_IN_PLACE,
                false => SvmAttribute::AGENT_NO_ACCESS,
            };
            // SAFETY: the list has as many pairs, so the pointer to this one is not null.
            unsafe { Out::new(attribute_list.wrapping_add(index)) }?.set(SvmAttributePair { attribute, ..pair });
        }
        Ok(())
    })
}
