//! Tests of topologies of made-up machines, as trees in temporary folders. Unless a test says otherwise, the expected
//! text is what the tools of the reference runtime print for the same trees
//! (`--task_topology_snapshot=... --dump_task_topologies`).

use std::collections::BTreeSet;
use std::fmt::Write;
use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::*;
use crate::hal::StringPair;
use crate::status::StatusCode;

/// A processor of a made-up machine.
#[derive(Clone)]
struct Processor {
    core: u32,
    package: u32,
    cluster: i64,
    capacity: Option<u32>,
    /// Level, kind, size, who shares it.
    caches: Vec<(u32, &'static str, &'static str, String)>,
}

fn processor(index: u32, sharing: &str) -> Processor {
    let cache = |level, kind, size, sharing: &str| (level, kind, size, sharing.to_string());
    let own = index.to_string();
    Processor {
        core: index,
        package: 0,
        cluster: 0,
        capacity: None,
        caches: vec![
            cache(1, "Data", "32K", &own),
            cache(1, "Instruction", "64K", &own),
            cache(2, "Unified", "1024K", &own),
            cache(3, "Unified", "32768K", sharing),
        ],
    }
}

fn write(root: &Path, path: &str, text: &str) {
    let path = root.join(path);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, format!("{text}\n")).unwrap();
}

/// A machine with these processors, numbered from 0, and nodes.
fn tree(processors: &[Processor], nodes: &[(u32, &str)]) -> TempDir {
    let folder = TempDir::new().unwrap();
    let root = folder.path();
    write(root, "cpu/present", &format!("0-{}", processors.len() - 1));
    for (index, processor) in processors.iter().enumerate() {
        let place = format!("cpu/cpu{index}");
        write(root, &format!("{place}/topology/core_id"), &processor.core.to_string());
        write(root, &format!("{place}/topology/physical_package_id"), &processor.package.to_string());
        write(root, &format!("{place}/topology/cluster_id"), &processor.cluster.to_string());
        if let Some(capacity) = processor.capacity {
            write(root, &format!("{place}/cpu_capacity"), &capacity.to_string());
        }
        for (cache, (level, kind, size, sharing)) in processor.caches.iter().enumerate() {
            for (file, text) in [("level", level.to_string()), ("type", kind.to_string()), ("size", size.to_string())] {
                write(root, &format!("{place}/cache/index{cache}/{file}"), &text);
            }
            write(root, &format!("{place}/cache/index{cache}/shared_cpu_list"), sharing);
        }
    }
    if !nodes.is_empty() {
        let ids = nodes.iter().map(|(id, _)| id.to_string()).collect::<Vec<_>>();
        write(root, "node/online", &ids.join(","));
        nodes.iter().for_each(|(id, list)| write(root, &format!("node/node{id}/cpulist"), list));
    }
    folder
}

/// Four cores of two threads, i and i + 4, two cores on a cache.
fn two_caches() -> TempDir {
    let of = |index: u32| Processor {
        core: index % 4,
        ..processor(index, if index % 4 < 2 { "0-1,4-5" } else { "2-3,6-7" })
    };
    tree(&(0..8).map(of).collect::<Vec<_>>(), &[(0, "0-7")])
}

/// Two sockets of two cores, which have the same numbers on each.
fn two_sockets(nodes: [u32; 2]) -> TempDir {
    let of = |index: u32| Processor {
        core: index % 2,
        package: index / 2,
        ..processor(index, if index < 2 { "0-1" } else { "2-3" })
    };
    tree(&(0..4).map(of).collect::<Vec<_>>(), &[(nodes[0], "0-1"), (nodes[1], "2-3")])
}

/// Four slow cores and four of two kinds that count as fast.
fn fast_and_slow() -> TempDir {
    let capacities = [400, 400, 400, 767, 768, 800, 1024, 1024];
    let of = |(index, capacity)| Processor { capacity: Some(capacity), ..processor(index, "0-7") };
    tree(&(0..).zip(capacities).map(of).collect::<Vec<_>>(), &[(0, "0-7")])
}

