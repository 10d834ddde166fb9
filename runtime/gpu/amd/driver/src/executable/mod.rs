//! Executables for AMD GPUs: `container` reads the file that compilers write, `code_object` the ELF file in it, and
//! `metadata` what that says of its kernels. `loaded` is an executable in the memory of a device. All input is hostile:
//! every reader checks offsets and counts before it uses them.

mod code_object;
mod container;
mod loaded;
mod metadata;
#[cfg(test)]
mod tests;

pub use code_object::{CodeObject, CodeObjectError};
pub use container::{Container, ContainerError, Export};
pub(crate) use loaded::supports;
pub use loaded::{AmdExecutable, AmdExecutableCache, LoadedKernel};
pub use metadata::{Argument, ArgumentKind, Kernel, MetadataError};
