//! Executables that the wrapper has prepared, with the number and the functions that profiles know them by.

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use vireo_core::status::Result;
use vireo_hal::forward::{ForwardExecutable, ForwardExecutableCache};
use vireo_hal::{
    Executable, ExecutableCache, ExecutableCachingMode, ExecutableFunction, ExecutableFunctionInfo, Forward,
    QueueAffinity,
};

/// The numbers of executables and command buffers of all devices of a profile.
#[derive(Debug, Default)]
pub(super) struct Ids {
    executables: AtomicU64,
    command_buffers: AtomicU64,
}

impl Ids {
    pub(super) fn next_executable(&self) -> u64 {
        self.executables.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn next_command_buffer(&self) -> u64 {
        self.command_buffers.fetch_add(1, Ordering::Relaxed) + 1
    }
}

/// An executable as profiles know it.
#[derive(Debug)]
pub(super) struct KnownExecutable {
    pub(super) id: u64,
    /// By their ordinals.
    pub(super) functions: Vec<ExecutableFunctionInfo>,
    /// The last session that has its records.
    pub(super) session: AtomicU64,
}

impl KnownExecutable {
    /// The ordinal of a function, if the executable has it.
    pub(super) fn ordinal(&self, function: ExecutableFunction) -> Option<u32> {
        u32::try_from(function.0).ok().filter(|ordinal| (*ordinal as usize) < self.functions.len())
    }
}

/// A cache whose executables are known.
#[derive(Debug)]
pub(super) struct ProfiledCache {
    pub(super) inner: Arc<dyn ExecutableCache>,
    pub(super) ids: Arc<Ids>,
    /// Those of the device, for what a device says by the names of functions alone.
    pub(super) all: Arc<Functions>,
}

impl ForwardExecutableCache for ProfiledCache {
    fn inner(&self) -> &Arc<dyn ExecutableCache> {
        &self.inner
    }

    fn prepare_executable(
        &self,
        queue_affinity: QueueAffinity,
        caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        let inner = self.inner.prepare_executable(queue_affinity, caching_mode, format, data, constants)?;
        let info = |ordinal: u32| inner.function_info(ExecutableFunction(ordinal.into())).unwrap_or_default();
        let functions = (0..inner.function_count()).map(info).collect();
        let known = KnownExecutable { id: self.ids.next_executable(), functions, session: AtomicU64::new(0) };
        let known = Arc::new(known);
        self.all.add(&known);
        Ok(Arc::new(Forward(ProfiledExecutable { inner, known })))
    }
}

/// An executable that is known.
#[derive(Debug)]
pub(super) struct ProfiledExecutable {
    inner: Arc<dyn Executable>,
    known: Arc<KnownExecutable>,
}

impl ForwardExecutable for ProfiledExecutable {
    fn inner(&self) -> &Arc<dyn Executable> {
        &self.inner
    }
}

/// An executable as profiles know it; none if another device has prepared it.
pub(super) fn known(executable: &Arc<dyn Executable>) -> Option<&Arc<KnownExecutable>> {
    let any: &dyn std::any::Any = &**executable;
    any.downcast_ref::<Forward<ProfiledExecutable>>().map(|forward| &forward.0.known)
}

/// Functions of executables by their names.
#[derive(Debug, Default)]
pub(super) struct Functions(Mutex<HashMap<String, (Arc<KnownExecutable>, u32)>>);

impl Functions {
    /// Adds those of an executable. Of several with a name the last one counts.
    pub(super) fn add(&self, known: &Arc<KnownExecutable>) {
        let mut functions = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (ordinal, info) in (0..).zip(&known.functions) {
            functions.insert(info.name.clone(), (known.clone(), ordinal));
        }
    }

    /// Whether there is one of this name.
    pub(super) fn has(&self, name: &str) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).contains_key(name)
    }

    pub(super) fn get(&self, name: &str) -> Option<(Arc<KnownExecutable>, u32)> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(name).cloned()
    }
}
