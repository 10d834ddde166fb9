//! The state that the devices of all drivers have ([`DeviceState`]), and the methods that only depend on it.

use std::sync::OnceLock;

use vireo_collectives::Collectives;

use crate::hal::transient::TransientBuffer;
use crate::hal::{DeviceTopologyInfo, OptionalMethod};
use crate::memory_source::DeviceMemory;
use crate::status::{Result, Status};

/// The id of a device, where its memory is from, and its place among others.
#[derive(Debug)]
pub struct DeviceState {
    /// The id.
    pub id: String,
    /// The source of its memory.
    pub memory: DeviceMemory,
    /// The collective operations of its command buffers, if it has some.
    pub collectives: Collectives,
    topology: OnceLock<DeviceTopologyInfo>,
}

/// The optional methods that each device with this state has: its own, those of its command buffers and of its files.
const SUPPORTED: [OptionalMethod; 15] = [
    OptionalMethod::CommandBufferSignalEvent,
    OptionalMethod::CommandBufferResetEvent,
    OptionalMethod::CommandBufferWaitEvents,
    OptionalMethod::CommandBufferFlushBuffer,
    OptionalMethod::CommandBufferInvalidateBuffer,
    OptionalMethod::DeviceReplaceAllocator,
    OptionalMethod::DeviceRefineTopologyEdge,
    OptionalMethod::DeviceAssignTopologyInfo,
    OptionalMethod::DeviceCreateEvent,
    OptionalMethod::DeviceImportFile,
    OptionalMethod::DeviceQueueRead,
    OptionalMethod::DeviceQueueWrite,
    OptionalMethod::DeviceQueueHostCall,
    OptionalMethod::FileRead,
    OptionalMethod::FileWrite,
];

impl DeviceState {
    /// The state of a device without a place among others.
    pub fn new(id: &str, memory: DeviceMemory) -> DeviceState {
        DeviceState { id: id.to_string(), memory, collectives: Collectives::default(), topology: OnceLock::new() }
    }

    /// Whether each device has an optional method, or this one, which has `more`.
    pub fn supports(&self, method: &str, more: &[OptionalMethod]) -> bool {
        SUPPORTED.iter().chain(more).any(|supported| supported.name() == method)
    }

    /// Returns memory that is kept to be used again.
    ///
    /// # Errors
    /// Those of the allocator.
    pub fn trim(&self) -> Result<()> {
        TransientBuffer::trim();
        self.memory.allocator().trim()?;
        vireo_core::heap_bytes::trim();
        Ok(())
    }

    /// The failure of a query for something that the device does not know.
    pub fn unknown(&self, category: &str, key: &str) -> Status {
        Status::not_found(format!("device `{}` has no configuration `{category} :: {key}`", self.id))
    }

    /// Its place among other devices.
    pub fn topology_info(&self) -> DeviceTopologyInfo {
        self.topology.get().copied().unwrap_or_default()
    }

    /// Gives it a place among other devices.
    ///
    /// # Errors
    /// `FAILED_PRECONDITION` if it has one.
    pub fn assign_topology_info(&self, topology_info: DeviceTopologyInfo) -> Result<()> {
        let again = |_| Status::failed_precondition(format!("device `{}` is part of a topology already", self.id));
        self.topology.set(topology_info).map_err(again)
    }
}

/// The methods of `Device` that are answered by the field `state`, a [`DeviceState`], and those that are the same for
/// all devices whose command buffers are deferred and whose operations need no flush.
#[doc(hidden)]
#[macro_export]
macro_rules! device_state_methods {
    () => {
        fn id(&self) -> &str {
            &self.state.id
        }

        fn allocator(&self) -> std::sync::Arc<dyn $crate::reexports::Allocator> {
            self.state.memory.allocator()
        }

        fn replace_allocator(
            &self,
            new_allocator: &std::sync::Arc<dyn $crate::reexports::Allocator>,
        ) -> $crate::reexports::Result<()> {
            self.state.memory.replace(new_allocator)
        }

        fn topology_info(&self) -> $crate::reexports::DeviceTopologyInfo {
            self.state.topology_info()
        }

        fn assign_topology_info(
            &self,
            topology_info: $crate::reexports::DeviceTopologyInfo,
        ) -> $crate::reexports::Result<()> {
            self.state.assign_topology_info(topology_info)
        }

        fn create_event(
            &self,
            _queue_affinity: $crate::reexports::QueueAffinity,
            _flags: $crate::reexports::EventFlags,
        ) -> $crate::reexports::Result<std::sync::Arc<dyn $crate::reexports::Event>> {
            Ok(std::sync::Arc::new($crate::deferred::DeferredEvent))
        }

        unsafe fn import_file(
            &self,
            _queue_affinity: $crate::reexports::QueueAffinity,
            access: $crate::reexports::MemoryAccess,
            external_file: &$crate::reexports::ExternalFile,
            _flags: $crate::reexports::ExternalFileFlags,
        ) -> $crate::reexports::Result<std::sync::Arc<dyn $crate::reexports::File>> {
            // SAFETY: the caller guarantees that the memory or descriptor is there as long as its owner.
            unsafe { $crate::host_file::import(access, external_file) }
        }

        fn queue_flush(&self, _queue_affinity: $crate::reexports::QueueAffinity) -> $crate::reexports::Result<()> {
            Ok(())
        }
    };
}
pub use crate::device_state_methods;

