//! Bound modules: the modules of a context with every import resolved ([`ModuleList`]), and their state
//! ([`ContextState`]). A context builds both, and an invocation runs on them.
//!
//! The module list never changes. The state is borrowed exclusively while an invocation is polled. Module indices are
//! positions in both.

use super::trace_sink::TraceSink;
use crate::interp::call::direct_import::DirectImport;
use crate::interp::call::ready_call::ReadyCall;
use crate::interp::code::code_table::CodeTable;
use crate::interp::code::import_site::ImportTarget;
use crate::interp::code::native_code::{LeftOut, NativeCode};
use crate::interp::code::threaded_code::ThreadedCode;
use std::any::Any;
use std::fmt;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::Call;
use crate::bytecode::VerifiedFunction;
use crate::convention::Convention;
use crate::limits::Charge;
use crate::list::ListType;
use crate::status::{Result, Status};
use crate::vmfb::SourceMap;
use crate::{Buffer, NativeModule, Ref};

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
    /// The rodata segments: read-only `vm.buffer` objects. Programs get those of their [`ModuleState`].
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
    /// How machine code calls it without a [`Call`], if it can.
    pub direct: Option<Arc<DirectImport>>,
}

/// The state of all modules of a module list.
#[derive(Default)]
pub struct ContextState {
    /// By module index.
    pub modules: Vec<ModuleState>,
    /// The call object of the native call that runs, or of the last one, which the next one reuses.
    pub recycled_call: Option<Box<Call>>,
    /// A call that is ready to run.
    pub(in crate::interp) ready: Option<Box<ReadyCall>>,
    /// Calls that were not ready since one was made ready.
    pub(in crate::interp) unready_calls: u32,
}

/// The state of one module.
pub enum ModuleState {
    /// Globals and constants of a bytecode module.
    Bytecode {
        /// Value globals.
        globals: Vec<u8>,
        /// Ref globals.
        refs: Vec<Option<Ref>>,
        /// The rodata segments, each an object of this context: threads that count the references of one object wait
        /// for each other.
        rodata: Vec<RodataSegment>,
        /// Charges their memory to the call that created the context.
        _charge: Charge,
    },
    /// The state of a native module, of a type of its own.
    Native(Box<dyn Any + Send>),
}

/// A rodata segment in the state of a context. It has a cache line of its own, because calls take and give back the
/// spare reference.
#[repr(C, align(64))]
pub struct RodataSegment {
    /// The first field: machine code loads it from there.
    segment: Ref,
    /// A reference for the next load of the segment: most are passed to native functions that only read them, and
    /// counting a reference takes as long as twenty other instructions.
    spare: Option<Ref>,
}

impl RodataSegment {
    fn new(segment: Ref) -> RodataSegment {
        RodataSegment { segment, spare: None }
    }

    /// A reference to the segment.
    #[inline]
    pub fn load(&mut self) -> Ref {
        self.spare.take().unwrap_or_else(|| self.segment.clone())
    }

    /// A copy of the reference to the segment that is not counted. It is good for as long as the state lives.
    #[inline]
    pub fn lend(&self) -> ManuallyDrop<Ref> {
        // SAFETY: the copy is not dropped.
        ManuallyDrop::new(unsafe { std::ptr::read(&self.segment) })
    }

    /// Takes a reference that is not needed any more, if it is one to the segment; else it is dropped.
    #[inline]
    pub fn give_back(&mut self, reference: Ref) {
        if self.spare.is_none() && reference.is_same_object(&self.segment) {
            self.spare = Some(reference);
        }
    }
}

impl ContextState {
    /// New state for the modules of `module_list`: zero globals, null references, new native states. No initialiser
    /// runs.
    ///
    /// # Errors
    /// As [`ModuleState::new`].
    pub fn new(module_list: &ModuleList) -> Result<ContextState> {
        let modules = module_list.modules.iter().map(ModuleState::new).collect::<Result<_>>()?;
        Ok(ContextState { modules, ..ContextState::default() })
    }
}

impl ModuleState {
    /// New state for one module.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is no memory for the globals or the budget of the call has not as much left, and
    /// those of [`NativeModule::create_state`](crate::NativeModule::create_state).
    pub fn new(module: &BoundModule) -> Result<ModuleState> {
        match module {
            BoundModule::Bytecode(module) => {
                let mut globals = Vec::new();
                let mut refs = Vec::new();
                let exhausted = |what: &str, count: usize| {
                    Status::resource_exhausted(format!("module `{}`: cannot allocate {count} {what}", module.name))
                };
                let bytes = module.global_bytes as u64 + (module.global_refs * size_of::<Option<Ref>>()) as u64;
                let charge = Charge::of_call(bytes, "globals")?;
                globals
                    .try_reserve_exact(module.global_bytes)
                    .map_err(|_| exhausted("bytes of globals", module.global_bytes))?;
                refs.try_reserve_exact(module.global_refs).map_err(|_| exhausted("ref globals", module.global_refs))?;
                globals.resize(module.global_bytes, 0);
                refs.resize(module.global_refs, None);
                let rodata = module.rodata.iter().map(Buffer::over_same_bytes).map(RodataSegment::new).collect();
                Ok(ModuleState::Bytecode { globals, refs, rodata, _charge: charge })
            }
            BoundModule::Native(module, _) => Ok(ModuleState::Native(module.create_state()?)),
        }
    }
}

impl fmt::Debug for ModuleList {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.modules.iter().map(BoundModule::name)).finish()
    }
}
