//! The floating-point mode of a thread while kernels run: denormals are zero. Loaders set it around calls of kernels.

/// The floating-point mode that kernels expect: denormals are zero, as results and as operands. Dropping it restores
/// the mode of the calling thread. On machines whose control register is not known here it changes nothing.
pub struct FloatState {
    /// The mode before, if it was another one.
    saved: Option<register::Value>,
}

impl FloatState {
    /// Sets the mode that kernels expect, until the value is dropped.
    pub fn for_kernels() -> FloatState {
        let saved = register::get();
        // To write the register takes as long as twenty other instructions, and it often has the mode already.
        let is_set = saved & register::DENORMALS_ARE_ZERO == register::DENORMALS_ARE_ZERO;
        if !is_set {
            register::set(saved | register::DENORMALS_ARE_ZERO);
        }
        FloatState { saved: (!is_set).then_some(saved) }
    }
}

impl Drop for FloatState {
    fn drop(&mut self) {
        if let Some(saved) = self.saved {
            register::set(saved);
        }
    }
}

#[cfg(target_arch = "x86_64")]
mod register {
    //! `mxcsr`.

    pub type Value = u32;

    /// Flush to zero and denormals are zero.
    pub const DENORMALS_ARE_ZERO: u32 = 0x8040;

    pub fn get() -> u32 {
        let mut state = 0u32;
        // SAFETY: the instruction stores the register to memory that is ours.
        unsafe { std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut state, options(nostack, preserves_flags)) };
        state
    }

    pub fn set(state: u32) {
        // SAFETY: the state is one that was read from the register, with at most the two denormal modes added, so no
        // reserved bit is set. Only kernels compute floats until it is set back; exceptions stay masked as they were.
        unsafe { std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const state, options(nostack, readonly)) };
    }
}

#[cfg(target_arch = "aarch64")]
mod register {
    //! `fpcr`.

    pub type Value = u64;

    /// Flush to zero, of half floats (`FZ16`) and of all others (`FZ`).
    pub const DENORMALS_ARE_ZERO: u64 = 1 << 19 | 1 << 24;

    pub fn get() -> u64 {
        let state: u64;
        // SAFETY: the register can be read at any time, and that changes nothing.
        unsafe { std::arch::asm!("mrs {}, fpcr", out(reg) state, options(nomem, nostack, preserves_flags)) };
        state
    }

    pub fn set(state: u64) {
        // SAFETY: the state is one that was read from the register, with at most the two denormal modes added; the one
        // for half floats is ignored by processors that do not compute with them. Only kernels compute floats until it
        // is set back.
        unsafe { std::arch::asm!("msr fpcr, {}", in(reg) state, options(nostack, preserves_flags)) };
    }
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
mod register {
    //! No register is known.

    pub type Value = u32;

    pub const DENORMALS_ARE_ZERO: u32 = 0;

    pub fn get() -> u32 {
        0
    }

    pub fn set(_state: u32) {}
}
