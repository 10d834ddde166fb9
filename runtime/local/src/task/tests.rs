//! Tests of the workers with tiles that only count themselves.

#[cfg(unix)]
#[path = "../../../tests/support/in_child.rs"]
mod in_child;

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Barrier, mpsc};
use std::thread;
use std::time::Duration;

#[cfg(unix)]
use self::in_child::in_child;
use super::tile_range::TileRange;
use super::{Caches, Executor, Task, TaskOptions, TiledWork, Topology};
use crate::hal::host_kernels::WorkgroupMemory;
use crate::status::{Result, Status};

fn executor(workers: usize) -> Executor {
    let topology = Topology::unpinned(workers, Caches::default());
    Executor::new(topology, &TaskOptions::default())
}

/// Counts how often each tile was run; some of them fail, or panic.
struct Counted {
    runs: Vec<AtomicU32>,
    fails: Option<u32>,
    panics: Option<u32>,
}

impl Counted {
    fn new(tiles: u32) -> Counted {
        Counted { runs: (0..tiles).map(|_| AtomicU32::new(0)).collect(), fails: None, panics: None }
    }

    fn counts(&self) -> Vec<u32> {
        self.runs.iter().map(|runs| runs.load(Ordering::Relaxed)).collect()
    }
}

impl TiledWork for Counted {
    fn run(&self, tile: u32, _workgroup_memory: &mut WorkgroupMemory) -> Result<()> {
        self.runs[tile as usize].fetch_add(1, Ordering::Relaxed);
        assert_ne!(self.panics, Some(tile), "a tile that panics");
        match self.fails {
            Some(fails) if fails == tile => Err(Status::data_loss(format!("tile {tile}"))),
            _ => Ok(()),
        }
    }
}

#[test]
fn every_tile_of_every_region_runs_once_whoever_leads() {
    const LEADERS: u32 = 3;
    const REGIONS: u32 = 50;
    let executor = executor(3);
    thread::scope(|scope| {
        for leader in 0..LEADERS {
            let executor = &executor;
            scope.spawn(move || {
                let lead = executor.lead(true);
                for region in 0..REGIONS {
                    let tiles = (region * 7 + leader) % 100 + 1;
                    let work = Counted::new(tiles);
                    lead.share(tiles, &work, region % 3 == 0).expect("no tile fails");
                    assert_eq!(work.counts(), vec![1; tiles as usize]);
                }
            });
        }
    });
}

#[test]
fn a_tile_that_fails_ends_its_region_and_no_other() {
    let executor = executor(2);
    let lead = executor.lead(true);
    for _ in 0..20 {
        let failing = Counted { fails: Some(13), ..Counted::new(1000) };
        let failure = lead.share(1000, &failing, true).expect_err("one tile fails");
        assert_eq!(failure.message(), "tile 13");
        assert!(failing.counts().iter().all(|count| *count <= 1));
        let work = Counted::new(10);
        lead.share(10, &work, false).expect("no tile fails");
        assert_eq!(work.counts(), [1; 10]);
    }
}

#[test]
fn a_tile_that_panics_fails_its_region_only() {
    let executor = executor(1);
    let work = Counted { panics: Some(5), ..Counted::new(10) };
    let failure = executor.lead(true).share(10, &work, true).expect_err("a tile panicked");
    assert!(failure.message().contains("panicked"));
    let work = Counted::new(10);
    executor.lead(true).share(10, &work, true).expect("no tile fails");
    assert_eq!(work.counts(), [1; 10]);
}

impl<F: FnOnce() + Send> Task for F {
    fn run(self: Box<Self>, started: Result<()>) {
        started.expect("there is a thread");
        self();
    }
}

#[test]
fn tasks_run_on_workers_and_are_done_before_the_workers_end() {
    let (sender, receiver) = mpsc::channel();
    let executor = executor(2);
    for task in 0..100 {
        let sender = sender.clone();
        executor.spawn(Box::new(move || sender.send((task, thread::current().id())).expect("is received")));
    }
    drop(executor);
    drop(sender);
    let mut tasks: Vec<u32> =
        receiver.iter().inspect(|(_, id)| assert_ne!(*id, thread::current().id())).map(|(task, _)| task).collect();
    tasks.sort_unstable();
    assert_eq!(tasks, (0..100).collect::<Vec<_>>());
}

