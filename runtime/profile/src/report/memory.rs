//! `memory`: allocations, and the most memory that was in use, of devices, pools and single allocations.

use std::io::{self, Write};

use vireo_core::record_fields::{json_text, known};

use super::catalog::Catalog;
use super::lifecycles::{Allocation, AllocationKey, Kind, Memory, OfDevice, Pool, PoolKey, Statistics};
use super::{ReportFilter, each_record};
use crate::ReportFormat;
use crate::generated::contents::Content;
use crate::generated::format::{MEMORY_EXTERNALLY_OWNED, MEMORY_POOL_STATISTICS, MemoryEventType, TRUNCATED_CHUNK};
use crate::generated::records::{MemoryEvent, QueueDeviceEvent};
use crate::reader::{OutputError, Reader};

/// Writes allocations and the most memory in use, as `iree-profile memory` does.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn memory(
    reader: &mut Reader,
    filter: &ReportFilter,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let catalog = Catalog::read(reader)?;
    let mut memory = Memory::default();
    let mut failure = None;
    each_record(reader, |chunk, content, record| {
        match content {
            Content::QueueDeviceEvents => memory.add_device_event(QueueDeviceEvent::read(&record.head()?)),
            Content::MemoryEvents => {
                let event = MemoryEvent::read(&record.head()?);
                memory.total += 1;
                let is_of = filter.id.is_none_or(|id| event.event_id == id || event.allocation_id == id);
                if !is_of || !filter.matches(known(event.r#type.name()).as_bytes()) {
                    return Ok(());
                }
                memory.matched += 1;
                memory.truncated += u64::from(chunk.header.chunk_flags & TRUNCATED_CHUNK != 0);
                if format == ReportFormat::Jsonl && failure.is_none() {
                    failure = event_row(&event, out).err();
                }
                memory.add(&event);
            }
            _ => {}
        }
        Ok(())
    })?;
    failure.map_or(Ok(()), Err)?;
    let open = memory.allocations.all.iter().filter(|(_, one)| one.is_open()).count();
    let partial: u64 = memory.allocations.all.iter().map(|(_, one)| one.life.partial + one.materialized.partial).sum();
    let Memory { total, matched, truncated, .. } = memory;
    let (devices, pools) = (memory.devices.all.len(), memory.pools.all.len());
    let lives = memory.allocations.all.len();
    let (chunks, dropped) = catalog.truncated(&[Content::MemoryEvents]);
    match format {
        ReportFormat::Text => {
            writeln!(out, "IREE HAL profile memory summary")?;
            writeln!(out, "filter: {}", filter.pattern)?;
            if let Some(id) = filter.id {
                writeln!(out, "id_filter: {id}")?;
            }
            writeln!(
                out,
                "events: total={total} matched={matched} truncated_chunks={chunks} dropped_records={dropped} \
                 truncated_matched={truncated} devices={devices} pools={pools} allocation_lifecycles={lives} \
                 open_lifecycles={open} partial_closes={partial}"
            )?;
        }
        ReportFormat::Jsonl => {
            let id = filter.id.map_or_else(|| "-1".to_string(), |id| id.to_string());
            writeln!(
                out,
                "{{\"type\":\"memory_summary\",\"filter\":{},\"id_filter\":{id},\"total_events\":{total},\
                 \"matched_events\":{matched},\"truncated_chunks\":{chunks},\"dropped_records\":{dropped},\
                 \"truncated_matched_events\":{truncated},\"devices\":{devices},\"pools\":{pools},\
                 \"allocation_lifecycles\":{lives},\"open_allocation_lifecycles\":{open},\
                 \"partial_lifecycle_closes\":{partial}}}",
                json_text(filter.pattern.as_bytes())
            )?;
        }
    }
    memory.devices.all.iter().try_for_each(|(ordinal, device)| of_device(*ordinal, device, format, out))?;
    memory.pools.all.iter().try_for_each(|(key, pool)| of_pool(key, pool, format, out))?;
    // For people allocations are there if one is asked for.
    if format == ReportFormat::Jsonl || filter.id.is_some() {
        for (key, allocation) in &memory.allocations.all {
            of_allocation(&catalog, &memory, key, allocation, format, out)?;
        }
    }
    Ok(())
}

