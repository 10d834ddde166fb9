//! Resident grids ([`run_resident`]): several work-groups are alive on a thread and run in turn, so that one may wait
//! for what another one writes, as at a barrier of the whole grid or in a chain where each adds to the sum of the one
//! before it.
//!
//! A thread runs one work-group until it ends, or has polled for a while: all of its waves that can run have yielded
//! again and again. Then the thread takes as many more as it has, and all of them run in turn. So grids whose
//! work-groups do not wait for each other run as they do in [`super::run`], and a work-group progresses that waits for
//! any other one among the first that [`Residency::most`] allows. Work-groups stay with their threads.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use super::{Pool, Stop, Tickets};
use crate::group::Round;
use crate::trap::Trap;

/// Rounds of a work-group in one turn at most. One that arrives at a barrier of its own in each round may poll as well.
const ROUNDS: u32 = 64;

/// How many work-groups may be alive, and when.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Residency {
    /// Work-groups of the grid that are alive at most, or as many as there are threads if that is more.
    pub most: u64,
    /// Turns without an end of a work-group after which a thread takes further ones.
    pub patience: u32,
}

/// The runner of the work-groups of one thread.
pub trait Resident {
    /// The state of a work-group between its turns.
    type Group;

    /// A work-group before its first turn, in the storage of one that has ended if there is one.
    ///
    /// # Errors
    /// If it cannot be run.
    fn start(&mut self, number: [u32; 3], storage: Option<Self::Group>) -> Result<Self::Group, Trap>;

    /// Runs each wave that can run once.
    ///
    /// # Errors
    /// The trap of a wave.
    fn round(&mut self, group: &mut Self::Group) -> Result<Round, Trap>;
}

/// Runs the work-groups of a grid on up to `threads` threads: the caller and those of `pool` that are free. `worker`
/// makes what runs the work-groups of one thread. `stop` is requested once a work-group traps.
///
/// # Errors
/// The first trap, or [`crate::TrapKind::Stopped`] if `stop` was requested before all work-groups had ended.
pub fn run_resident<'a, R: Resident + 'a>(
    groups: [u32; 3],
    threads: NonZeroUsize,
    residency: Residency,
    pool: &Pool,
    stop: &Stop,
    worker: impl Fn() -> R + Sync + 'a,
) -> Result<(), Trap> {
    let alive = AtomicU64::new(0);
    let residency = Residency { most: residency.most.max(threads.get() as u64), ..residency };
    Tickets::new(groups, stop)?.run(threads, pool, |tickets| {
        let mut thread =
            Thread { worker: worker(), tickets, alive: &alive, residency, groups: Vec::new(), spare: None };
        if let Err(trap) = thread.run() {
            tickets.trapped(trap);
        }
    })
}

/// The work-groups of a thread.
struct Thread<'a, R: Resident> {
    worker: R,
    tickets: &'a Tickets<'a>,
    /// Work-groups of all threads.
    alive: &'a AtomicU64,
    residency: Residency,
    groups: Vec<R::Group>,
    spare: Option<R::Group>,
}

