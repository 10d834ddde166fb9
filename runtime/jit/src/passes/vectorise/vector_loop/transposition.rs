//! Loads of rows that are transposed in registers.
//!
//! An element that moves by a row from lane to lane, and by one element from iteration to iteration of an inner loop,
//! is what products with transposed matrices load. Gathering it takes an access for each lane in each iteration.
//! Instead, the inner loop is unrolled four times, four consecutive elements of each row are loaded at once, and each
//! group of four lanes is transposed:
//!
//! ```text
//! rows 0, 4, 8, 12     a0 a1 a2 a3 | e0 e1 e2 e3 | ...        iteration 0     a0 b0 c0 d0 | e0 f0 g0 h0 | ...
//! rows 1, 5, 9, 13     b0 b1 b2 b3 | f0 f1 f2 f3 | ...   -->  iteration 1     a1 b1 c1 d1 | e1 f1 g1 h1 | ...
//! rows 2, 6, 10, 14    c0 c1 c2 c3 | g0 g1 g2 g3 | ...        iteration 2     a2 b2 c2 d2 | ...
//! rows 3, 7, 11, 15    d0 d1 d2 d3 | h0 h1 h2 h3 | ...        iteration 3     a3 b3 c3 d3 | ...
//! ```
//!
//! A group of four lanes of 64 bits is a whole vector, whose halves are exchanged last: first the even elements of two
//! rows are interleaved, and the odd ones.
//!
//! Four bytes of a row are one number of 32 bits, so a gather has them all, and shifts take them apart.
//!
//! The inner loop stores nothing, but for elements that are in registers then, so a load may be made up to three
//! iterations early.

use smallvec::SmallVec;

use super::body::{LoopBodyBuilder, Transposed, UNROLLED};
use crate::analysis::loop_nest::{Item, LoopNest, increment};
use crate::analysis::shapes::{Shape, Shapes, access};
use crate::ir::bits::Bits;
use crate::ir::graph::{Graph, Interleave, Kind, NodeId, Rows};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Linear, Scalar};

/// Most nodes of an inner loop that is unrolled.
const MAX_NODES: usize = 64;

/// The loads of an inner loop that can be transposed, without those in loops inside of it.
pub(crate) fn transposable(graph: &Graph, shapes: &Shapes, inner: &LoopNest) -> SmallVec<[NodeId; 4]> {
    let mut found = SmallVec::new();
    let mut nodes = 0;
    inner.for_each_node(graph, &mut |_| nodes += 1);
    let is_short = match (graph.constant(inner.start[inner.induction]), graph.constant(inner.bound)) {
        (Some(start), Some(bound)) => bound.saturating_sub(start) < UNROLLED,
        _ => false,
    };
    // The header of the unrolled loop and that of the loop for what is left both run for the iteration after its last
    // one.
    let is_simple = !inner.is_outer() && inner.is_top_tested && !inner.has_header_effects(graph);
    if !is_simple || inner.step != 1 || nodes > MAX_NODES || is_short {
        return found;
    }
    let inside = inner.defined(graph);
    let mut steps = Table::default();
    for (parameter, next) in graph.blocks[inner.header].parameters.iter().zip(&inner.next) {
        steps.insert(*parameter, increment(graph, *parameter, *next).map(|by| by as i64));
    }
    for item in &inner.body {
        let Item::Nodes(block) = item else { continue };
        for id in &graph.blocks[*block].nodes {
            let Some(((_, index), primitive, false)) = access(graph, *id) else { continue };
            let is_row = matches!(shapes.get(index), Shape::Strided(by) if by > 1);
            // Four elements are as many bytes as a group of four lanes has.
            let shift = primitive.element_shift();
            let can_transpose = if shapes.is_wide { shift == 3 } else { matches!(shift, 0 | 2) };
            if is_row && can_transpose && step(graph, &inside, &mut steps, index) == Some(1) {
                found.push(*id);
            }
        }
    }
    found
}

