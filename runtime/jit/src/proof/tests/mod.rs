//! Tests of the proof: its arithmetic against brute force, with integers of a few bits, where every value of every
//! variable can be tried. Graphs are drawn that look like those of guarded loops, with guards that are right, wrong by
//! one, or missing. Whatever the proof accepts is run with all values; and what it accepted is changed in all places,
//! and has to be refused if that makes an access leave its buffer, or uses a value that is not there. `joins` draws
//! graphs in which branches join and accesses have masks.

mod joins;

use super::*;
use crate::ir::graph::{Branch, Entry, Exit, SideExitKind};
use crate::ir::types::{Scalar, Width};

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        self.0 >> 33
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len() as u64) as usize]
    }
}

const I64: Ty = Ty::Scalar(Scalar::I64);

/// A graph that is being made.
struct Maker {
    graph: Graph,
    block: BlockIndex,
    exit: ExitId,
}

impl Maker {
    fn new() -> Maker {
        let mut graph = Graph::default();
        let block = graph.add_block();
        graph.order.push(block);
        graph.blocks[block].entry = Some(Entry { pc: 0, resumes: false, native: false });
        let exit = graph.add_exit(Exit {
            pc: 0,
            frame_state: Vec::new(),
            references: Vec::new(),
            pending_stores: Vec::new(),
            fallback: None,
        });
        Maker { graph, block, exit }
    }

    fn open(&mut self) -> BlockIndex {
        let block = self.graph.add_block();
        self.graph.order.push(block);
        block
    }

    fn constant(&mut self, value: u64) -> NodeId {
        self.graph.add_constant(Scalar::I64, value)
    }

    fn integer(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        self.graph.add_node(self.block, Kind::Primitive(primitive, Scalar::I64), I64, args)
    }

    fn below(&mut self, value: NodeId, bound: NodeId) {
        let check = self.graph.add_node(self.block, Kind::InRange, Ty::Nothing, &[value, bound]);
        self.graph.nodes[check.index()].exit = Some(self.exit);
    }

    fn less(&mut self, a: NodeId, b: NodeId) -> NodeId {
        self.graph.add_node(self.block, Kind::Primitive(Primitive::LtS, Scalar::I64), Ty::Truth, &[a, b])
    }

    fn end(&mut self) {
        self.graph.blocks[self.block].terminator = Terminator::SideExit(SideExitKind::Return, self.exit);
    }
}

fn to(target: BlockIndex, args: &[NodeId]) -> Branch {
    Branch { target, args: args.into(), ..Branch::default() }
}

/// The drawn parts of a graph with one counted loop, or with one in another one.
struct Drawn {
    graph: Graph,
    slots: usize,
}

