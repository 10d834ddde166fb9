//! Objects that no device of this build has, called directly and through their vtables: what arrives and what comes back is the same.

use std::any::Any;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use vireo::hal::executable_library::{DispatchState, WorkgroupState};
use vireo::hal::plugin::loopback::{There, through};
use vireo::hal::plugin::{Here, Interface};
use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

/// Implements every trait below, and notes what it is called with.
#[derive(Debug, Default)]
struct Mock(Mutex<Vec<String>>);

impl Mock {
    fn note(&self, what: impl Debug) {
        self.0.lock().unwrap().push(format!("{what:?}"));
    }
}

/// What `calls` makes of a new mock: what the mock noted, and what `calls` returned.
fn noted<R: Debug>(calls: impl FnOnce(Arc<Mock>) -> R) -> (Vec<String>, String) {
    let mock = Arc::new(Mock::default());
    let returned = format!("{:?}", calls(mock.clone()));
    assert_eq!(Arc::strong_count(&mock), 1, "a reference was kept");
    let noted = std::mem::take(&mut *mock.0.lock().unwrap());
    (noted, returned)
}

/// Makes the same calls directly and through the vtable of `T`.
fn alike<T, R>(upcast: fn(Arc<Mock>) -> Arc<T>, count: usize, calls: fn(&Arc<T>) -> R)
where
    T: ?Sized + Interface<Here> + Interface<There>,
    R: Debug,
{
    let direct = noted(|mock| calls(&upcast(mock)));
    let imported = noted(|mock| calls(&through(&upcast(mock)).unwrap()));
    assert_eq!(direct, imported);
    assert_eq!(direct.0.len(), count, "{:?}", direct.0);
}

fn semaphore(value: u64) -> Arc<dyn Semaphore> {
    Arc::new(HostSemaphore::new(value))
}

fn points(values: &[u64]) -> Vec<Timepoint> {
    values.iter().map(|value| Timepoint { semaphore: semaphore(100 + value), value: *value }).collect()
}

/// Points with the payloads of their timelines.
fn seen(points: &[Timepoint]) -> Vec<(u64, u64)> {
    points.iter().map(|point| (point.semaphore.query().unwrap(), point.value)).collect()
}

fn buffer(bytes: &[u8]) -> Arc<dyn Buffer> {
    let buffer = HeapAllocator::new().allocate_buffer(BufferParams::default(), bytes.len() as u64).unwrap();
    buffer_write(&*buffer, 0, bytes).unwrap();
    buffer
}

fn bytes(buffer: &Arc<dyn Buffer>) -> Vec<u8> {
    buffer_to_vec(&**buffer, buffer.byte_length()).unwrap()
}

impl Channel for Mock {
    fn split(&self, color: i32, key: i32, flags: ChannelFlags) -> Result<Arc<dyn Channel>> {
        self.note((color, key, flags));
        if color < 0 { Err(Status::not_found("no group")) } else { Ok(Arc::new(Mock::default())) }
    }

    fn rank_and_count(&self) -> ChannelRank {
        ChannelRank { rank: -1, count: 7 }
    }
}

#[test]
fn channels() {
    alike::<dyn Channel, _>(
        |mock| mock,
        2,
        |channel| {
            let split = channel.split(1, i32::MIN, ChannelFlags::empty()).unwrap();
            let failure = channel.split(-1, 0, ChannelFlags::empty()).unwrap_err();
            (channel.rank_and_count(), split.rank_and_count(), failure.to_string())
        },
    );
}

impl ChannelProvider for Mock {
    fn default_rank_and_count(&self) -> Result<ChannelRank> {
        Ok(ChannelRank { rank: 2, count: 3 })
    }

    fn exchange_default_id(&self, id: &[u8]) -> Result<Vec<u8>> {
        self.note(id);
        Ok(id.iter().rev().copied().collect())
    }
}

#[test]
fn channel_providers() {
    alike::<dyn ChannelProvider, _>(
        |mock| mock,
        2,
        |provider| {
            let ids = [provider.exchange_default_id(&[1, 2, 3]).unwrap(), provider.exchange_default_id(&[]).unwrap()];
            (provider.default_rank_and_count().unwrap(), ids)
        },
    );
}

