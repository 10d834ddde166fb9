//! Methods that a device need not have: those that it says it has work, and the others are refused by name.

use std::collections::BTreeSet;
use std::ptr::NonNull;
use std::sync::Arc;

use vireo::hal::*;
use vireo::{Result, StatusCode};

use super::dispatches::kernels;
use super::*;

/// Calls an optional method. Whether it does what it should is for the tests of its object; here it is about whether it
/// is there.
type Call = fn(&Backend) -> Result<()>;

#[derive(Debug)]
struct NoMemory;

impl PhysicalMemory for NoMemory {}

#[derive(Debug)]
struct Alone;

impl ChannelProvider for Alone {
    fn default_rank_and_count(&self) -> Result<ChannelRank> {
        Ok(ChannelRank { rank: 0, count: 1 })
    }

    fn exchange_default_id(&self, id: &[u8]) -> Result<Vec<u8>> {
        Ok(id.to_vec())
    }
}

#[derive(Debug)]
struct NoChannel;

impl Channel for NoChannel {
    fn split(&self, _: i32, _: i32, _: ChannelFlags) -> Result<Arc<dyn Channel>> {
        Ok(Arc::new(NoChannel))
    }

    fn rank_and_count(&self) -> ChannelRank {
        ChannelRank { rank: 0, count: 1 }
    }
}

#[derive(Debug)]
struct NoEvent;

impl Event for NoEvent {}

#[derive(Debug)]
struct Nothing;

impl HostCall for Nothing {
    fn call(&self, _: HostCallContext, _: &[Timepoint]) -> Result<()> {
        Ok(())
    }
}

fn allocator(backend: &Backend) -> Arc<dyn Allocator> {
    backend.device().allocator()
}

fn buffer(backend: &Backend) -> Arc<dyn Buffer> {
    buffer_of(&*backend.device(), &[0; 4])
}

fn commands(backend: &Backend) -> Arc<dyn CommandBuffer> {
    record(&*backend.device(), CommandBufferMode::empty(), 0)
}

