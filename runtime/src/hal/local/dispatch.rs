//! Runs a kernel over a grid of workgroups on the calling thread.

use super::executable::{Kernel, LocalExecutable};
use super::kernels::Bindings;
use crate::hal::buffer::HeapBytes;
use crate::hal::executable_library::{DispatchState, WORKGROUP_LOCAL_MEMORY_PAGE_SIZE, WorkgroupState};
use crate::status::{Result, Status};

/// Alignment of workgroup memory.
const LOCAL_MEMORY_ALIGNMENT: u64 = 64;

/// Size of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::hal) struct Grid {
    /// Invocations per workgroup.
    pub(super) size: [u32; 3],
    /// Workgroups.
    pub(super) count: [u32; 3],
    /// Bytes of workgroup memory on top of what the kernel declares.
    pub(super) local_memory: u32,
}

/// The third dimension of sizes and counts has 16 bits.
pub(super) fn check_z(z: u32, what: &str) -> Result<u16> {
    u16::try_from(z).map_err(|_| Status::out_of_range(format!("{what} of {z} in z: at most {}", u16::MAX)))
}

/// Runs every workgroup in order. `constants` and `bindings` are as many as the kernel takes.
pub(super) fn run(
    executable: &LocalExecutable,
    kernel: &Kernel,
    grid: Grid,
    constants: &[u32],
    bindings: &Bindings,
) -> Result<()> {
    let attributes = &kernel.attributes;
    let pages = u64::from(attributes.local_memory_pages) * u64::from(WORKGROUP_LOCAL_MEMORY_PAGE_SIZE);
    let local_memory_size = u32::try_from(pages + u64::from(grid.local_memory))
        .map_err(|_| Status::resource_exhausted("workgroup memory does not fit 32 bits"))?;
    let local_memory = match local_memory_size {
        0 => None,
        size => Some(HeapBytes::allocate(size.into(), LOCAL_MEMORY_ALIGNMENT)?),
    };
    let state = DispatchState {
        workgroup_size_x: grid.size[0].max(1),
        workgroup_size_y: grid.size[1].max(1),
        workgroup_size_z: check_z(grid.size[2].max(1), "workgroup size")?,
        constant_count: attributes.constant_count.into(),
        workgroup_count_x: grid.count[0],
        workgroup_count_y: grid.count[1],
        workgroup_count_z: check_z(grid.count[2], "workgroup count")?,
        max_concurrency: 1,
        binding_count: attributes.binding_count,
        constants: constants.as_ptr(),
        binding_pointers: bindings.pointers().as_ptr(),
        binding_lengths: bindings.lengths().as_ptr(),
    };
    let mut workgroup = WorkgroupState {
        workgroup_id_x: 0,
        workgroup_id_y: 0,
        workgroup_id_z: 0,
        reserved: 0,
        processor_id: 0,
        local_memory: local_memory.as_ref().map_or(std::ptr::null_mut(), |bytes| bytes.data().as_ptr().cast()),
        local_memory_size,
        padding: 0,
    };
    let _float_state = FloatState::for_kernels();
    for z in 0..state.workgroup_count_z {
        workgroup.workgroup_id_z = z;
        for y in 0..state.workgroup_count_y {
            workgroup.workgroup_id_y = y;
            for x in 0..state.workgroup_count_x {
                workgroup.workgroup_id_x = x;
                // SAFETY: the states have as many constants and bindings as the kernel declares, and everything they point to lives
                // until it returns.
                unsafe { issue(executable, kernel, &state, &workgroup) }?;
            }
        }
    }
    Ok(())
}

/// Runs one workgroup.
///
/// # Safety
/// The states are as the kernel's convention has them: as many constants and bindings as it declares, and all memory they point to
/// valid until it returns.
#[inline]
pub(super) unsafe fn issue(
    executable: &LocalExecutable,
    kernel: &Kernel,
    state: &DispatchState,
    workgroup: &WorkgroupState,
) -> Result<()> {
    // SAFETY: the kernel is code of a library that its loader trusted; the caller guarantees the rest.
    let result = unsafe {
        (kernel.function)(executable.environment(), std::ptr::from_ref(state), std::ptr::from_ref(workgroup))
    };
    if result == 0 {
        return Ok(());
    }
    let (x, y, z) = (workgroup.workgroup_id_x, workgroup.workgroup_id_y, workgroup.workgroup_id_z);
    Err(Status::internal(format!("kernel `{}` failed with {result} in workgroup {x},{y},{z}", kernel.name())))
}

/// The floating-point mode that kernels expect: denormals are zero, as results and as operands. The mode of the calling thread comes
/// back on drop.
struct FloatState {
    #[cfg(target_arch = "x86_64")]
    saved: u32,
}

impl FloatState {
    #[cfg(target_arch = "x86_64")]
    fn for_kernels() -> FloatState {
        // Flush to zero and denormals are zero.
        const DENORMALS_ARE_ZERO: u32 = 0x8040;
        let mut saved = 0u32;
        // SAFETY: the instruction stores the register to memory that is ours.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut saved, options(nostack, preserves_flags)) };
        Self::set(saved | DENORMALS_ARE_ZERO);
        FloatState { saved }
    }

    #[cfg(target_arch = "x86_64")]
    fn set(state: u32) {
        // SAFETY: the state is one that was read from the register, with at most the two denormal modes added, so no reserved bit is
        // set. Only kernels compute floats until it is set back; exceptions stay masked as they were.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, readonly)) };
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn for_kernels() -> FloatState {
        FloatState {}
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for FloatState {
    fn drop(&mut self) {
        FloatState::set(self.saved);
    }
}
