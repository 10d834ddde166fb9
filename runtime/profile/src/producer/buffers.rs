//! Buffers of a device's allocator as events of memory: a session learns when one is allocated, and when its memory is
//! freed or used again.

use std::sync::{Arc, Weak};

use vireo_core::status::Result;
use vireo_hal::forward::ForwardAllocator;
use vireo_hal::{Allocator, Buffer, BufferParams, Forward, ProfilingDataFamilies};

use super::open::OpenSession;
use super::session::{Allocations, Session};
use super::work::Memory;
use crate::generated::format::{MemoryEventType, NONE};
use crate::generated::records::MemoryEvent;

/// The allocator of a device whose buffers are in profiles.
#[derive(Debug)]
pub(super) struct ProfiledAllocator {
    pub(super) inner: Arc<dyn Allocator>,
    pub(super) open: Arc<OpenSession>,
    pub(super) allocations: Arc<Allocations>,
}

impl ProfiledAllocator {
    /// The allocator, or the wrapper of `known` if that is of the same one.
    pub(super) fn of(
        inner: Arc<dyn Allocator>,
        known: &mut Option<Arc<Forward<ProfiledAllocator>>>,
        (open, allocations): (&Arc<OpenSession>, &Arc<Allocations>),
    ) -> Arc<dyn Allocator> {
        match known {
            Some(known) if Arc::ptr_eq(&known.0.inner, &inner) => known.clone(),
            known => {
                let (open, allocations) = (open.clone(), allocations.clone());
                known.insert(Arc::new(Forward(ProfiledAllocator { inner, open, allocations }))).clone()
            }
        }
    }
}

impl ForwardAllocator for ProfiledAllocator {
    fn inner(&self) -> &Arc<dyn Allocator> {
        &self.inner
    }

    fn allocate_buffer(&self, params: BufferParams, allocation_size: u64) -> Result<Arc<dyn Buffer>> {
        let buffer = self.inner.allocate_buffer(params, allocation_size)?;
        let Some(session) = self.open.session() else { return Ok(buffer) };
        // A buffer without a slot does not tell of its end, and an allocation without an end would be a leak.
        if let Some(slot) = buffer.watch_slot().filter(|_| session.has(ProfilingDataFamilies::MEMORY_EVENTS)) {
            let life = Life {
                session: Arc::downgrade(&session),
                allocation: self.allocations.next(),
                length: buffer.allocation_size(),
                memory: Memory {
                    memory_type: buffer.memory_type().bits().into(),
                    usage: buffer.allowed_usage().bits().into(),
                    alignment: params.min_alignment.max(1),
                },
            };
            life.add(&session, MemoryEventType::BUFFER_ALLOCATE);
            session.write_if_full();
            // A new buffer keeps nothing yet.
            slot.keep(Box::new(life))?;
        }
        Ok(buffer)
    }
}

/// The life of a buffer, which ends with its memory.
struct Life {
    session: Weak<Session>,
    allocation: u64,
    length: u64,
    memory: Memory,
}

impl Life {
    fn add(&self, session: &Session, r#type: MemoryEventType) {
        let time = session.clock.now();
        session.add(|events| {
            let event = MemoryEvent {
                record_length: MemoryEvent::SIZE as u32,
                r#type,
                result: NONE,
                event_id: events.next_memory_event(),
                host_time_ns: time,
                allocation_id: self.allocation,
                physical_device_ordinal: session.place.ordinal,
                queue_ordinal: NONE,
                memory_type: self.memory.memory_type,
                buffer_usage: self.memory.usage,
                length: self.length,
                alignment: self.memory.alignment,
                ..MemoryEvent::read(&[0; MemoryEvent::SIZE])
            };
            events.memory.extend_from_slice(&event.to_bytes());
        });
    }
}

impl Drop for Life {
    fn drop(&mut self) {
        if let Some(session) = self.session.upgrade() {
            self.add(&session, MemoryEventType::BUFFER_FREE);
        }
    }
}
