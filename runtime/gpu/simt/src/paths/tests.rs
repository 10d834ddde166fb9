//! Random structured programs: paths of a warp give each lane what it computes alone.

use super::*;
use crate::group::{self, Pause};
use crate::row::LANES;
use crate::trap::{Trap, TrapKind};

/// An instruction of the tested machine, whose lanes have a few registers.
#[derive(Clone, Copy, Debug)]
enum Op {
    /// `registers[0] = registers[0] * 31 + number`
    Mix(u32),
    /// `registers[of] = number`
    Set(usize, u32),
    /// `registers[of] -= 1`
    Count(usize),
    /// Jumps if the hash of the lane's number and this one is even.
    JumpIf(u32, usize),
    /// Jumps if the register is not zero.
    JumpNotZero(usize, usize),
    Jump(usize),
    /// Adds the sum over all lanes of the member mask, which are those that come here in a whole warp.
    Sum,
    /// Sets a register to a number below 4 that differs between lanes.
    Hash(usize, u32),
    /// Takes the lock in word 0 of memory; jumps if another lane has it.
    Lock(usize),
    Unlock,
    Barrier(Arrival),
    End,
}

struct Draw(u64);

impl Draw {
    fn below(&mut self, bound: u32) -> u32 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) as u32 % bound
    }
}

/// Appends a random statement. `depth` limits nesting, `uniform` allows what needs all lanes.
fn statement(draw: &mut Draw, code: &mut Vec<Op>, depth: usize, uniform: bool) {
    match draw.below(if depth == 0 { 3 } else { 8 }) {
        0 | 1 => code.push(Op::Mix(draw.below(1000))),
        2 if uniform => code.push(Op::Sum),
        2 => code.push(Op::Mix(7)),
        3 | 4 => {
            // If with an else.
            let condition = code.len();
            code.push(Op::End);
            block(draw, code, depth - 1, false);
            let over = code.len();
            code.push(Op::End);
            code[condition] = Op::JumpIf(draw.below(1000), code.len());
            block(draw, code, depth - 1, false);
            code[over] = Op::Jump(code.len());
        }
        5 => {
            // A loop whose iterations differ between lanes.
            let register = depth;
            code.push(Op::Hash(register, draw.below(1000)));
            let head = code.len();
            code.push(Op::End);
            block(draw, code, depth - 1, false);
            code.push(Op::Count(register));
            code.push(Op::Jump(head));
            let exit = code.len();
            code[head] = Op::JumpNotZero(register, head + 2);
            // The header falls through to a jump out of the loop.
            code.insert(head + 1, Op::Jump(exit + 1));
            for op in &mut code[head + 2..] {
                match op {
                    Op::JumpIf(_, to) | Op::JumpNotZero(_, to) | Op::Jump(to) if *to > head => *to += 1,
                    _ => {}
                }
            }
        }
        6 => {
            // A loop of the same number of iterations in all lanes.
            let register = depth;
            code.push(Op::Set(register, 1 + draw.below(3)));
            let head = code.len();
            block(draw, code, depth - 1, uniform);
            code.push(Op::Count(register));
            code.push(Op::JumpNotZero(register, head));
        }
        _ => {
            // Some lanes end early.
            let condition = code.len();
            code.push(Op::End);
            code.push(Op::End);
            code[condition] = Op::JumpIf(draw.below(1000), code.len());
        }
    }
}

fn block(draw: &mut Draw, code: &mut Vec<Op>, depth: usize, uniform: bool) {
    for _ in 0..=draw.below(3) {
        statement(draw, code, depth, uniform);
    }
}

fn hash(lane: usize, number: u32) -> u32 {
    (lane as u32 + 1).wrapping_mul(0x9E37_79B1).wrapping_mul(number | 1) >> 13
}

type Registers = [[u32; 6]; LANES];

/// Runs a lane alone; none at a sum, which is the number of lanes that get there.
fn step(op: Op, lane: usize, registers: &mut [u32; 6]) -> Option<usize> {
    match op {
        Op::Mix(number) => registers[0] = registers[0].wrapping_mul(31).wrapping_add(number),
        Op::Set(of, number) => registers[of] = number,
        Op::Count(of) => registers[of] = registers[of].wrapping_sub(1),
        Op::Hash(of, number) => registers[of] = hash(lane, number) % 4,
        Op::JumpIf(number, to) if hash(lane, number).is_multiple_of(2) => return Some(to),
        Op::JumpNotZero(of, to) if registers[of] != 0 => return Some(to),
        Op::Jump(to) => return Some(to),
        _ => {}
    }
    None
}

/// Runs a warp, as an interpreter does.
struct Warp<'a> {
    code: &'a [Op],
    paths: Paths,
    registers: Registers,
    steps: u32,
    /// How many instructions ran, each with any number of lanes.
    ran: u32,
}

