//! What the compiler says of the kernels of a code object: the MessagePack map in its note.

use rmp_serde::Deserializer;
use serde::Deserialize;
use vireo_hsa::code_object::{METADATA_NOTE_NAME, METADATA_NOTE_TYPE};

use super::CodeObjectError as Error;
use super::elf::CodeObject;

/// Nesting of values at most; those of compilers have four levels.
const MAX_DEPTH: usize = 32;

/// The metadata of a code object.
#[derive(Debug, Deserialize)]
pub(crate) struct Metadata {
    /// The instruction set: `amdgcn-amd-amdhsa--gfx1100`.
    #[serde(rename = "amdhsa.target", default)]
    pub(crate) target: String,
    #[serde(rename = "amdhsa.kernels", default)]
    pub(crate) kernels: Vec<Kernel>,
}

/// The metadata of a kernel. Other keys are ignored.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Kernel {
    /// The symbol of its descriptor.
    #[serde(rename = ".symbol")]
    pub(crate) symbol: String,
    #[serde(rename = ".kernarg_segment_size")]
    pub(crate) kernarg_size: u32,
    #[serde(rename = ".kernarg_segment_align")]
    pub(crate) kernarg_alignment: u32,
    #[serde(rename = ".group_segment_fixed_size")]
    pub(crate) group_size: u32,
    #[serde(rename = ".private_segment_fixed_size")]
    pub(crate) private_size: u32,
    #[serde(rename = ".uses_dynamic_stack", default)]
    pub(crate) dynamic_stack: bool,
}

/// Reads the metadata of a code object; a file without them has no kernels.
pub(crate) fn read(object: &CodeObject<'_>) -> Result<Option<Metadata>, Error> {
    let Some(note) = object.note(METADATA_NOTE_NAME, METADATA_NOTE_TYPE) else { return Ok(None) };
    let mut deserializer = Deserializer::from_read_ref(note);
    deserializer.set_max_depth(MAX_DEPTH);
    let metadata = Metadata::deserialize(&mut deserializer);
    metadata.map(Some).map_err(|error| Error::new(format!("the metadata of kernels: {error}")))
}
