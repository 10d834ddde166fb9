//! Metrics of the machine, from files of Linux: `/proc/stat`, `/proc/meminfo` and `/sys`. A metric whose file is not
//! there is left out; without any of them a profile with metrics is refused.

use std::fs;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use vireo_core::status::{Result, Status};

use super::host_clock::HostClock;
use crate::generated::format::{
    BuiltinMetric, DeviceClass, MetricPlotHint, MetricSemantic, MetricUnit, MetricValueKind,
};
use crate::generated::records::{DeviceMetricDescriptor, DeviceMetricSample, DeviceMetricSource, DeviceMetricValue};

/// The number of the one source.
const SOURCE: u64 = 1;

/// How the value of a metric is read.
#[derive(Clone, Debug)]
enum Reading {
    /// The average of numbers in files, multiplied.
    Average(Vec<PathBuf>, u64),
    /// The largest of numbers in files.
    Largest(Vec<PathBuf>),
    /// A number of `/proc/meminfo`, less another one, in KiB.
    Memory(&'static str, Option<&'static str>),
    /// The part of the time that processors were busy since the last sample, by `/proc/stat`.
    Activity,
}

struct Metric {
    id: BuiltinMetric,
    unit: MetricUnit,
    semantic: MetricSemantic,
    plot_hint: MetricPlotHint,
    description: &'static str,
    reading: Reading,
}

/// The metrics that this machine has.
pub(super) struct Metrics {
    metrics: Vec<Metric>,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    samples: u64,
    /// Busy and all time at the last sample, in ticks.
    processors: (u64, u64),
}

impl Metrics {
    /// The metrics whose files are there.
    ///
    /// # Errors
    /// UNIMPLEMENTED if there is none.
    pub(super) fn find() -> Result<Metrics> {
        let clocks = files("/sys/devices/system/cpu", "cpu", "cpufreq/scaling_cur_freq");
        let temperatures = files("/sys/class/thermal", "thermal_zone", "temp");
        let energies = files("/sys/class/powercap", "intel-rapl:", "energy_uj");
        let all = [
            Metric {
                id: BuiltinMetric::CLOCK_COMPUTE_CURRENT,
                unit: MetricUnit::HZ,
                semantic: MetricSemantic::INSTANT,
                plot_hint: MetricPlotHint::FREQUENCY,
                description: "Average clock of the processors",
                reading: Reading::Average(clocks, 1000),
            },
            Metric {
                id: BuiltinMetric::TEMPERATURE_HOTSPOT,
                unit: MetricUnit::MILLIDEGREES_CELSIUS,
                semantic: MetricSemantic::INSTANT,
                plot_hint: MetricPlotHint::TEMPERATURE,
                description: "Highest temperature of the thermal zones",
                reading: Reading::Largest(temperatures),
            },
            Metric {
                id: BuiltinMetric::ENERGY_SOCKET,
                unit: MetricUnit::MICROJOULES,
                semantic: MetricSemantic::CUMULATIVE,
                plot_hint: MetricPlotHint::ENERGY,
                description: "Energy of the packages, largest counter",
                reading: Reading::Largest(energies),
            },
            Metric {
                id: BuiltinMetric::ACTIVITY_COMPUTE,
                unit: MetricUnit::MILLIPERCENT,
                semantic: MetricSemantic::AVERAGE,
                plot_hint: MetricPlotHint::PERCENTAGE,
                description: "Busy time of all processors since the last sample",
                reading: Reading::Activity,
            },
            Metric {
                id: BuiltinMetric::MEMORY_LOCAL_USED,
                unit: MetricUnit::BYTES,
                semantic: MetricSemantic::INSTANT,
                plot_hint: MetricPlotHint::MEMORY,
                description: "Memory of the machine that is not available",
                reading: Reading::Memory("MemTotal:", Some("MemAvailable:")),
            },
            Metric {
                id: BuiltinMetric::MEMORY_LOCAL_TOTAL,
                unit: MetricUnit::BYTES,
                semantic: MetricSemantic::STATE,
                plot_hint: MetricPlotHint::MEMORY,
                description: "Memory of the machine",
                reading: Reading::Memory("MemTotal:", None),
            },
        ];
        let mut state = State::default();
        let metrics: Vec<Metric> =
            all.into_iter().filter(|metric| metric.reading.read(&mut state.processors).is_some()).collect();
        if metrics.is_empty() {
            let message = "`device-metrics` are those of `/proc` and `/sys`, and neither has one on this machine";
            return Err(Status::unimplemented(message));
        }
        Ok(Metrics { metrics, state: Mutex::new(state) })
    }

