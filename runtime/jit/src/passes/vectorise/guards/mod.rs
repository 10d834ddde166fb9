//! Guards of vector loops: one block that checks, before the first vector loop, everything that the scalar loop checks
//! in each iteration, and that accesses do not overlap.
//!
//! An index that is computed from induction variables by additions, and by multiplications with loop-invariant values,
//! is at least `first` and at most `first + growth`: `first` is its value in the first iteration of all loops of the
//! nest, and `growth` adds up by how much each loop makes it grow from its first iteration to its last. Nothing of that
//! wraps, which is checked, too: starts, bounds and factors are small, and sums are not large. So every index is in
//! range if `first` is, and `growth` is less than the number of elements from `first` on.
//!
//! Guards of a jammed loop are the same, for its whole nest, with one more.

mod apart;

use smallvec::SmallVec;

use crate::analysis::loop_nest::{Item, LoopNest, increment};
use crate::analysis::shapes::{Element, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, ExitId, Graph, Kind, NodeId};
use crate::ir::hash::Table;
use crate::ir::per_block::BlockSet;
use crate::ir::types::{Effect, Linear, Scalar, Ty};
use crate::processor::lanes::{self, Division};

/// Starts, bounds and factors are less than this.
const SMALL: u64 = 1 << 31;
/// Sums are less than this.
const LARGE: u64 = 1 << 62;
/// Most iterations of an inner loop, so that limits are checked often enough.
const MAX_ITERATIONS: u64 = 1 << 14;
/// Most iterations of all inner loops together.
const MAX_TOTAL_ITERATIONS: u64 = 1 << 20;
/// A number below `MAX_ITERATIONS` is divided by another one as it is multiplied by the reciprocal, in a fraction of so
/// many bits: the error of the reciprocal is less than one in the last of them, so that of the quotient is less than
/// the distance to the next larger integer.
const RECIPROCAL_BITS: u64 = 32;
const _: () = assert!(MAX_ITERATIONS * MAX_ITERATIONS < 1 << RECIPROCAL_BITS);
/// Most inner loops.
const MAX_INNER_LOOPS: u64 = 16;
/// Most iterations of the scalar loop in one of a vector loop.
pub(super) const MAX_LANES: u64 = 64;
// The steps of an iteration of a vector loop are a positive number of 32 bits: no inner loop takes more of them than
// all make iterations.
const _: () = assert!(MAX_LANES * (1 + MAX_INNER_LOOPS * MAX_TOTAL_ITERATIONS) < 1 << 31);

/// Most pairs of a store and an access that are checked not to overlap.
const MAX_PAIRS: usize = 64;

/// By how much a value grows from the first iteration of all loops to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Constant(u64),
    /// Less than `LARGE`.
    Node(NodeId),
}

/// Bounds of the inner loops, for one iteration of the outermost one.
struct InnerLoops {
    /// Most iterations that they make together, as a product.
    iterations: u64,
    count: u64,
}

/// A parameter of a loop header.
#[derive(Clone, Copy)]
struct LoopParameter {
    start: NodeId,
    header: BlockIndex,
    /// Its step, and how far the loop comes.
    grows: Option<(u64, Reach)>,
}

/// Bounds of the number of iterations after the first one.
#[derive(Clone, Copy)]
struct Reach {
    /// In an iteration.
    inside: Growth,
    /// In the header and after the loop: one more, if the test is in the header of an inner loop.
    beyond: Growth,
}

impl Reach {
    fn same(growth: Growth) -> Reach {
        Reach { inside: growth, beyond: growth }
    }
}

/// The builder of the guard block.
pub(super) struct Guards<'a> {
    graph: &'a mut Graph,
    defined: &'a Bits,
    block: BlockIndex,
    exit: ExitId,
    parameters: Table<NodeId, LoopParameter>,
    /// For each loop by its header, the blocks that run only in its iterations.
    iterations: Vec<(BlockIndex, BlockSet)>,
    /// By how much values grow that are used in a block, as long as the parameters stay the same.
    growths: Table<(NodeId, BlockIndex), Option<Growth>>,
    initial_values: Table<NodeId, NodeId>,
}

/// Whether copies of a nest leave a node out: the guards have made its check, or it only serves a check or the scalar
/// loop.
pub(super) fn is_left_to_guards(kind: Kind) -> bool {
    let is_check = matches!(kind, Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::InRange | Kind::HasRoom);
    is_check || matches!(kind, Kind::Elements(..) | Kind::UncountStep)
}

