//! What a thread needs to run workgroups: memory that belongs to one workgroup at a time.

use std::cell::Cell;

use crate::heap_bytes::HeapBytes;
use crate::status::Result;

/// Alignment of workgroup memory.
const LOCAL_MEMORY_ALIGNMENT: u64 = 64;

/// Up to this size, memory is zeroed to be used again. Beyond it new memory costs less, whose pages nobody touches before the kernel does.
const MAX_ZEROED_SIZE: u32 = 1 << 20;

thread_local! {
    /// The worker of the thread, while it does not run workgroups.
    static IDLE: Cell<Option<Worker>> = const { Cell::new(None) };
}

/// What a thread that runs workgroups has for itself.
#[derive(Default)]
pub struct Worker {
    /// Memory of the largest workgroup so far.
    local_memory: Option<HeapBytes>,
}

impl Worker {
    /// Lends the thread's worker. Inside of another call it is a new one, so that nobody shares memory with a workgroup that is running.
    pub fn with<R>(run: impl FnOnce(&mut Worker) -> R) -> R {
        let mut worker = IDLE.take().unwrap_or_default();
        let result = run(&mut worker);
        IDLE.set(Some(worker));
        result
    }

    /// Memory of at least `size` bytes for one workgroup at a time, until the next call; null if there are none. What is in it is
    /// left over from the workgroup before. RESOURCE_EXHAUSTED if there is not so much memory.
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
    pub fn zeroed_local_memory(&mut self, size: u32) -> Result<*mut u8> {
        if size > MAX_ZEROED_SIZE {
            return self.new_local_memory(size);
        }
        let data = self.local_memory(size)?;
        if !data.is_null() {
            // SAFETY: there are that many bytes, and nobody else uses them.
            unsafe { data.write_bytes(0, size as usize) };
        }
        Ok(data)
    }

    /// New memory, which is zero.
    fn new_local_memory(&mut self, size: u32) -> Result<*mut u8> {
        // The old memory goes first: both at once would be more than anyone needs.
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
        let first = Worker::with(|worker| {
            assert!(worker.local_memory(0).expect("nothing to allocate").is_null());
            worker.local_memory(100).expect("allocates")
        });
        assert_eq!(first.addr() % LOCAL_MEMORY_ALIGNMENT as usize, 0);
        let (again, more) = Worker::with(|worker| {
            let again = worker.local_memory(64).expect("is there");
            (again, worker.local_memory(1 << 16).expect("allocates"))
        });
        assert_eq!(first, again);
        assert!(!more.is_null());
    }

    #[test]
    fn zeroed_memory_shows_nothing_of_what_was_there() {
        let mut worker = Worker::default();
        assert!(worker.zeroed_local_memory(0).expect("nothing to allocate").is_null());
        for size in [100, 64, MAX_ZEROED_SIZE, MAX_ZEROED_SIZE + 1, 7] {
            let data = worker.local_memory(size).expect("allocates");
            // SAFETY: there are that many bytes, and only this test uses them.
            unsafe { data.write_bytes(0xAA, size as usize) };
            let data = worker.zeroed_local_memory(size).expect("allocates");
            // SAFETY: as above.
            let bytes = unsafe { std::slice::from_raw_parts(data, size as usize) };
            assert!(bytes.iter().all(|byte| *byte == 0), "{size} bytes");
        }
    }

    #[test]
    fn a_worker_inside_of_another_has_memory_of_its_own() {
        Worker::with(|outer| {
            let outer = outer.local_memory(16).expect("allocates");
            let inner = Worker::with(|inner| inner.local_memory(16).expect("allocates"));
            assert_ne!(outer, inner);
        });
    }
}
