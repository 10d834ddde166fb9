//! Reports of benchmarks: a table for people, and the JSON and CSV of Google Benchmark. Called by `benchmark` with the
//! measurements.

use std::time::SystemTime;

use serde_json::{Value, json};
use vireo::hal::DispatchStatistics;

use super::measure::Repetition;
use super::time_text::{significant, time_text};
use super::{baseline, load};
use crate::arguments::{BenchmarkArguments, BenchmarkFormat, TimeUnit};
use crate::statistics::shares;

/// The aggregates of several repetitions.
const AGGREGATES: [&str; 6] = ["mean", "median", "stddev", "cv", "min", "max"];

/// The percentiles of single calls.
const PERCENTILES: [(&str, f64); 3] = [("p50", 0.5), ("p90", 0.9), ("p99", 0.99)];

/// The measurements so far, as a table or JSON.
pub struct Report {
    aggregates_only: bool,
    shows_aggregates_only: bool,
    repetitions: u32,
    /// The unit of times that was asked for; without one the table has for each the unit that fits.
    unit: Option<TimeUnit>,
    /// The user's entries about the run, for the JSON.
    context: Vec<(String, String)>,
    name_width: usize,
    families: usize,
    benchmarks: Vec<Value>,
}

/// A line of the report: seconds, or a fraction for the aggregate `cv`.
struct Row {
    aggregate: Option<&'static str>,
    index: usize,
    iterations: u64,
    real: f64,
    cpu: f64,
    items_per_second: f64,
}

