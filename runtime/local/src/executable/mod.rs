//! Executables in machine code. Their loaders are for embedded ELF files (`loader`, with `elf`), libraries that the system loads
//! (`system_library`) and those that are linked into the program (`static_library`); each makes a `native_library` of what the `library` says of
//! itself, whose kernels `dispatch` calls. `isa_requirements` finds instructions that the processor lacks, if
//! the feature `check-kernels` is on; `plugin` is a library with functions
//! that kernels import.

mod dispatch;
pub mod elf;
#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
mod isa_requirements;
mod library_metadata;
mod loader;
mod native_library;
mod plugin;
mod static_library;
#[cfg(target_os = "linux")]
mod system_library;

pub use loader::{EmbeddedElfLoader, LocalExecutableCache};
pub use native_library::LocalExecutable;
pub use plugin::ExecutablePlugin;
pub use static_library::StaticLibraryLoader;
#[cfg(target_os = "linux")]
pub use system_library::SystemLibraryLoader;
