//! The file of an executable: IREE's FlatBuffer with code objects and what dispatches need of their kernels, or a bare
//! code object, whose kernels are all exported in the order in which it lists them.

use std::fmt;

use vireo_hsa::object::{Argument, ArgumentKind, CodeObject, CodeObjectError, KernelMetadata, is_elf};
use vireo_hsa::target::{TargetError, TargetId};

use crate::generated::amdgpu_executable::{
    BindingFlagBits, EXECUTABLE_CONTENT_OFFSET, EXECUTABLE_MAGIC, EXECUTABLE_VERSION, ExecutableFileHeader, root,
};
use crate::status::Status;

/// Most code objects of an executable.
const MAX_MODULES: usize = 256;

/// Where a FlatBuffer has its identifier, after the offset of its root.
const FLATBUFFER_IDENTIFIER: usize = 4;

/// Bytes that the error for an unknown file shows.
const SHOWN_BYTES: usize = 8;

/// Most work-items of a work-group.
const MAX_WORKGROUP_SIZE: u64 = 1 << 16;

/// A refused executable.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ContainerError {
    /// It begins neither like IREE's file nor like an ELF file.
    #[error("executable: neither a file of IREE's for AMD GPUs (`AMD1`) nor a code object: it begins with {0:02x?}")]
    Unknown(Vec<u8>),
    /// It is a FlatBuffer without a header, as compilers wrote it before they named the target in it.
    #[error(
        "executable: a FlatBuffer without the header that IREE's compiler writes from release 3.9 on: compile the program again with a later release"
    )]
    WithoutHeader,
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
    /// The target is unknown.
    #[error("executable: target: {0}")]
    Target(#[from] TargetError),
    /// A code object is malformed.
    #[error("executable: module {module}: {error}")]
    Module {
        /// Its number.
        module: usize,
        /// The error in it.
        error: CodeObjectError,
    },
    /// The code of a module is for another target than the file says.
    #[error("executable: module {module} is for `{target}`, and the executable for `{expected}`")]
    ModuleTarget {
        /// Its number.
        module: usize,
        /// The target of its code.
        target: String,
        /// The target of the executable.
        expected: String,
    },
    /// There is no module, or there are too many.
    #[error("executable: {0} code objects, expected from 1 to {MAX_MODULES}")]
    Modules(usize),
    /// Something is wrong with an export.
    #[error("executable: export {ordinal} (`{symbol}`): {problem}")]
    Export {
        /// Its ordinal.
        ordinal: usize,
        /// Its symbol.
        symbol: String,
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
    /// The target of its code.
    pub target: TargetId,
    /// Its code objects.
    pub modules: Vec<&'a [u8]>,
    /// Its exports; their ordinals are their places.
    pub exports: Vec<Export>,
}

impl fmt::Debug for Container<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (modules, exports) = (self.modules.len(), self.exports.len());
        write!(f, "executable({}, {modules} modules, {exports} exports)", self.target)
    }
}

/// A kernel that dispatches run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// The module that has it.
    pub module: usize,
    /// The kernel as its code object describes it.
    pub kernel: KernelMetadata,
    /// Work-items of a work-group.
    pub workgroup_size: [u16; 3],
    /// Constants of 32 bits.
    pub constants: u32,
    /// Its bindings, and whether it only reads each.
    pub bindings: Vec<bool>,
    /// Bytes from the start of its arguments to the implicit ones, if it has any.
    pub implicit_offset: Option<u32>,
}

impl Export {
    /// Bytes of the addresses and constants.
    pub fn explicit_size(&self) -> u32 {
        // Both were checked against the size of the arguments.
        self.bindings.len() as u32 * 8 + self.constants * 4
    }
}