impl<'a> Guards<'a> {
    pub fn new(graph: &'a mut Graph, defined: &'a Bits, block: BlockIndex, exit: ExitId) -> Guards<'a> {
        Guards {
            graph,
            defined,
            block,
            exit,
            parameters: Table::default(),
            iterations: Vec::new(),
            growths: Table::default(),
            initial_values: Table::default(),
        }
    }

    #[cfg(test)]
    pub fn graph(&self) -> &Graph {
        self.graph
    }

    /// The values of nodes in the first iteration of all loops, for those that guards needed.
    pub fn initial_values(self) -> Table<NodeId, NodeId> {
        self.initial_values
    }

    /// Makes all guards. Gives the steps that an iteration of the scalar loop counts against the limits, with those of
    /// its inner loops. None if a guard is known to fail, or if the nest has something that cannot be guarded.
    pub fn check(&mut self, nest: &LoopNest) -> Option<NodeId> {
        let steps = self.count(nest, true, &mut InnerLoops { iterations: 1, count: 0 })?;
        let mut nodes = Vec::new();
        nest.for_each_block(&mut |block| nodes.extend(self.graph.blocks[block].nodes.iter().map(|id| (*id, block))));
        // Elements of different sizes are different, even at one index. So are those of an index that a loop moves
        // between the blocks that access them.
        let mut accesses: Vec<((Element, u8, BlockIndex), NodeId, bool)> = Vec::new();
        for (id, at) in nodes {
            match self.graph.node(id).kind {
                Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::HasRoom | Kind::Base(_) => {
                    self.initial(id)?;
                }
                Kind::InRange => {
                    let args = self.graph.node(id).args.clone();
                    self.in_range((args[0], args[1]), at)?;
                }
                // Divisors of 64 bits are constants by which no division traps.
                Kind::Primitive(primitive, Scalar::I64) if primitive.effect() == Effect::Trap => {}
                Kind::Primitive(primitive, of) if primitive.effect() == Effect::Trap => {
                    let division = lanes::division(primitive, of)?;
                    self.divisor(self.graph.node(id).args[1], division, at)?;
                }
                _ => {}
            }
            if let Some((element, primitive, stores)) = access(self.graph, id) {
                let shift = primitive.element_shift();
                let is_same = |(own, ..): &&mut ((Element, u8, BlockIndex), NodeId, bool)| {
                    (own.0, own.1) == (element, shift) && !self.is_moved(element.1, own.2, at)
                };
                match accesses.iter_mut().find(is_same) {
                    Some((.., other)) => *other |= stores,
                    None => accesses.push(((element, shift, at), id, stores)),
                }
            }
        }
        let stores: Vec<((Element, u8, BlockIndex), NodeId, bool)> =
            accesses.iter().copied().filter(|access| access.2).collect();
        if stores.len() * accesses.len() > MAX_PAIRS {
            return None;
        }
        for (index, (element, store, _)) in stores.iter().enumerate() {
            for (other, id, is_store) in &accesses {
                // A pair of stores is checked once.
                let seen = *is_store && stores[..index].iter().any(|(before, ..)| before == other);
                if other != element && !seen {
                    self.apart((*store, element.2), (*id, other.2))?;
                }
            }
        }
        Some(steps)
    }

    /// Whether an index may be another one in one block than in another one of the same iteration: it depends on a loop
    /// that has ended, or not begun, in one of them.
    fn is_moved(&self, index: NodeId, one: BlockIndex, other: BlockIndex) -> bool {
        let (mut seen, mut pending): (SmallVec<[NodeId; 16]>, SmallVec<[NodeId; 16]>) =
            (SmallVec::new(), SmallVec::new());
        pending.push(index);
        while let Some(id) = pending.pop() {
            if one == other || !self.defined.contains(id.index()) || seen.contains(&id) {
                continue;
            }
            seen.push(id);
            if let Some(LoopParameter { start, header, .. }) = self.parameters.get(&id) {
                let moves = |(own, blocks): &(BlockIndex, BlockSet)| {
                    own == header && blocks.contains(one) != blocks.contains(other)
                };
                if self.iterations.iter().any(moves) {
                    return true;
                }
                pending.push(*start);
            }
            pending.extend(self.graph.node(id).args.iter().copied());
        }
        false
    }

    /// Notes the parameters of a loop and of those in it, and checks their bounds. Gives the back edges that are taken,
    /// in an iteration of the outermost loop, or while an inner one runs.
    fn count(&mut self, nest: &LoopNest, is_outermost: bool, inner_loops: &mut InnerLoops) -> Option<NodeId> {
        let parameters = self.graph.blocks[nest.header].parameters.clone();
        let header = nest.header;
        for (index, parameter) in parameters.iter().enumerate() {
            // Starts are computed without the induction variables of the loop itself, so their growth is not known yet.
            self.parameters.insert(*parameter, LoopParameter { start: nest.start[index], header, grows: None });
        }
        let mut iterations = BlockSet::new(self.graph);
        nest.for_each_block_of_iterations(&mut |block| iterations.insert(block));
        self.iterations.push((header, iterations));
        self.growths.clear();
        let (start, bound) = (nest.start[nest.induction], nest.bound);
        let at = nest.preheader;
        if self.growth(start, at)? != Growth::Constant(0) || self.growth(bound, at)? != Growth::Constant(0) {
            return None;
        }
        let (start, bound) = (self.initial(start)?, self.initial(bound)?);
        let beyond = match (self.graph.constant(start), self.graph.constant(bound)) {
            (Some(start), Some(bound)) => {
                if start >= bound || bound >= SMALL {
                    return None;
                }
                Growth::Constant(bound - 1 - start)
            }
            _ => {
                let small = self.constant(SMALL);
                self.below(start, small)?;
                self.below(bound, small)?;
                self.below(start, bound)?;
                let one = self.constant(1);
                let last = self.integer(Primitive::WrappingSub, &[bound, one]);
                Growth::Node(self.integer(Primitive::WrappingSub, &[last, start]))
            }
        };
        // There are no more iterations than the induction variable has values between its start and its bound. The last
        // run of the outermost header is left to the scalar loop.
        let one_more = match beyond {
            _ if is_outermost || !nest.is_top_tested => beyond,
            Growth::Constant(beyond) => Growth::Constant(beyond + 1),
            Growth::Node(beyond) => {
                let one = self.constant(1);
                Growth::Node(self.integer(Primitive::WrappingAdd, &[beyond, one]))
            }
        };
        let reach = Reach { inside: beyond, beyond: one_more };
        for (index, parameter) in parameters.iter().enumerate() {
            let grows = increment(self.graph, *parameter, nest.next[index]);
            let start = nest.start[index];
            self.parameters.insert(*parameter, LoopParameter { start, header, grows: grows.map(|by| (by, reach)) });
        }
        self.growths.clear();
        if !is_outermost {
            let most = match beyond {
                Growth::Constant(beyond) => beyond / nest.step + 1,
                Growth::Node(_) => MAX_ITERATIONS,
            };
            let all = inner_loops.iterations.checked_mul(most);
            inner_loops.iterations = all.filter(|iterations| *iterations <= MAX_TOTAL_ITERATIONS)?;
            inner_loops.count += 1;
            if inner_loops.count > MAX_INNER_LOOPS {
                return None;
            }
            if let Growth::Node(beyond) = beyond {
                let most = self.constant(most);
                self.below(beyond, most)?;
            }
        }
        // A step that is taken back is not counted.
        let uncounts = |id: &&NodeId| self.graph.node(**id).kind == Kind::UncountStep;
        let own = nest.body.iter().filter_map(|item| match item {
            Item::Nodes(block) => Some(self.graph.blocks[*block].nodes.iter().filter(uncounts).count() as u64),
            Item::Loop(_) => None,
        });
        let own = own.sum();
        let mut steps = self.constant(1_u64.wrapping_sub(own));
        for item in &nest.body {
            if let Item::Loop(inner) = item {
                let inner = self.count(inner, false, inner_loops)?;
                steps = self.integer(Primitive::WrappingAdd, &[steps, inner]);
            }
        }
        if is_outermost {
            return Some(steps);
        }
        let iterations = self.iterations(beyond, nest.step);
        let steps = self.integer(Primitive::WrappingMul, &[steps, iterations]);
        if nest.is_top_tested {
            return Some(steps);
        }
        // The last iteration takes no back edge.
        let minus_one = self.constant(u64::MAX);
        Some(self.integer(Primitive::WrappingAdd, &[steps, minus_one]))
    }

    /// The iterations of an inner loop: a step further than `beyond`, which is less than `MAX_ITERATIONS`, it does not
    /// go.
    fn iterations(&mut self, beyond: Growth, step: u64) -> NodeId {
        let after_first = match beyond {
            Growth::Constant(beyond) => return self.constant(beyond / step + 1),
            Growth::Node(_) if step >= MAX_ITERATIONS => return self.constant(1),
            Growth::Node(beyond) if step == 1 => beyond,
            Growth::Node(beyond) => {
                let reciprocal = self.constant((1 << RECIPROCAL_BITS) / step + 1);
                let product = self.integer(Primitive::WrappingMul, &[beyond, reciprocal]);
                let bits = self.graph.add_constant(Scalar::I32, RECIPROCAL_BITS);
                self.integer(Primitive::ShrU, &[product, bits])
            }
        };
        let one = self.constant(1);
        self.integer(Primitive::WrappingAdd, &[after_first, one])
    }

    /// Makes sure that an index is in range in all iterations.
    fn in_range(&mut self, (index, elements): (NodeId, NodeId), at: BlockIndex) -> Option<()> {
        let growth = self.growth(index, at)?;
        if self.growth(elements, at)? != Growth::Constant(0) {
            return None;
        }
        let (first, elements) = (self.initial(index)?, self.initial(elements)?);
        self.below(first, elements)?;
        if growth != Growth::Constant(0) {
            let rest = self.integer(Primitive::WrappingSub, &[elements, first]);
            let growth = self.node(growth);
            self.below(growth, rest)?;
        }
        Some(())
    }

    /// Makes sure that divisions by a value never trap: it is not zero, and not -1 if it has a sign, by which the least
    /// number cannot be divided.
    fn divisor(&mut self, divisor: NodeId, division: Division, at: BlockIndex) -> Option<()> {
        if self.growth(divisor, at)? != Growth::Constant(0) {
            return None;
        }
        let divisor = self.initial(divisor)?;
        let number = match self.graph.constant(divisor) {
            Some(bits) => self.constant(u64::from(bits as u32)),
            None => self.integer(Primitive::Zext64, &[divisor]),
        };
        let minus_one = self.constant(u64::MAX);
        let less = self.integer(Primitive::WrappingAdd, &[number, minus_one]);
        let bound = self.constant(u64::from(u32::MAX) - u64::from(division.signed));
        self.below(less, bound)
    }

    /// By how much a value that is used in a block grows from the first iteration of all loops to the last.
    fn growth(&mut self, id: NodeId, at: BlockIndex) -> Option<Growth> {
        if !self.defined.contains(id.index()) {
            return Some(Growth::Constant(0));
        }
        if let Some(known) = self.growths.get(&(id, at)) {
            return *known;
        }
        let growth = self.computed_growth(id, at);
        self.growths.insert((id, at), growth);
        growth
    }

    fn computed_growth(&mut self, id: NodeId, at: BlockIndex) -> Option<Growth> {
        if let Some(LoopParameter { start, header, grows }) = self.parameters.get(&id).copied() {
            let (by, reach) = grows?;
            let is_inside = self.iterations.iter().any(|(own, blocks)| *own == header && blocks.contains(at));
            let before = self.growth(start, at)?;
            let own = self.times(if is_inside { reach.inside } else { reach.beyond }, Growth::Constant(by))?;
            return self.plus(before, own);
        }
        let node = self.graph.node(id).clone();
        let args = node.args;
        let linear = match node.kind {
            Kind::Primitive(primitive, Scalar::I64) => primitive.linear(),
            _ => None,
        };
        if let Some(linear) = linear {
            let (a, b) = (self.growth(args[0], at)?, self.growth(args[1], at)?);
            return match linear {
                Linear::Sum => self.plus(a, b),
                Linear::Difference => (b == Growth::Constant(0)).then_some(a),
                Linear::Product => self.product(a, b, &args),
                Linear::ProductAndSum => {
                    let product = self.product(a, b, &args)?;
                    let sum = self.growth(args[2], at)?;
                    self.plus(product, sum)
                }
            };
        }
        match node.kind {
            Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::Base(_) | Kind::Elements(..) => Some(Growth::Constant(0)),
            Kind::Primitive(primitive, _) if primitive.effect() == Effect::Pure => self.same(&args, at),
            Kind::Low | Kind::High | Kind::Pair | Kind::Cast | Kind::Number => self.same(&args, at),
            _ => None,
        }
    }

    /// The growth of a node that is invariant if all its operands are.
    fn same(&mut self, args: &[NodeId], at: BlockIndex) -> Option<Growth> {
        for arg in args {
            if self.growth(*arg, at)? != Growth::Constant(0) {
                return None;
            }
        }
        Some(Growth::Constant(0))
    }

    /// The growth of the product of the first two of `args`, which grow by `a` and `b`.
    fn product(&mut self, a: Growth, b: Growth, args: &[NodeId]) -> Option<Growth> {
        match (a, b) {
            (Growth::Constant(0), Growth::Constant(0)) => Some(a),
            (Growth::Constant(0), grows) => self.scaled(grows, args[0]),
            (grows, Growth::Constant(0)) => self.scaled(grows, args[1]),
            _ => None,
        }
    }

    fn scaled(&mut self, grows: Growth, factor: NodeId) -> Option<Growth> {
        let factor = self.initial(factor)?;
        let factor = self.graph.constant(factor).map_or(Growth::Node(factor), Growth::Constant);
        if let (Growth::Constant(1), Growth::Node(factor)) = (grows, factor) {
            // Between two iterations there is one factor, which is no product that would be checked.
            let small = self.constant(SMALL);
            self.below(factor, small)?;
        }
        self.times(grows, factor)
    }

    fn times(&mut self, a: Growth, b: Growth) -> Option<Growth> {
        match (a, b) {
            (Growth::Constant(a), Growth::Constant(b)) => {
                a.checked_mul(b).filter(|product| *product < LARGE).map(Growth::Constant)
            }
            (one, Growth::Constant(1)) | (Growth::Constant(1), one) if is_in_bounds(one) => Some(one),
            _ => {
                let small = self.constant(SMALL);
                let (a, b) = (self.node(a), self.node(b));
                self.below(a, small)?;
                self.below(b, small)?;
                Some(Growth::Node(self.integer(Primitive::WrappingMul, &[a, b])))
            }
        }
    }

    fn plus(&mut self, a: Growth, b: Growth) -> Option<Growth> {
        match (a, b) {
            (Growth::Constant(0), other) | (other, Growth::Constant(0)) => Some(other),
            (Growth::Constant(a), Growth::Constant(b)) => {
                a.checked_add(b).filter(|sum| *sum < LARGE).map(Growth::Constant)
            }
            _ => {
                let (a, b) = (self.node(a), self.node(b));
                let sum = self.integer(Primitive::WrappingAdd, &[a, b]);
                let large = self.constant(LARGE);
                self.below(sum, large)?;
                Some(Growth::Node(sum))
            }
        }
    }

    fn node(&mut self, growth: Growth) -> NodeId {
        match growth {
            Growth::Constant(bits) => self.constant(bits),
            Growth::Node(id) => id,
        }
    }

    /// The value of a node in the first iteration of all loops.
    pub fn initial(&mut self, id: NodeId) -> Option<NodeId> {
        if !self.defined.contains(id.index()) {
            return Some(id);
        }
        if let Some(first) = self.initial_values.get(&id) {
            return Some(*first);
        }
        let first = if let Some(counted) = self.parameters.get(&id) {
            let start = counted.start;
            self.initial(start)?
        } else {
            let node = self.graph.node(id).clone();
            let computes = match node.kind {
                Kind::Primitive(primitive, _) => primitive.effect() == Effect::Pure,
                Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::HasRoom | Kind::Base(_) | Kind::Elements(..) => true,
                Kind::Low | Kind::High | Kind::Pair | Kind::Cast | Kind::Number => true,
                _ => false,
            };
            if !computes {
                return None;
            }
            let mut args: SmallVec<[NodeId; 3]> = SmallVec::new();
            for arg in &node.args {
                args.push(self.initial(*arg)?);
            }
            let new = self.graph.add_node(self.block, node.kind, node.ty, &args);
            if node.exit.is_some() {
                self.graph.nodes[new.index()].exit = Some(self.exit);
            }
            new
        };
        self.initial_values.insert(id, first);
        Some(first)
    }

    /// Makes sure that a value is below another one, unsigned. None if it is known not to be.
    fn below(&mut self, value: NodeId, bound: NodeId) -> Option<()> {
        if let (Some(value), Some(bound)) = (self.graph.constant(value), self.graph.constant(bound)) {
            return (value < bound).then_some(());
        }
        let check = self.graph.add_node(self.block, Kind::InRange, Ty::Nothing, &[value, bound]);
        self.graph.nodes[check.index()].exit = Some(self.exit);
        Some(())
    }

    fn constant(&mut self, bits: u64) -> NodeId {
        self.graph.add_constant(Scalar::I64, bits)
    }

    fn integer(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        let constants: SmallVec<[u64; 3]> = args.iter().filter_map(|arg| self.graph.constant(*arg)).collect();
        if constants.len() == args.len()
            && let Some(known) = primitive.known(Scalar::I64, &constants)
        {
            return self.constant(known);
        }
        let kind = Kind::Primitive(primitive, Scalar::I64);
        self.graph.add_node(self.block, kind, Ty::Scalar(Scalar::I64), args)
    }
}

/// Whether a growth is below `LARGE` without a check.
fn is_in_bounds(growth: Growth) -> bool {
    match growth {
        Growth::Constant(bits) => bits < LARGE,
        Growth::Node(_) => true,
    }
}