/// Every optional method of the spec.
const CALLS: &[(&str, Call)] = &[
    ("allocator.export_buffer", |backend| {
        let (allocator, buffer) = (allocator(backend), buffer(backend));
        allocator.export_buffer(&buffer, ExternalBufferType::HostAllocation, ExternalBufferFlags::empty()).map(drop)
    }),
    ("allocator.physical_memory_allocate", |backend| {
        allocator(backend).physical_memory_allocate(params(), 4096).map(drop)
    }),
    ("allocator.virtual_memory_advise", |backend| {
        allocator(backend).virtual_memory_advise(&buffer(backend), 0, 4, ANY, MemoryAdvice::WILL_NEED)
    }),
    ("allocator.virtual_memory_map", |backend| {
        let memory: Arc<dyn PhysicalMemory> = Arc::new(NoMemory);
        allocator(backend).virtual_memory_map(&buffer(backend), 0, &memory, 0, 4)
    }),
    ("allocator.virtual_memory_protect", |backend| {
        allocator(backend).virtual_memory_protect(&buffer(backend), 0, 4, ANY, MemoryProtection::READ)
    }),
    ("allocator.virtual_memory_query_granularity", |backend| {
        allocator(backend).virtual_memory_query_granularity(params()).map(drop)
    }),
    ("allocator.virtual_memory_release", |backend| allocator(backend).virtual_memory_release(&buffer(backend))),
    ("allocator.virtual_memory_reserve", |backend| allocator(backend).virtual_memory_reserve(ANY, 4096).map(drop)),
    ("allocator.virtual_memory_unmap", |backend| allocator(backend).virtual_memory_unmap(&buffer(backend), 0, 4)),
    ("command_buffer.collective", |backend| {
        let (buffer, channel): (_, Arc<dyn Channel>) = (buffer(backend), Arc::new(NoChannel));
        let op = CollectiveOp::default();
        commands(backend).collective(&channel, op, 0, &whole(&buffer), &whole(&buffer), 1)
    }),
    ("command_buffer.flush_buffer", |backend| commands(backend).flush_buffer(&whole(&buffer(backend)))),
    ("command_buffer.invalidate_buffer", |backend| commands(backend).invalidate_buffer(&whole(&buffer(backend)))),
    ("command_buffer.reset_event", |backend| commands(backend).reset_event(&event(backend), ExecutionStage::TRANSFER)),
    ("command_buffer.signal_event", |backend| {
        commands(backend).signal_event(&event(backend), ExecutionStage::TRANSFER)
    }),
    ("command_buffer.wait_events", |backend| {
        let stage = ExecutionStage::TRANSFER;
        commands(backend).wait_events(&[event(backend)], stage, stage, &[], &[])
    }),
    ("device.assign_topology_info", |backend| backend.device().assign_topology_info(DeviceTopologyInfo::default())),
    ("device.create_channel", |backend| {
        let params = ChannelParams { rank: 0, count: 1, ..ChannelParams::default() };
        backend.device().create_channel(ANY, &params).map(drop)
    }),
    ("device.create_event", |backend| backend.device().create_event(ANY, EventFlags::empty()).map(drop)),
    ("device.external_capture_begin", |backend| {
        backend.device().external_capture_begin(&ExternalCaptureOptions::default())
    }),
    ("device.external_capture_end", |backend| backend.device().external_capture_end()),
    ("device.import_file", |backend| import(&*backend.device()).map(drop)),
    ("device.profiling_begin", |backend| backend.device().profiling_begin(&ProfilingOptions::default())),
    ("device.profiling_end", |backend| backend.device().profiling_end()),
    ("device.profiling_flush", |backend| backend.device().profiling_flush()),
    ("device.queue_host_call", |backend| {
        let call: Arc<dyn HostCall> = Arc::new(Nothing);
        let device = backend.device();
        outcome(&*device, |signal| device.queue_host_call(ANY, &[], signal, &call, &[], HostCallFlags::empty()))
    }),
    ("device.queue_pool_backend", |backend| backend.device().queue_pool_backend(ANY).map(drop)),
    ("device.queue_read", |backend| {
        let (device, buffer) = (backend.device(), buffer(backend));
        let file = import(&*device)?;
        outcome(&*device, |signal| device.queue_read(ANY, &[], signal, &file, 0, &buffer, 0, 4, ReadFlags::empty()))
    }),
    ("device.queue_write", |backend| {
        let (device, buffer) = (backend.device(), buffer(backend));
        let file = import(&*device)?;
        outcome(&*device, |signal| device.queue_write(ANY, &[], signal, &buffer, 0, &file, 0, 4, WriteFlags::empty()))
    }),
    ("device.refine_topology_edge", |backend| {
        let edge = TopologyEdge { scheduling_word: 0, interop_word: 0 };
        backend.device().refine_topology_edge(&backend.device(), edge).map(drop)
    }),
    ("device.replace_allocator", |backend| {
        let other: Arc<dyn Allocator> = Arc::new(HeapAllocator::new());
        backend.device().replace_allocator(&other)
    }),
    ("device.replace_channel_provider", |backend| {
        let provider: Arc<dyn ChannelProvider> = Arc::new(Alone);
        backend.device().replace_channel_provider(&provider)
    }),
    ("executable.function_parameters", |backend| {
        let device = backend.device();
        let Some(executable) = kernels(backend, &*device) else { return Ok(()) };
        executable.function_parameters(ExecutableFunction(0)).map(drop)
    }),
    ("executable.lookup_global", |backend| {
        let device = backend.device();
        let Some(executable) = kernels(backend, &*device) else { return Ok(()) };
        executable.lookup_global("no such global", ANY).map(drop)
    }),
    ("file.read", |backend| import(&*backend.device())?.read(0, &buffer(backend), 0, 4)),
    ("file.write", |backend| import(&*backend.device())?.write(0, &buffer(backend), 0, 4)),
    ("semaphore.export_timepoint", |backend| {
        let kind = ExternalTimepointType::ASYNC_PRIMITIVE;
        timeline(&*backend.device()).export_timepoint(1, ANY, kind, ExternalTimepointFlags::empty()).map(drop)
    }),
    ("semaphore.import_timepoint", |backend| {
        let none = ExternalTimepoint {
            r#type: ExternalTimepointType::NONE,
            flags: ExternalTimepointFlags::empty(),
            compatibility: SemaphoreCompatibility::empty(),
            handle: 0,
        };
        timeline(&*backend.device()).import_timepoint(1, ANY, none)
    }),
];

/// An event, of the device if it has some.
fn event(backend: &Backend) -> Arc<dyn Event> {
    backend.device().create_event(ANY, EventFlags::empty()).unwrap_or_else(|_| Arc::new(NoEvent))
}

/// Four bytes that stay for ever as a file.
fn import(device: &dyn Device) -> Result<Arc<dyn File>> {
    let bytes = Box::leak(Box::new([0_u8; 4]));
    let external = ExternalFile {
        r#type: ExternalFileType::HostAllocation,
        data: NonNull::new(bytes.as_mut_ptr()),
        length: 4,
        fd: -1,
        owner: None,
    };
    // SAFETY: there is no other reference to the bytes, and they stay.
    unsafe { device.import_file(ANY, MemoryAccess::READ | MemoryAccess::WRITE, &external, ExternalFileFlags::empty()) }
}

pub fn what_is_supported_is_what_devices_say(backend: &Backend) {
    let known: BTreeSet<&str> = OptionalMethod::ALL.iter().map(|method| method.name()).collect();
    let called: BTreeSet<&str> = CALLS.iter().map(|(name, _)| *name).collect();
    assert_eq!(called, known);
    let mut wrong = Vec::new();
    for (name, call) in CALLS {
        let claimed = backend.device().supports(name);
        let outcome = call(backend);
        let refused = outcome.as_ref().is_err_and(|status| status.code() == StatusCode::Unimplemented);
        if claimed == refused {
            wrong.push(format!("{name}: the device says {claimed}, the call gives {outcome:?}"));
        }
        if let Err(status) = outcome
            && refused
            && !status.message().contains(name)
        {
            wrong.push(format!("{name}: refused without its name: {status}"));
        }
    }
    assert!(wrong.is_empty(), "{}: {wrong:#?}", backend.name);
}