impl Report {
    /// An empty report about these functions.
    pub fn new<'a>(arguments: &BenchmarkArguments, functions: impl Iterator<Item = &'a str>) -> Report {
        let longest = functions.map(|function| benchmark_name(function).chars().count()).max().unwrap_or(0);
        let several = arguments.benchmark_repetitions > 1;
        let mut report = Report::of_benchmark(arguments.benchmark_repetitions, arguments.benchmark_time_unit, longest);
        report.aggregates_only = several && arguments.benchmark_report_aggregates_only;
        report.shows_aggregates_only = several && arguments.benchmark_display_aggregates_only;
        report.context = arguments.benchmark_context.clone();
        report
    }

    /// An empty report of benchmarks whose longest name has so many characters.
    pub fn of_benchmark(repetitions: u32, unit: Option<TimeUnit>, longest: usize) -> Report {
        let several = repetitions > 1;
        Report {
            aggregates_only: false,
            shows_aggregates_only: false,
            repetitions,
            unit,
            context: Vec::new(),
            name_width: (longest + if several { "_median".len() } else { 0 }).max("Benchmark".len()),
            families: 0,
            benchmarks: Vec::new(),
        }
    }

    /// The header of the table.
    pub fn header(&self) -> String {
        let line = format!(
            "{:<width$} {:>12} {:>12} {:>11} {:>12}\n",
            "Benchmark",
            "Time",
            "CPU",
            "Iterations",
            "Calls/s",
            width = self.name_width
        );
        let rule = "-".repeat(line.len() - 1);
        format!("{rule}\n{line}{rule}\n")
    }

    /// Adds the repetitions of a function and returns their lines of the table.
    pub fn add(&mut self, function: &str, unit: TimeUnit, repetitions: &[Repetition]) -> String {
        self.add_benchmark(&benchmark_name(function), unit, repetitions)
    }

    /// Adds the repetitions of a benchmark with this name and returns their lines of the table.
    pub fn add_benchmark(&mut self, name: &str, unit: TimeUnit, repetitions: &[Repetition]) -> String {
        let mut text = String::new();
        for row in &rows(repetitions) {
            if row.aggregate.is_some() || !self.shows_aggregates_only && !self.aggregates_only {
                text.push_str(&self.line(name, row));
            }
            if row.aggregate.is_some() || !self.aggregates_only {
                self.benchmarks.push(self.object(name, unit, row));
            }
        }
        self.families += 1;
        text
    }

    /// Adds the percentiles of the times of single calls in seconds, below the lines of their function, and returns
    /// theirs.
    pub fn add_percentiles(&mut self, function: &str, unit: TimeUnit, times: &[f64]) -> String {
        let name = benchmark_name(function);
        let mut sorted = times.to_vec();
        sorted.sort_by(f64::total_cmp);
        let mut text = String::new();
        self.families = self.families.saturating_sub(1);
        for (aggregate, fraction) in PERCENTILES {
            let Some(time) = percentile(&sorted, fraction) else { continue };
            let row = Row {
                aggregate: Some(aggregate),
                index: 0,
                iterations: sorted.len() as u64,
                real: time,
                // Of a single call it is not known.
                cpu: f64::NAN,
                items_per_second: rate(time),
            };
            text.push_str(&self.line(&name, &row));
            self.benchmarks.push(self.object(&name, unit, &row));
        }
        self.families += 1;
        text
    }

    fn line(&self, name: &str, row: &Row) -> String {
        let name = row.aggregate.map_or_else(|| name.to_string(), |aggregate| format!("{name}_{aggregate}"));
        let name = vireo::visible_text::visible(&name);
        let width = self.name_width;
        if row.aggregate == Some("cv") {
            let percent = |fraction: f64| format!("{:.2} %", fraction * 100.0);
            let (real, cpu, rate) = (percent(row.real), percent(row.cpu), percent(row.items_per_second));
            return format!("{name:<width$} {real:>12} {cpu:>12} {:>11} {rate:>12}\n", row.iterations);
        }
        let time = |seconds: f64| if seconds.is_nan() { "-".into() } else { time_text(seconds, self.unit) };
        let (real, cpu, rate) = (time(row.real), time(row.cpu), significant(row.items_per_second));
        format!("{name:<width$} {real:>12} {cpu:>12} {:>11} {rate:>12}\n", row.iterations)
    }

    /// Adds the kernels that ran in so many iterations of a function, below its lines, and returns theirs.
    pub fn add_dispatches(
        &mut self,
        function: &str,
        unit: TimeUnit,
        iterations: u64,
        dispatches: &[DispatchStatistics],
    ) -> String {
        let family = self.families.saturating_sub(1);
        let names = dispatches.iter().map(|dispatch| dispatch_name(function, &dispatch.name).chars().count());
        self.name_width = names.max().unwrap_or(0).max(self.name_width);
        let mut text = String::new();
        for (dispatch, share) in dispatches.iter().zip(shares(dispatches)) {
            let name = dispatch_name(function, &dispatch.name);
            let time = dispatch.time.as_secs_f64() / iterations.max(1) as f64 * unit.per_second();
            let object = json!({
                "name": name,
                "family_index": family,
                "per_family_instance_index": 0,
                "run_name": name,
                "run_type": "iteration",
                "repetitions": 1,
                "repetition_index": 0,
                "threads": 1,
                "iterations": iterations,
                "real_time": time,
                "cpu_time": time,
                "time_unit": unit.name(),
                "calls": dispatch.count as f64 / iterations.max(1) as f64,
                "percent": share * 100.0,
            });
            text.push_str(&self.row_of(&object));
            self.benchmarks.push(object);
        }
        text
    }

    fn object(&self, name: &str, unit: TimeUnit, row: &Row) -> Value {
        let scale = if row.aggregate == Some("cv") { 1.0 } else { unit.per_second() };
        let mut object = json!({
            "name": row.aggregate.map_or_else(|| name.to_string(), |aggregate| format!("{name}_{aggregate}")),
            "family_index": self.families,
            "per_family_instance_index": 0,
            "run_name": name,
            "run_type": if row.aggregate.is_some() { "aggregate" } else { "iteration" },
            "repetitions": self.repetitions,
            "threads": 1,
            "iterations": row.iterations,
            "real_time": row.real * scale,
            "cpu_time": row.cpu * scale,
            "time_unit": unit.name(),
            "items_per_second": row.items_per_second,
        });
        match row.aggregate {
            Some(aggregate) => {
                object["aggregate_name"] = json!(aggregate);
                object["aggregate_unit"] = json!(if aggregate == "cv" { "percentage" } else { "time" });
            }
            None => object["repetition_index"] = json!(row.index),
        }
        object
    }

    /// All of it.
    pub fn text(&self, format: BenchmarkFormat) -> String {
        match format {
            BenchmarkFormat::Console => {
                self.header() + &self.benchmarks.iter().map(|one| self.row_of(one)).collect::<String>()
            }
            BenchmarkFormat::Json => self.json(),
            BenchmarkFormat::Csv => self.csv(),
            BenchmarkFormat::Markdown => self.markdown(),
        }
    }

    /// The table in Markdown.
    fn markdown(&self) -> String {
        let mut text = "| benchmark | time | CPU | iterations | calls/s |\n|---|--:|--:|--:|--:|\n".to_string();
        for one in &self.benchmarks {
            let number = |key: &str| one[key].as_f64();
            let name = vireo::visible_text::visible(one["name"].as_str().unwrap_or("")).replace('|', "\\|");
            let unit = unit_of(one);
            let is_fraction = one["aggregate_name"] == "cv";
            let time = |key: &str| match number(key) {
                None => "-".to_string(),
                Some(fraction) if is_fraction => format!("{:.2} %", fraction * 100.0),
                Some(time) => time_text(time / unit.per_second(), self.unit),
            };
            let rate = match number("items_per_second") {
                None => "-".into(),
                Some(fraction) if is_fraction => format!("{:.2} %", fraction * 100.0),
                Some(rate) => significant(rate),
            };
            let (real, cpu) = (time("real_time"), time("cpu_time"));
            text.push_str(&format!("| `{name}` | {real} | {cpu} | {} | {rate} |\n", one["iterations"]));
        }
        text
    }

    /// The line of the table that an object of the JSON is.
    fn row_of(&self, object: &Value) -> String {
        let number = |key: &str| object[key].as_f64().unwrap_or(f64::NAN);
        let name = object["run_name"].as_str().unwrap_or("");
        let percentiles = PERCENTILES.into_iter().map(|(name, _)| name);
        let aggregate = AGGREGATES.into_iter().chain(percentiles).find(|one| object["aggregate_name"] == *one);
        let unit = unit_of(object);
        let scale = if aggregate == Some("cv") { 1.0 } else { unit.per_second() };
        if let (Some(calls), Some(percent)) = (object["calls"].as_f64(), object["percent"].as_f64()) {
            let time = time_text(number("real_time") / scale, self.unit);
            let (iterations, width) = (object["iterations"].as_u64().unwrap_or(0), self.name_width);
            let (name, calls) = (vireo::visible_text::visible(name), significant(calls));
            return format!(
                "{name:<width$} {time:>12} {time:>12} {iterations:>11} calls={calls} percent={percent:.2}\n"
            );
        }
        let row = Row {
            aggregate,
            index: 0,
            iterations: object["iterations"].as_u64().unwrap_or(0),
            real: number("real_time") / scale,
            cpu: number("cpu_time") / scale,
            items_per_second: number("items_per_second"),
        };
        self.line(name, &row)
    }

    fn csv(&self) -> String {
        let mut text = String::from(
            "name,iterations,real_time,cpu_time,time_unit,bytes_per_second,items_per_second,label,error_occurred,error_message",
        );
        let has_counters = self.benchmarks.iter().any(|one| one.get("calls").is_some());
        text.push_str(if has_counters { ",\"calls\",\"percent\"\n" } else { "\n" });
        // Numbers as they are, and nothing for those that there are not.
        let number = |value: &Value| value.as_number().map(ToString::to_string).unwrap_or_default();
        for one in &self.benchmarks {
            let name = one["name"].as_str().unwrap_or("").replace('"', "\"\"");
            // An aggregate such as `cv` is a fraction, without a unit.
            let unit = if one["aggregate_unit"] == "percentage" { "" } else { one["time_unit"].as_str().unwrap_or("") };
            text.push_str(&format!(
                "\"{name}\",{},{},{},{unit},,{},,,",
                one["iterations"],
                one["real_time"],
                one["cpu_time"],
                number(&one["items_per_second"])
            ));
            if has_counters {
                text.push_str(&format!(",{},{}", number(&one["calls"]), number(&one["percent"])));
            }
            text.push('\n');
        }
        text
    }

    /// The seconds of a call of each benchmark, by name.
    pub fn times(&self) -> Vec<(String, f64)> {
        baseline::times(&self.benchmarks)
    }

    fn json(&self) -> String {
        let mut report = json!({
            "context": {
                "date": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
                "executable": std::env::args().next().unwrap_or_default(),
                "load_avg": load::averages(),
                "num_cpus": std::thread::available_parallelism().map_or(1, usize::from),
                "library_version": concat!("vireo ", env!("CARGO_PKG_VERSION")),
                "library_build_type": if cfg!(debug_assertions) { "debug" } else { "release" },
                "json_schema_version": 1,
            },
            "benchmarks": self.benchmarks,
        });
        for (key, value) in &self.context {
            report["context"][key] = json!(value);
        }
        format!("{report:#}\n")
    }
}

