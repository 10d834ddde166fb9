//! The index of parameters: their names, sizes and storage. Archive readers fill it, and providers and tools look
//! parameters up.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;
use std::path::Path;

use super::contents::Contents;
use crate::status::{Result, Status};

/// A named run of bytes.
#[derive(Clone, Debug)]
pub struct Parameter {
    /// Its name, unique in its scope.
    pub key: String,
    /// Number of bytes.
    pub length: u64,
    /// Where the bytes are.
    pub storage: ParameterStorage,
    /// Opaque bytes that archives store with it.
    pub metadata: Vec<u8>,
    /// Its type as a tensor, if the archive states it. Programs only use the bytes.
    pub tensor: Option<TensorType>,
}

/// The storage of a parameter.
#[derive(Clone, Debug)]
pub enum ParameterStorage {
    /// None: its bytes are a repeated pattern.
    Splat(Splat),
    /// A range of a file.
    Stored {
        /// The file.
        contents: Contents,
        /// Offset of the first byte.
        offset: u64,
    },
}

/// A pattern of 1, 2, 4, 8 or 16 bytes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Splat {
    pub(super) pattern: [u8; Splat::MAX_LENGTH],
    pub(super) length: u8,
}

impl Splat {
    /// Longest pattern.
    pub const MAX_LENGTH: usize = 16;

    /// A single byte of zero.
    pub const ZERO: Splat = Splat { pattern: [0; Splat::MAX_LENGTH], length: 1 };

    /// A pattern.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` unless it has 1, 2, 4, 8 or 16 bytes.
    pub fn new(pattern: &[u8]) -> Result<Splat> {
        if !matches!(pattern.len(), 1 | 2 | 4 | 8 | Splat::MAX_LENGTH) {
            let length = pattern.len();
            return Err(Status::invalid_argument(format!("a pattern of {length} bytes: expected 1, 2, 4, 8 or 16")));
        }
        let mut splat = Splat { pattern: [0; Splat::MAX_LENGTH], length: pattern.len() as u8 };
        splat.pattern[..pattern.len()].copy_from_slice(pattern);
        Ok(splat)
    }

    /// The bytes.
    pub fn pattern(&self) -> &[u8] {
        &self.pattern[..usize::from(self.length)]
    }

    /// The pattern that the bytes repeat from `offset` on, as short as possible.
    pub(super) fn rotated(self, offset: u64) -> Splat {
        let mut splat = self;
        let length = usize::from(self.length);
        splat.pattern[..length].rotate_left((offset % length as u64) as usize);
        while splat.length > 1 {
            let (low, high) = splat.pattern().split_at(usize::from(splat.length / 2));
            if low != high {
                break;
            }
            splat.length /= 2;
        }
        splat
    }
}

impl fmt::Debug for Splat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Splat({:02X?})", self.pattern())
    }
}

/// The type of a parameter as a tensor.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorType {
    /// The element type, as the archive format names it.
    pub element: String,
    /// The dimensions, outermost first.
    pub shape: Vec<u64>,
}

/// A format of archives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArchiveFormat {
    /// IREE parameter archives.
    Irpa,
    /// GGUF.
    Gguf,
    /// Safetensors.
    Safetensors,
}

impl ArchiveFormat {
    /// All formats, with the extensions of their files.
    pub const ALL: [(ArchiveFormat, &'static str); 3] =
        [(ArchiveFormat::Irpa, "irpa"), (ArchiveFormat::Gguf, "gguf"), (ArchiveFormat::Safetensors, "safetensors")];

    /// The format of files with the extension of `path`.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` if no format has that extension.
    pub fn of_path(path: &Path) -> Result<ArchiveFormat> {
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        let found = ArchiveFormat::ALL.into_iter().find(|(_, known)| extension.eq_ignore_ascii_case(known));
        found.map(|(format, _)| format).ok_or_else(|| {
            let path = path.display();
            Status::unimplemented(format!(
                "{path}: no parameter archive has the extension `{extension}`; expected .irpa, .gguf or .safetensors"
            ))
        })
    }

    /// The extension of its files, without a dot.
    pub fn extension(self) -> &'static str {
        ArchiveFormat::ALL.iter().find(|(format, _)| *format == self).map_or("", |(_, extension)| extension)
    }
}

/// Parameters by key, in order.
#[derive(Clone, Debug, Default)]
pub struct ParameterIndex {
    parameters: Vec<Parameter>,
    by_key: HashMap<String, usize>,
}

impl ParameterIndex {
    /// Adds a parameter.
    ///
    /// # Errors
    /// `ALREADY_EXISTS` if there is one with the key.
    pub fn add(&mut self, parameter: Parameter) -> Result<()> {
        match self.by_key.entry(parameter.key.clone()) {
            Entry::Occupied(_) => Err(Status::new(
                crate::status::StatusCode::AlreadyExists,
                format!("there are two parameters `{}`", parameter.key.escape_debug()),
            )),
            Entry::Vacant(entry) => {
                entry.insert(self.parameters.len());
                self.parameters.push(parameter);
                Ok(())
            }
        }
    }

    /// Adds all parameters of `other` whose keys are new.
    pub fn merge(&mut self, other: ParameterIndex) {
        for parameter in other.parameters {
            // A parameter whose key exists is refused, which is intended.
            let _ = self.add(parameter);
        }
    }

    /// The parameter with the key.
    pub fn get(&self, key: &str) -> Option<&Parameter> {
        self.by_key.get(key).map(|index| &self.parameters[*index])
    }

    /// All parameters in order.
    pub fn iter(&self) -> std::slice::Iter<'_, Parameter> {
        self.parameters.iter()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.parameters.len()
    }

    /// True if there are none.
    pub fn is_empty(&self) -> bool {
        self.parameters.is_empty()
    }

    /// The sum of all lengths.
    pub fn total_bytes(&self) -> u64 {
        self.iter().fold(0, |total, parameter| total.saturating_add(parameter.length))
    }
}

impl<'a> IntoIterator for &'a ParameterIndex {
    type Item = &'a Parameter;
    type IntoIter = std::slice::Iter<'a, Parameter>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_rotate_and_shrink() {
        let splat = Splat::new(&[1, 2, 3, 4]).unwrap();
        assert_eq!(splat.rotated(5).pattern(), [2, 3, 4, 1]);
        assert_eq!(splat.rotated(u64::MAX).pattern(), [4, 1, 2, 3]);
        assert_eq!(Splat::new(&[7; 16]).unwrap().rotated(3).pattern(), [7]);
        assert_eq!(Splat::new(&[1, 2, 1, 2]).unwrap().rotated(1).pattern(), [2, 1]);
        assert!(Splat::new(&[]).is_err() && Splat::new(&[0; 3]).is_err() && Splat::new(&[0; 32]).is_err());
    }

    #[test]
    fn extensions_name_formats() {
        assert_eq!(ArchiveFormat::of_path(Path::new("a/b.IRPA")).unwrap(), ArchiveFormat::Irpa);
        assert_eq!(ArchiveFormat::Safetensors.extension(), "safetensors");
        let error = ArchiveFormat::of_path(Path::new("model.bin")).unwrap_err();
        assert!(error.message().contains("extension `bin`"), "{error}");
    }
}