impl Warp<'_> {
    fn run(&mut self, lock: &mut u32) -> Pause {
        self.paths.release();
        loop {
            match self.paths.schedule() {
                Turn::Runs => {}
                Turn::Arrives(arrival) => return Pause::At(arrival),
                Turn::Deadlock => panic!("deadlock: {:?}", self.paths),
                Turn::Ended => return Pause::Ended,
            }
            while self.paths.mask != 0 && !self.paths.is_due() {
                self.steps -= 1;
                self.ran += 1;
                let (pc, mask) = (self.paths.pc as usize, self.paths.mask);
                let next = pc + 1;
                let (mut taken, mut target) = (0, next);
                match self.code[pc] {
                    Op::End => self.paths.end(mask),
                    Op::Sum => {
                        if !self.paths.gather(pc as u32, |_| u32::MAX) {
                            continue;
                        }
                        let mask = self.paths.mask;
                        for lane in lanes(mask) {
                            self.registers[lane][0] += mask.count_ones();
                        }
                    }
                    Op::Barrier(arrival) => {
                        self.paths.arrive(arrival, next as u32);
                        continue;
                    }
                    Op::Lock(to) => {
                        for lane in lanes(mask) {
                            if *lock != 0 {
                                (taken, target) = (taken | 1 << lane, to);
                            }
                            *lock = 1;
                        }
                    }
                    Op::Unlock => *lock = 0,
                    op => {
                        for lane in lanes(mask) {
                            if let Some(to) = step(op, lane, &mut self.registers[lane]) {
                                (taken, target) = (taken | 1 << lane, to);
                            }
                        }
                    }
                }
                if self.paths.mask != 0 {
                    self.paths.branch(taken, target as u32, next as u32);
                    if taken != 0 && target <= pc && self.paths.jumps_back(1) {
                        self.paths.rotate();
                        return Pause::Yield;
                    }
                }
            }
        }
    }
}

fn warp(code: &[Op], mask: Mask) -> Warp<'_> {
    Warp { code, paths: Paths::new(mask, 0), registers: [[0; 6]; LANES], steps: 10_000_000, ran: 0 }
}

/// The registers of lanes that run alone. A sum is the number of lanes that have not ended when they get there.
fn alone(code: &[Op], mask: Mask) -> Registers {
    let mut registers = [[0; 6]; LANES];
    let mut at: Vec<Option<usize>> = (0..LANES).map(|lane| (mask >> lane & 1 == 1).then_some(0)).collect();
    while at.iter().any(Option::is_some) {
        for lane in 0..LANES {
            while let Some(pc) = at[lane] {
                match code[pc] {
                    Op::End => at[lane] = None,
                    Op::Sum => break,
                    op => at[lane] = Some(step(op, lane, &mut registers[lane]).unwrap_or(pc + 1)),
                }
            }
        }
        let live = at.iter().flatten().count() as u32;
        for lane in 0..LANES {
            if let Some(pc) = at[lane] {
                registers[lane][0] += live;
                at[lane] = Some(pc + 1);
            }
        }
    }
    registers
}

#[test]
fn random_programs_compute_what_each_lane_computes_alone() {
    let mut draw = Draw(0x5EED_0001);
    for round in 0..2000 {
        let mut code = Vec::new();
        for _ in 0..4 {
            block(&mut draw, &mut code, 3, true);
        }
        code.push(Op::End);
        let mask = if round % 3 == 0 { u32::MAX } else { draw.below(u32::MAX) | 1 };
        let mut paths = warp(&code, mask);
        assert_eq!(paths.run(&mut 0), Pause::Ended);
        assert_eq!(paths.registers, alone(&code, mask), "round {round}: {code:?}");
    }
}

#[test]
fn lanes_meet_after_a_branch() {
    // Lanes take either side, and run what follows together.
    let code = [Op::JumpIf(5, 3), Op::Mix(1), Op::Jump(4), Op::Mix(2), Op::Mix(3), Op::Mix(4), Op::End];
    let mut warp = warp(&code, u32::MAX);
    assert_eq!(warp.run(&mut 0), Pause::Ended);
    assert_eq!(warp.ran as usize, code.len(), "no instruction ran twice");
}

#[test]
fn a_lock_that_lanes_share_is_taken_by_one_after_another() {
    // The loop waits at a lower place than the lane that has the lock runs.
    let code = [Op::Lock(0), Op::Mix(1), Op::Mix(2), Op::Unlock, Op::End];
    let mut warp = warp(&code, u32::MAX);
    let mut lock = 0;
    let mut yields = 0;
    while warp.run(&mut lock) == Pause::Yield {
        yields += 1;
    }
    assert!(warp.registers.iter().all(|registers| registers[0] == 33), "{:?}", warp.registers);
    assert!(yields > 0 && yields <= 64, "{yields}");
}