impl Pool for Mock {
    fn acquire_reservation(
        &self,
        size: u64,
        alignment: u64,
        requester_frontier: &[FrontierEntry],
        flags: PoolReserveFlags,
    ) -> Result<PoolAcquisition> {
        self.note((size, alignment, requester_frontier, flags));
        let reservation = PoolReservation { offset: 64, length: size, block_handle: u64::MAX, slab_index: 9 };
        Ok(PoolAcquisition {
            result: PoolAcquireResult::OK_NEEDS_WAIT,
            reservation,
            flags: PoolAcquireFlags::all(),
            wait_frontier: requester_frontier.iter().rev().copied().collect(),
        })
    }

    fn release_reservation(&self, reservation: PoolReservation, death_frontier: &[FrontierEntry]) {
        self.note((reservation, death_frontier));
    }

    fn materialize_reservation(
        &self,
        params: BufferParams,
        reservation: PoolReservation,
        flags: PoolMaterializeFlags,
    ) -> Result<Arc<dyn Buffer>> {
        self.note((params, reservation, flags));
        Ok(buffer(&[4, 5]))
    }

    fn capabilities(&self) -> PoolCapabilities {
        PoolCapabilities { memory_type: MemoryType::DEVICE_LOCAL, max_allocation_size: 5, ..Default::default() }
    }

    fn stats(&self) -> PoolStats {
        PoolStats { reservation_count: 3, wait_count: 4, ..PoolStats::default() }
    }

    fn trim(&self) -> Result<()> {
        self.note("trim");
        Err(Status::new(StatusCode::Cancelled, "no"))
    }

    fn notify(&self, callback: Box<dyn FnOnce(Result<()>) + Send>) {
        callback(Err(Status::data_loss("gone")));
    }
}

#[test]
fn pools() {
    alike::<dyn Pool, _>(
        |mock| mock,
        4,
        |pool| {
            let frontier = [FrontierEntry { axis: 1, epoch: 2 }, FrontierEntry { axis: 3, epoch: 4 }];
            let acquired = pool.acquire_reservation(100, 16, &frontier, PoolReserveFlags::DISALLOW_GROWTH).unwrap();
            let reservation = acquired.reservation;
            let params = BufferParams { min_alignment: 8, ..BufferParams::default() };
            let buffer = pool.materialize_reservation(params, reservation, PoolMaterializeFlags::empty()).unwrap();
            pool.release_reservation(reservation, &[]);
            let told = Arc::new(Mutex::new(None));
            let tell = told.clone();
            pool.notify(Box::new(move |result| *tell.lock().unwrap() = Some(result.unwrap_err().to_string())));
            let told = told.lock().unwrap().take();
            (acquired, bytes(&buffer), pool.capabilities(), pool.stats(), pool.trim().unwrap_err().to_string(), told)
        },
    );
}

impl SlabProvider for Mock {
    fn acquire_slab(&self, min_length: u64) -> Result<Slab> {
        self.note(min_length);
        Ok(Slab { base: None, length: min_length * 2, provider_handle: 6 })
    }

    unsafe fn release_slab(&self, slab: &Slab) {
        self.note(slab);
    }

    unsafe fn wrap_buffer(
        &self,
        slab: &Slab,
        slab_offset: u64,
        allocation_size: u64,
        params: BufferParams,
        owner: Arc<dyn Any + Send + Sync>,
    ) -> Result<Arc<dyn Buffer>> {
        self.note((slab, slab_offset, allocation_size, params));
        drop(owner);
        Ok(buffer(&[1]))
    }

    fn prefault(&self, slab: &Slab) {
        self.note(slab);
    }

    fn trim(&self, flags: SlabTrimFlags) {
        self.note(flags);
    }

    fn stats(&self) -> SlabProviderStats {
        SlabProviderStats { total_acquired: 1, cache_count: 2, ..SlabProviderStats::default() }
    }

    fn properties(&self) -> SlabProperties {
        SlabProperties { memory_type: MemoryType::HOST_LOCAL, supported_usage: BufferUsage::TRANSFER }
    }
}

