//! Executables of local devices: a library of native kernels, checked and with its imports resolved.

use std::ffi::c_void;
use std::fmt;
use std::ops::Range;
use std::ptr::NonNull;
use std::sync::Arc;

use super::cost::Cost;
use super::cpu::processor_data;
use super::dispatch;
use super::elf::Module;
use super::imports::{ImportProvider, ImportTable, thunk};
use super::kernels::{Arguments, Kernels};
use super::worker::Worker;
use crate::hal::executable_library::{
    self as abi, DispatchAttributeFlags, DispatchAttributes, DispatchState, Environment, Library, LibraryHeader,
    Processor, SanitizerKind, WorkgroupState,
};
use crate::hal::{
    Executable, ExecutableCachingMode, ExecutableFunction, ExecutableFunctionFlags, ExecutableFunctionInfo,
};
use crate::status::{Result, Status, StatusCode};

/// Longest name that a library may give.
const MAX_NAME: u64 = 4096;

/// A kernel.
pub(super) struct Kernel {
    pub(super) function: abi::Dispatch,
    pub(super) attributes: DispatchAttributes,
    name: String,
    cost: Cost,
}

/// A loaded library.
pub struct LocalExecutable {
    /// What the kernels see. It does not move: its address is handed to every call.
    environment: Box<Environment>,
    kernels: Vec<Kernel>,
    name: String,
    // The environment points into these.
    _constants: Box<[u32]>,
    _imports: ImportTable,
    _provider: Arc<dyn ImportProvider>,
    // The kernels are in this; it goes last.
    _module: Module,
}

// SAFETY: the environment is never written after it was made; what it points to is owned here, and imports may be called from any
// thread as their provider guarantees.
unsafe impl Send for LocalExecutable {}
// SAFETY: as above.
unsafe impl Sync for LocalExecutable {}

impl fmt::Debug for LocalExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executable({}, {} functions)", self.name, self.kernels.len())
    }
}

impl LocalExecutable {
    /// Runs the initialisers of a library and asks it what it has.
    pub(super) fn new(
        module: Module,
        constants: &[u32],
        caching_mode: ExecutableCachingMode,
        provider: Arc<dyn ImportProvider>,
    ) -> Result<LocalExecutable> {
        let query = module.function(abi::LIBRARY_QUERY_SYMBOL).ok_or_else(|| {
            Status::failed_precondition(format!("the library does not export `{}`", abi::LIBRARY_QUERY_SYMBOL))
        })?;
        let constants: Box<[u32]> = constants.into();
        let mut environment = Box::new(Environment {
            constants: if constants.is_empty() { std::ptr::null() } else { constants.as_ptr() },
            import_thunk: Some(thunk),
            import_functions: std::ptr::null(),
            import_contexts: std::ptr::null(),
            processor: Processor { data: *processor_data() },
        });
        // SAFETY: who loads an executable trusts its code; see the module's documentation.
        unsafe { module.initialize() };
        // SAFETY: the address is code of the module, and the symbol of this name has this type by the format's definition.
        let query = unsafe {
            std::mem::transmute::<*const (), unsafe extern "sysv64" fn(u32, *const Environment) -> *const Library>(
                query as *const (),
            )
        };
        // SAFETY: the environment is valid and outlives the executable.
        let library = unsafe { query(abi::LIBRARY_VERSION, &raw const *environment) };
        if library.is_null() {
            return Err(Status::incompatible(format!(
                "the executable does not support version {} of the library interface",
                abi::LIBRARY_VERSION
            )));
        }
        let reader = Reader(&module);
        let library: Library = reader.read(library, "the library")?;
        let name = reader.header(library.header)?;
        let declared = library.constants.count;
        let verify = !caching_mode.contains(ExecutableCachingMode::DISABLE_VERIFICATION);
        if verify && declared as usize != constants.len() {
            let message = format!("the executable takes {declared} constants, {} are given", constants.len());
            return Err(Status::failed_precondition(message));
        }
        let kernels = reader.kernels(&library)?;
        let imports = reader.strings(library.imports.symbols, library.imports.count, "an import")?;
        let imports = ImportTable::resolve(imports.iter().map(String::as_str), &*provider)?;
        if !imports.functions.is_empty() {
            environment.import_functions = imports.functions.as_ptr();
            environment.import_contexts = imports.contexts.as_ptr();
        }
        Ok(LocalExecutable {
            environment,
            kernels,
            name,
            _constants: constants,
            _imports: imports,
            _provider: provider,
            _module: module,
        })
    }