fn event_row(event: &MemoryEvent, out: &mut dyn Write) -> io::Result<()> {
    writeln!(
        out,
        "{{\"type\":\"memory_event\",\"event_id\":{},\"event_type\":\"{}\",\"event_type_value\":{},\"flags\":{},\
         \"result\":{},\"host_time_ns\":{},\"allocation_id\":{},\"host_time_domain\":\"iree_host_time_ns\",\
         \"pool_id\":{},\"backing_id\":{},\"submission_id\":{},\"physical_device_ordinal\":{},\"queue_ordinal\":{},\
         \"frontier_entry_count\":{},\"memory_type\":{},\"buffer_usage\":{},\"offset\":{},\"length\":{},\
         \"alignment\":{},\"externally_owned\":{},\"pool_stats_available\":{},\"pool_bytes_reserved\":{},\
         \"pool_bytes_free\":{},\"pool_bytes_committed\":{},\"pool_budget_limit\":{},\"pool_reservation_count\":{},\
         \"pool_slab_count\":{}}}",
        event.event_id,
        known(event.r#type.name()),
        event.r#type.0,
        event.flags,
        event.result,
        event.host_time_ns,
        event.allocation_id,
        event.pool_id,
        event.backing_id,
        event.submission_id,
        event.physical_device_ordinal,
        event.queue_ordinal,
        event.frontier_entry_count,
        event.memory_type,
        event.buffer_usage,
        event.offset,
        event.length,
        event.alignment,
        event.flags & MEMORY_EXTERNALLY_OWNED != 0,
        event.flags & MEMORY_POOL_STATISTICS != 0,
        event.pool_bytes_reserved,
        event.pool_bytes_free,
        event.pool_bytes_committed,
        event.pool_budget_limit,
        event.pool_reservation_count,
        event.pool_slab_count
    )
}

fn of_device(ordinal: u32, device: &OfDevice, format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
    let count = |r#type: MemoryEventType| device.types[r#type.0 as usize];
    let counts = [
        ("slab_acquires", MemoryEventType::SLAB_ACQUIRE),
        ("slab_releases", MemoryEventType::SLAB_RELEASE),
        ("pool_reserves", MemoryEventType::POOL_RESERVE),
        ("pool_materializes", MemoryEventType::POOL_MATERIALIZE),
        ("pool_releases", MemoryEventType::POOL_RELEASE),
        ("pool_waits", MemoryEventType::POOL_WAIT),
        ("queue_allocas", MemoryEventType::QUEUE_ALLOCA),
        ("queue_deallocas", MemoryEventType::QUEUE_DEALLOCA),
        ("buffer_allocates", MemoryEventType::BUFFER_ALLOCATE),
        ("buffer_frees", MemoryEventType::BUFFER_FREE),
        ("buffer_imports", MemoryEventType::BUFFER_IMPORT),
        ("buffer_unimports", MemoryEventType::BUFFER_UNIMPORT),
    ];
    let balances = device.balances();
    if format == ReportFormat::Jsonl {
        write!(out, "{{\"type\":\"memory_device\",\"physical_device_ordinal\":{ordinal},\"events\":{}", device.events)?;
        for (name, r#type) in counts {
            write!(out, ",\"{name}\":{}", count(r#type))?;
        }
        for (name, _, balance) in balances {
            write!(out, ",{}", balance.row(name))?;
        }
        return writeln!(out, "}}");
    }
    let [acquires, releases, reserves, materializes, pool_releases, waits, allocas, deallocas, rest @ ..] =
        counts.map(|(_, r#type)| count(r#type));
    writeln!(
        out,
        "device[{ordinal}]: events={} slab_acquire/release={acquires}/{releases} \
         pool_reserve/materialize/release/wait={reserves}/{materializes}/{pool_releases}/{waits} \
         queue_alloca/dealloca={allocas}/{deallocas} buffer_allocate/free={}/{} buffer_import/unimport={}/{}",
        device.events, rest[0], rest[1], rest[2], rest[3]
    )?;
    balances.into_iter().try_for_each(|(_, name, balance)| writeln!(out, "  {name}: {}", balance.text()))
}

fn of_pool(
    (kind, device, id, memory_type): &PoolKey,
    pool: &Pool,
    format: ReportFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Pool { usage, events, waits, materializes, life, materialized, statistics } = pool;
    let kind_name = kind.name();
    let zero = Statistics {
        samples: 0,
        reserved: (0, 0),
        free: (0, 0),
        committed: (0, 0),
        budget: 0,
        reservations: (0, 0),
        slabs: (0, 0),
    };
    let Statistics { samples, reserved, free, committed, budget, reservations, slabs } = statistics.unwrap_or(zero);
    if format == ReportFormat::Jsonl {
        return writeln!(
            out,
            "{{\"type\":\"memory_pool\",\"kind\":\"{kind_name}\",\"physical_device_ordinal\":{device},\
             \"pool_id\":{id},\"memory_type\":{memory_type},\"buffer_usage\":{usage},\"events\":{events},\
             \"waits\":{waits},\"materializes\":{materializes},{},{},\"pool_stats_available\":{},\
             \"pool_stats_samples\":{samples},\"pool_bytes_reserved\":{},\"pool_bytes_reserved_high_water\":{},\
             \"pool_bytes_free\":{},\"pool_bytes_free_low_water\":{},\"pool_bytes_committed\":{},\
             \"pool_bytes_committed_high_water\":{},\"pool_budget_limit\":{budget},\"pool_reservation_count\":{},\
             \"pool_reservation_high_water_count\":{},\"pool_slab_count\":{},\"pool_slab_high_water_count\":{}}}",
            life.row("lifecycle"),
            materialized.row("materialized"),
            statistics.is_some(),
            reserved.0,
            reserved.1,
            free.0,
            free.1,
            committed.0,
            committed.1,
            reservations.0,
            reservations.1,
            slabs.0,
            slabs.1
        );
    }
    write!(
        out,
        "pool[{kind_name} device={device} id={id} memory_type={memory_type}]: events={events} waits={waits} \
         materializes={materializes} {}",
        life.text()
    )?;
    if *kind == Kind::Reservation {
        write!(
            out,
            " materialized_at_end={} materialized_high_water_bytes={}",
            materialized.current, materialized.most_bytes
        )?;
    }
    if statistics.is_some() {
        write!(
            out,
            " pool_stats_samples={samples} pool_bytes_reserved={} pool_bytes_reserved_high_water={} \
             pool_bytes_free={} pool_bytes_free_low_water={} pool_bytes_committed={} \
             pool_bytes_committed_high_water={} pool_budget_limit={budget} pool_reservations={} \
             pool_reservation_high_water={} pool_slabs={} pool_slab_high_water={}",
            reserved.0,
            reserved.1,
            free.0,
            free.1,
            committed.0,
            committed.1,
            reservations.0,
            reservations.1,
            slabs.0,
            slabs.1
        )?;
    }
    writeln!(out)
}

fn of_allocation(
    catalog: &Catalog,
    memory: &Memory,
    (kind, device, id, pool): &AllocationKey,
    allocation: &Allocation,
    format: ReportFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let Allocation { backing, is_external, memory_type, usage, events, waits, materializes, .. } = allocation;
    let Allocation { first_event, last_event, life, materialized, .. } = allocation;
    let (kind_name, is_open) = (kind.name(), allocation.is_open());
    let duration = allocation.times.1.saturating_sub(allocation.times.0).max(0);
    let event = |begins: bool| memory.device_events.get(&(*device, *id, begins)).filter(|_| *kind == Kind::Queue);
    // Of events that the filter leaves out the device's are left out, too.
    let begin = event(true).filter(|_| life.opened != 0);
    let end = event(false).filter(|_| life.closed != 0);
    let (begin_id, end_id) = (begin.map_or(0, |event| event.event_id), end.map_or(0, |event| event.event_id));
    let span = begin.zip(end).map(|(begin, end)| (begin.start_tick, end.end_tick));
    let span = span.filter(|(start, end)| *start != 0 && end >= start);
    let ticks = span.map_or(0, |(start, end)| end - start);
    let nanoseconds = span.and_then(|_| catalog.fit(*device)?.duration_ns(ticks));
    if format == ReportFormat::Jsonl {
        return writeln!(
            out,
            "{{\"type\":\"memory_allocation\",\"kind\":\"{kind_name}\",\"physical_device_ordinal\":{device},\
             \"allocation_id\":{id},\"pool_id\":{pool},\"backing_id\":{backing},\"externally_owned\":{is_external},\
             \"memory_type\":{memory_type},\"buffer_usage\":{usage},\"events\":{events},\"waits\":{waits},\
             \"materializes\":{materializes},\"open_at_end\":{is_open},\"first_event_id\":{first_event},\
             \"last_event_id\":{last_event},\"first_host_time_ns\":{},\"last_host_time_ns\":{},\
             \"host_time_domain\":\"iree_host_time_ns\",\"duration_ns\":{duration},\"first_submission_id\":{},\
             \"last_submission_id\":{},\"first_queue_ordinal\":{},\"last_queue_ordinal\":{},\
             \"alloca_device_event_id\":{begin_id},\"dealloca_device_event_id\":{end_id},\
             \"device_lifetime_available\":{},\"device_lifetime_start_tick\":{},\"device_lifetime_end_tick\":{},\
             \"device_lifetime_duration_ticks\":{ticks},\"device_lifetime_time_ns_available\":{},\
             \"device_lifetime_duration_ns\":{},{},{}}}",
            allocation.times.0,
            allocation.times.1,
            allocation.submissions.0,
            allocation.submissions.1,
            allocation.queues.0,
            allocation.queues.1,
            span.is_some(),
            span.map_or(0, |(start, _)| start),
            span.map_or(0, |(_, end)| end),
            nanoseconds.is_some(),
            nanoseconds.unwrap_or(0),
            life.row("lifecycle"),
            materialized.row("materialized")
        );
    }
    writeln!(
        out,
        "allocation[{kind_name} device={device} id={id} pool={pool} backing={backing} externally_owned={is_external}]: \
         events={events} waits={waits} materializes={materializes} open_at_end={is_open} {} first_event={first_event} \
         last_event={last_event} duration_ns={duration}",
        life.bytes_text()
    )?;
    if *kind == Kind::Queue {
        write!(
            out,
            "  device_lifetime: available={} alloca_event={begin_id} dealloca_event={end_id} duration_ticks={ticks}",
            span.is_some()
        )?;
        if let Some(nanoseconds) = nanoseconds {
            write!(out, " duration_ns={nanoseconds}")?;
        }
        writeln!(out)?;
    }
    Ok(())
}
