//! Bound modules: the modules of a context with every import resolved ([`ModuleList`]). A context builds the list,
//! which never changes, and an invocation runs on it.

use std::fmt;
use std::sync::Arc;

use super::direct_import::DirectImport;
use super::trace_sink::TraceSink;
use crate::bytecode::VerifiedFunction;
use crate::convention::Convention;
use crate::interp::code::code_table::CodeTable;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::native_code::{LeftOut, NativeCode};
use crate::interp::code::threaded_code::ThreadedCode;
use crate::list::ListType;
use crate::status::{Result, Status};
use crate::vmfb::SourceMap;
use crate::{NativeModule, Ref};

/// The modules of a context, in the order in which they were registered.
pub struct ModuleList {
    /// All modules.
    pub modules: Vec<BoundModule>,
    /// Receives the events of `trace` and `print`.
    pub sink: Arc<dyn TraceSink>,
}

/// One module of a module list.
#[derive(Clone)]
pub enum BoundModule {
    /// A verified bytecode module.
    Bytecode(Arc<BytecodeModule>),
    /// A module written in Rust, with the parsed conventions of its exports by ordinal.
    Native(Arc<dyn NativeModule>, Arc<[Convention]>),
}

impl BoundModule {
    /// The module's name.
    pub fn name(&self) -> &str {
        match self {
            BoundModule::Bytecode(module) => &module.name,
            BoundModule::Native(module, _) => module.name(),
        }
    }
}

/// The form of the machine code that the JIT makes of a module. Only speed depends on it.
#[doc(hidden)]
#[derive(Clone, Copy, Debug)]
pub struct CodeShape {
    /// Most lanes of a vector, of those with lanes of 32 bits.
    pub max_lanes: u8,
    /// Functions are compiled in baseline mode, with values in memory, as too large functions always are.
    pub baseline: bool,
    /// The interpreter may enter machine code at loop headers. Kernels have their machine code before they run, and
    /// without other entries, more values are known to be constants in their loops.
    pub osr_entries: bool,
}

impl CodeShape {
    /// That of kernels.
    pub const KERNELS: CodeShape = CodeShape { max_lanes: u8::MAX, baseline: false, osr_entries: false };
}

impl Default for CodeShape {
    fn default() -> CodeShape {
        CodeShape { osr_entries: true, ..CodeShape::KERNELS }
    }
}

/// A bytecode module whose imports are bound.
pub struct BytecodeModule {
    /// Name that importers use.
    pub name: String,
    /// The functions, by ordinal; exported or not.
    pub functions: Arc<[VerifiedFunction]>,
    /// The threaded code of the functions.
    pub code: CodeTable,
    /// Names of the functions for backtraces, by ordinal; empty where the module names none.
    pub function_names: Vec<String>,
    /// The imports, by ordinal (without bit 31).
    pub imports: Vec<Import>,
    /// The type table: value types, reference types by name (`vm.buffer`, `hal.device`; a list is `vm.list` whatever
    /// its elements are), and `any`.
    pub types: Vec<ListType>,
    /// The rodata segments: read-only `vm.buffer` objects. Programs get those of their `ModuleState`.
    pub rodata: Vec<Ref>,
    /// Bytes of value globals.
    pub global_bytes: usize,
    /// Number of ref globals.
    pub global_refs: usize,
    /// The compiler of the functions, if this build has one.
    pub compiler: Option<Box<dyn FunctionCompiler>>,
    /// Restrictions of the compiler.
    pub shape: CodeShape,
    /// The debug database, if the module has one.
    pub source_map: Option<Arc<dyn SourceMap>>,
}

impl BytecodeModule {
    /// A module with these functions and nothing else: no imports, no globals, no compiler.
    pub fn new(name: String, functions: Arc<[VerifiedFunction]>) -> BytecodeModule {
        BytecodeModule {
            name,
            code: CodeTable::new(&functions),
            functions,
            function_names: Vec::new(),
            imports: Vec::new(),
            types: Vec::new(),
            rodata: Vec::new(),
            global_bytes: 0,
            global_refs: 0,
            compiler: None,
            shape: CodeShape::default(),
            source_map: None,
        }
    }

    /// The name of function `ordinal` for messages: `@3` where the module names none.
    pub fn function_name(&self, ordinal: usize) -> String {
        let name = self.function_names.get(ordinal).filter(|name| !name.is_empty());
        name.cloned().unwrap_or_else(|| format!("@{ordinal}"))
    }

    /// True if a function of the module calls function `ordinal`.
    pub fn is_called(&self, ordinal: u32) -> bool {
        self.code.is_called(&self.functions, ordinal)
    }
}

/// The compiler of the functions of one module. The crate `vireo-jit` implements it; the interpreter knows no more of
/// the JIT than this.
pub trait FunctionCompiler: Send + Sync {
    /// The functions that are compiled before `function`, because it calls them.
    fn callees(&self, module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32>;

    /// Compiles a function: `always`, or if that pays. The module gets at most `limit` bytes of code.
    ///
    /// # Errors
    /// Why the function is left to the interpreter.
    fn compile(
        &self,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &ThreadedCode,
        always: bool,
        limit: u64,
    ) -> Result<NativeCode, LeftOut>;

    /// Lets other machine code call function `ordinal`, whose code is installed.
    fn publish(&self, ordinal: u32, native: &NativeCode);
}

/// An import of a bytecode module.
#[derive(Clone, Debug)]
pub struct Import {
    /// `module.function`.
    pub name: String,
    /// The convention that the importer expects.
    pub convention: Convention,
    /// The function that it is bound to, which has the same convention. None for an optional import that no module
    /// provides.
    pub target: Option<ImportTarget>,
    /// How machine code calls it without a `Call`, if it can.
    pub direct: Option<Arc<DirectImport>>,
}

impl fmt::Debug for ModuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.modules.iter().map(BoundModule::name)).finish()
    }
}

/// The function `function` of bytecode module `module`.
///
/// # Errors
/// `INTERNAL` if there is no such function, which the verifier and the binding of imports exclude.
#[inline]
pub fn lookup(
    module_list: &ModuleList,
    module: usize,
    function: usize,
) -> Result<(&BytecodeModule, &VerifiedFunction)> {
    let Some(BoundModule::Bytecode(module)) = module_list.modules.get(module) else {
        return Err(Status::internal(format!("module {module} is not a bytecode module of this program")));
    };
    let code = module
        .functions
        .get(function)
        .ok_or_else(|| Status::internal(format!("module `{}` has no function {function}", module.name)))?;
    Ok((module, code))
}
