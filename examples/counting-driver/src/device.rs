//! The device: `local-sync` with counters.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo::hal::*;
use vireo::{Result, Status};

/// The category of [`Device::query_i64`] under which the counters are.
const COUNTERS: &str = "counting";

/// What is counted, with the names that the counters have.
#[derive(Clone, Copy)]
enum Operation {
    Alloca,
    Dealloca,
    Transfer,
    Dispatch,
    Execute,
    Barrier,
    HostCall,
}

const NAMES: [&str; 7] = ["alloca", "dealloca", "transfer", "dispatch", "execute", "barrier", "host_call"];

/// A device that hands everything on to another one.
///
/// Only the device is wrapped. Its buffers, timelines, executables and command buffers are those of the inner device, so it
/// recognises them when they come back.
#[derive(Debug)]
pub struct CountingDevice {
    inner: Arc<dyn Device>,
    counts: [AtomicU64; NAMES.len()],
    log: bool,
}

impl CountingDevice {
    /// Counts what `inner` does, and writes it to stderr if `log`.
    pub fn new(inner: Arc<dyn Device>, log: bool) -> CountingDevice {
        CountingDevice { inner, counts: Default::default(), log }
    }

    /// Counts an operation on its way to the inner device.
    fn count(&self, operation: Operation) -> &dyn Device {
        let index = operation as usize;
        let count = self.counts[index].fetch_add(1, Ordering::Relaxed) + 1;
        if self.log {
            eprintln!("counting: {} {count}", NAMES[index]);
        }
        &*self.inner
    }
}

/// The optional methods of devices that are passed on.
const PASSED_ON: [OptionalMethod; 4] = [
    OptionalMethod::DeviceImportFile,
    OptionalMethod::DeviceQueueRead,
    OptionalMethod::DeviceQueueWrite,
    OptionalMethod::DeviceQueueHostCall,
];

impl Device for CountingDevice {
    fn id(&self) -> &str {
        "counting"
    }

