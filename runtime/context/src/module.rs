//! [`Module`]: a verified bytecode module, or a module in Rust. Hosts load modules and create contexts of them; one
//! module can be in many contexts.

use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use smallvec::SmallVec;

use crate::bytecode::VerifiedFunction;
use crate::bytecode::opcode::RESERVED_PREFIX;
use crate::interp;
use crate::interp::loops::LoopDecision;
use crate::interp::{CodeShape, CompiledFunction};
use crate::limits::check_available;
use crate::status::{Result, Status};
use crate::vmfb::{Archive, DebugDatabase, Import};
use vireo_module::convention::Convention;
use vireo_module::verified::{self, Verified};
use vireo_vm::list::{ElementType, List, ListType};
use vireo_vm::type_names as refs;
use vireo_vm::{Buffer, NativeModule, Object, Ref};

/// A module: bytecode from a file, or functions in Rust. Cheap to clone.
#[derive(Clone)]
pub struct Module(pub(super) ModuleKind);

#[derive(Clone)]
pub(super) enum ModuleKind {
    Bytecode(Arc<VerifiedBytecode>),
    Native(Arc<ParsedNative>),
}

/// A module in Rust with its exports parsed.
pub(super) struct ParsedNative {
    pub module: Arc<dyn NativeModule>,
    /// By ordinal.
    pub conventions: Arc<[Convention]>,
    names: NameIndex,
}

/// Positions of exports by name. Files choose the number and the names of exports, so a lookup must not be linear.
type NameIndex = HashMap<Box<str>, SmallVec<[usize; 1]>>;

fn index_names<'n>(names: impl Iterator<Item = &'n str>) -> NameIndex {
    let mut index = NameIndex::with_capacity(names.size_hint().0);
    for (position, name) in names.enumerate() {
        index.entry(name.into()).or_default().push(position);
    }
    index
}

/// A verified bytecode module.
pub(super) struct VerifiedBytecode {
    pub archive: Archive,
    pub functions: Arc<[VerifiedFunction]>,
    pub function_names: Vec<String>,
    /// The conventions of the imports, by ordinal.
    pub imports: Vec<Convention>,
    pub types: Vec<ListType>,
    pub rodata: Vec<Ref>,
    pub debug: Option<DebugDatabase>,
    shape: CodeShape,
    names: NameIndex,
}

/// The compiler for a module with these functions, if this build has one.
#[cfg_attr(not(jit), expect(unused_variables, reason = "this build makes no machine code"))]
pub fn function_compiler(functions: &[VerifiedFunction]) -> Option<Box<dyn interp::threaded::FunctionCompiler>> {
    #[cfg(jit)]
    return Some(Box::new(vireo_jit::ModuleCode::new(functions)));
    #[cfg(not(jit))]
    None
}

/// An exported function: its name, convention and ordinal.
#[derive(Clone, Debug)]
pub struct ExportInfo<'a> {
    /// Name without the module.
    pub name: &'a str,
    /// Its calling convention.
    pub convention: &'a Convention,
    /// Its ordinal: in the function table of a bytecode module, in the exports of a native one.
    #[doc(hidden)]
    pub ordinal: usize,
}

impl VerifiedBytecode {
    /// The bound module, with the target of each import as `target` resolves it among `modules`.
    pub fn bind(
        &self,
        modules: &[Module],
        mut target: impl FnMut(Import<'_>, &Convention) -> Result<Option<interp::ImportTarget>>,
    ) -> Result<interp::BytecodeModule> {
        let archive = &self.archive;
        let mut imports = Vec::with_capacity(self.imports.len());
        for (import, convention) in archive.imports().zip(&self.imports) {
            let name = import.full_name.to_string();
            let target = target(import, convention)?;
            let direct = target.and_then(|target| match &modules.get(target.module)?.0 {
                ModuleKind::Native(native) => interp::DirectImport::new(&native.module, target).map(Arc::new),
                ModuleKind::Bytecode(_) => None,
            });
            imports.push(interp::Import { name, convention: convention.clone(), target, direct });
        }
        let (global_bytes, global_refs) = archive.globals();
        Ok(interp::BytecodeModule {
            function_names: self.function_names.clone(),
            imports,
            types: self.types.clone(),
            rodata: self.rodata.clone(),
            global_bytes,
            global_refs,
            compiler: function_compiler(&self.functions),
            shape: self.shape,
            source_map: self.debug.clone().map(|debug| Arc::new(debug) as _),
            ..interp::BytecodeModule::new(archive.name().to_string(), Arc::clone(&self.functions))
        })
    }
}

impl Module {
    /// Opens and verifies the module file at `path`.
    ///
    /// A file of up to 1 MiB is read. A larger one is mapped, and only its tables and code are copied. A change of a
    /// mapped file while the module lives changes constants of the program, and nothing else. But the operating system
    /// ends the process, with `SIGBUS` on Unix, when it reads a constant that is no longer in the file because that was
    /// **truncated**. For files that others may truncate there is [`Module::read_file`].
    ///
    /// # Errors
    /// `NOT_FOUND` and the like if the file cannot be read, `INVALID_ARGUMENT` if it is no module file or anything in
    /// it is wrong, `INCOMPATIBLE` if it is of another version.
    pub fn from_file(path: impl AsRef<Path>) -> Result<Module> {
        Module::from_archive(Archive::open(path)?)
    }

