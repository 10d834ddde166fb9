//! What devices of this folder need from an executable to dispatch it. The rest of them, queues, command buffers and memory, does not
//! depend on it, so the null device shares them.

use std::any::Any;
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::cost::Cost;
use super::dispatch::Grid;
use super::executable::LocalExecutable;
use super::vmvx::VmvxExecutable;
use super::worker::Worker;
use crate::hal::buffer::Subspan;
use crate::hal::transfer::check_range;
use crate::hal::transient::TransientBuffer;
use crate::hal::{Buffer, Executable, ExecutableFunction, HeapBuffer, MappingMode, MemoryAccess};
use crate::interp::Limits;
use crate::status::{Result, Status};

/// How kernels use memory. Which bindings they read and which they write nobody says; those that can be held to it learn what they may do.
const MODE: MappingMode = MappingMode::PERSISTENT;
const ACCESS: MemoryAccess = MemoryAccess::ANY;

/// The memory that a dispatch is bound to, as kernels take it: no length is more than what is there. It lives as long as the buffers
/// that were bound, which `'a` borrows.
#[derive(Default)]
pub(in crate::hal) struct Bindings<'a> {
    pointers: SmallVec<[*mut c_void; 16]>,
    lengths: SmallVec<[u64; 16]>,
    /// Which ones may not be written: few, and most often none.
    read_only: SmallVec<[usize; 4]>,
    /// What keeps memory that a buffer could give back meanwhile.
    owners: SmallVec<[Arc<dyn Any + Send + Sync>; 8]>,
    buffers: PhantomData<&'a dyn Buffer>,
}

// SAFETY: the pointers are followed by kernels alone, any number of threads of which may run at once; what they point to is kept by
// the buffers and owners, which threads may share.
unsafe impl Send for Bindings<'_> {}
// SAFETY: as above; nothing here changes once the bindings are made.
unsafe impl Sync for Bindings<'_> {}

impl<'a> Bindings<'a> {
    /// Adds a range of a buffer.
    #[inline(always)]
    pub(super) fn bind(&mut self, buffer: &'a dyn Buffer, offset: u64, length: u64) -> Result<()> {
        let any: &dyn Any = buffer;
        // Memory that stays as long as the buffer does.
        let lasting = match any.downcast_ref::<TransientBuffer>() {
            Some(transient) => transient.lasting(),
            None => any.downcast_ref::<HeapBuffer>(),
        };
        let Some(heap) = lasting else { return self.bind_other(buffer, offset, length) };
        let (data, length) = heap.range(MODE, ACCESS, offset, length)?;
        self.push(data.as_ptr().cast(), length, heap.is_writable_by_kernels());
        Ok(())
    }

    /// Adds a range of a buffer that is inside of another one, or whose memory has to be asked for.
    fn bind_other(&mut self, buffer: &'a dyn Buffer, offset: u64, length: u64) -> Result<()> {
        let any: &dyn Any = buffer;
        if let Some(subspan) = any.downcast_ref::<Subspan>() {
            let length = check_range(subspan.byte_length(), offset, length)?;
            let (allocation, start) = subspan.place();
            // The subspan is inside of its allocation, so the sum is too.
            return self.bind(allocation, start + offset, length);
        }
        let mapping = buffer.map_range(MODE, ACCESS, offset, length)?;
        self.owners.push(mapping.owner);
        let writable = buffer.allowed_access().contains(MemoryAccess::WRITE);
        self.push(mapping.data.as_ptr().cast(), mapping.length, writable);
        Ok(())
    }

    /// Adds memory of the host.
    ///
    /// # Safety
    /// It must stay as long as the bindings do, and may be written if it is `writable`, or the function is trusted to know.
    pub(super) unsafe fn bind_memory(&mut self, pointer: *mut c_void, length: u64, writable: bool) {
        self.push(pointer, length, writable);
    }

    #[inline(always)]
    fn push(&mut self, pointer: *mut c_void, length: u64, writable: bool) {
        if !writable {
            self.read_only.push(self.pointers.len());
        }
        self.pointers.push(pointer);
        self.lengths.push(length);
    }

