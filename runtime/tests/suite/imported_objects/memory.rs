//! Pools, slabs and allocators.

use super::*;

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
            // SAFETY: the mock does nothing with the slab.
            unsafe { provider.release_slab(&slab) };
            (slab, bytes(&buffer), kept, provider.stats(), provider.properties())
        },
    );
}

impl PhysicalMemory for Mock {}

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