fn config(params: &[(&str, &str)]) -> TaskConfig {
    let pair = |&(key, value): &(&str, &str)| StringPair { key: format!("task_topology_{key}"), value: value.into() };
    TaskConfig::default().with_params(&params.iter().map(pair).collect::<Vec<_>>()).unwrap()
}

/// The workers that parameters select on a machine whose processors may all be used.
fn select(root: &Path, params: &[(&str, &str)]) -> Result<Vec<Topology>> {
    topologies(&TaskConfig { snapshot: root.to_path_buf(), ..config(params) })
}

/// The same in short: the node and the processors of each topology.
fn selected(root: &Path, params: &[(&str, &str)]) -> String {
    short(&select(root, params).unwrap())
}

fn short(topologies: &[Topology]) -> String {
    let mut text = String::new();
    for Topology { node, groups } in topologies {
        let node = node.map_or("any".to_string(), |node| node.to_string());
        let processors = groups.iter().map(|group| group.processor.map_or("-".to_string(), |index| index.to_string()));
        let space = if text.is_empty() { "" } else { " " };
        write!(text, "{space}{node}:{}", processors.collect::<Vec<_>>().join(",")).unwrap();
    }
    text
}

#[test]
fn one_worker_for_each_core_in_turn_of_caches() {
    let machine = two_caches();
    let root = machine.path();
    assert_eq!(selected(root, &[]), "0:0,2,1,3");
    assert_eq!(selected(root, &[("distribution", "compact")]), "0:0,1,2,3");
    assert_eq!(selected(root, &[("favor", "latency")]), "0:0,1,2,3");
    assert_eq!(selected(root, &[("favor", "throughput")]), "0:0,2,1,3");
    assert_eq!(selected(root, &[("max_group_count", "3")]), "0:0,2,1");
    assert_eq!(selected(root, &[("max_group_count", "2")]), "0:0,1");
    assert_eq!(selected(root, &[("nodes", "all")]), "0:0,2,1,3");
    let topologies = select(root, &[("max_group_count", "3")]).unwrap();
    let sharing = topologies[0].groups.iter().map(|group| group.sharing.clone().unwrap()).collect::<Vec<_>>();
    assert_eq!(sharing, [vec![0, 2], vec![1], vec![0, 2]]);
    let caches = Caches { l1_data: 32 << 10, l2_data: 1 << 20, l3_data: 32 << 20 };
    assert!(topologies[0].groups.iter().all(|group| group.caches == caches));
}

#[test]
fn nodes() {
    let machine = two_sockets([0, 8]);
    let root = machine.path();
    for (nodes, expected) in [
        ("current", "0:0,1"),
        ("numa", "0:0,1 8:2,3"),
        ("all", "any:0,2,1,3"),
        ("8", "8:2,3"),
        ("8,0", "8:2,3 0:0,1"),
        ("0,0", "0:0,1 0:0,1"),
    ] {
        assert_eq!(selected(root, &[("nodes", nodes)]), expected, "{nodes}");
    }
    let groups = select(root, &[("nodes", "all")]).unwrap().remove(0).groups;
    let places = groups.iter().map(|group| (group.node, group.package)).collect::<Vec<_>>();
    assert_eq!(places, [(Some(0), Some(0)), (Some(8), Some(1)), (Some(0), Some(0)), (Some(8), Some(1))]);
    let status = select(root, &[("nodes", "1")]).unwrap_err();
    assert_eq!(status.to_string(), "INVALID_ARGUMENT: task_topology_nodes: there is no NUMA node 1, but 0,8");
    // A node with memory alone is none to run on.
    let machine = tree(&[processor(0, "0")], &[(0, "0"), (1, "")]);
    assert_eq!(selected(machine.path(), &[("nodes", "numa")]), "0:0");
    assert!(select(machine.path(), &[("nodes", "1")]).is_err());
}

