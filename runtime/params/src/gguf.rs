//! The reader of GGUF files. The layouts and the sizes of element types are in `spec/schema/gguf.yaml`.

use super::contents::Contents;
use super::index::{Parameter, ParameterIndex, ParameterStorage, TensorType};
use super::layout::{Ranges, bytes as count, refuse};
use crate::generated::schema::gguf::{
    ALIGNMENT_KEY, ArrayHeader, BLOCK_TYPES, DEFAULT_ALIGNMENT, Dimension, Header, MAGIC, MAX_DIMENSIONS,
    MAXIMUM_VERSION, MINIMUM_VERSION, StringHeader, TensorPlace, VALUE_TYPE_ARRAY, VALUE_TYPE_STRING,
    VALUE_TYPE_UINT32, VALUE_TYPES, ValueHeader,
};
use crate::status::{Result, Status};

/// Reads the index of the tensors of a file.
pub(super) fn read(bytes: &[u8], contents: &Contents) -> Result<ParameterIndex> {
    let mut cursor = Cursor { bytes, at: 0 };
    let header = cursor.layout("the header", Header::SIZE, Header::read)?;
    if header.magic != MAGIC {
        let (expected, found) = (MAGIC.to_le_bytes(), header.magic.to_le_bytes());
        let message =
            format!("expected a file with \"{}\", found \"{}\"", expected.escape_ascii(), found.escape_ascii());
        return Err(refuse(0, message));
    }
    if !(MINIMUM_VERSION..=MAXIMUM_VERSION).contains(&header.version) {
        let version = header.version;
        let message = format!("GGUF version {version}; versions {MINIMUM_VERSION} to {MAXIMUM_VERSION} are read");
        return Err(Status::unimplemented(message));
    }
    let alignment = cursor.metadata(header.metadata_count)?;
    let tensors = cursor.tensors(header.tensor_count)?;
    let start = (cursor.at as u64).checked_next_multiple_of(alignment);
    let start = start.filter(|start| tensors.is_empty() || *start <= bytes.len() as u64).ok_or_else(|| {
        let message =
            format!("contents begin at the next multiple of {alignment}, but the file ends at {:#x}", bytes.len());
        refuse(cursor.at as u64, message)
    })?;

    let mut index = ParameterIndex::default();
    let mut ranges = Ranges::default();
    for tensor in tensors {
        let TensorInfo { at, key, offset, length, ty } = tensor;
        let what = key.escape_debug();
        if !offset.is_multiple_of(alignment) {
            return Err(refuse(at, format!("`{what}` begins at {offset:#x}, which is no multiple of {alignment}")));
        }
        let begin = start.checked_add(offset);
        let end = begin.and_then(|begin| begin.checked_add(length)).filter(|end| *end <= bytes.len() as u64);
        let (Some(begin), Some(end)) = (begin, end) else {
            let message = format!(
                "`{what}` has {} at {offset:#x} from {start:#x}, but the file ends at {:#x}",
                count(length),
                bytes.len()
            );
            return Err(refuse(at, message));
        };
        ranges.parameter(index.len(), begin, end);
        let storage = ParameterStorage::Stored { contents: contents.clone(), offset: begin };
        let parameter = Parameter { key, length, storage, metadata: Vec::new(), tensor: Some(ty) };
        index.add(parameter).map_err(|status| status.context(format!("at {at:#x}")))?;
    }
    let keys: Vec<&str> = index.iter().map(|parameter| parameter.key.as_str()).collect();
    ranges.check(false, |number| keys[number])?;
    Ok(index)
}

/// The description of a tensor in the file.
struct TensorInfo {
    at: u64,
    key: String,
    offset: u64,
    length: u64,
    ty: TensorType,
}

/// A position in the file, from which the next item is read.
struct Cursor<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl<'a> Cursor<'a> {
    fn left(&self) -> u64 {
        (self.bytes.len() - self.at) as u64
    }

    fn layout<T>(&mut self, what: &str, size: usize, read: impl Fn(&[u8]) -> Option<T>) -> Result<T> {
        let value = read(&self.bytes[self.at..]);
        let value = value.ok_or_else(|| {
            refuse(self.at as u64, format!("the file ends at {:#x}, inside of {what}", self.bytes.len()))
        })?;
        self.at += size;
        Ok(value)
    }