#[test]
fn slab_providers() {
    alike::<dyn SlabProvider, _>(
        |mock| mock,
        5,
        |provider| {
            let slab = provider.acquire_slab(32).unwrap();
            let owner = Arc::new(5);
            // SAFETY: the mock does nothing with the slab.
            let buffer = unsafe { provider.wrap_buffer(&slab, 1, 2, BufferParams::default(), owner.clone()) }.unwrap();
            let kept = Arc::strong_count(&owner);
            provider.prefault(&Slab { base: NonNull::new(0x1000 as *mut u8), ..slab });
            provider.trim(SlabTrimFlags::EXCESS);
            // SAFETY: as above.
            unsafe { provider.release_slab(&slab) };
            (slab, bytes(&buffer), kept, provider.stats(), provider.properties())
        },
    );
}

impl ParameterProvider for Mock {
    fn notify(&self, signal: ParameterProviderSignal) -> Result<()> {
        self.note(signal);
        Ok(())
    }

    fn query_support(&self, scope: &str) -> bool {
        scope == "mödel"
    }

    fn load(
        &self,
        device: &Arc<dyn Device>,
        queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_scope: &str,
        target_params: BufferParams,
        spans: &[ParameterSpan],
    ) -> Result<Vec<Arc<dyn Buffer>>> {
        self.note((device.id(), queue_affinity, seen(wait), seen(signal), source_scope, target_params, spans));
        Ok(spans.iter().map(|span| buffer(span.key.as_bytes())).collect())
    }

    fn gather(
        &self,
        _device: &Arc<dyn Device>,
        _queue_affinity: QueueAffinity,
        wait: &[Timepoint],
        signal: &[Timepoint],
        source_scope: &str,
        target_buffer: &Arc<dyn Buffer>,
        spans: &[ParameterSpan],
    ) -> Result<()> {
        self.note((seen(wait), seen(signal), source_scope, bytes(target_buffer), spans));
        buffer_write(&**target_buffer, 0, &[9])
    }

    fn scatter(
        &self,
        _device: &Arc<dyn Device>,
        _queue_affinity: QueueAffinity,
        _wait: &[Timepoint],
        _signal: &[Timepoint],
        source_buffer: &Arc<dyn Buffer>,
        target_scope: &str,
        spans: &[ParameterSpan],
    ) -> Result<()> {
        self.note((bytes(source_buffer), target_scope, spans));
        Err(Status::permission_denied(target_scope))
    }
}

#[test]
fn parameter_providers() {
    alike::<dyn ParameterProvider, _>(
        |mock| mock,
        4,
        |provider| {
            let (device, any, target) = (super::device(), QueueAffinity::ANY, buffer(&[1, 2]));
            let span = |key: &str, length| ParameterSpan {
                key: key.to_string(),
                parameter_offset: 1,
                buffer_offset: 2,
                length,
            };
            let spans = [span("weights", 3), span("", u64::MAX)];
            let (wait, signal, params) = (points(&[1]), points(&[2, 3]), BufferParams::default());
            provider.notify(ParameterProviderSignal::LowMemory).unwrap();
            let loaded = provider.load(&device, any, &wait, &signal, "mödel", params, &spans).unwrap();
            provider.gather(&device, any, &[], &signal, "", &target, &spans).unwrap();
            let refused = provider.scatter(&device, any, &[], &[], &target, "x", &[]).unwrap_err().to_string();
            let supported = ["mödel", "other"].map(|scope| provider.query_support(scope));
            let loaded: Vec<_> = loaded.iter().map(bytes).collect();
            (loaded, bytes(&target), refused, supported)
        },
    );
}

impl ProfileSink for Mock {
    fn begin_session(&self, metadata: &ProfileChunkMetadata) -> Result<()> {
        self.note(metadata);
        Ok(())
    }

    fn write(&self, metadata: &ProfileChunkMetadata, parts: &[&[u8]]) -> Result<()> {
        self.note((metadata, parts));
        Ok(())
    }

    fn end_session(&self, metadata: &ProfileChunkMetadata, session_status_code: u32) -> Result<()> {
        self.note((metadata, session_status_code));
        Ok(())
    }
}

