//! Executables in machine code, and their loaders: for embedded ELF files (`loader`, with `elf`), for libraries that
//! the system's loader opens (`system_library`), and for libraries that are linked into the host program
//! (`static_library`). `library_metadata` reads the metadata of a library, `native_library` is the executable, and
//! `dispatch` calls its kernels. With the feature `check-kernels`, `isa_requirements` finds instructions that the
//! processor lacks, which `instruction` decodes. `plugin` loads libraries with functions that kernels import.

#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
use std::collections::BTreeMap;

mod dispatch;
pub mod elf;
#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
mod instruction;
#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
mod isa_requirements;
mod library_metadata;
mod loader;
mod native_library;
mod plugin;
mod static_library;
#[cfg(target_os = "linux")]
mod system_library;

/// The features of the processor that an embedded library needs, and whether this processor has each. Runs no code of
/// the library.
///
/// # Errors
/// As [`elf::ElfImage::load`].
#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
pub fn required_features(library: &[u8]) -> Result<BTreeMap<String, bool>, elf::ElfError> {
    Ok(isa_requirements::features(&elf::ElfImage::load(library)?.all_code()))
}

pub use loader::{EmbeddedElfLoader, LocalExecutableCache};
pub use native_library::LocalExecutable;
pub use plugin::ExecutablePlugin;
pub use static_library::StaticLibraryLoader;
#[cfg(target_os = "linux")]
pub use system_library::SystemLibraryLoader;