#[test]
fn a_loop_in_which_lanes_part_or_wait_yields() {
    let parts = [Op::JumpIf(3, 3), Op::Mix(1), Op::Jump(4), Op::Mix(2), Op::Jump(0)];
    let waits = [Op::Barrier(Arrival::ALL), Op::Jump(0)];
    for code in [&parts[..], &waits] {
        let mut warp = warp(code, u32::MAX);
        let paused = (0..2 * JUMPS_BACK).find(|_| warp.run(&mut 0) == Pause::Yield);
        assert!(paused.is_some(), "{code:?}");
    }
}

#[test]
fn barriers_are_of_all_lanes_and_of_numbered_warps() {
    let at = |barrier, waits| Arrival { barrier, expects: Some(2), waits };
    // Lanes arrive at different places. The first warp does not wait at barrier 1.
    let first = [
        Op::JumpIf(3, 3),
        Op::Barrier(at(1, false)),
        Op::Jump(4),
        Op::Barrier(at(1, false)),
        Op::Mix(1),
        Op::Barrier(at(2, true)),
        Op::End,
    ];
    let second = [Op::Barrier(at(2, true)), Op::Mix(1), Op::Barrier(at(1, true)), Op::Mix(2), Op::End];
    let mut warps = [warp(&first, u32::MAX), warp(&second, 0xFFFF)];
    group::run(2, true, |index| Ok(warps[index].run(&mut 0))).unwrap();
    assert!((0..16).all(|lane| warps[1].registers[lane][0] == 33));
    // Two lanes wait for each other at different barriers.
    let deadlock = [Op::JumpIf(3, 2), Op::Barrier(at(1, true)), Op::Barrier(at(2, true)), Op::End];
    let mut paths = Paths::new(0b11, 0);
    paths.branch(1, 2, 1);
    assert_eq!(paths.schedule(), Turn::Runs);
    for _ in 0..2 {
        let Op::Barrier(arrival) = deadlock[paths.pc as usize] else { panic!() };
        let next = paths.pc + 1;
        paths.arrive(arrival, next);
        paths.schedule();
    }
    assert_eq!(paths.schedule(), Turn::Deadlock);
    // A warp whose partner is missing.
    let result = group::run(2, true, |index| Ok(if index == 0 { Pause::At(at(1, true)) } else { Pause::Ended }));
    assert_eq!(result, Err(Trap::new(TrapKind::Deadlock)));
}

#[test]
fn groups_of_lanes_wait_for_their_own_members() {
    // Lanes 0 and 1 are members of one group, 2 and 3 of another; 1 and 3 arrive later.
    let members = |lane: usize| if lane < 2 { 0b0011 } else { 0b1100 };
    let mut paths = Paths::new(0b1111, 0);
    paths.branch(0b1010, 5, 1);
    assert_eq!((paths.pc, paths.mask), (1, 0b0101));
    assert!(!paths.gather(9, members));
    assert_eq!(paths.schedule(), Turn::Runs);
    assert_eq!((paths.pc, paths.mask), (5, 0b1010));
    paths.branch(0b0010, 9, 6);
    assert_eq!((paths.pc, paths.mask), (6, 0b1000));
    // Lane 3 ends, so lane 2 need not wait for it; lane 1 arrives.
    paths.end(0b1000);
    assert_eq!(paths.schedule(), Turn::Runs);
    assert_eq!((paths.pc, paths.mask), (9, 0b0111));
    assert!(paths.gather(9, members));
    assert_eq!((paths.mask, paths.is_one()), (0b0111, true));
}

#[test]
fn lanes_go_where_each_of_them_was_called_from() {
    let mut paths = Paths::new(u32::MAX, 3);
    assert!(paths.scatter(&Row::from_fn(|lane| 10 + lane as u32 % 3)));
    assert_eq!((paths.pc, paths.others().len()), (10, 2));
    assert!(!Paths::new(u32::MAX, 3).scatter(&Row::splat(8)));
}

/// Each of the paths jumps back seldom, so the warp counts the jumps of all.
#[test]
fn a_warp_yields_though_its_paths_take_turns() {
    let mut paths = Paths::new(0b11, 0);
    let yields = (0..1_000_000).find(|_| {
        // The first lane goes to the later place, so the other one runs first, and waits for it there.
        paths.scatter(&Row::from_fn(|lane| if lane == 0 { 9 } else { 5 }));
        assert_eq!((paths.schedule(), paths.pc), (Turn::Runs, 5));
        paths.pc = 9;
        assert_eq!((paths.schedule(), paths.mask), (Turn::Runs, 0b11));
        paths.pc = 0;
        paths.jumps_back(1)
    });
    assert_eq!(yields, Some(JUMPS_BACK as usize));
    paths.rotate();
    assert!(!paths.jumps_back(1));
}