#[test]
fn profile_sinks() {
    alike::<dyn ProfileSink, _>(
        |mock| mock,
        3,
        |sink| {
            let metadata = ProfileChunkMetadata {
                content_type: "text".to_string(),
                queue_ordinal: u32::MAX,
                flags: ProfileChunkFlags::TRUNCATED,
                dropped_record_count: 5,
                ..ProfileChunkMetadata::default()
            };
            sink.begin_session(&metadata).unwrap();
            sink.write(&metadata, &[&[1, 2], &[], &[3]]).unwrap();
            sink.end_session(&metadata, 13).unwrap();
        },
    );
}

impl Executable for Mock {
    fn function_count(&self) -> u32 {
        2
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        self.note(function);
        Err(Status::out_of_range("none"))
    }

    fn function_parameters(&self, function: ExecutableFunction) -> Result<Vec<ExecutableFunctionParameter>> {
        self.note(function);
        let parameter = |name: &str| ExecutableFunctionParameter {
            r#type: ExecutableFunctionParameterType::BINDING,
            size: 8,
            flags: ExecutableFunctionParameterFlags::empty(),
            name: name.to_string(),
            offset: 16,
        };
        Ok(vec![parameter("lhs"), parameter(""), parameter("result")])
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        self.note(name);
        Ok(ExecutableFunction(name.len() as u64))
    }

    fn lookup_global(&self, name: &str, queue_affinity: QueueAffinity) -> Result<Arc<dyn Buffer>> {
        self.note((name, queue_affinity));
        Ok(buffer(name.as_bytes()))
    }
}

impl LocalExecutable for Mock {
    unsafe fn issue_call(
        &self,
        ordinal: u32,
        dispatch_state: &DispatchState,
        workgroup_state: &WorkgroupState,
        worker_id: u32,
    ) -> Result<()> {
        let workgroup = (workgroup_state.workgroup_id_x, workgroup_state.workgroup_id_z);
        self.note((ordinal, dispatch_state.workgroup_count_y, workgroup, worker_id));
        Ok(())
    }
}

#[test]
fn local_executables() {
    alike::<dyn LocalExecutable, _>(
        |mock| mock,
        5,
        |executable| {
            let dispatch_state = DispatchState {
                workgroup_size_x: 1,
                workgroup_size_y: 1,
                workgroup_size_z: 1,
                constant_count: 0,
                workgroup_count_x: 2,
                workgroup_count_y: 3,
                workgroup_count_z: 4,
                max_concurrency: 1,
                binding_count: 0,
                constants: std::ptr::null(),
                binding_pointers: std::ptr::null(),
                binding_lengths: std::ptr::null(),
            };
            let workgroup_state = WorkgroupState {
                workgroup_id_x: 1,
                workgroup_id_y: 2,
                workgroup_id_z: 3,
                reserved: 0,
                processor_id: 0,
                local_memory: std::ptr::null_mut(),
                local_memory_size: 0,
                padding: 0,
            };
            // SAFETY: the mock runs nothing.
            unsafe { executable.issue_call(1, &dispatch_state, &workgroup_state, 5) }.unwrap();
            let info = executable.function_info(ExecutableFunction(3)).unwrap_err().to_string();
            let parameters = executable.function_parameters(ExecutableFunction(4)).unwrap();
            let function = executable.lookup_function("main").unwrap();
            let global = bytes(&executable.lookup_global("table", QueueAffinity::ANY).unwrap());
            (executable.function_count(), info, parameters, function, global)
        },
    );
}

impl VmModuleState for Mock {}

