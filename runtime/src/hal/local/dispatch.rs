//! Runs workgroups of a kernel on the calling thread.

use std::ops::Range;

use super::executable::LocalExecutable;
use super::kernels::Arguments;
use super::library::Kernel;
use super::worker::Worker;
use crate::hal::executable_library::{DispatchState, WORKGROUP_LOCAL_MEMORY_PAGE_SIZE, WorkgroupState};
use crate::status::{Result, Status};

/// Size of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::hal) struct Grid {
    /// Invocations per workgroup.
    pub(in crate::hal) size: [u32; 3],
    /// Workgroups.
    pub(in crate::hal) count: [u32; 3],
    /// Bytes of workgroup memory on top of what the kernel declares.
    pub(in crate::hal) local_memory: u32,
}

impl Grid {
    /// Number of workgroups.
    pub(in crate::hal) fn workgroups(&self) -> Result<u64> {
        let [x, y, z] = self.count;
        check_z(z, "workgroup count")?;
        let plane = u64::from(x) * u64::from(y);
        plane.checked_mul(z.into()).ok_or_else(|| {
            Status::out_of_range(format!("workgroup counts of {x}, {y}, {z}: expected a product below 2^64"))
        })
    }

    /// Where the workgroup with this number is; x varies fastest. The number must be below that of the workgroups.
    pub(in crate::hal) fn position(&self, workgroup: u64) -> [u32; 3] {
        let [x, y, _] = self.count.map(u64::from);
        let (row, column) = (workgroup / x, workgroup % x);
        // Each one is below a 32-bit count.
        [column as u32, (row % y) as u32, (row / y) as u32]
    }
}

/// The third dimension of sizes and counts has 16 bits.
pub(super) fn check_z(z: u32, what: &str) -> Result<u16> {
    u16::try_from(z).map_err(|_| Status::out_of_range(format!("{what} of {z} in z: at most {}", u16::MAX)))
}

/// Runs some of the workgroups in order. The constants and bindings are as many as the kernel takes.
pub(super) fn run(
    executable: &LocalExecutable,
    kernel: &Kernel,
    arguments: &Arguments<'_>,
    workgroups: Range<u64>,
    worker: &mut Worker,
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
        processor_id: 0,
        local_memory: arguments.local_memory(worker, local_memory_size)?.cast(),
        local_memory_size,
        padding: 0,
    };
    let _float_state = FloatState::for_kernels();
    for _ in workgroups {
        // SAFETY: the states have as many constants and bindings as the kernel declares, and everything they point to lives
        // until it returns.
        unsafe { issue(executable, kernel, &state, &workgroup) }?;
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
pub(super) struct FloatState {
    #[cfg(target_arch = "x86_64")]
    saved: u32,
}

impl FloatState {
    #[cfg(target_arch = "x86_64")]
    pub(super) fn for_kernels() -> FloatState {
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
    pub(super) fn for_kernels() -> FloatState {
        FloatState {}
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for FloatState {
    fn drop(&mut self) {
        FloatState::set(self.saved);
    }
}
