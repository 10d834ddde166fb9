//! `counter`: hardware counters, and the sums of their samples.

use std::collections::BTreeMap;
use std::io::{self, Write};

use vireo_core::record_fields::{json_text, known};
use vireo_core::record_file::ReadError;
use vireo_core::visible_text::visible;

use super::catalog::Catalog;
use super::dispatches::Ordered;
use super::{ReportFilter, each_record};
use crate::ReportFormat;
use crate::generated::contents::Content;
use crate::generated::format::{COUNTER_TICK_RANGE, CounterUnit, TRUNCATED_CHUNK};
use crate::generated::records::{
    Counter, CounterParts, CounterSample, CounterSampleParts, CounterSet, CounterSetParts,
};
use crate::reader::{OutputError, Reader, TypedRecord};

/// Sets of counters by their numbers, with names.
type Sets = BTreeMap<u64, (CounterSet, Vec<u8>)>;

/// A counter and its texts.
struct Known {
    record: Counter,
    block: Vec<u8>,
    name: Vec<u8>,
    description: Vec<u8>,
}

impl Known {
    fn unit(&self) -> &'static str {
        known(CounterUnit(self.record.unit).name())
    }

    /// Its values of a sample.
    fn values<'a>(&self, values: &'a [u64]) -> &'a [u64] {
        let start = self.record.sample_value_offset as usize;
        let end = start.saturating_add(self.record.sample_value_count as usize);
        values.get(start..end).unwrap_or_default()
    }

    fn label(&self) -> String {
        let (block, name) = (String::from_utf8_lossy(&self.block), String::from_utf8_lossy(&self.name));
        if block.is_empty() { name.into_owned() } else { format!("{block}.{name}") }
    }
}

/// Place of the counter, device, queue, stream, scope, command buffer, executable and function.
type GroupKey = (usize, u32, u32, u64, u32, u64, u64, u32);

#[derive(Clone, Debug, Default)]
struct Group {
    samples: u64,
    raw: u64,
    min: f64,
    max: f64,
    sum: f64,
    mean: f64,
    squares: f64,
    first: u64,
    last: u64,
}

impl Group {
    fn add(&mut self, sample: u64, values: &[u64]) {
        let value = values.iter().map(|value| *value as f64).sum::<f64>();
        if self.samples == 0 {
            (self.min, self.max, self.first) = (value, value, sample);
        }
        self.samples += 1;
        self.raw += values.len() as u64;
        (self.min, self.max) = (self.min.min(value), self.max.max(value));
        self.sum += value;
        self.last = sample;
        let delta = value - self.mean;
        self.mean += delta / self.samples as f64;
        self.squares += delta * (value - self.mean);
    }

    fn deviation(&self) -> f64 {
        if self.samples < 2 { 0.0 } else { (self.squares / (self.samples - 1) as f64).sqrt() }
    }
}

