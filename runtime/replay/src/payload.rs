//! The payload of a record as a dump reads it: the fields, and of the parts that follow only what the dump shows.

use std::ops::Range;

use vireo_core::record_fields::Fields;
use vireo_core::record_file::{Part, ReadError, Source, TrailingError};
use vireo_core::status::StatusCode;

/// Bytes of the longest name that a dump shows.
const LONGEST_NAME: u64 = 64 << 10;

/// Bytes of elements that are read at a time.
const CHUNK: u64 = 16 << 10;

/// A payload in a file.
pub(crate) struct PayloadReader<'a> {
    source: &'a mut Source,
    offset: u64,
    length: u64,
}

impl<'a> PayloadReader<'a> {
    /// The payload of `length` bytes at `offset`.
    pub(crate) fn new(source: &'a mut Source, offset: u64, length: u64) -> Self {
        PayloadReader { source, offset, length }
    }

    /// The fields of the layout `name`.
    pub(crate) fn head<const N: usize>(&mut self, name: &str) -> Result<[u8; N], ReadError> {
        if self.length < N as u64 {
            let message = format!("the payload `{name}` has {} bytes: expected at least {N}", self.length);
            return Err(self.source.damaged(self.offset, message));
        }
        self.bytes(0)
    }

    fn bytes<const N: usize>(&mut self, start: u64) -> Result<[u8; N], ReadError> {
        let mut bytes = [0; N];
        self.source.read_at(self.offset + start, &mut bytes)?;
        Ok(bytes)
    }

    /// The layout `name` that a part begins with.
    pub(crate) fn held<const N: usize>(&mut self, name: &str, part: &Range<u64>) -> Result<[u8; N], ReadError> {
        if part.end - part.start < N as u64 {
            let message = format!("`{name}` has {} bytes: expected at least {N}", part.end - part.start);
            return Err(self.source.damaged(self.offset + part.start, message));
        }
        self.bytes(part.start)
    }

    /// Refuses a layout whose reserved fields are not 0.
    pub(crate) fn check_reserved(&self, name: &str, is_zero: bool) -> Result<(), ReadError> {
        match is_zero {
            true => Ok(()),
            false => {
                Err(self.source.damaged(self.offset, format!("a reserved field of `{name}` is not 0: expected zeros")))
            }
        }
    }

    /// The places of parts, unless their counts are out of range.
    pub(crate) fn check_counts<T>(&self, ranges: Result<T, TrailingError>) -> Result<T, ReadError> {
        ranges.map_err(|error| self.source.damaged(self.offset, error.to_string()))
    }

    /// Refuses a payload that does not end where its parts end.
    pub(crate) fn check_end(&self, name: &'static str, end: u64) -> Result<(), ReadError> {
        match end == self.length {
            true => Ok(()),
            false => {
                let error = TrailingError::length(name, end, self.length);
                Err(self.source.damaged(self.offset, error.to_string()))
            }
        }
    }

    /// Refuses a layout in a part that does not end where the part ends.
    pub(crate) fn check_held(&self, name: &'static str, part: &Range<u64>, end: u64) -> Result<(), ReadError> {
        match end == part.end - part.start {
            true => Ok(()),
            false => {
                let error = TrailingError::length(name, end, part.end - part.start);
                Err(self.source.damaged(self.offset + part.start, error.to_string()))
            }
        }
    }

    /// The place of a part in the file.
    pub(crate) fn place(&self, part: &Range<u64>) -> Range<u64> {
        self.offset + part.start..self.offset + part.end
    }

    /// Writes the elements of a part.
    pub(crate) fn list<T: Part>(
        &mut self,
        label: &str,
        part: &Range<u64>,
        out: &mut dyn Fields,
        element: fn(&T, &mut dyn Fields) -> Result<(), ReadError>,
    ) -> Result<(), ReadError> {
        out.open_list(label)?;
        let mut start = part.start;
        let mut bytes = Vec::new();
        while start < part.end {
            let length = (part.end - start).min(CHUNK - CHUNK % T::SIZE as u64);
            bytes.resize(usize::try_from(length).unwrap_or_default(), 0);
            self.source.read_at(self.offset + start, &mut bytes)?;
            for bytes in bytes.chunks_exact(T::SIZE) {
                out.open_element()?;
                element(&T::read_part(bytes), out)?;
                out.close()?;
            }
            start += length;
        }
        out.close_list()
    }

    /// Writes the characters of a part, which is a name: it is not empty.
    pub(crate) fn string(&mut self, label: &str, part: &Range<u64>, out: &mut dyn Fields) -> Result<(), ReadError> {
        let (place, length) = (self.offset + part.start, part.end - part.start);
        if length == 0 || length > LONGEST_NAME {
            let message = format!("`{label}` has {length} bytes: expected 1 to {LONGEST_NAME}");
            let code = if length == 0 { StatusCode::DataLoss } else { StatusCode::ResourceExhausted };
            return Err(self.source.error(code, place, message));
        }
        let mut bytes = vec![0; usize::try_from(length).unwrap_or_default()];
        self.source.read_at(place, &mut bytes)?;
        out.string(label, &bytes)
    }
}
