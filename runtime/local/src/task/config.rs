//! The configuration of a `local-task` device: the parameters of its URI, and the flags `--task_*` of tools. Names,
//! meaning and most defaults are those of the tools of the reference runtime, release 3.13.
//!
//! On a machine it resolves to [`TaskOptions`](super::TaskOptions). The options are listed in
//! `spec/hal/local_task.yaml`; this module parses their values and checks their combinations.
//!
//! ```
//! # use vireo::hal::local::task::{Distribution, TaskConfig};
//! let config = TaskConfig { max_group_count: 2, distribution: Distribution::Compact, ..TaskConfig::default() };
//! let options = config.resolve()?;
//! assert!(options.topologies.iter().all(|topology| topology.groups.len() <= 2));
//! # Ok::<(), vireo::Status>(())
//! ```

use std::ffi::OsStr;
use std::fmt;
use std::str::FromStr;

use super::sysfs::parse_list;
use super::topology::MAX_GROUPS;
use crate::generated::hal::local_task::names::{CPU_IDS, DISTRIBUTION, GROUP_COUNT, PERFORMANCE_LEVEL};
pub use crate::generated::hal::local_task::{TaskConfig, names};
pub use crate::generated::names::local_task::{Distribution, Favor, PerformanceLevel, TopologyMode};
use crate::hal::StringPair;
use crate::status::{Result, Status};
use crate::visible_text::excerpt;

/// Most queues of a device: each is a bit of a queue affinity.
pub const MAX_TOPOLOGIES: usize = 64;

/// An option as help shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskOption {
    /// The parameter of a URI.
    pub name: &'static str,
    /// The flag of commands, without the leading dashes.
    pub flag: &'static str,
    /// The name of the value in help.
    pub value: &'static str,
    /// The default; empty if there is none.
    pub default: &'static str,
    /// Its description.
    pub doc: &'static str,
    /// Whether it may be given several times.
    pub repeats: bool,
}

impl TaskConfig {
    /// The same with some parameters set, such as those of a device URI: `task_topology_group_count=4`. Lists of
    /// processors of several queues are separated by semicolons: `task_topology_cpu_ids=0,1;2,3`.
    ///
    /// A parameter overrides settings that contradict it: one that chooses the workers in one way clears the other
    /// ways.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` names the parameter that is wrong.
    pub fn with_params(mut self, params: &[StringPair]) -> Result<TaskConfig> {
        let given = |name: &str| params.iter().any(|param| param.key == name);
        if given(GROUP_COUNT) {
            self.cpu_ids.clear();
        }
        if given(CPU_IDS) {
            self.cpu_ids.clear();
            self.group_count = 0;
        }
        if given(PERFORMANCE_LEVEL) || given(DISTRIBUTION) {
            self.favor = Favor::None;
        }
        for StringPair { key, value } in params {
            let set = self.set(key, OsStr::new(value));
            set.map_err(|problem| {
                Status::invalid_argument(format!("`{}={}`: {problem}", excerpt(key), excerpt(value)))
            })?;
        }
        self.check()?;
        Ok(self)
    }

    /// Checks the values as far as that does not depend on a machine.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` names the parameter that is wrong.
    pub fn check(&self) -> Result<()> {
        for (name, value, least, most) in self.ranges() {
            if !(least..=most).contains(&value) {
                let message = format!("{name} is {value}; expected a number from {least} to {most}");
                return Err(Status::invalid_argument(message));
            }
        }
        if self.group_count != 0 && !self.cpu_ids.is_empty() {
            let message = format!("both {GROUP_COUNT} and {CPU_IDS} say which workers there are; expected one of them");
            return Err(Status::invalid_argument(message));
        }
        if self.cpu_ids.len() > MAX_TOPOLOGIES {
            let (name, count) = (CPU_IDS, self.cpu_ids.len());
            return Err(Status::invalid_argument(format!(
                "{name} has {count} lists, of a queue each; expected at most {MAX_TOPOLOGIES}"
            )));
        }
        Ok(())
    }

    /// The performance level and the distribution, as set one by one or by `favor`.
    pub(super) fn preference(&self) -> (PerformanceLevel, Distribution) {
        match self.favor {
            Favor::None => (self.performance_level, self.distribution),
            Favor::Latency => (PerformanceLevel::High, Distribution::Compact),
            Favor::Throughput => (PerformanceLevel::Any, Distribution::Scatter),
            Favor::Efficiency => (PerformanceLevel::Low, Distribution::Compact),
        }
    }
}

