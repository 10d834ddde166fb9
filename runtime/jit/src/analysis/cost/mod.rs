//! The cost model of loops. The vectoriser asks it for what the forms cost that a loop could have, and takes the
//! cheapest of those that are possible; and it has the limits that decisions of the vectoriser and of strip mining keep
//! to.
//!
//! A cost is a number of *slots*: the time in which the processor issues one instruction, a quarter of a cycle on those
//! with four units. A nest is looked at once: [`LoopCost`] has the sums of what its nodes issue in each loop, and gives
//! the cost of any form from them. The model knows of each loop
//!
//! - its iterations, known or assumed ([`Trip`]);
//! - what an iteration issues as scalars, and in a vector loop once for all lanes, for each vector and for each lane;
//!   a node counts in the innermost loop that moves it, since LICM hoists it there;
//! - the chain: in a sum, an iteration waits for the one before.
//!
//! Indices are free: strength reduction leaves one addition for several, or the addressing of the processor has it.

pub(crate) mod limits;
#[cfg(test)]
mod tests;

use super::loop_nest::{Item, LoopNest, addend};
use super::shapes::{Element, Shape, Shapes, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Scalar};
use crate::processor::lanes;

/// The iterations of a loop whose number is known only when it runs.
const ASSUMED: u64 = 64;

/// An iteration's branch and counter, and the step that it counts against the limits. Its test is one of its nodes.
const ITERATION: u64 = 5;
/// Entering a loop: its parameters, its bound, and a branch that may be mispredicted when it ends.
const ENTRY: u64 = 8;
/// A guard of an access: its range and its distance from stores.
const GUARD: u64 = 8;
/// The time that a float of a chain takes, and an integer: four cycles and one.
const FLOAT_CHAIN: u64 = 16;
const INTEGER_CHAIN: u64 = 4;

const LOAD: u64 = 2;
const STORE: u64 = 4;
const CALL: u64 = 80;
const VECTOR_CALL: u64 = 100;
const FLOAT_DIVISION: u64 = 16;
const INTEGER_DIVISION: u64 = 24;
const WIDE_DIVISION: u64 = 40;
/// A division of lanes by one number: a multiplication and corrections, or a conversion to floats.
const VECTOR_DIVISION: u64 = 12;
/// Such a division of lanes of 64 bits: four multiplications for the upper half of a product.
const WIDE_VECTOR_DIVISION: u64 = 22;
/// An element that is gathered, or that is loaded alone and put into a vector.
const GATHERED: u64 = 3;
/// Every other element of two vectors.
const EVEN: u64 = 6;
/// A load or a store with a mask, beyond that without.
const MASKED: u64 = 2;

/// The iterations of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Trip {
    pub iterations: u64,
    /// They are not assumed.
    pub is_known: bool,
}

impl Trip {
    pub fn of(graph: &Graph, nest: &LoopNest) -> Trip {
        match known_iterations(graph, nest) {
            Some(iterations) => Trip { iterations, is_known: true },
            None => Trip { iterations: ASSUMED, is_known: false },
        }
    }
}

/// The number of iterations of a loop, if it is constant.
pub(crate) fn known_iterations(graph: &Graph, nest: &LoopNest) -> Option<u64> {
    let (start, bound) = (graph.constant(nest.start[nest.induction])?, graph.constant(nest.bound)?);
    let distance = (bound as i64).saturating_sub(start as i64);
    Some(u64::try_from(distance).map_or(0, |distance| distance.div_ceil(nest.step)))
}

/// A form in which an iteration of a loop may be computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Form {
    /// The lanes of a vector; one for scalars.
    pub lanes: u64,
    pub vectors: u64,
    /// Iterations of the loop around that are computed together.
    pub rows: u64,
    pub is_masked: bool,
}

impl Form {
    pub const SCALAR: Form = Form { lanes: 1, vectors: 1, rows: 1, is_masked: false };
}

/// The slots of the nodes of a loop in one of its iterations.
#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    scalar: u64,
    /// In a vector loop, whatever the number of lanes.
    once: u64,
    /// For each vector, and for each lane of it.
    vector: u64,
    lane: u64,
    /// The parts of these three that rows have in common.
    shared_once: u64,
    shared_vector: u64,
    shared_lane: u64,
    /// Accesses that take a mask.
    masked: u64,
}

