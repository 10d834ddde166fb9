//! Work-groups: the waves of one run in turn on one core, each until it ends, waits at a barrier, or yields.
//!
//! A work-group has barriers by their numbers. A wave that arrives at one counts there, and may wait until as many
//! waves have arrived as it expects; then all that wait there continue. Nothing preempts a wave, so memory of the
//! work-group needs no locks; a wave that runs for long yields, since it may poll what another one is to store. A
//! work-group whose waves all yield may wait for another work-group: `grid` then lets others take turns with it.

use crate::trap::{Trap, TrapKind};

/// Barriers of a work-group.
pub const BARRIERS: usize = 16;

/// The arrival of a wave at a barrier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// The number of the barrier, below [`BARRIERS`].
    pub barrier: u8,
    /// How many waves have to arrive; none for all of the work-group.
    pub expects: Option<u32>,
    /// Whether it waits for the others.
    pub waits: bool,
}

impl Arrival {
    /// All waves wait for each other, at barrier 0.
    pub const ALL: Arrival = Arrival { barrier: 0, expects: None, waits: true };
}

/// Why a wave returned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pause {
    /// It has arrived at a barrier.
    At(Arrival),
    /// It has run for long, and goes on after the others had a turn.
    Yield,
    /// It has ended.
    Ended,
}

/// The next step of a wave.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Runs,
    Waits(u8),
    Ended,
}

/// A barrier where waves have arrived.
#[derive(Clone, Copy, Default)]
struct Barrier {
    arrived: u32,
    expects: Option<u32>,
}

/// The result of a round of a work-group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Round {
    /// All waves have ended.
    Ended,
    /// A wave ended or arrived at a barrier.
    Runs,
    /// All waves that could run have yielded: they compute for long, or poll memory that another work-group writes.
    Polls,
}

/// The waves of a work-group and its barriers.
pub struct Waves {
    states: Vec<State>,
    /// Waves that have not ended.
    live: u32,
    ended_arrive: bool,
    barriers: [Barrier; BARRIERS],
}

impl Waves {
    /// `count` waves, none of which has run. A wave that ended counts at barriers of all waves if `ended_arrive`.
    pub fn new(count: usize, ended_arrive: bool) -> Self {
        Waves {
            states: vec![State::Runs; count],
            live: count as u32,
            ended_arrive,
            barriers: [Barrier::default(); BARRIERS],
        }
    }

    /// As many waves, none of which has run.
    pub fn restart(&mut self) {
        self.states.fill(State::Runs);
        self.live = self.states.len() as u32;
        self.barriers = [Barrier::default(); BARRIERS];
    }

    /// Runs each wave that can run once. `run` continues one.
    ///
    /// # Errors
    /// The trap of a wave, or a deadlock if all that have not ended wait.
    #[inline]
    pub fn round(&mut self, mut run: impl FnMut(usize) -> Result<Pause, Trap>) -> Result<Round, Trap> {
        let (mut ran, mut polls) = (false, true);
        for wave in 0..self.states.len() {
            if self.states[wave] != State::Runs {
                continue;
            }
            ran = true;
            match run(wave)? {
                Pause::Yield => continue,
                Pause::Ended => self.end(wave),
                Pause::At(arrival) => {
                    let trap = |kind| Trap { wave: wave as u32, ..Trap::new(kind) };
                    self.arrive(wave, arrival).map_err(trap)?;
                }
            }
            polls = false;
        }
        if self.live == 0 {
            return Ok(Round::Ended);
        }
        if !ran {
            let waits = |state: &State| matches!(state, State::Waits(_));
            let first = self.states.iter().position(waits).unwrap_or_default();
            return Err(Trap { wave: first as u32, ..Trap::new(TrapKind::Deadlock) });
        }
        Ok(if polls { Round::Polls } else { Round::Runs })
    }

    /// Counts a wave at a barrier, and lets those continue that have waited for it.
    fn arrive(&mut self, wave: usize, arrival: Arrival) -> Result<(), TrapKind> {
        let invalid = |what: &'static str| Err(TrapKind::InvalidOperand(what.into()));
        let Some(barrier) = self.barriers.get_mut(usize::from(arrival.barrier)) else {
            return invalid("a barrier beyond the last one");
        };
        if barrier.arrived == 0 {
            barrier.expects = arrival.expects;
        } else if barrier.expects != arrival.expects {
            return invalid("a barrier where others expect another number of waves");
        }
        if arrival.expects == Some(0) {
            return invalid("a barrier that expects no wave");
        }
        barrier.arrived += 1;
        if arrival.waits {
            self.states[wave] = State::Waits(arrival.barrier);
        }
        self.release(arrival.barrier);
        Ok(())
    }

    /// Lets the waves at a barrier continue, if as many have arrived as they expect.
    fn release(&mut self, number: u8) {
        let barrier = &mut self.barriers[usize::from(number)];
        let all = if self.ended_arrive { self.live } else { self.states.len() as u32 };
        if barrier.arrived == 0 || barrier.arrived < barrier.expects.unwrap_or(all) {
            return;
        }
        *barrier = Barrier::default();
        self.states.iter_mut().filter(|state| **state == State::Waits(number)).for_each(|state| *state = State::Runs);
    }

