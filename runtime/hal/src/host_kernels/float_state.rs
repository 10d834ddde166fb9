//! The floating-point mode of a thread while kernels run: denormals are zero. Loaders set it around calls of kernels.

/// The floating-point mode that kernels expect: denormals are zero, as results and as operands. Dropping it restores the mode of the
/// calling thread.
pub struct FloatState {
    #[cfg(target_arch = "x86_64")]
    saved: u32,
}

impl FloatState {
    #[cfg(target_arch = "x86_64")]
    /// Sets the mode that kernels expect, until the value is dropped.
    pub fn for_kernels() -> FloatState {
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
    pub fn for_kernels() -> FloatState {
        FloatState {}
    }
}

#[cfg(target_arch = "x86_64")]
impl Drop for FloatState {
    fn drop(&mut self) {
        FloatState::set(self.saved);
    }
}