/// The value of an option that is not a path.
pub(crate) fn text(value: &OsStr) -> Result<&str, String> {
    value.to_str().ok_or_else(|| "expected UTF-8".to_string())
}

pub(crate) fn number(value: &OsStr) -> Result<u32, String> {
    text(value)?.parse().map_err(|_| "expected a number".to_string())
}

/// Lists separated by semicolons.
pub(crate) fn processor_lists(value: &OsStr) -> Result<Vec<ProcessorList>, String> {
    text(value)?.split(';').map(str::parse).collect()
}

/// Parses a default of the spec; a test parses all of them.
pub(crate) fn default<T: FromStr<Err = String>>(text: &str) -> T {
    text.parse().unwrap_or_else(|problem| panic!("the default `{text}` of an option: {problem}"))
}

/// Logical processors, in the order of the workers that are bound to them: `0,2` or `0-3`. Numbers are those of
/// `lscpu`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProcessorList(Vec<u32>);

impl ProcessorList {
    /// The numbers; at least one, and at most [`MAX_GROUPS`].
    pub fn processors(&self) -> &[u32] {
        &self.0
    }
}

impl FromStr for ProcessorList {
    type Err = String;

    fn from_str(text: &str) -> Result<ProcessorList, String> {
        const EXPECTED: &str = "expected numbers of processors and ranges of them, such as `0,2,8-11`";
        let processors = parse_list(text, MAX_GROUPS).map_err(|problem| format!("{problem}; {EXPECTED}"))?;
        if processors.is_empty() { Err(format!("no processor; {EXPECTED}")) } else { Ok(ProcessorList(processors)) }
    }
}

/// NUMA nodes that workers are on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Nodes {
    /// The node of the calling thread.
    Current,
    /// Each node, with a queue of its own.
    Each,
    /// All nodes, with one queue.
    All,
    /// These nodes, with a queue each.
    Ids(Vec<u32>),
}

impl FromStr for Nodes {
    type Err = String;

    fn from_str(text: &str) -> Result<Nodes, String> {
        const EXPECTED: &str = "expected `current`, `numa`, `all` or numbers of nodes such as `0,2`";
        Ok(match text.trim() {
            "" | "current" => Nodes::Current,
            "numa" => Nodes::Each,
            "all" => Nodes::All,
            ids => Nodes::Ids(parse_list(ids, MAX_TOPOLOGIES).map_err(|problem| format!("{problem}; {EXPECTED}"))?),
        })
    }
}

impl fmt::Display for Nodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Nodes::Current => "current",
            Nodes::Each => "numa",
            Nodes::All => "all",
            Nodes::Ids(ids) => {
                return f.write_str(&ids.iter().map(u32::to_string).collect::<Vec<_>>().join(","));
            }
        })
    }
}

/// Parses words of a set of `spec/names/local_task.yaml`. The error lists all of them.
macro_rules! read_words {
    ($($name:ident)*) => {$(
        impl FromStr for $name {
            type Err = String;

            fn from_str(text: &str) -> Result<$name, String> {
                $name::from_name(text).ok_or_else(|| {
                    let names = $name::WRITTEN.iter().copied().filter(|name| !name.is_empty());
                    format!("expected one of {}", names.collect::<Vec<_>>().join(", "))
                })
            }
        }
    )*};
}

read_words! { TopologyMode PerformanceLevel Distribution Favor }

#[cfg(test)]
mod tests {
    use super::names::{FAVOR, MAX_GROUP_COUNT, MODE, NODES, WORKER_LOCAL_MEMORY, WORKER_SPIN_US, WORKER_STACK_SIZE};
    use super::*;

    fn with(config: TaskConfig, params: &[(&str, &str)]) -> Result<TaskConfig> {
        let pair = |&(key, value): &(&str, &str)| StringPair { key: key.into(), value: value.into() };
        config.with_params(&params.iter().map(pair).collect::<Vec<_>>())
    }

