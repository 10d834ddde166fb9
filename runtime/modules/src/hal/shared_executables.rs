//! Executables that contexts of the same linked modules share, so that kernels are loaded and compiled once. The export
//! `executable.create` looks here first.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use vireo_hal::{Device, Executable, QueueAffinity};

use vireo_vm::Constant;

use crate::vm::{Buffer as VmBuffer, Obj};

/// The data that an executable is made of.
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
            && is_same_constant(&self.data, key.data)
            && self.format == key.format
            && self.constants == key.constants
    }
}

/// Whether both are buffers over one constant of a module. Each context has a buffer of its own.
fn is_same_constant(one: &VmBuffer, other: &VmBuffer) -> bool {
    one.owner().zip(other.owner()).is_some_and(|(one, other): (&Constant, &Constant)| std::ptr::eq(one, other))
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

    /// Lets other contexts use an executable as long as one does. Only those of constants are shared: a program may
    /// still write to other data.
    pub fn add(&self, key: &ExecutableKey<'_>, executable: &Arc<dyn Executable>) {
        if key.data.owner::<Constant>().is_none() {
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
