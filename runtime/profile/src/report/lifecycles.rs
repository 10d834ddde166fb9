//! Sums of the lives of memory, of devices, pools and single allocations: slabs, reservations of pools, allocations
//! of queues, buffers and imports. `memory` shows all of it, `explain` the most of devices.

use std::collections::HashMap;

use super::balance::Balance;
use super::dispatches::Ordered;
use crate::generated::format::{
    MEMORY_EXTERNALLY_OWNED, MEMORY_POOL_RESERVATION, MEMORY_POOL_STATISTICS, MEMORY_QUEUE_OPERATION, MemoryEventType,
    NONE, QueueEventType,
};
use crate::generated::records::{MemoryEvent, QueueDeviceEvent};

/// A kind of life between two events.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Kind {
    Slab,
    Reservation,
    Queue,
    Buffer,
    Import,
}

impl Kind {
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::Slab => "slab",
            Kind::Reservation => "pool_reservation",
            Kind::Queue => "queue_allocation",
            Kind::Buffer => "buffer_allocation",
            Kind::Import => "imported_buffer",
        }
    }

    pub(super) fn of(event: &MemoryEvent) -> Option<Kind> {
        Some(match event.r#type {
            MemoryEventType::SLAB_ACQUIRE | MemoryEventType::SLAB_RELEASE => Kind::Slab,
            MemoryEventType::POOL_RESERVE
            | MemoryEventType::POOL_MATERIALIZE
            | MemoryEventType::POOL_RELEASE
            | MemoryEventType::POOL_WAIT => Kind::Reservation,
            MemoryEventType::QUEUE_ALLOCA | MemoryEventType::QUEUE_DEALLOCA => Kind::Queue,
            MemoryEventType::BUFFER_ALLOCATE | MemoryEventType::BUFFER_FREE => Kind::Buffer,
            MemoryEventType::BUFFER_IMPORT | MemoryEventType::BUFFER_UNIMPORT => Kind::Import,
            _ => return None,
        })
    }
}

/// Whether an event begins or ends a life, if it does either.
pub(super) fn opens(event: &MemoryEvent) -> Option<bool> {
    match event.r#type {
        MemoryEventType::SLAB_ACQUIRE
        | MemoryEventType::QUEUE_ALLOCA
        | MemoryEventType::BUFFER_ALLOCATE
        | MemoryEventType::BUFFER_IMPORT => Some(true),
        MemoryEventType::POOL_RESERVE => (event.flags & MEMORY_POOL_RESERVATION != 0).then_some(true),
        MemoryEventType::SLAB_RELEASE
        | MemoryEventType::POOL_RELEASE
        | MemoryEventType::QUEUE_DEALLOCA
        | MemoryEventType::BUFFER_FREE
        | MemoryEventType::BUFFER_UNIMPORT => Some(false),
        _ => None,
    }
}

#[derive(Debug, Default)]
pub(super) struct OfDevice {
    pub(super) events: u64,
    /// By the numbers of types.
    pub(super) types: [u64; 13],
    pub(super) slabs: Balance,
    pub(super) reserved: Balance,
    pub(super) materialized: Balance,
    pub(super) queue: Balance,
    pub(super) buffers: Balance,
    pub(super) imports: Balance,
}

impl OfDevice {
    /// Each kind of memory, with its name in rows and in lines for people.
    pub(super) fn balances(&self) -> [(&'static str, &'static str, &Balance); 6] {
        [
            ("slab", "slab_provider_events", &self.slabs),
            ("pool_reserved", "pool_reservations", &self.reserved),
            ("pool_materialized", "pool_materializations", &self.materialized),
            ("queue_inflight", "queue_inflight_allocations", &self.queue),
            ("buffer", "buffer_allocations", &self.buffers),
            ("imported_buffer", "buffer_imports", &self.imports),
        ]
    }
}