    pub(super) fn environment(&self) -> *const Environment {
        &raw const *self.environment
    }

    pub(super) fn kernel(&self, function: ExecutableFunction) -> Result<&Kernel> {
        let index = usize::try_from(function.0).ok();
        index.and_then(|index| self.kernels.get(index)).ok_or_else(|| {
            Status::out_of_range(format!(
                "function {}: the executable has {} functions",
                function.0,
                self.kernels.len()
            ))
        })
    }
}

impl Kernel {
    pub(super) fn name(&self) -> &str {
        &self.name
    }
}

impl Executable for LocalExecutable {
    fn function_count(&self) -> u32 {
        self.kernels.len() as u32
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        let kernel = self.kernel(function)?;
        let attributes = &kernel.attributes;
        let declared = DispatchAttributeFlags::from_bits_retain(attributes.flags);
        let mut flags = ExecutableFunctionFlags::empty();
        flags.set(ExecutableFunctionFlags::SEQUENTIAL, declared.contains(DispatchAttributeFlags::SEQUENTIAL));
        let dynamic = declared.contains(DispatchAttributeFlags::WORKGROUP_SIZE_DYNAMIC);
        flags.set(ExecutableFunctionFlags::WORKGROUP_SIZE_DYNAMIC, dynamic);
        Ok(ExecutableFunctionInfo {
            name: kernel.name.clone(),
            flags,
            constant_count: attributes.constant_count.into(),
            binding_count: attributes.binding_count.into(),
            parameter_count: attributes.parameter_count,
            workgroup_size: [
                attributes.workgroup_size_x,
                attributes.workgroup_size_y,
                attributes.workgroup_size_z.into(),
            ],
        })
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        let index = self.kernels.iter().position(|kernel| kernel.name == name);
        index.map(|index| ExecutableFunction(index as u64)).ok_or_else(|| {
            let names: Vec<&str> = self.kernels.iter().take(8).map(|kernel| kernel.name.as_str()).collect();
            Status::not_found(format!("the executable has no function `{name}`; it has {}", names.join(", ")))
        })
    }
}

impl crate::hal::LocalExecutable for LocalExecutable {
    unsafe fn issue_call(
        &self,
        ordinal: u32,
        dispatch_state: &DispatchState,
        workgroup_state: &WorkgroupState,
        _worker_id: u32,
    ) -> Result<()> {
        let kernel = self.kernel(ExecutableFunction(ordinal.into()))?;
        // SAFETY: the caller guarantees exactly this.
        unsafe { dispatch::issue(self, kernel, dispatch_state, workgroup_state) }
    }
}

impl Kernels for LocalExecutable {
    fn name(&self, function: ExecutableFunction) -> &str {
        self.kernel(function).map_or("an unknown function", Kernel::name)
    }

    fn check_arguments(&self, function: ExecutableFunction, constants: usize, bindings: usize) -> Result<()> {
        let kernel = self.kernel(function)?;
        let expected = (kernel.attributes.constant_count.into(), kernel.attributes.binding_count.into());
        if (constants, bindings) != expected {
            return Err(Status::invalid_argument(format!(
                "kernel `{}` takes {} constants and {} bindings, {constants} and {bindings} are given",
                kernel.name(),
                expected.0,
                expected.1,
            )));
        }
        Ok(())
    }

    fn is_sequential(&self, function: ExecutableFunction) -> bool {
        self.kernel(function).is_ok_and(|kernel| {
            let flags = DispatchAttributeFlags::from_bits_retain(kernel.attributes.flags);
            flags.contains(DispatchAttributeFlags::SEQUENTIAL)
        })
    }

    fn cost(&self, function: ExecutableFunction) -> Option<&Cost> {
        self.kernel(function).ok().map(|kernel| &kernel.cost)
    }

    fn run(
        &self,
        function: ExecutableFunction,
        arguments: &Arguments<'_>,
        workgroups: Range<u64>,
        worker: &mut Worker,
    ) -> Result<()> {
        dispatch::run(self, self.kernel(function)?, arguments, workgroups, worker)
    }
}