/// Writes counters and sums of their samples, as `iree-profile counter` does. With
/// [`dispatch_events`](ReportFilter::dispatch_events) each sample has a row, too.
///
/// # Errors
/// If the profile is damaged, or `out` fails.
pub fn counter(
    reader: &mut Reader,
    filter: &ReportFilter,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<(), OutputError> {
    let catalog = Catalog::read(reader)?;
    let (sets, counters) = read_counters(reader)?;
    let mut groups: Ordered<GroupKey, Group> = Ordered::default();
    let (mut total, mut matched, mut truncated) = (0u64, 0u64, 0u64);
    let mut failure = None;
    each_record(reader, |chunk, content, record| {
        if content != Content::CounterSamples {
            return Ok(());
        }
        let bytes = record.bytes()?;
        let parts = record.check_parts(CounterSampleParts::read(&bytes))?;
        let (sample, values) = (parts.head, parts.values.iter().collect::<Vec<u64>>());
        total += 1;
        let expected = sets.get(&sample.counter_set_id).map(|(set, _)| set.sample_value_count);
        if expected != Some(sample.sample_value_count) {
            return Err(outside(record, &sample));
        }
        if !is_of(filter, &sample) {
            return Ok(());
        }
        let mut is_matched = false;
        for (place, counter) in counters.iter().enumerate() {
            if counter.record.counter_set_id != sample.counter_set_id || !selects(filter, &catalog, counter, &sample) {
                continue;
            }
            let own = counter.values(&values);
            if own.is_empty() {
                return Err(outside(record, &sample));
            }
            is_matched = true;
            groups.get(group_of(place, &sample)).add(sample.sample_id, own);
            if filter.dispatch_events && format == ReportFormat::Jsonl && failure.is_none() {
                failure = sample_row(&catalog, &sets, counter, (&sample, own), out).err();
            }
        }
        matched += u64::from(is_matched);
        truncated += u64::from(is_matched && chunk.header.chunk_flags & TRUNCATED_CHUNK != 0);
        Ok(())
    })?;
    failure.map_or(Ok(()), Err)?;
    let (set_count, count, group_count) = (sets.len(), counters.len(), groups.all.len());
    match format {
        ReportFormat::Text => {
            writeln!(out, "IREE HAL profile counter summary")?;
            writeln!(out, "filter: {}", filter.pattern)?;
            if let Some(id) = filter.id {
                writeln!(out, "id_filter: {id}")?;
            }
            writeln!(
                out,
                "samples: total={total} matched={matched} truncated_matched={truncated} counter_sets={set_count} \
                 counters={count} groups={group_count}"
            )?;
        }
        ReportFormat::Jsonl => {
            let id = filter.id.map_or_else(|| "-1".to_string(), |id| id.to_string());
            let mode = if filter.dispatch_events { "samples" } else { "aggregate" };
            writeln!(
                out,
                "{{\"type\":\"counter_summary\",\"filter\":{},\"id_filter\":{id},\"mode\":\"{mode}\",\
                 \"total_samples\":{total},\"matched_samples\":{matched},\"truncated_matched_samples\":{truncated},\
                 \"counter_sets\":{set_count},\"counters\":{count},\"aggregate_groups\":{group_count}}}",
                json_text(filter.pattern.as_bytes())
            )?;
        }
    }
    metadata(&sets, &counters, format, out)?;
    if format == ReportFormat::Text {
        writeln!(out, "groups:")?;
    }
    for (key, group) in &groups.all {
        self::group(&catalog, &sets, &counters[key.0], (key, group), format, out)?;
    }
    Ok(())
}

fn read_counters(reader: &mut Reader) -> Result<(Sets, Vec<Known>), ReadError> {
    let (mut sets, mut counters) = (Sets::new(), Vec::new());
    each_record(reader, |_, content, record| {
        match content {
            Content::CounterSets => {
                let bytes = record.bytes()?;
                let parts = record.check_parts(CounterSetParts::read(&bytes))?;
                sets.entry(parts.head.counter_set_id).or_insert_with(|| (parts.head, parts.name.to_vec()));
            }
            Content::Counters => {
                let bytes = record.bytes()?;
                let parts = record.check_parts(CounterParts::read(&bytes))?;
                if !sets.contains_key(&parts.head.counter_set_id) {
                    let set = parts.head.counter_set_id;
                    return Err(record.damaged(format!("a counter is of the set {set}: expected one of before")));
                }
                counters.push(Known {
                    record: parts.head,
                    block: parts.block_name.to_vec(),
                    name: parts.name.to_vec(),
                    description: parts.description.to_vec(),
                });
            }
            _ => {}
        }
        Ok(())
    })?;
    Ok((sets, counters))
}

fn outside(record: &TypedRecord<'_>, sample: &CounterSample) -> ReadError {
    record.damaged(format!(
        "sample {} has {} values: expected those of each counter of its set",
        sample.sample_id, sample.sample_value_count
    ))
}

fn is_of(filter: &ReportFilter, sample: &CounterSample) -> bool {
    let ids = [
        sample.sample_id,
        sample.dispatch_event_id,
        sample.submission_id,
        sample.command_buffer_id,
        sample.executable_id,
        sample.counter_set_id,
    ];
    ids.into_iter().any(|id| filter.is(id))
}

fn key(catalog: &Catalog, sample: &CounterSample) -> Vec<u8> {
    match sample.executable_id {
        0 => Vec::new(),
        executable => catalog.key(sample.physical_device_ordinal, executable, sample.function_ordinal),
    }
}

fn selects(filter: &ReportFilter, catalog: &Catalog, counter: &Known, sample: &CounterSample) -> bool {
    [counter.name.as_slice(), counter.label().as_bytes(), &key(catalog, sample)]
        .into_iter()
        .any(|name| filter.matches(name))
}

fn group_of(place: usize, sample: &CounterSample) -> GroupKey {
    (
        place,
        sample.physical_device_ordinal,
        sample.queue_ordinal,
        sample.stream_id,
        sample.scope.0,
        sample.command_buffer_id,
        sample.executable_id,
        sample.function_ordinal,
    )
}

fn set_name<'a>(sets: &'a Sets, counter: &Known) -> &'a [u8] {
    sets.get(&counter.record.counter_set_id).map_or(&[], |(_, name)| name)
}

