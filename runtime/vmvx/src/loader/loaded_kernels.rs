//! Kernels that loaders have loaded: [`LoadedKernels`], for hosts that ask how much machine code kernels have.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::executable::VmvxExecutable;
use crate::vm::MachineCode;

/// The executables in portable bytecode that loaders have loaded and that are still there.
#[derive(Debug, Default)]
pub struct LoadedKernels(Mutex<Vec<Weak<VmvxExecutable>>>);

impl LoadedKernels {
    pub(super) fn add(&self, executable: &Arc<VmvxExecutable>) {
        let mut executables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        executables.retain(|executable| executable.strong_count() > 0);
        executables.push(Arc::downgrade(executable));
    }

    /// The machine code of each executable so far, and which functions the interpreter runs.
    pub fn machine_code(&self) -> Vec<MachineCode> {
        let executables = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        executables.iter().filter_map(Weak::upgrade).map(|executable| executable.machine_code()).collect()
    }
}