impl<'a> Container<'a> {
    /// Reads an executable.
    ///
    /// # Errors
    /// The first thing that is wrong.
    pub fn read(bytes: &'a [u8]) -> Result<Container<'a>, ContainerError> {
        if is_elf(bytes) {
            return Container::of_code_object(bytes);
        }
        let header = ExecutableFileHeader::read(bytes).filter(|header| header.magic == EXECUTABLE_MAGIC);
        let header = header.ok_or_else(|| match bytes.get(FLATBUFFER_IDENTIFIER..) {
            Some(rest) if rest.starts_with(&EXECUTABLE_MAGIC.to_le_bytes()) => ContainerError::WithoutHeader,
            _ => ContainerError::Unknown(bytes.iter().take(SHOWN_BYTES).copied().collect()),
        })?;
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
        let target = TargetId::parse(table.isa())?;
        let modules = table.modules().unwrap_or_default();
        let count = modules.len();
        let modules: Vec<&[u8]> =
            modules.iter().take(MAX_MODULES + 1).map(|module| module.image().unwrap_or_default().bytes()).collect();
        if modules.is_empty() || modules.len() > MAX_MODULES {
            return Err(ContainerError::Modules(count));
        }
        let kernels_of = modules.iter().enumerate().map(|(module, image)| {
            let malformed = |error| ContainerError::Module { module, error };
            let object = CodeObject::parse(image).map_err(malformed)?;
            if object.target.processor() != target.processor() {
                let (target, expected) = (object.target.to_string(), target.to_string());
                return Err(ContainerError::ModuleTarget { module, target, expected });
            }
            object.kernels().map_err(malformed)
        });
        let kernels_of = kernels_of.collect::<Result<Vec<_>, _>>()?;
        let mut exports = Vec::new();
        for (ordinal, export) in table.exports().unwrap_or_default().iter().enumerate() {
            let symbol = export.symbol_name();
            let wrong = |problem: String| ContainerError::Export { ordinal, symbol: symbol.to_string(), problem };
            let kernels = kernels_of.iter().enumerate().flat_map(|(module, kernels)| {
                kernels.iter().filter(|kernel| kernel.symbol == symbol).map(move |kernel| (module, kernel))
            });
            let mut kernels = kernels;
            let (module, kernel) = kernels.next().ok_or_else(|| wrong("no module has its kernel".to_string()))?;
            if kernels.next().is_some() {
                return Err(wrong("two kernels have its symbol".to_string()));
            }
            let size = export.workgroup_size().map(|size| [size.x, size.y, size.z]);
            let flags = export.binding_flags().into_iter().flatten();
            let read_only = flags.map(|flags| flags & BindingFlagBits::READ_ONLY.0 != 0).collect();
            let export = self::export(module, kernel, size, export.constant_count(), read_only);
            exports.push(export.map_err(wrong)?);
        }
        Ok(Container { target, modules, exports })
    }

    fn of_code_object(bytes: &'a [u8]) -> Result<Container<'a>, ContainerError> {
        let malformed = |error| ContainerError::Module { module: 0, error };
        let object = CodeObject::parse(bytes).map_err(malformed)?;
        let kernels = object.kernels().map_err(malformed)?;
        let exports = kernels.iter().enumerate().map(|(ordinal, kernel)| {
            let wrong = |problem| ContainerError::Export { ordinal, symbol: kernel.symbol.clone(), problem };
            if !kernel.value_bytes.is_multiple_of(4) {
                return Err(wrong("its values are not constants of 32 bits".to_string()));
            }
            // Nothing says what it writes.
            let bindings = vec![false; kernel.pointers as usize];
            // They may have gaps.
            let constants = kernel.explicit_size.saturating_sub(kernel.pointers * 8).div_ceil(4);
            export(0, kernel, None, constants, bindings).map_err(wrong)
        });
        Ok(Container { target: object.target, modules: vec![bytes], exports: exports.collect::<Result<_, _>>()? })
    }
}

/// Checks that an argument is where it is written: the addresses of bindings first, and from `constants` to `end` the
/// constants.
fn check_argument(index: usize, argument: &Argument, constants: u64, end: u64) -> Result<(), String> {
    let Argument { offset, size, kind } = *argument;
    let (first, last) = (u64::from(offset), u64::from(offset) + u64::from(size));
    let (what, is_there, from, to) = match kind {
        ArgumentKind::Pointer => {
            ("an address", size == 8 && offset.is_multiple_of(8) && last <= constants, 0, constants)
        }
        ArgumentKind::Value => ("a value", constants <= first && last <= end, constants, end),
        ArgumentKind::Other => return Err(format!("argument {index} of its kernel is neither an address nor a value")),
    };
    if is_there {
        return Ok(());
    }
    Err(format!(
        "argument {index} of its kernel is {what} in bytes {first} to {last}, which are written to {from} to {to}"
    ))
}

/// Checks what is said of an export against what its kernel says.
fn export(
    module: usize,
    kernel: &KernelMetadata,
    declared: Option<[u32; 3]>,
    constants: u32,
    bindings: Vec<bool>,
) -> Result<Export, String> {
    if let (Some(declared), Some(required)) = (declared, kernel.required_workgroup_size)
        && declared != required
    {
        return Err(format!("its work-group size is {declared:?}, and its kernel was compiled for {required:?}"));
    }
    let size = declared.or(kernel.required_workgroup_size).ok_or("it has no work-group size")?;
    let items = size.iter().try_fold(1u64, |items, size| items.checked_mul((*size).into()));
    let items = items.filter(|items| (1..=MAX_WORKGROUP_SIZE).contains(items));
    let most = u64::from(kernel.max_workgroup_size);
    if items.is_none_or(|items| most != 0 && items > most) || size.iter().any(|size| u16::try_from(*size).is_err()) {
        return Err(format!("its work-group size is {size:?}, and its kernel takes at most {most} work-items"));
    }
    let explicit = bindings.len() as u64 * 8 + u64::from(constants) * 4;
    let room = u64::from(kernel.implicit_offset.unwrap_or(kernel.kernarg_size));
    if explicit > room {
        return Err(format!("{} bindings and {constants} constants in {room} bytes of arguments", bindings.len()));
    }
    if u64::from(kernel.explicit_size) > explicit {
        let kernel = kernel.explicit_size;
        return Err(format!(
            "its kernel takes {kernel} bytes of arguments, its bindings and constants have {explicit}"
        ));
    }
    for (index, argument) in kernel.arguments.iter().enumerate() {
        check_argument(index, argument, bindings.len() as u64 * 8, explicit)?;
    }
    let implicit_offset = kernel.implicit_offset;
    let workgroup_size = size.map(|size| size as u16);
    Ok(Export { module, kernel: kernel.clone(), workgroup_size, constants, bindings, implicit_offset })
}
