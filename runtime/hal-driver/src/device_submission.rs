//! The operations of a device whose queues are [`Core`]s, and whose commands a [`Recorder`] records
//! ([`DeviceSubmission`]): each becomes a program, something that the host does, or a barrier.

use std::any::Any;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use crate::deferred::{DeferredCommandBuffer, DispatchRequest, EachRecorder, OfOneDevice, Recorder, Same};
use crate::device_alloca::{Begun, DeviceAllocator, Source, own as own_allocator};
use crate::device_queue::{Core, Hardware, HostWorkers, Job, Payload, Request, is_driver_thread, refuse};
use crate::device_slabs::{DeviceSlabs, SlabAllocator};
use crate::hal::{
    AllocaFlags, Buffer, BufferBinding, BufferParams, BufferRef, CommandBuffer, MAX_UPDATE_SIZE, Pool, QueueAffinity,
    QueueOperation, SlabProvider, Timepoint, check_range,
};
use crate::limits::scope::{self, Scope};
use crate::memory_source::DeviceMemory as TransientMemory;
use crate::queue::{WaitAndSignal, call_host, decommit, host_call_context};
use crate::staging::{Place, Staging, StagingQueue, StagingSlots};
use crate::status::{Result, Status};

/// An allocator with memory that both the host and the device of a queue reach.
pub trait StagingAllocator: Send + Sync + 'static {
    /// So many bytes of it.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` if there is none.
    fn staging_memory(&self, affinity: QueueAffinity, length: u64) -> Result<Arc<dyn Buffer>>;
}

/// The copies of transfers that are staged, which a queue makes.
pub struct RecordedStaging<H: Hardware, R: Recorder, A> {
    queue: Arc<Core<H>>,
    affinity: QueueAffinity,
    target: R::Device,
    allocator: Arc<A>,
}

impl<H, R, A> StagingQueue for RecordedStaging<H, R, A>
where
    H: Hardware,
    H::Job: for<'r> Job<H, Ref<'r> = (&'r Arc<R::Program>, &'r [BufferBinding])>,
    R: OfOneDevice,
    A: StagingAllocator,
{
    fn memory(&self, length: u64) -> Result<Arc<dyn Buffer>> {
        self.allocator.staging_memory(self.affinity, length)
    }

    fn copy(&self, source: Place<'_>, target: Place<'_>, length: u64, signal: Timepoint) -> Result<()> {
        let mut recorder = R::new(&self.target, 0, false);
        recorder.copy(&range(source.0, source.1, length), &range(target.0, target.1, length))?;
        let program = recorder.finish(&self.target)?;
        self.queue.submit_job((&[], &[signal]), Some((&program, &[])), None, Scope::current(), true);
        Ok(())
    }
}

/// A range of a buffer.
fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

/// A queue that operations are submitted to.
pub struct DeviceSubmission<'a, H: Hardware, R: Recorder> {
    /// The queue.
    pub core: &'a Arc<Core<H>>,
    /// Its affinity.
    pub affinity: QueueAffinity,
    /// The device that its commands are recorded for.
    pub target: &'a R::Device,
    /// The threads of the device for what the host does.
    pub workers: &'a Arc<HostWorkers>,
}