    /// Where each one is.
    pub(super) fn pointers(&self) -> &[*mut c_void] {
        &self.pointers
    }

    /// How many bytes there are.
    pub(super) fn lengths(&self) -> &[u64] {
        &self.lengths
    }

    /// Whether one may be written.
    pub(super) fn is_writable(&self, index: usize) -> bool {
        !self.read_only.contains(&index)
    }
}

/// What a dispatch hands to all of its workgroups.
pub(in crate::hal) struct Arguments<'a> {
    pub(in crate::hal) grid: Grid,
    /// As many as the function takes.
    pub(in crate::hal) constants: &'a [u32],
    /// As many as the function takes.
    pub(in crate::hal) bindings: &'a Bindings<'a>,
    /// The most threads that run workgroups of the dispatch at once.
    pub(in crate::hal) concurrency: u32,
    /// Most bytes of memory that a workgroup may ask for, if there is a limit.
    pub(in crate::hal) local_memory_limit: Option<u32>,
}

impl Arguments<'_> {
    /// Memory of `worker` for one workgroup at a time. RESOURCE_EXHAUSTED if that is more than there may be.
    pub(in crate::hal) fn local_memory(&self, worker: &mut Worker, size: u32) -> Result<*mut u8> {
        self.check_local_memory(size)?;
        worker.local_memory(size)
    }

    /// The same, with zeros in it.
    pub(in crate::hal) fn zeroed_local_memory(&self, worker: &mut Worker, size: u32) -> Result<*mut u8> {
        self.check_local_memory(size)?;
        worker.zeroed_local_memory(size)
    }

    fn check_local_memory(&self, size: u32) -> Result<()> {
        match self.local_memory_limit {
            Some(limit) if size > limit => Err(Status::resource_exhausted(format!(
                "a workgroup needs {size} bytes of local memory, workers have {limit}"
            ))),
            _ => Ok(()),
        }
    }
}

/// An executable that is run by calling it.
pub(in crate::hal) trait Kernels: fmt::Debug + Send + Sync {
    /// Name of a function, for messages.
    fn name(&self, function: ExecutableFunction) -> &str;

    /// Checks that there is such a function and that it takes so many constants and bindings.
    fn check_arguments(&self, function: ExecutableFunction, constants: usize, bindings: usize) -> Result<()>;

    /// Whether the workgroups of a function have to run one after the other, in their order.
    fn is_sequential(&self, _function: ExecutableFunction) -> bool {
        false
    }

    /// The limits for dispatches that no call has submitted, if there are some.
    fn limits(&self) -> Option<&Limits> {
        None
    }

    /// What is known of the time that the workgroups of a function take. None for a function that takes none.
    fn cost(&self, _function: ExecutableFunction) -> Option<&Cost> {
        None
    }

    /// Runs some workgroups of a dispatch, in their order: x varies fastest, then y. The arguments were checked, and all of
    /// `workgroups` are in the grid. Any number of threads may run parts of one dispatch at once, each with its own worker.
    fn run(
        &self,
        function: ExecutableFunction,
        arguments: &Arguments<'_>,
        workgroups: Range<u64>,
        worker: &mut Worker,
    ) -> Result<()>;
}

/// Finds out how to run an executable; INVALID_ARGUMENT if it was prepared for another kind of device.
pub(in crate::hal) type KernelsOf = fn(&Arc<dyn Executable>) -> Result<Arc<dyn Kernels>>;

/// Recognises the executables of the loaders for the host's processor.
pub(super) fn local_kernels(executable: &Arc<dyn Executable>) -> Result<Arc<dyn Kernels>> {
    kernels_of::<LocalExecutable>(executable).or_else(|_| kernels_of::<VmvxExecutable>(executable))
}

/// Recognises executables of type `T`.
pub(in crate::hal) fn kernels_of<T: Kernels + Executable>(
    executable: &Arc<dyn Executable>,
) -> Result<Arc<dyn Kernels>> {
    let any: Arc<dyn Any + Send + Sync> = executable.clone();
    match any.downcast::<T>() {
        Ok(kernels) => Ok(kernels),
        Err(_) => Err(Status::invalid_argument("the executable was prepared for another kind of device")),
    }
}
