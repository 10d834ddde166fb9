//! Executables: `container` reads their files, `loaded` loads them into the contexts of a device.

mod container;
mod loaded;

pub use container::{Container, ContainerError, Export};
pub use loaded::{KernelResources, LoadedKernel, StreamExecutable, StreamExecutableCache};
