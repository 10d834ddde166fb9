//! The metadata of a code object: a MessagePack map that lists its kernels, with the sizes of their memory and their
//! arguments. They are read from front to back without a tree in between, so hostile metadata cost no more memory than
//! the kernels they describe.

use crate::code_object::{
    ARGUMENT_HIDDEN_PREFIX, ARGUMENT_KIND, ARGUMENT_OFFSET, ARGUMENT_POINTER, ARGUMENT_SIZE, ARGUMENT_VALUE,
    KERNEL_ARGUMENTS, KERNEL_DYNAMIC_STACK, KERNEL_GROUP_SIZE, KERNEL_KERNARG_ALIGNMENT, KERNEL_KERNARG_SIZE,
    KERNEL_MAX_WORKGROUP_SIZE, KERNEL_NAME, KERNEL_PRIVATE_SIZE, KERNEL_REQUIRED_WORKGROUP_SIZE, KERNEL_SYMBOL,
    KERNEL_WAVEFRONT_SIZE, METADATA_KERNELS, METADATA_TARGET,
};

use super::message_pack::{MetadataError, Reader};

/// Most arguments of a kernel, implicit ones included.
const MAX_ARGUMENTS: u32 = 1 << 14;

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
pub struct KernelMetadata {
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
    /// Whether the size of its stack is not known.
    pub dynamic_stack: bool,
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

/// The metadata of a code object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Metadata<'a> {
    /// The target of the code, with the triple before it.
    pub target: Option<&'a str>,
    /// The kernels, in the order in which they are listed.
    pub kernels: Vec<KernelMetadata>,
}

/// Sets what a key says, which is there once; its value is at `at`.
fn set_once<T>(key: &'static str, at: usize, place: &mut Option<T>, value: T) -> Result<(), MetadataError> {
    match place.replace(value) {
        None => Ok(()),
        Some(_) => Err(MetadataError::Duplicate { key, at }),
    }
}

/// Reads metadata.
///
/// # Errors
/// The first thing that is wrong.
pub fn read(bytes: &[u8]) -> Result<Metadata<'_>, MetadataError> {
    let mut reader = Reader::new(bytes);
    let (mut target, mut kernels) = (None, None);
    for _ in 0..reader.map("metadata")? {
        let key = reader.text("key")?;
        let at = reader.at();
        match key {
            METADATA_TARGET => set_once(METADATA_TARGET, at, &mut target, reader.text(METADATA_TARGET)?)?,
            METADATA_KERNELS => set_once(METADATA_KERNELS, at, &mut kernels, read_kernels(&mut reader)?)?,
            _ => reader.skip()?,
        }
    }
    Ok(Metadata { target, kernels: kernels.unwrap_or_default() })
}

fn read_kernels(reader: &mut Reader<'_>) -> Result<Vec<KernelMetadata>, MetadataError> {
    let mut kernels = Vec::new();
    // Not reserved in advance: the count is a claim.
    for _ in 0..reader.array(METADATA_KERNELS)? {
        let kernel = kernel(reader, kernels.len())?;
        kernels.push(kernel);
    }
    Ok(kernels)
}

fn kernel(reader: &mut Reader<'_>, number: usize) -> Result<KernelMetadata, MetadataError> {
    let mut kernel = KernelMetadata::default();
    let mut sizes: [(&'static str, Option<u64>); 6] = [
        (KERNEL_KERNARG_SIZE, None),
        (KERNEL_KERNARG_ALIGNMENT, None),
        (KERNEL_GROUP_SIZE, None),
        (KERNEL_PRIVATE_SIZE, None),
        (KERNEL_WAVEFRONT_SIZE, None),
        (KERNEL_MAX_WORKGROUP_SIZE, None),
    ];
    let (mut name, mut symbol, mut dynamic_stack, mut workgroup, mut listed) = (None, None, None, None, None);
    for _ in 0..reader.map(METADATA_KERNELS)? {
        let key = reader.text("key")?;
        let at = reader.at();
        if let Some((key, size)) = sizes.iter_mut().find(|(name, _)| *name == key) {
            set_once(key, at, size, reader.number(key)?)?;
            continue;
        }
        match key {
            KERNEL_NAME => set_once(KERNEL_NAME, at, &mut name, reader.text(KERNEL_NAME)?)?,
            KERNEL_SYMBOL => set_once(KERNEL_SYMBOL, at, &mut symbol, reader.text(KERNEL_SYMBOL)?)?,
            KERNEL_DYNAMIC_STACK => {
                set_once(KERNEL_DYNAMIC_STACK, at, &mut dynamic_stack, reader.flag(KERNEL_DYNAMIC_STACK)?)?;
            }
            KERNEL_REQUIRED_WORKGROUP_SIZE => {
                set_once(KERNEL_REQUIRED_WORKGROUP_SIZE, at, &mut workgroup, workgroup_size(reader)?)?;
            }
            KERNEL_ARGUMENTS => set_once(KERNEL_ARGUMENTS, at, &mut listed, arguments(reader, &mut kernel)?)?,
            _ => reader.skip()?,
        }
    }
    kernel.name = name.unwrap_or_default().to_string();
    kernel.symbol = symbol.unwrap_or_default().to_string();
    (kernel.dynamic_stack, kernel.required_workgroup_size) = (dynamic_stack.unwrap_or(false), workgroup);
    // It is the only number that older compilers leave out.
    sizes[5].1.get_or_insert(0);
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

fn arguments(reader: &mut Reader<'_>, kernel: &mut KernelMetadata) -> Result<(), MetadataError> {
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
                _ => reader.skip()?,
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
