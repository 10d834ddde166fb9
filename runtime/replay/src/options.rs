//! The options of a replay: what it may use of its environment, what it replaces, and how long it may take.

use std::fmt;
use std::fs;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use vireo_core::limits::Limits;
use vireo_core::status::{Result, Status, StatusCode};

/// The files that a capture names, and a replay opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FileAccess {
    /// None: a capture of a stranger may name any file of this machine.
    None,
    /// For reading only, also those that were open for writing.
    #[default]
    Read,
    /// As they were open.
    Write,
}

/// The options of a replay.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Limits of the whole replay. Devices have a budget for memory of their own, which may be the same.
    pub limits: Limits,
    /// Most time that a wait for a device may take.
    pub longest_wait: Duration,
    /// Whether each submission is waited for before the next call, as IREE's replay does.
    pub serial: bool,
    /// Whether buffers are there until the end ([`Replayed::buffer`](crate::Replayed::buffer)). Else a replay lets go
    /// of an object after its last use, as a program does.
    pub keep_buffers: bool,
    /// The files that may be opened.
    pub files: FileAccess,
    /// Other places of files.
    pub remaps: Vec<FileRemap>,
    /// Other executables.
    pub substitutions: Vec<Substitution>,
}

impl ReplayOptions {
    /// Most time that a wait for a device takes if nothing else is said.
    pub const LONGEST_WAIT: Duration = Duration::from_secs(60);
}

impl Default for ReplayOptions {
    fn default() -> ReplayOptions {
        ReplayOptions {
            limits: Limits::default(),
            longest_wait: ReplayOptions::LONGEST_WAIT,
            serial: false,
            keep_buffers: false,
            files: FileAccess::default(),
            remaps: Vec::new(),
            substitutions: Vec::new(),
        }
    }
}

/// A prefix of paths, and what takes its place: `/mnt/train=/data`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileRemap {
    /// The prefix of paths in the capture.
    pub from: String,
    /// The source that takes its place.
    pub to: String,
}

/// A text is no remap or substitution.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ParseError(&'static str);

impl ParseError {
    pub(crate) fn new(message: &'static str) -> ParseError {
        ParseError(message)
    }
}

impl fmt::Display for ParseError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl std::error::Error for ParseError {}

impl FromStr for FileRemap {
    type Err = ParseError;

    fn from_str(text: &str) -> std::result::Result<FileRemap, ParseError> {
        match text.split_once('=') {
            Some((from, to)) if !from.is_empty() && !to.is_empty() => {
                Ok(FileRemap { from: from.to_string(), to: to.to_string() })
            }
            _ => Err(ParseError("expected `captured_prefix=replay_prefix`")),
        }
    }
}

impl FileRemap {
    /// The path that takes the place of `path`: the longest prefix counts, and it is compared as text.
    pub(crate) fn apply(remaps: &[FileRemap], path: &str) -> PathBuf {
        let fitting = remaps.iter().filter(|remap| path.starts_with(&remap.from));
        match fitting.max_by_key(|remap| remap.from.len()) {
            Some(remap) => PathBuf::from(format!("{}{}", remap.to, &path[remap.from.len()..])),
            None => PathBuf::from(path),
        }
    }
}

/// The file that takes the place of executables of a capture, as a flag says it: `ID=PATH`, `ID@FORMAT=PATH`, or `all`
/// for an ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubstitutionSource {
    executable: Option<u64>,
    format: Option<String>,
    path: PathBuf,
}

impl FromStr for SubstitutionSource {
    type Err = ParseError;

    fn from_str(text: &str) -> std::result::Result<SubstitutionSource, ParseError> {
        const EXPECTED: ParseError =
            ParseError("expected `EXECUTABLE_ID=PATH`, `EXECUTABLE_ID@FORMAT=PATH` or `all=PATH`");
        let (chosen, path) = text.split_once('=').filter(|(_, path)| !path.is_empty()).ok_or(EXPECTED)?;
        let (id, format) = match chosen.split_once('@') {
            Some((id, format)) if !format.is_empty() => (id, Some(format.to_string())),
            Some(_) => return Err(EXPECTED),
            None => (chosen, None),
        };
        let executable = match id {
            "all" => None,
            id => Some(id.parse().ok().filter(|id| *id != 0).ok_or(EXPECTED)?),
        };
        Ok(SubstitutionSource { executable, format, path: PathBuf::from(path) })
    }
}

impl SubstitutionSource {
    /// Reads the file.
    ///
    /// # Errors
    /// UNAVAILABLE if it cannot be read.
    pub fn read(&self) -> Result<Substitution> {
        let unreadable = |error| Status::new(StatusCode::Unavailable, format!("{}: {error}", self.path.display()));
        let data = fs::read(&self.path).map_err(unreadable)?;
        Ok(Substitution { executable: self.executable, format: self.format.clone(), data: data.into() })
    }
}

/// An executable that takes the place of one of a capture, or of all.
#[derive(Clone, Debug)]
pub struct Substitution {
    /// The number of the executable in the capture; none for all.
    pub executable: Option<u64>,
    /// Its format; none for what the executable cache finds in its bytes.
    pub format: Option<String>,
    /// Its bytes.
    pub data: Arc<[u8]>,
}

impl Substitution {
    /// The source that takes the place of an executable: the last that names it, or else the last for all.
    pub(crate) fn of(substitutions: &[Substitution], executable: u64) -> Option<&Substitution> {
        let named = substitutions.iter().rev().find(|other| other.executable == Some(executable));
        named.or_else(|| substitutions.iter().rev().find(|other| other.executable.is_none()))
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;

    #[test]
    fn the_longest_prefix_of_a_path_counts() {
        let remaps: Vec<FileRemap> =
            ["/a=/x", "/a/b=/y", "/a/b/c/=z/"].iter().map(|text| text.parse().expect("a remap")).collect();
        for (path, expected) in [("/a/f", "/x/f"), ("/ab", "/xb"), ("/a/b/f", "/y/f"), ("/a/b/c/f", "z/f"), ("f", "f")]
        {
            assert_eq!(FileRemap::apply(&remaps, path), Path::new(expected), "{path}");
        }
        for text in ["", "a", "=b", "a="] {
            assert!(text.parse::<FileRemap>().is_err(), "{text}");
        }
    }

    #[test]
    fn substitutions_as_the_reference_tool_writes_them() {
        let read = |text: &str| text.parse::<SubstitutionSource>();
        let source = read("4@vmvx-bytecode-fb=a=b").expect("a substitution");
        assert_eq!(source.executable, Some(4));
        assert_eq!((source.format.as_deref(), source.path.as_path()), (Some("vmvx-bytecode-fb"), Path::new("a=b")));
        assert_eq!(read("all=x").expect("a substitution").executable, None);
        for text in ["", "4", "4=", "=x", "0=x", "x=y", "4@=x", "-1=x"] {
            assert!(read(text).is_err(), "{text}");
        }
        let of = |executable, byte: u8| Substitution { executable, format: None, data: [byte].into() };
        let all = [of(Some(1), 1), of(None, 2), of(Some(1), 3)];
        assert_eq!(Substitution::of(&all, 1).map(|found| found.data[0]), Some(3));
        assert_eq!(Substitution::of(&all, 7).map(|found| found.data[0]), Some(2));
        assert!(Substitution::of(&all[..1], 7).is_none());
    }
}