impl<R: Resident> Thread<'_, R> {
    fn run(&mut self) -> Result<(), Trap> {
        // Turns of all in which none ended.
        let mut turns = 0;
        while !self.groups.is_empty() || self.take()? {
            turns += 1;
            let mut index = 0;
            while index < self.groups.len() {
                if self.turn(index)? {
                    self.spare = Some(self.groups.swap_remove(index));
                    self.alive.fetch_sub(1, Ordering::Relaxed);
                    turns = 0;
                } else {
                    index += 1;
                }
            }
            if turns > self.residency.patience {
                turns = 0;
                for _ in 0..self.groups.len() {
                    if !self.take()? {
                        // They may wait for those of a thread that waits for this core.
                        thread::yield_now();
                        break;
                    }
                }
            }
        }
        Ok(())
    }

    /// Takes the next work-group, if one is left and there is room for it.
    fn take(&mut self) -> Result<bool, Trap> {
        let room = |alive: u64| (alive < self.residency.most).then_some(alive + 1);
        if self.alive.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return Ok(false);
        }
        let Some(number) = self.tickets.take() else {
            self.alive.fetch_sub(1, Ordering::Relaxed);
            return Ok(false);
        };
        let group = self.worker.start(number, self.spare.take())?;
        self.groups.push(group);
        Ok(true)
    }

    /// Runs a work-group until it polls. Returns whether it has ended.
    fn turn(&mut self, index: usize) -> Result<bool, Trap> {
        for _ in 0..ROUNDS {
            match self.worker.round(&mut self.groups[index])? {
                Round::Ended => return Ok(true),
                Round::Polls => break,
                Round::Runs => {}
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::trap::TrapKind;

    /// Work-groups that poll until as many as they wait for have started.
    struct Meeting<'a> {
        started: &'a AtomicU64,
        /// The most that were alive.
        most: &'a AtomicU64,
        alive: &'a AtomicU64,
        /// How many the work-group of a number waits for.
        waits_for: fn(u32) -> u64,
        stop: &'a Stop,
    }

    impl Resident for Meeting<'_> {
        type Group = u32;

        fn start(&mut self, number: [u32; 3], _: Option<u32>) -> Result<u32, Trap> {
            self.started.fetch_add(1, Ordering::SeqCst);
            self.most.fetch_max(self.alive.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            Ok(number[0])
        }

        fn round(&mut self, group: &mut u32) -> Result<Round, Trap> {
            if self.stop.requested() {
                return Err(Trap::new(TrapKind::Stopped));
            }
            if self.started.load(Ordering::SeqCst) < (self.waits_for)(*group) {
                return Ok(Round::Polls);
            }
            self.alive.fetch_sub(1, Ordering::SeqCst);
            Ok(Round::Ended)
        }
    }

    /// Runs 40 work-groups, and returns how many started and were alive together.
    fn meet(threads: usize, residency: Residency, waits_for: fn(u32) -> u64) -> (Result<(), Trap>, u64, u64) {
        let (started, most, alive, stop) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0), Stop::default());
        let threads = NonZeroUsize::new(threads).unwrap();
        let result = run_resident([40, 1, 1], threads, residency, &Pool::default(), &stop, || Meeting {
            started: &started,
            most: &most,
            alive: &alive,
            waits_for,
            stop: &stop,
        });
        (result, started.into_inner(), most.into_inner())
    }

    #[test]
    fn all_work_groups_wait_for_each_other() {
        for threads in [1, 3] {
            for patience in [0, 5] {
                let met = meet(threads, Residency { most: 40, patience }, |_| 40);
                assert_eq!(met, (Ok(()), 40, 40), "{threads} threads");
            }
        }
    }

    #[test]
    fn work_groups_that_do_not_wait_run_one_after_another() {
        assert_eq!(meet(1, Residency { most: 40, patience: 0 }, |_| 0), (Ok(()), 40, 1));
        let (result, started, most) = meet(3, Residency { most: 40, patience: 0 }, |_| 0);
        assert!(result == Ok(()) && started == 40 && most <= 3, "{result:?} {started} {most}");
        // Those that wait for earlier ones as well.
        assert_eq!(meet(1, Residency { most: 40, patience: 0 }, |number| number.into()), (Ok(()), 40, 1));
    }

    #[test]
    fn no_more_are_alive_than_may_be() {
        // Each waits for the two after it.
        let waits_for = |number: u32| u64::from(number + 3).min(40);
        let (result, started, most) = meet(1, Residency { most: 4, patience: 1 }, waits_for);
        assert!(result == Ok(()) && started == 40 && (3..=4).contains(&most), "{result:?} {started} {most}");
    }

    #[test]
    fn a_grid_that_can_never_go_on_is_stopped_from_outside() {
        let (started, zero, stop) = (AtomicU64::new(0), AtomicU64::new(0), Stop::default());
        thread::scope(|scope| {
            scope.spawn(|| {
                while started.load(Ordering::SeqCst) < 7 {
                    thread::yield_now();
                }
                stop.request();
            });
            let residency = Residency { most: 7, patience: 0 };
            let threads = NonZeroUsize::new(2).unwrap();
            let result = run_resident([40, 1, 1], threads, residency, &Pool::default(), &stop, || Meeting {
                started: &started,
                most: &zero,
                alive: &zero,
                waits_for: |_| 40,
                stop: &stop,
            });
            assert_eq!(result, Err(Trap::new(TrapKind::Stopped)));
        });
        assert_eq!(started.into_inner(), 7);
    }

    #[test]
    fn storage_of_work_groups_is_used_again() {
        struct Counted(u32);
        impl Resident for Counted {
            type Group = u32;
            fn start(&mut self, _: [u32; 3], storage: Option<u32>) -> Result<u32, Trap> {
                self.0 += u32::from(storage.is_none());
                assert_eq!(self.0, 1, "one is enough");
                Ok(0)
            }
            fn round(&mut self, group: &mut u32) -> Result<Round, Trap> {
                *group += 1;
                Ok(if *group == 200 { Round::Ended } else { Round::Runs })
            }
        }
        // Its turns end although it polls nothing, and no other has one while there is patience.
        let residency = Residency { most: 9, patience: 4 };
        let result =
            run_resident([9, 1, 1], NonZeroUsize::MIN, residency, &Pool::default(), &Stop::default(), || Counted(0));
        assert_eq!(result, Ok(()));
    }
}
