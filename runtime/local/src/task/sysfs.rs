//! A reader of Linux's description of the processors, `/sys/devices/system`, as the kernel documents it
//! (`Documentation/ABI/stable/sysfs-devices-system-cpu` and `-node`). The selection of processors uses it.
//!
//! Containers hide parts of the tree, kernels leave parts out, and a snapshot may contain anything. So every fact may
//! be missing, malformed text counts as missing, and reads are bounded. Facts are read on demand, since reading all of
//! them takes milliseconds on a large machine. Crates for topologies bind a library in C, and read everything.

use std::collections::BTreeSet;
use std::fs::{self, File, Metadata};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::thread;

use super::topology::Caches;
use crate::status::{Result, Status};

/// Processors have smaller numbers than this, which is the largest number that Linux can be built for.
pub(super) const MAX_PROCESSORS: u32 = 8192;
/// Longest file that is read.
const MAX_FILE: u64 = 64 << 10;
/// Most caches of a processor that are read.
const MAX_CACHES: u32 = 8;
/// The root of the tree.
const ROOT: &str = "/sys/devices/system";

/// Numbers of processors.
pub(super) type ProcessorSet = BTreeSet<u32>;

/// A NUMA node that has processors.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Node {
    pub(super) id: u32,
    pub(super) processors: ProcessorSet,
}

/// A machine, and the processors that this process may use.
#[derive(Debug)]
pub(super) struct Machine {
    root: PathBuf,
    /// Processors that the process may run on, if that is known.
    pub(super) allowed: Option<ProcessorSet>,
    /// The processor that the calling thread runs on.
    pub(super) current: Option<u32>,
    /// The number of threads that can run at a time, which a quota may limit below the number of processors.
    pub(super) parallelism: Option<usize>,
}

impl Machine {
    /// This machine.
    pub(super) fn host() -> Machine {
        Machine {
            root: PathBuf::from(ROOT),
            allowed: allowed_processors(),
            current: current_processor(),
            parallelism: thread::available_parallelism().ok().map(usize::from),
        }
    }

    /// A machine from a copy of its `/sys/devices/system`. All of it may be used.
    pub(super) fn snapshot(root: &Path) -> Result<Machine> {
        let machine = Machine { root: root.to_path_buf(), allowed: None, current: None, parallelism: None };
        if machine.present().is_none() {
            let message = "no list of processors in `cpu/present`; expected a copy of /sys/devices/system";
            return Err(Status::not_found(message).context(format!("topology snapshot `{}`", root.display())));
        }
        Ok(machine)
    }

    /// The processors that exist, not all of which may be usable.
    pub(super) fn present(&self) -> Option<ProcessorSet> {
        self.set("cpu/present").filter(|set| !set.is_empty())
    }

    /// The processors that exist and may be used.
    pub(super) fn usable(&self) -> Option<ProcessorSet> {
        let present = self.present()?;
        Some(match &self.allowed {
            Some(allowed) => &present & allowed,
            None => present,
        })
    }

    /// The core of a processor: processors with the same one are its hardware threads. Missing where the processor is
    /// off.
    pub(super) fn core(&self, processor: u32) -> Option<(Option<u32>, u32)> {
        Some((self.package(processor), self.processor_id(processor, "topology/core_id")?))
    }

    /// The socket of a processor.
    pub(super) fn package(&self, processor: u32) -> Option<u32> {
        self.processor_id(processor, "topology/physical_package_id")
    }

    /// The cluster of a processor, of cores that share more than the socket.
    pub(super) fn cluster(&self, processor: u32) -> Option<u32> {
        self.processor_id(processor, "topology/cluster_id")
    }

    /// The relative performance of a processor. Missing where all are equal.
    pub(super) fn capacity(&self, processor: u32) -> Option<u32> {
        self.text(&format!("cpu/cpu{processor}/cpu_capacity"))?.parse().ok()
    }

    /// The NUMA nodes that have processors, by number.
    pub(super) fn nodes(&self) -> Vec<Node> {
        let ids = self.set("node/online").unwrap_or_default().into_iter();
        let node = |id| Some(Node { id, processors: self.set(&format!("node/node{id}/cpulist"))? });
        ids.filter_map(node).filter(|node| !node.processors.is_empty()).collect()
    }

    /// Sizes of a processor's data caches.
    pub(super) fn caches(&self, processor: u32) -> Caches {
        let mut caches = Caches::default();
        for cache in self.data_caches(processor) {
            let size = self.text(&format!("{cache}/size")).and_then(|text| parse_size(&text)).unwrap_or(0);
            match self.level(&cache) {
                Some(1) => caches.l1_data = size,
                Some(2) => caches.l2_data = size,
                Some(3) => caches.l3_data = size,
                _ => {}
            }
        }
        caches
    }

    /// The processors with the same last level of data cache as this one: the third, or else the second.
    pub(super) fn sharing(&self, processor: u32) -> Option<ProcessorSet> {
        let caches = self.data_caches(processor);
        let of_level = |level| caches.iter().find(|cache| self.level(cache) == Some(level));
        [3, 2].into_iter().filter_map(of_level).find_map(|cache| self.set(&format!("{cache}/shared_cpu_list")))
    }

