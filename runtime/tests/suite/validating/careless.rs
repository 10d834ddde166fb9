//! A device that accepts everything: it notes which methods were called, signals what it is asked to signal, and does
//! nothing else. A call that it gets has not been checked.

use std::sync::{Arc, Mutex};

use vireo::Result;
use vireo::hal::ForwardedMethod;
use vireo::hal::*;

/// The methods that were called.
#[derive(Clone, Debug, Default)]
pub struct Log(Arc<Mutex<Vec<ForwardedMethod>>>);

impl Log {
    fn note(&self, method: ForwardedMethod) {
        self.0.lock().unwrap().push(method);
    }

    /// How often a method was called.
    pub fn count(&self, method: ForwardedMethod) -> usize {
        self.0.lock().unwrap().iter().filter(|other| **other == method).count()
    }

    /// All calls in order, but for questions of what a timeline is at: validation asks as well.
    pub fn calls(&self) -> Vec<ForwardedMethod> {
        let calls = self.0.lock().unwrap();
        calls.iter().filter(|method| **method != ForwardedMethod::SemaphoreQuery).copied().collect()
    }
}

/// A careless object over one of `local-sync`, which has what there is nothing to be careless about.
#[derive(Debug)]
struct Careless<T: ?Sized> {
    inner: Arc<T>,
    log: Log,
}

/// Objects that forward to their inner one, and note their calls.
macro_rules! careless {
    ($($forward:ident for $object:ident { $($method:item)* })*) => {
        $(impl $forward for Careless<dyn $object> {
            fn inner(&self) -> &Arc<dyn $object> {
                &self.inner
            }

            fn before(&self, method: ForwardedMethod) {
                self.log.note(method);
            }

            $($method)*
        })*
    };
}

/// Methods that do nothing, written with the types of their arguments.
macro_rules! accepts {
    ($($name:ident($($type:ty),*);)*) => {
        $(fn $name(&self, $(_: $type),*) -> Result<()> {
            Ok(())
        })*
    };
}

/// Operations of queues that signal and do nothing else, written with the types of the arguments after their points.
macro_rules! operations {
    ($($name:ident($($type:ty),*);)*) => {
        $(fn $name(&self, _: QueueAffinity, wait: &[Timepoint], signal: &[Timepoint], $(_: $type),*) -> Result<()> {
            done(wait, signal)
        })*
    };
}

/// A device that accepts everything.
pub fn careless(log: &Log) -> Arc<dyn Device> {
    Arc::new(Forward(Careless { inner: crate::device(), log: log.clone() }))
}

/// Signals, as if the operation was done, if all it waits for is done.
fn done(wait: &[Timepoint], signal: &[Timepoint]) -> Result<()> {
    if wait.iter().any(|point| point.semaphore.query().is_ok_and(|payload| payload < point.value)) {
        return Ok(());
    }
    signal.iter().try_for_each(|point| point.semaphore.signal(point.value))
}

/// Functions of different declarations: one with constants, a binding and a size of workgroups, one whose workgroups
/// may be larger, one that declares nothing, and one of which nothing is known.
#[derive(Debug)]
struct Functions;

impl Executable for Functions {
    fn function_count(&self) -> u32 {
        4
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        let (fixed, dynamic) = (ExecutableFunctionFlags::empty(), ExecutableFunctionFlags::WORKGROUP_SIZE_DYNAMIC);
        let (flags, constant_count, binding_count, workgroup_size) = match function.0 {
            0 => (fixed, 2, 1, [4, 1, 1]),
            1 => (dynamic, 2, 1, [4, 1, 1]),
            2 => (fixed, 0, 0, [0, 0, 0]),
            3 => return Err(vireo::Status::unimplemented("nothing is known of the function")),
            other => return Err(vireo::Status::out_of_range(format!("function {other}: expected 0 to 3"))),
        };
        let (name, parameter_count) = ("scale".to_string(), 0);
        Ok(ExecutableFunctionInfo { name, flags, constant_count, binding_count, parameter_count, workgroup_size })
    }

    fn lookup_function(&self, _name: &str) -> Result<ExecutableFunction> {
        Ok(ExecutableFunction(0))
    }
}

/// A file of 64 bytes that can be used as `access` says.
#[derive(Debug)]
struct Storage {
    access: MemoryAccess,
    log: Log,
}

impl File for Storage {
    fn allowed_access(&self) -> MemoryAccess {
        self.access
    }

    fn length(&self) -> u64 {
        64
    }

    fn async_handle(&self) -> Result<i32> {
        Ok(-1)
    }

    fn supports_synchronous_io(&self) -> bool {
        true
    }

    fn read(&self, _: u64, _: &Arc<dyn Buffer>, _: u64, _: u64) -> Result<()> {
        self.log.note(ForwardedMethod::FileRead);
        Ok(())
    }

    fn write(&self, _: u64, _: &Arc<dyn Buffer>, _: u64, _: u64) -> Result<()> {
        self.log.note(ForwardedMethod::FileWrite);
        Ok(())
    }
}

/// A buffer that allows exactly what was asked for.
#[derive(Debug)]
struct Exact {
    inner: Arc<dyn Buffer>,
    params: BufferParams,
}

impl ForwardBuffer for Exact {
    fn inner(&self) -> &Arc<dyn Buffer> {
        &self.inner
    }

    fn allowed_access(&self) -> MemoryAccess {
        self.params.access
    }

    fn allowed_usage(&self) -> BufferUsage {
        self.params.usage
    }
}

