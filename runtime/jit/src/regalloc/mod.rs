//! The register allocator: linear scan with lifetime holes, over the blocks in the order in which they are laid out.
//!
//! A value keeps one location for its whole live range, a register or a spill slot. Where there are too few registers,
//! vectors with the fewest uses are spilled, weighted by loop depth. Of numbers, those are spilled that have uses in
//! fewer loops, and then those with the fewest uses for the length of their live range: one that lives through a loop
//! makes room for all its temporaries.
//!
//! Others may use the location inside the holes of the live range: runs of blocks through which the value is not live.
//! So an induction variable and its next value can share a register even if the old value is live after the loop.
//!
//! This room comes after the passes and is called by the plan of a function. It uses `ir`, and `processor` for the
//! registers that it may allocate. It changes nothing in the graph: its result is an [`Allocation`] beside it, which
//! `x64` reads. `check` verifies each result in builds with debug assertions.

#[cfg(debug_assertions)]
mod check;
mod fixed_registers;
mod live_in;
mod location;

use std::cmp::Reverse;
use std::collections::BTreeMap;

use crate::ir::bits;
use crate::ir::graph::{BlockIndex, ExitId, Graph, NodeId};
use crate::ir::per_block::PerBlock;
use crate::processor::registers::{CALLEE_SAVED, GENERAL, GENERAL_AND_RDX, vectors};
use fixed_registers::{last_passed, needs_rdx, needs_rdx_at_end};
use live_in::{LiveInSets, has_location, live_in_sets, terminator_uses};
use location::SPILL_SLOT_BYTES;
pub(super) use location::{Allocation, Location};

/// Positions that are added to the length of each live range where lengths are compared, and the bits after the point
/// of what is divided by them.
const MIN_LENGTH: u64 = 8;
const LENGTH_BITS: u32 = 20;

/// The cost of spilling what iterations of a loop carry, in uses: each iteration would wait for the store of the one
/// before.
const CARRIED: u64 = 4;

/// No segment or live range.
const NONE: u32 = u32::MAX;

/// A part of a live range without holes. Both ends are included.
#[derive(Clone, Copy, Debug)]
struct Segment {
    start: u32,
    end: u32,
    /// The next segment of the same live range.
    next: u32,
}

/// The segments of a live range.
#[derive(Clone, Copy, Debug)]
struct Extent {
    /// Where the first one begins, and where the last one ends.
    start: u32,
    end: u32,
    first: u32,
    last: u32,
}

impl LiveRange {
    /// The order in which values of a bank are spilled. Of a number, the uses per position count, where short live
    /// ranges count as if they were longer: a few positions make no difference.
    fn spill_order(&self) -> (u64, u64) {
        if self.is_vector {
            return (0, self.weight);
        }
        let length = u64::from(self.extent.end - self.extent.start) + MIN_LENGTH;
        (self.heaviest, (self.weight << LENGTH_BITS) / length)
    }
}

impl Extent {
    fn has_holes(&self) -> bool {
        self.first != self.last
    }
}

#[derive(Clone, Copy, Debug)]
struct LiveRange {
    node: NodeId,
    extent: Extent,
    /// The cost of spilling it.
    weight: u64,
    /// The weight of a use in the most loops.
    heaviest: u64,
    is_vector: bool,
    crosses_call: bool,
    /// Whether `rdx` is needed somewhere in it.
    needs_rdx: bool,
    hint: Option<NodeId>,
}

struct Liveness<'a> {
    graph: &'a Graph,
    ranges: Vec<LiveRange>,
    /// The number of each value's live range.
    numbers: Vec<u32>,
    segments: Vec<Segment>,
    calls: Vec<u32>,
    /// Where `rdx` is needed.
    rdx: Vec<u32>,
    /// The position at which the current block begins.
    begin: u32,
    /// The last node so far that has each exit.
    last_of_exit: Vec<NodeId>,
}

/// The first and the last position of a block. Each node has two positions: that of its uses, and that of its
/// definition.
#[derive(Clone, Copy, Default)]
struct Position {
    start: u32,
    end: u32,
}

