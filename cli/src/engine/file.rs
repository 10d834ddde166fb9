//! Module files: opened as the flags say, and verified.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use vireo::hal::report_count;
use vireo::vm::Module;
use vireo::vmfb::Archive;
use vireo::{Status, StatusCode};

use super::file_kind::{LOOKED_AT, recognise};
use crate::arguments::ModuleMode;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::Bar;

/// Bytes that are read from stdin as a module at most.
const MAX_STDIN: u64 = 8 << 30;

/// Reads and verifies the module file at `path`; `-` is stdin.
pub fn open_archive(path: &Path, mode: ModuleMode) -> Result<Archive, Failure> {
    if path == Path::new("-") {
        let mut bytes = Vec::new();
        let read = io::stdin().lock().take(MAX_STDIN).read_to_end(&mut bytes);
        read.map_err(|error| cannot_load(path).because(error))?;
        return Archive::from_bytes(&bytes).map_err(|status| refused(path, &bytes, status));
    }
    let archive = match mode {
        ModuleMode::Mmap => Archive::open(path),
        ModuleMode::Preload => Archive::read(path),
    };
    archive.map_err(|status| {
        // What cannot be read is no reason for a second failure.
        let mut bytes = Vec::new();
        let read = File::open(path).and_then(|file| file.take(LOOKED_AT as u64).read_to_end(&mut bytes));
        if read.is_ok() { refused(path, &bytes, status) } else { cannot_load(path).because(status) }
    })
}

/// Verifies the functions of a module, and shows on a terminal how far it has come if that takes long.
pub fn verify(archive: Archive) -> Result<Module, Failure> {
    let failed = Failure::new(Exit::LoadFailure, format!("cannot load the module `{}`", archive.file_name()));
    let module = match Bar::on_terminal("verifying the module") {
        Some(bar) => Module::from_archive_with(archive, report_count(&bar)),
        None => Module::from_archive(archive),
    };
    module.map_err(|status| failed.because(status))
}

fn cannot_load(path: &Path) -> Failure {
    Failure::new(Exit::LoadFailure, format!("cannot load the module `{}`", path.display()))
}

/// The failure for a file that begins with `bytes` and is no module: what it is, if that is known, else what is wrong with it.
fn refused(path: &Path, bytes: &[u8], status: Status) -> Failure {
    match recognise(bytes).filter(|_| status.code() == StatusCode::InvalidArgument) {
        Some(kind) => {
            let what = Status::invalid_argument(format!("the file is {}, not a module", kind.what));
            cannot_load(path).because(what).hint(kind.hint(&path.display().to_string()))
        }
        None => cannot_load(path).because(status),
    }
}
