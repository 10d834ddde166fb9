//! Graphs in which branches join: a loop begins with what one of two blocks brings, is skipped where its test is known,
//! or falls back where a guard fails; the elements that it leaves over are accessed with a mask. Some use a value that
//! is not computed on every path.

use super::*;

const FOUR: Width = Width::Four;
/// The sizes of integers, all of whose values are tried. With six bits that takes long, so there are fewer graphs.
const BITS: &[u32] = if cfg!(debug_assertions) { &[4] } else { &[4, 5, 6] };

/// The values of a graph that is being drawn.
struct Parts {
    zero: NodeId,
    small: NodeId,
    elements: NodeId,
    base: NodeId,
    offset: NodeId,
    factor: u64,
    other: u64,
    /// By how much the second number grows in an iteration, if the first one grows by one.
    by: u64,
    /// Values that are computed on some paths only.
    partial: Vec<NodeId>,
}

impl Parts {
    fn index(&self, maker: &mut Maker, [p, q]: [NodeId; 2]) -> NodeId {
        let [factor, other] = [self.factor, self.other].map(|value| maker.constant(value));
        let first = maker.integer(Primitive::WrappingMul, &[p, factor]);
        let both = maker.integer(Primitive::WrappingMulAdd, &[q, other, first]);
        maker.integer(Primitive::WrappingAdd, &[both, self.offset])
    }

    /// A value, or now and then one that may not be there.
    fn maybe_missing(&self, random: &mut Random, value: NodeId) -> NodeId {
        match self.partial.as_slice() {
            [] => value,
            partial if random.below(12) == 0 => random.pick(partial),
            _ => value,
        }
    }

    /// An access to an element, or to the lanes of a vector: all, or those that a mask has.
    fn access(&self, maker: &mut Maker, random: &mut Random, values: [NodeId; 2], lanes: u64, left: Option<NodeId>) {
        let index = self.index(maker, values);
        let index = self.maybe_missing(random, index);
        if random.below(12) == 0 {
            maker.below(index, self.elements);
        }
        if lanes == 1 {
            let kind = Kind::Primitive(Primitive::LoadI32, Scalar::I32);
            maker.graph.add_node(maker.block, kind, Ty::Scalar(Scalar::I32), &[self.base, index]);
            return;
        }
        let ty = Ty::Lanes(Scalar::I32, FOUR);
        let mut args = vec![self.base, index];
        // Elements that are further apart than the lanes of one loop are gathered.
        let by = (self.factor + self.other * self.by) as i32;
        let is_gather = by != 1 || random.below(6) == 0;
        if is_gather {
            args.push(maker.graph.add_node(maker.block, Kind::Multiples(by), ty, &[]));
        }
        if let Some(left) = left {
            args.push(mask(maker, random, left));
        }
        let kind = if is_gather { Kind::Gather(Primitive::LoadI32, 0) } else { Kind::LoadLanes(Primitive::LoadI32, 0) };
        maker.graph.add_node(maker.block, kind, ty, &args);
    }
}

/// The mask of so many lanes, the first ones. Some have lanes of another size than what is accessed.
fn mask(maker: &mut Maker, random: &mut Random, left: NodeId) -> NodeId {
    let ty = Ty::Lanes(Scalar::I32, FOUR);
    let mut add = |kind, ty, args: &[NodeId]| maker.graph.add_node(maker.block, kind, ty, args);
    let mut count = add(Kind::Low, Ty::Scalar(Scalar::I32), &[left]);
    if random.below(6) == 0 {
        let more = maker.graph.add_constant(Scalar::I32, random.pick(&[1, u64::from(u32::MAX)]));
        let sum = Kind::Primitive(Primitive::WrappingAdd, Scalar::I32);
        count = maker.graph.add_node(maker.block, sum, Ty::Scalar(Scalar::I32), &[count, more]);
    }
    let mut add = |kind, ty, args: &[NodeId]| maker.graph.add_node(maker.block, kind, ty, args);
    let splat = add(Kind::Splat, ty, &[count]);
    let by = random.pick(&[1, 1, 1, 1, 1, 1, 1, 0, 2]);
    let numbers = add(Kind::Multiples(by), ty, &[]);
    let args = if random.below(16) == 0 { [splat, numbers] } else { [numbers, splat] };
    let mask = add(Kind::Lanes(Primitive::LtS, Scalar::I32), ty, &args);
    if random.below(8) > 0 {
        return mask;
    }
    add(Kind::Lanes(Primitive::Sext64, Scalar::I64), Ty::Lanes(Scalar::I64, FOUR), &[mask])
}