#[test]
fn a_machine_without_nodes() {
    let machine = tree(&[processor(0, "0-1"), processor(1, "0-1")], &[]);
    for nodes in ["current", "numa", "all", "0"] {
        assert_eq!(selected(machine.path(), &[("nodes", nodes)]), "any:0,1", "{nodes}");
    }
    let status = select(machine.path(), &[("nodes", "0,1")]).unwrap_err();
    assert_eq!(status.to_string(), "INVALID_ARGUMENT: task_topology_nodes: there is no NUMA node 1, but 0");
}

#[test]
fn levels_of_performance() {
    let machine = fast_and_slow();
    let root = machine.path();
    for (level, expected) in [("low", "0:0,1,2,3"), ("high", "0:4,5,6,7"), ("any", "0:0,1,2,3,4,5,6,7")] {
        assert_eq!(selected(root, &[("performance_level", level)]), expected, "{level}");
    }
    assert_eq!(selected(root, &[("favor", "latency"), ("performance_level", "low")]), "0:4,5,6,7");
    assert_eq!(selected(root, &[("favor", "efficiency")]), "0:0,1,2,3");
    // Where all are alike, they are of every level.
    assert_eq!(selected(two_caches().path(), &[("performance_level", "low")]), "0:0,2,1,3");
}

#[test]
fn explicit_workers() {
    let machine = two_sockets([0, 1]);
    let root = machine.path();
    assert_eq!(selected(root, &[("cpu_ids", "3,0,0")]), "any:3,0,0");
    assert_eq!(selected(root, &[("cpu_ids", "0-1;3")]), "any:0,1 any:3");
    assert_eq!(selected(root, &[("group_count", "3")]), "any:-,-,-");
    assert_eq!(selected(root, &[("group_count", "2"), ("nodes", "all")]), "any:-,-");
    let line = |params| select(root, params).unwrap().iter().map(ToString::to_string).collect::<Vec<_>>();
    assert_eq!(line(&[("cpu_ids", "3;1,2")]), ["1 worker on processor 3", "2 workers on processors 1,2"]);
    assert_eq!(line(&[("nodes", "1")]), ["2 workers on processors 2,3 of NUMA node 1"]);
    assert_eq!(line(&[("group_count", "3")]), ["3 workers on any processor"]);
    let status = select(root, &[("cpu_ids", "0,4")]).unwrap_err();
    assert_eq!(status.to_string(), "OUT_OF_RANGE: task_topology_cpu_ids: there is no processor 4, but 0-3");
    // Each node would get workers that are on no node.
    assert_eq!(
        select(root, &[("group_count", "2"), ("nodes", "numa")]).unwrap_err().code(),
        StatusCode::InvalidArgument
    );
    let unpinned = &select(root, &[("group_count", "1")]).unwrap()[0].groups[0];
    assert_eq!((unpinned.caches.l2_data, &unpinned.sharing), (1 << 20, &None));
}

/// The workers that parameters select on a machine of which a process may use only a part.
fn with_machine(root: &Path, params: &[(&str, &str)], restrict: impl FnOnce(&mut Machine)) -> Result<Vec<Topology>> {
    let mut machine = Machine::snapshot(root).unwrap();
    restrict(&mut machine);
    Selection { config: &config(params), nodes: machine.nodes(), machine }.topologies()
}

