//! Executables that contexts of the same linked modules share, so that kernels are loaded and compiled once. The export `executable.create` looks here
//! first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vireo_hal::{Device, Executable, QueueAffinity};

use crate::vm::{Buffer as VmBuffer, Obj};

/// What an executable is made of. Constants of a linked module are the same objects in all of its contexts.
pub struct ExecutableKey<'a> {
    pub device: &'a Arc<dyn Device>,
    pub queue_affinity: QueueAffinity,
    pub format: &'a str,
    pub data: &'a Obj<VmBuffer>,
    pub constants: &'a [u32],
}

/// The executables that are in use.
#[derive(Default)]
pub struct SharedExecutables(Mutex<Vec<Entry>>);

struct Entry {
    /// The address of the device, which the module keeps.
    device: usize,
    queue_affinity: QueueAffinity,
    format: String,
    data: Obj<VmBuffer>,
    constants: Vec<u32>,
    executable: Weak<dyn Executable>,
}

impl Entry {
    fn matches(&self, key: &ExecutableKey<'_>) -> bool {
        self.device == address(key.device)
            && self.queue_affinity == key.queue_affinity
            && self.data.as_ref().is_same_object(key.data.as_ref())
            && self.format == key.format
            && self.constants == key.constants
    }
}

fn address(device: &Arc<dyn Device>) -> usize {
    Arc::as_ptr(device).cast::<()>().addr()
}

impl SharedExecutables {
    fn lock(&self) -> MutexGuard<'_, Vec<Entry>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The executable, if a context uses it.
    pub fn get(&self, key: &ExecutableKey<'_>) -> Option<Arc<dyn Executable>> {
        self.lock().iter().find(|entry| entry.matches(key)).and_then(|entry| entry.executable.upgrade())
    }

    /// Lets other contexts use an executable as long as one does. A program may still write to data that is mutable, so that is not shared.
    pub fn add(&self, key: &ExecutableKey<'_>, executable: &Arc<dyn Executable>) {
        if key.data.is_mutable() {
            return;
        }
        let mut entries = self.lock();
        entries.retain(|entry| entry.executable.strong_count() > 0);
        entries.push(Entry {
            device: address(key.device),
            queue_affinity: key.queue_affinity,
            format: key.format.to_string(),
            data: key.data.clone(),
            constants: key.constants.to_vec(),
            executable: Arc::downgrade(executable),
        });
    }
}
