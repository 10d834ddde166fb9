//! Paths: where the lanes of a warp are, if each lane may branch on its own. An interpreter of an instruction set
//! without masks of its own runs one path at a time and asks here which one.
//!
//! A path is a program counter with the lanes that are there. The path with the lowest one runs, so that lanes that
//! left a loop or took the shorter side of a branch wait for the others, and paths that meet at an instruction become
//! one. Instructions that need lanes together *park* a path until they are there. A path that jumps back many times
//! while another one could run lets that one run, since it may wait for what the other is to store: a lock that lanes
//! of one warp share would hang otherwise. While there is one path, nothing of this costs anything: see
//! [`Paths::is_one`].

use crate::group::Arrival;
use crate::row::{Mask, Row, lanes};

#[cfg(test)]
mod tests;

/// Jumps back of one path after which another one runs, or the warp yields.
pub const JUMPS_BACK: u32 = 4096;

/// Jumps back of all paths after which the warp yields: paths that take turns in a loop, or wait at its barrier, may
/// each jump back few times.
const JUMPS_BACK_OF_ALL: u32 = 16 * JUMPS_BACK;

/// The reason for which a path waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parked {
    /// For other lanes of the warp, at the same instruction.
    Lanes,
    /// At a barrier.
    Barrier(Arrival),
}

/// Lanes at an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The number of the next instruction.
    pub pc: u32,
    /// The lanes, never none.
    pub mask: Mask,
    /// Why they wait; none if they can run.
    pub parked: Option<Parked>,
    /// When it ran last, counted in turns.
    turn: u64,
}

/// The next step of a warp.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// The current path runs.
    Runs,
    /// All live lanes are at a barrier, so the warp arrives there. It calls [`Paths::release`] before it goes on.
    Arrives(Arrival),
    /// Lanes wait for each other at different places: none of them can go on.
    Deadlock,
    /// No lane is left.
    Ended,
}

/// The paths of a warp.
#[derive(Clone, Debug)]
pub struct Paths {
    /// The number of the next instruction of the current path.
    pub pc: u32,
    /// Its lanes; none between its end and the next [`Paths::schedule`].
    pub mask: Mask,
    live: Mask,
    others: Vec<Path>,
    /// The lowest program counter of the others that can run.
    lowest: u32,
    /// Whether it runs out of turn, so others may have lower program counters.
    out_of_turn: bool,
    jumps_back: u32,
    /// The same of all paths since the warp has yielded.
    jumps_of_all: u32,
    turn: u64,
}

impl Paths {
    /// One path of these lanes, at the first instruction.
    pub fn new(mask: Mask, pc: u32) -> Self {
        Paths {
            pc,
            mask,
            live: mask,
            others: Vec::new(),
            lowest: u32::MAX,
            out_of_turn: false,
            jumps_back: 0,
            jumps_of_all: 0,
            turn: 0,
        }
    }

    /// Whether the current path is the only one, so that no other has to be met.
    #[inline(always)]
    pub fn is_one(&self) -> bool {
        self.others.is_empty()
    }

    /// The lanes that have not ended.
    #[inline(always)]
    pub fn live(&self) -> Mask {
        self.live
    }

    /// All paths but the current one.
    pub fn others(&self) -> &[Path] {
        &self.others
    }

    /// Whether the current path has met another one, or one that is to run before it. If so, [`Paths::schedule`] is
    /// to be called.
    #[inline(always)]
    pub fn is_due(&self) -> bool {
        if self.out_of_turn {
            return self.others.iter().any(|path| path.parked.is_none() && path.pc == self.pc);
        }
        self.pc >= self.lowest
    }

    /// Sends the lanes of `taken` to `target`, and the other ones of the current path to `next`. Returns whether the
    /// lanes of the current path have changed.
    #[inline(always)]
    pub fn branch(&mut self, taken: Mask, target: u32, next: u32) -> bool {
        if taken == self.mask {
            self.pc = target;
            return false;
        }
        if taken == 0 {
            self.pc = next;
            return false;
        }
        self.split(taken, target, next);
        true
    }

    #[inline(never)]
    fn split(&mut self, taken: Mask, target: u32, next: u32) {
        let rest = self.mask & !taken;
        // The lower one runs; after a jump back that is the loop.
        let ((pc, mask), (other_pc, other)) =
            if target < next { ((target, taken), (next, rest)) } else { ((next, rest), (target, taken)) };
        (self.pc, self.mask) = (pc, mask);
        self.add(Path { pc: other_pc, mask: other, parked: None, turn: self.turn });
    }

    /// Sends each lane of the current path to a program counter of its own. Returns whether there are now several
    /// paths.
    pub fn scatter(&mut self, targets: &Row) -> bool {
        let mut rest = self.mask;
        let mut first = true;
        while rest != 0 {
            let pc = targets.0[rest.trailing_zeros() as usize];
            let same = lanes(rest).filter(|lane| targets.0[*lane] == pc).fold(0, |mask, lane| mask | 1 << lane);
            rest &= !same;
            if std::mem::take(&mut first) {
                (self.pc, self.mask) = (pc, same);
            } else {
                self.add(Path { pc, mask: same, parked: None, turn: self.turn });
            }
        }
        !self.is_one()
    }