    /// Reads and verifies the module file at `path`, of any size. Later changes of the file have no effect.
    ///
    /// # Errors
    /// As [`Module::from_file`].
    pub fn read_file(path: impl AsRef<Path>) -> Result<Module> {
        Module::from_archive(Archive::read(path)?)
    }

    /// Copies and verifies a module file in memory.
    ///
    /// # Errors
    /// As [`Module::from_file`].
    pub fn from_bytes(bytes: &[u8]) -> Result<Module> {
        Module::from_archive(Archive::from_bytes(bytes)?)
    }

    /// Verifies a module file in static memory, such as that of `include_bytes!`. It needs no alignment. Only tables
    /// and code are copied, and constants when a device imports them: kernels may write to those in place.
    ///
    /// # Errors
    /// As [`Module::from_file`].
    pub fn from_static(bytes: &'static [u8]) -> Result<Module> {
        Module::from_archive(Archive::from_static(bytes)?)
    }

    /// Verifies the functions of an archive.
    ///
    /// # Errors
    /// As [`Module::from_file`].
    pub fn from_archive(archive: Archive) -> Result<Module> {
        Module::from_archive_with(archive, |_, _| {})
    }

    /// As [`Module::from_archive`]. After each function `progress` gets the bytes of code that are verified, and how
    /// many there are in all.
    ///
    /// # Errors
    /// As [`Module::from_file`].
    pub fn from_archive_with(archive: Archive, progress: impl FnMut(u64, u64)) -> Result<Module> {
        let file = archive.file_name().to_string();
        let bytecode = load(archive, progress).map_err(|status| status.context(file))?;
        Ok(Module(ModuleKind::Bytecode(Arc::new(bytecode))))
    }

    /// A module in Rust, see `vireo::vm_module`.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if an export has a malformed calling convention.
    pub fn native(module: impl NativeModule) -> Result<Module> {
        Module::native_shared(Arc::new(module))
    }

    /// As [`Module::native`], for a module that is shared.
    ///
    /// # Errors
    /// As [`Module::native`].
    pub fn native_shared(module: Arc<dyn NativeModule>) -> Result<Module> {
        let conventions = module.exports().iter().map(|export| {
            let place = || format!("export `{}.{}`", module.name(), export.name);
            export.convention.parse().map_err(|status: Status| status.context(place()))
        });
        let conventions = conventions.collect::<Result<Arc<[Convention]>>>()?;
        let names = index_names(module.exports().iter().map(|export| export.name));
        Ok(Module(ModuleKind::Native(Arc::new(ParsedNative { module, conventions, names }))))
    }

    /// Chooses the machine code of the module. It has no effect once the module has been cloned.
    #[doc(hidden)]
    pub fn set_code_shape(&mut self, shape: CodeShape) {
        if let ModuleKind::Bytecode(module) = &mut self.0
            && let Some(module) = Arc::get_mut(module)
        {
            module.shape = shape;
        }
    }

    /// The name that importers use.
    pub fn name(&self) -> &str {
        match &self.0 {
            ModuleKind::Bytecode(module) => module.archive.name(),
            ModuleKind::Native(native) => native.module.name(),
        }
    }

    /// The module's version.
    pub fn version(&self) -> u32 {
        match &self.0 {
            ModuleKind::Bytecode(module) => module.archive.version(),
            ModuleKind::Native(native) => native.module.version(),
        }
    }

    /// The module file; none for a module in Rust.
    pub fn archive(&self) -> Option<&Archive> {
        match &self.0 {
            ModuleKind::Bytecode(module) => Some(&module.archive),
            ModuleKind::Native(_) => None,
        }
    }

