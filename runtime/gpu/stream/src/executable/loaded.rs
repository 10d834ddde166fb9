//! Executables in the contexts of a device ([`StreamExecutable`]), and the cache that prepares them
//! ([`StreamExecutableCache`]).

use std::fmt;
use std::sync::Arc;

use vireo_cuda::attributes::FunctionAttribute;
use vireo_cuda::types::CuFunction;

use super::container::{Container, Export};
use crate::context::Context;
use crate::hal::{
    Buffer, BufferUsage, Executable, ExecutableCache, ExecutableCachingMode, ExecutableFunction,
    ExecutableFunctionFlags, ExecutableFunctionInfo, MemoryAccess, MemoryType, QueueAffinity,
};
use crate::handles::Code;
use crate::memory::{DeviceBuffer, DeviceMemory};
use crate::status::{Result, Status};

/// A kernel in a context.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LoadedKernel {
    /// Its handle.
    pub function: CuFunction,
    /// Bytes of shared memory that a dispatch may ask for at most.
    pub most_shared: u32,
}

/// The resources of a kernel in a context, as the library says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KernelResources {
    /// Registers of a thread.
    pub registers: u32,
    /// Bytes of shared memory of a block, without what dispatches ask for.
    pub static_shared: u32,
    /// Bytes of memory that a thread has to itself.
    pub local: u32,
    /// Threads of a block at most.
    pub block_threads: u32,
}

/// An executable in the contexts of a device.
pub struct StreamExecutable {
    exports: Vec<Export>,
    /// By context and ordinal.
    kernels: Vec<Vec<LoadedKernel>>,
    contexts: Vec<Arc<Context>>,
    /// Streams of each context.
    streams: usize,
    /// The modules of each context.
    code: Arc<[Vec<Code>]>,
}

impl fmt::Debug for StreamExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executable({} functions)", self.exports.len())
    }
}

impl StreamExecutable {
    /// Loads an executable into some contexts.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is malformed or the library refuses its code, FAILED_PRECONDITION if it is for another
    /// target, NOT_FOUND for a kernel that its module lacks.
    pub fn load(contexts: &[Arc<Context>], streams: usize, data: &[u8]) -> Result<StreamExecutable> {
        let Container { modules, exports } = Container::read(data)?;
        let (mut kernels, mut code) = (Vec::new(), Vec::new());
        for context in contexts {
            let mut loaded = Vec::new();
            for (module, text) in modules.iter().enumerate() {
                context
                    .api()
                    .check_target(text, context.description.capability)
                    .map_err(|status| status.context(format!("executable: module {module}")))?;
                let mut image = text.as_bytes().to_vec();
                image.push(0);
                // SAFETY: the image is text, and ends with a zero.
                let module_code = unsafe { Code::load(context, &image) };
                loaded.push(module_code.map_err(|status| status.context(format!("executable: module {module}")))?);
            }
            kernels.push(exports.iter().map(|export| kernel(context, &loaded, export)).collect::<Result<_>>()?);
            code.push(loaded);
        }
        Ok(StreamExecutable { exports, kernels, contexts: contexts.to_vec(), streams, code: code.into() })
    }

    /// The resources of each function in the first of its contexts.
    ///
    /// # Errors
    /// Those of the library.
    pub fn resources(&self) -> Result<Vec<KernelResources>> {
        let Some((context, kernels)) = self.contexts.first().zip(self.kernels.first()) else { return Ok(Vec::new()) };
        let of = |kernel: &LoadedKernel| {
            let attribute = |which| {
                // SAFETY: the function is one of a module that is loaded.
                let value = context.call(|api| unsafe { api.function_attribute(which, kernel.function) })?;
                Ok::<_, Status>(u32::try_from(value).unwrap_or(0))
            };
            Ok(KernelResources {
                registers: attribute(FunctionAttribute::NUM_REGS)?,
                static_shared: attribute(FunctionAttribute::SHARED_SIZE_BYTES)?,
                local: attribute(FunctionAttribute::LOCAL_SIZE_BYTES)?,
                block_threads: attribute(FunctionAttribute::MAX_THREADS_PER_BLOCK)?,
            })
        };
        kernels.iter().map(of).collect()
    }

    fn export(&self, function: ExecutableFunction) -> Result<(usize, &Export)> {
        let ordinal = usize::try_from(function.0).ok();
        let export = ordinal.and_then(|ordinal| Some((ordinal, self.exports.get(ordinal)?)));
        export.ok_or_else(|| {
            let (function, count) = (function.0, self.exports.len());
            Status::out_of_range(format!("function {function}: the executable has {count}"))
        })
    }

    /// A function as a context has it.
    ///
    /// # Errors
    /// OUT_OF_RANGE if there is no such function, INVALID_ARGUMENT if it was not loaded for the context.
    pub fn kernel(&self, context: &Arc<Context>, function: ExecutableFunction) -> Result<(LoadedKernel, &Export)> {
        let (ordinal, export) = self.export(function)?;
        let place = self.contexts.iter().position(|other| Arc::ptr_eq(other, context));
        let place =
            place.ok_or_else(|| Status::invalid_argument(format!("{self:?} was not loaded for {context:?}")))?;
        Ok((self.kernels[place][ordinal], export))
    }
}