#[test]
fn workers_that_do_not_look_for_work_are_woken_for_it() {
    let topology = Topology::unpinned(2, Caches::default());
    let options = TaskOptions { worker_spin: Duration::ZERO, ..TaskOptions::default() };
    let executor = Executor::new(topology, &options);
    for _ in 0..20 {
        let (sender, receiver) = mpsc::channel();
        executor.spawn(Box::new(move || sender.send(()).expect("is received")));
        receiver.recv().expect("is sent");
        let work = Counted::new(4);
        executor.lead(true).share(4, &work, true).expect("no tile fails");
        assert_eq!(work.counts(), [1; 4]);
    }
}

#[cfg(unix)]
#[test]
fn the_child_of_a_fork_has_workers_of_its_own() {
    let executor = executor(2);
    executor.register_for_forks();
    for round in 0..20 {
        // The workers exist, and are asleep, look for work, or run tasks.
        let (sender, receiver) = mpsc::channel();
        for task in 0..round % 4 {
            let sender = sender.clone();
            let run = move || {
                thread::sleep(Duration::from_millis(task));
                sender.send(task).expect("is received");
            };
            executor.spawn(Box::new(run));
        }
        let all_run = || {
            let (sender, receiver) = mpsc::channel();
            for task in 0..10_u32 {
                let sender = sender.clone();
                executor.spawn(Box::new(move || sender.send(task).expect("is received")));
            }
            drop(sender);
            let work = Counted::new(100);
            let is_shared = executor.lead(true).share(100, &work, true).is_ok();
            is_shared && work.counts() == [1; 100] && receiver.iter().sum::<u32>() == 45
        };
        assert_eq!(in_child(all_run), 0, "round {round}");
        assert!(all_run(), "in the parent");
        drop(sender);
        assert_eq!(receiver.iter().count() as u64, round % 4);
    }
}

#[cfg(unix)]
#[test]
fn a_task_may_fork() {
    let executor = Arc::new(executor(1));
    executor.register_for_forks();
    let (sender, receiver) = mpsc::channel();
    let own = executor.clone();
    let run = move || {
        let runs_another = || {
            let (sender, receiver) = mpsc::channel();
            own.spawn(Box::new(move || sender.send(3).expect("is received")));
            receiver.recv() == Ok(3)
        };
        sender.send(in_child(runs_another)).expect("is received");
    };
    executor.spawn(Box::new(run));
    assert_eq!(receiver.recv(), Ok(0));
}

#[test]
fn the_owner_takes_from_the_front_and_thieves_half_from_the_back() {
    let tiles = TileRange::default();
    assert_eq!((tiles.take(), tiles.steal()), (None, None));
    tiles.set(0..5);
    assert_eq!((tiles.take(), tiles.len()), (Some(0), 4));
    assert_eq!(tiles.steal(), Some(3..5));
    assert_eq!(tiles.steal(), Some(2..3));
    assert_eq!(tiles.steal(), Some(1..2));
    assert_eq!((tiles.steal(), tiles.take()), (None, None));
}

#[test]
fn every_tile_is_taken_once() {
    const COUNT: u32 = 20_000;
    let ranges: [TileRange; 3] = Default::default();
    let given: Vec<AtomicU32> = (0..COUNT).map(|_| AtomicU32::new(0)).collect();
    ranges[0].set(0..COUNT);
    thread::scope(|scope| {
        for own in 0..ranges.len() {
            let (ranges, given) = (&ranges, &given);
            scope.spawn(move || {
                loop {
                    while let Some(tile) = ranges[own].take() {
                        given[tile as usize].fetch_add(1, Ordering::Relaxed);
                    }
                    let stolen = (0..ranges.len()).find_map(|other| ranges[other].steal());
                    let Some(stolen) = stolen else { break };
                    ranges[own].set(stolen);
                }
            });
        }
    });
    assert!(given.iter().all(|count| count.load(Ordering::Relaxed) == 1));
}

/// Each of two workers runs the last task that owns the executor of the other one.
#[test]
fn workers_that_drop_executors_do_not_wait_for_each_other() {
    let executors = [0, 1].map(|_| Arc::new(executor(1)));
    let (all, (done, ended)) = (Arc::new(Barrier::new(3)), mpsc::channel());
    for (own, other) in [(0, 1), (1, 0)] {
        let (owned, all, done) = (executors[other].clone(), all.clone(), done.clone());
        executors[own].spawn(Box::new(move || {
            all.wait();
            drop(owned);
            done.send(()).expect("is received");
        }));
    }
    drop(executors);
    all.wait();
    for _ in 0..2 {
        ended.recv_timeout(Duration::from_secs(20)).expect("no worker waits for ever");
    }
}
