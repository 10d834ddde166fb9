//! Grids: work-groups spread over cores. Each thread takes the next work-group until none is left or one trapped, and
//! runs it to its end ([`run`]), or several in turn that may wait for each other ([`run_resident`]).

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::trap::{Trap, TrapKind};

mod pool;
mod resident;

pub use pool::Pool;
pub use resident::{Residency, Resident, run_resident};

/// Asks the work-groups of a grid to stop. A wave looks at it at each jump back.
#[derive(Debug, Default)]
pub struct Stop(AtomicBool);

impl Stop {
    /// Asks.
    pub fn request(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    /// Whether somebody asked.
    #[inline(always)]
    pub fn requested(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// The work-groups of a grid that threads take, each once.
struct Tickets<'a> {
    groups: [u32; 3],
    count: u64,
    next: AtomicU64,
    stop: &'a Stop,
    first_trap: Mutex<Option<Trap>>,
}

impl<'a> Tickets<'a> {
    fn new(groups: [u32; 3], stop: &'a Stop) -> Result<Self, Trap> {
        let [x, y, z] = groups.map(u128::from);
        let count = u64::try_from(x * y * z)
            .map_err(|_| Trap::new(TrapKind::InvalidDispatch("too many work-groups".into())))?;
        Ok(Tickets { groups, count, next: AtomicU64::new(0), stop, first_trap: Mutex::new(None) })
    }

    /// The next work-group that is not taken.
    fn take(&self) -> Option<[u32; 3]> {
        if self.stop.requested() {
            return None;
        }
        let index = self.next.fetch_add(1, Ordering::Relaxed);
        let [width, height] = [u64::from(self.groups[0]), u64::from(self.groups[1])];
        let group = || [index % width, index / width % height, index / width / height].map(|at| at as u32);
        (index < self.count).then(group)
    }

    /// Notes a trap, and stops the grid.
    fn trapped(&self, trap: Trap) {
        let mut first = self.first_trap.lock().unwrap_or_else(PoisonError::into_inner);
        // Work-groups that were stopped by the trap of another one do not hide it.
        if first.as_ref().is_none_or(|first: &Trap| first.kind == TrapKind::Stopped) {
            *first = Some(trap);
        }
        self.stop.request();
    }

    /// Runs `work` on as many threads as there are work-groups, `threads` at most, and returns the first trap.
    fn run(self, threads: NonZeroUsize, pool: &Pool, work: impl Fn(&Self) + Sync) -> Result<(), Trap> {
        if self.count == 0 {
            return Ok(());
        }
        let threads = threads.get().min(usize::try_from(self.count).unwrap_or(usize::MAX));
        if threads == 1 {
            work(&self);
        } else {
            pool.run(threads - 1, &|| work(&self));
        }
        match self.first_trap.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(trap) => Err(trap),
            None if self.next.into_inner() < self.count => Err(Trap::new(TrapKind::Stopped)),
            None => Ok(()),
        }
    }
}

/// Runs the work-groups of a grid on up to `threads` threads: the caller and those of `pool` that are free. `worker`
/// makes what runs the work-groups of one thread, one after another; a grid of one work-group, or one thread, runs on
/// the calling thread. `stop` is requested once a work-group traps.
///
/// # Errors
/// The first trap, or [`TrapKind::Stopped`] if `stop` was requested before all work-groups were started.
pub fn run<'a, R>(
    groups: [u32; 3],
    threads: NonZeroUsize,
    pool: &Pool,
    stop: &Stop,
    worker: impl Fn() -> R + Sync + 'a,
) -> Result<(), Trap>
where
    R: FnMut([u32; 3]) -> Result<(), Trap> + 'a,
{
    Tickets::new(groups, stop)?.run(threads, pool, |tickets| {
        let mut run = worker();
        while let Some(group) = tickets.take() {
            if let Err(trap) = run(group) {
                tickets.trapped(trap);
                break;
            }
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn threads(count: usize) -> NonZeroUsize {
        NonZeroUsize::new(count).unwrap()
    }

    #[test]
    fn each_work_group_runs_once() {
        for count in [1, 4] {
            let seen = Mutex::new(BTreeSet::new());
            let result = run([3, 4, 5], threads(count), &Pool::default(), &Stop::default(), || {
                |group| {
                    assert!(seen.lock().unwrap().insert(group));
                    Ok(())
                }
            });
            assert_eq!(result, Ok(()));
            assert_eq!(seen.lock().unwrap().len(), 60);
            assert!(seen.lock().unwrap().contains(&[2, 3, 4]));
        }
        run([7, 0, 1], threads(2), &Pool::default(), &Stop::default(), || |_| panic!("there is none")).unwrap();
    }

    #[test]
    fn a_trap_stops_the_grid() {
        for count in [1, 3] {
            let stop = Stop::default();
            let result = run([u32::MAX, 1, 1], threads(count), &Pool::default(), &stop, || {
                |group: [u32; 3]| if group[0] == 5 { Err(Trap::new(TrapKind::Deadlock)) } else { Ok(()) }
            });
            assert_eq!(result, Err(Trap::new(TrapKind::Deadlock)));
            assert!(stop.requested());
        }
    }

    #[test]
    fn requests_and_numbers_that_cannot_be_are_refused() {
        let stop = Stop::default();
        stop.request();
        assert_eq!(
            run([1, 1, 1], threads(1), &Pool::default(), &stop, || |_| Ok(())),
            Err(Trap::new(TrapKind::Stopped))
        );
        let result = run([u32::MAX; 3], threads(1), &Pool::default(), &Stop::default(), || |_| Ok(()));
        assert!(matches!(result, Err(Trap { kind: TrapKind::InvalidDispatch(_), .. })));
    }
}