    /// Whatever programs ask for they ask the inner device: whether it is the `local*` that they were compiled for, which formats of
    /// executables it takes, and what the processor can do.
    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        if category != COUNTERS {
            return self.inner.query_i64(category, key);
        }
        let index = NAMES.iter().position(|name| *name == key);
        let index = index.ok_or_else(|| Status::not_found(format!("there is no counter `{key}`: {NAMES:?}")))?;
        Ok(self.counts[index].load(Ordering::Relaxed).cast_signed())
    }

    fn allocator(&self) -> Arc<dyn Allocator> {
        self.inner.allocator()
    }

    fn trim(&self) -> Result<()> {
        self.inner.trim()
    }

    fn capabilities(&self) -> DeviceCapabilities {
        self.inner.capabilities()
    }

    /// Buffers, command buffers and other objects are the inner device's; of the methods of a device some are passed on.
    fn supports(&self, method: &str) -> bool {
        let own = method.starts_with("device.");
        (!own || PASSED_ON.iter().any(|passed| passed.name() == method)) && self.inner.supports(method)
    }

    fn create_command_buffer(
        &self,
        mode: CommandBufferMode,
        command_categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Arc<dyn CommandBuffer>> {
        self.inner.create_command_buffer(mode, command_categories, queue_affinity, binding_capacity)
    }

    fn create_executable_cache(&self, identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        self.inner.create_executable_cache(identifier)
    }

    fn create_semaphore(
        &self,
        queue_affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Arc<dyn Semaphore>> {
        self.inner.create_semaphore(queue_affinity, initial_value, flags)
    }

    unsafe fn import_file(
        &self,
        queue_affinity: QueueAffinity,
        access: MemoryAccess,
        external_file: &ExternalFile,
        flags: ExternalFileFlags,
    ) -> Result<Arc<dyn File>> {
        // SAFETY: the caller guarantees what the inner device asks for, which is the same.
        unsafe { self.inner.import_file(queue_affinity, access, external_file, flags) }
    }

    fn semaphore_compatibility(&self, semaphore: &Arc<dyn Semaphore>) -> SemaphoreCompatibility {
        self.inner.semaphore_compatibility(semaphore)
    }

    fn queue_alloca(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        pool: Option<&Arc<dyn Pool>>,
        params: BufferParams,
        allocation_size: u64,
        flags: AllocaFlags,
    ) -> Result<Arc<dyn Buffer>> {
        let inner = self.count(Operation::Alloca);
        inner.queue_alloca(queue_affinity, wait, signal, pool, params, allocation_size, flags)
    }

    fn queue_dealloca(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        buffer: &Arc<dyn Buffer>,
        flags: DeallocaFlags,
    ) -> Result<()> {
        self.count(Operation::Dealloca).queue_dealloca(queue_affinity, wait, signal, buffer, flags)
    }

    fn queue_fill(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        target_buffer: &Arc<dyn Buffer>,
        target_offset: u64,
        length: u64,
        pattern: &[u8],
        flags: FillFlags,
    ) -> Result<()> {
        let inner = self.count(Operation::Transfer);
        inner.queue_fill(queue_affinity, wait, signal, target_buffer, target_offset, length, pattern, flags)
    }

    fn queue_update(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source: &[u8],
        target_buffer: &Arc<dyn Buffer>,
        target_offset: u64,
        flags: UpdateFlags,
    ) -> Result<()> {
        let inner = self.count(Operation::Transfer);
        inner.queue_update(queue_affinity, wait, signal, source, target_buffer, target_offset, flags)
    }

    fn queue_copy(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_buffer: &Arc<dyn Buffer>,
        source_offset: u64,
        target_buffer: &Arc<dyn Buffer>,
        target_offset: u64,
        length: u64,
        flags: CopyFlags,
    ) -> Result<()> {
        let inner = self.count(Operation::Transfer);
        let (source, target) = ((source_buffer, source_offset), (target_buffer, target_offset));
        inner.queue_copy(queue_affinity, wait, signal, source.0, source.1, target.0, target.1, length, flags)
    }

    fn queue_read(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_file: &Arc<dyn File>,
        source_offset: u64,
        target_buffer: &Arc<dyn Buffer>,
        target_offset: u64,
        length: u64,
        flags: ReadFlags,
    ) -> Result<()> {
        let inner = self.count(Operation::Transfer);
        let (source, target) = ((source_file, source_offset), (target_buffer, target_offset));
        inner.queue_read(queue_affinity, wait, signal, source.0, source.1, target.0, target.1, length, flags)
    }

    fn queue_write(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_buffer: &Arc<dyn Buffer>,
        source_offset: u64,
        target_file: &Arc<dyn File>,
        target_offset: u64,
        length: u64,
        flags: WriteFlags,
    ) -> Result<()> {
        let inner = self.count(Operation::Transfer);
        let (source, target) = ((source_buffer, source_offset), (target_file, target_offset));
        inner.queue_write(queue_affinity, wait, signal, source.0, source.1, target.0, target.1, length, flags)
    }

    fn queue_host_call(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        call: &Arc<dyn HostCall>,
        args: &[u64],
        flags: HostCallFlags,
    ) -> Result<()> {
        self.count(Operation::HostCall).queue_host_call(queue_affinity, wait, signal, call, args, flags)
    }

    fn queue_dispatch(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        executable: &Arc<dyn Executable>,
        function: ExecutableFunction,
        config: &DispatchConfig,
        constants: &[u32],
        bindings: &[BufferRef],
        flags: DispatchFlags,
    ) -> Result<()> {
        let inner = self.count(Operation::Dispatch);
        inner.queue_dispatch(queue_affinity, wait, signal, executable, function, config, constants, bindings, flags)
    }

    fn queue_execute(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        command_buffer: &Arc<dyn CommandBuffer>,
        binding_table: &[BufferBinding],
        flags: ExecuteFlags,
    ) -> Result<()> {
        let inner = self.count(Operation::Execute);
        inner.queue_execute(queue_affinity, wait, signal, command_buffer, binding_table, flags)
    }

    fn queue_barrier(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        flags: ExecuteFlags,
    ) -> Result<()> {
        self.count(Operation::Barrier).queue_barrier(queue_affinity, wait, signal, flags)
    }

    fn queue_flush(&self, queue_affinity: QueueAffinity) -> Result<()> {
        self.inner.queue_flush(queue_affinity)
    }
}
