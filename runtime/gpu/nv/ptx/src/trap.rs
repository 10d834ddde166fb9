//! Traps: why a kernel was stopped, with its line, block and thread.

use std::fmt;

pub use vireo_simt::TrapKind;

/// A kernel that was stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trap {
    /// The reason.
    pub kind: TrapKind,
    /// The name of the kernel.
    pub kernel: String,
    /// The line of the text; zero where no instruction is to blame.
    pub line: u32,
    /// The opcode with its suffixes; empty where no instruction is to blame.
    pub instruction: String,
    /// The block.
    pub block: [u32; 3],
    /// The thread, or the first one of those that are to blame.
    pub thread: [u32; 3],
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, in kernel {}", self.kind, self.kernel)?;
        if self.line == 0 {
            return Ok(());
        }
        let ([x, y, z], [i, j, k]) = (self.block, self.thread);
        write!(f, ", line {}: {}, block ({x},{y},{z}), thread ({i},{j},{k})", self.line, self.instruction)
    }
}

impl std::error::Error for Trap {}
