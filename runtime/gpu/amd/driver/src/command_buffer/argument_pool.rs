//! The source of memory for arguments that stays with command buffers ([`PublishedPool`]): allocating it takes a system
//! call and fresh pages, which cost more than recording does, so that of command buffers that are gone is used again.

use std::any::Any;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

use super::arguments::{ArgumentMemory, ArgumentRange};
use crate::memory::{DeviceMemory, Publication};
use crate::status::{Result, Status};

/// The smallest allocation, and the one of which larger ones are multiples by a power of two.
pub(super) const SMALLEST: u64 = 4 << 10;

/// Sizes that are kept: up to 4 MiB.
const SIZES: usize = 11;

/// Most bytes of each size that are kept.
const MAX_KEPT: u64 = 4 << 20;

/// Memory for arguments that a command buffer keeps.
pub struct PublishedMemory {
    /// The bytes, which nothing else uses.
    pub range: ArgumentRange,
    /// How what is written to them becomes visible.
    pub publication: Publication,
    /// Keeps them allocated.
    pub owner: Arc<dyn Any + Send + Sync>,
}

impl fmt::Debug for PublishedMemory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.range, f)
    }
}

/// Free memory, by size.
#[derive(Default)]
struct Free([Vec<DeviceMemory>; SIZES]);

/// Memory for arguments that command buffers publish.
#[derive(Default)]
pub struct PublishedPool(Arc<Mutex<Free>>);

impl fmt::Debug for PublishedPool {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PublishedPool")
    }
}

/// Memory that a command buffer has; it goes back to its pool.
struct Loan {
    /// None only while this is dropped.
    memory: Option<DeviceMemory>,
    size: usize,
    free: Arc<Mutex<Free>>,
}

impl Drop for Loan {
    fn drop(&mut self) {
        let mut free = self.free.lock().unwrap_or_else(PoisonError::into_inner);
        let kept = &mut free.0[self.size];
        if (kept.len() as u64) < (MAX_KEPT / (SMALLEST << self.size)).max(1) {
            kept.extend(self.memory.take());
        }
    }
}

impl PublishedPool {
    /// At least so many bytes, of `allocate` if there are none to use again.
    ///
    /// # Errors
    /// Those of `allocate`.
    pub fn take(&self, length: usize, allocate: impl FnOnce(u64) -> Result<DeviceMemory>) -> Result<PublishedMemory> {
        let length = length as u64;
        let blocks = length.div_ceil(SMALLEST).max(1).next_power_of_two();
        let size = blocks.trailing_zeros() as usize;
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner).0.get_mut(size).and_then(Vec::pop);
        let memory = match known {
            Some(memory) => memory,
            None if size < SIZES => allocate(SMALLEST << size)?,
            None => allocate(length)?,
        };
        let host = memory.host.ok_or_else(|| Status::internal("the host does not reach memory for arguments"))?;
        let (publication, bytes) = (memory.publication, memory.length as usize);
        // SAFETY: the allocation has that many bytes, which its owner keeps, and nothing else uses it: executions that
        // did have completed, since they held it.
        let range = unsafe { ArgumentMemory::new(host, memory.address, bytes).range(0, bytes) };
        let range = range.ok_or_else(|| Status::internal("memory for arguments that ends before it begins"))?;
        let owner: Arc<dyn Any + Send + Sync> = if size < SIZES {
            Arc::new(Loan { memory: Some(memory), size, free: self.0.clone() })
        } else {
            memory.owner
        };
        Ok(PublishedMemory { range, publication, owner })
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::ptr::NonNull;

    use super::*;
    use crate::memory::AgentMask;

    #[test]
    fn memory_of_a_size_is_used_again_and_large_memory_is_not() {
        let allocated = Cell::new(Vec::new());
        let allocate = |length: u64| {
            let mut bytes = vec![0u64; length.div_ceil(8) as usize].into_boxed_slice();
            let host = NonNull::new(bytes.as_mut_ptr().cast::<u8>()).expect("an address");
            let mut lengths = allocated.take();
            lengths.push(length);
            allocated.set(lengths);
            let address = host.as_ptr() as u64;
            let owner = Arc::new(bytes);
            Ok(DeviceMemory {
                address,
                length,
                host: Some(host),
                publication: Publication::Coherent,
                reached_by: AgentMask::ALL,
                owner,
            })
        };
        let pool = PublishedPool::default();
        let first = pool.take(5000, allocate).expect("allocates");
        let second = pool.take(5000, allocate).expect("allocates");
        let address = first.range.address();
        drop(first);
        let third = pool.take(8192, allocate).expect("is used again");
        assert_eq!(third.range.address(), address);
        drop(pool.take(5 << 20, allocate).expect("allocates"));
        drop(pool.take(5 << 20, allocate).expect("allocates"));
        assert_eq!(allocated.take(), [8192, 8192, 5 << 20, 5 << 20]);
        drop((second, third));
    }
}
