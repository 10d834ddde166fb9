//! Wrappers of HAL objects: ones that override nothing change nothing, which the conformance suite and the tests of
//! vtables check with the wrappers of this file, and what only wrappers do.

use std::fmt::Debug;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use vireo::Result;
use vireo::hal::*;

/// A wrapper that overrides nothing.
#[derive(Debug)]
pub struct Plain<T: ?Sized>(Arc<T>);

/// A wrapper of an object that extends another, which overrides nothing either.
#[derive(Debug)]
struct PlainExtension<B: ?Sized, T: ?Sized>(Arc<B>, Arc<T>);

/// An object that can be wrapped.
pub trait Wrap {
    /// The object behind a wrapper that overrides nothing.
    fn wrap(object: Arc<Self>) -> Arc<Self>;
}

macro_rules! wrap {
    ($($forward:ident: $object:ident),*) => {
        $(impl $forward for Plain<dyn $object> {
            fn inner(&self) -> &Arc<dyn $object> {
                &self.0
            }
        }

        impl Wrap for dyn $object {
            fn wrap(object: Arc<Self>) -> Arc<Self> {
                Arc::new(Forward(Plain(object)))
            }
        })*
    };
}

wrap!(
    ForwardAllocator: Allocator, ForwardBuffer: Buffer, ForwardChannel: Channel, ForwardChannelProvider: ChannelProvider,
    ForwardCommandBuffer: CommandBuffer, ForwardDevice: Device, ForwardDriver: Driver, ForwardExecutable: Executable,
    ForwardExecutableCache: ExecutableCache, ForwardExecutableLoader: ExecutableLoader, ForwardFile: File,
    ForwardHostCall: HostCall, ForwardParameterProvider: ParameterProvider, ForwardPool: Pool,
    ForwardProfileSink: ProfileSink, ForwardSemaphore: Semaphore, ForwardSlabProvider: SlabProvider,
    ForwardVmCall: VmCall, ForwardVmModule: VmModule, ForwardVmRef: VmRef
);

impl ForwardExecutable for PlainExtension<dyn Executable, dyn LocalExecutable> {
    fn inner(&self) -> &Arc<dyn Executable> {
        &self.0
    }
}

impl ForwardLocalExecutable for PlainExtension<dyn Executable, dyn LocalExecutable> {
    fn inner_local_executable(&self) -> &Arc<dyn LocalExecutable> {
        &self.1
    }
}

impl Wrap for dyn LocalExecutable {
    fn wrap(object: Arc<Self>) -> Arc<Self> {
        Arc::new(Forward(PlainExtension(object.clone() as Arc<dyn Executable>, object)))
    }
}

/// Wraps what a device makes as well, and unwraps what the device knows by its type where that comes back.
#[derive(Debug)]
pub struct Deep(pub Arc<dyn Device>);

impl ForwardDevice for Deep {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.0
    }

    fn create_command_buffer(
        &self,
        mode: CommandBufferMode,
        command_categories: CommandCategory,
        queue_affinity: QueueAffinity,
        binding_capacity: u32,
    ) -> Result<Arc<dyn CommandBuffer>> {
        self.0.create_command_buffer(mode, command_categories, queue_affinity, binding_capacity).map(Wrap::wrap)
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
        let command_buffer = Plain::<dyn CommandBuffer>::inner_of(command_buffer);
        self.0.queue_execute(queue_affinity, wait, signal, command_buffer, binding_table, flags)
    }

    fn create_executable_cache(&self, identifier: &str) -> Result<Arc<dyn ExecutableCache>> {
        Ok(Arc::new(Forward(DeepCache(self.0.create_executable_cache(identifier)?))))
    }

    unsafe fn import_file(
        &self,
        queue_affinity: QueueAffinity,
        access: MemoryAccess,
        external_file: &ExternalFile,
        flags: ExternalFileFlags,
    ) -> Result<Arc<dyn File>> {
        // SAFETY: the caller guarantees that the memory or descriptor is there as long as its owner.
        unsafe { self.0.import_file(queue_affinity, access, external_file, flags) }.map(Wrap::wrap)
    }

    fn create_semaphore(
        &self,
        queue_affinity: QueueAffinity,
        initial_value: u64,
        flags: SemaphoreFlags,
    ) -> Result<Arc<dyn Semaphore>> {
        self.0.create_semaphore(queue_affinity, initial_value, flags).map(Wrap::wrap)
    }
}