/// The name the reference tool gives it.
pub fn benchmark_name(function: &str) -> String {
    format!("BM_{function}/process_time/real_time")
}

/// The name the reference tool gives to a kernel below it.
fn dispatch_name(function: &str, kernel: &str) -> String {
    format!("BM_{function}/{kernel}")
}

/// The unit of the times of an object of the JSON.
fn unit_of(object: &Value) -> TimeUnit {
    let units = [TimeUnit::Ns, TimeUnit::Us, TimeUnit::Ms, TimeUnit::S];
    units.into_iter().find(|unit| object["time_unit"] == unit.name()).unwrap_or(TimeUnit::S)
}

/// Calls in a second if one takes this long.
fn rate(seconds: f64) -> f64 {
    1.0 / seconds.max(f64::MIN_POSITIVE)
}

/// The least of the sorted times that at least this part of them does not exceed.
fn percentile(sorted: &[f64], fraction: f64) -> Option<f64> {
    let rank = (fraction * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.max(1) - 1).copied()
}

fn rows(repetitions: &[Repetition]) -> Vec<Row> {
    let of = |(index, one): (usize, &Repetition)| Row {
        aggregate: None,
        index,
        iterations: one.iterations,
        real: one.real,
        cpu: one.cpu,
        items_per_second: rate(one.real),
    };
    let mut rows: Vec<Row> = repetitions.iter().enumerate().map(of).collect();
    if repetitions.len() < 2 {
        return rows;
    }
    let column = |value: fn(&Row) -> f64| rows.iter().map(value).collect::<Vec<_>>();
    let (real, cpu, items) = (column(|row| row.real), column(|row| row.cpu), column(|row| row.items_per_second));
    for aggregate in AGGREGATES {
        let time = aggregated(aggregate, &real);
        rows.push(Row {
            aggregate: Some(aggregate),
            index: 0,
            iterations: repetitions.len() as u64,
            real: time,
            cpu: aggregated(aggregate, &cpu),
            // The least time is that of the highest rate.
            items_per_second: match aggregate {
                "min" | "max" => rate(time),
                _ => aggregated(aggregate, &items),
            },
        });
    }
    rows
}

