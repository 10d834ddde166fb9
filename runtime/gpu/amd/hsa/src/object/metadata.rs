//! The metadata of a code object: a MessagePack map that lists its kernels, with the sizes of their memory and their
//! arguments. They are read from front to back without a tree in between, so hostile metadata cost no more memory than
//! the kernels they describe.

use rmp::Marker;
use rmp::decode;

use crate::code_object::{
    ARGUMENT_HIDDEN_PREFIX, ARGUMENT_KIND, ARGUMENT_OFFSET, ARGUMENT_POINTER, ARGUMENT_SIZE, ARGUMENT_VALUE,
    KERNEL_ARGUMENTS, KERNEL_GROUP_SIZE, KERNEL_KERNARG_ALIGNMENT, KERNEL_KERNARG_SIZE, KERNEL_MAX_WORKGROUP_SIZE,
    KERNEL_NAME, KERNEL_PRIVATE_SIZE, KERNEL_REQUIRED_WORKGROUP_SIZE, KERNEL_SYMBOL, KERNEL_WAVEFRONT_SIZE,
    METADATA_KERNELS,
};

/// Nesting of values that no reader looks into.
const MAX_DEPTH: u32 = 32;

/// Most arguments of a kernel, implicit ones included.
const MAX_ARGUMENTS: u32 = 1 << 14;

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

/// The kind of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ArgumentKind {
    /// An address.
    Pointer,
    /// A value.
    Value,
    /// Something else, such as an image, or memory of a work-group.
    Other,
}

/// An argument that a kernel declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Argument {
    /// Its offset.
    pub offset: u32,
    /// Bytes.
    pub size: u32,
    /// Its kind.
    pub kind: ArgumentKind,
}

/// A kernel as its code object describes it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Kernel {
    /// Its name.
    pub name: String,
    /// The symbol of its descriptor.
    pub symbol: String,
    /// Bytes of its arguments.
    pub kernarg_size: u32,
    /// Alignment of its arguments, a power of two.
    pub kernarg_alignment: u32,
    /// Bytes of memory of a work-group.
    pub group_size: u32,
    /// Bytes of memory of a work-item.
    pub private_size: u32,
    /// The work-group size that it was compiled for.
    pub required_workgroup_size: Option<[u32; 3]>,
    /// Work-items of a work-group at most; 0 if that is not known.
    pub max_workgroup_size: u32,
    /// Lanes of a wave.
    pub wavefront_size: u32,
    /// Number of arguments that are addresses.
    pub pointers: u32,
    /// Bytes of arguments that are values.
    pub value_bytes: u32,
    /// Bytes of the arguments that it declares: where the implicit ones may begin.
    pub explicit_size: u32,
    /// The arguments that it declares.
    pub arguments: Vec<Argument>,
    /// Offset of the implicit arguments, if it has any.
    pub implicit_offset: Option<u32>,
}

