//! The fields of rows that a record does not have itself: names of functions, times of the host, differences. Each
//! function is named in `spec/profile/interchange.yaml`, after the layout of its record.

use vireo_core::record_fields::{Done, Fields};
use vireo_core::record_file::ReadError;
use vireo_core::status::StatusCode;

use crate::clock::ClockFit;
use crate::float_text::general;
use crate::generated::format::{
    COUNTER_TICK_RANGE, CommandOperationType, INTERCHANGE_VERSION, LAST_BUILTIN_METRIC, MetricValueKind, NONE,
    PRODUCER_METRIC,
};
use crate::generated::records::{
    ClockCorrelation, CommandOperation, CommandRegionEvent, CounterSampleParts, Device, DeviceMetricDescriptorParts,
    DeviceMetricSampleParts, DispatchEvent, Executable, ExecutableFunctionParts, HostExecutionEvent, QueueDeviceEvent,
};
use crate::model::Model;
use crate::reader::Record;

/// The sources of rows, besides their records.
#[derive(Debug)]
pub(crate) struct Joins<'a> {
    /// The targets of events.
    pub(crate) model: &'a Model,
    /// The chunk of the record.
    pub(crate) chunk: &'a Record,
    /// The name of the file.
    pub(crate) file: &'a str,
}

/// The time of a record by the clock of its device.
#[derive(Default)]
struct DeviceTime {
    is_valid: bool,
    ticks: u64,
    fit: Option<(ClockFit, i64, i64)>,
}