#[derive(Debug)]
struct Text(&'static str);

impl VmRef for Text {
    fn type_name(&self) -> &str {
        self.0
    }
}

/// A call of `(i32, !a, !b) -> (i32, !a)`, of which `!b` is null.
#[derive(Debug, Default)]
struct Call {
    words: Mutex<Vec<u64>>,
    refs: Mutex<Vec<Option<String>>>,
}

impl VmCall for Call {
    fn words(&self) -> Vec<u64> {
        vec![1, u64::MAX]
    }

    fn ref_count(&self) -> u64 {
        2
    }

    fn ref_at(&self, index: u64) -> Result<Option<Arc<dyn VmRef>>> {
        match index {
            0 => Ok(Some(Arc::new(Text("a")))),
            1 => Ok(None),
            _ => Err(Status::out_of_range("past the last")),
        }
    }

    fn return_words(&self, words: &[u64]) -> Result<()> {
        self.words.lock().unwrap().extend(words);
        Ok(())
    }

    fn return_ref(&self, value: Option<&Arc<dyn VmRef>>) -> Result<()> {
        self.refs.lock().unwrap().push(value.map(|value| value.type_name().to_string()));
        Ok(())
    }
}

impl VmModule for Mock {
    fn name(&self) -> &str {
        "mock"
    }

    fn signature(&self) -> VmModuleSignature {
        VmModuleSignature { version: 4, export_function_count: 1, ..VmModuleSignature::default() }
    }

    fn dependencies(&self) -> Result<Vec<VmModuleDependency>> {
        let flags = VmModuleDependencyFlags::OPTIONAL;
        Ok(vec![VmModuleDependency { name: "hal".to_string(), minimum_version: 6, flags }])
    }

    fn module_attr(&self, index: u64) -> Result<StringPair> {
        Ok(StringPair { key: "key".to_string(), value: index.to_string() })
    }

    fn lookup_function(&self, linkage: VmFunctionLinkage, name: &str, expected_convention: &str) -> Result<u64> {
        self.note((linkage, name, expected_convention));
        Ok(0)
    }

    fn function(&self, linkage: VmFunctionLinkage, ordinal: u64) -> Result<VmFunctionInfo> {
        self.note((linkage, ordinal));
        Ok(VmFunctionInfo { name: "f".to_string(), calling_convention: "0irr_ir".to_string(), attr_count: 0 })
    }

    fn function_attr(&self, linkage: VmFunctionLinkage, ordinal: u64, index: u64) -> Result<StringPair> {
        self.note((linkage, ordinal, index));
        Err(Status::out_of_range("no attributes"))
    }

    fn alloc_state(&self) -> Result<Arc<dyn VmModuleState>> {
        Ok(Arc::new(Mock::default()))
    }

    fn notify(&self, _state: &Arc<dyn VmModuleState>, signal: VmSignal) -> Result<()> {
        self.note(signal);
        Ok(())
    }

    fn begin_call(
        &self,
        state: &Arc<dyn VmModuleState>,
        ordinal: u64,
        call: &Arc<dyn VmCall>,
    ) -> Result<VmCallOutcome> {
        let any: &dyn Any = &**state;
        assert!(any.is::<Mock>(), "the state is what the module made");
        let refs: Vec<_> = (0..call.ref_count()).map(|index| call.ref_at(index).unwrap()).collect();
        let names: Vec<_> =
            refs.iter().map(|value| value.as_ref().map(|value| value.type_name().to_string())).collect();
        self.note((ordinal, call.words(), names, call.ref_at(2).unwrap_err().to_string()));
        call.return_words(&[7, 8])?;
        call.return_ref(refs[0].as_ref())?;
        call.return_ref(None)?;
        Ok(VmCallOutcome::Returned)
    }
}

#[test]
fn vm_modules() {
    alike::<dyn VmModule, _>(
        |mock| mock,
        5,
        |module| {
            let export = VmFunctionLinkage::Export;
            let state = module.alloc_state().unwrap();
            let ordinal = module.lookup_function(export, "f", "0irr_ir").unwrap();
            let call = Arc::new(Call::default());
            let shared: Arc<dyn VmCall> = call.clone();
            let outcome = module.begin_call(&state, ordinal, &shared).unwrap();
            module.notify(&state, VmSignal::Fork).unwrap();
            let failures = [
                module.function_attr(export, 0, 1).unwrap_err(),
                module.fork_state(&state).unwrap_err(),
                module.resume_call(&state, ordinal, &shared).unwrap_err(),
                module.resolve_import(&state, 0, module, 1).unwrap_err(),
                module.resolve_source_location(export, 0, 4).unwrap_err(),
            ];
            let told = (module.name().to_string(), module.signature(), module.dependencies().unwrap());
            let info = (module.function(export, ordinal).unwrap(), module.module_attr(3).unwrap());
            (told, info, outcome, call, failures.map(|failure| failure.to_string()))
        },
    );
}

impl PhysicalMemory for Mock {}
impl Event for Mock {}

impl Allocator for Mock {
    fn trim(&self) -> Result<()> {
        Ok(())
    }

    fn statistics(&self) -> AllocatorStatistics {
        AllocatorStatistics { device_bytes_freed: 3, ..AllocatorStatistics::default() }
    }

    fn memory_heaps(&self) -> Vec<MemoryHeap> {
        Vec::new()
    }

    fn buffer_compatibility(&self, params: BufferParams, allocation_size: u64) -> BufferPlacement {
        BufferPlacement { compatibility: BufferCompatibility::all(), params, allocation_size: allocation_size + 1 }
    }

    fn allocate_buffer(&self, _params: BufferParams, _allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        Err(Status::resource_exhausted("nothing left"))
    }

    unsafe fn import_buffer(&self, _params: BufferParams, external: &ExternalBuffer) -> Result<Arc<dyn Buffer>> {
        self.note((external.r#type, external.data, external.size));
        Ok(buffer(&[1]))
    }

    fn supports_virtual_memory(&self) -> bool {
        true
    }

    fn virtual_memory_reserve(&self, queue_affinity: QueueAffinity, size: u64) -> Result<Arc<dyn Buffer>> {
        self.note((queue_affinity, size));
        Ok(buffer(&[0; 4]))
    }

    fn physical_memory_allocate(&self, params: BufferParams, size: u64) -> Result<Arc<dyn PhysicalMemory>> {
        self.note((params, size));
        Ok(Arc::new(Mock::default()))
    }

    fn virtual_memory_map(
        &self,
        virtual_buffer: &Arc<dyn Buffer>,
        virtual_offset: u64,
        physical_memory: &Arc<dyn PhysicalMemory>,
        physical_offset: u64,
        size: u64,
    ) -> Result<()> {
        let any: &dyn Any = &**physical_memory;
        self.note((virtual_buffer.byte_length(), virtual_offset, any.is::<Mock>(), physical_offset, size));
        Ok(())
    }

    fn virtual_memory_protect(
        &self,
        _virtual_buffer: &Arc<dyn Buffer>,
        virtual_offset: u64,
        size: u64,
        queue_affinity: QueueAffinity,
        protection: MemoryProtection,
    ) -> Result<()> {
        self.note((virtual_offset, size, queue_affinity, protection));
        Ok(())
    }
}

#[test]
fn allocators_with_virtual_memory() {
    alike::<dyn Allocator, _>(
        |mock| mock,
        5,
        |allocator| {
            let (any, params) = (QueueAffinity::ANY, BufferParams { min_alignment: 4, ..BufferParams::default() });
            let addresses = allocator.virtual_memory_reserve(any, 4096).unwrap();
            let memory = allocator.physical_memory_allocate(params, 64).unwrap();
            allocator.virtual_memory_map(&addresses, 1, &memory, 2, 3).unwrap();
            let protection = MemoryProtection::READ | MemoryProtection::WRITE;
            allocator.virtual_memory_protect(&addresses, 0, 1, any, protection).unwrap();
            let owner: Arc<dyn Any + Send + Sync> = Arc::new(1);
            let data = NonNull::new(0x2000 as *mut u8).unwrap();
            let external =
                ExternalBuffer { r#type: ExternalBufferType::DeviceAllocation, data, size: 9, owner: owner.clone() };
            // SAFETY: the mock does not use the memory.
            let imported = unsafe { allocator.import_buffer(params, &external) }.unwrap();
            drop(external);
            let failures = [
                allocator.virtual_memory_unmap(&addresses, 0, 1).unwrap_err(),
                allocator.allocate_buffer(params, 1).unwrap_err(),
            ];
            let placement = allocator.buffer_compatibility(params, 7);
            let told = (allocator.statistics(), allocator.memory_heaps(), allocator.supports_virtual_memory());
            (told, placement, bytes(&imported), Arc::strong_count(&owner), failures.map(|failure| failure.to_string()))
        },
    );
}

#[test]
fn objects_without_methods() {
    let event: Arc<dyn Event> = Arc::new(Mock::default());
    let imported = through(&event).unwrap();
    assert_eq!(Arc::strong_count(&event), 2);
    drop(imported);
    assert_eq!(Arc::strong_count(&event), 1);
}
