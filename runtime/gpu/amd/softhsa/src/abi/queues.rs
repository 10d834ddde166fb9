//! Queues and their indices.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use vireo_hsa::hsa::{
    Agent as AgentHandle, HsaStatus, MemoryPool, QueueErrorCallback, QueueInfo, QueuePriority, Region,
};
use vireo_hsa::queue::{HsaQueue, QueueFeatures, QueueType};
use vireo_hsa::signal::Signal as SignalHandle;

use super::pointers::{Attribute, Out, array, call};
use crate::agents::{MAX_WORKGROUP_SIZE, MIN_QUEUE_SIZE};
use crate::processor;
use crate::queue::{ErrorHandler, Queue, QueueOptions};
use crate::status::{Result, tell};
use crate::system::{System, system};

/// The queue that a pointer of a program names.
fn find(system: &System, queue: *const HsaQueue) -> Result<Arc<Queue>> {
    system.queue(queue.addr() as u64)
}

pub(crate) unsafe extern "C" fn hsa_queue_create(
    agent: AgentHandle,
    size: u32,
    r#type: QueueType,
    callback: Option<QueueErrorCallback>,
    data: *mut c_void,
    _private_segment_size: u32,
    _group_segment_size: u32,
    queue: *mut *mut HsaQueue,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(queue) }?;
        let agent = system.agent(agent)?;
        if !agent.is_gpu() || r#type == QueueType::COOPERATIVE {
            return Err(HsaStatus::ERROR_INVALID_QUEUE_CREATION);
        }
        let is_size = size.is_power_of_two() && (MIN_QUEUE_SIZE..=system.topology.queue_size).contains(&size);
        if !is_size || r#type.name().is_none() {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let one_more = |queues: u32| Some(queues + 1).filter(|queues| *queues <= system.topology.queues);
        let counted = agent.queues.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        counted.map_err(|_| HsaStatus::ERROR_OUT_OF_RESOURCES)?;
        let options = QueueOptions {
            size,
            queue_type: r#type,
            agent: agent.index,
            compute_units: system.topology.compute_units,
            waves: MAX_WORKGROUP_SIZE / system.topology.wave_size(),
            features: QueueFeatures(0).with_kernel_dispatch(true),
            error_handler: callback.map(|callback| ErrorHandler { callback, data }),
            doorbell: None,
        };
        let created = Queue::new(system.next_queue_id(), options).map(Arc::new);
        let added = created.and_then(|queue| system.add_queue(queue.clone()).map(|()| queue));
        let queue = added.inspect_err(|_| {
            agent.queues.fetch_sub(1, Ordering::Relaxed);
        })?;
        if processor::start(system, &queue).is_err() {
            system.remove_queue(queue.address())?;
            return Err(HsaStatus::ERROR_OUT_OF_RESOURCES);
        }
        out.set(std::ptr::with_exposed_provenance_mut(queue.address() as usize));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_soft_queue_create(
    region: Region,
    size: u32,
    r#type: QueueType,
    features: u32,
    doorbell_signal: SignalHandle,
    queue: *mut *mut HsaQueue,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(queue) }?;
        system.pool(MemoryPool(region.0)).map_err(|_| HsaStatus::ERROR_INVALID_REGION)?;
        let doorbell = Some(system.signals.get(doorbell_signal)?);
        if !size.is_power_of_two() || size > system.topology.queue_size || r#type.name().is_none() || features == 0 {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        let options = QueueOptions {
            size,
            queue_type: r#type,
            agent: 0,
            compute_units: 1,
            waves: 1,
            features: QueueFeatures(features),
            error_handler: None,
            doorbell,
        };
        let queue = Arc::new(Queue::new(system.next_queue_id(), options)?);
        system.add_queue(queue.clone())?;
        if let Some(agent) = system.agents.first() {
            agent.queues.fetch_add(1, Ordering::Relaxed);
        }
        out.set(std::ptr::with_exposed_provenance_mut(queue.address() as usize));
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_queue_destroy(queue: *mut HsaQueue) -> HsaStatus {
    call(|system| system.remove_queue(queue.addr() as u64))
}

