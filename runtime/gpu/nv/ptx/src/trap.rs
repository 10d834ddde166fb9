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
    /// More of it.
    pub details: Box<TrapDetails>,
}

/// The source of an instruction, and the threads that wait, of a kernel that was stopped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrapDetails {
    /// `file:line` of the source, where the text says so.
    pub source: Option<String>,
    /// The threads that wait for others, if that is why.
    pub waits: Vec<Waiting>,
}

/// Threads of a warp that wait at one place.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Waiting {
    /// The line of the text.
    pub line: u32,
    /// The opcode with its suffixes.
    pub instruction: String,
    /// The number of the barrier; none where they wait for other lanes of their warp.
    pub barrier: Option<u8>,
    /// The first of them, in the block.
    pub thread: [u32; 3],
    /// How many there are.
    pub count: u32,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (Waiting { line, instruction, count, .. }, [i, j, k]) = (self, self.thread);
        write!(f, "{count} threads from ({i},{j},{k}) on wait ")?;
        match self.barrier {
            Some(barrier) => write!(f, "at barrier {barrier}")?,
            None => f.write_str("for others of their warp")?,
        }
        write!(f, ", line {line}: {instruction}")
    }
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, in kernel {}", self.kind, self.kernel)?;
        if self.line == 0 {
            return Ok(());
        }
        let ([x, y, z], [i, j, k]) = (self.block, self.thread);
        write!(f, ", line {}: {}, block ({x},{y},{z}), thread ({i},{j},{k})", self.line, self.instruction)?;
        if let Some(source) = &self.details.source {
            write!(f, "\n    source {source}")?;
        }
        self.details.waits.iter().try_for_each(|waiting| write!(f, "\n    {waiting}"))
    }
}

impl std::error::Error for Trap {}