    /// The records of the source, and of the metrics.
    ///
    /// # Errors
    /// OUT_OF_RANGE if a name is too long.
    pub(super) fn descriptions(&self, device: u32) -> Result<(Vec<u8>, Vec<u8>)> {
        let too_long = |error: vireo_core::record_file::TrailingError| Status::out_of_range(error.to_string());
        let (mut sources, mut descriptors) = (Vec::new(), Vec::new());
        let source = DeviceMetricSource {
            source_id: SOURCE,
            physical_device_ordinal: device,
            device_class: DeviceClass::CPU,
            metric_count: self.metrics.len() as u32,
            ..DeviceMetricSource::read(&[0; DeviceMetricSource::SIZE])
        };
        source.write(&mut sources, b"linux").map_err(too_long)?;
        for metric in &self.metrics {
            let descriptor = DeviceMetricDescriptor {
                source_id: SOURCE,
                metric_id: metric.id.0,
                unit: metric.unit,
                value_kind: MetricValueKind::U64,
                semantic: metric.semantic,
                plot_hint: metric.plot_hint,
                ..DeviceMetricDescriptor::read(&[0; DeviceMetricDescriptor::SIZE])
            };
            let name = metric.id.name().unwrap_or_default().replacen('_', ".", 2);
            descriptor.write(&mut descriptors, name.as_bytes(), metric.description.as_bytes()).map_err(too_long)?;
        }
        Ok((sources, descriptors))
    }

    /// The record of a sample that is taken now.
    ///
    /// # Errors
    /// OUT_OF_RANGE if there are too many values.
    pub(super) fn sample(&self, device: u32, clock: &HostClock) -> Result<Vec<u8>> {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.samples += 1;
        let begin = clock.now();
        let value = |metric: &Metric| {
            let value_bits = metric.reading.read(&mut state.processors)?;
            Some(DeviceMetricValue { metric_id: metric.id.0, value_bits, flags: 0, reserved0: 0 })
        };
        let values: Vec<DeviceMetricValue> = self.metrics.iter().filter_map(value).collect();
        let sample = DeviceMetricSample {
            // Some values may be missing.
            flags: if values.len() == self.metrics.len() { 0 } else { 2 },
            sample_id: state.samples,
            source_id: SOURCE,
            host_time_begin_ns: begin,
            host_time_end_ns: clock.now(),
            physical_device_ordinal: device,
            ..DeviceMetricSample::read(&[0; DeviceMetricSample::SIZE])
        };
        let mut record = Vec::new();
        sample.write(&mut record, &values).map_err(|error| Status::out_of_range(error.to_string()))?;
        Ok(record)
    }
}

impl Reading {
    /// The value now; `processors` has the times of the last sample.
    fn read(&self, processors: &mut (u64, u64)) -> Option<u64> {
        match self {
            Reading::Average(files, factor) => {
                let values: Vec<u64> = files.iter().filter_map(number).collect();
                let sum = values.iter().fold(0u64, |sum, value| sum.saturating_add(*value));
                Some((sum / u64::try_from(values.len()).ok().filter(|count| *count != 0)?).saturating_mul(*factor))
            }
            Reading::Largest(files) => files.iter().filter_map(number).max(),
            Reading::Memory(all, without) => {
                let text = fs::read_to_string("/proc/meminfo").ok()?;
                let all = kibibytes(&text, all)?;
                let without = without.map_or(Some(0), |name| kibibytes(&text, name))?;
                Some(all.saturating_sub(without).saturating_mul(1024))
            }
            Reading::Activity => {
                let (busy, total) = processor_times(&fs::read_to_string("/proc/stat").ok()?)?;
                let (busy_before, total_before) = std::mem::replace(processors, (busy, total));
                let span = total.saturating_sub(total_before);
                Some(busy.saturating_sub(busy_before).saturating_mul(100_000).checked_div(span).unwrap_or(0))
            }
        }
    }
}

/// The files `name` in the folders of `parent` that begin with `prefix`, in their order.
fn files(parent: &str, prefix: &str, name: &str) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(parent) else { return Vec::new() };
    let is_of = |entry: &fs::DirEntry| entry.file_name().to_string_lossy().starts_with(prefix);
    let mut files: Vec<PathBuf> =
        entries.filter_map(Result::ok).filter(is_of).map(|entry| entry.path().join(name)).collect();
    files.retain(|file| number(file).is_some());
    files.sort();
    files
}

fn number(file: &PathBuf) -> Option<u64> {
    fs::read_to_string(file).ok()?.trim().parse().ok()
}

fn kibibytes(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.trim().strip_suffix("kB")?.trim().parse().ok()
}

/// Busy and all time of the first line, in ticks: user, nice, system, idle, iowait, irq, softirq, steal.
fn processor_times(text: &str) -> Option<(u64, u64)> {
    let line = text.lines().find_map(|line| line.strip_prefix("cpu "))?;
    let times: Vec<u64> = line.split_ascii_whitespace().take(8).map_while(|word| word.parse().ok()).collect();
    let total = times.iter().fold(0u64, |sum, time| sum.saturating_add(*time));
    let idle = times.get(3)?.saturating_add(times.get(4).copied().unwrap_or(0));
    Some((total.saturating_sub(idle), total))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_files_are_read_as_linux_writes_them() {
        let text = "MemTotal:       16314036 kB\nMemAvailable:   12000000 kB\nHugePages_Total:       0\n";
        assert_eq!(kibibytes(text, "MemAvailable:"), Some(12_000_000));
        assert_eq!(kibibytes(text, "HugePages_Total:"), None);
        let text = "cpu  10 1 5 100 4 0 2 0 0 0\ncpu0 10 1 5 100 4 0 2 0 0 0\n";
        assert_eq!(processor_times(text), Some((18, 122)));
        assert_eq!(processor_times("cpu  10 x"), None);
    }
}