    /// The verified functions by ordinal; none for a module in Rust.
    pub fn functions(&self) -> &[VerifiedFunction] {
        match &self.0 {
            ModuleKind::Bytecode(module) => &module.functions,
            ModuleKind::Native(_) => &[],
        }
    }

    /// The name of function `ordinal` for display: that of its export, else that in the source, else `@3`.
    pub fn function_name(&self, ordinal: usize) -> String {
        let name = match &self.0 {
            ModuleKind::Bytecode(module) => module.function_names.get(ordinal).map_or("", String::as_str),
            ModuleKind::Native(native) => native.module.exports().get(ordinal).map_or("", |export| export.name),
        };
        if name.is_empty() { format!("@{ordinal}") } else { name.to_string() }
    }

    /// The listing of the machine code of function `ordinal`; none if the function is left to the interpreter.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` where there is no machine code in this build.
    #[cfg_attr(not(jit), expect(unused_variables, reason = "this build makes no machine code"))]
    pub fn compiled(&self, ordinal: usize) -> Result<Option<CompiledFunction>> {
        check_available()?;
        #[cfg(jit)]
        if let ModuleKind::Bytecode(module) = &self.0
            && let Some(function) = module.functions.get(ordinal)
        {
            let unbound = module.bind(&[], |_, _| Ok(None))?;
            return Ok(vireo_jit::Plan::new(function, &unbound).and_then(|plan| plan.list()));
        }
        Ok(None)
    }

    /// The JIT's graph of function `ordinal` after its passes, as text; none if the function is left to the
    /// interpreter. It is for developers of the compiler: the text changes with that.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` where there is no machine code in this build.
    #[doc(hidden)]
    #[cfg_attr(not(jit), expect(unused_variables, reason = "this build makes no machine code"))]
    pub fn compiler_graph(&self, ordinal: usize) -> Result<Option<String>> {
        check_available()?;
        #[cfg(jit)]
        if let ModuleKind::Bytecode(module) = &self.0
            && let Some(function) = module.functions.get(ordinal)
        {
            let unbound = module.bind(&[], |_, _| Ok(None))?;
            return Ok(vireo_jit::Plan::new(function, &unbound).map(|plan| plan.graph()));
        }
        Ok(None)
    }

    /// The decisions of the JIT about the loops of function `ordinal`, in the order in which they were made; none if
    /// the function is left to the interpreter. They are for developers of the compiler, and change with that.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` where there is no machine code in this build.
    #[doc(hidden)]
    #[cfg_attr(not(jit), expect(unused_variables, reason = "this build makes no machine code"))]
    pub fn loop_decisions(&self, ordinal: usize) -> Result<Option<Vec<LoopDecision>>> {
        check_available()?;
        #[cfg(jit)]
        if let ModuleKind::Bytecode(module) = &self.0
            && let Some(function) = module.functions.get(ordinal)
        {
            let unbound = module.bind(&[], |_, _| Ok(None))?;
            return Ok(vireo_jit::Plan::explained(function, &unbound).map(|plan| plan.decisions().to_vec()));
        }
        Ok(None)
    }

    /// The compile time of function `ordinal`, the fastest of `attempts`, and the size of its code in bytes; none if
    /// the function is left to the interpreter. The time does not include the mapping of the code.
    ///
    /// # Errors
    /// `UNIMPLEMENTED` where there is no machine code in this build.
    #[doc(hidden)]
    #[cfg_attr(not(jit), expect(unused_variables, reason = "this build makes no machine code"))]
    pub fn compilation_time(&self, ordinal: usize, attempts: u32) -> Result<Option<(Duration, usize)>> {
        check_available()?;
        #[cfg(jit)]
        if let ModuleKind::Bytecode(module) = &self.0
            && let Some(function) = module.functions.get(ordinal)
        {
            let unbound = module.bind(&[], |_, _| Ok(None))?;
            let attempt = |_| {
                let start = std::time::Instant::now();
                let bytes = vireo_jit::Plan::new(function, &unbound)?.code_bytes()?;
                Some((start.elapsed(), bytes))
            };
            return Ok((0..attempts).filter_map(attempt).min());
        }
        Ok(None)
    }

    /// The debug database; none for a module in Rust or one that was stripped.
    pub fn debug_database(&self) -> Option<&DebugDatabase> {
        match &self.0 {
            ModuleKind::Bytecode(module) => module.debug.as_ref(),
            ModuleKind::Native(_) => None,
        }
    }

