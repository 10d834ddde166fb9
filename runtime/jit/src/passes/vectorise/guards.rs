//! What is made sure of in front of vector loops.
//!
//! An index that is computed from what the loops count with by additions, and multiplications by what stays the same, is
//! `first + growth` at most, where `first` is what it is in the first turn of all loops, and `growth` adds up by how much each loop makes
//! it grow from its first turn to its last. All of it is checked to happen without wrapping: what a loop begins with and stays below and what
//! is multiplied are small, and sums are not large. So if `first` is in range, and `growth` is less than what there is behind it,
//! every index is.

use smallvec::SmallVec;

use crate::analysis::loop_nest::{Item, LoopNest, increment};
use crate::analysis::shapes::{Element, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{ExitId, Graph, Kind, NodeId};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Linear, Scalar, Ty};

/// What is multiplied is less than this.
const SMALL: u64 = 1 << 31;
/// What is added is less than this.
const LARGE: u64 = 1 << 62;
/// Loops inside do not have more turns than this, so that limits are looked at often.
const MAX_ITERATIONS: u64 = 1 << 14;
/// Nor more than this, all of them together.
const MAX_TOTAL_ITERATIONS: u64 = 1 << 20;
/// More pairs of accesses are not kept apart.
const MAX_PAIRS: usize = 64;

/// By how much a value grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Growth {
    Constant(u64),
    /// Less than `LARGE`.
    Node(NodeId),
}

/// How many turns the loops inside take together.
struct Iterations {
    /// As far as it is known when they are compiled.
    known: u64,
    most: u64,
}

/// A parameter of one of the loops.
struct LoopParameter {
    start: NodeId,
    /// By how much it grows each turn, and in how many turns beyond the first one at most.
    grows: Option<(u64, Growth)>,
}

/// The block with the checks.
pub(super) struct Guards<'a> {
    graph: &'a mut Graph,
    defined: &'a Bits,
    block: usize,
    exit: ExitId,
    parameters: Table<NodeId, LoopParameter>,
    initial_values: Table<NodeId, NodeId>,
}

