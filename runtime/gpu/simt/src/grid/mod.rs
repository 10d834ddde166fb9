//! Grids: work-groups spread over cores. Each thread takes the next work-group until none is left or one trapped.

use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

use crate::trap::{Trap, TrapKind};

mod pool;

pub use pool::Pool;

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
    let [x, y, z] = groups.map(u128::from);
    let count =
        u64::try_from(x * y * z).map_err(|_| Trap::new(TrapKind::InvalidDispatch("too many work-groups".into())))?;
    if count == 0 {
        return Ok(());
    }
    let (next, first_trap) = (AtomicU64::new(0), Mutex::new(None));
    let work = || {
        let mut run = worker();
        while !stop.requested() {
            let index = next.fetch_add(1, Ordering::Relaxed);
            if index >= count {
                break;
            }
            let [width, height] = [u64::from(groups[0]), u64::from(groups[1])];
            let group = [index % width, index / width % height, index / width / height].map(|at| at as u32);
            if let Err(trap) = run(group) {
                let mut first = first_trap.lock().unwrap_or_else(PoisonError::into_inner);
                // Work-groups that were stopped by the trap of another one do not hide it.
                if first.as_ref().is_none_or(|first: &Trap| first.kind == TrapKind::Stopped) {
                    *first = Some(trap);
                }
                stop.request();
                break;
            }
        }
    };
    let threads = threads.get().min(usize::try_from(count).unwrap_or(usize::MAX));
    if threads == 1 {
        work();
    } else {
        pool.run(threads - 1, &work);
    }
    match first_trap.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(trap) => Err(trap),
        None if next.into_inner() < count => Err(Trap::new(TrapKind::Stopped)),
        None => Ok(()),
    }
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
