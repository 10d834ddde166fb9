//! Modules with their functions, libraries with their kernels, and states of linking.

use std::collections::BTreeMap;
use std::ffi::CString;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use vireo_cuda::result::CuResult;

use crate::api::Outcome;
use crate::context::Context;
use crate::image::{Environment, Image, Kernel, LoadError, Texts};
use crate::reports::tell;
use crate::system::System;

/// A module.
#[derive(Debug)]
pub(crate) struct Module {
    /// Its handle, once it has one.
    pub(crate) handle: OnceLock<u64>,
    /// Its context.
    pub(crate) context: Arc<Context>,
    /// Its code.
    pub(crate) image: Image,
    /// The handles of its functions, by their indices.
    functions: Mutex<BTreeMap<usize, u64>>,
}

/// A kernel of a module.
#[derive(Debug)]
pub(crate) struct Function {
    /// The module.
    pub(crate) module: Arc<Module>,
    /// The index of the kernel in the image.
    pub(crate) index: usize,
    /// Its name with a zero at the end.
    pub(crate) name: CString,
    settings: Mutex<FunctionSettings>,
}

/// Settings of a function by its program.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FunctionSettings {
    /// Bytes of dynamic shared memory at most, if it is not the default.
    pub(crate) dynamic_shared: Option<u32>,
    /// The preferred part of shared memory, in percent; -1 for none.
    pub(crate) carveout: i32,
}

impl Module {
    /// Loads a module into a context, under a handle.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub(crate) fn load(
        system: &'static System,
        context: &Arc<Context>,
        texts: &Texts,
    ) -> Result<(u64, Arc<Module>), LoadError> {
        let environment = Environment { system, context: context.clone() };
        let image = Image::load(texts, &environment)?;
        let functions = Mutex::default();
        let module = Arc::new(Module { handle: OnceLock::new(), context: context.clone(), image, functions });
        let handle = system.modules.insert(module.clone());
        let _ = module.handle.set(handle);
        Ok((handle, module))
    }

    /// The handle of the function for a kernel.
    pub(crate) fn function(self: &Arc<Self>, system: &System, index: usize) -> u64 {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        let module = self.clone();
        *functions.entry(index).or_insert_with(|| {
            let name = CString::new(module.image.kernels[index].name.clone()).unwrap_or_default();
            let settings = Mutex::new(FunctionSettings { dynamic_shared: None, carveout: -1 });
            system.functions.insert(Arc::new(Function { module, index, name, settings }))
        })
    }

    /// Unloads it.
    pub(crate) fn unload(&self, system: &System) {
        let functions = std::mem::take(&mut *self.functions.lock().unwrap_or_else(PoisonError::into_inner));
        functions.values().for_each(|handle| drop(system.functions.remove(*handle)));
        if let Some(handle) = self.handle.get() {
            system.modules.remove(*handle);
        }
        self.image.variables.iter().for_each(|(_, address, _)| system.memory.free(*address, "cuModuleUnload"));
    }
}

impl Function {
    /// The kernel.
    pub(crate) fn kernel(&self) -> &Kernel {
        &self.module.image.kernels[self.index]
    }

    /// Its settings.
    pub(crate) fn settings(&self) -> MutexGuard<'_, FunctionSettings> {
        self.settings.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A library, which is loaded into each context that uses it.
#[derive(Debug)]
pub(crate) struct SharedLibrary {
    /// Its handle, once it has one.
    pub(crate) handle: OnceLock<u64>,
    texts: Texts,
    modules: Mutex<BTreeMap<u64, Arc<Module>>>,
    kernels: Mutex<BTreeMap<String, u64>>,
}

/// A kernel of a library.
#[derive(Debug)]
pub(crate) struct LibraryKernel {
    /// The library.
    pub(crate) library: Arc<SharedLibrary>,
    /// Its name.
    pub(crate) name: String,
    /// Its name with a zero at the end.
    pub(crate) c_name: CString,
}

impl SharedLibrary {
    /// A library that is in no context yet.
    pub(crate) fn new(texts: Texts) -> Self {
        SharedLibrary { handle: OnceLock::new(), texts, modules: Mutex::default(), kernels: Mutex::default() }
    }

    /// Its module in a context.
    ///
    /// # Errors
    /// Why it cannot be loaded.
    pub(crate) fn module(&self, system: &'static System, context: &Arc<Context>) -> Result<Arc<Module>, LoadError> {
        let mut modules = self.modules.lock().unwrap_or_else(PoisonError::into_inner);
        modules.retain(|_, module| !module.context.has_ended());
        if let Some(module) = modules.get(&context.handle()) {
            return Ok(module.clone());
        }
        let (_, module) = Module::load(system, context, &self.texts)?;
        modules.insert(context.handle(), module.clone());
        Ok(module)
    }

    /// The handle of the kernel with this name, which exists.
    pub(crate) fn kernel(self: &Arc<Self>, system: &System, name: &str) -> u64 {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        let library = self.clone();
        *kernels.entry(name.to_string()).or_insert_with(|| {
            let c_name = CString::new(name).unwrap_or_default();
            system.kernels.insert(Arc::new(LibraryKernel { library, name: name.to_string(), c_name }))
        })
    }

    /// Unloads it from all contexts.
    pub(crate) fn unload(&self, system: &System) {
        let kernels = std::mem::take(&mut *self.kernels.lock().unwrap_or_else(PoisonError::into_inner));
        kernels.values().for_each(|handle| drop(system.kernels.remove(*handle)));
        let modules = std::mem::take(&mut *self.modules.lock().unwrap_or_else(PoisonError::into_inner));
        modules.values().for_each(|module| module.unload(system));
    }
}

impl LibraryKernel {
    /// Its function in a context.
    ///
    /// # Errors
    /// Why the library cannot be loaded into the context.
    pub(crate) fn function(&self, system: &'static System, context: &Arc<Context>) -> Outcome<u64> {
        let module = self.library.module(system, context).map_err(|error| {
            tell(format_args!("kernel `{}`: {error}", self.name));
            error.status()
        })?;
        let index = module.image.kernel(&self.name).ok_or(CuResult::ERROR_NOT_FOUND)?;
        Ok(module.function(system, index))
    }
}

/// A state of linking.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    /// The texts so far.
    pub(crate) texts: Mutex<Vec<String>>,
    /// Registers of a thread at most, if the options limit them.
    pub(crate) max_registers: Option<u32>,
    /// The image, once it is complete.
    pub(crate) image: OnceLock<Vec<u8>>,
}