fn draw_joined(random: &mut Random, bits: u32) -> Drawn {
    let mut maker = Maker::new();
    let slots: Vec<NodeId> = (0..2).map(|slot| maker.graph.add_node(maker.block, Kind::Slot(slot), I64, &[])).collect();
    let is_buffer = maker.graph.add_node(maker.block, Kind::IsBuffer(0), Ty::Nothing, &[]);
    maker.graph.nodes[is_buffer.index()].exit = Some(maker.exit);
    let elements = maker.graph.add_node(maker.block, Kind::Elements(0, 2), I64, &[is_buffer]);
    let base = maker.graph.add_node(maker.block, Kind::Base(0), I64, &[is_buffer]);
    let [zero, one] = [0, 1].map(|value| maker.constant(value));
    let small = maker.constant(1 << (bits / 2));
    let keeps = |random: &mut Random| random.below(10) > 0;
    let mut parts = Parts {
        zero,
        small,
        elements,
        base,
        offset: random.pick(&[zero, zero, zero, one, slots[0]]),
        factor: random.pick(&[0, 1, 1, 1, 2]),
        other: random.pick(&[0, 0, 1, 1]),
        by: random.pick(&[0, 1, 1, 2]),
        partial: Vec::new(),
    };
    for slot in &slots {
        if keeps(random) {
            maker.below(*slot, small);
        }
    }
    let bound = random.pick(&[slots[1], slots[1], slots[1], slots[0]]);
    let mut begin = [random.pick(&[zero, zero, one, slots[0]]), random.pick(&[zero, zero, slots[0]])];
    // Two blocks, of which each brings something.
    if random.below(3) == 0 {
        let operands = [random.pick(&[zero, slots[0], slots[1]]), random.pick(&[slots[0], slots[1], small])];
        let test = maker.less(operands[0], operands[1]);
        let from = maker.block;
        let sides = [maker.open(), maker.open()];
        let join = maker.open();
        maker.graph.blocks[from].terminator = Terminator::Branch(test, sides.map(|side| to(side, &[])));
        let kinds = random.below(4);
        let step = random.pick(&[1, 1, 2]);
        for (number, side) in (0..).zip(sides) {
            maker.block = side;
            let more = maker.constant(if kinds == 0 { step } else { step * number });
            let mut brought = begin;
            for (which, value) in brought.iter_mut().enumerate() {
                // Both grow, or one does, or one is a value of this side only.
                if kinds < 2 || kinds == 2 && which == 1 {
                    *value = maker.integer(Primitive::WrappingAdd, &[*value, more]);
                } else if number == 1 && random.below(3) == 0 {
                    *value = random.pick(&slots);
                }
            }
            if random.below(3) == 0 {
                maker.below(random.pick(&brought), small);
            }
            if random.below(3) == 0 {
                let first = parts.index(&mut maker, brought);
                maker.below(first, elements);
                parts.partial.push(first);
            }
            maker.graph.blocks[side].terminator = Terminator::Jump(to(join, &brought));
        }
        begin = [maker.graph.parameter(join, I64), maker.graph.parameter(join, I64)];
        maker.block = join;
    }
    // Where the loop does not run, nothing is guarded.
    let (header, after) = (maker.open(), maker.open());
    let lanes = random.pick(&[1, 1, 4, 4]);
    let is_masked = lanes > 1 && random.below(3) > 0;
    let is_single = random.below(6) == 0;
    let tail = lanes > 1 && !is_masked && random.below(3) > 0;
    let limit = if lanes > 1 && !is_masked && !is_single {
        let back = maker.constant(lanes - 1 + random.pick(&[0, 0, 0, 0, 1]));
        maker.integer(Primitive::WrappingSub, &[bound, back])
    } else {
        bound
    };
    let skips = random.below(3);
    let after_parameters = (skips == 1).then(|| [maker.graph.parameter(after, I64), maker.graph.parameter(after, I64)]);
    if skips > 0 {
        let limit = if keeps(random) { limit } else { bound };
        let test = maker.less(begin[0], limit);
        let from = maker.block;
        let guarded = maker.open();
        let past = if skips == 1 { to(after, &begin) } else { to(header, &begin) };
        let skips_header_test = skips == 2 && random.below(2) == 0;
        maker.graph.blocks[from].terminator =
            Terminator::Branch(test, [to(guarded, &[]), Branch { skips_header_test, ..past }]);
        maker.block = guarded;
    }
    // A guard that fails leads elsewhere, where something else may be accessed.
    let plain_exit = maker.exit;
    if random.below(4) == 0 {
        let other = maker.open();
        let parameter = maker.graph.parameter(other, I64);
        let fallback = Some(to(other, &[begin[0]]));
        maker.exit = maker.graph.add_exit(Exit {
            pc: 0,
            frame_state: Vec::new(),
            references: Vec::new(),
            pending_stores: Vec::new(),
            fallback,
        });
        let guards = std::mem::replace(&mut maker.block, other);
        let exit = std::mem::replace(&mut maker.exit, plain_exit);
        if random.below(2) == 0 {
            parts.access(&mut maker, random, [parameter, begin[1]], 1, None);
        }
        maker.end();
        (maker.block, maker.exit) = (guards, exit);
    }
    if keeps(random) {
        maker.below(begin[1], small);
    }
    if keeps(random) {
        maker.below(begin[0], if random.below(2) == 0 { bound } else { small });
    }
    let last = maker.integer(Primitive::WrappingSub, &[bound, begin[0]]);
    let minus = maker.constant(random.pick(&[0, 1, 1, 1]));
    let last = maker.integer(Primitive::WrappingSub, &[last, minus]);
    let grows = maker.constant(parts.factor + parts.other * parts.by);
    let growth = maker.integer(Primitive::WrappingMul, &[last, grows]);
    let first = parts.index(&mut maker, begin);
    if keeps(random) {
        maker.below(first, elements);
    }
    let rest = maker.integer(Primitive::WrappingSub, &[elements, first]);
    if keeps(random) {
        maker.below(last, small);
    }
    if keeps(random) {
        let growth = parts.maybe_missing(random, growth);
        maker.below(growth, rest);
    }
    parts.partial.extend([growth, first, rest]);
    maker.exit = plain_exit;
    maker.graph.blocks[maker.block].terminator = Terminator::Jump(to(header, &begin));
    // The loop.
    let values = [maker.graph.parameter(header, I64), maker.graph.parameter(header, I64)];
    maker.block = header;
    if random.below(6) == 0 {
        let value = parts.index(&mut maker, values);
        parts.partial.push(value);
    }
    let test = maker.less(values[0], limit);
    let body = maker.open();
    let out = if skips == 1 { to(after, &values) } else { to(after, &[]) };
    maker.graph.blocks[header].terminator = Terminator::Branch(test, [to(body, &[]), out]);
    maker.block = body;
    let left = is_masked.then(|| maker.integer(Primitive::WrappingSub, &[bound, values[0]]));
    parts.access(&mut maker, random, values, if is_single { 1 } else { lanes }, left);
    // In integers of four bits, four is not small. Vectors that overlap reach as far.
    let own = if lanes > 1 { random.pick(&[1, 2, 3, 4]) } else { 1 };
    let step = maker.constant(own);
    let next = if is_single {
        // It has one iteration.
        let all = maker.integer(Primitive::WrappingSub, &[bound, values[0]]);
        let by = maker.constant(parts.by);
        [bound, maker.integer(Primitive::WrappingMulAdd, &[all, by, values[1]])]
    } else {
        let by = maker.constant(own * parts.by);
        [
            maker.integer(Primitive::WrappingAdd, &[values[0], step]),
            maker.integer(Primitive::WrappingAdd, &[values[1], by]),
        ]
    };
    parts.partial.push(next[0]);
    maker.graph.blocks[body].terminator = Terminator::Jump(to(header, &next));
    // After it.
    maker.block = after;
    let values = after_parameters.unwrap_or(values);
    if tail {
        let left = maker.integer(Primitive::WrappingSub, &[bound, values[0]]);
        let last = maker.open();
        if random.below(4) > 0 {
            let test = maker.less(values[0], bound);
            let end = maker.open();
            maker.graph.blocks[after].terminator = Terminator::Branch(test, [to(last, &[]), to(end, &[])]);
            maker.block = end;
            maker.end();
        } else {
            maker.graph.blocks[after].terminator = Terminator::Jump(to(last, &[]));
        }
        maker.block = last;
        parts.access(&mut maker, random, values, 4, Some(left));
    } else if random.below(4) == 0 {
        let checked = maker.integer(Primitive::WrappingSub, &[values[0], one]);
        parts.access(&mut maker, random, [checked, values[1]], 1, None);
    } else if random.below(4) == 0 {
        let zero = parts.zero;
        parts.access(&mut maker, random, [zero, zero], 1, None);
    }
    maker.below(parts.zero, parts.small);
    maker.end();
    Drawn { graph: maker.graph, slots: 2 }
}