impl Joins<'_> {
    fn damaged(&self, message: String) -> ReadError {
        ReadError::new(StatusCode::DataLoss, self.file, self.chunk.payload_offset, message)
    }

    /// Begins the row `name`.
    pub(crate) fn begin(&self, name: &str, out: &mut dyn Fields) -> Done {
        out.begin(&format!(
            "{{\"schema_version\":{INTERCHANGE_VERSION},\"record_type\":\"{name}\",\"source_record_index\":{}",
            self.chunk.index
        ))
    }

    pub(crate) fn device_uuid(&self, label: &str, device: &Device, out: &mut dyn Fields) -> Done {
        let digits: String = device.physical_device_uuid.iter().map(|byte| format!("{byte:02x}")).collect();
        out.text(label, (device.flags & 1 != 0).then_some(digits.as_str()))
    }

    pub(crate) fn executable_hash(&self, label: &str, executable: &Executable, out: &mut dyn Fields) -> Done {
        hash(label, executable.flags, executable.code_object_hash, out)
    }

    pub(crate) fn executable_function_hash(
        &self,
        label: &str,
        function: &ExecutableFunctionParts<'_>,
        out: &mut dyn Fields,
    ) -> Done {
        hash(label, function.head.flags, function.head.function_hash, out)
    }

    pub(crate) fn command_operation_key(
        &self,
        label: &str,
        operation: &CommandOperation,
        out: &mut dyn Fields,
    ) -> Done {
        let (executable, function) = (operation.executable_id, operation.function_ordinal);
        if operation.r#type != CommandOperationType::DISPATCH || executable == 0 || function == NONE {
            return out.name(label, operation.r#type.name());
        }
        let device = self.model.command_buffer_device(operation.command_buffer_id).unwrap_or(NONE);
        self.function_key(label, device, executable, function, out)
    }

    pub(crate) fn dispatch_event_place(&self, _label: &str, _event: &DispatchEvent, out: &mut dyn Fields) -> Done {
        let header = &self.chunk.header;
        out.number("physical_device_ordinal", u64::from(header.physical_device_ordinal))?;
        out.number("queue_ordinal", u64::from(header.queue_ordinal))?;
        out.number("stream_id", header.stream_id)
    }

    pub(crate) fn dispatch_event_key(&self, label: &str, event: &DispatchEvent, out: &mut dyn Fields) -> Done {
        let device = self.chunk.header.physical_device_ordinal;
        self.function_key(label, device, event.executable_id, event.function_ordinal, out)
    }

    pub(crate) fn host_execution_event_key(
        &self,
        label: &str,
        event: &HostExecutionEvent,
        out: &mut dyn Fields,
    ) -> Done {
        if event.executable_id == 0 || event.function_ordinal == NONE {
            return out.text(label, None);
        }
        let device = event.physical_device_ordinal;
        self.function_key(label, device, event.executable_id, event.function_ordinal, out)
    }

    fn function_key(&self, label: &str, device: u32, executable: u64, function: u32, out: &mut dyn Fields) -> Done {
        match self.model.function_key(device, executable, function) {
            Some(key) => out.string(label, &key),
            None => Err(self.damaged(format!(
                "an event is of function {function} of the executable {executable}: expected one that is known"
            ))),
        }
    }

    pub(crate) fn dispatch_event_device_time(&self, label: &str, event: &DispatchEvent, out: &mut dyn Fields) -> Done {
        let device = self.chunk.header.physical_device_ordinal;
        self.device_time(device, event.start_tick, event.end_tick).write(label, out)
    }

    pub(crate) fn queue_device_event_device_time(
        &self,
        label: &str,
        event: &QueueDeviceEvent,
        out: &mut dyn Fields,
    ) -> Done {
        self.device_time(event.physical_device_ordinal, event.start_tick, event.end_tick).write(label, out)
    }

    pub(crate) fn counter_sample_device_time(
        &self,
        label: &str,
        sample: &CounterSampleParts<'_>,
        out: &mut dyn Fields,
    ) -> Done {
        let head = &sample.head;
        let time = match head.flags & COUNTER_TICK_RANGE {
            0 => DeviceTime::default(),
            _ => self.device_time(head.physical_device_ordinal, head.start_tick, head.end_tick),
        };
        time.write(label, out)
    }

    fn device_time(&self, device: u32, start: u64, end: u64) -> DeviceTime {
        if start == 0 || end < start {
            return DeviceTime::default();
        }
        let fit = self.model.clocks(device).and_then(ClockFit::new);
        let fit = fit.and_then(|fit| {
            let (start, end) = (fit.time_ns(start)?, fit.time_ns(end)?);
            (end >= start).then_some((fit, start, end))
        });
        DeviceTime { is_valid: true, ticks: end - start, fit }
    }

    pub(crate) fn clock_correlation_uncertainty(
        &self,
        label: &str,
        sample: &ClockCorrelation,
        out: &mut dyn Fields,
    ) -> Done {
        out.signed(label, uncertainty(sample.host_time_begin_ns, sample.host_time_end_ns))
    }

    pub(crate) fn device_metric_sample_uncertainty(
        &self,
        label: &str,
        sample: &DeviceMetricSampleParts<'_>,
        out: &mut dyn Fields,
    ) -> Done {
        out.signed(label, uncertainty(sample.head.host_time_begin_ns, sample.head.host_time_end_ns))
    }

    pub(crate) fn host_execution_event_duration(
        &self,
        label: &str,
        event: &HostExecutionEvent,
        out: &mut dyn Fields,
    ) -> Done {
        out.signed(label, duration(event.start_host_time_ns, event.end_host_time_ns).unwrap_or(0))
    }

    pub(crate) fn host_execution_event_validity(
        &self,
        label: &str,
        event: &HostExecutionEvent,
        out: &mut dyn Fields,
    ) -> Done {
        out.flag(label, duration(event.start_host_time_ns, event.end_host_time_ns).is_some())
    }

    pub(crate) fn command_region_event_duration(
        &self,
        label: &str,
        event: &CommandRegionEvent,
        out: &mut dyn Fields,
    ) -> Done {
        let region = &event.command_region;
        out.signed(label, duration(region.start_host_time_ns, region.end_host_time_ns).unwrap_or(0))
    }

    pub(crate) fn command_region_event_validity(
        &self,
        label: &str,
        event: &CommandRegionEvent,
        out: &mut dyn Fields,
    ) -> Done {
        let region = &event.command_region;
        out.flag(label, duration(region.start_host_time_ns, region.end_host_time_ns).is_some())
    }

    pub(crate) fn device_metric_descriptor_builtin(
        &self,
        label: &str,
        metric: &DeviceMetricDescriptorParts<'_>,
        out: &mut dyn Fields,
    ) -> Done {
        out.flag(label, (1..=LAST_BUILTIN_METRIC).contains(&metric.head.metric_id))
    }

    pub(crate) fn device_metric_descriptor_producer_specific(
        &self,
        label: &str,
        metric: &DeviceMetricDescriptorParts<'_>,
        out: &mut dyn Fields,
    ) -> Done {
        out.flag(label, metric.head.metric_id >= PRODUCER_METRIC)
    }

    pub(crate) fn device_metric_sample_values(
        &self,
        label: &str,
        sample: &DeviceMetricSampleParts<'_>,
        out: &mut dyn Fields,
    ) -> Done {
        out.open_list(label)?;
        for value in sample.values.iter() {
            let Some(metric) = self.model.metric(sample.head.source_id, value.metric_id) else {
                return Err(self.damaged(format!(
                    "a sample is of the metric {} of the source {}: expected one that is known",
                    value.metric_id, sample.head.source_id
                )));
            };
            out.open_element()?;
            out.number("metric_id", value.metric_id)?;
            out.string("name", &metric.name)?;
            out.name("unit", metric.record.unit.name())?;
            out.name("value_kind", metric.record.value_kind.name())?;
            out.name("semantic", metric.record.semantic.name())?;
            out.name("plot_hint", metric.record.plot_hint.name())?;
            out.number("flags", u64::from(value.flags))?;
            match metric.record.value_kind {
                MetricValueKind::I64 => out.signed("value", value.value_bits.cast_signed())?,
                MetricValueKind::U64 => out.number("value", value.value_bits)?,
                MetricValueKind::F64 => out.verbatim("value", &general(value.value_bits))?,
                _ => out.text("value", None)?,
            }
            out.number("value_bits", value.value_bits)?;
            out.close()?;
        }
        out.close_list()
    }
}

