//! The file of an executable: IREE's FlatBuffer with modules and what dispatches need of their kernels. The compiler
//! writes a header before it from release 3.9 on.

use std::fmt;

use crate::generated::stream_executable::{
    BindingFlagBits, CUDA_EXECUTABLE_MAGIC, EXECUTABLE_CONTENT_OFFSET, EXECUTABLE_VERSION, ExecutableFileHeader, root,
};
use crate::status::Status;

/// Most modules of an executable.
const MAX_MODULES: usize = 256;

/// Where a FlatBuffer has its identifier, after the offset of its root.
const FLATBUFFER_IDENTIFIER: usize = 4;

/// Bytes that the error for an unknown file shows.
const SHOWN_BYTES: usize = 8;

/// Most bindings and constants of a kernel, as IREE's drivers have them.
const MAX_BINDINGS: usize = 64;
const MAX_CONSTANTS: u32 = 256;

/// A refused executable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// It begins as no such file does.
    #[error("executable: no file of IREE's for NVIDIA GPUs (`CDA1`): it begins with {0:02x?}")]
    Unknown(Vec<u8>),
    /// A field of the file's header has another value.
    #[error("executable: {field} is {value}, expected {expected}")]
    Header {
        /// The field.
        field: &'static str,
        /// Its value.
        value: u64,
        /// The value that it should have.
        expected: u64,
    },
    /// The FlatBuffer is malformed.
    #[error("executable: {0}")]
    Tables(String),
    /// A module has a zero before its end, so a library would read a part of it alone.
    #[error("executable: module {module} has a zero at byte {offset} of {length}")]
    Zero {
        /// Its number.
        module: usize,
        /// The place of the zero.
        offset: usize,
        /// Bytes of the module.
        length: usize,
    },
    /// There is no module, or there are too many.
    #[error("executable: {0} modules, expected from 1 to {MAX_MODULES}")]
    Modules(usize),
    /// Something is wrong with an export.
    #[error("executable: export {ordinal} (`{name}`): {problem}")]
    Export {
        /// Its ordinal.
        ordinal: usize,
        /// The name of its kernel.
        name: String,
        /// The reason, for people.
        problem: String,
    },
}

impl From<ContainerError> for Status {
    fn from(error: ContainerError) -> Status {
        Status::invalid_argument(error.to_string())
    }
}

/// An executable as its file describes it. Nothing is loaded.
pub struct Container<'a> {
    /// The texts of its modules.
    pub modules: Vec<&'a str>,
    /// Its exports; their ordinals are their places.
    pub exports: Vec<Export>,
}

impl fmt::Debug for Container<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executable({} modules, {} exports)", self.modules.len(), self.exports.len())
    }
}

/// A kernel that dispatches run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The number of its module.
    pub module: usize,
    /// Its name there.
    pub name: String,
    /// Threads of a block.
    pub block: [u32; 3],
    /// Bytes of dynamic shared memory of a block.
    pub shared: u32,
    /// Constants of 32 bits.
    pub constants: u32,
    /// Whether each binding is only read.
    pub bindings: Vec<bool>,
}

impl Export {
    /// Bytes of its arguments: addresses of bindings, then constants.
    pub fn argument_bytes(&self) -> usize {
        self.bindings.len() * 8 + self.constants as usize * 4
    }
}

impl<'a> Container<'a> {
    /// Reads an executable.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(bytes: &'a [u8]) -> Result<Container<'a>, ContainerError> {
        let magic = CUDA_EXECUTABLE_MAGIC.to_le_bytes();
        if bytes.get(FLATBUFFER_IDENTIFIER..).is_some_and(|rest| rest.starts_with(&magic)) {
            return Container::of_tables(bytes);
        }
        let header = ExecutableFileHeader::read(bytes).filter(|header| header.magic == CUDA_EXECUTABLE_MAGIC);
        let header =
            header.ok_or_else(|| ContainerError::Unknown(bytes.iter().take(SHOWN_BYTES).copied().collect()))?;
        if header.version != EXECUTABLE_VERSION {
            let (value, expected) = (header.version.into(), EXECUTABLE_VERSION.into());
            return Err(ContainerError::Header { field: "the version", value, expected });
        }
        let content = bytes.get(EXECUTABLE_CONTENT_OFFSET as usize..).unwrap_or(&[]);
        let content = usize::try_from(header.content_length).ok().and_then(|length| content.get(..length));
        let content = content.ok_or(ContainerError::Header {
            field: "the length",
            value: header.content_length,
            expected: (bytes.len() as u64).saturating_sub(EXECUTABLE_CONTENT_OFFSET),
        })?;
        Container::of_tables(content)
    }

    /// Reads the FlatBuffer, wherever in memory it is.
    fn of_tables(content: &'a [u8]) -> Result<Container<'a>, ContainerError> {
        let table = root(content).map_err(|error| ContainerError::Tables(error.to_string()))?;
        let modules = table.modules().unwrap_or_default();
        let count = modules.len();
        let modules: Vec<&str> = modules.iter().take(MAX_MODULES + 1).map(|module| module.image()).collect();
        if modules.is_empty() || modules.len() > MAX_MODULES {
            return Err(ContainerError::Modules(count));
        }
        for (module, text) in modules.iter().enumerate() {
            if let Some(offset) = text.bytes().position(|byte| byte == 0) {
                return Err(ContainerError::Zero { module, offset, length: text.len() });
            }
        }
        let mut exports = Vec::new();
        for (ordinal, export) in table.exports().unwrap_or_default().iter().enumerate() {
            let name = export.kernel_name();
            let wrong = |problem: String| ContainerError::Export { ordinal, name: name.to_string(), problem };
            let module = export.module_ordinal() as usize;
            if module >= modules.len() {
                return Err(wrong(format!("it is of module {module}, and there are {count}")));
            }
            let block = export.block_dims().map(|size| [size.x, size.y, size.z]);
            let block = block.ok_or_else(|| wrong("it has no block size".to_string()))?;
            let threads = block.iter().try_fold(1u32, |threads, size| threads.checked_mul(*size));
            if threads.is_none_or(|threads| threads == 0) {
                return Err(wrong(format!("its block size is {block:?}")));
            }
            let constants = export.constant_count();
            let flags = export.binding_flags().into_iter().flatten();
            let bindings: Vec<bool> =
                flags.take(MAX_BINDINGS + 1).map(|flags| flags & BindingFlagBits::READ_ONLY.0 != 0).collect();
            if constants > MAX_CONSTANTS || bindings.len() > MAX_BINDINGS {
                return Err(wrong(format!(
                    "{} bindings and {constants} constants: a kernel has at most {MAX_BINDINGS} and {MAX_CONSTANTS}",
                    bindings.len()
                )));
            }
            let shared = export.block_shared_memory_size();
            exports.push(Export { module, name: name.to_string(), block, shared, constants, bindings });
        }
        Ok(Container { modules, exports })
    }
}
