//! The API of HSA for `vireo-soft` ([`Hsa`]), and the types of that crate whose refusals are an HSA status.

use vireo_hsa::hsa::HsaStatus;
use vireo_soft::api::{Api, Refusal};
use vireo_soft::{memory, pointers};

/// The API of HSA.
#[derive(Debug, Default)]
pub(crate) struct Hsa;

impl Api for Hsa {
    type Status = HsaStatus;

    fn status(refusal: Refusal) -> HsaStatus {
        match refusal {
            Refusal::InvalidArgument => HsaStatus::ERROR_INVALID_ARGUMENT,
            Refusal::InvalidAllocation => HsaStatus::ERROR_INVALID_ALLOCATION,
            Refusal::OutOfResources => HsaStatus::ERROR_OUT_OF_RESOURCES,
            Refusal::InUse => HsaStatus::ERROR_RESOURCE_FREE,
        }
    }
}

/// All allocations.
pub(crate) type MemoryMap = memory::map::MemoryMap<Hsa>;

/// The memory that an agent may access.
pub(crate) type AgentView<'a> = memory::view::AgentView<'a, Hsa>;

/// Addresses apart from memory.
#[cfg(target_os = "linux")]
pub(crate) type VirtualMemory = memory::virtual_memory::VirtualMemory<Hsa>;

/// Where a function puts a result.
pub(crate) type Out<T> = pointers::Out<T, Hsa>;

/// Where a function puts an attribute.
pub(crate) type Attribute = pointers::Attribute<Hsa>;
