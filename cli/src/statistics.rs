//! Statistics of devices as text, for `--print_device_statistics`. `run` and `benchmark` print it at the end.

use vireo::hal::{DispatchStatistics, ExecutionStatistics};

use crate::benchmark::time_text;
use crate::table::Table;

/// The operations that a program asked of its devices, and the times of its kernels.
pub fn text(statistics: &ExecutionStatistics) -> String {
    let mut operations = Table::new(&["operation", ">count"]);
    for operation in statistics.operations() {
        operations.row([operation.name.to_string(), operation.count.to_string()]);
    }
    let mut kernels = Table::new(&["kernel", ">dispatches", ">workgroups", ">time", ">each", ">share"]);
    let dispatches = statistics.dispatches();
    for (dispatch, share) in dispatches.iter().zip(shares(&dispatches)) {
        let seconds = dispatch.time.as_secs_f64();
        kernels.row([
            dispatch.name.clone(),
            dispatch.count.to_string(),
            dispatch.workgroups.to_string(),
            time_text(seconds, None),
            time_text(seconds / dispatch.count.max(1) as f64, None),
            format!("{:.1} %", share * 100.0),
        ]);
    }
    let (operations, kernels) = (operations.to_text(), kernels.to_text());
    if operations.is_empty() {
        return "Device statistics: the program has not used a queue of a device\n".into();
    }
    let kernels = if kernels.is_empty() { "  no kernel was timed\n".into() } else { kernels };
    format!("Device statistics:\n{operations}{kernels}")
}

/// The part of the time of all kernels that each one took.
pub fn shares(dispatches: &[DispatchStatistics]) -> Vec<f64> {
    let nanoseconds = |dispatch: &DispatchStatistics| dispatch.time.as_nanos() as f64;
    let all = dispatches.iter().map(nanoseconds).sum::<f64>().max(1.0);
    dispatches.iter().map(|dispatch| nanoseconds(dispatch) / all).collect()
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn shares_are_parts_of_the_whole() {
        let of = |nanoseconds| DispatchStatistics {
            name: "f".into(),
            count: 1,
            workgroups: 1,
            time: Duration::from_nanos(nanoseconds),
        };
        assert_eq!(shares(&[of(30), of(10)]), [0.75, 0.25]);
        assert_eq!(shares(&[of(0)]), [0.0]);
        assert_eq!(shares(&[]), [] as [f64; 0]);
    }

    #[test]
    fn nothing_to_count_is_said() {
        assert!(text(&ExecutionStatistics::new()).contains("has not used a queue"));
    }
}