careless! {
    ForwardDevice for Device {
        fn allocator(&self) -> Arc<dyn Allocator> {
            Arc::new(Forward(Careless { inner: self.inner.allocator(), log: self.log.clone() }))
        }

        fn create_command_buffer(
            &self,
            mode: CommandBufferMode,
            command_categories: CommandCategory,
            queue_affinity: QueueAffinity,
            _binding_capacity: u32,
        ) -> Result<Arc<dyn CommandBuffer>> {
            let inner = self.inner.create_command_buffer(mode, command_categories, queue_affinity, 0)?;
            Ok(Arc::new(Forward(Careless { inner, log: self.log.clone() })))
        }

        fn create_executable_cache(&self, identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
            let inner = self.inner.create_executable_cache(identifier)?;
            Ok(Arc::new(Forward(Careless { inner, log: self.log.clone() })))
        }

        fn create_semaphore(
            &self,
            queue_affinity: QueueAffinity,
            initial_value: u64,
            flags: SemaphoreFlags,
        ) -> Result<Arc<dyn Semaphore>> {
            let inner = self.inner.create_semaphore(queue_affinity, initial_value, flags)?;
            Ok(Arc::new(Forward(Careless { inner, log: self.log.clone() })))
        }

        unsafe fn import_file(
            &self,
            _: QueueAffinity,
            access: MemoryAccess,
            _: &ExternalFile,
            _: ExternalFileFlags,
        ) -> Result<Arc<dyn File>> {
            Ok(Arc::new(Storage { access, log: self.log.clone() }))
        }

        fn queue_alloca(
            &self,
            _: QueueAffinity,
            wait: &[Timepoint],
            signal: &[Timepoint],
            _: Option<&Arc<dyn Pool>>,
            params: BufferParams,
            allocation_size: u64,
            _: AllocaFlags,
        ) -> Result<Arc<dyn Buffer>> {
            done(wait, signal)?;
            self.inner.allocator().allocate_buffer(BufferParams { min_alignment: 0, ..params }, allocation_size)
        }

        operations! {
            queue_dealloca(&Arc<dyn Buffer>, DeallocaFlags);
            queue_fill(&Arc<dyn Buffer>, u64, u64, &[u8], FillFlags);
            queue_update(&[u8], &Arc<dyn Buffer>, u64, UpdateFlags);
            queue_copy(&Arc<dyn Buffer>, u64, &Arc<dyn Buffer>, u64, u64, CopyFlags);
            queue_read(&Arc<dyn File>, u64, &Arc<dyn Buffer>, u64, u64, ReadFlags);
            queue_write(&Arc<dyn Buffer>, u64, &Arc<dyn File>, u64, u64, WriteFlags);
            queue_host_call(&Arc<dyn HostCall>, &[u64], HostCallFlags);
            queue_dispatch(&Arc<dyn Executable>, ExecutableFunction, &DispatchConfig, &[u32], &[BufferRef], DispatchFlags);
            queue_execute(&Arc<dyn CommandBuffer>, &[BufferBinding], ExecuteFlags);
            queue_barrier(ExecuteFlags);
        }
    }

    ForwardAllocator for Allocator {
        fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
            let inner = self.inner.allocate_buffer(BufferParams { min_alignment: 0, ..params }, allocation_size)?;
            Ok(Arc::new(Forward(Exact { inner, params })))
        }

        unsafe fn import_buffer(&self, params: BufferParams, external: &ExternalBuffer) -> Result<Arc<dyn Buffer>> {
            self.allocate_buffer(params, external.size)
        }

        accepts! {
            virtual_memory_map(&Arc<dyn Buffer>, u64, &Arc<dyn PhysicalMemory>, u64, u64);
            virtual_memory_unmap(&Arc<dyn Buffer>, u64, u64);
            virtual_memory_protect(&Arc<dyn Buffer>, u64, u64, QueueAffinity, MemoryProtection);
            virtual_memory_advise(&Arc<dyn Buffer>, u64, u64, QueueAffinity, MemoryAdvice);
        }
    }

    ForwardExecutableCache for ExecutableCache {
        fn prepare_executable(
            &self,
            _: QueueAffinity,
            _: ExecutableCachingMode,
            _: &str,
            _: &[u8],
            _: &[u32],
        ) -> Result<Arc<dyn Executable>> {
            Ok(Arc::new(Functions))
        }
    }

    ForwardSemaphore for Semaphore {
        fn signal(&self, value: u64) -> Result<()> {
            // A value that it cannot take changes nothing.
            let _ = self.inner.signal(value);
            Ok(())
        }
    }

    ForwardCommandBuffer for CommandBuffer {
        accepts! {
            begin();
            end();
            begin_debug_group(&str, LabelColor, &LabelLocation);
            end_debug_group();
            execution_barrier(ExecutionStage, ExecutionStage, ExecutionBarrierFlags, &[MemoryBarrier], &[BufferBarrier]);
            signal_event(&Arc<dyn Event>, ExecutionStage);
            reset_event(&Arc<dyn Event>, ExecutionStage);
            wait_events(&[Arc<dyn Event>], ExecutionStage, ExecutionStage, &[MemoryBarrier], &[BufferBarrier]);
            advise_buffer(&BufferRef, MemoryAdviseFlags, u64, u64);
            fill_buffer(&BufferRef, &[u8], FillFlags);
            update_buffer(&[u8], &BufferRef, UpdateFlags);
            copy_buffer(&BufferRef, &BufferRef, CopyFlags);
            collective(&Arc<dyn Channel>, CollectiveOp, u32, &BufferRef, &BufferRef, u64);
            dispatch(&Arc<dyn Executable>, ExecutableFunction, &DispatchConfig, &[u32], &[BufferRef], DispatchFlags);
            flush_buffer(&BufferRef);
            invalidate_buffer(&BufferRef);
        }
    }
}