pub(crate) unsafe extern "C" fn hsa_queue_inactivate(queue: *mut HsaQueue) -> HsaStatus {
    call(|system| {
        find(system, queue)?.end(&system.signals.bell);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_profiling_set_profiler_enabled(queue: *mut HsaQueue, enable: i32) -> HsaStatus {
    call(|system| {
        find(system, queue)?.set_profiling(enable != 0);
        Ok(())
    })
}

pub(crate) unsafe extern "C" fn hsa_amd_queue_get_info(
    queue: *mut HsaQueue,
    attribute: QueueInfo,
    value: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        let queue = find(system, queue)?;
        let number = match attribute {
            QueueInfo::AGENT => {
                system.agents.get(queue.agent as usize).ok_or(HsaStatus::ERROR_INVALID_QUEUE)?.handle().0
            }
            QueueInfo::DOORBELL_ID => queue.id,
            _ => return Err(HsaStatus::ERROR_INVALID_ARGUMENT),
        };
        value.set(&number.to_ne_bytes());
        Ok(())
    })
}

/// Queues take turns on the processor as its scheduler wants, so a priority changes nothing.
pub(crate) unsafe extern "C" fn hsa_amd_queue_set_priority(queue: *mut HsaQueue, priority: QueuePriority) -> HsaStatus {
    call(|system| {
        find(system, queue)?;
        if priority.name().is_some() { Ok(()) } else { Err(HsaStatus::ERROR_INVALID_ARGUMENT) }
    })
}

/// Kernels use the threads that there are, so a mask of compute units is checked and changes nothing.
pub(crate) unsafe extern "C" fn hsa_amd_queue_cu_set_mask(
    queue: *const HsaQueue,
    num_cu_mask_count: u32,
    cu_mask: *const u32,
) -> HsaStatus {
    call(|system| {
        find(system, queue)?;
        // Bits, of which 0 restores the mask of all units.
        if !num_cu_mask_count.is_multiple_of(32) {
            return Err(HsaStatus::ERROR_INVALID_ARGUMENT);
        }
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let mask = unsafe { array(cu_mask, num_cu_mask_count as usize / 32) }?;
        let highest = mask.iter().enumerate().rev().find(|(_, word)| **word != 0);
        let units = highest.map_or(0, |(index, word)| 32 * index as u32 + 32 - word.leading_zeros());
        if units > system.topology.compute_units { Err(HsaStatus::CU_MASK_REDUCED) } else { Ok(()) }
    })
}

/// Does something with the queue of a function without a status.
fn with<T: Default>(name: &str, queue: *const HsaQueue, action: impl FnOnce(&Queue) -> T) -> T {
    match system().and_then(|system| find(&system, queue)) {
        Ok(queue) => action(&queue),
        Err(status) => {
            tell(format_args!("{name}: {status:?} for the queue {queue:p}"));
            T::default()
        }
    }
}

/// Functions of an index of a queue. All have the order that is the strictest of them.
macro_rules! indices {
    ($($function:ident($($argument:ident),*) $(-> $result:ty)? => |$queue:ident| $action:expr;)*) => {
        $(pub(crate) unsafe extern "C" fn $function(queue: *const HsaQueue $(, $argument: u64)*) $(-> $result)? {
            with(stringify!($function), queue, |$queue| $action)
        })*
    };
}

indices! {
    hsa_queue_load_read_index_scacquire() -> u64 => |queue| queue.memory.read_index().load(Ordering::Acquire);
    hsa_queue_load_read_index_relaxed() -> u64 => |queue| queue.memory.read_index().load(Ordering::Acquire);
    hsa_queue_load_write_index_scacquire() -> u64 => |queue| queue.memory.write_index().load(Ordering::Acquire);
    hsa_queue_load_write_index_relaxed() -> u64 => |queue| queue.memory.write_index().load(Ordering::Acquire);
    hsa_queue_store_read_index_relaxed(value) => |queue| queue.memory.read_index().store(value, Ordering::Release);
    hsa_queue_store_read_index_screlease(value) => |queue| queue.memory.read_index().store(value, Ordering::Release);
    hsa_queue_store_write_index_relaxed(value) => |queue| queue.memory.write_index().store(value, Ordering::Release);
    hsa_queue_store_write_index_screlease(value) => |queue| queue.memory.write_index().store(value, Ordering::Release);
    hsa_queue_cas_write_index_scacq_screl(expected, value) -> u64 => |queue| exchange(queue, expected, value);
    hsa_queue_cas_write_index_scacquire(expected, value) -> u64 => |queue| exchange(queue, expected, value);
    hsa_queue_cas_write_index_relaxed(expected, value) -> u64 => |queue| exchange(queue, expected, value);
    hsa_queue_cas_write_index_screlease(expected, value) -> u64 => |queue| exchange(queue, expected, value);
    hsa_queue_add_write_index_scacq_screl(value) -> u64 => |queue| add(queue, value);
    hsa_queue_add_write_index_scacquire(value) -> u64 => |queue| add(queue, value);
    hsa_queue_add_write_index_relaxed(value) -> u64 => |queue| add(queue, value);
    hsa_queue_add_write_index_screlease(value) -> u64 => |queue| add(queue, value);
}

fn exchange(queue: &Queue, expected: u64, value: u64) -> u64 {
    let index = queue.memory.write_index();
    let (Ok(old) | Err(old)) = index.compare_exchange(expected, value, Ordering::AcqRel, Ordering::Acquire);
    old
}

fn add(queue: &Queue, value: u64) -> u64 {
    queue.memory.write_index().fetch_add(value, Ordering::AcqRel)
}