/// A kernel of the modules of a context, which may have as much shared memory as dispatches ask for.
fn kernel(context: &Arc<Context>, code: &[Code], export: &Export) -> Result<LoadedKernel> {
    let named = |status: Status| status.context(format!("executable: kernel `{}`", export.name));
    let function = code[export.module].function(&export.name).map_err(named)?;
    let attribute = |which| {
        // SAFETY: the function is one of a module that is loaded.
        let value = context.call(|api| unsafe { api.function_attribute(which, function) });
        value.map(|value| u32::try_from(value).unwrap_or(0)).map_err(named)
    };
    let static_shared = attribute(FunctionAttribute::SHARED_SIZE_BYTES)?;
    let limits = &context.limits;
    let threads = export.block.iter().product::<u32>();
    let most = attribute(FunctionAttribute::MAX_THREADS_PER_BLOCK)?.min(limits.block_threads);
    if threads > most || export.block.iter().zip(&limits.block).any(|(size, most)| size > most) {
        let (block, sizes) = (export.block, limits.block);
        return Err(named(Status::failed_precondition(format!(
            "blocks of {block:?} threads, which are {threads}: {context:?} runs at most {most} of it, and {sizes:?} along each dimension"
        ))));
    }
    let shared = u64::from(static_shared) + u64::from(export.shared);
    if shared > u64::from(limits.shared) {
        return Err(named(Status::failed_precondition(format!(
            "{shared} bytes of shared memory of a block: {context:?} has at most {}",
            limits.shared
        ))));
    }
    let which = FunctionAttribute::MAX_DYNAMIC_SHARED_SIZE_BYTES;
    let most_shared = if export.shared > 0 {
        let most = limits.shared - static_shared;
        // SAFETY: the function is one of a module that is loaded.
        context.call(|api| unsafe { api.function_set_attribute(function, which, most as i32) }).map_err(named)?;
        most
    } else {
        // As much as the library allows without being asked.
        attribute(which)?
    };
    Ok(LoadedKernel { function, most_shared })
}

impl Executable for StreamExecutable {
    fn function_count(&self) -> u32 {
        self.exports.len() as u32
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        let (_, export) = self.export(function)?;
        Ok(ExecutableFunctionInfo {
            name: export.name.clone(),
            flags: ExecutableFunctionFlags::empty(),
            // Both were limited when the file was read.
            constant_count: export.constants as u16,
            binding_count: export.bindings.len() as u16,
            parameter_count: 0,
            workgroup_size: export.block,
        })
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        let ordinal = self.exports.iter().position(|export| export.name == name);
        let ordinal = ordinal.ok_or_else(|| Status::not_found(format!("the executable has no function `{name}`")))?;
        Ok(ExecutableFunction(ordinal as u64))
    }

    /// Programs copy from and to it. The host does not reach it.
    fn lookup_global(&self, name: &str, queue_affinity: QueueAffinity) -> Result<Arc<dyn Buffer>> {
        let place = queue_affinity.bits().trailing_zeros() as usize / self.streams.max(1);
        let place = if place < self.contexts.len() { place } else { 0 };
        let global = self.code[place].iter().find_map(|code| code.global(name).transpose()).transpose()?;
        let (address, length) =
            global.ok_or_else(|| Status::not_found(format!("the executable has no global `{name}`")))?;
        let (reached_by, owner) = (self.contexts[place].set(), self.code.clone());
        let memory = DeviceMemory { address, length, host: None, copies: None, reached_by, owner: Arc::new(owner) };
        // SAFETY: the module has as many bytes there as long as it is loaded, which the buffer sees to.
        let buffer = unsafe {
            DeviceBuffer::new(memory, length, MemoryType::DEVICE_LOCAL, MemoryAccess::ALL, BufferUsage::DEFAULT)
        };
        Ok(Arc::new(buffer))
    }
}

/// Prepares executables for the contexts of a device.
#[derive(Debug)]
pub struct StreamExecutableCache {
    contexts: Vec<Arc<Context>>,
    /// Streams of each.
    streams: usize,
    /// Whether programs may bring code of their own for the device.
    native_code: bool,
}

impl StreamExecutableCache {
    /// A cache for some contexts with so many streams each; without `native_code` it prepares nothing.
    pub fn new(contexts: Vec<Arc<Context>>, streams: usize, native_code: bool) -> StreamExecutableCache {
        StreamExecutableCache { contexts, streams, native_code }
    }

    fn format(&self) -> &'static str {
        self.contexts.first().map_or("", |context| context.api().names().format)
    }
}

impl ExecutableCache for StreamExecutableCache {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        Container::read(data)?;
        Ok(self.format().to_string())
    }

    fn can_prepare_format(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        self.native_code && format == self.format()
    }

    fn prepare_executable(
        &self,
        _queue_affinity: QueueAffinity,
        _caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        if !self.native_code {
            return Err(Status::permission_denied(
                "the security policy allows no machine code, and executables for GPUs are that",
            ));
        }
        if format != self.format() {
            let message = format!(
                "executables of the format `{format}` do not run on {:?}, which take `{}`",
                self.contexts,
                self.format()
            );
            return Err(Status::unimplemented(message));
        }
        if !constants.is_empty() {
            return Err(Status::unimplemented(format!(
                "executables of the format `{}` have no specialisation constants",
                self.format()
            )));
        }
        Ok(Arc::new(StreamExecutable::load(&self.contexts, self.streams, data)?))
    }
}
