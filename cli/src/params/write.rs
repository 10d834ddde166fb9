//! The writer of `.irpa` archives: writes to a temporary file, which replaces the old file when it is complete. Called
//! by `convert` and `create`.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::Path;

use tempfile::NamedTempFile;
use vireo::hal::Progress;
use vireo::io::{ArchiveFormat, Contents, ContentsMode, ParameterIndex, Splat, irpa};
use vireo::{Result as VireoResult, Status};

use crate::exit::Exit;
use crate::failure::Failure;
use crate::progress::Bar;

/// Bytes that are copied at a time.
const CHUNK: u64 = 1 << 20;

/// The contents of a new entry.
pub enum Source<'a> {
    /// Zeros, which take no space in sparse files.
    Zeros,
    /// A repeated pattern that is written out.
    Pattern(Splat),
    /// Bytes.
    Bytes(Vec<u8>),
    /// A part of another archive, from an offset on.
    Contents(&'a Contents, u64),
}

/// Refuses an output whose format cannot be written.
pub fn check_output(path: &Path) -> Result<(), Failure> {
    let problem = match ArchiveFormat::of_path(path) {
        Ok(ArchiveFormat::Irpa) => return Ok(()),
        Ok(format) => Status::unimplemented(format!("writing .{} files", format.extension())),
        Err(status) => status,
    };
    let failure = Failure::new(Exit::Usage, format!("cannot write parameters to `{}`", path.display()));
    Err(failure.because(problem).hint("name a file that ends in .irpa"))
}

/// Writes an archive whose data entries have these contents, in order, and returns its index.
pub fn write(path: &Path, builder: &irpa::Builder, sources: &[Source<'_>]) -> Result<ParameterIndex, Failure> {
    let failed = || Failure::new(Exit::RunFailure, format!("cannot write `{}`", path.display()));
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut temporary = new_file(folder).map_err(|error| failed().because(error))?;
    fill(temporary.as_file_mut(), builder, sources).map_err(|status| failed().because(status))?;
    temporary.persist(path).map_err(|error| failed().because(error))?;
    ParameterIndex::open(path, ContentsMode::File).map_err(|status| failed().because(status))
}

#[cfg(unix)]
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    use std::os::unix::fs::PermissionsExt;
    // The user's umask applies, as to any new file.
    tempfile::Builder::new().permissions(std::fs::Permissions::from_mode(0o666)).tempfile_in(folder)
}

#[cfg(not(unix))]
fn new_file(folder: &Path) -> io::Result<NamedTempFile> {
    NamedTempFile::new_in(folder)
}

fn fill(file: &mut File, builder: &irpa::Builder, sources: &[Source<'_>]) -> VireoResult<()> {
    let refused = |error: io::Error| Status::new(vireo::StatusCode::Unavailable, error.to_string());
    file.set_len(builder.file_length()).map_err(refused)?;
    let mut out = BufWriter::new(&mut *file);
    builder.write_header(&mut out).map_err(refused)?;
    out.flush().map_err(refused)?;
    drop(out);

    let bar = Bar::on_terminal("writing parameters");
    let written = |bytes| bar.iter().for_each(|bar| bar.done(bytes));
    let places: Vec<_> = builder.data_ranges().collect();
    bar.iter().for_each(|bar| bar.scheduled(places.iter().map(|(_, _, length)| length).sum()));
    let mut chunk = Vec::new();
    for ((_, offset, length), source) in places.into_iter().zip(sources) {
        file.seek(SeekFrom::Start(offset)).map_err(refused)?;
        let mut done = 0;
        if let Source::Zeros = source {
            written(length);
            continue;
        }
        while done < length {
            let part = CHUNK.min(length - done);
            let bytes = match source {
                Source::Bytes(bytes) => bytes.get(done as usize..(done + part) as usize).unwrap_or_default(),
                Source::Pattern(splat) => {
                    // Parts begin at multiples of every pattern.
                    chunk.clear();
                    chunk.extend(splat.pattern().iter().cycle().take(part as usize));
                    &chunk
                }
                Source::Contents(contents, start) => {
                    chunk.resize(part as usize, 0);
                    contents.read_at(start + done, &mut chunk)?;
                    &chunk
                }
                Source::Zeros => &[],
            };
            file.write_all(bytes).map_err(refused)?;
            written(part);
            done += part;
        }
    }
    Ok(())
}