    #[test]
    fn all_parameters_are_read() {
        let mut values = vec!["0", "65536", "1024", "physical_cores", "4", "0,2-3;1", "8", "0,2", "low", "compact"];
        values.extend(["throughput", "/tmp"]);
        let mut params = TaskConfig::OPTIONS.iter().map(|option| option.name).zip(values).collect::<Vec<_>>();
        params.retain(|(name, _)| *name != GROUP_COUNT);
        let config = with(TaskConfig::default(), &params).unwrap();
        let lists = config.cpu_ids.iter().map(ProcessorList::processors).collect::<Vec<_>>();
        assert_eq!(lists, [vec![0, 2, 3], vec![1]]);
        let expected = TaskConfig {
            worker_spin_us: 0,
            worker_stack_size: 65536,
            worker_local_memory: 1024,
            mode: TopologyMode::PhysicalCores,
            group_count: 0,
            max_group_count: 8,
            cpu_ids: config.cpu_ids.clone(),
            nodes: Nodes::Ids(vec![0, 2]),
            performance_level: PerformanceLevel::Low,
            distribution: Distribution::Compact,
            favor: Favor::Throughput,
            snapshot: "/tmp".into(),
        };
        assert_eq!(config, expected);
        assert_eq!(config.preference(), (PerformanceLevel::Any, Distribution::Scatter));
        assert_eq!(with(TaskConfig::default(), &[(GROUP_COUNT, "4")]).unwrap().group_count, 4);
    }

    #[test]
    fn errors_name_the_parameter() {
        for (name, value, message) in [
            ("threads", "1", "there is no such parameter; expected one of task_worker_spin_us, "),
            (GROUP_COUNT, "-1", "`task_topology_group_count=-1`: expected a number"),
            (GROUP_COUNT, "257", "task_topology_group_count is 257; expected a number from 0 to 256"),
            (MAX_GROUP_COUNT, "0", "task_topology_max_group_count is 0; expected a number from 1 to 256"),
            (WORKER_SPIN_US, "1000001", "expected a number from 0 to 1000000"),
            (WORKER_STACK_SIZE, "4294967295", "expected a number from 0 to 1073741824"),
            (WORKER_LOCAL_MEMORY, "99999999999", "expected a number"),
            (MODE, "cores", "expected one of physical_cores"),
            (NODES, "1,x", "`x` is not a number below 8192; expected `current`, `numa`, `all` or numbers of nodes"),
            (CPU_IDS, "", "no processor; expected numbers of processors"),
            (CPU_IDS, "0;", "no processor"),
            (CPU_IDS, "0-256", "more than 256 numbers"),
            (CPU_IDS, "0,,1", "`` is not a number"),
            (CPU_IDS, "0;".repeat(65).trim_end_matches(';'), "expected at most 64"),
            (PERFORMANCE_LEVEL, "fast", "expected one of any, low, efficiency, high, performance"),
            (DISTRIBUTION, "", "expected one of compact, scatter"),
            (FAVOR, "speed", "expected one of latency, throughput, efficiency"),
        ] {
            let status = with(TaskConfig::default(), &[(name, value)]).unwrap_err();
            assert!(status.to_string().starts_with("INVALID_ARGUMENT: "), "{status}");
            assert!(status.message().contains(message), "{status}\nis not: {message}");
        }
    }

    #[test]
    fn parameters_override_what_they_contradict() {
        let pinned = with(TaskConfig::default(), &[(CPU_IDS, "0")]).unwrap();
        assert!(with(pinned.clone(), &[(GROUP_COUNT, "2")]).unwrap().cpu_ids.is_empty());
        assert_eq!(with(pinned.clone(), &[(CPU_IDS, "1")]).unwrap().cpu_ids, [ProcessorList(vec![1])]);
        let counted = with(TaskConfig::default(), &[(GROUP_COUNT, "2")]).unwrap();
        assert_eq!(with(counted.clone(), &[(CPU_IDS, "1")]).unwrap().group_count, 0);
        assert!(with(pinned, &[(CPU_IDS, "0"), (GROUP_COUNT, "2")]).unwrap_err().message().contains("both"));
        let favored = with(TaskConfig::default(), &[(FAVOR, "latency")]).unwrap();
        let compact = with(favored, &[(DISTRIBUTION, "scatter")]).unwrap();
        assert_eq!(compact.preference(), (PerformanceLevel::Any, Distribution::Scatter));
    }

    #[test]
    fn values_are_printed_as_they_are_read() {
        for text in ["current", "numa", "all", "0,2"] {
            assert_eq!(text.parse::<Nodes>().unwrap().to_string(), text);
        }
        assert_eq!("performance".parse::<PerformanceLevel>().unwrap().to_string(), "high");
        assert_eq!("".parse::<Favor>().unwrap().to_string(), "");
    }
}
