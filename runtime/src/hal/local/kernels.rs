//! Finds out how to run an executable.

use std::any::Any;
use std::sync::Arc;

use super::executable::LocalExecutable;
use super::vmvx::VmvxExecutable;
use crate::hal::Executable;
use crate::hal::host_kernels::Kernels;
use crate::status::{Result, Status};

/// Finds out how to run an executable; INVALID_ARGUMENT if it was prepared for another kind of device.
pub(in crate::hal) type KernelsOf = fn(&Arc<dyn Executable>) -> Result<Arc<dyn Kernels>>;

/// Recognises the executables of the loaders for the host's processor.
pub(super) fn local_kernels(executable: &Arc<dyn Executable>) -> Result<Arc<dyn Kernels>> {
    kernels_of::<LocalExecutable>(executable).or_else(|_| kernels_of::<VmvxExecutable>(executable))
}

/// Recognises executables of type `T`.
pub(in crate::hal) fn kernels_of<T: Kernels + Executable>(
    executable: &Arc<dyn Executable>,
) -> Result<Arc<dyn Kernels>> {
    let any: Arc<dyn Any + Send + Sync> = executable.clone();
    match any.downcast::<T>() {
        Ok(kernels) => Ok(kernels),
        Err(_) => Err(Status::invalid_argument("the executable was prepared for another kind of device")),
    }
}
