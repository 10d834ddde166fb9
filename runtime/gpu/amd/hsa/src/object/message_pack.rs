//! The one reader of MessagePack ([`Reader`]), in which the metadata of kernels are written. It goes from front to back
//! without a tree in between, so hostile metadata cost no more memory than the values that its caller keeps.

use rmp::Marker;
use rmp::decode;

/// Nesting of values that no reader looks into.
const MAX_DEPTH: u32 = 32;

/// An error of metadata.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetadataError {
    /// The bytes are not MessagePack, or end within a value.
    #[error("byte {0} is not the beginning of a value, or the value is not complete")]
    Malformed(usize),
    /// A value has another type.
    #[error("`{key}` at byte {at} is no {expected}")]
    Type {
        /// The key.
        key: &'static str,
        /// Offset of the value.
        at: usize,
        /// The type that it should have.
        expected: &'static str,
    },
    /// A key is there twice.
    #[error("`{key}` is there once more at byte {at}")]
    Duplicate {
        /// The key.
        key: &'static str,
        /// Offset of the second value.
        at: usize,
    },
    /// A kernel lacks a key.
    #[error("kernel {kernel} has no `{key}`")]
    Missing {
        /// Its name, or its number in quotes.
        kernel: String,
        /// The key.
        key: &'static str,
    },
    /// A number of a kernel is out of range.
    #[error("kernel {kernel}: `{key}` is {value}")]
    Value {
        /// Its name.
        kernel: String,
        /// The key.
        key: &'static str,
        /// The number.
        value: u64,
    },
}

/// A reader of MessagePack.
pub(super) struct Reader<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// A reader of some bytes.
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Reader { bytes, rest: bytes }
    }

    /// How many bytes have been read.
    pub(super) fn at(&self) -> usize {
        self.bytes.len() - self.rest.len()
    }

    /// Reads a value by a function of the library, which fails where the value has another type or is not complete.
    fn value<T, E>(
        &mut self,
        key: &'static str,
        expected: &'static str,
        read: impl FnOnce(&mut &'a [u8]) -> Result<T, E>,
    ) -> Result<T, MetadataError> {
        let at = self.at();
        read(&mut self.rest).map_err(|_| MetadataError::Type { key, at, expected })
    }

    /// The number of entries of a map, which follow.
    pub(super) fn map(&mut self, key: &'static str) -> Result<u32, MetadataError> {
        self.value(key, "map", decode::read_map_len)
    }

    /// The number of values of a list, which follow.
    pub(super) fn array(&mut self, key: &'static str) -> Result<u32, MetadataError> {
        self.value(key, "list", decode::read_array_len)
    }

    /// A number from 0.
    pub(super) fn number(&mut self, key: &'static str) -> Result<u64, MetadataError> {
        self.value(key, "number from 0", decode::read_int)
    }

    /// True or false.
    pub(super) fn flag(&mut self, key: &'static str) -> Result<bool, MetadataError> {
        self.value(key, "bool", decode::read_bool)
    }

    /// A text.
    pub(super) fn text(&mut self, key: &'static str) -> Result<&'a str, MetadataError> {
        let at = self.at();
        let length = self.value(key, "text", decode::read_str_len)?;
        let text = self.take(length as usize)?;
        std::str::from_utf8(text).map_err(|_| MetadataError::Type { key, at, expected: "text" })
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], MetadataError> {
        let (head, rest) = self.rest.split_at_checked(length).ok_or(MetadataError::Malformed(self.at()))?;
        self.rest = rest;
        Ok(head)
    }

    /// A length of `bytes` bytes.
    fn length(&mut self, bytes: usize) -> Result<usize, MetadataError> {
        Ok(self.take(bytes)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)))
    }

    /// Skips a value.
    pub(super) fn skip(&mut self) -> Result<(), MetadataError> {
        self.skip_within(MAX_DEPTH)
    }

    fn skip_within(&mut self, depth: u32) -> Result<(), MetadataError> {
        let at = self.at();
        let malformed = MetadataError::Malformed(at);
        let depth = depth.checked_sub(1).ok_or(malformed.clone())?;
        let marker = decode::read_marker(&mut self.rest).map_err(|_| malformed.clone())?;
        let (bytes, values) = match marker {
            Marker::FixPos(_) | Marker::FixNeg(_) | Marker::Null | Marker::True | Marker::False => (0, 0),
            Marker::U8 | Marker::I8 => (1, 0),
            Marker::U16 | Marker::I16 => (2, 0),
            Marker::U32 | Marker::I32 | Marker::F32 => (4, 0),
            Marker::U64 | Marker::I64 | Marker::F64 => (8, 0),
            Marker::FixStr(length) => (usize::from(length), 0),
            Marker::Str8 | Marker::Bin8 => (self.length(1)?, 0),
            Marker::Str16 | Marker::Bin16 => (self.length(2)?, 0),
            Marker::Str32 | Marker::Bin32 => (self.length(4)?, 0),
            Marker::FixArray(count) => (0, usize::from(count)),
            Marker::Array16 => (0, self.length(2)?),
            Marker::Array32 => (0, self.length(4)?),
            Marker::FixMap(count) => (0, 2 * usize::from(count)),
            Marker::Map16 => (0, 2 * self.length(2)?),
            Marker::Map32 => (0, self.length(4)?.saturating_mul(2)),
            Marker::FixExt1 | Marker::FixExt2 | Marker::FixExt4 | Marker::FixExt8 | Marker::FixExt16 => {
                return Err(malformed);
            }
            Marker::Ext8 | Marker::Ext16 | Marker::Ext32 | Marker::Reserved => return Err(malformed),
        };
        self.take(bytes)?;
        // Each value takes at least a byte, so this ends with the bytes.
        for _ in 0..values {
            self.skip_within(depth)?;
        }
        Ok(())
    }
}
