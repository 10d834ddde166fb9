//! Launches: the limits of a launch, the packing of parameters, and how many blocks a multiprocessor holds.

use std::sync::Arc;

use vireo_cuda::attributes::DeviceAttribute;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END};
use vireo_soft::clock;

use crate::api::Outcome;
use crate::context::Task;
use crate::crew::Progress;
use crate::image::{Environment, Kernel, Launch};
use crate::module::Function;
use crate::reports::tell;
use crate::system::{Device, System};

/// Bytes of packed parameters at most.
const MAX_PARAMETERS: u64 = 1 << 16;
/// Entries of a list of packed parameters at most.
const MAX_EXTRA: usize = 16;
/// Registers are allocated to warps in multiples of this.
const REGISTER_UNIT: u32 = 256;

/// Packs the parameters of a kernel.
///
/// # Errors
/// INVALID_VALUE if they are missing or too few.
///
/// # Safety
/// `parameters` is null or has an address for each parameter of the kernel, with as many bytes as that has; `extra` is
/// null or a list of packed parameters as documented.
pub(crate) unsafe fn pack(
    kernel: &Kernel,
    parameters: *const *const u8,
    extra: *const *const u8,
) -> Outcome<Arc<[u8]>> {
    let wrong = |text: String| {
        tell(format_args!("kernel `{}`: {text}", kernel.name));
        CuResult::ERROR_INVALID_VALUE
    };
    let size = kernel.parameter_bytes as usize;
    let mut bytes = vec![0u8; size];
    if !parameters.is_null() {
        for (index, parameter) in kernel.parameters.iter().enumerate() {
            // SAFETY: the caller guarantees an address for each parameter.
            let from = unsafe { parameters.add(index).read_unaligned() };
            if from.is_null() {
                return Err(wrong(format!("the address of parameter {index} is null")));
            }
            let (offset, length) = (parameter.offset as usize, parameter.size as usize);
            let to = bytes.get_mut(offset..offset + length).ok_or(CuResult::ERROR_INVALID_VALUE)?;
            // SAFETY: the caller guarantees as many bytes as the parameter has; the target is memory of this function.
            unsafe { std::ptr::copy_nonoverlapping(from, to.as_mut_ptr(), length) };
        }
        return Ok(bytes.into());
    }
    if extra.is_null() {
        return match size {
            0 => Ok(bytes.into()),
            _ => Err(wrong(format!("it has {size} bytes of parameters, and there are none"))),
        };
    }
    let (mut buffer, mut length) = (std::ptr::null::<u8>(), None);
    for index in (0..MAX_EXTRA).step_by(2) {
        // SAFETY: the caller guarantees a list that ends as documented.
        let name = unsafe { extra.add(index).read_unaligned() } as u64;
        // SAFETY: a name other than the end has a value.
        let value = || unsafe { extra.add(index + 1).read_unaligned() };
        match name {
            LAUNCH_PARAM_END => break,
            LAUNCH_PARAM_BUFFER_POINTER => buffer = value(),
            // SAFETY: the value is the address of a size.
            LAUNCH_PARAM_BUFFER_SIZE => length = Some(unsafe { value().cast::<u64>().read_unaligned() }),
            other => return Err(wrong(format!("{other} is not the name of an extra value"))),
        }
    }
    let length = length.filter(|length| *length <= MAX_PARAMETERS && !buffer.is_null());
    let length = length.ok_or_else(|| wrong("the packed parameters lack an address or a size".to_string()))?;
    if (length as usize) < size {
        return Err(wrong(format!("it has {size} bytes of parameters, and {length} are packed")));
    }
    // SAFETY: the caller guarantees the bytes of the buffer, which are at least as many as the kernel has.
    unsafe { std::ptr::copy_nonoverlapping(buffer, bytes.as_mut_ptr(), size) };
    Ok(bytes.into())
}

/// Bytes of dynamic shared memory that a function may have.
pub(crate) fn dynamic_limit(function: &Function, device: &Device) -> u32 {
    let default = device.attribute(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK);
    function.settings().dynamic_shared.unwrap_or(default.saturating_sub(function.kernel().shared))
}