fn metadata(sets: &Sets, counters: &[Known], format: ReportFormat, out: &mut dyn Write) -> io::Result<()> {
    let shown = |bytes: &[u8]| visible(&String::from_utf8_lossy(bytes)).to_string();
    if format == ReportFormat::Text {
        writeln!(out, "counter_sets:")?;
    }
    for (id, (set, name)) in sets {
        let CounterSet { physical_device_ordinal: device, flags, counter_count, sample_value_count, .. } = set;
        match format {
            ReportFormat::Text => writeln!(
                out,
                "  counter_set {id}: device={device} counters={counter_count} sample_values={sample_value_count} \
                 flags={flags} name={}",
                shown(name)
            )?,
            ReportFormat::Jsonl => writeln!(
                out,
                "{{\"type\":\"counter_set\",\"counter_set_id\":{id},\"physical_device_ordinal\":{device},\
                 \"flags\":{flags},\"counter_count\":{counter_count},\"sample_value_count\":{sample_value_count},\
                 \"name\":{}}}",
                json_text(name)
            )?,
        }
    }
    if format == ReportFormat::Text {
        writeln!(out, "counters:")?;
    }
    for counter in counters {
        let Counter {
            counter_set_id,
            counter_ordinal,
            physical_device_ordinal,
            flags,
            unit,
            sample_value_offset,
            sample_value_count,
            ..
        } = &counter.record;
        let name = counter.unit();
        match format {
            ReportFormat::Text => writeln!(
                out,
                "  counter {counter_set_id}#{counter_ordinal}: device={physical_device_ordinal} block={} name={} \
                 unit={name} values=[{sample_value_offset},{}) flags={flags} description={}",
                shown(&counter.block),
                shown(&counter.name),
                u64::from(*sample_value_offset) + u64::from(*sample_value_count),
                shown(&counter.description)
            )?,
            ReportFormat::Jsonl => writeln!(
                out,
                "{{\"type\":\"counter\",\"counter_set_id\":{counter_set_id},\"counter_ordinal\":{counter_ordinal},\
                 \"physical_device_ordinal\":{physical_device_ordinal},\"flags\":{flags},\"unit\":\"{name}\",\
                 \"unit_value\":{unit},\"sample_value_offset\":{sample_value_offset},\
                 \"sample_value_count\":{sample_value_count},\"block\":{},\"name\":{},\"description\":{}}}",
                json_text(&counter.block),
                json_text(&counter.name),
                json_text(&counter.description)
            )?,
        }
    }
    Ok(())
}

