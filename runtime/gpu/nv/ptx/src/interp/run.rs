//! The loop of a warp.

use vireo_simt::group::Pause;
use vireo_simt::paths::{Parked, Turn};
use vireo_simt::{Trap, TrapKind};

use crate::machine::{Block, Next, Warp};

impl Warp {
    /// Executes instructions until the warp pauses.
    pub(crate) fn run(&mut self, block: &mut Block<'_>) -> Result<Pause, Trap> {
        let program = block.program;
        self.paths.release();
        loop {
            match self.paths.schedule() {
                Turn::Runs => {}
                Turn::Arrives(arrival) => {
                    self.show_divergence(block);
                    block.note_arrival(self.index, arrival);
                    return Ok(Pause::At(arrival));
                }
                Turn::Deadlock => {
                    self.show_divergence(block);
                    return Err(self.deadlock());
                }
                Turn::Ended => {
                    block.note_end(self.index);
                    return Ok(Pause::Ended);
                }
            }
            self.set_mask(self.paths.mask);
            let is_one = self.paths.is_one();
            let (next, at) = loop {
                let at = self.paths.pc;
                let Some(inst) = program.insts.get(at as usize) else {
                    return Err(Trap::new(TrapKind::InvalidAddress));
                };
                self.paths.pc = at + 1;
                self.executed += 1;
                // SAFETY: Programs are made with handlers that suit this processor.
                let next = unsafe { (inst.handler)(self, block, inst) };
                if next != Next::Continue {
                    break (next, at);
                }
                if !is_one && self.paths.is_due() {
                    break (next, at);
                }
            };
            match next {
                Next::Continue | Next::Switch => {}
                Next::Yield => {
                    if block.stop.requested() || self.executed > block.limit {
                        return Err(Trap { address: at.into(), ..Trap::new(TrapKind::Stopped) });
                    }
                    self.paths.rotate();
                    return Ok(Pause::Yield);
                }
                Next::Trap => {
                    let (kind, lane) = self.trap.take().unwrap_or((TrapKind::UnknownInstruction, None));
                    let lane = lane.unwrap_or(self.mask.trailing_zeros() & 31);
                    return Err(Trap { address: at.into(), lane: Some(lane), ..Trap::new(kind) });
                }
            }
        }
    }

    /// The instruction at which the first of the lanes that wait is, and that lane.
    pub(crate) fn waits_at(&self) -> Option<(u64, u32)> {
        let path = self.paths.others().iter().min_by_key(|path| path.pc)?;
        // Behind a barrier a path goes on at the next instruction.
        let pc = path.pc - u32::from(matches!(path.parked, Some(Parked::Barrier(_))));
        Some((pc.into(), path.mask.trailing_zeros() & 31))
    }

    /// Lanes wait for each other.
    fn deadlock(&self) -> Trap {
        let (address, lane) = self.waits_at().unwrap_or_default();
        let what = "lanes of a warp wait for each other at different places";
        Trap { address, lane: Some(lane), ..Trap::new(TrapKind::InvalidOperand(what.into())) }
    }
}
