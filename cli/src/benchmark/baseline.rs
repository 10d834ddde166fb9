//! Comparison with an earlier run or another module, `--baseline=FILE`: reads a report in the JSON of Google Benchmark,
//! or takes the times of the module, and prints how times have changed.

use std::path::Path;

use serde_json::Value;
use vireo::vmfb::Archive;

use super::time_text::time_text;
use crate::arguments::TimeUnit;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::table::Table;

/// Most bytes of a report.
const MAX_FILE: u64 = 64 << 20;

/// Whether a file is a module rather than a report: by its contents, or, if it is damaged, by its name.
pub fn is_module(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "vmfb") || path.is_file() && Archive::open(path).is_ok()
}

/// The times of an earlier run.
pub struct Baseline {
    times: Vec<(String, f64)>,
}

impl Baseline {
    /// Reads the report at `path`.
    pub fn read(path: &Path) -> Result<Baseline, Failure> {
        let failed = || {
            let failure = Failure::new(Exit::Usage, format!("cannot use --baseline={}", path.display()));
            failure.hint("--benchmark_out=FILE writes such a report")
        };
        let length = std::fs::metadata(path).map_err(|error| failed().because(error))?.len();
        if length > MAX_FILE {
            let status = vireo::Status::resource_exhausted(format!("expected at most {MAX_FILE} bytes, not {length}"));
            return Err(failed().because(status));
        }
        let text = std::fs::read_to_string(path).map_err(|error| failed().because(error))?;
        let report: Value = serde_json::from_str(&text).map_err(|error| failed().because(error))?;
        let times = report["benchmarks"].as_array().map(|benchmarks| times(benchmarks)).unwrap_or_default();
        if times.is_empty() {
            let status =
                vireo::Status::invalid_argument("expected a list `benchmarks` with names, times and their units");
            return Err(failed().because(status));
        }
        Ok(Baseline { times })
    }

    /// The times of another module.
    pub fn of(times: Vec<(String, f64)>) -> Baseline {
        Baseline { times }
    }

    /// A table of what has changed since.
    pub fn compare(&self, now: &[(String, f64)], unit: Option<TimeUnit>) -> String {
        let mut table = Table::new(&["benchmark", ">baseline", ">now", ">change"]);
        for (name, seconds) in now {
            let before = self.times.iter().find(|(known, _)| known == name).map(|(_, before)| *before);
            let change = match before {
                None => "not in the baseline".into(),
                Some(before) if before > 0.0 => format!("{:+.1} %", (seconds / before - 1.0) * 100.0),
                Some(_) => "-".into(),
            };
            let before = before.map_or_else(String::new, |before| time_text(before, unit));
            table.row([name.clone(), before, time_text(*seconds, unit), change]);
        }
        table.to_text()
    }
}

/// The seconds of a call of each benchmark of a report: the median of its repetitions, or else the mean of those that
/// are there.
pub fn times(benchmarks: &[Value]) -> Vec<(String, f64)> {
    /// Repetitions, their sum, and their median.
    type Times = (String, Vec<f64>, Option<f64>);
    let mut all: Vec<Times> = Vec::new();
    for one in benchmarks {
        let units = [TimeUnit::Ns, TimeUnit::Us, TimeUnit::Ms, TimeUnit::S];
        let unit = units.into_iter().find(|unit| one["time_unit"] == unit.name());
        let (Some(unit), Some(name), Some(time)) = (unit, one["name"].as_str(), one["real_time"].as_f64()) else {
            continue;
        };
        let name = one["run_name"].as_str().unwrap_or(name);
        let index = all.iter().position(|(known, ..)| known == name).unwrap_or_else(|| {
            all.push((name.to_string(), Vec::new(), None));
            all.len() - 1
        });
        let seconds = time / unit.per_second();
        match one["aggregate_name"].as_str() {
            None => all[index].1.push(seconds),
            Some("median") => all[index].2 = Some(seconds),
            Some(_) => {}
        }
    }
    let time = |(name, repetitions, median): Times| {
        let mean = (!repetitions.is_empty()).then(|| repetitions.iter().sum::<f64>() / repetitions.len() as f64);
        median.or(mean).map(|seconds| (name, seconds))
    };
    all.into_iter().filter_map(time).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_median_counts_or_else_the_mean() {
        let report = [
            json!({"name": "a", "run_name": "a", "real_time": 2.0, "time_unit": "ms"}),
            json!({"name": "a", "run_name": "a", "real_time": 4.0, "time_unit": "ms"}),
            json!({"name": "b", "run_name": "b", "real_time": 9.0, "time_unit": "us"}),
            json!({"name": "b_median", "run_name": "b", "aggregate_name": "median", "real_time": 8.0, "time_unit": "us"}),
            json!({"name": "b_cv", "run_name": "b", "aggregate_name": "cv", "real_time": 0.1, "time_unit": "us"}),
            json!({"name": "c", "real_time": 1.0, "time_unit": "days"}),
        ];
        let found = times(&report);
        assert_eq!(found.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!((found[0].1 - 3e-3).abs() < 1e-9 && (found[1].1 - 8e-6).abs() < 1e-12, "{found:?}");
        let baseline = Baseline { times: found };
        let table = baseline.compare(&[("a".into(), 1.5e-3), ("new".into(), 1.0)], None);
        assert!(table.contains("a          3.000 ms  1.500 ms              -50.0 %\n"), "{table}");
        assert!(table.contains("new                   1.000 s  not in the baseline\n"), "{table}");
    }
}