fn draw(random: &mut Random, bits: u32) -> Drawn {
    let mut maker = Maker::new();
    let slots = 2;
    let all: Vec<NodeId> =
        (0..slots).map(|slot| maker.graph.add_node(maker.block, Kind::Slot(slot as u16), I64, &[])).collect();
    let is_buffer = maker.graph.add_node(maker.block, Kind::IsBuffer(0), Ty::Nothing, &[]);
    maker.graph.nodes[is_buffer.index()].exit = Some(maker.exit);
    let elements = maker.graph.add_node(maker.block, Kind::Elements(0, 2), I64, &[is_buffer]);
    let base = maker.graph.add_node(maker.block, Kind::Base(0), I64, &[is_buffer]);
    let [zero, one] = [0, 1].map(|value| maker.constant(value));
    let small =
        maker.constant(random.pick(&[1 << (bits / 2), 1 << (bits / 2), (1 << (bits / 2)) + 1, 1 << (bits - 1)]));
    // One loop, or one in another one, each with its step, bound and a parameter that grows by another number.
    let (lanes, vectors) = random.pick(&[(1, false), (1, false), (4, true), (2, false)]);
    let step = random.pick(&[1, 1, 1, 2]);
    let start = random.pick(&[zero, zero, one, all[0]]);
    let bound =
        if random.below(3) == 0 { maker.constant(random.below(6)) } else { random.pick(&[all[1], all[1], all[0]]) };
    let by = random.pick(&[0, 1, 1, 2, 3]);
    let factor = random.pick(&[0, 1, 1, 1, 2]);
    let other = random.pick(&[0, 0, 1, 2]);
    let second_start = random.pick(&[zero, zero, one, all[0]]);
    let offset = random.pick(&[zero, zero, one, all[0], all[1]]);
    let is_top_tested = random.below(3) > 0;
    // Guards, of which some are left out or off by one.
    let keeps = |random: &mut Random| random.below(8) > 0;
    for value in [start, bound, second_start] {
        if keeps(random) && maker.graph.constant(value).is_none() {
            maker.below(value, small);
        }
    }
    let chosen = keeps(random);
    if chosen {
        maker.below(start, bound);
    }
    let more = random.pick(&[0, 0, 0, 1, 1, 2]);
    let last = maker.integer(Primitive::WrappingSub, &[bound, start]);
    let minus = maker.constant(more);
    let last = maker.integer(Primitive::WrappingSub, &[last, minus]);
    let [times, times_by] = [factor, other * by].map(|value| maker.constant(value));
    let index_of = |maker: &mut Maker, values: [NodeId; 2]| {
        let [factor, other] = [factor, other].map(|value| maker.constant(value));
        let first = maker.integer(Primitive::WrappingMul, &[values[0], factor]);
        let second = maker.integer(Primitive::WrappingMulAdd, &[values[1], other, first]);
        maker.integer(Primitive::WrappingAdd, &[second, offset])
    };
    let first = index_of(&mut maker, [start, second_start]);
    if keeps(random) {
        maker.below(first, elements);
    }
    let growth = maker.integer(Primitive::WrappingMul, &[last, times]);
    let growth = maker.integer(Primitive::WrappingMulAdd, &[last, times_by, growth]);
    let rest = maker.integer(Primitive::WrappingSub, &[elements, first]);
    if keeps(random) {
        maker.below(last, small);
    }
    if keeps(random) {
        maker.below(growth, rest);
    }
    let limit = {
        let back = maker.constant((lanes - 1) * step + random.pick(&[0, 0, 0, 1]) * random.below(2));
        if lanes > 1 { maker.integer(Primitive::WrappingSub, &[bound, back]) } else { bound }
    };
    let enter = maker.block;
    let header = maker.open();
    maker.graph.blocks[enter].terminator = Terminator::Jump(to(header, &[start, second_start]));
    let parameters = [maker.graph.parameter(header, I64), maker.graph.parameter(header, I64)];
    maker.block = header;
    let access = |maker: &mut Maker, random: &mut Random| {
        let index = index_of(maker, parameters);
        let (kind, ty) = if vectors {
            (Kind::LoadLanes(Primitive::LoadI32, 0), Ty::Lanes(Scalar::I32, Width::Four))
        } else {
            (Kind::Primitive(Primitive::LoadI32, Scalar::I32), Ty::Scalar(Scalar::I32))
        };
        // Some are checked themselves.
        if random.below(8) == 0 {
            maker.below(index, elements);
        }
        maker.graph.add_node(maker.block, kind, ty, &[base, index]);
    };
    let where_to = random.below(6);
    if where_to == 0 {
        access(&mut maker, random);
    }
    let (body, after) = if is_top_tested {
        let test = maker.less(parameters[0], limit);
        let (body, after) = (maker.open(), maker.open());
        maker.graph.blocks[header].terminator = Terminator::Branch(test, [to(body, &[]), to(after, &[])]);
        (body, after)
    } else {
        (header, maker.open())
    };
    maker.block = body;
    if where_to != 1 {
        access(&mut maker, random);
    }
    let [step, by] = [step * lanes, by * lanes].map(|value| maker.constant(value));
    let next = [
        maker.integer(Primitive::WrappingAdd, &[parameters[0], step]),
        maker.integer(Primitive::WrappingAdd, &[parameters[1], by]),
    ];
    let back = to(header, &next);
    maker.graph.blocks[body].terminator = if is_top_tested {
        Terminator::Jump(back)
    } else {
        let test = maker.less(next[0], limit);
        Terminator::Branch(test, [back, to(after, &[])])
    };
    maker.block = after;
    if where_to <= 1 {
        access(&mut maker, random);
    }
    maker.end();
    Drawn { graph: maker.graph, slots }
}