#[derive(Debug, Default)]
pub(super) struct Pool {
    pub(super) usage: u64,
    pub(super) events: u64,
    pub(super) waits: u64,
    pub(super) materializes: u64,
    pub(super) life: Balance,
    pub(super) materialized: Balance,
    pub(super) statistics: Option<Statistics>,
}

/// The numbers that a pool says of itself: the last of each, and the most or the least.
#[derive(Clone, Copy, Debug)]
pub(super) struct Statistics {
    pub(super) samples: u64,
    pub(super) reserved: (u64, u64),
    pub(super) free: (u64, u64),
    pub(super) committed: (u64, u64),
    pub(super) budget: u64,
    pub(super) reservations: (u32, u32),
    pub(super) slabs: (u32, u32),
}

impl Statistics {
    pub(super) fn add(before: Option<Statistics>, event: &MemoryEvent) -> Statistics {
        let most = |before: Option<u64>, now: u64| (now, before.map_or(now, |before| before.max(now)));
        let most_of = |before: Option<u32>, now: u32| (now, before.map_or(now, |before| before.max(now)));
        Statistics {
            samples: before.map_or(0, |before| before.samples) + 1,
            reserved: most(before.map(|before| before.reserved.1), event.pool_bytes_reserved),
            free: (
                event.pool_bytes_free,
                before.map_or(event.pool_bytes_free, |before| before.free.1.min(event.pool_bytes_free)),
            ),
            committed: most(before.map(|before| before.committed.1), event.pool_bytes_committed),
            budget: event.pool_budget_limit,
            reservations: most_of(before.map(|before| before.reservations.1), event.pool_reservation_count),
            slabs: most_of(before.map(|before| before.slabs.1), event.pool_slab_count),
        }
    }
}

#[derive(Debug, Default)]
pub(super) struct Allocation {
    pub(super) backing: u64,
    pub(super) is_external: bool,
    pub(super) memory_type: u64,
    pub(super) usage: u64,
    pub(super) events: u64,
    pub(super) waits: u64,
    pub(super) materializes: u64,
    pub(super) first_event: u64,
    pub(super) last_event: u64,
    pub(super) times: (i64, i64),
    pub(super) submissions: (u64, u64),
    pub(super) queues: (u32, u32),
    pub(super) life: Balance,
    pub(super) materialized: Balance,
}

impl Allocation {
    /// Whether bytes of it live.
    pub(super) fn is_open(&self) -> bool {
        self.life.bytes != 0 || self.materialized.bytes != 0
    }
}

/// Kind, device, pool and type of memory.
pub(super) type PoolKey = (Kind, u32, u64, u64);
/// Kind, device, allocation and pool.
pub(super) type AllocationKey = (Kind, u32, u64, u64);

#[derive(Debug, Default)]
pub(super) struct Memory {
    pub(super) total: u64,
    pub(super) matched: u64,
    pub(super) truncated: u64,
    pub(super) devices: Ordered<u32, OfDevice>,
    pub(super) pools: Ordered<PoolKey, Pool>,
    pub(super) allocations: Ordered<AllocationKey, Allocation>,
    /// The pool of each queue allocation, for events that do not say it.
    pub(super) queue_pools: HashMap<(u32, u64), u64>,
    /// Events of devices by device, allocation and whether it begins.
    pub(super) device_events: HashMap<(u32, u64, bool), QueueDeviceEvent>,
}

