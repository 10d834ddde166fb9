//! Module files: opened as the flags say, and verified.

use std::io::{self, Read};
use std::path::Path;

use vireo::vm::Module;
use vireo::vmfb::Archive;

use crate::arguments::ModuleMode;
use crate::exit::Exit;
use crate::failure::Failure;

/// Bytes that are read from stdin as a module at most.
const MAX_STDIN: u64 = 8 << 30;

/// Reads and verifies the module file at `path`; `-` is stdin.
pub fn open_archive(path: &Path, mode: ModuleMode) -> Result<Archive, Failure> {
    let failed = || Failure::new(Exit::LoadFailure, format!("cannot load the module `{}`", path.display()));
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        io::stdin().lock().take(MAX_STDIN).read_to_end(&mut bytes).map_err(|error| failed().because(error))?;
        return Archive::from_bytes(&bytes).map_err(|status| failed().because(status));
    }
    match mode {
        ModuleMode::Mmap => Archive::open(path).map_err(|status| failed().because(status)),
        ModuleMode::Preload => Archive::read(path).map_err(|status| failed().because(status)),
    }
}

/// Verifies the functions of a module.
pub fn verify(archive: Archive) -> Result<Module, Failure> {
    let failed = Failure::new(Exit::LoadFailure, format!("cannot load the module `{}`", archive.file_name()));
    Module::from_archive(archive).map_err(|status| failed.because(status))
}
