//! Loans: the memory of a buffer of another allocator as a buffer of its own, which tells its lender when nothing uses
//! the memory any more. The allocators of this folder hand them out.

use std::fmt;
use std::sync::Arc;

use crate::hal::allocation_state::{AllocationState, state_methods};
use crate::hal::transfer::require_access;
use crate::hal::{Buffer, Mapping, MappingMode, MemoryAccess};
use crate::status::Result;

/// Takes memory back.
pub trait Lender: Send + Sync + 'static {
    /// The memory of a loan that has ended.
    fn take_back(&self, memory: Arc<dyn Buffer>);
}

/// A buffer over the memory of another one.
pub struct LentBuffer<L: Lender> {
    state: AllocationState,
    loan: Arc<Loan<L>>,
}

/// The state that mappings share with the buffer: the memory comes back when the last of them is gone.
struct Loan<L: Lender> {
    /// None only while this is dropped.
    memory: Option<Arc<dyn Buffer>>,
    lender: L,
}

impl<L: Lender> Drop for Loan<L> {
    fn drop(&mut self) {
        if let Some(memory) = self.memory.take() {
            self.lender.take_back(memory);
        }
    }
}

impl<L: Lender> LentBuffer<L> {
    /// A new buffer over all of `memory`. It has one holder, and allows `access`.
    pub fn new(memory: Arc<dyn Buffer>, access: MemoryAccess, lender: L) -> LentBuffer<L> {
        let state = AllocationState::new(memory.byte_length(), memory.memory_type(), access, memory.allowed_usage());
        LentBuffer { state, loan: Arc::new(Loan { memory: Some(memory), lender }) }
    }

    /// The buffer whose memory it is.
    pub fn memory(&self) -> &dyn Buffer {
        match &self.loan.memory {
            Some(memory) => &**memory,
            None => unreachable!("a loan has its memory until it is dropped"),
        }
    }
}

impl<L: Lender> fmt::Debug for LentBuffer<L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.memory().fmt(f)
    }
}

impl<L: Lender> Buffer for LentBuffer<L> {
    state_methods!();

    fn allocation_size(&self) -> u64 {
        self.memory().allocation_size()
    }

    fn map_range(&self, mode: MappingMode, access: MemoryAccess, offset: u64, length: u64) -> Result<Mapping> {
        require_access(self, access)?;
        let Mapping { data, length, owner } = self.memory().map_range(mode, access, offset, length)?;
        // The memory is not used again while it is mapped.
        let mapping = Mapping { data, length, owner: Arc::new((owner, self.loan.clone())) };
        Ok(self.state.watched(mode, access, offset, mapping))
    }

    fn invalidate_range(&self, offset: u64, length: u64) -> Result<()> {
        self.memory().invalidate_range(offset, length)
    }

    fn flush_range(&self, offset: u64, length: u64) -> Result<()> {
        self.memory().flush_range(offset, length)
    }
}