impl Memory {
    pub(super) fn add_device_event(&mut self, event: QueueDeviceEvent) {
        let begins = match event.r#type {
            QueueEventType::ALLOCA => true,
            QueueEventType::DEALLOCA => false,
            _ => return,
        };
        let key = (event.physical_device_ordinal, event.allocation_id, begins);
        self.device_events.entry(key).or_insert(event);
    }

    pub(super) fn add(&mut self, event: &MemoryEvent) {
        let ordinal = event.physical_device_ordinal;
        let device = self.devices.get(ordinal);
        device.events += 1;
        if let Some(count) = device.types.get_mut(event.r#type.0 as usize) {
            *count += 1;
        }
        let Some(kind) = Kind::of(event) else {
            self.add_statistics(event);
            return;
        };
        let mut pool_id = event.pool_id;
        if kind == Kind::Queue {
            match pool_id {
                0 => pool_id = self.queue_pools.get(&(ordinal, event.allocation_id)).copied().unwrap_or(0),
                pool => drop(self.queue_pools.insert((ordinal, event.allocation_id), pool)),
            }
        }
        let is_tracked = kind != Kind::Reservation || event.flags & MEMORY_POOL_RESERVATION != 0;
        let materializes = event.r#type == MemoryEventType::POOL_MATERIALIZE;
        let waits = event.r#type == MemoryEventType::POOL_WAIT;
        let opens = opens(event);
        // Materialized memory counts with and without a reservation; a release ends what was materialized of its own.
        let materialized = match event.r#type {
            MemoryEventType::POOL_MATERIALIZE => Some(true),
            MemoryEventType::POOL_RELEASE if is_tracked => {
                let known = self.allocations.get((kind, ordinal, event.allocation_id, pool_id));
                (known.materialized.current != 0 || known.materialized.bytes != 0).then_some(false)
            }
            _ => None,
        };
        let device = self.devices.get(ordinal);
        let of_device = match kind {
            Kind::Slab => &mut device.slabs,
            Kind::Reservation => &mut device.reserved,
            Kind::Queue => &mut device.queue,
            Kind::Buffer => &mut device.buffers,
            Kind::Import => &mut device.imports,
        };
        if let Some(opens) = opens {
            of_device.add(opens, event.length);
        }
        if let Some(opens) = materialized {
            device.materialized.add(opens, event.length);
        }
        let pool = self.pools.get((kind, ordinal, pool_id, event.memory_type));
        pool.usage |= event.buffer_usage;
        pool.events += 1;
        pool.waits += u64::from(waits);
        pool.materializes += u64::from(materializes);
        if let Some(opens) = opens {
            pool.life.add(opens, event.length);
        }
        if let Some(opens) = materialized {
            pool.materialized.add(opens, event.length);
        }
        self.add_statistics(event);
        if !is_tracked {
            return;
        }
        let allocation = self.allocations.get((kind, ordinal, event.allocation_id, pool_id));
        if allocation.events == 0 {
            allocation.first_event = event.event_id;
            allocation.times.0 = event.host_time_ns;
            allocation.submissions.0 = event.submission_id;
            allocation.queues = (NONE, NONE);
        }
        allocation.events += 1;
        allocation.last_event = event.event_id;
        allocation.times.1 = event.host_time_ns;
        allocation.submissions.1 = event.submission_id;
        if event.flags & MEMORY_QUEUE_OPERATION != 0 {
            let first = allocation.queues.0;
            allocation.queues = (if first == NONE { event.queue_ordinal } else { first }, event.queue_ordinal);
        }
        allocation.waits += u64::from(waits);
        allocation.materializes += u64::from(materializes);
        allocation.is_external |= event.flags & MEMORY_EXTERNALLY_OWNED != 0;
        if event.backing_id != 0 {
            allocation.backing = event.backing_id;
        }
        allocation.memory_type |= event.memory_type;
        allocation.usage |= event.buffer_usage;
        if let Some(opens) = opens {
            allocation.life.add(opens, event.length);
        }
        if let Some(opens) = materialized {
            allocation.materialized.add(opens, event.length);
        }
    }

    /// Adds what a pool says of itself, if the event says of which pool.
    fn add_statistics(&mut self, event: &MemoryEvent) {
        if event.flags & MEMORY_POOL_STATISTICS == 0 || event.pool_id == 0 {
            return;
        }
        let key = (Kind::Reservation, event.physical_device_ordinal, event.pool_id, event.memory_type);
        let pool = self.pools.get(key);
        pool.usage |= event.buffer_usage;
        pool.statistics = Some(Statistics::add(pool.statistics, event));
    }
}
