//! Local memory of workgroups: each thread that runs workgroups has some, which belongs to one workgroup at a time.

use std::cell::Cell;

use crate::heap_bytes::HeapBytes;
use crate::status::Result;

/// Alignment of workgroup memory.
const LOCAL_MEMORY_ALIGNMENT: u64 = 64;

/// Up to this size zeroed memory is the thread's, zeroed again. Beyond it new memory costs less: its pages are zero and
/// untouched until the kernel uses them.
const MAX_ZEROED_SIZE: u32 = 1 << 20;

thread_local! {
    /// The memory of the thread, while it runs no workgroup.
    static IDLE: Cell<Option<WorkgroupMemory>> = const { Cell::new(None) };
}

/// Local memory of a thread that runs workgroups.
#[derive(Default)]
pub struct WorkgroupMemory {
    /// As large as the largest workgroup so far needed.
    local_memory: Option<HeapBytes>,
}

impl WorkgroupMemory {
    /// Lends the thread's memory. Within another call it is new memory, so that no workgroup shares the memory of one
    /// that is running.
    pub fn with<R>(run: impl FnOnce(&mut WorkgroupMemory) -> R) -> R {
        let mut workgroup_memory = IDLE.take().unwrap_or_default();
        let result = run(&mut workgroup_memory);
        IDLE.set(Some(workgroup_memory));
        result
    }

    /// Memory of at least `size` bytes for one workgroup at a time, until the next call; null if `size` is zero. Its
    /// contents are those of the workgroup before.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is not so much memory.
    pub fn local_memory(&mut self, size: u32) -> Result<*mut u8> {
        if size == 0 {
            return Ok(std::ptr::null_mut());
        }
        if let Some(bytes) = &self.local_memory
            && bytes.size() >= u64::from(size)
        {
            return Ok(bytes.data().as_ptr());
        }
        self.new_local_memory(size)
    }

    /// The same, with zeros in it.
    ///
    /// # Errors
    /// As [`WorkgroupMemory::local_memory`].
    pub fn zeroed_local_memory(&mut self, size: u32) -> Result<*mut u8> {
        if size > MAX_ZEROED_SIZE {
            return self.new_local_memory(size);
        }
        let data = self.local_memory(size)?;
        if !data.is_null() {
            // SAFETY: there are that many bytes, and nothing else uses them.
            unsafe { data.write_bytes(0, size as usize) };
        }
        Ok(data)
    }

    /// New memory, which is zero.
    fn new_local_memory(&mut self, size: u32) -> Result<*mut u8> {
        // The old memory is freed first, so that there are never both.
        self.local_memory = None;
        let bytes = HeapBytes::allocate(size.into(), LOCAL_MEMORY_ALIGNMENT)?;
        Ok(self.local_memory.insert(bytes).data().as_ptr())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_kept_and_grows() {
        let first = WorkgroupMemory::with(|workgroup_memory| {
            assert!(workgroup_memory.local_memory(0).expect("nothing to allocate").is_null());
            workgroup_memory.local_memory(100).expect("allocates")
        });
        assert_eq!(first.addr() % LOCAL_MEMORY_ALIGNMENT as usize, 0);
        let (again, more) = WorkgroupMemory::with(|workgroup_memory| {
            let again = workgroup_memory.local_memory(64).expect("is there");
            (again, workgroup_memory.local_memory(1 << 16).expect("allocates"))
        });
        assert_eq!(first, again);
        assert!(!more.is_null());
    }

    #[test]
    fn zeroed_memory_has_no_old_contents() {
        let mut workgroup_memory = WorkgroupMemory::default();
        assert!(workgroup_memory.zeroed_local_memory(0).expect("nothing to allocate").is_null());
        for size in [100, 64, MAX_ZEROED_SIZE, MAX_ZEROED_SIZE + 1, 7] {
            let data = workgroup_memory.local_memory(size).expect("allocates");
            // SAFETY: there are that many bytes, and only this test uses them.
            unsafe { data.write_bytes(0xAA, size as usize) };
            let data = workgroup_memory.zeroed_local_memory(size).expect("allocates");
            // SAFETY: there are that many bytes, and only this test uses them.
            let bytes = unsafe { std::slice::from_raw_parts(data, size as usize) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{size} bytes");
        }
    }

    #[test]
    fn a_worker_inside_of_another_has_memory_of_its_own() {
        WorkgroupMemory::with(|outer| {
            let outer = outer.local_memory(16).expect("allocates");
            let inner = WorkgroupMemory::with(|inner| inner.local_memory(16).expect("allocates"));
            assert_ne!(outer, inner);
        });
    }
}
