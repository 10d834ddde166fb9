//! Agents, instruction sets, regions and memory pools.

use std::ffi::c_void;

use vireo_hsa::hsa::{
    Agent as AgentHandle, AgentCallback, AgentInfo, AgentMemoryPoolInfo, Cache, CacheCallback, CacheInfo,
    CoherencyType, HsaStatus, Isa, IsaCallback, IsaInfo, MemoryPool, MemoryPoolCallback, MemoryPoolInfo, Region,
    RegionCallback, RegionInfo,
};

use super::pointers::{Attribute, call, iterate};
use crate::agents::Agent;

pub(crate) unsafe extern "C" fn hsa_iterate_agents(callback: Option<AgentCallback>, data: *mut c_void) -> HsaStatus {
    call(|system| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // SAFETY: the program gave the function to be called with its argument.
        iterate(&system.agents, |agent| unsafe { callback(agent.handle(), data) })
    })
}

pub(crate) unsafe extern "C" fn hsa_agent_get_info(
    agent: AgentHandle,
    attribute: AgentInfo,
    value: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        value.set(&system.agent(agent)?.info(attribute, &system.topology)?);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_agent_iterate_isas(
    agent: AgentHandle,
    callback: Option<IsaCallback>,
    data: *mut c_void,
) -> HsaStatus {
    call(|system| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let isa = Some(system.agent(agent)?).filter(|agent| agent.is_gpu()).map(Agent::isa);
        // SAFETY: the program gave the function to be called with its argument.
        iterate(isa, |isa| unsafe { callback(isa, data) })
    })
}

pub(crate) unsafe extern "C" fn hsa_isa_get_info_alt(isa: Isa, attribute: IsaInfo, value: *mut c_void) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        let agent = Agent::index_of_isa(isa).and_then(|index| system.agents.get(index));
        agent.ok_or(HsaStatus::ERROR_INVALID_ISA)?;
        value.set(&Agent::isa_info(attribute, &system.topology)?);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_agent_iterate_caches(
    agent: AgentHandle,
    callback: Option<CacheCallback>,
    _data: *mut c_void,
) -> HsaStatus {
    call(|system| {
        callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        // Agents have no caches.
        system.agent(agent).map(|_| ())
    })
}

pub(crate) unsafe extern "C" fn hsa_cache_get_info(
    _cache: Cache,
    _attribute: CacheInfo,
    _value: *mut c_void,
) -> HsaStatus {
    call(|_| Err(HsaStatus::ERROR_INVALID_CACHE))
}

pub(crate) unsafe extern "C" fn hsa_agent_iterate_regions(
    agent: AgentHandle,
    callback: Option<RegionCallback>,
    data: *mut c_void,
) -> HsaStatus {
    call(|system| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let pools = &system.agent(agent)?.pools;
        // SAFETY: the program gave the function to be called with its argument.
        iterate(pools, |pool| unsafe { callback(Region(pool.handle.0), data) })
    })
}

pub(crate) unsafe extern "C" fn hsa_region_get_info(
    region: Region,
    attribute: RegionInfo,
    value: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        let pool = system.pool(MemoryPool(region.0)).map_err(|_| HsaStatus::ERROR_INVALID_REGION)?;
        value.set(&pool.region_info(attribute)?);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_agent_iterate_memory_pools(
    agent: AgentHandle,
    callback: Option<MemoryPoolCallback>,
    data: *mut c_void,
) -> HsaStatus {
    call(|system| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        let pools = &system.agent(agent)?.pools;
        // SAFETY: the program gave the function to be called with its argument.
        iterate(pools, |pool| unsafe { callback(pool.handle, data) })
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_memory_pool_get_info(
    memory_pool: MemoryPool,
    attribute: MemoryPoolInfo,
    value: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        value.set(&system.pool(memory_pool)?.info(attribute)?);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_agent_memory_pool_get_info(
    agent: AgentHandle,
    memory_pool: MemoryPool,
    attribute: AgentMemoryPoolInfo,
    value: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        let (agent, pool) = (system.agent(agent)?, system.pool(memory_pool)?);
        value.set(&agent.pool_info(pool, attribute, &system.topology)?);
        Ok(())
    })
}

/// Agents have no caches that could differ from memory, so both types are as true as ever.
pub(crate) unsafe extern "C" fn hsa_amd_coherency_set_type(agent: AgentHandle, r#type: CoherencyType) -> HsaStatus {
    call(|system| {
        let agent = system.agent(agent)?;
        if r#type.name().is_none() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        if agent.is_gpu() { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_AGENT) }
    })
}