/// Allocates registers and spill slots for all values. None if that takes more visits than are left.
pub(super) fn allocate(graph: &Graph) -> Option<Allocation> {
    let positions = positions(graph);
    let live = live_in_sets(graph)?;
    let mut liveness = Liveness {
        graph,
        ranges: Vec::with_capacity(graph.nodes.len()),
        numbers: vec![NONE; graph.nodes.len()],
        segments: Vec::with_capacity(graph.nodes.len()),
        calls: Vec::new(),
        rdx: Vec::new(),
        begin: 0,
        last_of_exit: vec![NodeId(NONE); graph.exits.len()],
    };
    for block in &graph.order {
        liveness.block(*block, &positions, &live)?;
    }
    let Liveness { mut ranges, segments, calls, rdx, .. } = liveness;
    if !calls.is_empty() {
        for range in &mut ranges {
            range.crosses_call = crosses(&calls, &segments, &range.extent);
        }
    }
    if !rdx.is_empty() {
        for range in ranges.iter_mut().filter(|range| !range.is_vector) {
            range.needs_rdx = touches(&rdx, &segments, &range.extent);
        }
    }
    let allocation = scan(graph, &ranges, &segments)?;
    #[cfg(debug_assertions)]
    check::check(graph, &live, &allocation.locations);
    Some(allocation)
}

/// Whether a value is live across a call. The calls are in the order of their positions.
fn crosses(calls: &[u32], segments: &[Segment], extent: &Extent) -> bool {
    let mut at = extent.first;
    while at != NONE {
        let segment = segments[at as usize];
        let next = calls.partition_point(|call| *call <= segment.start);
        if calls.get(next).is_some_and(|call| *call < segment.end) {
            return true;
        }
        at = segment.next;
    }
    false
}

/// Whether a value is used, computed or live at one of these positions, which are in order.
fn touches(positions: &[u32], segments: &[Segment], extent: &Extent) -> bool {
    let mut at = extent.first;
    while at != NONE {
        let segment = segments[at as usize];
        // The results of a node are one position after it.
        let next = positions.partition_point(|position| position + 1 < segment.start);
        if positions.get(next).is_some_and(|position| *position <= segment.end) {
            return true;
        }
        at = segment.next;
    }
    false
}

fn positions(graph: &Graph) -> PerBlock<Position> {
    let mut positions = PerBlock::new(graph, Position::default());
    let mut next = 0;
    for block in &graph.order {
        let end = next + 2 + 2 * graph.blocks[*block].nodes.len() as u32;
        positions[*block] = Position { start: next, end };
        next = end + 2;
    }
    positions
}

impl Liveness<'_> {
    fn extend(&mut self, id: NodeId, position: u32, weight: u64) {
        if has_location(self.graph, id) {
            self.cover(id, position, position, weight);
        }
    }

    /// Extends the live range of a value with a location over a part of the current block.
    fn cover(&mut self, id: NodeId, start: u32, end: u32, weight: u64) {
        let new = self.segments.len() as u32;
        let segment = Segment { start, end, next: NONE };
        let number = self.numbers[id.index()];
        if number == NONE {
            self.segments.push(segment);
            self.numbers[id.index()] = self.ranges.len() as u32;
            self.ranges.push(LiveRange {
                node: id,
                extent: Extent { start, end, first: new, last: new },
                weight,
                heaviest: weight,
                is_vector: self.graph.node(id).is_vector(),
                crosses_call: false,
                needs_rdx: false,
                hint: None,
            });
            return;
        }
        let range = &mut self.ranges[number as usize];
        range.weight += weight;
        range.heaviest = range.heaviest.max(weight);
        let extent = &mut range.extent;
        extent.start = extent.start.min(start);
        extent.end = extent.end.max(end);
        let last = &mut self.segments[extent.last as usize];
        // Blocks come in their order. A value that is live at the end of the one before and in this one has no hole
        // between them.
        if last.end + 1 >= self.begin {
            last.start = last.start.min(start);
            last.end = last.end.max(end);
        } else {
            last.next = new;
            extent.last = new;
            self.segments.push(segment);
        }
    }

    fn live_range(&mut self, id: NodeId) -> Option<&mut LiveRange> {
        self.ranges.get_mut(self.numbers[id.index()] as usize)
    }

    fn block(&mut self, block: BlockIndex, positions: &PerBlock<Position>, live: &LiveInSets) -> Option<()> {
        let graph = self.graph;
        let content = &graph.blocks[block];
        let weight = 10_u64.pow(content.depth.min(6));
        let Position { start, end } = positions[block];
        self.begin = start;
        let targets = graph.branches(block);
        let mut visits = content.nodes.len() + live.words;
        for (word, live_in) in live.words(block).enumerate() {
            let live_out = targets.iter().fold(0, |all, branch| all | live.word(branch.target, word));
            let mut cover = |bits: u64, start: u32, end: u32| {
                visits += bits.count_ones() as usize;
                for bit in bits::numbers([bits].into_iter()) {
                    self.cover(live.values[word * 64 + bit], start, end, 0);
                }
            };
            cover(live_in & live_out, start, end + 1);
            cover(live_in & !live_out, start, start);
            cover(live_out & !live_in, end + 1, end + 1);
        }
        if !graph.effort.spend(visits) {
            return None;
        }
        let is_header = content.header_exit.is_some();
        for id in &content.parameters {
            let is_carried = is_header && !graph.node(*id).is_vector();
            self.extend(*id, start + 1, if is_carried { weight * CARRIED } else { weight });
        }
        for id in &content.nodes {
            if let Some(exit) = graph.node(*id).exit {
                self.last_of_exit[exit.0 as usize] = *id;
            }
        }
        let passed = last_passed(graph, &content.nodes);
        if passed.is_some() {
            self.rdx.push(start);
        }
        for (index, id) in content.nodes.iter().enumerate() {
            let position = start + 2 + 2 * index as u32;
            graph.for_each_operand(*id, &mut |operand| self.extend(operand, position, weight));
            // The values of an exit are live up to the last node of the block that has it.
            if let Some(exit) = graph.node(*id).exit.filter(|exit| self.last_of_exit[exit.0 as usize] == *id) {
                self.exit(exit, position, live);
            }
            if graph.node(*id).is_call() {
                self.calls.push(position);
            }
            if passed.is_some_and(|last| index <= last) || needs_rdx(graph, *id) {
                self.rdx.push(position);
            }
            self.extend(*id, position + 1, weight);
            if let Some(first) = graph.node(*id).args.first()
                && let Some(range) = self.live_range(*id)
            {
                range.hint.get_or_insert(graph.unfolded(*first));
            }
        }
        terminator_uses(graph, block, &mut |id| self.extend(id, end, weight));
        if needs_rdx_at_end(graph, block) {
            self.rdx.push(end);
        }
        for branch in graph.branches(block) {
            if let Some(exit) = branch.limits_exit {
                self.exit(exit, end, live);
            }
            let parameters = &graph.blocks[branch.target].parameters;
            for (arg, parameter) in branch.args.iter().zip(parameters) {
                // An argument is best computed in the register of the parameter.
                if let Some(range) = self.live_range(*arg) {
                    range.hint = Some(*parameter);
                }
                if let Some(range) = self.live_range(*parameter) {
                    range.hint.get_or_insert(*arg);
                }
            }
        }
        Some(())
    }

    fn exit(&mut self, exit: ExitId, position: u32, live: &LiveInSets) {
        let graph = self.graph;
        graph.effort.spend(graph.exit(exit).frame_state.len() + live.words);
        graph.for_each_exit_use(exit, &mut |id| self.extend(id, position, 0));
        if let Some(branch) = &graph.exit(exit).fallback {
            live.of(branch.target).for_each(|id| self.extend(id, position, 0));
        }
    }
}

