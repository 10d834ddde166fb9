//! Module files: opened as the flags say, and verified.

use std::error::Error;
use std::io::{self, Read};
use std::path::Path;

use vireo::Status;
use vireo::hal::report_count;
use vireo::vm::Module;
use vireo::vmfb::{Archive, OtherKind};

use super::file_kind;
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
        return Archive::from_bytes(&bytes).map_err(|status| refused(path, status));
    }
    let archive = match mode {
        ModuleMode::Mmap => Archive::open(path),
        ModuleMode::Preload => Archive::read(path),
    };
    archive.map_err(|status| refused(path, status))
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

/// The failure for a file that is no module: with a hint if the library has recognised it.
fn refused(path: &Path, status: Status) -> Failure {
    let failure = cannot_load(path);
    match status.source().and_then(|source| source.downcast_ref::<OtherKind>()) {
        Some(OtherKind(kind)) => {
            let what = Status::invalid_argument(format!("the file is {kind}, not a module"));
            failure.because(what).hint(file_kind::hint(*kind, &path.display().to_string()))
        }
        None if is_native_module(path) => failure.because(Status::unimplemented(
            "modules in native code, which the reference names by FILE@FUNCTION, have an interface of its own and cannot be loaded",
        )),
        None => failure.because(status),
    }
}

/// Whether a path is no file but the syntax of the reference for a library with a module: `FILE@FUNCTION`.
fn is_native_module(path: &Path) -> bool {
    let library = path.to_str().and_then(|text| text.rsplit_once('@')).map(|(library, _)| Path::new(library));
    !path.exists() && library.is_some_and(Path::is_file)
}
