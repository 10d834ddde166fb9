//! The metadata of the kernels of a code object: the MessagePack map in its note.

use std::fmt;

use rmp_serde::Deserializer;
use serde::de::{Error as _, IgnoredAny, MapAccess, Visitor};
use serde::{Deserialize, Deserializer as _};
use vireo_hsa::code_object::{
    KERNEL_DYNAMIC_STACK, KERNEL_GROUP_SIZE, KERNEL_KERNARG_ALIGNMENT, KERNEL_KERNARG_SIZE, KERNEL_PRIVATE_SIZE,
    KERNEL_SYMBOL, METADATA_KERNELS, METADATA_NOTE_NAME, METADATA_NOTE_TYPE, METADATA_TARGET,
};

use super::CodeObjectError as Error;
use super::elf::CodeObject;

/// Nesting of values at most; those of compilers have four levels.
const MAX_DEPTH: usize = 32;

/// The metadata of a code object.
#[derive(Debug)]
pub(crate) struct Metadata {
    /// The instruction set: `amdgcn-amd-amdhsa--gfx1100`.
    pub(crate) target: String,
    pub(crate) kernels: Vec<Kernel>,
}

/// The metadata of a kernel. Other keys are ignored.
#[derive(Clone, Debug)]
pub(crate) struct Kernel {
    /// The symbol of its descriptor.
    pub(crate) symbol: String,
    pub(crate) kernarg_size: u32,
    pub(crate) kernarg_alignment: u32,
    pub(crate) group_size: u32,
    pub(crate) private_size: u32,
    pub(crate) dynamic_stack: bool,
}

/// Reads the value of a key, which is there once.
fn read_once<'de, T: Deserialize<'de>, M: MapAccess<'de>>(
    map: &mut M,
    key: &'static str,
    value: &mut Option<T>,
) -> Result<(), M::Error> {
    if value.is_some() {
        return Err(M::Error::duplicate_field(key));
    }
    *value = Some(map.next_value()?);
    Ok(())
}

fn required<T, E: serde::de::Error>(key: &'static str, value: Option<T>) -> Result<T, E> {
    value.ok_or_else(|| E::missing_field(key))
}

struct MetadataVisitor;

impl<'de> Visitor<'de> for MetadataVisitor {
    type Value = Metadata;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of a code object")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Metadata, M::Error> {
        let (mut target, mut kernels) = (None, None);
        while let Some(key) = map.next_key::<&str>()? {
            match key {
                METADATA_TARGET => read_once(&mut map, METADATA_TARGET, &mut target)?,
                METADATA_KERNELS => read_once(&mut map, METADATA_KERNELS, &mut kernels)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        Ok(Metadata { target: target.unwrap_or_default(), kernels: kernels.unwrap_or_default() })
    }
}

impl<'de> Deserialize<'de> for Kernel {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(KernelVisitor)
    }
}

struct KernelVisitor;

impl<'de> Visitor<'de> for KernelVisitor {
    type Value = Kernel;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the metadata of a kernel")
    }

    fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Kernel, M::Error> {
        let (mut symbol, mut dynamic_stack) = (None, None);
        let mut sizes: [(&'static str, Option<u32>); 4] = [
            (KERNEL_KERNARG_SIZE, None),
            (KERNEL_KERNARG_ALIGNMENT, None),
            (KERNEL_GROUP_SIZE, None),
            (KERNEL_PRIVATE_SIZE, None),
        ];
        while let Some(key) = map.next_key::<&str>()? {
            if let Some((key, size)) = sizes.iter_mut().find(|(name, _)| *name == key) {
                read_once(&mut map, key, size)?;
                continue;
            }
            match key {
                KERNEL_SYMBOL => read_once(&mut map, KERNEL_SYMBOL, &mut symbol)?,
                KERNEL_DYNAMIC_STACK => read_once(&mut map, KERNEL_DYNAMIC_STACK, &mut dynamic_stack)?,
                _ => drop(map.next_value::<IgnoredAny>()?),
            }
        }
        let size = |index: usize| required(sizes[index].0, sizes[index].1);
        Ok(Kernel {
            symbol: required(KERNEL_SYMBOL, symbol)?,
            kernarg_size: size(0)?,
            kernarg_alignment: size(1)?,
            group_size: size(2)?,
            private_size: size(3)?,
            dynamic_stack: dynamic_stack.unwrap_or(false),
        })
    }
}

/// Reads the metadata of a code object; a file without them has no kernels.
pub(crate) fn read(object: &CodeObject<'_>) -> Result<Option<Metadata>, Error> {
    let Some(note) = object.note(METADATA_NOTE_NAME, METADATA_NOTE_TYPE) else { return Ok(None) };
    let mut deserializer = Deserializer::from_read_ref(note);
    deserializer.set_max_depth(MAX_DEPTH);
    let metadata = deserializer.deserialize_map(MetadataVisitor);
    metadata.map(Some).map_err(|error| Error::new(format!("the metadata of kernels: {error}")))
}