    /// Adds a path, to one at the same place if there is one in the same state.
    fn add(&mut self, path: Path) {
        match self.others.iter_mut().find(|other| other.pc == path.pc && other.parked == path.parked) {
            Some(other) => other.mask |= path.mask,
            None => self.others.push(path),
        }
        self.note_lowest();
    }

    fn note_lowest(&mut self) {
        let runnable = self.others.iter().filter(|path| path.parked.is_none());
        self.lowest = runnable.map(|path| path.pc).min().unwrap_or(u32::MAX);
    }

    /// Counts a jump back of the current path. Returns true if it has jumped back so often that another path, or
    /// another warp, is to run: the warp yields, and then calls [`Paths::rotate`].
    #[inline(always)]
    pub fn jumps_back(&mut self) -> bool {
        self.jumps_back += 1;
        self.jumps_of_all += 1;
        self.jumps_back > JUMPS_BACK || self.jumps_of_all > JUMPS_BACK_OF_ALL
    }

    /// Lets another path run, if one can: the one that has not run for the longest time.
    pub fn rotate(&mut self) {
        (self.jumps_back, self.jumps_of_all) = (0, 0);
        let runnable = self.others.iter().enumerate().filter(|(_, path)| path.parked.is_none());
        let Some(index) = runnable.min_by_key(|(_, path)| (path.turn, path.pc)).map(|(index, _)| index) else { return };
        if self.mask == 0 {
            return;
        }
        let next = self.others.swap_remove(index);
        self.turn += 1;
        let current = Path { pc: self.pc, mask: self.mask, parked: None, turn: self.turn };
        (self.pc, self.mask) = (next.pc, next.mask);
        self.add(current);
        self.out_of_turn = true;
        self.meet();
    }

    /// Adds the lanes of other paths at the same instruction that can run.
    fn meet(&mut self) {
        let pc = self.pc;
        let mut met = 0;
        self.others.retain(|path| {
            let meets = path.parked.is_none() && path.pc == pc;
            met |= if meets { path.mask } else { 0 };
            !meets
        });
        self.mask |= met;
        self.note_lowest();
    }

    /// Ends lanes of the current path. Those that wait for them look again.
    pub fn end(&mut self, ended: Mask) {
        self.live &= !ended;
        self.mask &= !ended;
        for path in &mut self.others {
            if path.parked == Some(Parked::Lanes) {
                path.parked = None;
            }
        }
        self.note_lowest();
    }

    /// The lanes of the current path, whose next instruction is at `pc`, that need not wait: all live lanes of their
    /// `members` are there. The others are parked, and run the instruction again when lanes arrive. Returns whether
    /// there are lanes that go on; they are then the current path.
    pub fn gather(&mut self, pc: u32, members: impl Fn(usize) -> Mask) -> bool {
        if !self.is_one() {
            let mut met = 0;
            self.others.retain(|path| {
                let meets = path.pc == pc && matches!(path.parked, None | Some(Parked::Lanes));
                met |= if meets { path.mask } else { 0 };
                !meets
            });
            self.mask |= met;
        }
        let complete = |lane: &usize| members(*lane) & self.live & !self.mask == 0;
        let ready = lanes(self.mask).filter(complete).fold(0, |mask, lane| mask | 1 << lane);
        let waits = self.mask & !ready;
        self.mask = ready;
        self.pc = pc;
        if waits != 0 {
            self.add(Path { pc, mask: waits, parked: Some(Parked::Lanes), turn: self.turn });
        } else {
            self.note_lowest();
        }
        ready != 0
    }

    /// Parks the current path at a barrier, after which it goes on at `next`.
    pub fn arrive(&mut self, arrival: Arrival, next: u32) {
        let mask = std::mem::take(&mut self.mask);
        self.add(Path { pc: next, mask, parked: Some(Parked::Barrier(arrival)), turn: self.turn });
    }

    /// Lets the lanes at barriers go on.
    pub fn release(&mut self) {
        for path in &mut self.others {
            if matches!(path.parked, Some(Parked::Barrier(_))) {
                path.parked = None;
            }
        }
        self.note_lowest();
    }

    /// Chooses the path that runs: the one with the lowest program counter, with all lanes that are there.
    pub fn schedule(&mut self) -> Turn {
        if self.mask != 0 {
            if !self.out_of_turn && self.pc > self.lowest {
                let current = Path { pc: self.pc, mask: self.mask, parked: None, turn: self.turn };
                self.mask = 0;
                self.add(current);
            } else {
                self.meet();
                return Turn::Runs;
            }
        }
        self.out_of_turn = false;
        let runnable = self.others.iter().filter(|path| path.parked.is_none());
        if let Some(first) = runnable.min_by_key(|path| path.pc) {
            self.pc = first.pc;
            self.jumps_back = 0;
            self.turn += 1;
            self.meet();
            return Turn::Runs;
        }
        let mut arrivals = self.others.iter().map(|path| path.parked);
        match arrivals.next() {
            None => Turn::Ended,
            Some(Some(Parked::Barrier(arrival))) => {
                let same = |parked| matches!(parked, Some(Parked::Barrier(other)) if other == arrival);
                if arrivals.all(same) { Turn::Arrives(arrival) } else { Turn::Deadlock }
            }
            Some(_) => Turn::Deadlock,
        }
    }
}
