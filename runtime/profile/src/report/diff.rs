//! `diff`: what changed from one profile to another: times and counts of dispatches, operations of queues, and the most
//! memory. It has no counterpart in `iree-profile`.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::io::{self, Write};

use vireo_core::record_fields::{json_text, known};
use vireo_core::visible_text::visible;

use super::catalog::Catalog;
use super::dispatches::{Dispatches, Side, Subject};
use super::lifecycles::Memory;
use super::{ReportFilter, each_record};
use crate::ReportFormat;
use crate::generated::contents::Content;
use crate::generated::records::{MemoryEvent, QueueEvent};
use crate::reader::{OutputError, Reader};

/// How two profiles are compared.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiffOptions {
    /// By how much a value may grow, as a fraction: 0.05 are 5%. Without it nothing is too much.
    pub fail_above: Option<f64>,
    /// Functions with less time than this in both profiles, in nanoseconds or in ticks, may grow by anything.
    pub ignore_below: u64,
}

/// Writes what changed from `before` to `after`, the largest change of each kind first. Returns how many values grew by
/// more than the options allow.
///
/// # Errors
/// If a profile is damaged, or `out` fails.
pub fn diff(
    before: &mut Reader,
    after: &mut Reader,
    options: &DiffOptions,
    format: ReportFormat,
    out: &mut dyn Write,
) -> Result<u64, OutputError> {
    let mut rows = BTreeMap::new();
    for (place, reader) in [&mut *before, &mut *after].into_iter().enumerate() {
        for (key, value) in values(reader)? {
            rows.entry(key).or_insert([None; 2])[place] = Some(value);
        }
    }
    let mut rows: Vec<Row> = rows.into_iter().map(|(key, values)| Row { key, values }).collect();
    // Rows of a kind are in the order of their names before.
    rows.sort_by_key(|row| (row.key.kind, Reverse(row.distance())));
    let above = rows.iter().filter(|row| row.is_above(options)).count() as u64;
    match format {
        ReportFormat::Text => text(&rows, (before.name(), after.name()), options, above, out)?,
        ReportFormat::Jsonl => jsonl(&rows, (before.name(), after.name()), options, above, out)?,
    }
    Ok(above)
}

/// The kind of a value, in the order of the report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Kind {
    DispatchTime,
    DispatchCount,
    FunctionTime,
    OperationCount,
    OperationBytes,
    MemoryPeak,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Kind::DispatchTime => "dispatch_time",
            Kind::DispatchCount => "dispatch_count",
            Kind::FunctionTime => "function_time",
            Kind::OperationCount => "queue_operation_count",
            Kind::OperationBytes => "queue_operation_bytes",
            Kind::MemoryPeak => "memory_peak",
        }
    }
}

/// A value that both profiles may have.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    kind: Kind,
    /// The clock of times, or the device of memory; empty for others.
    source: String,
    unit: &'static str,
    name: Vec<u8>,
}

/// A value and the number of dispatches that it is of.
#[derive(Clone, Copy, Debug, Default)]
struct Value {
    value: u64,
    dispatches: u64,
}

impl Value {
    fn add(&mut self, value: u64, dispatches: u64) {
        self.value = self.value.saturating_add(value);
        self.dispatches = self.dispatches.saturating_add(dispatches);
    }
}

#[derive(Clone, Debug)]
struct Row {
    key: Key,
    /// Before and after.
    values: [Option<Value>; 2],
}

impl Row {
    fn numbers(&self) -> (u64, u64) {
        let number = |value: Option<Value>| value.unwrap_or_default().value;
        (number(self.values[0]), number(self.values[1]))
    }

    fn distance(&self) -> u64 {
        let (before, after) = self.numbers();
        before.abs_diff(after)
    }

    /// By how much the value grew, as a fraction; None from nothing to something.
    fn change(&self) -> Option<f64> {
        match self.numbers() {
            (before, after) if before == after => Some(0.0),
            (0, _) => None,
            (before, after) => Some((after as f64 - before as f64) / before as f64),
        }
    }

    /// Whether it grew by more than the options allow. A function that one profile lacks has another name there, or its
    /// work is done by others: sums of all dispatches tell whether that took longer.
    fn is_above(&self, options: &DiffOptions) -> bool {
        let Some(limit) = options.fail_above else { return false };
        let (before, after) = self.numbers();
        let is_missing = self.values.iter().any(Option::is_none);
        if self.key.kind == Kind::FunctionTime && (is_missing || before.max(after) < options.ignore_below) {
            return false;
        }
        self.change().is_none_or(|change| change > limit)
    }
}

