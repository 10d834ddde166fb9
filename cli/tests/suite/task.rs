//! The flags of the workers of `local-task` devices. What they find on which machine is tested in the runtime.

use std::fs;
use std::path::Path;

use crate::common::{Outcome, folder, model, vireo};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use tempfile::TempDir;

/// The workers that flags give.
fn dump(flags: &[&str]) -> Outcome {
    vireo(&folder("../fixtures/models"), ["run", "--dump_task_topologies"].iter().chain(flags))
}

/// A machine with two processors that share nothing.
fn machine() -> TempDir {
    let folder = TempDir::new().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write("cpu/present", "0-1\n");
    write("cpu/cpu0/topology/core_id", "0\n");
    write("cpu/cpu1/topology/core_id", "1\n");
    folder
}

#[test]
fn workers_are_shown() {
    let machine = machine();
    let snapshot = format!("--task_topology_snapshot={}", machine.path().display());
    let line = "# ===------------------------------------------------------------------------===\n";
    let expected = format!(
        "{line}# topology[0]: 1 worker groups, numa node: any\n{line}#
# group[0]: 'vireo-task-0'
#      processor: 1
#     hardware ids: cluster_id=n/a, physical_package_id=n/a
#       affinity: group=0, id=1, smt=0
#  caches: l1d=0, l2d=0
#  last level cache sharing: (none)
#
"
    );
    let outcome = dump(&[&snapshot, "--task_topology_cpu_ids=1"]);
    assert_eq!((outcome.code, outcome.stdout), (0, expected));
    let several = dump(&[&snapshot, "--task_topology_cpu_ids=1", "--task-topology-cpu-ids", "0,1"]);
    assert!(several.stdout.contains("topology[1]: 2 worker groups"), "{}", several.stdout);
    assert!(dump(&[&snapshot]).stdout.contains("topology[0]: 2 worker groups"));
    // The other commands that have the flags answer likewise.
    for command in ["benchmark", "devices"] {
        let outcome = vireo(Path::new("."), [command, "--dump_task_topologies", &snapshot]);
        assert_eq!((outcome.code, outcome.stdout), (0, dump(&[&snapshot]).stdout), "{command}");
    }
}

#[test]
fn a_uri_wins_over_flags() {
    let abs = model("abs");
    let program = ["run", &abs, "--function=abs", "--input=f32=-2", "--task_topology_cpu_ids=8191"];
    let run = |device: &str| vireo(&folder("../fixtures/models"), program.iter().chain(&[device]));
    let flags = run("--device=local-task");
    assert!(flags.code != 0 && flags.stderr.contains("processor 8191"), "{}", flags.stderr);
    let uri = run("--device=local-task://?task_topology_group_count=2&task_worker_spin_us=0");
    assert_eq!(
        (uri.code, uri.stdout.as_str()),
        (0, "EXEC @abs\nresult[0]: hal.buffer_view\nf32=2\n"),
        "{}",
        uri.stderr
    );
    let wrong = run("--device=local-task://?task_topology_group_count=two");
    assert_eq!(wrong.code, 2);
    assert!(wrong.stderr.contains("`task_topology_group_count=two`: expected a number"), "{}", wrong.stderr);
    let workers = vireo(Path::new("."), ["run", "--dump_devices=local-task", "--task_topology_group_count=2"]);
    assert!(workers.stdout.contains("queue of 2 workers on any processor"), "{}{}", workers.stdout, workers.stderr);
}

#[test]
fn flags_that_are_wrong() {
    for (flag, parts) in [
        ("--task_topology_group_count=257", ["task_topology_group_count is 257", "from 0 to 256"]),
        ("--task_topology_group_count=-1", ["'-1'", "--task-topology-group-count"]),
        ("--task_topology_max_group_count=0", ["task_topology_max_group_count is 0", "from 1 to 256"]),
        ("--task_topology_cpu_ids=0,x", ["`x` is not a number", "such as `0,2,8-11`"]),
        ("--task_topology_cpu_ids=8191", ["task_topology_cpu_ids: ", "processor 8191"]),
        ("--task_topology_nodes=near", ["'near'", "`current`, `numa`, `all`"]),
        ("--task_topology_mode=threads", ["'threads'", "physical_cores"]),
        ("--task_topology_performance_level=top", ["'top'", "any, low, efficiency, high, performance"]),
        ("--task_topology_distribution=even", ["'even'", "compact, scatter"]),
        ("--task_topology_favor=all", ["'all'", "latency, throughput, efficiency"]),
        ("--task_topology_snapshot=/nonexistent", ["NOT_FOUND", "`/nonexistent`"]),
        ("--task_worker_spin_us=9999999", ["task_worker_spin_us is 9999999", "from 0 to 1000000"]),
        ("--task_worker_stack_size=4000000000", ["task_worker_stack_size is 4000000000", "to 1073741824"]),
        ("--task_worker_local_memory=1e6", ["'1e6'", "--task-worker-local-memory"]),
    ] {
        let outcome = dump(&[flag]);
        assert_eq!(outcome.code, 2, "{flag}: {}{}", outcome.stdout, outcome.stderr);
        assert!(parts.iter().all(|part| outcome.stderr.contains(part)), "{flag}: {}", outcome.stderr);
        assert!(!outcome.stderr.contains("panicked"), "{flag}: {}", outcome.stderr);
    }
    // They are checked even where no such device is made.
    let outcome = vireo(
        &folder("../fixtures/models"),
        ["run", "--module=abs.vmfb", "--function=abs", "--input=f32=-2", "--task_topology_group_count=257"],
    );
    assert_eq!(outcome.code, 2, "{}{}", outcome.stdout, outcome.stderr);
}

#[test]
fn a_process_has_workers_only_where_it_may_run() {
    // Threads hand their affinity on to the processes that they start; the thread of this test is its own.
    let allowed = sched_getaffinity(None).unwrap();
    let processor = (0..CpuSet::MAX_CPU).rev().find(|processor| allowed.is_set(*processor)).unwrap();
    let mut only = CpuSet::new();
    only.set(processor);
    sched_setaffinity(None, &only).unwrap();
    let outcome = dump(&["--task_topology_nodes=all"]);
    assert!(outcome.stdout.contains("topology[0]: 1 worker groups"), "{}", outcome.stdout);
    assert!(!outcome.stdout.contains("topology[1]"), "{}", outcome.stdout);
    if let Some(other) = (0..processor).find(|other| allowed.is_set(*other)) {
        let outcome = dump(&[&format!("--task_topology_cpu_ids={other}")]);
        assert_eq!(outcome.code, 2, "{}", outcome.stdout);
        let expected = format!("this process may not run on processor {other}, but on {processor}");
        assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
    }
}