/// The methods of `Device` for devices in the memory of the host whose operations are those of a
/// [`Queue`](crate::queue::Queue) and whose timelines are the host's, beside [`device_state_methods`]. `queue` finds
/// the queue of an affinity, and `commands` is the kind of device that commands are recorded for.
#[doc(hidden)]
#[macro_export]
macro_rules! host_device_methods {
    () => {
        $crate::device_state_methods!();

        fn supports(&self, method: &str) -> bool {
            let more = [
                $crate::reexports::OptionalMethod::AllocatorExportBuffer,
                $crate::reexports::OptionalMethod::CommandBufferCollective,
                $crate::reexports::OptionalMethod::DeviceCreateChannel,
                $crate::reexports::OptionalMethod::DeviceReplaceChannelProvider,
                $crate::reexports::OptionalMethod::DeviceQueuePoolBackend,
            ];
            // A host may have replaced the allocator by one without slabs.
            let count = if self.state.memory.has_slabs() { more.len() } else { more.len() - 1 };
            self.state.supports(method, &more[..count])
        }

        fn trim(&self) -> $crate::reexports::Result<()> {
            self.state.trim()
        }

        fn refine_topology_edge(
            &self,
            _target: &std::sync::Arc<dyn $crate::reexports::Device>,
            edge: $crate::reexports::TopologyEdge,
        ) -> $crate::reexports::Result<$crate::reexports::TopologyEdge> {
            // The capabilities of devices that share the host's memory determine the edge already.
            Ok(edge)
        }

        fn create_channel(
            &self,
            _queue_affinity: $crate::reexports::QueueAffinity,
            params: &$crate::reexports::ChannelParams,
        ) -> $crate::reexports::Result<std::sync::Arc<dyn $crate::reexports::Channel>> {
            Ok(self.state.collectives.channel(params)?)
        }

        fn replace_channel_provider(
            &self,
            new_provider: &std::sync::Arc<dyn $crate::reexports::ChannelProvider>,
        ) -> $crate::reexports::Result<()> {
            self.state.collectives.replace_provider(new_provider);
            Ok(())
        }

        fn create_command_buffer(
            &self,
            mode: $crate::reexports::CommandBufferMode,
            command_categories: $crate::reexports::CommandCategory,
            queue_affinity: $crate::reexports::QueueAffinity,
            binding_capacity: u32,
        ) -> $crate::reexports::Result<std::sync::Arc<dyn $crate::reexports::CommandBuffer>> {
            let commands = self.commands();
            Ok($crate::deferred::DeferredCommandBuffer::<$crate::deferred::ProgramRecorder<_>>::new(
                commands,
                mode,
                command_categories,
                queue_affinity,
                binding_capacity,
            )?)
        }

        fn create_semaphore(
            &self,
            _queue_affinity: $crate::reexports::QueueAffinity,
            initial_value: u64,
            _flags: $crate::reexports::SemaphoreFlags,
        ) -> $crate::reexports::Result<std::sync::Arc<dyn $crate::reexports::Semaphore>> {
            Ok($crate::reexports::semaphore::timeline(initial_value))
        }

        fn semaphore_compatibility(
            &self,
            _semaphore: &std::sync::Arc<dyn $crate::reexports::Semaphore>,
        ) -> $crate::reexports::SemaphoreCompatibility {
            // Waiting and signaling go through methods that every semaphore has.
            $crate::reexports::SemaphoreCompatibility::all()
        }

        fn queue_pool_backend(
            &self,
            _queue_affinity: $crate::reexports::QueueAffinity,
        ) -> $crate::reexports::Result<std::sync::Arc<dyn $crate::reexports::SlabProvider>> {
            self.state.memory.source().slabs()
        }

        fn queue_alloca(
            &self,
            queue_affinity: $crate::reexports::QueueAffinity,
            wait: &[$crate::reexports::Timepoint],
            signal: &[$crate::reexports::Timepoint],
            pool: Option<&std::sync::Arc<dyn $crate::reexports::Pool>>,
            params: $crate::reexports::BufferParams,
            allocation_size: u64,
            flags: $crate::reexports::AllocaFlags,
        ) -> $crate::reexports::Result<std::sync::Arc<dyn $crate::reexports::Buffer>> {
            let queue = self.queue(queue_affinity);
            let waits = flags.contains($crate::reexports::AllocaFlags::ALLOW_POOL_WAIT_FRONTIER);
            let of_pool = pool.map(|pool| self.state.memory.pool_source(pool));
            let source = of_pool.as_ref().unwrap_or_else(|| self.state.memory.source());
            let transient = $crate::queue::alloca(queue, source, (wait, signal), waits, params, allocation_size)?;
            transient.reserved_by(queue_affinity, flags);
            Ok(transient)
        }

        fn submit(
            &self,
            queue_affinity: $crate::reexports::QueueAffinity,
            wait: &[$crate::reexports::Timepoint],
            signal: &[$crate::reexports::Timepoint],
            operation: $crate::reexports::QueueOperation<'_>,
        ) -> $crate::reexports::Result<()> {
            let queue_affinity = $crate::queue::queue_of(&operation, queue_affinity);
            self.queue(queue_affinity).operate(queue_affinity, (wait, signal), operation, self.commands())
        }
    };
}
pub use crate::host_device_methods;
