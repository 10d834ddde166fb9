//! Work-groups: the waves of one run in turn on one core, each until it ends or waits at a barrier.
//!
//! A wave that waits is parked; when all waves that have not ended are parked, all of them continue. Nothing preempts a
//! wave, so memory of the work-group needs no locks.

use crate::trap::{Trap, TrapKind};

/// Why a wave returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It is at a barrier of the work-group.
    Barrier,
    /// It has ended.
    Ended,
}

/// Runs the waves `0..count` until all have ended. `run` continues one.
///
/// # Errors
/// The trap of a wave, or a deadlock if some waves have ended and the others wait. A wave that ended counts as arrived
/// if `ended_arrive`.
pub fn run(count: usize, ended_arrive: bool, mut run: impl FnMut(usize) -> Result<Pause, Trap>) -> Result<(), Trap> {
    let mut live: Vec<usize> = (0..count).collect();
    while !live.is_empty() {
        let mut parked = Vec::with_capacity(live.len());
        for wave in &live {
            if run(*wave)? == Pause::Barrier {
                parked.push(*wave);
            }
        }
        if let Some(first) = parked.first()
            && parked.len() < live.len()
            && !ended_arrive
        {
            return Err(Trap { wave: *first as u32, ..Trap::new(TrapKind::Deadlock) });
        }
        live = parked;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waves_take_turns_between_barriers() {
        let mut left = [3, 3, 3];
        let mut order = Vec::new();
        let result = run(3, false, |wave| {
            order.push(wave);
            left[wave] -= 1;
            Ok(if left[wave] == 0 { Pause::Ended } else { Pause::Barrier })
        });
        assert_eq!(result, Ok(()));
        assert_eq!(order, [0, 1, 2, 0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_wave_that_ends_while_others_wait_is_a_deadlock_unless_it_counts() {
        let pauses = |wave: usize, turns: &mut usize| {
            *turns += 1;
            Ok(if wave == 1 || *turns > 2 { Pause::Ended } else { Pause::Barrier })
        };
        let mut turns = 0;
        assert_eq!(run(2, false, |wave| pauses(wave, &mut turns)), Err(Trap::new(TrapKind::Deadlock)));
        let mut turns = 0;
        assert_eq!(run(2, true, |wave| pauses(wave, &mut turns)), Ok(()));
        assert_eq!(turns, 3);
    }

    #[test]
    fn a_trap_ends_the_work_group() {
        assert_eq!(run(2, true, |_| Err(Trap::new(TrapKind::Stopped))), Err(Trap::new(TrapKind::Stopped)));
    }
}