    fn end(&mut self, wave: usize) {
        self.states[wave] = State::Ended;
        self.live -= 1;
        if self.ended_arrive {
            (0..BARRIERS as u8).for_each(|barrier| self.release(barrier));
        }
    }
}

/// Runs the waves `0..count` until all have ended. `run` continues one.
///
/// # Errors
/// The trap of a wave, or a deadlock if all that have not ended wait. A wave that ended counts at barriers of all waves
/// if `ended_arrive`.
pub fn run(count: usize, ended_arrive: bool, mut run: impl FnMut(usize) -> Result<Pause, Trap>) -> Result<(), Trap> {
    let mut waves = Waves::new(count, ended_arrive);
    while waves.round(&mut run)? != Round::Ended {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    const BARRIER: Pause = Pause::At(Arrival::ALL);

    /// Runs waves that pause in these ways, and returns the order in which they ran.
    fn order(ended_arrive: bool, waves: &[&[Pause]]) -> Result<Vec<usize>, Trap> {
        let (mut order, mut turns) = (Vec::new(), vec![0; waves.len()]);
        run(waves.len(), ended_arrive, |wave| {
            order.push(wave);
            turns[wave] += 1;
            Ok(*waves[wave].get(turns[wave] - 1).unwrap_or(&Pause::Ended))
        })?;
        Ok(order)
    }

    fn at(barrier: u8, expects: u32, waits: bool) -> Pause {
        Pause::At(Arrival { barrier, expects: Some(expects), waits })
    }

    #[test]
    fn waves_take_turns_between_barriers() {
        let twice = &[BARRIER, BARRIER][..];
        assert_eq!(order(false, &[twice; 3]), Ok(vec![0, 1, 2, 0, 1, 2, 0, 1, 2]));
    }

    #[test]
    fn a_wave_that_ends_while_others_wait_is_a_deadlock_unless_it_counts() {
        let waves: [&[Pause]; 2] = [&[BARRIER], &[]];
        assert_eq!(order(false, &waves), Err(Trap::new(TrapKind::Deadlock)));
        assert_eq!(order(true, &waves), Ok(vec![0, 1, 0]));
    }

    #[test]
    fn a_trap_ends_the_work_group() {
        assert_eq!(run(2, true, |_| Err(Trap::new(TrapKind::Stopped))), Err(Trap::new(TrapKind::Stopped)));
    }

    #[test]
    fn barriers_of_some_waves_do_not_concern_the_others() {
        // Waves 0 and 3 meet at barrier 1, and 1 and 2 at barrier 2.
        let (one, two) = (&[at(1, 2, true)][..], &[at(2, 2, true)][..]);
        assert_eq!(order(false, &[one, two, two, one]), Ok(vec![0, 1, 2, 3, 0, 1, 2, 3]));
        // One of three is missing.
        let three = &[at(1, 3, true)][..];
        assert_eq!(order(true, &[three, three, &[]]), Err(Trap::new(TrapKind::Deadlock)));
    }

    #[test]
    fn a_producer_arrives_without_a_wait() {
        // Wave 1 arrives twice, and goes on each time; wave 0 waits for each.
        let consumer = &[at(3, 2, true), at(3, 2, true)][..];
        let producer = &[at(3, 2, false), at(3, 2, false)][..];
        assert_eq!(order(false, &[consumer, producer]), Ok(vec![0, 1, 0, 1, 0, 1]));
    }

    #[test]
    fn a_wave_that_polls_lets_the_others_run() {
        let mut stored = false;
        let mut polls = 0;
        let result = run(2, true, |wave| {
            match wave {
                0 if !stored => {
                    polls += 1;
                    return Ok(Pause::Yield);
                }
                0 => {}
                _ => stored = true,
            }
            Ok(Pause::Ended)
        });
        assert_eq!((result, polls), (Ok(()), 1));
    }

    #[test]
    fn a_round_says_whether_all_waves_poll() {
        let mut waves = Waves::new(2, true);
        let pauses = [(Pause::Yield, Pause::Yield), (Pause::Yield, BARRIER), (Pause::Yield, Pause::Yield)];
        let rounds = pauses.map(|(first, second)| waves.round(|wave| Ok([first, second][wave])));
        assert_eq!(rounds, [Ok(Round::Polls), Ok(Round::Runs), Ok(Round::Polls)]);
        // The end of the first one counts at the barrier.
        assert_eq!(waves.round(|_| Ok(Pause::Ended)), Ok(Round::Ended));
        waves.restart();
        assert_eq!(waves.round(|_| Ok(Pause::Ended)), Ok(Round::Ended));
    }

    #[test]
    fn barriers_that_cannot_be_are_traps() {
        let trap = |waves: &[&[Pause]]| order(true, waves).expect_err("a trap");
        assert!(matches!(trap(&[&[at(16, 1, true)]]).kind, TrapKind::InvalidOperand(_)));
        assert!(matches!(trap(&[&[at(0, 0, true)]]).kind, TrapKind::InvalidOperand(_)));
        let other = trap(&[&[at(1, 3, true)], &[at(1, 2, true)], &[]]);
        assert_eq!(other.wave, 1);
        assert!(matches!(other.kind, TrapKind::InvalidOperand(_)));
    }
}
