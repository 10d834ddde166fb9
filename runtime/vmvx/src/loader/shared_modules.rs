//! Modules that executables share ([`SharedModules`]): a program that is loaded again while its executable is there is
//! neither verified nor compiled again.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::executable::VmvxExecutable;
use crate::vm::LinkedModules;

/// The modules of the executables of a loader that are still there. Nothing of them but their machine code changes, and
/// all executables of a loader have the same limits.
#[derive(Debug, Default)]
pub(super) struct SharedModules(Mutex<Vec<Weak<VmvxExecutable>>>);

impl SharedModules {
    /// The modules of an executable with these bytes.
    pub(super) fn find(&self, data: &[u8]) -> Option<LinkedModules> {
        let executables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let same = |executable: Arc<VmvxExecutable>| (executable.bytes() == Some(data)).then_some(executable);
        let found = executables.iter().filter_map(Weak::upgrade).find_map(same);
        // An executable whose last reference this is goes without the lock.
        drop(executables);
        found.map(|executable| executable.linked().clone())
    }

    /// Adds an executable.
    pub(super) fn add(&self, executable: &Arc<VmvxExecutable>) {
        let mut executables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        executables.retain(|executable| executable.strong_count() > 0);
        executables.push(Arc::downgrade(executable));
    }
}
