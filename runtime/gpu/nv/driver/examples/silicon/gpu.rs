//! A GPU of a library with a stream, and calls that tests of it make.

use std::ptr::null_mut;
use std::sync::Arc;

use vireo_core::status::Result;
use vireo_cuda::types::CuFunction;
use vireo_stream::api::ApiResult;
use vireo_stream::context::{Context, Library};
use vireo_stream::handles::{Code, Stream};

/// The first GPU of a library.
pub struct Gpu {
    /// Its stream.
    pub stream: Stream,
    /// Its context.
    pub context: Arc<Context>,
}

/// Memory of a GPU.
pub struct Memory {
    /// Where it is.
    pub address: u64,
    context: Arc<Context>,
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: the owner has waited for all that uses it. A failure changes nothing here.
        let _ = self.context.call(|api| unsafe { api.memory_free(self.address) });
    }
}

impl Gpu {
    /// Opens the first GPU.
    pub fn open(library: &Arc<Library>) -> Result<Gpu> {
        let context = Context::open(library, library.describe(0)?)?;
        Ok(Gpu { stream: Stream::new(&context)?, context })
    }

    /// The number of its compute capability.
    pub fn capability(&self) -> u32 {
        let (major, minor) = self.context.description.capability;
        (major * 10 + minor).unsigned_abs()
    }

    /// The lines that a module in PTX of at least a version begins with.
    pub fn header(&self, version: u32) -> String {
        let target = self.capability();
        // The first version that has the target.
        let least = match target {
            0..90 => 74,
            90..100 => 78,
            100..120 => 86,
            _ => 87,
        };
        let version = version.max(least);
        format!(".version {}.{}\n.target sm_{target}\n.address_size 64\n", version / 10, version % 10)
    }

    /// Loads a module.
    pub fn load(&self, text: &str) -> Result<Code> {
        let image = format!("{text}\0");
        // SAFETY: the image is text, and ends with a zero.
        unsafe { Code::load(&self.context, image.as_bytes()) }
    }

    /// Memory with these bytes.
    pub fn memory(&self, bytes: &[u8]) -> Result<Memory> {
        let length = bytes.len() as u64;
        let memory = Memory { address: self.allocate(length)?, context: self.context.clone() };
        // SAFETY: there are as many bytes at both places, and the copy has ended when the stream is waited for.
        self.context.call(|api| unsafe {
            api.copy_to_device(memory.address, bytes.as_ptr().cast(), length, self.stream.handle)
        })?;
        self.stream.synchronize()?;
        Ok(memory)
    }

    /// Memory that nothing frees.
    pub fn allocate(&self, bytes: u64) -> Result<u64> {
        // SAFETY: it takes any size.
        self.context.call(|api| unsafe { api.memory_allocate(bytes) })
    }

    /// The bytes of memory.
    pub fn read(&self, memory: &Memory, length: usize) -> Result<Vec<u8>> {
        let mut bytes = vec![0u8; length];
        let target = bytes.as_mut_ptr();
        // SAFETY: there are as many bytes at both places, and the copy has ended when the stream is waited for.
        self.context.call(|api| unsafe {
            api.copy_to_host(target.cast(), memory.address, length as u64, self.stream.handle)
        })?;
        self.stream.synchronize()?;
        Ok(bytes)
    }

    /// Launches a kernel, whose parameters are all of eight bytes.
    pub fn launch(
        &self,
        function: CuFunction,
        (grid, block, shared): ([u32; 3], [u32; 3], u32),
        arguments: &[u64],
    ) -> ApiResult {
        let mut pointers: Vec<_> =
            arguments.iter().map(|argument| std::ptr::from_ref(argument).cast_mut().cast()).collect();
        let _current = self.context.enter()?;
        let ([x, y, z], [i, j, k], params) = (grid, block, pointers.as_mut_ptr());
        // SAFETY: the caller has arguments for all parameters, which the library copies before it returns, and holds
        // what they refer to.
        unsafe { self.context.api().launch(function, x, y, z, i, j, k, shared, self.stream.handle, params, null_mut()) }
    }
}