/// A cache whose executables are wrapped.
#[derive(Debug)]
struct DeepCache(Arc<dyn ExecutableCache>);

impl ForwardExecutableCache for DeepCache {
    fn inner(&self) -> &Arc<dyn ExecutableCache> {
        &self.0
    }

    fn prepare_executable(
        &self,
        queue_affinity: QueueAffinity,
        caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        self.0.prepare_executable(queue_affinity, caching_mode, format, data, constants).map(Wrap::wrap)
    }
}

/// Notes the methods that are called, and takes one of them over.
#[derive(Debug)]
struct Noting {
    inner: Arc<dyn Device>,
    calls: Mutex<Vec<&'static str>>,
}

impl ForwardDevice for Noting {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    fn before(&self, method: ForwardedMethod) {
        self.calls.lock().unwrap().push(method.name());
    }

    fn id(&self) -> &str {
        "noting"
    }
}

#[test]
fn wrappers_are_told_of_each_call_once() {
    let device = Forward(Noting { inner: super::device(), calls: Mutex::default() });
    assert_eq!((device.id(), device.0.inner.id()), ("noting", "local-sync"));
    device.trim().unwrap();
    let failure =
        device.create_event(QueueAffinity::ANY, EventFlags::empty()).map(|_| ()).map_err(|error| error.code());
    assert_eq!(
        failure,
        device.0.inner.create_event(QueueAffinity::ANY, EventFlags::empty()).map(|_| ()).map_err(|error| error.code())
    );
    assert_eq!(*device.0.calls.lock().unwrap(), ["device.id", "device.trim", "device.create_event"]);
}

/// Notes the operations of queues, but takes fills over by their method.
#[derive(Debug)]
struct NotingOperations {
    inner: Arc<dyn Device>,
    submitted: Mutex<Vec<&'static str>>,
    fills: AtomicUsize,
}

impl ForwardDevice for NotingOperations {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.inner
    }

    fn submit(
        &self,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        operation: QueueOperation<'_>,
    ) -> Result<()> {
        self.submitted.lock().unwrap().push(operation.method().name());
        self.inner.submit(queue_affinity, wait, signal, operation)
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
        self.fills.fetch_add(1, Ordering::Relaxed);
        self.inner.queue_fill(queue_affinity, wait, signal, target_buffer, target_offset, length, pattern, flags)
    }
}

#[test]
fn operations_of_queues_go_through_their_methods_and_then_through_submit() {
    let device =
        Forward(NotingOperations { inner: super::device(), submitted: Mutex::default(), fills: AtomicUsize::new(0) });
    let buffer = buffer_from_bytes(&*device.0.inner, &[0; 4]).unwrap();
    let any = QueueAffinity::ANY;
    let fill = |pattern: &'static [u8], target_offset| QueueOperation::Fill {
        target_buffer: &buffer,
        target_offset,
        length: 1,
        pattern,
        flags: FillFlags::empty(),
    };
    device.queue_fill(any, &[], &[], &buffer, 0, 1, &[1], FillFlags::empty()).unwrap();
    // A wrapper that knows the method alone gets the values as well.
    device.submit(any, &[], &[], fill(&[2], 1)).unwrap();
    device.queue_update(any, &[], &[], &[3], &buffer, 2, UpdateFlags::empty()).unwrap();
    let update =
        QueueOperation::Update { source: &[4], target_buffer: &buffer, target_offset: 3, flags: UpdateFlags::empty() };
    device.submit(any, &[], &[], update).unwrap();
    assert_eq!(buffer_to_vec(&*buffer, 4).unwrap(), [1, 2, 3, 4]);
    assert_eq!(device.0.fills.load(Ordering::Relaxed), 2);
    assert_eq!(*device.0.submitted.lock().unwrap(), ["device.queue_update", "device.queue_update"]);
}

/// Nothing but its wrapper knows how often it is recycled while there is no other reference to it.
#[derive(Debug, Default)]
struct Recycled(Arc<AtomicUsize>);

impl Channel for Recycled {
    fn split(&self, _color: i32, _key: i32, _flags: ChannelFlags) -> Result<Arc<dyn Channel>> {
        Ok(Arc::new(Recycled::default()))
    }

    fn rank_and_count(&self) -> ChannelRank {
        ChannelRank { rank: 0, count: 1 }
    }

