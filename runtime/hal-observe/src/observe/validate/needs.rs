//! The requirements of ranges ([`Needs`]), and those of recorded commands that executions are held to ([`Collected`]).

use std::sync::Weak;

use crate::hal::{Buffer, BufferUsage, MemoryAccess, require_access, require_usage};
use crate::status::{Result, Status};

/// The requirements of a range.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Needs {
    /// Uses that must all be allowed.
    pub(crate) usage: BufferUsage,
    /// Uses of which one must be allowed, if there are some.
    pub(crate) any_usage: BufferUsage,
    /// The accesses that the buffer must allow.
    pub(crate) access: MemoryAccess,
    /// The number of which the offset and the length must be multiples.
    pub(crate) multiple_of: u64,
    /// The number of which the offset must be a multiple.
    pub(crate) aligned_to: u64,
    /// Fewest bytes.
    pub(crate) at_least: u64,
}

impl Default for Needs {
    fn default() -> Needs {
        let (usage, access) = (BufferUsage::empty(), MemoryAccess::empty());
        Needs { usage, any_usage: usage, access, multiple_of: 1, aligned_to: 1, at_least: 0 }
    }
}

impl Needs {
    pub(super) fn check_buffer(&self, buffer: &dyn Buffer) -> Result<()> {
        require_usage(buffer, self.usage)?;
        require_access(buffer, self.access)?;
        let allowed = buffer.allowed_usage();
        if !self.any_usage.is_empty() && !allowed.intersects(self.any_usage) {
            let any = self.any_usage;
            let message = format!("the buffer may be used as none of {any:?}: it allows {allowed:?}");
            return Err(Status::permission_denied(message));
        }
        Ok(())
    }

    pub(super) fn check_range(&self, offset: u64, length: u64) -> Result<()> {
        let step = self.multiple_of;
        if !offset.is_multiple_of(step) || !length.is_multiple_of(step) {
            let message =
                format!("offset {offset} and length {length}: expected multiples of the pattern's {step} bytes");
            return Err(Status::invalid_argument(message));
        }
        if !offset.is_multiple_of(self.aligned_to) {
            let message = format!("offset {offset}: expected a multiple of {}", self.aligned_to);
            return Err(Status::invalid_argument(message));
        }
        if length < self.at_least {
            let message = format!("a range of {length} bytes: expected at least {}", self.at_least);
            return Err(Status::out_of_range(message));
        }
        Ok(())
    }
}

/// A reference of a recorded command to a slot.
#[derive(Clone, Copy, Debug)]
pub(super) struct SlotUse {
    pub(super) slot: u32,
    pub(super) offset: u64,
    pub(super) length: u64,
    pub(super) needs: Needs,
}

/// The checks that are left for executions of recorded commands.
#[derive(Debug, Default)]
pub(super) struct Collected {
    pub(super) uses: Vec<SlotUse>,
    /// Transient buffers that commands name.
    pub(super) transients: Vec<Weak<dyn Buffer>>,
}
