//! Launches of kernels, and calls of the host in streams.

use std::ffi::c_void;
use std::sync::Arc;

use vireo_cuda::attributes::LaunchAttributeId;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CuFunction, CuStream, HostFunction, HostNodeParams, LaunchAttribute, LaunchConfig};

use super::functions::known;
use crate::api::Outcome;
use crate::capture::submit;
use crate::graph::{KernelNode, NodeKind, Vouched};
use crate::image::Launch;
use crate::launch::{check, pack};
use crate::reports::tell;
use crate::system::{stream, system};

/// Attributes of a launch at most.
const MAX_ATTRIBUTES: u32 = 64;

/// The shape of a launch: the blocks of the grid, the threads of a block, dynamic shared memory, and whether blocks may
/// wait for each other.
struct Shape([u32; 3], [u32; 3], u32, bool);

/// Launches a kernel.
///
/// # Safety
/// The parameters are as documented.
unsafe fn launch(
    function: CuFunction,
    shape: Shape,
    stream_handle: CuStream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    let (system, found) = stream(stream_handle)?;
    let handle = function.0;
    let (_, function) = known(function)?;
    if !Arc::ptr_eq(&function.module.context, &found.context) {
        return Err(CuResult::ERROR_INVALID_HANDLE);
    }
    if !parameters.is_null() && !extra.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let Shape(grid, block, shared, is_cooperative) = shape;
    let mut launch = Launch { grid, block, shared, is_cooperative, parameters: Arc::default() };
    check(&system.devices[found.context.device as usize], &function, &launch)?;
    // SAFETY: the caller vouches for the parameters.
    launch.parameters = unsafe { pack(function.kernel(), parameters.cast_const().cast(), extra.cast_const().cast()) }?;
    let start = launch.parameters.as_ptr().expose_provenance() as u64;
    let addresses = function.kernel().parameters.iter().map(|known| start + u64::from(known.offset)).collect();
    submit(system, &found, NodeKind::Kernel(KernelNode { function, handle, launch, addresses }))?;
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "the function of the library has as many")]
pub(crate) unsafe fn cuLaunchKernel(
    function: CuFunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    handle: CuStream,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    let shape = Shape([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, false);
    // SAFETY: the caller vouches for the parameters.
    unsafe { launch(function, shape, handle, parameters, extra) }
}

#[expect(clippy::too_many_arguments, reason = "the function of the library has as many")]
pub(crate) unsafe fn cuLaunchCooperativeKernel(
    function: CuFunction,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    handle: CuStream,
    parameters: *mut *mut c_void,
) -> Outcome {
    let shape = Shape([grid_x, grid_y, grid_z], [block_x, block_y, block_z], shared, true);
    // SAFETY: the caller vouches for the parameters.
    unsafe { launch(function, shape, handle, parameters, std::ptr::null_mut()) }
}

/// The numbers of an attribute, which has 64 bytes.
fn words(attribute: &LaunchAttribute) -> [u32; 3] {
    [attribute.value[0] as u32, (attribute.value[0] >> 32) as u32, attribute.value[1] as u32]
}

pub(crate) unsafe fn cuLaunchKernelEx(
    config: *const LaunchConfig,
    function: CuFunction,
    parameters: *mut *mut c_void,
    extra: *mut *mut c_void,
) -> Outcome {
    system()?;
    if config.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    // SAFETY: the caller vouches for it.
    let config = unsafe { config.read_unaligned() };
    if config.num_attrs > MAX_ATTRIBUTES || config.num_attrs != 0 && config.attrs.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let mut is_cooperative = false;
    for index in 0..config.num_attrs as usize {
        // SAFETY: the caller guarantees as many elements as it says.
        let attribute = unsafe { config.attrs.add(index).read_unaligned() };
        match attribute.id {
            LaunchAttributeId::COOPERATIVE => is_cooperative = words(&attribute)[0] != 0,
            LaunchAttributeId::CLUSTER_DIMENSION if words(&attribute) != [1, 1, 1] => {
                tell(format_args!("cuLaunchKernelEx: clusters of blocks need sm_90"));
                return Err(CuResult::ERROR_NOT_SUPPORTED);
            }
            // These say how fast it is to be, or allow an overlap that is not needed.
            LaunchAttributeId::IGNORE
            | LaunchAttributeId::ACCESS_POLICY_WINDOW
            | LaunchAttributeId::SYNCHRONIZATION_POLICY
            | LaunchAttributeId::CLUSTER_DIMENSION
            | LaunchAttributeId::CLUSTER_SCHEDULING_POLICY_PREFERENCE
            | LaunchAttributeId::PROGRAMMATIC_STREAM_SERIALIZATION
            | LaunchAttributeId::PRIORITY
            | LaunchAttributeId::MEM_SYNC_DOMAIN_MAP
            | LaunchAttributeId::MEM_SYNC_DOMAIN
            | LaunchAttributeId::PREFERRED_SHARED_MEMORY_CARVEOUT => {}
            other => {
                tell(format_args!("cuLaunchKernelEx: the attribute {} is not implemented", other.0));
                return Err(CuResult::ERROR_NOT_SUPPORTED);
            }
        }
    }
    let grid = [config.grid_dim_x, config.grid_dim_y, config.grid_dim_z];
    let block = [config.block_dim_x, config.block_dim_y, config.block_dim_z];
    let shape = Shape(grid, block, config.shared_mem_bytes, is_cooperative);
    // SAFETY: the caller vouches for the parameters.
    unsafe { launch(function, shape, config.h_stream, parameters, extra) }
}

pub(crate) unsafe fn cuLaunchHostFunc(handle: CuStream, function: Option<HostFunction>, data: *mut c_void) -> Outcome {
    let (system, found) = stream(handle)?;
    function.ok_or(CuResult::ERROR_INVALID_VALUE)?;
    submit(system, &found, NodeKind::Host(Vouched(HostNodeParams { function, user_data: data })))?;
    Ok(())
}