/// An aggregate of at least two values.
fn aggregated(aggregate: &str, values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let deviation = || (values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
    match aggregate {
        "median" => {
            let mut sorted = values.to_vec();
            sorted.sort_by(f64::total_cmp);
            let middle = sorted.len() / 2;
            if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
        }
        "stddev" => deviation(),
        "min" => values.iter().copied().fold(f64::INFINITY, f64::min),
        "max" => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        "cv" if mean == 0.0 => 0.0,
        "cv" => deviation() / mean,
        _ => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregates() {
        let values = [1.0, 2.0, 4.0, 3.0];
        assert_eq!(aggregated("mean", &values), 2.5);
        assert_eq!(aggregated("median", &values), 2.5);
        assert_eq!(aggregated("median", &values[..3]), 2.0);
        assert!((aggregated("stddev", &values) - 1.290_994_4).abs() < 1e-6);
        assert!((aggregated("cv", &values) - 0.516_397_8).abs() < 1e-6);
    }

    #[test]
    fn a_report_has_single_runs_then_aggregates() {
        let repetitions = [1e-3, 3e-3].map(|real| Repetition { iterations: 10, real, cpu: real });
        let rows = rows(&repetitions);
        let names: Vec<_> = rows.iter().map(|row| row.aggregate.unwrap_or("run")).collect();
        assert_eq!(names, ["run", "run", "mean", "median", "stddev", "cv", "min", "max"]);
        assert_eq!((rows[0].items_per_second, rows[2].iterations, rows[7].real), (1000.0, 2, 3e-3));
        // The row of the least time has the highest rate.
        assert_eq!((rows[6].real, rows[6].items_per_second), (1e-3, 1000.0));
        assert!((rows[7].items_per_second - 1.0 / 3e-3).abs() < 1e-9);
        assert_eq!(super::rows(&repetitions[..1]).len(), 1);
    }

    #[test]
    fn percentiles_are_times_that_were_measured() {
        let times: Vec<f64> = (1..=100).map(f64::from).collect();
        assert_eq!(PERCENTILES.map(|(_, fraction)| percentile(&times, fraction)), [Some(50.0), Some(90.0), Some(99.0)]);
        assert_eq!(percentile(&[7.0], 0.99), Some(7.0));
        assert_eq!(percentile(&[1.0, 2.0], 0.5), Some(1.0));
        assert_eq!(percentile(&[], 0.5), None);
    }

    #[test]
    fn times_have_the_unit_that_fits() {
        let cases =
            [(2.0, "2.000 s"), (0.0274, "27.40 ms"), (2.74e-5, "27.40 us"), (5e-8, "50.00 ns"), (0.0, "0.000 ns")];
        for (seconds, text) in cases {
            assert_eq!(time_text(seconds, None), text);
        }
        assert_eq!(time_text(2.74e-5, Some(TimeUnit::Ms)), "0.02740 ms");
    }

    #[test]
    fn numbers_have_four_digits() {
        let cases =
            [(0.0, "0.000"), (1.0, "1.000"), (12.3456, "12.35"), (123_456.0, "123456"), (0.001_234_56, "0.001235")];
        for (value, text) in cases {
            assert_eq!(significant(value), text);
        }
    }
}
