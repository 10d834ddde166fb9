//! The API of CUDA for `vireo-soft` ([`Cuda`]), and the types of that crate whose refusals are a CUDA status.

use vireo_cuda::result::CuResult;
use vireo_soft::api::{Api, Refusal};
use vireo_soft::{memory, pointers};

/// The result of what may fail.
pub(crate) type Outcome<T = ()> = Result<T, CuResult>;

/// The API of CUDA.
#[derive(Debug, Default)]
pub(crate) struct Cuda;

impl Api for Cuda {
    type Status = CuResult;

    fn status(refusal: Refusal) -> CuResult {
        match refusal {
            Refusal::InvalidArgument | Refusal::InvalidAllocation | Refusal::InUse => CuResult::ERROR_INVALID_VALUE,
            Refusal::OutOfResources => CuResult::ERROR_OUT_OF_MEMORY,
        }
    }
}

/// All allocations.
pub(crate) type MemoryMap = memory::map::MemoryMap<Cuda>;

/// The memory that a device may access.
pub(crate) type DeviceView<'a> = memory::view::AgentView<'a, Cuda>;

/// Where a function puts a result.
pub(crate) type Out<T> = pointers::Out<T, Cuda>;

/// The status of a refusal.
pub(crate) fn refused(refusal: Refusal) -> CuResult {
    Cuda::status(refusal)
}
