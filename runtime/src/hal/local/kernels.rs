//! What devices of this folder need from an executable to dispatch it. The rest of them, queues, command buffers and memory, does not
//! depend on it, so the null device shares them.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::dispatch::Grid;
use crate::hal::{Executable, ExecutableFunction, Mapping};
use crate::status::{Result, Status};

/// An executable that is run by calling it.
pub(in crate::hal) trait Kernels: fmt::Debug + Send + Sync {
    /// Name of a function, for messages.
    fn name(&self, function: ExecutableFunction) -> &str;

    /// Checks that there is such a function and that it takes so many constants and bindings.
    fn check_arguments(&self, function: ExecutableFunction, constants: usize, bindings: usize) -> Result<()>;

    /// Runs a function over a grid. The arguments were checked, and no length of a mapping is more than what it maps.
    fn run(&self, function: ExecutableFunction, grid: Grid, constants: &[u32], bindings: &[Mapping]) -> Result<()>;
}

/// Finds out how to run an executable; INVALID_ARGUMENT if it was prepared for another kind of device.
pub(in crate::hal) type KernelsOf = fn(&Arc<dyn Executable>) -> Result<Arc<dyn Kernels>>;

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