    /// The exported functions, except those for the runtime (their names start with `__`).
    pub fn exports(&self) -> impl Iterator<Item = ExportInfo<'_>> {
        self.all_exports().filter(|export| !export.name.starts_with(RESERVED_PREFIX))
    }

    /// The reflection attribute `key` of an export.
    pub fn attr_of(&self, export: &ExportInfo<'_>, key: &str) -> Option<&str> {
        let function = self.archive()?.function(export.ordinal)?;
        function.attrs().find(|(name, _)| *name == key).map(|(_, value)| value)
    }

    /// All exported functions.
    #[doc(hidden)]
    pub fn all_exports(&self) -> impl Iterator<Item = ExportInfo<'_>> {
        let count = match &self.0 {
            ModuleKind::Bytecode(module) => module.archive.exports().len(),
            ModuleKind::Native(native) => native.conventions.len(),
        };
        (0..count).filter_map(|position| self.export_at(position))
    }

    fn export_at(&self, position: usize) -> Option<ExportInfo<'_>> {
        match &self.0 {
            ModuleKind::Bytecode(module) => {
                let export = module.archive.export(position)?;
                let convention = module.functions.get(export.ordinal)?.convention();
                Some(ExportInfo { name: export.name, convention, ordinal: export.ordinal })
            }
            ModuleKind::Native(native) => {
                let (export, convention) = (native.module.exports().get(position)?, native.conventions.get(position)?);
                Some(ExportInfo { name: export.name, convention, ordinal: position })
            }
        }
    }

    /// The exports called `name`; there can be several with different calling conventions.
    #[doc(hidden)]
    pub fn exports_named(&self, name: &str) -> impl Iterator<Item = ExportInfo<'_>> {
        let names = match &self.0 {
            ModuleKind::Bytecode(module) => &module.names,
            ModuleKind::Native(native) => &native.names,
        };
        let positions = names.get(name).map_or(&[][..], SmallVec::as_slice);
        positions.iter().filter_map(|position| self.export_at(*position))
    }

    /// The convention of the function with this ordinal.
    pub(super) fn convention_of(&self, ordinal: usize) -> Option<&Convention> {
        match &self.0 {
            ModuleKind::Bytecode(module) => module.functions.get(ordinal).map(VerifiedFunction::convention),
            ModuleKind::Native(native) => native.conventions.get(ordinal),
        }
    }
}

impl fmt::Debug for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            ModuleKind::Bytecode(module) => write!(f, "Module({:?})", module.archive),
            ModuleKind::Native(_) => write!(f, "Module(native `{}` version {})", self.name(), self.version()),
        }
    }
}

fn load(archive: Archive, progress: impl FnMut(u64, u64)) -> Result<VerifiedBytecode> {
    let debug = DebugDatabase::of(&archive);
    let types: Vec<ListType> = archive.types().map(resolve_type).collect::<Result<_>>()?;
    let Verified { functions, function_names, imports } = verified::verify(&archive, debug.as_ref(), progress)?;
    let rodata = archive
        .rodata()
        .map(|segment| Ok(Ref::new(Buffer::of_archive(&archive, segment.range)?)))
        .collect::<Result<_>>()?;
    let names = index_names(archive.exports().map(|export| export.name));
    Ok(VerifiedBytecode {
        functions,
        function_names,
        imports,
        types,
        rodata,
        debug,
        shape: CodeShape::default(),
        names,
        archive,
    })
}

/// Resolves a name in the type table. Unknown reference types are kept by name, because programs may pass objects
/// through that only other modules know.
fn resolve_type(name: &str) -> Result<ListType> {
    if let Some(element) = ElementType::from_name(name) {
        return Ok(ListType::Value(element));
    }
    let list = List::TYPE_NAME;
    match name.strip_prefix('!') {
        Some(refs::VM_OPAQUE) => Ok(ListType::Variant),
        // Element types are not part of a list's type: programs of the reference compiler convert between lists of
        // different ones freely.
        Some(name) if name.strip_prefix(list).is_some_and(|rest| rest.is_empty() || rest.starts_with('<')) => {
            Ok(ListType::Ref(list.to_string()))
        }
        Some(name) if !name.is_empty() => Ok(ListType::Ref(name.to_string())),
        _ => Err(Status::invalid_argument(format!(
            "type \"{}\" in the type table: expected a value type or a reference type such as !vm.buffer",
            name.escape_debug()
        ))),
    }
}