/// Whether two live ranges overlap, of which the first one ends no earlier than the second one begins. Counts the
/// segments that it looks at.
fn overlap(segments: &[Segment], a: &Extent, b: &Extent, visits: &mut usize) -> bool {
    *visits += 1;
    if !a.has_holes() && (a.start <= b.start || !b.has_holes()) {
        return a.start <= b.end;
    }
    let (mut first, mut second) = (segments[a.first as usize], segments[b.first as usize]);
    loop {
        *visits += 1;
        if first.end < second.start {
            let Some(next) = segments.get(first.next as usize) else { return false };
            first = *next;
        } else if second.end < first.start {
            let Some(next) = segments.get(second.next as usize) else { return false };
            second = *next;
        } else {
            return true;
        }
    }
}

/// A live range whose value is in a register, from the segment that the scan has reached on.
struct Active {
    extent: Extent,
    /// Its number.
    range: u32,
    register: u8,
}

fn scan(graph: &Graph, ranges: &[LiveRange], segments: &[Segment]) -> Option<Allocation> {
    // Keys and numbers are sorted, which are less to move than live ranges.
    let mut order: Vec<(u32, NodeId, u32)> =
        (0..).zip(ranges).map(|(number, range)| (range.extent.start, range.node, number)).collect();
    order.sort_unstable();
    let mut locations = vec![Location::None; graph.nodes.len()];
    let mut preferences: Vec<Option<u8>> = vec![None; graph.nodes.len()];
    // The live ranges of values in registers, for each of the two banks.
    let mut active_of_bank: [Vec<Active>; 2] = [Vec::with_capacity(64), Vec::with_capacity(64)];
    let mut spilled: Vec<LiveRange> = Vec::new();
    let mut visits = 0;
    for (start, _, number) in order {
        let range = &ranges[number as usize];
        let active = &mut active_of_bank[usize::from(range.is_vector)];
        // A bit for each register that overlapping live ranges have: one of them, and several.
        let (mut taken, mut shared) = (0_u32, 0_u32);
        if !graph.effort.spend(std::mem::take(&mut visits) + active.len()) {
            return None;
        }
        active.retain_mut(|Active { extent, register, .. }| {
            if extent.end < start {
                return false;
            }
            // Segments that end before all live ranges that are left are dropped.
            while extent.has_holes() && segments[extent.first as usize].end < start {
                extent.first = segments[extent.first as usize].next;
                extent.start = segments[extent.first as usize].start;
            }
            if overlap(segments, extent, &range.extent, &mut visits) {
                shared |= taken & 1 << *register;
                taken |= 1 << *register;
            }
            true
        });
        let allowed: &[u8] = match (range.is_vector, range.crosses_call) {
            (false, false) if !range.needs_rdx => &GENERAL_AND_RDX,
            (false, false) => &GENERAL,
            (false, true) => &CALLEE_SAVED,
            (true, false) => vectors(graph.node(range.node).width()),
            (true, true) => &[],
        };
        let is_taken = |register: u8| taken >> register & 1 != 0;
        let hinted = range.hint.and_then(|hint| match locations[hint.index()] {
            Location::Register(register) if graph.node(hint).is_vector() == range.is_vector => Some(register),
            _ => None,
        });
        let free = |register: &u8| allowed.contains(register) && !is_taken(*register);
        let preferred = preferences[range.node.index()].filter(free).or_else(|| hinted.filter(free));
        let preferred = preferred.or_else(|| preferences[range.hint?.index()].filter(free));
        let chosen = preferred.or_else(|| allowed.iter().copied().find(|register| !is_taken(*register)));
        if let Some(register) = chosen {
            // The hint is a parameter without a location yet: it should get the register of its argument.
            if let Some(hint) = range.hint.filter(|hint| {
                locations[hint.index()] == Location::None && graph.node(*hint).scalar().is_float() == range.is_vector
            }) {
                preferences[hint.index()] = Some(register);
            }
            locations[range.node.index()] = Location::Register(register);
            active.push(Active { extent: range.extent, range: number, register });
            continue;
        }
        // The cheapest live range whose register this one may have is spilled.
        let order = |other: &Active| ranges[other.range as usize].spill_order();
        let victim = (0..active.len())
            .filter(|index| {
                let Active { extent, register, .. } = &active[*index];
                allowed.contains(register)
                    && shared >> register & 1 == 0
                    && overlap(segments, extent, &range.extent, &mut visits)
            })
            .min_by_key(|index| (order(&active[*index]), Reverse(active[*index].extent.end)));
        match victim.filter(|index| order(&active[*index]) < range.spill_order()) {
            Some(index) => {
                let Active { range: victim, register, .. } = active.remove(index);
                let victim = ranges[victim as usize];
                locations[range.node.index()] = Location::Register(register);
                locations[victim.node.index()] = Location::None;
                active.push(Active { extent: range.extent, range: number, register });
                spilled.push(victim);
            }
            None => spilled.push(*range),
        }
    }
    let spill_slots = assign_spill_slots(graph, spilled, &mut locations);
    for id in graph.folded.iter().map(|number| NodeId(number as u32)) {
        locations[id.index()] = match graph.unfolded(id) {
            operand if operand == id => Location::None,
            operand => locations[operand.index()],
        };
    }
    Some(Allocation { locations, spill_slots })
}