/// The changes that graphs without joins do not have: other values in place of operands, checks in other blocks,
/// accesses without their masks or with lanes of another size, headers that are skipped.
fn more_mutants(drawn: &Drawn, random: &mut Random) -> Vec<Graph> {
    let mut all = Vec::new();
    let graph = &drawn.graph;
    let blocks: Vec<BlockIndex> = graph.order.clone();
    let numbers: Vec<NodeId> = blocks
        .iter()
        .flat_map(|block| graph.blocks[*block].parameters.iter().chain(&graph.blocks[*block].nodes))
        .copied()
        .filter(|id| graph.node(*id).ty == I64)
        .filter(|id| !matches!(graph.node(*id).kind, Kind::Base(_)))
        .collect();
    for block in &blocks {
        for (position, id) in graph.blocks[*block].nodes.iter().enumerate() {
            let node = graph.node(*id);
            let operand = match node.kind {
                Kind::InRange => 0,
                Kind::LoadLanes(..) | Kind::Gather(..) | Kind::Primitive(Primitive::LoadI32, _) => 1,
                _ => continue,
            };
            let mut changed = graph.clone();
            changed.nodes[id.index()].args[operand] = random.pick(&numbers);
            all.push(changed);
            if node.kind == Kind::InRange {
                let mut moved = graph.clone();
                moved.blocks[*block].nodes.remove(position);
                let to = random.pick(&blocks);
                let at = random.below(moved.blocks[to].nodes.len() as u64 + 1) as usize;
                moved.blocks[to].nodes.insert(at, *id);
                all.push(moved);
            }
            let mask = match node.kind {
                Kind::LoadLanes(..) if node.args.len() > 2 => 2,
                Kind::Gather(..) if node.args.len() > 3 => 3,
                _ => continue,
            };
            let mut dropped = graph.clone();
            dropped.nodes[id.index()].args.truncate(mask);
            all.push(dropped);
            let mut wide = graph.clone();
            let extend = Kind::Lanes(Primitive::Sext64, Scalar::I64);
            let extended = wide.add_node(*block, extend, Ty::Lanes(Scalar::I64, FOUR), &[node.args[mask]]);
            wide.blocks[*block].nodes.pop();
            wide.blocks[*block].nodes.insert(position, extended);
            wide.nodes[id.index()].args[mask] = extended;
            all.push(wide);
        }
        for which in 0..graph.branches(*block).len() {
            let mut skipping = graph.clone();
            let target = skipping.branches(*block)[which].target;
            if matches!(skipping.blocks[target].terminator, Terminator::Branch(..)) {
                skipping.branches_mut(*block)[which].skips_header_test ^= true;
                all.push(skipping);
            }
        }
    }
    all
}