    fn recycle(self: Arc<Self>) {
        if let Some(alone) = Arc::into_inner(self) {
            alone.0.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn the_last_reference_to_a_wrapper_recycles_the_inner_object() {
    let count = Arc::new(AtomicUsize::new(0));
    let wrapped: Arc<dyn Channel> = Wrap::wrap(Arc::new(Recycled(count.clone())) as Arc<dyn Channel>);
    let second = wrapped.clone();
    wrapped.recycle();
    assert_eq!((count.load(Ordering::Relaxed), second.rank_and_count().count), (0, 1));
    second.recycle();
    assert_eq!(count.load(Ordering::Relaxed), 1);
}

/// Counts the commands that are recorded.
#[derive(Debug)]
struct CountedCommands(Arc<dyn CommandBuffer>, Arc<AtomicU64>);

impl ForwardCommandBuffer for CountedCommands {
    fn inner(&self) -> &Arc<dyn CommandBuffer> {
        &self.0
    }

    fn before(&self, method: ForwardedMethod) {
        if method == ForwardedMethod::CommandBufferFillBuffer {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[test]
fn objects_are_unwrapped_by_the_type_of_their_wrapper() {
    let device = super::device();
    let create = || {
        device
            .create_command_buffer(CommandBufferMode::empty(), CommandCategory::TRANSFER, QueueAffinity::ANY, 0)
            .unwrap()
    };
    let (inner, count) = (create(), Arc::new(AtomicU64::new(0)));
    let counted: Arc<dyn CommandBuffer> = Arc::new(Forward(CountedCommands(inner.clone(), count.clone())));
    assert!(Arc::ptr_eq(CountedCommands::inner_of(&counted), &inner));
    // An object that is not wrapped, or by another wrapper, stays the same.
    assert!(Arc::ptr_eq(CountedCommands::inner_of(&inner), &inner));
    assert!(Arc::ptr_eq(Plain::<dyn CommandBuffer>::inner_of(&counted), &counted));
    let twice: Arc<dyn CommandBuffer> = Wrap::wrap(counted.clone());
    assert!(Arc::ptr_eq(Plain::<dyn CommandBuffer>::inner_of(&twice), &counted));

    let buffer = buffer_from_bytes(&*device, &[0; 4]).unwrap();
    let target = BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER };
    twice.begin().unwrap();
    twice.fill_buffer(&target, &[7], FillFlags::empty()).unwrap();
    twice.end().unwrap();
    assert_eq!(count.load(Ordering::Relaxed), 1);
    let none = ExecuteFlags::empty();
    device.queue_execute(QueueAffinity::ANY, &[], &[], &twice, &[], none).unwrap_err();
    device.queue_execute(QueueAffinity::ANY, &[], &[], &inner, &[], none).unwrap();
    assert_eq!(buffer_to_vec(&*buffer, 4).unwrap(), [7; 4]);
}

// From here on as in docs/devices.md.
/// Reports a concurrency of one thread to programs.
#[derive(Debug)]
struct OneThread(Arc<dyn Device>);

impl ForwardDevice for OneThread {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.0
    }

    fn query_i64(&self, category: &str, key: &str) -> Result<i64> {
        match (category, key) {
            ("hal.dispatch", "concurrency") => Ok(1),
            _ => self.inner().query_i64(category, key),
        }
    }
}

fn one_thread() -> Result<Arc<dyn Device>> {
    Ok(Arc::new(Forward(OneThread(create_device("local-task")?))))
}
// Up to here.

#[test]
fn the_example_of_the_documentation_runs() {
    let device = one_thread().unwrap();
    assert_eq!(device.query_i64("hal.dispatch", "concurrency").unwrap(), 1);
    assert_eq!(device.query_i64("hal.device.id", "local*").unwrap(), 1);

    let trimmed = |text: &str| text.lines().map(|line| line.trim().to_string() + "\n").collect::<String>();
    let here = trimmed(include_str!("forwarding.rs"));
    let (_, shown) = here.split_once("// From here on as in docs/devices.md.\n").unwrap();
    let (shown, _) = shown.split_once("// Up to here.\n").unwrap();
    let documentation = trimmed(include_str!("../../../docs/devices.md"));
    assert!(documentation.contains(&format!("{shown}```\n")), "docs/devices.md shows another example");
}
