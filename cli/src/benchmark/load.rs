//! The load of the machine, which disturbs measurements: `benchmark` warns of it, and reports have it as those of
//! Google Benchmark do.

/// The load averages of the last one, five and fifteen minutes; empty where the system does not tell.
pub fn averages() -> Vec<f64> {
    parse(&std::fs::read_to_string("/proc/loadavg").unwrap_or_default())
}

fn parse(text: &str) -> Vec<f64> {
    let numbers = text.split_whitespace().take(3).map_while(|word| word.parse::<f64>().ok());
    numbers.filter(|load| load.is_finite()).collect()
}

/// A warning, if other programs keep more than half of the processors busy.
pub fn warning(averages: &[f64], processors: usize) -> Option<String> {
    let load = averages.first().copied().filter(|load| *load > processors as f64 / 2.0)?;
    Some(format!(
        "warning: the machine is busy, with a load of {load:.1} on {processors} processors; times may be longer than on an idle one\n"
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_busy_machine_is_told() {
        let load = parse("1.20 0.80 0.50 2/345 6789\n");
        assert_eq!(load, [1.2, 0.8, 0.5]);
        assert!(warning(&load, 2).is_some_and(|text| text.contains("a load of 1.2 on 2 processors")));
        assert_eq!(warning(&load, 4), None);
        assert_eq!((parse(""), parse("x 1 2"), warning(&[], 1)), (vec![], vec![], None));
    }
}