impl Sums {
    fn cost(&self, Form { lanes, vectors, rows, is_masked }: Form) -> u64 {
        if lanes == 1 {
            return self.scalar * rows;
        }
        let masked = if is_masked { self.masked * MASKED } else { 0 };
        let of_rows = self.once + vectors * (self.vector + masked + lanes * self.lane);
        let shared = self.shared_once + vectors * (self.shared_vector + lanes * self.shared_lane);
        rows * of_rows + shared
    }
}

/// A loop with what it costs.
#[derive(Clone, Debug)]
pub(crate) struct LoopCost {
    trip: Trip,
    own: Sums,
    /// The time after which an iteration has what it needs of the one before.
    chain: u64,
    inner: Vec<LoopCost>,
    /// Accesses in it and in its inner loops.
    accesses: u64,
}

impl LoopCost {
    /// The costs of a nest that may become vectors. `is_shared` says of a value whether it is the same in all
    /// iterations of the loop around.
    pub fn new(graph: &Graph, nest: &LoopNest, shapes: &Shapes, is_shared: &dyn Fn(NodeId) -> bool) -> LoopCost {
        let mut stored = Vec::new();
        nest.for_each_node(graph, &mut |id| {
            if let Some((element, _, true)) = access(graph, id) {
                stored.push(element);
            }
        });
        let mut counter = Counter { graph, shapes, is_shared, stored, levels: Table::default(), sums: Vec::new() };
        counter.count(nest)
    }

    pub fn trip(&self) -> Trip {
        self.trip
    }

    /// The slots of an iteration in a form.
    fn iteration(&self, form: Form) -> u64 {
        let inner = self
            .inner
            .iter()
            .map(|inner| inner.trip.iterations.saturating_mul(inner.repeated(form)).saturating_add(ENTRY));
        inner.fold(self.own.cost(form), u64::saturating_add)
    }

    /// The slots of an iteration among others.
    fn repeated(&self, form: Form) -> u64 {
        // Scalars of a loop that is not vectorised are one chain; vectors and rows are one each.
        self.iteration(form).saturating_add(ITERATION).max(self.chain)
    }

    /// The cost of so many iterations of the loop as it is.
    pub fn scalar(&self, iterations: u64) -> u64 {
        iterations.saturating_mul(self.repeated(Form::SCALAR)).saturating_add(ENTRY)
    }

    /// The cost of so many iterations in vector loops, each of which makes what those before have left: forms with the
    /// number of their iterations. What the last one leaves is made as it is.
    pub fn vectors(&self, loops: impl IntoIterator<Item = Form>, iterations: u64) -> u64 {
        let (mut left, mut cost) = (iterations, 0_u64);
        for form in loops {
            let each = form.lanes * form.vectors;
            let count = if form.is_masked { left.div_ceil(each) } else { left / each };
            left = if form.is_masked { 0 } else { left % each };
            cost = cost.saturating_add(ENTRY).saturating_add(count.saturating_mul(self.repeated(form)));
        }
        if left > 0 { cost.saturating_add(self.scalar(left)) } else { cost }
    }

    /// The cost of the guards before it.
    pub fn guards(&self) -> u64 {
        ENTRY + GUARD * self.accesses
    }

    /// The cost of so many iterations of a loop around it with guards before all of them, where each costs `each`.
    pub fn guarded(&self, iterations: u64, each: u64) -> u64 {
        let all = iterations.saturating_mul(each.saturating_add(ITERATION));
        self.guards().saturating_add(ENTRY).saturating_add(all)
    }
}

/// Sums up what nodes issue, in one walk.
struct Counter<'a> {
    graph: &'a Graph,
    shapes: &'a Shapes,
    is_shared: &'a dyn Fn(NodeId) -> bool,
    /// Elements that the nest stores to.
    stored: Vec<Element>,
    /// The number of loops that a value is in, counted from the nest, of the innermost one that moves it.
    levels: Table<NodeId, usize>,
    /// Those of the loops around the node that is looked at, and of the loop itself.
    sums: Vec<(Sums, u64)>,
}