/// The values of a profile.
fn values(reader: &mut Reader) -> Result<BTreeMap<Key, Value>, OutputError> {
    let catalog = Catalog::read(reader)?;
    let dispatches = Dispatches::read(reader, &catalog, &ReportFilter::default(), Subject::Dispatch, None)?;
    let mut values: BTreeMap<Key, Value> = BTreeMap::new();
    add_dispatches(&catalog, &dispatches.device, "device_dispatch_event", &mut values);
    add_dispatches(&catalog, &dispatches.host, "host_execution_event", &mut values);
    let mut memory = Memory::default();
    each_record(reader, |_, content, record| {
        match content {
            Content::QueueEvents => {
                let event = QueueEvent::read(&record.head()?);
                let name = known(event.r#type.name()).as_bytes().to_vec();
                let key =
                    |kind: Kind, unit: &'static str| Key { kind, source: String::new(), unit, name: name.clone() };
                values.entry(key(Kind::OperationCount, "count")).or_default().add(1, 0);
                if event.payload_length != 0 {
                    values.entry(key(Kind::OperationBytes, "bytes")).or_default().add(event.payload_length, 0);
                }
            }
            Content::MemoryEvents => memory.add(&MemoryEvent::read(&record.head()?)),
            _ => {}
        }
        Ok(())
    })?;
    for (ordinal, device) in &memory.devices.all {
        for (name, _, balance) in device.balances() {
            if balance.opened != 0 {
                let (source, name) = (format!("device{ordinal}"), name.as_bytes().to_vec());
                let key = Key { kind: Kind::MemoryPeak, source, unit: "bytes", name };
                values.entry(key).or_default().add(balance.most_bytes, 0);
            }
        }
    }
    Ok(values)
}

fn add_dispatches(catalog: &Catalog, side: &Side, source: &str, values: &mut BTreeMap<Key, Value>) {
    for ((device, executable, function), spans) in &side.functions.all {
        let nanoseconds = match source {
            "host_execution_event" => Some(spans.total),
            _ => catalog.fit(*device).and_then(|fit| fit.duration_ns(spans.total)).map(i64::unsigned_abs),
        };
        let (unit, total) = nanoseconds.map_or(("ticks", spans.total), |total| ("ns", total));
        let mut add = |kind: Kind, unit: &'static str, name: &[u8], value: u64| {
            let key = Key { kind, source: source.to_string(), unit, name: name.to_vec() };
            values.entry(key).or_default().add(value, spans.count);
        };
        add(Kind::FunctionTime, unit, &catalog.key(*device, *executable, *function), total);
        add(Kind::DispatchTime, unit, b"all dispatches", total);
        add(Kind::DispatchCount, "count", b"all dispatches", spans.count);
    }
}

fn text(
    rows: &[Row],
    (before, after): (&str, &str),
    options: &DiffOptions,
    above: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    writeln!(out, "profile diff")?;
    writeln!(out, "before: {}", visible(before))?;
    writeln!(out, "after: {}", visible(after))?;
    if let Some(limit) = options.fail_above {
        writeln!(out, "fail_above: {}% values_above={above}", (limit * 1e6).round() / 1e4)?;
    }
    let mut last = None;
    for row in rows {
        let (key, (before, after)) = (&row.key, row.numbers());
        if last != Some(key.kind) {
            writeln!(out, "{}:", key.kind.name())?;
            last = Some(key.kind);
        }
        let change = match (row.values, row.change()) {
            ([None, _], _) | (_, None) => "new".to_string(),
            ([_, None], _) => "gone".to_string(),
            (_, Some(change)) => format!("{:+.1}%", change * 100.0),
        };
        write!(out, "  {change:>8} {} {before} -> {after} {}", visible(&String::from_utf8_lossy(&key.name)), key.unit)?;
        if !key.source.is_empty() {
            write!(out, " source={}", key.source)?;
        }
        if matches!(key.kind, Kind::DispatchTime | Kind::FunctionTime) {
            let count = |value: Option<Value>| value.unwrap_or_default().dispatches;
            write!(out, " dispatches={}->{}", count(row.values[0]), count(row.values[1]))?;
        }
        writeln!(out, "{}", if row.is_above(options) { " ABOVE" } else { "" })?;
    }
    Ok(())
}

fn jsonl(
    rows: &[Row],
    (before, after): (&str, &str),
    options: &DiffOptions,
    above: u64,
    out: &mut dyn Write,
) -> io::Result<()> {
    let number = |value: Option<f64>| value.map_or_else(|| "null".to_string(), |value| value.to_string());
    writeln!(
        out,
        "{{\"type\":\"diff_summary\",\"before\":{},\"after\":{},\"fail_above\":{},\"ignore_below\":{},\
         \"values_above\":{above}}}",
        json_text(before.as_bytes()),
        json_text(after.as_bytes()),
        number(options.fail_above),
        options.ignore_below
    )?;
    for row in rows {
        let [before, after] =
            row.values.map(|value| value.map_or_else(|| "null".to_string(), |value| value.value.to_string()));
        write!(
            out,
            "{{\"type\":\"diff_row\",\"kind\":\"{}\",\"name\":{},\"source\":\"{}\",\"unit\":\"{}\",\
             \"before\":{before},\"after\":{after},\"change\":{}",
            row.key.kind.name(),
            json_text(&row.key.name),
            row.key.source,
            row.key.unit,
            number(row.change())
        )?;
        if matches!(row.key.kind, Kind::DispatchTime | Kind::FunctionTime) {
            let [before, after] = row.values.map(|value| value.unwrap_or_default().dispatches);
            write!(out, ",\"dispatches_before\":{before},\"dispatches_after\":{after}")?;
        }
        writeln!(out, ",\"above\":{}}}", row.is_above(options))?;
    }
    Ok(())
}
