//! Executables in machine code ([`LocalExecutable`]): a library of native kernels, checked and with its imports
//! resolved. All loaders of this folder make it.

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use super::dispatch;
use super::library_metadata::{Image, Metadata, NativeKernel};
use crate::hal::executable_library::{
    DispatchAttributeFlags, DispatchState, Environment, LibraryQuery, Processor, WorkgroupState,
};
use crate::hal::host_kernels::{
    Arguments, HostKernels, ImportProvider, ImportTable, KernelTiming, WorkgroupMemory, processor_data, thunk,
};
use crate::hal::{
    Executable, ExecutableCachingMode, ExecutableFunction, ExecutableFunctionFlags, ExecutableFunctionInfo,
};
use crate::status::{Result, Status};

/// A loaded library.
pub struct LocalExecutable {
    /// The environment of the kernels. It is boxed, since every call gets its address.
    environment: Box<Environment>,
    kernels: Vec<NativeKernel>,
    name: String,
    // The environment points into these.
    _constants: Box<[u32]>,
    _imports: ImportTable,
    _provider: Arc<dyn ImportProvider>,
    // The code of the kernels; it is dropped last.
    _image: Box<dyn Image>,
}

// SAFETY: the environment is never written after it was made; what it points to is owned here, and imports may be
// called from any thread as their provider guarantees.
unsafe impl Send for LocalExecutable {}
// SAFETY: the environment is never written after it was made; what it points to is owned here, and imports may be
// called from any thread as their provider guarantees.
unsafe impl Sync for LocalExecutable {}

impl fmt::Debug for LocalExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executable({}, {} functions)", self.name, self.kernels.len())
    }
}

impl LocalExecutable {
    /// Queries the metadata of a library and resolves its imports.
    ///
    /// # Safety
    /// `query` must be the query function of the library that `image` is, and whatever initialises that has run. The
    /// caller trusts its code as any native code.
    pub(super) unsafe fn new(
        image: Box<dyn Image>,
        query: LibraryQuery,
        constants: &[u32],
        caching_mode: ExecutableCachingMode,
        provider: Arc<dyn ImportProvider>,
    ) -> Result<LocalExecutable> {
        let constants: Box<[u32]> = constants.into();
        let mut environment = Box::new(new_environment(&constants));
        // SAFETY: the caller guarantees that `query` is the query function of the library that `image` is; the
        // environment outlives the executable.
        let library = unsafe { Metadata::query(&*image, query, &raw const *environment) }?;
        let declared = library.constants;
        let verify = !caching_mode.contains(ExecutableCachingMode::DISABLE_VERIFICATION);
        if verify && declared as usize != constants.len() {
            let message = format!("the executable takes {declared} constants, {} are given", constants.len());
            return Err(Status::failed_precondition(message));
        }
        let Metadata { name, kernels, imports, .. } = library;
        if verify {
            let entries = kernels.iter().map(|kernel| (kernel.function as usize as u64, kernel.name()));
            check_instructions(&*image, &entries.collect::<Vec<_>>())?;
        }
        let mut imports = ImportTable::resolve(imports, &*provider)?;
        if !imports.is_empty() {
            environment.import_functions = imports.functions();
            environment.import_contexts = imports.contexts();
        }
        Ok(LocalExecutable {
            environment,
            kernels,
            name,
            _constants: constants,
            _imports: imports,
            _provider: provider,
            _image: image,
        })
    }

    fn environment(&self) -> *const Environment {
        &raw const *self.environment
    }

    pub(super) fn kernel(&self, function: ExecutableFunction) -> Result<&NativeKernel> {
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

/// Checks the ISA requirements of code that is reached from these entry points, which are addresses and names of
/// functions. Without the feature `check-kernels` this does nothing, and no instruction decoder is linked.
pub(super) fn check_instructions(image: &dyn Image, entries: &[(u64, &str)]) -> Result<()> {
    #[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
    super::isa_requirements::check(&image.code(), entries)?;
    #[cfg(not(all(target_arch = "x86_64", feature = "check-kernels")))]
    let _ = (image, entries);
    Ok(())
}

/// The environment of a library without imports.
pub(super) fn new_environment(constants: &[u32]) -> Environment {
    Environment {
        constants: if constants.is_empty() { std::ptr::null() } else { constants.as_ptr() },
        import_thunk: Some(thunk),
        import_functions: std::ptr::null(),
        import_contexts: std::ptr::null(),
        processor: Processor { data: *processor_data() },
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

    fn host_kernels(self: Arc<Self>) -> Option<Arc<dyn HostKernels>> {
        Some(self)
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
        #[cfg(windows)]
        dispatch::commit_stack();
        // SAFETY: the kernel is one of this library, and the caller guarantees the rest.
        unsafe { dispatch::issue(self.environment(), kernel, dispatch_state, workgroup_state) }
    }
}

impl HostKernels for LocalExecutable {
    fn name(&self, function: ExecutableFunction) -> &str {
        self.kernel(function).map_or("an unknown function", NativeKernel::name)
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

    fn timing(&self, function: ExecutableFunction) -> Option<&KernelTiming> {
        self.kernel(function).ok().map(|kernel| &kernel.timing)
    }

    unsafe fn run(
        &self,
        function: ExecutableFunction,
        arguments: &Arguments<'_>,
        workgroups: Range<u64>,
        workgroup_memory: &mut WorkgroupMemory,
    ) -> Result<()> {
        let kernel = self.kernel(function)?;
        // SAFETY: the kernel is one of this library, and the caller guarantees the rest.
        unsafe { dispatch::run(self.environment(), kernel, arguments, workgroups, workgroup_memory) }
    }
}