#[test]
fn joins_and_masks_are_proved_only_if_they_stay_inside() {
    let (mut accepted, mut masked, mut joined) = (0, 0, 0);
    for bits in BITS.iter().copied() {
        for seed in 0..number(if cfg!(debug_assertions) { 600 } else { 4000 }) >> (2 * (bits - 4)) {
            let drawn = draw_joined(&mut Random(seed << 8 | u64::from(bits)), bits);
            if check_with(&drawn.graph, bits).is_err() {
                continue;
            }
            accepted += 1;
            masked += usize::from(has_mask(&drawn.graph));
            joined += usize::from(has_join(&drawn.graph));
            let wrong = counterexample(&drawn, bits);
            assert_eq!(wrong, None, "seed {seed} with {bits} bits:\n{}", text(&drawn.graph));
        }
    }
    println!("{accepted} graphs are proved, {masked} of them with masks, {joined} with joins");
    assert!(accepted > 60 && masked > 10 && joined > 5, "only {accepted} graphs are proved, {masked}, {joined}");
}

fn has_mask(graph: &Graph) -> bool {
    let is_masked = |id: &NodeId| matches!(graph.node(*id).kind, Kind::Lanes(Primitive::LtS, _));
    graph.blocks.iter().any(|block| block.nodes.iter().any(is_masked))
}