/// Checks a launch against the limits of the device and the function.
///
/// # Errors
/// INVALID_VALUE or another status, and the numbers are told.
pub(crate) fn check(device: &Device, function: &Function, launch: &Launch) -> Outcome {
    let kernel = function.kernel();
    let wrong = |status: CuResult, text: String| {
        tell(format_args!("launch of `{}`: {text}", kernel.name));
        Err(status)
    };
    let limit = |attribute| device.attribute(attribute);
    let grid = [DeviceAttribute::MAX_GRID_DIM_X, DeviceAttribute::MAX_GRID_DIM_Y, DeviceAttribute::MAX_GRID_DIM_Z];
    let block = [DeviceAttribute::MAX_BLOCK_DIM_X, DeviceAttribute::MAX_BLOCK_DIM_Y, DeviceAttribute::MAX_BLOCK_DIM_Z];
    for (what, sizes, limits) in [("grid", launch.grid, grid), ("block", launch.block, block)] {
        for (axis, (size, most)) in ["x", "y", "z"].iter().zip(sizes.into_iter().zip(limits.map(limit))) {
            if size == 0 || size > most {
                let text = format!("the size {axis} of the {what} is {size}, not between 1 and {most}");
                return wrong(CuResult::ERROR_INVALID_VALUE, text);
            }
        }
    }
    let threads = threads(launch.block);
    let most = u64::from(limit(DeviceAttribute::MAX_THREADS_PER_BLOCK));
    if threads > most {
        return wrong(CuResult::ERROR_INVALID_VALUE, format!("a block of {threads} threads is more than {most}"));
    }
    if threads > u64::from(kernel.max_threads) {
        let text = format!("a block of {threads} threads is more than the {} of the kernel", kernel.max_threads);
        return wrong(CuResult::ERROR_INVALID_VALUE, text);
    }
    let most = dynamic_limit(function, device);
    if launch.shared > most {
        let text = format!("{} bytes of dynamic shared memory are more than {most}", launch.shared);
        return wrong(CuResult::ERROR_INVALID_VALUE, text);
    }
    let most = limit(DeviceAttribute::MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
    let shared = kernel.shared.saturating_add(launch.shared);
    if shared > most {
        return wrong(CuResult::ERROR_INVALID_VALUE, format!("{shared} bytes of shared memory are more than {most}"));
    }
    let registers = registers(kernel, threads);
    let most = u64::from(limit(DeviceAttribute::MAX_REGISTERS_PER_BLOCK));
    if registers > most {
        let text = format!("{registers} registers of a block are more than {most}");
        return wrong(CuResult::ERROR_LAUNCH_OUT_OF_RESOURCES, text);
    }
    let blocks = launch.grid.iter().map(|size| u128::from(*size)).product::<u128>();
    if launch.is_cooperative {
        // Any block may wait for any other one, so all of them have to be alive together.
        let most = resident_blocks(device, function, launch);
        if blocks > u128::from(most) {
            let text =
                format!("{blocks} blocks of a cooperative launch are more than the {most} that the device holds");
            return wrong(CuResult::ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, text);
        }
        let bytes = u128::from(function.module.image.block_bytes(function.index, launch));
        if blocks * bytes > u128::from(vireo_ptx::MOST_RESIDENT) {
            let most = vireo_ptx::MOST_RESIDENT;
            let text = format!("{blocks} blocks of a cooperative launch with {bytes} bytes each are more than {most}");
            return wrong(CuResult::ERROR_COOPERATIVE_LAUNCH_TOO_LARGE, text);
        }
    }
    Ok(())
}

/// Blocks of a launch that the device holds.
fn resident_blocks(device: &Device, function: &Function, launch: &Launch) -> u64 {
    let each = blocks_per_multiprocessor(device, function.kernel(), threads(launch.block), launch.shared.into());
    u64::from(each) * u64::from(device.attribute(DeviceAttribute::MULTIPROCESSOR_COUNT))
}

/// Threads of a block.
pub(crate) fn threads(block: [u32; 3]) -> u64 {
    block.iter().fold(1, |threads: u64, size| threads.saturating_mul((*size).into()))
}

/// Registers of a block.
fn registers(kernel: &Kernel, threads: u64) -> u64 {
    let warp = (kernel.registers * 32).next_multiple_of(REGISTER_UNIT);
    threads.div_ceil(32) * u64::from(warp)
}

/// Blocks of a kernel that a multiprocessor holds.
pub(crate) fn blocks_per_multiprocessor(device: &Device, kernel: &Kernel, threads: u64, dynamic: u64) -> u32 {
    let limit = |attribute| u64::from(device.attribute(attribute));
    if threads == 0 || threads > limit(DeviceAttribute::MAX_THREADS_PER_BLOCK).min(kernel.max_threads.into()) {
        return 0;
    }
    let by_threads = limit(DeviceAttribute::MAX_THREADS_PER_MULTIPROCESSOR) / threads.next_multiple_of(32);
    let registers = registers(kernel, threads).max(1);
    let by_registers = limit(DeviceAttribute::MAX_REGISTERS_PER_MULTIPROCESSOR) / registers;
    let shared = u64::from(kernel.shared).saturating_add(dynamic);
    let reserved = limit(DeviceAttribute::RESERVED_SHARED_MEMORY_PER_BLOCK);
    let by_shared = match shared {
        0 => u64::MAX,
        _ => limit(DeviceAttribute::MAX_SHARED_MEMORY_PER_MULTIPROCESSOR) / shared.saturating_add(reserved),
    };
    let most = limit(DeviceAttribute::MAX_BLOCKS_PER_MULTIPROCESSOR);
    u32::try_from(most.min(by_threads).min(by_registers).min(by_shared)).unwrap_or(u32::MAX)
}

/// The work of a launch in the stream with this number.
pub(crate) fn task(system: &'static System, function: Arc<Function>, launch: Launch, stream: u64) -> Task {
    Box::new(move |known| {
        let environment = Environment { system, context: function.module.context.clone() };
        let device = &system.devices[environment.context.device as usize];
        let resident = resident_blocks(device, &function, &launch);
        let begin = clock::now();
        let run = function.module.image.launch(function.index, &launch, resident, &environment, (stream, known));
        system.trace.iter().for_each(|trace| trace.work(&function.kernel().name, stream, begin));
        run?;
        Ok(Progress::Done)
    })
}