    /// Skips `length` bytes and returns them.
    fn skip(&mut self, what: &str, length: u64) -> Result<&'a [u8]> {
        if length > self.left() {
            let message = format!("{what} has {}, but {} are left of the file", count(length), self.left());
            return Err(refuse(self.at as u64, message));
        }
        let bytes = &self.bytes[self.at..self.at + length as usize];
        self.at += length as usize;
        Ok(bytes)
    }

    fn string(&mut self, what: &str) -> Result<&'a str> {
        let length = self.layout(what, StringHeader::SIZE, StringHeader::read)?.length;
        let at = self.at as u64;
        let bytes = self.skip(what, length)?;
        let text = std::str::from_utf8(bytes);
        text.map_err(|error| refuse(at, format!("{what}, \"{}\", is not UTF-8: {error}", head(bytes).escape_ascii())))
    }

    /// Refuses more items than fit the rest of the file, if each has at least `size` bytes.
    fn check_count(&self, number: u64, size: usize, what: &str) -> Result<()> {
        if number > self.left() / size as u64 {
            let message = format!("{number} {what} cannot be in the {} that are left of the file", count(self.left()));
            return Err(refuse(self.at as u64, message));
        }
        Ok(())
    }

    /// Skips the metadata and returns the alignment of contents.
    fn metadata(&mut self, number: u64) -> Result<u64> {
        self.check_count(number, StringHeader::SIZE + ValueHeader::SIZE + 1, "pairs of metadata")?;
        let mut alignment = DEFAULT_ALIGNMENT;
        for _ in 0..number {
            let at = self.at as u64;
            let key = self.string("a key")?;
            let ty = self.layout("a value", ValueHeader::SIZE, ValueHeader::read)?.number;
            let value = self.value(key, ty)?;
            if key != ALIGNMENT_KEY {
                continue;
            }
            let wrong = |found: &str| refuse(at, format!("`{key}` is {found}: expected a power of two of type uint32"));
            if ty != VALUE_TYPE_UINT32 {
                return Err(wrong(&format!("of type {ty}")));
            }
            let value = value.first_chunk().map_or(0, |bytes| u32::from_le_bytes(*bytes));
            if !value.is_power_of_two() {
                return Err(wrong(&value.to_string()));
            }
            alignment = value.into();
        }
        Ok(alignment)
    }

    /// Skips a value and returns its bytes; those of arrays are not needed.
    fn value(&mut self, key: &str, ty: u32) -> Result<&'a [u8]> {
        let what = format!("the value of `{}`", key.escape_debug());
        match ty {
            VALUE_TYPE_STRING => Ok(self.string(&what)?.as_bytes()),
            VALUE_TYPE_ARRAY => {
                let array = self.layout(&what, ArrayHeader::SIZE, ArrayHeader::read)?;
                match array.element_type {
                    VALUE_TYPE_STRING => {
                        self.check_count(array.length, StringHeader::SIZE, "strings")?;
                        for _ in 0..array.length {
                            self.string(&what)?;
                        }
                    }
                    VALUE_TYPE_ARRAY => {
                        let message = format!("at {:#x}: arrays of arrays as {what}", self.at);
                        return Err(Status::unimplemented(message));
                    }
                    ty => {
                        let size = self.value_size(&what, ty)?;
                        let length = array.length.saturating_mul(size);
                        self.skip(&what, length)?;
                    }
                }
                Ok(&[])
            }
            ty => {
                let size = self.value_size(&what, ty)?;
                self.skip(&what, size)
            }
        }
    }

    fn value_size(&self, what: &str, ty: u32) -> Result<u64> {
        let known = VALUE_TYPES.iter().find(|known| known.tag == ty);
        known
            .map(|known| known.bytes)
            .ok_or_else(|| refuse(self.at as u64, format!("{what} has the unknown type {ty}")))
    }

    fn tensors(&mut self, number: u64) -> Result<Vec<TensorInfo>> {
        self.check_count(number, StringHeader::SIZE + ValueHeader::SIZE + TensorPlace::SIZE, "tensors")?;
        let mut tensors = Vec::new();
        for _ in 0..number {
            let at = self.at as u64;
            let key = self.string("the name of a tensor")?.to_string();
            let what = key.escape_debug();
            let rank = self.layout("a tensor", ValueHeader::SIZE, ValueHeader::read)?.number;
            if rank > MAX_DIMENSIONS {
                return Err(refuse(at, format!("`{what}` has {rank} dimensions: expected {MAX_DIMENSIONS} at most")));
            }
            let mut shape = Vec::new();
            for _ in 0..rank {
                shape.push(self.layout("a tensor", Dimension::SIZE, Dimension::read)?.length);
            }
            // The file has the innermost dimension first.
            shape.reverse();
            let place = self.layout("a tensor", TensorPlace::SIZE, TensorPlace::read)?;
            let Some(block) = BLOCK_TYPES.iter().find(|block| block.tag == place.element_type) else {
                let message = format!("at {at:#x}: `{what}` has elements of type {}", place.element_type);
                return Err(Status::unimplemented(message));
            };
            let elements = shape.iter().try_fold(1_u64, |count, dimension| count.checked_mul(*dimension));
            let blocks =
                elements.filter(|count| count.is_multiple_of(block.elements)).map(|count| count / block.elements);
            let Some(length) = blocks.and_then(|blocks| blocks.checked_mul(block.bytes)) else {
                let message = format!(
                    "`{what}` has the shape {shape:?}: expected a number of elements that is a multiple of {} ({}) and can be stored",
                    block.elements, block.name
                );
                return Err(refuse(at, message));
            };
            let ty = TensorType { element: block.name.into(), shape };
            tensors.push(TensorInfo { at, key, offset: place.offset, length, ty });
        }
        Ok(tensors)
    }
}

/// The beginning of a text that may be long, for messages.
fn head(bytes: &[u8]) -> &[u8] {
    &bytes[..bytes.len().min(64)]
}