/// Whether two blocks, of which neither is in a loop, bring values to a third one.
fn has_join(graph: &Graph) -> bool {
    let mut brought = vec![0; graph.blocks.len()];
    for block in &graph.order {
        graph.branches(*block).iter().for_each(|branch| brought[branch.target.index()] += 1);
    }
    let is_forward = |block: BlockIndex, target: BlockIndex| block.index() < target.index();
    graph.order.iter().any(|target| {
        let from = graph.order.iter().filter(|block| graph.branches(**block).iter().any(|one| one.target == *target));
        let from: Vec<_> = from.collect();
        brought[target.index()] > 1
            && !graph.blocks[*target].parameters.is_empty()
            && from.iter().all(|block| is_forward(**block, *target))
    })
}

#[test]
fn changes_of_joins_and_masks_are_refused() {
    let (mut refused, mut harmless) = (0, 0);
    for bits in BITS.iter().copied() {
        for seed in 0..number(if cfg!(debug_assertions) { 60 } else { 800 }) >> (2 * (bits - 4)) {
            let random = &mut Random(seed << 8 | u64::from(bits));
            let drawn = draw_joined(random, bits);
            if check_with(&drawn.graph, bits).is_err() {
                continue;
            }
            for graph in mutants(&drawn).into_iter().chain(more_mutants(&drawn, random)) {
                let is_proved = check_with(&graph, bits).is_ok();
                // Of those that are refused, some are looked at.
                if !is_proved && random.below(if cfg!(debug_assertions) { 16 } else { 4 }) > 0 {
                    continue;
                }
                let mutant = Drawn { graph, slots: drawn.slots };
                match counterexample(&mutant, bits) {
                    Some(wrong) => {
                        let text = text(&mutant.graph);
                        assert!(!is_proved, "seed {seed} with {bits} bits leaves its buffer with {wrong:?}:\n{text}");
                        refused += 1;
                    }
                    None => harmless += usize::from(is_proved),
                }
            }
        }
    }
    println!("{refused} of the mutants that are looked at leave their buffers and are refused; {harmless} are proved");
    assert!(refused >= 20, "only {refused} mutants leave their buffers");
}
