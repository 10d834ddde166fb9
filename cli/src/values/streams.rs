//! Open input files. A file that several values name stays open, so that `+file` continues where the last value ended.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read, Seek};

use vireo::hal::{ElementType, ShapeAndType};
use vireo::inference::text_parts::byte_length;
use vireo::inference::{HostTensor, files};

use super::Limits;
use super::collection::{Collection, Name};
use super::error::ValueError;
use crate::os_text::path_of;

/// The open files by the path as it was given.
#[derive(Default)]
pub struct Streams {
    open: HashMap<String, Stream>,
    collections: HashMap<String, Collection>,
}

/// One open file.
pub struct Stream {
    path: String,
    reader: BufReader<File>,
    position: u64,
    /// Length of a regular file. Pipes and devices have none.
    length: Option<u64>,
}

impl Streams {
    /// The file at `path`, from its beginning if `restart` or if it is not open yet, else from where it was left.
    pub fn open(&mut self, path: &str, restart: bool) -> Result<&mut Stream, ValueError> {
        let failed = |source| ValueError::File { action: "open", path: path.into(), source };
        if !self.open.contains_key(path) {
            let file = File::open(path_of(path)).map_err(failed)?;
            let metadata = file.metadata().map_err(failed)?;
            let length = metadata.is_file().then_some(metadata.len());
            let stream = Stream { path: path.into(), reader: BufReader::new(file), position: 0, length };
            self.open.insert(path.into(), stream);
        }
        let stream = self.open.get_mut(path).ok_or_else(|| failed(io::ErrorKind::NotFound.into()))?;
        if restart && stream.position > 0 {
            stream.reader.rewind().map_err(failed)?;
            stream.position = 0;
        }
        Ok(stream)
    }

    /// How many bytes are left of an open file, if its length is known and some are.
    pub fn unread(&self, path: &str) -> Option<u64> {
        let stream = self.open.get(path)?;
        stream.length?.checked_sub(stream.position).filter(|left| *left > 0)
    }

    /// The same for a file with several tensors.
    pub fn collection(&mut self, name: Name<'_>, restart: bool) -> Result<&mut Collection, ValueError> {
        let collection = match self.collections.entry(name.path.into()) {
            Entry::Occupied(open) => open.into_mut(),
            Entry::Vacant(entry) => entry.insert(Collection::open(name)?),
        };
        if restart {
            collection.restart();
        }
        Ok(collection)
    }
}

impl Read for Stream {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let read = self.reader.read(out)?;
        self.position += read as u64;
        Ok(read)
    }
}

impl Stream {
    /// True if nothing is left.
    pub fn at_end(&mut self) -> Result<bool, ValueError> {
        let path = &self.path;
        let left = self.reader.fill_buf();
        Ok(left.map_err(|source| ValueError::File { action: "read", path: path.clone(), source })?.is_empty())
    }

    /// Reads a tensor's elements without any header.
    pub fn read_elements(
        &mut self,
        element: ElementType,
        shape: &[u64],
        limits: Limits,
    ) -> Result<HostTensor<'static>, ValueError> {
        let needed = byte_length(shape, element, limits.max_tensor_bytes)? as u64;
        let start = self.position;
        let short = |found| ValueError::ShortFile {
            path: self.path.clone(),
            offset: start + found,
            found,
            needed,
            what: ShapeAndType { shape, element_type: element }.to_string(),
        };
        // The length of a regular file is known, so that a shape too large for it is refused before memory is taken.
        if let Some(left) = self.length.map(|length| length.saturating_sub(start))
            && left < needed
        {
            return Err(short(left));
        }
        let mut bytes = Vec::new();
        let result = (&mut self.reader).take(needed).read_to_end(&mut bytes);
        self.position += bytes.len() as u64;
        result.map_err(|source| ValueError::File { action: "read", path: self.path.clone(), source })?;
        if (bytes.len() as u64) < needed {
            return Err(short(bytes.len() as u64));
        }
        HostTensor::from_bytes(shape, element, bytes).map_err(ValueError::Tensor)
    }

    /// Reads one `.npy` array.
    pub fn read_array(&mut self, limits: Limits) -> Result<HostTensor<'static>, ValueError> {
        let offset = self.position;
        let array = files::read_npy(self, limits.max_tensor_bytes);
        let refused = |path, source| ValueError::Npy { path, offset, source };
        array.map_err(|source| ValueError::of_file(self.path.clone(), source, refused))
    }
}