/// A run of a graph in integers of so many bits.
struct Run<'g> {
    graph: &'g Graph,
    bits: u32,
    elements: u64,
    values: Vec<u64>,
    /// Which values have been computed. Others may be anything.
    is_there: Vec<bool>,
}

/// How a node or a branch ends a run.
enum End {
    /// An access has left the buffer, or a value was used that is not there.
    Badly,
    Well,
}

impl<'g> Run<'g> {
    fn new(graph: &'g Graph, bits: u32) -> Run<'g> {
        let count = graph.nodes.len();
        let mut run = Run { graph, bits, elements: 0, values: vec![0; count], is_there: vec![false; count] };
        for (index, node) in (0..).zip(&graph.nodes) {
            if let Kind::Constant(value) = node.kind {
                run.set(NodeId(index), value);
            }
        }
        run
    }

    fn mask(&self) -> u64 {
        (1 << self.bits) - 1
    }

    fn signed(&self, value: u64) -> i64 {
        ((value << (64 - self.bits)) as i64) >> (64 - self.bits)
    }

    fn set(&mut self, id: NodeId, value: u64) {
        // Numbers of 32 bits do not wrap where those of 64 do.
        self.values[id.index()] = if self.graph.node(id).ty == I64 { value & self.mask() } else { value };
        self.is_there[id.index()] = true;
    }

    fn get(&self, id: NodeId) -> Result<u64, End> {
        if self.is_there[id.index()] { Ok(self.values[id.index()]) } else { Err(End::Badly) }
    }

    fn holds(&self, test: NodeId) -> Result<bool, End> {
        let args = &self.graph.node(test).args;
        Ok(self.signed(self.get(args[0])?) < self.signed(self.get(args[1])?))
    }

    /// The value of a lane of an operand of a mask.
    fn lane(&self, id: NodeId, lane: i32) -> Result<i32, End> {
        let node = self.graph.node(id);
        Ok(match node.kind {
            Kind::Multiples(by) => by * lane,
            _ => self.get(node.args[0])? as u32 as i32,
        })
    }

    /// Makes an access to the elements of lanes, which are so far apart.
    fn access(&self, id: NodeId, by: i32, mask: Option<&NodeId>) -> Result<u64, End> {
        let node = self.graph.node(id);
        let index = self.get(node.args[1])?;
        for lane in 0..node.width().map_or(1, Width::lanes) as i32 {
            if let Some(mask) = mask {
                // Two lanes of 32 bits are in one of 64.
                let bit = if self.graph.node(*mask).scalar().is_wide() { lane / 2 } else { lane };
                if self.get(*mask)? >> bit & 1 == 0 {
                    continue;
                }
            }
            if index.wrapping_add((lane * by) as u64) & self.mask() >= self.elements {
                return Err(End::Badly);
            }
        }
        Ok(0)
    }

    fn compute(&self, id: NodeId, slots: &[u64]) -> Result<u64, End> {
        let node = self.graph.node(id);
        let arg = |index: usize| self.get(node.args[index]);
        Ok(match node.kind {
            Kind::Slot(slot) => slots[slot as usize],
            Kind::Elements(..) => self.elements,
            Kind::Primitive(Primitive::WrappingAdd, _) => arg(0)?.wrapping_add(arg(1)?),
            Kind::Primitive(Primitive::WrappingSub, _) => arg(0)?.wrapping_sub(arg(1)?),
            Kind::Primitive(Primitive::WrappingMul, _) => arg(0)?.wrapping_mul(arg(1)?),
            Kind::Primitive(Primitive::WrappingMulAdd, _) => arg(0)?.wrapping_mul(arg(1)?).wrapping_add(arg(2)?),
            Kind::Low => self.signed(arg(0)?) as u64,
            Kind::Lanes(Primitive::LtS, _) => {
                let mut lanes = 0;
                for lane in 0..4 {
                    lanes |= u64::from(self.lane(node.args[0], lane)? < self.lane(node.args[1], lane)?) << lane;
                }
                lanes
            }
            Kind::Lanes(..) => arg(0)?,
            Kind::Primitive(Primitive::LoadI32, _) => self.access(id, 0, None)?,
            Kind::LoadLanes(..) => self.access(id, 1, node.args.get(2))?,
            Kind::Gather(..) => match self.graph.node(node.args[2]).kind {
                Kind::Multiples(by) => self.access(id, by, node.args.get(3))?,
                _ => return Err(End::Badly),
            },
            _ => 0,
        })
    }

    /// Takes a branch. Gives the block that it leads to.
    fn take(&mut self, branch: &Branch) -> Result<BlockIndex, End> {
        let brought: SmallVec<[u64; 4]> = branch.args.iter().map(|arg| self.get(*arg)).collect::<Result<_, _>>()?;
        for (parameter, value) in self.graph.blocks[branch.target].parameters.iter().zip(brought) {
            self.set(*parameter, value);
        }
        match &self.graph.blocks[branch.target].terminator {
            // Machine code goes on after the header, of which it has computed nothing.
            Terminator::Branch(_, [_, out]) if branch.skips_header_test => self.take(out),
            _ => Ok(branch.target),
        }
    }

    /// Runs the graph with these values of slots and so many elements. Whether all accesses are in range, and all
    /// values are there when they are used.
    fn stays_inside(&mut self, slots: &[u64], elements: u64, constants: &[bool]) -> bool {
        self.elements = elements;
        self.is_there.copy_from_slice(constants);
        let mut block = self.graph.order[0];
        for _ in 0..(4 << self.bits) {
            match self.block(block, slots) {
                Ok(next) => block = next,
                Err(End::Well) => return true,
                Err(End::Badly) => return false,
            }
        }
        true
    }

    /// Runs a block. Gives the next one.
    fn block(&mut self, block: BlockIndex, slots: &[u64]) -> Result<BlockIndex, End> {
        let graph = self.graph;
        for id in &graph.blocks[block].nodes {
            let node = graph.node(*id);
            if node.ty == Ty::Truth {
                continue;
            }
            if node.kind == Kind::InRange && self.get(node.args[0])? >= self.get(node.args[1])? {
                let fallback = node.exit.and_then(|exit| graph.exit(exit).fallback.as_ref());
                return fallback.map_or(Err(End::Well), |branch| self.take(branch));
            }
            let value = self.compute(*id, slots)?;
            self.set(*id, value);
        }
        match &graph.blocks[block].terminator {
            Terminator::Jump(branch) => self.take(branch),
            Terminator::Branch(test, [then, otherwise]) => {
                let branch = if self.holds(*test)? { then } else { otherwise };
                self.take(branch)
            }
            _ => Err(End::Well),
        }
    }
}

/// Values of slots and a number of elements with which an access leaves the buffer, if there are any.
fn counterexample(drawn: &Drawn, bits: u32) -> Option<(Vec<u64>, u64)> {
    let count = 1_u64 << bits;
    let mut run = Run::new(&drawn.graph, bits);
    let constants = run.is_there.clone();
    let mut all = (0..count.pow(drawn.slots as u32)).flat_map(|number| {
        let slots: Vec<u64> = (0..drawn.slots as u32).map(|slot| number / count.pow(slot) % count).collect();
        (0..count / 2).map(move |elements| (slots.clone(), elements))
    });
    all.find(|(slots, elements)| !run.stays_inside(slots, *elements, &constants))
}

/// The graphs that one becomes by one change of a check, a test, a step or what a guard is computed of.
fn mutants(drawn: &Drawn) -> Vec<Graph> {
    let mut all = Vec::new();
    for block in &drawn.graph.order {
        for (position, id) in drawn.graph.blocks[*block].nodes.iter().enumerate() {
            let node = drawn.graph.node(*id);
            if node.kind == Kind::InRange {
                let mut dropped = drawn.graph.clone();
                dropped.blocks[*block].nodes.remove(position);
                all.push(dropped);
            }
            // One more or less of an operand: of a bound, an extent, a step, an index.
            for operand in 0..node.args.len() {
                let takes_integers = matches!(
                    node.kind,
                    Kind::InRange | Kind::LoadLanes(..) | Kind::Gather(..) | Kind::Low | Kind::Primitive(..)
                );
                for by in [1_u64, u64::MAX] {
                    if !takes_integers || drawn.graph.node(node.args[operand]).ty != I64 {
                        continue;
                    }
                    let mut changed = drawn.graph.clone();
                    let by = changed.add_constant(Scalar::I64, by);
                    let sum = Kind::Primitive(Primitive::WrappingAdd, Scalar::I64);
                    let sum = changed.add_node(*block, sum, I64, &[node.args[operand], by]);
                    let nodes = &mut changed.blocks[*block].nodes;
                    nodes.pop();
                    nodes.insert(position, sum);
                    changed.nodes[id.index()].args[operand] = sum;
                    // The base of a buffer stays what it is.
                    if !matches!(drawn.graph.node(node.args[operand]).kind, Kind::Base(_)) {
                        all.push(changed);
                    }
                }
            }
        }
    }
    all
}

/// A graph for people.
fn text(graph: &Graph) -> String {
    let block = |block: &BlockIndex| {
        let content = &graph.blocks[*block];
        let node = |id: &NodeId| format!("  v{} = {:?} {:?}\n", id.0, graph.node(*id).kind, graph.node(*id).args);
        let nodes: String = content.nodes.iter().map(node).collect();
        format!("{block}({:?}):\n{nodes}  {:?}\n", content.parameters, content.terminator)
    };
    graph.order.iter().map(block).collect()
}

/// How many graphs are drawn, which `VIREO_PROOFS` sets.
fn number(default: u64) -> u64 {
    std::env::var("VIREO_PROOFS").ok().and_then(|text| text.parse().ok()).unwrap_or(default)
}

#[test]
fn what_is_proved_is_true_for_all_values() {
    let (mut accepted, mut leaning) = (0, 0);
    for bits in [4, 5] {
        for seed in 0..number(if cfg!(debug_assertions) { 400 } else { 4000 }) {
            let drawn = draw(&mut Random(seed << 8 | u64::from(bits)), bits);
            if check_with(&drawn.graph, bits).is_err() {
                continue;
            }
            accepted += 1;
            leaning += usize::from(!mutants(&drawn).is_empty());
            let wrong = counterexample(&drawn, bits);
            assert_eq!(wrong, None, "seed {seed} with {bits} bits:\n{}", text(&drawn.graph));
        }
    }
    println!("{accepted} graphs are proved");
    assert!(accepted > 40 && leaning > 40, "only {accepted} graphs are proved");
}

#[test]
fn guards_that_do_not_cover_are_refused() {
    let (mut refused, mut harmless) = (0, 0);
    for bits in [4, 5] {
        for seed in 0..number(if cfg!(debug_assertions) { 12 } else { 200 }) {
            let drawn = draw(&mut Random(seed << 8 | u64::from(bits)), bits);
            if check_with(&drawn.graph, bits).is_err() {
                continue;
            }
            for graph in mutants(&drawn) {
                let is_proved = check_with(&graph, bits).is_ok();
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
    println!("{refused} mutants leave their buffers and are refused; {harmless} do not, and are proved");
    let expected = if cfg!(debug_assertions) { 60 } else { 200 };
    assert!(refused >= expected, "only {refused} mutants leave their buffers");
}