/// By how much an index grows from one iteration of the inner loop to the next, if that is always the same. `inside`
/// are the values that the loop defines, and `steps` those of its parameters, and of what it has been asked for before.
fn step(graph: &Graph, inside: &Bits, steps: &mut Table<NodeId, Option<i64>>, id: NodeId) -> Option<i64> {
    if let Some(step) = steps.get(&id) {
        return *step;
    }
    if !inside.contains(id.index()) {
        return Some(0);
    }
    let of_args: SmallVec<[Option<i64>; 3]> =
        graph.node(id).args.iter().map(|arg| step(graph, inside, steps, *arg)).collect();
    let own = step_of(graph, id, &of_args);
    steps.insert(id, own);
    own
}

/// By how much a node grows whose operands grow by these numbers.
fn step_of(graph: &Graph, id: NodeId, of_args: &[Option<i64>]) -> Option<i64> {
    let node = graph.node(id);
    let Kind::Primitive(primitive, of) = node.kind else { return None };
    let product = || match (of_args[0]?, of_args[1]?) {
        (0, 0) => Some(0),
        (a, 0) => a.checked_mul(graph.constant(node.args[1])? as i64),
        (0, b) => b.checked_mul(graph.constant(node.args[0])? as i64),
        _ => None,
    };
    match primitive.linear().filter(|_| of == Scalar::I64) {
        Some(Linear::Sum) => of_args[0]?.checked_add(of_args[1]?),
        Some(Linear::Difference) => of_args[0]?.checked_sub(of_args[1]?),
        Some(Linear::Product) => product(),
        Some(Linear::ProductAndSum) => product()?.checked_add(of_args[2]?),
        None if primitive.effect() == Effect::Pure => of_args.iter().all(|step| *step == Some(0)).then_some(0),
        None => None,
    }
}

impl LoopBodyBuilder<'_, '_> {
    /// The vectors of a load of rows in this iteration. All of them are loaded in the first one.
    pub(super) fn load_transposed(
        &mut self,
        id: NodeId,
        [base, index]: [NodeId; 2],
        stride: i64,
    ) -> Option<SmallVec<[NodeId; 4]>> {
        if self.unrolled.iteration == 0 {
            let all = self.transpose(id, [base, index], i32::try_from(stride).ok()?)?;
            self.unrolled.transposed.insert(id, all);
        }
        Some(self.unrolled.transposed.get(&id)?[self.unrolled.iteration].clone())
    }

    /// Loads rows and transposes them, for all iterations that are made at once.
    fn transpose(&mut self, id: NodeId, [base, index]: [NodeId; 2], stride: i32) -> Option<Transposed> {
        let (_, primitive, _) = access(self.graph, id)?;
        let of = self.graph.node(id).scalar();
        let ty = self.of.lanes_of(of);
        let lanes = self.of.factor.width.lanes() as i32;
        let mut all = Transposed::default();
        if primitive.element_shift() == 0 {
            let offsets = self.add(Kind::Multiples(stride), ty, &[]);
            for number in 0..self.of.factor.vectors as i32 {
                let rows = Rows { stride, first: number * lanes };
                let bytes = self.add(Kind::GatherBytes(primitive, rows), ty, &[base, index, offsets]);
                for (iteration, vectors) in (0..).zip(&mut all) {
                    vectors.push(self.add(Kind::Byte(primitive, iteration), ty, &[bytes]));
                }
            }
            return Some(all);
        }
        for number in 0..self.of.factor.vectors as i32 {
            // Two rows are interleaved before the next ones are loaded, so that fewer registers are taken at once.
            let is_wide = primitive.element_shift() == 3;
            let which = if is_wide { [Interleave::Even, Interleave::Odd] } else { [Interleave::Low, Interleave::High] };
            let [first, second] = [0, 2].map(|row| {
                let [a, b] = [row, row + 1].map(|row| {
                    let rows = Rows { stride, first: number * lanes + row };
                    self.add(Kind::LoadRows(primitive, rows), ty, &[base, index])
                });
                which.map(|which| self.add(Kind::Interleave(which), ty, &[a, b]))
            });
            for (of_both, (one, other)) in first.into_iter().zip(second).enumerate() {
                let (low, high) = if is_wide { (of_both, of_both + 2) } else { (2 * of_both, 2 * of_both + 1) };
                all[low].push(self.add(Kind::Interleave(Interleave::LowPairs), ty, &[one, other]));
                all[high].push(self.add(Kind::Interleave(Interleave::HighPairs), ty, &[one, other]));
            }
        }
        Some(all)
    }
}