/// Reads what a library's pointers point to. All of it is in the library itself, so a pointer out of its image is refused.
struct Reader<'a>(&'a Module);

impl Reader<'_> {
    fn check(&self, pointer: *const c_void, length: u64, what: &str) -> Result<NonNull<u8>> {
        self.0.image().readable(pointer as u64, length).ok_or_else(|| {
            Status::failed_precondition(format!("the library's pointer to {what} does not point into the library"))
        })
    }

    /// A copy of what `pointer` points to.
    fn read<T: Copy>(&self, pointer: *const T, what: &str) -> Result<T> {
        let data = self.check(pointer.cast(), size_of::<T>() as u64, what)?;
        // SAFETY: the bytes are readable; the types read here are integers, raw pointers and nullable function pointers, for which
        // every bit pattern is valid.
        Ok(unsafe { data.cast::<T>().as_ptr().read_unaligned() })
    }

    /// A copy of `count` elements.
    fn array<T: Copy>(&self, pointer: *const T, count: u32, what: &str) -> Result<Vec<T>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        // Neither factor has more than 32 bits.
        let data = self.check(pointer.cast(), u64::from(count) * size_of::<T>() as u64, what)?.cast::<T>();
        // SAFETY: the whole array is readable; otherwise as in `read`.
        Ok((0..count as usize).map(|index| unsafe { data.as_ptr().add(index).read_unaligned() }).collect())
    }

    fn string(&self, pointer: *const u8, what: &str) -> Result<String> {
        let mut bytes = Vec::new();
        for offset in 0..MAX_NAME {
            match self.read((pointer as u64).wrapping_add(offset) as *const u8, what)? {
                0 => return Ok(String::from_utf8_lossy(&bytes).into_owned()),
                byte => bytes.push(byte),
            }
        }
        Err(Status::failed_precondition(format!("the name of {what} is longer than {MAX_NAME} bytes")))
    }

    fn strings(&self, pointer: *const *const u8, count: u32, what: &str) -> Result<Vec<String>> {
        self.array(pointer, count, what)?.into_iter().map(|pointer| self.string(pointer, what)).collect()
    }

    /// Checks the header and returns the library's name.
    fn header(&self, header: *const LibraryHeader) -> Result<String> {
        let header = self.read(header, "its header")?;
        if header.version != abi::LIBRARY_VERSION {
            let message =
                format!("version {} of the library interface: expected {}", header.version, abi::LIBRARY_VERSION);
            return Err(Status::incompatible(message));
        }
        let sanitizer = SanitizerKind(header.sanitizer);
        if sanitizer != SanitizerKind::NONE {
            let message =
                format!("the executable was built for the {sanitizer:?} sanitizer, which this host does not have");
            return Err(Status::new(StatusCode::Unavailable, message));
        }
        if header.name.is_null() { Ok(String::new()) } else { self.string(header.name, "the library") }
    }

    fn kernels(&self, library: &Library) -> Result<Vec<Kernel>> {
        let exports = &library.exports;
        let functions = self.array(exports.functions, exports.count, "its functions")?;
        let attributes = self.array(exports.attributes, exports.count, "the attributes of its functions")?;
        let names = self.strings(exports.names, exports.count, "the names of its functions")?;
        let mut kernels = Vec::with_capacity(functions.len());
        for ((function, attributes), name) in functions.into_iter().zip(attributes).zip(names) {
            let function = function.filter(|function| self.0.image().is_code(*function as usize as u64));
            let function = function
                .ok_or_else(|| Status::failed_precondition(format!("function `{name}` is not code of the library")))?;
            if u32::from(attributes.constant_count) > abi::MAX_CONSTANT_COUNT
                || u32::from(attributes.binding_count) > abi::MAX_BINDING_COUNT
            {
                return Err(Status::out_of_range(format!(
                    "function `{name}` takes {} constants and {} bindings: at most {} of each",
                    attributes.constant_count,
                    attributes.binding_count,
                    abi::MAX_BINDING_COUNT
                )));
            }
            kernels.push(Kernel { function, attributes, name, cost: Cost::default() });
        }
        Ok(kernels)
    }
}