impl<'a> Guards<'a> {
    pub fn new(graph: &'a mut Graph, defined: &'a Bits, block: usize, exit: ExitId) -> Guards<'a> {
        Guards { graph, defined, block, exit, parameters: Table::default(), initial_values: Table::default() }
    }

    /// What values of the loop are in the first turn, as far as anybody needed them.
    pub fn initial_values(self) -> Table<NodeId, NodeId> {
        self.initial_values
    }

    /// Makes all checks. Gives how many turns the loops inside take, as far as it is known.
    pub fn check(&mut self, nest: &LoopNest) -> Option<u64> {
        let no_fuel = self.graph.add_node(self.block, Kind::NoFuel, Ty::Nothing, &[]);
        self.graph.nodes[no_fuel.index()].exit = Some(self.exit);
        let mut iterations = Iterations { known: 1, most: 1 };
        self.count(nest, true, &mut iterations)?;
        let mut nodes = Vec::new();
        nest.for_each_node(self.graph, &mut |id| nodes.push(id));
        // Elements of different sizes at one index are different places.
        let mut accesses: Vec<((Element, u8), NodeId, bool)> = Vec::new();
        for id in nodes {
            match self.graph.node(id).kind {
                Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::Base(_) => {
                    self.initial(id)?;
                }
                Kind::InRange => {
                    let args = self.graph.node(id).args.clone();
                    self.in_range(args[0], args[1])?;
                }
                _ => {}
            }
            if let Some((element, primitive, stores)) = access(self.graph, id) {
                let element = (element, primitive.element_shift());
                match accesses.iter_mut().find(|(other, ..)| *other == element) {
                    Some((.., other)) => *other |= stores,
                    None => accesses.push((element, id, stores)),
                }
            }
        }
        let stores: Vec<((Element, u8), NodeId, bool)> = accesses.iter().copied().filter(|access| access.2).collect();
        if stores.len() * accesses.len() > MAX_PAIRS {
            return None;
        }
        for (index, (element, store, _)) in stores.iter().enumerate() {
            for (other, id, is_store) in &accesses {
                // Of two stores one look is enough.
                let seen = *is_store && stores[..index].iter().any(|(before, ..)| before == other);
                if other != element && !seen {
                    self.apart(*store, *id)?;
                }
            }
        }
        Some(iterations.known)
    }

    /// Notes how a loop and those in it count.
    fn count(&mut self, nest: &LoopNest, is_outermost: bool, iterations: &mut Iterations) -> Option<()> {
        let parameters = self.graph.blocks[nest.header].parameters.clone();
        for (index, parameter) in parameters.iter().enumerate() {
            // The counter itself is not known yet where the start of others is computed, and is not needed for it.
            self.parameters.insert(*parameter, LoopParameter { start: nest.start[index], grows: None });
        }
        let (start, bound) = (nest.start[nest.induction], nest.bound);
        if self.growth(start)? != Growth::Constant(0) || self.growth(bound)? != Growth::Constant(0) {
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
        for (index, parameter) in parameters.iter().enumerate() {
            let grows = increment(self.graph, *parameter, nest.next[index]);
            let start = nest.start[index];
            // It grows by as much as it does each turn in no more turns than the counter has values.
            self.parameters.insert(*parameter, LoopParameter { start, grows: grows.map(|by| (by, beyond)) });
        }
        if !is_outermost {
            let most = match beyond {
                Growth::Constant(beyond) => beyond / nest.step + 1,
                Growth::Node(_) => MAX_ITERATIONS,
            };
            iterations.most =
                iterations.most.checked_mul(most).filter(|iterations| *iterations <= MAX_TOTAL_ITERATIONS)?;
            match beyond {
                Growth::Constant(_) => iterations.known *= most,
                Growth::Node(beyond) => {
                    let most = self.constant(most);
                    self.below(beyond, most)?;
                }
            }
        }
        for item in &nest.body {
            if let Item::Loop(inner) = item {
                self.count(inner, false, iterations)?;
            }
        }
        Some(())
    }

    /// Makes sure that an index is always in range.
    fn in_range(&mut self, index: NodeId, elements: NodeId) -> Option<()> {
        let growth = self.growth(index)?;
        if self.growth(elements)? != Growth::Constant(0) {
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

    /// The address of the first byte that a node ever accesses, and the bytes from there to behind the last one.
    fn bytes(&mut self, id: NodeId) -> Option<(NodeId, NodeId)> {
        let node = self.graph.node(id).clone();
        let Kind::Primitive(primitive, _) = node.kind else { return None };
        let size = 1 << primitive.element_shift();
        let growth = self.growth(node.args[1])?;
        let (base, first) = (self.initial(node.args[0])?, self.initial(node.args[1])?);
        let size_of = self.constant(size);
        let offset = self.integer(Primitive::WrappingMul, &[first, size_of]);
        let address = self.integer(Primitive::WrappingAdd, &[base, offset]);
        let bytes = match growth {
            // The range was checked: a buffer has fewer bytes than would wrap.
            Growth::Constant(growth) => self.constant(growth.wrapping_mul(size).wrapping_add(size)),
            Growth::Node(growth) => self.integer(Primitive::WrappingMulAdd, &[growth, size_of, size_of]),
        };
        Some((address, bytes))
    }

    /// Makes sure that what one node accesses is never what the other one does: with the last byte of one behind the first of the
    /// other by less than all bytes of both less one, they would overlap.
    fn apart(&mut self, one: NodeId, other: NodeId) -> Option<()> {
        let (own, own_bytes) = self.bytes(one)?;
        let (there, bytes) = self.bytes(other)?;
        let minus_one = self.constant(u64::MAX);
        let end = self.integer(Primitive::WrappingAdd, &[own, own_bytes]);
        let last = self.integer(Primitive::WrappingAdd, &[end, minus_one]);
        let distance = self.integer(Primitive::WrappingSub, &[last, there]);
        let both = self.integer(Primitive::WrappingAdd, &[own_bytes, bytes]);
        let minus_two = self.constant(u64::MAX - 1);
        // Not below all bytes less one: all bytes less two are below it.
        let both = self.integer(Primitive::WrappingAdd, &[both, minus_two]);
        self.below(both, distance)
    }

    /// By how much a value grows from the first turn of all loops to the last.
    fn growth(&mut self, id: NodeId) -> Option<Growth> {
        if !self.defined.contains(id.index()) {
            return Some(Growth::Constant(0));
        }
        if let Some(counted) = self.parameters.get(&id) {
            let (start, grows) = (counted.start, counted.grows?);
            let before = self.growth(start)?;
            let own = self.times(grows.1, Growth::Constant(grows.0))?;
            return self.plus(before, own);
        }
        let node = self.graph.node(id).clone();
        let args = node.args;
        let linear = match node.kind {
            Kind::Primitive(primitive, Scalar::I64) => primitive.linear(),
            _ => None,
        };
        if let Some(linear) = linear {
            let (a, b) = (self.growth(args[0])?, self.growth(args[1])?);
            return match linear {
                Linear::Sum => self.plus(a, b),
                Linear::Difference => (b == Growth::Constant(0)).then_some(a),
                Linear::Product => self.product(a, b, &args),
                Linear::ProductAndSum => {
                    let product = self.product(a, b, &args)?;
                    let sum = self.growth(args[2])?;
                    self.plus(product, sum)
                }
            };
        }
        match node.kind {
            Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::Base(_) | Kind::Elements(..) => Some(Growth::Constant(0)),
            Kind::Primitive(primitive, _) if primitive.effect() == Effect::Pure => self.same(&args),
            Kind::Low | Kind::High | Kind::Pair | Kind::Cast | Kind::Number => self.same(&args),
            _ => None,
        }
    }

    /// What is made of values that stay the same stays the same.
    fn same(&mut self, args: &[NodeId]) -> Option<Growth> {
        for arg in args {
            if self.growth(*arg)? != Growth::Constant(0) {
                return None;
            }
        }
        Some(Growth::Constant(0))
    }

    /// What the product of the first two of `args` grows by, which grow by `a` and `b`.
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

    /// What a value is in the first turn of all loops.
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
                Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::Base(_) | Kind::Elements(..) => true,
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

/// Whether a growth is in bounds as it is.
fn is_in_bounds(growth: Growth) -> bool {
    match growth {
        Growth::Constant(bits) => bits < LARGE,
        Growth::Node(_) => true,
    }
}