#[test]
fn only_allowed_processors_are_used() {
    let machine = two_caches();
    let only = |processors: &[u32]| {
        let processors = processors.iter().copied().collect();
        move |machine: &mut Machine| machine.allowed = Some(processors)
    };
    // The second thread of a core stands for it if the first may not be used.
    assert_eq!(short(&with_machine(machine.path(), &[], only(&[0, 4, 5, 7])).unwrap()), "0:0,7,5");
    assert_eq!(short(&with_machine(machine.path(), &[], only(&[6])).unwrap()), "0:6");
    let status = with_machine(machine.path(), &[("cpu_ids", "0")], only(&[1, 2, 3, 6])).unwrap_err();
    let expected = "FAILED_PRECONDITION: task_topology_cpu_ids: this process may not run on processor 0, but on 1-3,6";
    assert_eq!(status.to_string(), expected);
    // Nodes without a processor for it have no queue.
    let machine = two_sockets([0, 1]);
    assert_eq!(short(&with_machine(machine.path(), &[("nodes", "numa")], only(&[3])).unwrap()), "1:3");
    let status = with_machine(machine.path(), &[("nodes", "0")], only(&[3])).unwrap_err();
    assert_eq!(
        status.to_string(),
        "NOT_FOUND: there is no processor for task_topology_nodes=0 and task_topology_performance_level=any among those that \
         this process may run on (3)"
    );
    // A level is one with respect to the whole machine.
    let machine = fast_and_slow();
    let low = [("performance_level", "low")];
    assert_eq!(short(&with_machine(machine.path(), &low, only(&[1, 2])).unwrap()), "0:1,2");
    assert!(with_machine(machine.path(), &low, only(&[6])).is_err());
}

#[test]
fn the_current_node_and_quotas() {
    let machine = two_sockets([0, 1]);
    let on = |processor| move |machine: &mut Machine| machine.current = Some(processor);
    assert_eq!(short(&with_machine(machine.path(), &[], on(3)).unwrap()), "1:2,3");
    assert_eq!(short(&with_machine(machine.path(), &[], on(9)).unwrap()), "0:0,1");
    let quota = |machine: &mut Machine| machine.parallelism = Some(1);
    assert_eq!(short(&with_machine(machine.path(), &[], quota).unwrap()), "0:0");
    // An explicit number of workers overrides the quota.
    assert_eq!(short(&with_machine(machine.path(), &[("group_count", "2")], quota).unwrap()), "any:-,-");
}

#[test]
fn trees_with_holes() {
    // A processor that is off has no folder for its topology.
    let machine = tree(&(0..4).map(|index| processor(index, "0,2-3")).collect::<Vec<_>>(), &[(0, "0,2-3")]);
    fs::remove_dir_all(machine.path().join("cpu/cpu1/topology")).unwrap();
    assert_eq!(selected(machine.path(), &[]), "0:0,2,3");
    // Without caches all cores are alike.
    let bare = |index| Processor { caches: Vec::new(), cluster: -1, ..processor(index, "") };
    let machine = tree(&(0..3).map(bare).collect::<Vec<_>>(), &[(0, "0-2")]);
    let topologies = select(machine.path(), &[]).unwrap();
    assert_eq!(short(&topologies), "0:0,1,2");
    let group = &topologies[0].groups[0];
    assert_eq!((group.cluster, group.caches, &group.sharing), (None, Caches::default(), &None));
    // Without a third level, the second one counts.
    let second = |index| {
        let mut processor = processor(index, "");
        processor.caches.truncate(3);
        processor.caches[2].3 = if index < 2 { "0-1" } else { "2-3" }.to_string();
        processor
    };
    assert_eq!(selected(tree(&(0..4).map(second).collect::<Vec<_>>(), &[]).path(), &[]), "any:0,2,1,3");
    // Without cores, workers are not bound.
    for index in 0..3 {
        fs::remove_dir_all(machine.path().join(format!("cpu/cpu{index}/topology"))).unwrap();
    }
    assert_eq!(selected(machine.path(), &[]), "any:-,-,-");
    // A snapshot without processors is an error; a machine that reports none is not.
    assert_eq!(select(&machine.path().join("none"), &[]).unwrap_err().code(), StatusCode::NotFound);
    fs::remove_file(machine.path().join("cpu/present")).unwrap();
    let silent = TaskConfig { max_group_count: 3, ..TaskConfig::default() };
    assert!((1..=3).contains(&fallback(&silent).groups.len()));
}