impl<H, R> DeviceSubmission<'_, H, R>
where
    H: Hardware,
    H::Job: for<'r> Job<H, Ref<'r> = (&'r Arc<R::Program>, &'r [BufferBinding])>,
    R: OfOneDevice,
{
    fn program(&self, points: WaitAndSignal<'_>, job: Option<(&Arc<R::Program>, &[BufferBinding])>) {
        self.core.submit_job(points, job, None, Scope::current(), true);
    }

    /// Records the commands of one submission and submits it.
    fn recorded(&self, points: WaitAndSignal<'_>, record: impl FnOnce(&mut R) -> Result<()>) -> Result<()> {
        let mut recorder = R::new(self.target, 0, false);
        record(&mut recorder)?;
        self.program(points, Some((&recorder.finish(self.target)?, &[])));
        Ok(())
    }

    /// Something that the host does when all points are reached.
    fn host(&self, points: WaitAndSignal<'_>, action: impl FnOnce(&[Timepoint]) -> Result<()> + Send + 'static) {
        let scope = Scope::current();
        let action = move |signal: &[Timepoint]| {
            let _entered = scope.enter();
            scope::check()?;
            action(signal)
        };
        let payload = Payload::Host(Box::new(action), self.workers.clone());
        let request = Request { wait: points.0.to_vec(), signal: points.1.to_vec(), payload, reclaim: None };
        self.core.submit(request, Scope::current(), true);
    }

    /// Submits what was recorded for the device of the queue.
    fn execute(
        &self,
        points: WaitAndSignal<'_>,
        command_buffer: &Arc<dyn CommandBuffer>,
        binding_table: &[BufferBinding],
    ) -> Result<()> {
        let any: &dyn Any = &**command_buffer;
        let elsewhere =
            || Status::invalid_argument("the command buffer was recorded for other GPUs than that of the queue");
        if let Some(own) = any.downcast_ref::<DeferredCommandBuffer<R>>() {
            if !own.device().is_same(self.target) {
                return Err(elsewhere());
            }
            let program = own.take_program()?;
            self.program(points, Some((&program, binding_table)));
            return Ok(());
        }
        let Some(own) = any.downcast_ref::<DeferredCommandBuffer<EachRecorder<R>>>() else {
            return Err(Status::invalid_argument("the command buffer was recorded for another kind of device"));
        };
        if !own.device().iter().any(|other| other.is_same(self.target)) {
            return Err(elsewhere());
        }
        let programs = own.take_program()?;
        let program = programs.of(self.target).ok_or_else(elsewhere)?;
        self.program(points, Some((program, binding_table)));
        Ok(())
    }

    /// Submits an operation. Files are read and written through memory of `allocator` where the host does not reach
    /// the buffers.
    ///
    /// # Errors
    /// As for `Device::submit`.
    pub fn submit<A: StagingAllocator>(
        &self,
        points: WaitAndSignal<'_>,
        operation: QueueOperation<'_>,
        (allocator, slots): (&Arc<A>, &Arc<StagingSlots>),
    ) -> Result<()> {
        self.workers.check_process()?;
        let signal = points.1;
        let staging = || {
            let (queue, target, allocator) = (self.core.clone(), self.target.clone(), allocator.clone());
            let queue = RecordedStaging::<H, R, A> { queue, affinity: self.affinity, target, allocator };
            Staging { queue, slots: slots.clone() }
        };
        match operation {
            QueueOperation::Dealloca { buffer, flags: _ } => {
                let buffer = buffer.clone();
                let reclaim = Box::new(move || decommit(&buffer));
                self.core.submit_job(points, None, Some(reclaim), Scope::current(), true);
                Ok(())
            }
            QueueOperation::Fill { target_buffer, target_offset, length, pattern, flags: _ } => {
                let target = range(target_buffer, target_offset, length);
                let recorded = self.recorded(points, |recorder| recorder.fill(&target, pattern));
                recorded.or_else(|status| refuse(signal, status))
            }
            QueueOperation::Update { source, target_buffer, target_offset, flags: _ } => {
                let recorded = self.recorded(points, |recorder| {
                    // In pieces that fit a block.
                    for (index, piece) in source.chunks(MAX_UPDATE_SIZE as usize).enumerate() {
                        let offset = target_offset.saturating_add(index as u64 * MAX_UPDATE_SIZE);
                        recorder.update(piece, &range(target_buffer, offset, piece.len() as u64))?;
                    }
                    Ok(())
                });
                recorded.or_else(|status| refuse(signal, status))
            }
            QueueOperation::Copy { source_buffer, source_offset, target_buffer, target_offset, length, flags: _ } => {
                // The rest of the source, if the length does not say more.
                let length = match check_range(source_buffer.byte_length(), source_offset, length) {
                    Ok(length) => length,
                    Err(status) => return refuse(signal, status),
                };
                let source = range(source_buffer, source_offset, length);
                let target = range(target_buffer, target_offset, length);
                let recorded = self.recorded(points, |recorder| recorder.copy(&source, &target));
                recorded.or_else(|status| refuse(signal, status))
            }
            QueueOperation::Read { source_file, source_offset, target_buffer, target_offset, length, flags: _ } => {
                let (file, buffer, staging) = (source_file.clone(), target_buffer.clone(), staging());
                self.host(points, move |_| staging.read((&file, source_offset), (&buffer, target_offset), length));
                Ok(())
            }
            QueueOperation::Write { source_buffer, source_offset, target_file, target_offset, length, flags: _ } => {
                let (file, buffer, staging) = (target_file.clone(), source_buffer.clone(), staging());
                self.host(points, move |_| staging.write((&buffer, source_offset), (&file, target_offset), length));
                Ok(())
            }
            QueueOperation::HostCall { call, args, flags } => {
                let (call, context) = (call.clone(), host_call_context(self.affinity, args)?);
                self.host(points, move |signal| call_host(&*call, context, flags, signal));
                Ok(())
            }
            QueueOperation::Dispatch { executable, function, config, constants, bindings, flags } => {
                let request = DispatchRequest { executable, function, config, constants, bindings, flags };
                self.recorded(points, |recorder| recorder.dispatch(self.target, request))
            }
            QueueOperation::Execute { command_buffer, binding_table, flags: _ } => {
                self.execute(points, command_buffer, binding_table)
            }
            QueueOperation::Barrier { flags: _ } => {
                self.program(points, None);
                Ok(())
            }
        }
    }

    /// Submits an allocation of a transient buffer, from the allocator `A` of the device or from a pool.
    ///
    /// # Errors
    /// As for `Device::queue_alloca`.
    pub fn alloca<A: DeviceAllocator>(
        &self,
        points: WaitAndSignal<'_>,
        (memory, zeroed): (&TransientMemory, bool),
        pool: Option<&Arc<dyn Pool>>,
        (params, allocation_size, flags): (BufferParams, u64, AllocaFlags),
    ) -> Result<Arc<dyn Buffer>> {
        let (wait, signal) = points;
        let source = Source::<A>::new(memory, zeroed, pool);
        let is_first = wait.iter().all(|point| point.semaphore.query().is_ok_and(|value| value >= point.value));
        let may_wait = flags.contains(AllocaFlags::ALLOW_POOL_WAIT_FRONTIER);
        scope::check()?;
        let (transient, begun) = Begun::attempt(source, params, allocation_size, (is_first, may_wait));
        transient.reserved_by(self.affinity, flags);
        match begun {
            Begun::Done => self.program(points, None),
            Begun::Later(allocation) => self.host(points, |signal| allocation.run(signal)),
            Begun::Refused(status) => refuse(signal, status)?,
        }
        Ok(transient)
    }
}

/// The slabs of the allocator `A` of a device, for pools of the host.
///
/// # Errors
/// `UNIMPLEMENTED` if the host has put another allocator in its place.
pub fn pool_backend<A: SlabAllocator>(
    memory: &TransientMemory,
    affinity: QueueAffinity,
) -> Result<Arc<dyn SlabProvider>>
where
    A::Memory: std::fmt::Debug,
{
    let own = own_allocator::<A>(&memory.allocator());
    let own = own.ok_or_else(|| {
        Status::unimplemented("`device.queue_pool_backend`: the allocator of the device gives out no slabs")
    })?;
    Ok(Arc::new(DeviceSlabs::new(own, affinity)?))
}

/// Drops the queues of a device. A thread of a queue ends no device: there another thread does, which is called
/// `name`, if there is one.
pub fn end_queues<T: Send + 'static>(name: &str, queues: &mut Vec<T>) {
    if is_driver_thread() {
        let queues = Arc::new(Mutex::new(std::mem::take(queues)));
        let run = move || queues.lock().unwrap_or_else(PoisonError::into_inner).clear();
        // If there is no other, queues do not wait for their threads on this one.
        let _ = thread::Builder::new().name(name.to_string()).spawn(run);
    }
}