impl Counter<'_> {
    fn count(&mut self, nest: &LoopNest) -> LoopCost {
        let graph = self.graph;
        self.sums.push((Sums::default(), 0));
        let depth = self.sums.len();
        let mut chain = 0;
        for (parameter, next) in graph.blocks[nest.header].parameters.iter().zip(&nest.next) {
            self.levels.insert(*parameter, depth);
            let is_counter = addend(graph, *parameter, *next).is_some();
            if !is_counter {
                chain = chain.max(chain_of(graph, *next));
            }
        }
        let mut inner = Vec::new();
        for item in &nest.body {
            match item {
                Item::Nodes(block) => {
                    for id in &graph.blocks[*block].nodes {
                        chain = chain.max(self.node(*id, depth));
                    }
                }
                Item::Loop(loop_inside) => inner.push(self.count(loop_inside)),
            }
        }
        let (own, accesses) = self.sums.pop().unwrap_or_default();
        let accesses = accesses + inner.iter().map(|inner| inner.accesses).sum::<u64>();
        LoopCost { trip: Trip::of(graph, nest), own, chain, inner, accesses }
    }

    /// Counts a node of a loop in the innermost loop that moves it. Gives the time of its chain, if it stores what an
    /// iteration has added up.
    fn node(&mut self, id: NodeId, depth: usize) -> u64 {
        let (graph, shapes) = (self.graph, self.shapes);
        let node = graph.node(id);
        let level_of = |levels: &Table<NodeId, usize>, id: &NodeId| levels.get(id).copied().unwrap_or(0);
        let Some((element, _, stores)) = access(graph, id) else {
            // A value of an inner loop that has ended moves with the loop around that.
            let level = node.args.iter().map(|arg| level_of(&self.levels, arg)).max().unwrap_or(0).min(depth);
            self.levels.insert(id, level);
            if level > 0 {
                let is_vector = shapes.get(id) == Shape::Varying;
                let (scalar, vector) = issued(graph, id);
                self.add(level, id, scalar, if is_vector { (0, vector, 0) } else { (scalar, 0, 0) });
            }
            return 0;
        };
        let level = level_of(&self.levels, &element.1).min(depth);
        let is_stored = self.stored.contains(&element);
        // An element that stays in a register while a loop runs, but changes there.
        self.levels.insert(id, if is_stored { depth } else { level });
        let mut chain = 0;
        if stores && level < depth {
            chain = chain_of(graph, node.args[2]);
        }
        if level == 0 {
            return chain;
        }
        self.sums[level - 1].1 += 1;
        let scalar = if stores { STORE } else { LOAD };
        let Kind::Primitive(primitive, _) = node.kind else { return chain };
        let by_lanes = match shapes.get(element.1) {
            Shape::Strided(1) => (0, scalar, 0),
            Shape::Strided(by) if lanes::can_load_even(primitive, by) && !shapes.is_wide => (0, EVEN, 0),
            Shape::Strided(_) => (0, 0, GATHERED),
            _ if stores => (0, scalar, 0),
            _ => (scalar, 0, 0),
        };
        self.sums[level - 1].0.masked += u64::from(by_lanes.1 > 0);
        self.add(level, id, scalar, by_lanes);
        chain
    }

    fn add(&mut self, level: usize, id: NodeId, scalar: u64, (once, vector, lane): (u64, u64, u64)) {
        let is_shared = (self.is_shared)(id);
        let sums = &mut self.sums[level - 1].0;
        sums.scalar += scalar;
        if is_shared {
            sums.shared_once += once;
            sums.shared_vector += vector;
            sums.shared_lane += lane;
        } else {
            sums.once += once;
            sums.vector += vector;
            sums.lane += lane;
        }
    }
}

/// The slots of a node that accesses nothing: as a scalar, and as a vector.
fn issued(graph: &Graph, id: NodeId) -> (u64, u64) {
    let node = graph.node(id);
    let Kind::Primitive(primitive, of) = node.kind else {
        // Checks of ranges are hoisted, and conversions between types of the compiler are none.
        return (0, 0);
    };
    match primitive.effect() {
        Effect::Call => (CALL, VECTOR_CALL),
        Effect::Trap if of == Scalar::I64 => (WIDE_DIVISION, WIDE_VECTOR_DIVISION),
        Effect::Trap => (INTEGER_DIVISION, VECTOR_DIVISION),
        Effect::Pure if of == Scalar::I64 && primitive.linear().is_some() => (0, 1),
        Effect::Pure if matches!(primitive, Primitive::Fdiv | Primitive::Fsqrt) => (FLOAT_DIVISION, FLOAT_DIVISION),
        Effect::Pure | Effect::Load | Effect::Store => (1, 1),
    }
}

/// The time until a value that depends on that of the iteration before is there.
fn chain_of(graph: &Graph, next: NodeId) -> u64 {
    match graph.node(next).scalar() {
        Scalar::F32 | Scalar::F64 => FLOAT_CHAIN,
        Scalar::I32 | Scalar::I64 => INTEGER_CHAIN,
    }
}
