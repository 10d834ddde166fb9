//! Calls of kernels: runs workgroups of a dispatch on the calling thread, for `native_library`.

use std::ops::Range;

use super::library_metadata::NativeKernel;
use crate::hal::executable_library::{DispatchState, Environment, WORKGROUP_LOCAL_MEMORY_PAGE_SIZE, WorkgroupState};
use crate::hal::host_kernels::{Arguments, FloatState, WorkgroupMemory, check_z};
use crate::status::{Result, Status};

/// Runs some of the workgroups in order.
///
/// # Safety
/// The environment is that of the kernel's library. There are as many constants and bindings as the kernel takes, and
/// the workgroups are in the grid.
pub(super) unsafe fn run(
    environment: *const Environment,
    kernel: &NativeKernel,
    arguments: &Arguments<'_>,
    workgroups: Range<u64>,
    workgroup_memory: &mut WorkgroupMemory,
) -> Result<()> {
    if workgroups.is_empty() {
        return Ok(());
    }
    let Arguments { grid, constants, bindings, concurrency, .. } = arguments;
    let attributes = &kernel.attributes;
    let pages = u64::from(attributes.local_memory_pages) * u64::from(WORKGROUP_LOCAL_MEMORY_PAGE_SIZE);
    let local_memory_size = u32::try_from(pages + u64::from(grid.local_memory))
        .map_err(|_| Status::resource_exhausted("workgroup memory does not fit 32 bits"))?;
    let state = DispatchState {
        workgroup_size_x: grid.size[0].max(1),
        workgroup_size_y: grid.size[1].max(1),
        workgroup_size_z: check_z(grid.size[2].max(1), "workgroup size")?,
        constant_count: attributes.constant_count.into(),
        workgroup_count_x: grid.count[0],
        workgroup_count_y: grid.count[1],
        workgroup_count_z: check_z(grid.count[2], "workgroup count")?,
        max_concurrency: u8::try_from(*concurrency).unwrap_or(u8::MAX),
        binding_count: attributes.binding_count,
        constants: constants.as_ptr(),
        binding_pointers: bindings.pointers().as_ptr(),
        binding_lengths: bindings.lengths().as_ptr(),
    };
    let [x, y, z] = grid.position(workgroups.start);
    let mut workgroup = WorkgroupState {
        workgroup_id_x: x,
        workgroup_id_y: y,
        workgroup_id_z: z as u16,
        reserved: 0,
        processor_id: processor_id(),
        local_memory: arguments.local_memory(workgroup_memory, local_memory_size)?.cast(),
        local_memory_size,
        padding: 0,
    };
    let _float_state = FloatState::for_kernels();
    #[cfg(windows)]
    commit_stack();
    for _ in workgroups {
        // SAFETY: the caller guarantees that the environment is that of the kernel's library. The states have as many
        // constants and bindings as the kernel declares, and everything they point to lives until it returns.
        unsafe { issue(environment, kernel, &state, &workgroup) }?;
        workgroup.workgroup_id_x += 1;
        if workgroup.workgroup_id_x == state.workgroup_count_x {
            workgroup.workgroup_id_x = 0;
            workgroup.workgroup_id_y += 1;
            if workgroup.workgroup_id_y == state.workgroup_count_y {
                workgroup.workgroup_id_y = 0;
                // After the last workgroup this may be the count itself, which has as many bits.
                workgroup.workgroup_id_z += 1;
            }
        }
    }
    Ok(())
}

/// The processor that the calling thread is on, for kernels and plugins that have state for each. The thread may leave
/// it at any time, so it is asked once for all workgroups of a call. 0 where the system does not say.
fn processor_id() -> u32 {
    #[cfg(target_os = "linux")]
    // SAFETY: it takes nothing and returns a number; the C library reads it from memory of the thread or of the kernel.
    let id = unsafe { libc::sched_getcpu() };
    #[cfg(not(target_os = "linux"))]
    let id = 0;
    u32::try_from(id).unwrap_or(0)
}

/// Makes the system commit the stack that a kernel may use. Windows extends a stack only when its next page is
/// accessed, so functions with more than one page of it touch them in order; kernels do not, since they are compiled
/// for no system. This function does, as compiled for Windows. The compiler of kernels limits their own allocations to
/// 32 KiB (`--iree-llvmcpu-stack-allocation-limit`).
#[cfg(windows)]
#[inline(never)]
pub(super) fn commit_stack() {
    const COMMITTED: usize = 1 << 16;
    std::hint::black_box(&std::mem::MaybeUninit::<[u8; COMMITTED]>::uninit());
}

/// Runs one workgroup.
///
/// # Safety
/// The environment is that of the kernel's library. The states follow the kernel's convention: they have as many
/// constants and bindings as it declares, and all memory they point to is valid until it returns.
#[inline]
pub(super) unsafe fn issue(
    environment: *const Environment,
    kernel: &NativeKernel,
    state: &DispatchState,
    workgroup: &WorkgroupState,
) -> Result<()> {
    // SAFETY: the kernel is code of a library that its loader trusted; the caller guarantees the rest.
    let result = unsafe { (kernel.function)(environment, std::ptr::from_ref(state), std::ptr::from_ref(workgroup)) };
    if result == 0 {
        return Ok(());
    }
    let (x, y, z) = (workgroup.workgroup_id_x, workgroup.workgroup_id_y, workgroup.workgroup_id_z);
    Err(Status::internal(format!("kernel `{}` failed with {result} in workgroup {x},{y},{z}", kernel.name())))
}
