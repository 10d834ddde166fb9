//! Executables for AMD GPUs: `container` reads the file that compilers write, whose code objects [`vireo_hsa::object`]
//! reads, and `loaded` is an executable in the memory of a device. All input is hostile: every reader checks offsets
//! and counts before it uses them.

mod container;
mod loaded;
#[cfg(test)]
mod tests;

pub use container::{Container, ContainerError, Export};
pub(crate) use loaded::supports;
pub use loaded::{AmdExecutable, AmdExecutableCache, LoadedKernel};