/// Assigns spill slots by a linear scan without holes, and returns how many there are. Only values of one size share
/// slots, so that two locations never overlap partially: the emitter's parallel moves rely on that.
fn assign_spill_slots(graph: &Graph, mut spilled: Vec<LiveRange>, locations: &mut [Location]) -> u32 {
    let size = |node: NodeId| graph.node(node).width().map_or(1, |width| width.bytes() as usize / SPILL_SLOT_BYTES);
    spilled.sort_by_key(|range| (range.extent.start, range.node));
    // For each size, the position up to which each slot is taken; and the number of the slot of each value.
    let mut ends: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
    let mut numbers = Vec::with_capacity(spilled.len());
    for range in &spilled {
        let ends = ends.entry(size(range.node)).or_default();
        graph.effort.spend(ends.len());
        let number = ends.iter().position(|end| *end < range.extent.start).unwrap_or(ends.len());
        match ends.get_mut(number) {
            Some(end) => *end = range.extent.end,
            None => ends.push(range.extent.end),
        }
        numbers.push(number);
    }
    let before = |size: usize| ends.range(..size).map(|(size, ends)| size * ends.len()).sum::<usize>();
    for (range, number) in spilled.iter().zip(numbers) {
        let size = size(range.node);
        locations[range.node.index()] = Location::SpillSlot((before(size) + number * size) as u32);
    }
    before(usize::MAX) as u32
}