#[test]
fn hostile_trees() {
    let endless = "0-1,".repeat(1 << 16);
    let wrong = [
        "",
        "x",
        "0-99999999",
        "4294967295-4294967296",
        "3-0",
        "-",
        "18446744073709551616",
        endless.as_str(),
        "\0",
        "é",
    ];
    let files = [
        "cpu/cpu0/topology/core_id",
        "cpu/cpu0/topology/physical_package_id",
        "cpu/cpu0/topology/cluster_id",
        "cpu/cpu0/cpu_capacity",
        "cpu/cpu0/cache/index3/type",
        "cpu/cpu0/cache/index3/level",
        "cpu/cpu0/cache/index3/size",
        "cpu/cpu0/cache/index3/shared_cpu_list",
        "node/online",
        "node/node0/cpulist",
    ];
    let machine = two_caches();
    let root = machine.path();
    for file in files {
        let path = root.join(file);
        let before = fs::read(&path).ok();
        for text in wrong {
            write(root, file, text);
            for level in ["any", "low", "high"] {
                let topologies = select(root, &[("performance_level", level)]).unwrap();
                assert!((1..=8).contains(&topologies[0].groups.len()), "{file}: {text}");
            }
        }
        // Bytes that are no text, and a folder in place of a file.
        fs::write(&path, [0xFF; 100]).unwrap();
        assert!(select(root, &[]).is_ok(), "{file}");
        fs::remove_file(&path).unwrap();
        fs::create_dir(&path).unwrap();
        assert!(select(root, &[]).is_ok(), "{file}");
        fs::remove_dir(&path).unwrap();
        if let Some(before) = before {
            fs::write(&path, before).unwrap();
        }
    }
    for text in wrong {
        write(root, "cpu/present", text);
        assert_eq!(select(root, &[]).unwrap_err().code(), StatusCode::NotFound, "{text}");
    }
}

#[test]
fn topologies_are_described_as_by_the_reference_tool() {
    let machine = two_sockets([0, 1]);
    let line = "# ===------------------------------------------------------------------------===\n";
    let expected = format!(
        "{line}# topology[0]: 2 worker groups, numa node: any\n{line}#
# group[0]: 'vireo-task-0'
#      processor: 2
#     hardware ids: cluster_id=0, physical_package_id=1
#       affinity: group=1, id=2, smt=0
#  caches: l1d=32768, l2d=1048576
#  last level cache sharing: 1 group(s): 0
#
# group[1]: 'vireo-task-1'
#      processor: 0
#     hardware ids: cluster_id=0, physical_package_id=0
#       affinity: group=0, id=0, smt=0
#  caches: l1d=32768, l2d=1048576
#  last level cache sharing: 1 group(s): 1
#
"
    );
    assert_eq!(select(machine.path(), &[("cpu_ids", "2,0")]).unwrap()[0].dump(0), expected);
    let text = select(machine.path(), &[("group_count", "1")]).unwrap()[0].dump(1);
    assert!(text.contains("topology[1]: 1 worker groups, numa node: any"), "{text}");
    assert!(text.contains("processor: any\n#       affinity: (unspecified)"), "{text}");
    assert!(text.contains("sharing: (all/undefined)"), "{text}");
}

#[test]
fn this_machine() {
    let options = TaskConfig::default().resolve().unwrap();
    assert!(options.topologies.iter().all(|topology| !topology.groups.is_empty()));
    for topology in options.topologies {
        // Of a thread of its own, so that no other test stays bound.
        let processors: Option<BTreeSet<u32>> = topology.groups.iter().map(|group| group.processor).collect();
        let allowed = std::thread::spawn(move || {
            super::super::topology::bind_current_thread(&topology);
            Machine::host().allowed
        });
        let allowed = allowed.join().unwrap();
        if let (Some(processors), Some(allowed)) = (processors, allowed) {
            assert_eq!(allowed, processors);
        }
    }
}