    /// The folders of a processor's caches, except those of instructions alone.
    fn data_caches(&self, processor: u32) -> Vec<String> {
        let folders = (0..MAX_CACHES).map(|index| format!("cpu/cpu{processor}/cache/index{index}"));
        let kinds = folders.map_while(|folder| Some((self.text(&format!("{folder}/type"))?, folder)));
        kinds.filter(|(kind, _)| kind == "Data" || kind == "Unified").map(|(_, folder)| folder).collect()
    }

    fn level(&self, cache: &str) -> Option<u32> {
        self.text(&format!("{cache}/level"))?.parse().ok()
    }

    /// A number in the folder of a processor. The kernel writes -1 for unknown ones, in 16 or 32 bits and with or
    /// without a sign.
    fn processor_id(&self, processor: u32, file: &str) -> Option<u32> {
        let id = self.text(&format!("cpu/cpu{processor}/{file}"))?.parse().ok()?;
        Some(id).filter(|id| ![u32::from(u16::MAX), u32::MAX].contains(id))
    }

    fn set(&self, path: &str) -> Option<ProcessorSet> {
        let ids = parse_list(&self.text(path)?, MAX_PROCESSORS as usize).ok()?;
        Some(ids.into_iter().collect())
    }

    fn text(&self, path: &str) -> Option<String> {
        let path = self.root.join(path);
        // Opening a pipe may block for ever, and a snapshot is not trusted.
        fs::metadata(&path).ok().filter(Metadata::is_file)?;
        let mut text = String::new();
        File::open(path).ok()?.take(MAX_FILE).read_to_string(&mut text).ok()?;
        Some(text.trim().to_string())
    }
}

/// Parses a list of numbers and ranges, `0-3,8`, in the order in which they are written. The error says what is wrong.
pub(super) fn parse_list(text: &str, most: usize) -> Result<Vec<u32>, String> {
    let number = |text: &str| {
        let number = text.trim().parse::<u32>().ok().filter(|number| *number < MAX_PROCESSORS);
        number.ok_or_else(|| format!("`{}` is not a number below {MAX_PROCESSORS}", text.trim().escape_debug()))
    };
    let mut numbers = Vec::new();
    if text.trim().is_empty() {
        return Ok(numbers);
    }
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let range = number(first)?..=number(last)?;
        if range.is_empty() {
            return Err(format!("the range `{}` ends before it begins", part.trim()));
        }
        if range.clone().count() > most - numbers.len() {
            return Err(format!("more than {most} numbers"));
        }
        numbers.extend(range);
    }
    Ok(numbers)
}

/// Formats a set as [`parse_list`] reads it.
pub(super) fn list_text(set: &ProcessorSet) -> String {
    let mut ranges: Vec<(u32, u32)> = Vec::new();
    for &number in set {
        match ranges.last_mut() {
            Some((_, last)) if *last + 1 == number => *last = number,
            _ => ranges.push((number, number)),
        }
    }
    let range = |(first, last)| if first == last { format!("{first}") } else { format!("{first}-{last}") };
    ranges.into_iter().map(range).collect::<Vec<_>>().join(",")
}

/// Parses a size such as `48K`.
fn parse_size(text: &str) -> Option<u64> {
    let (digits, shift) = match text.chars().last()? {
        'K' => (&text[..text.len() - 1], 10),
        'M' => (&text[..text.len() - 1], 20),
        'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

#[cfg(target_os = "linux")]
fn allowed_processors() -> Option<ProcessorSet> {
    use rustix::thread::{CpuSet, sched_getaffinity};

    // Fails where processor numbers do not fit the set. Then all are allowed.
    let set = sched_getaffinity(None).ok()?;
    Some((0..CpuSet::MAX_CPU).filter(|index| set.is_set(*index)).filter_map(|index| index.try_into().ok()).collect())
}

#[cfg(not(target_os = "linux"))]
fn allowed_processors() -> Option<ProcessorSet> {
    None
}

#[cfg(target_os = "linux")]
fn current_processor() -> Option<u32> {
    rustix::thread::sched_getcpu().try_into().ok()
}

#[cfg(not(target_os = "linux"))]
fn current_processor() -> Option<u32> {
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists() {
        assert_eq!(parse_list("0-3,8", 10), Ok(vec![0, 1, 2, 3, 8]));
        assert_eq!(parse_list(" 7 , 1,1-1\n", 10), Ok(vec![7, 1, 1]));
        assert_eq!(parse_list("\n", 10), Ok(vec![]));
        for wrong in ["a", "1,", ",", "-1", "1-", "3-1", "0x1", "1a", "8192", "4294967296", "0-4", "0-1,0-1,0", "1-2-3"]
        {
            assert!(parse_list(wrong, 4).is_err(), "{wrong}");
        }
        assert_eq!(list_text(&[0, 1, 2, 5, 7, 8].into()), "0-2,5,7-8");
        assert_eq!(list_text(&ProcessorSet::new()), "");
    }

    #[test]
    fn sizes() {
        for (text, size) in [("32K", Some(32 << 10)), ("1M", Some(1 << 20)), ("512", Some(512)), ("2G", Some(2 << 30))]
        {
            assert_eq!(parse_size(text), size, "{text}");
        }
        for wrong in ["", "K", "-1K", "1.5M", "99999999999999999999", "18446744073709551615K", "1é"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn this_machine_can_be_read() {
        let machine = Machine::host();
        assert!(machine.allowed.is_none_or(|allowed| !allowed.is_empty()));
    }
}