fn group(
    catalog: &Catalog,
    sets: &Sets,
    counter: &Known,
    (key, group): (&GroupKey, &Group),
    format: ReportFormat,
    out: &mut dyn Write,
) -> io::Result<()> {
    let (_, device, queue, stream, scope, command_buffer, executable, function) = *key;
    let name = match executable {
        0 => Vec::new(),
        executable => catalog.key(device, executable, function),
    };
    let scope_name = known(crate::generated::format::CounterSampleScope(scope).name());
    let Group { samples, raw, min, max, sum, mean, first, last, .. } = group;
    let (unit, deviation) = (counter.unit(), group.deviation());
    match format {
        ReportFormat::Text => {
            let set = String::from_utf8_lossy(set_name(sets, counter)).into_owned();
            writeln!(out, "  {} / {}", visible(&set), visible(&counter.label()))?;
            writeln!(
                out,
                "    scope={scope_name} device={device} queue={queue} stream={stream} command_buffer={command_buffer} \
                 executable={executable} function={function} key={}",
                visible(&String::from_utf8_lossy(&name))
            )?;
            writeln!(
                out,
                "    samples={samples} raw_values={raw} \
                 value[min/avg/stddev/max/total]={min:.3}/{mean:.3}/{deviation:.3}/{max:.3}/{sum:.3} unit={unit} \
                 first_sample={first} last_sample={last}"
            )
        }
        ReportFormat::Jsonl => writeln!(
            out,
            "{{\"type\":\"counter_group\",\"physical_device_ordinal\":{device},\"queue_ordinal\":{queue},\
             \"stream_id\":{stream},\"scope\":\"{scope_name}\",\"scope_value\":{scope},\"counter_set_id\":{},\
             \"counter_set\":{},\"counter_ordinal\":{},\"counter\":{},\"block\":{},\"unit\":\"{unit}\",\
             \"command_buffer_id\":{command_buffer},\"executable_id\":{executable},\"function_ordinal\":{function},\
             \"key\":{},\"samples\":{samples},\"raw_values\":{raw},\"min\":{min:.3},\"avg\":{mean:.3},\
             \"stddev\":{deviation:.3},\"max\":{max:.3},\"sum\":{sum:.3},\"first_sample_id\":{first},\
             \"last_sample_id\":{last}}}",
            counter.record.counter_set_id,
            json_text(set_name(sets, counter)),
            counter.record.counter_ordinal,
            json_text(&counter.name),
            json_text(&counter.block),
            json_text(&name)
        ),
    }
}

fn sample_row(
    catalog: &Catalog,
    sets: &Sets,
    counter: &Known,
    (sample, values): (&CounterSample, &[u64]),
    out: &mut dyn Write,
) -> io::Result<()> {
    let has_ticks = sample.flags & COUNTER_TICK_RANGE != 0;
    let is_valid = has_ticks && sample.start_tick != 0 && sample.end_tick >= sample.start_tick;
    let ticks = if is_valid { sample.end_tick - sample.start_tick } else { 0 };
    let list: Vec<String> = values.iter().map(u64::to_string).collect();
    writeln!(
        out,
        "{{\"type\":\"counter_sample\",\"sample_id\":{},\"counter_set_id\":{},\"counter_set\":{},\
         \"counter_ordinal\":{},\"counter\":{},\"block\":{},\"unit\":\"{}\",\"scope\":\"{}\",\"scope_value\":{},\
         \"dispatch_event_id\":{},\"submission_id\":{},\"command_buffer_id\":{},\"command_index\":{},\
         \"executable_id\":{},\"function_ordinal\":{},\"key\":{},\"physical_device_ordinal\":{},\
         \"queue_ordinal\":{},\"stream_id\":{},\"flags\":{},\"device_tick_range_present\":{has_ticks},\
         \"device_tick_domain\":\"device_tick\",\"start_tick\":{},\"end_tick\":{},\"duration_ticks\":{ticks},\
         \"device_tick_range_valid\":{is_valid},\"value\":{:.3},\"values\":[{}]}}",
        sample.sample_id,
        sample.counter_set_id,
        json_text(set_name(sets, counter)),
        counter.record.counter_ordinal,
        json_text(&counter.name),
        json_text(&counter.block),
        counter.unit(),
        known(sample.scope.name()),
        sample.scope.0,
        sample.dispatch_event_id,
        sample.submission_id,
        sample.command_buffer_id,
        sample.command_index,
        sample.executable_id,
        sample.function_ordinal,
        json_text(&key(catalog, sample)),
        sample.physical_device_ordinal,
        sample.queue_ordinal,
        sample.stream_id,
        sample.flags,
        sample.start_tick,
        sample.end_tick,
        values.iter().map(|value| *value as f64).sum::<f64>(),
        list.join(",")
    )
}