/// A reader of MessagePack.
struct Reader<'a> {
    bytes: &'a [u8],
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    fn at(&self) -> usize {
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

    fn map(&mut self, key: &'static str) -> Result<u32, MetadataError> {
        self.value(key, "map", decode::read_map_len)
    }

    fn array(&mut self, key: &'static str) -> Result<u32, MetadataError> {
        self.value(key, "list", decode::read_array_len)
    }

    fn number(&mut self, key: &'static str) -> Result<u64, MetadataError> {
        self.value(key, "number from 0", decode::read_int)
    }

    fn text(&mut self, key: &'static str) -> Result<&'a str, MetadataError> {
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
    fn skip(&mut self, depth: u32) -> Result<(), MetadataError> {
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
            self.skip(depth)?;
        }
        Ok(())
    }
}

/// The kernels that the metadata list.
pub fn read(bytes: &[u8]) -> Result<Vec<Kernel>, MetadataError> {
    let mut reader = Reader { bytes, rest: bytes };
    let mut kernels = Vec::new();
    for _ in 0..reader.map("metadata")? {
        if reader.text("key")? != METADATA_KERNELS {
            reader.skip(MAX_DEPTH)?;
            continue;
        }
        // Not reserved in advance: the count is a claim.
        for _ in 0..reader.array(METADATA_KERNELS)? {
            let kernel = kernel(&mut reader, kernels.len())?;
            kernels.push(kernel);
        }
    }
    Ok(kernels)
}

fn kernel(reader: &mut Reader<'_>, number: usize) -> Result<Kernel, MetadataError> {
    let mut kernel = Kernel::default();
    let mut sizes: [(&'static str, Option<u64>); 6] = [
        (KERNEL_KERNARG_SIZE, None),
        (KERNEL_KERNARG_ALIGNMENT, None),
        (KERNEL_GROUP_SIZE, None),
        (KERNEL_PRIVATE_SIZE, None),
        (KERNEL_WAVEFRONT_SIZE, None),
        (KERNEL_MAX_WORKGROUP_SIZE, Some(0)),
    ];
    for _ in 0..reader.map(METADATA_KERNELS)? {
        let key = reader.text("key")?;
        if let Some((key, size)) = sizes.iter_mut().find(|(name, _)| *name == key) {
            *size = Some(reader.number(key)?);
            continue;
        }
        match key {
            KERNEL_NAME => kernel.name = reader.text(KERNEL_NAME)?.to_string(),
            KERNEL_SYMBOL => kernel.symbol = reader.text(KERNEL_SYMBOL)?.to_string(),
            KERNEL_REQUIRED_WORKGROUP_SIZE => kernel.required_workgroup_size = Some(workgroup_size(reader)?),
            KERNEL_ARGUMENTS => arguments(reader, &mut kernel)?,
            _ => reader.skip(MAX_DEPTH)?,
        }
    }
    let label = if kernel.name.is_empty() { format!("number {number}") } else { format!("`{}`", kernel.name) };
    for (key, text) in [(KERNEL_NAME, &kernel.name), (KERNEL_SYMBOL, &kernel.symbol)] {
        if text.is_empty() {
            return Err(MetadataError::Missing { kernel: label, key });
        }
    }
    let size = |index: usize| {
        let (key, size) = sizes[index];
        let value = size.ok_or_else(|| MetadataError::Missing { kernel: label.clone(), key })?;
        u32::try_from(value).map_err(|_| MetadataError::Value { kernel: label.clone(), key, value })
    };
    (kernel.kernarg_size, kernel.kernarg_alignment) = (size(0)?, size(1)?);
    (kernel.group_size, kernel.private_size) = (size(2)?, size(3)?);
    (kernel.wavefront_size, kernel.max_workgroup_size) = (size(4)?, size(5)?);
    let value = |key, value: u32| Err(MetadataError::Value { kernel: label.clone(), key, value: value.into() });
    if !kernel.kernarg_alignment.is_power_of_two() || kernel.kernarg_alignment > 64 {
        return value(KERNEL_KERNARG_ALIGNMENT, kernel.kernarg_alignment);
    }
    if kernel.explicit_size > kernel.kernarg_size {
        return value(KERNEL_KERNARG_SIZE, kernel.kernarg_size);
    }
    if let Some(offset) = kernel.implicit_offset
        && (offset < kernel.explicit_size || offset >= kernel.kernarg_size || !offset.is_multiple_of(8))
    {
        return value(ARGUMENT_OFFSET, offset);
    }
    Ok(kernel)
}

fn workgroup_size(reader: &mut Reader<'_>) -> Result<[u32; 3], MetadataError> {
    let at = reader.at();
    let wrong =
        MetadataError::Type { key: KERNEL_REQUIRED_WORKGROUP_SIZE, at, expected: "list of three numbers from 1" };
    if reader.array(KERNEL_REQUIRED_WORKGROUP_SIZE)? != 3 {
        return Err(wrong);
    }
    let mut sizes = [0; 3];
    for size in &mut sizes {
        let value = reader.number(KERNEL_REQUIRED_WORKGROUP_SIZE)?;
        *size = u32::try_from(value).ok().filter(|size| *size > 0).ok_or(wrong.clone())?;
    }
    Ok(sizes)
}

fn arguments(reader: &mut Reader<'_>, kernel: &mut Kernel) -> Result<(), MetadataError> {
    let at = reader.at();
    let count = reader.array(KERNEL_ARGUMENTS)?;
    if count > MAX_ARGUMENTS {
        return Err(MetadataError::Type { key: KERNEL_ARGUMENTS, at, expected: "list of so many arguments" });
    }
    for _ in 0..count {
        let at = reader.at();
        let (mut offset, mut size, mut kind) = (None, None, None);
        for _ in 0..reader.map(KERNEL_ARGUMENTS)? {
            match reader.text("key")? {
                ARGUMENT_OFFSET => offset = Some(reader.number(ARGUMENT_OFFSET)?),
                ARGUMENT_SIZE => size = Some(reader.number(ARGUMENT_SIZE)?),
                ARGUMENT_KIND => kind = Some(reader.text(ARGUMENT_KIND)?),
                _ => reader.skip(MAX_DEPTH)?,
            }
        }
        let placed = offset.zip(size).zip(kind).and_then(|((offset, size), kind)| {
            let end = u32::try_from(offset.checked_add(size)?).ok()?;
            Some((offset as u32, size as u32, end, kind))
        });
        let expected = "argument with a place and a kind";
        let (offset, size, end, kind) = placed.ok_or(MetadataError::Type { key: KERNEL_ARGUMENTS, at, expected })?;
        if kind.starts_with(ARGUMENT_HIDDEN_PREFIX) {
            // The first in the order of offsets is where they begin.
            kernel.implicit_offset = Some(kernel.implicit_offset.map_or(offset, |first| first.min(offset)));
            continue;
        }
        kernel.explicit_size = kernel.explicit_size.max(end);
        let kind = match kind {
            ARGUMENT_POINTER => ArgumentKind::Pointer,
            ARGUMENT_VALUE => ArgumentKind::Value,
            _ => ArgumentKind::Other,
        };
        match kind {
            ArgumentKind::Pointer => kernel.pointers += 1,
            ArgumentKind::Value => kernel.value_bytes = kernel.value_bytes.saturating_add(size),
            ArgumentKind::Other => {}
        }
        kernel.arguments.push(Argument { offset, size, kind });
    }
    Ok(())
}