impl DeviceTime {
    /// Its fields, of which the second one is called `label`.
    fn write(&self, label: &str, out: &mut dyn Fields) -> Done {
        out.number("duration_ticks", self.ticks)?;
        out.flag(label, self.is_valid)?;
        out.flag("derived_time_available", self.fit.is_some())?;
        out.text("derived_time_domain", Some("driver_host_cpu_timestamp_ns"))?;
        out.text("derived_time_basis", Some("first_last_clock_correlation"))?;
        let (ids, start, end) = match &self.fit {
            Some((fit, start, end)) => ((fit.first_sample_id, fit.last_sample_id), *start, *end),
            None => ((0, 0), 0, 0),
        };
        out.number("clock_fit_first_sample_id", ids.0)?;
        out.number("clock_fit_last_sample_id", ids.1)?;
        out.signed("start_driver_host_cpu_time_ns", start)?;
        out.signed("end_driver_host_cpu_time_ns", end)?;
        out.text("duration_time_domain", Some("device_tick_duration_ns"))?;
        out.signed("duration_ns", end.wrapping_sub(start))
    }
}

/// A hash of two words, if bit 0 of the flags says that there is one.
fn hash(label: &str, flags: u32, words: [u64; 2], out: &mut dyn Fields) -> Done {
    let digits = format!("{:016x}{:016x}", words[0], words[1]);
    out.text(label, (flags & 1 != 0).then_some(digits.as_str()))
}

/// How long a span of the host was, if it is one.
pub(crate) fn duration(start: i64, end: i64) -> Option<i64> {
    (start >= 0 && end >= start).then(|| end - start)
}

/// How far two times are apart, in their order.
fn uncertainty(begin: i64, end: i64) -> i64 {
    if end >= begin { end.wrapping_sub(begin) } else { 0 }
}
