//! Index reduction: indices of a vector loop that are linear in its induction variables become induction variables of
//! their own.
//!
//! ```text
//! for k in 0..n:                         p = j + b; q = r + a
//!   load b[(k * m + j) + b]       -->    for k in 0..n:
//!   load a[(k + r) + a]                    load b[p]; load a[q]
//!                                          p += m; q += 1
//! ```
//!
//! An index of an element of a tensor is a sum over its dimensions, in the order in which the program adds them up, so
//! what is loop-invariant in it is no node that LICM could move. Sums of `i64` wrap, so their order does not matter,
//! and products with constants are distributed over them. Indices that differ by a constant share one induction
//! variable. It takes a register all through the loop, which the loop-invariant values would take otherwise. LICM runs
//! this for the innermost vector loops: others have frame states, which need the values of the program.

use smallvec::SmallVec;

use super::range_check_hoisting::{Loop, is_inside};
use super::strength_reduction::{InductionVariable, Maker, needed_values};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Linear, Scalar, Ty};
use crate::processor::registers::GENERAL;

/// Most induction variables that indices of a loop become, most that are looked at, and most indices of each.
const MAX_PARAMETERS: usize = 6;
const MAX_GROUPS: usize = 32;
const MAX_INDICES: usize = 32;
/// Most nodes of an index.
const MAX_NODES: usize = 16;
/// Fewest instructions of indices that are saved.
const MIN_SAVED: usize = 2;
const SUM: Kind = Kind::Primitive(Primitive::WrappingAdd, Scalar::I64);

/// Indices that differ by constants.
struct Indices {
    /// The sum that each is, without constants.
    sum: Sum,
    /// The constant in the first one.
    constant: u64,
    /// The nodes inside the loop that they are computed by, and among them the indices themselves.
    nodes: Vec<NodeId>,
    ids: Vec<NodeId>,
    /// The nodes without another use, which are dead once the indices are replaced.
    dead: Vec<NodeId>,
}

/// The addends of a sum, in the order of their numbers, each with a constant factor.
type Sum = SmallVec<[(NodeId, u64); 8]>;

/// Whether a loop has vectors, and neither calls nor exits.
pub(super) fn is_vector_loop(graph: &Graph, of: &Loop<'_>) -> bool {
    let mut has_vectors = false;
    for block in of.body {
        let content = &graph.blocks[*block];
        if content.preheader_exit.is_some() || graph.branches(*block).iter().any(|branch| branch.limits_exit.is_some())
        {
            return false;
        }
        for id in &content.nodes {
            let node = graph.node(*id);
            // A guard that falls back to another loop has no frame state.
            let is_exit = node.exit.is_some_and(|exit| graph.exit(exit).fallback.is_none());
            if node.is_call() || is_exit {
                return false;
            }
            has_vectors |= matches!(node.ty, Ty::Lanes(..)) || matches!(node.kind, Kind::StoreLanes(..));
        }
    }
    has_vectors
}

/// Replaces indices of a vector loop by parameters that it adds to it. Whether there was one.
pub(super) fn reduce(
    graph: &mut Graph,
    block_of: &mut Vec<BlockIndex>,
    of: &Loop<'_>,
    induction_variables: &[InductionVariable],
) -> bool {
    let uses = uses(graph, of);
    let mut groups = groups(graph, block_of, of, induction_variables, &uses);
    for indices in &mut groups {
        indices.dead = dead_nodes(graph, indices, &uses);
    }
    // Dead nodes are not computed any more, in exchange for the sum of the next iteration.
    groups.retain(|indices| saved(graph, indices) >= MIN_SAVED);
    groups.truncate(MAX_PARAMETERS);
    while !groups.is_empty() && !has_registers(graph, block_of, of, &groups, &uses) {
        groups.pop();
    }
    let mut maker = Maker { graph, block_of, of, induction_variables };
    let mut is_reduced = false;
    for indices in &groups {
        is_reduced |= replace(&mut maker, indices).is_some();
    }
    is_reduced
}

/// The indices of accesses in a loop that are linear in its induction variables.
fn groups(
    graph: &Graph,
    block_of: &[BlockIndex],
    of: &Loop<'_>,
    induction_variables: &[InductionVariable],
    uses: &Table<NodeId, usize>,
) -> Vec<Indices> {
    let mut groups: Vec<Indices> = Vec::new();
    for block in of.body {
        for id in &graph.blocks[*block].nodes {
            let Some(index) = index_of(graph, *id).filter(|_| !is_dead(graph, *id, uses)) else { continue };
            let is_known = groups.iter().any(|other| other.ids.contains(&index));
            if is_known || !is_inside(graph, block_of, of, index) {
                continue;
            }
            let mut nodes = SmallVec::new();
            if !is_linear(graph, block_of, of, induction_variables, index, &mut nodes) || nodes.is_empty() {
                continue;
            }
            let (sum, constant) = addends(graph, index);
            let is_full = groups.len() == MAX_GROUPS;
            match groups.iter_mut().find(|other| other.sum == sum) {
                Some(indices) if indices.ids.len() == MAX_INDICES => {}
                Some(indices) => {
                    nodes.retain(|id| !indices.nodes.contains(id));
                    indices.nodes.extend(nodes);
                    indices.ids.push(index);
                }
                None if is_full => {}
                None => {
                    groups.push(Indices { sum, constant, nodes: nodes.into_vec(), ids: vec![index], dead: Vec::new() });
                }
            }
        }
    }
    groups
}

/// The index of an access to elements of a buffer.
fn index_of(graph: &Graph, id: NodeId) -> Option<NodeId> {
    let node = graph.node(id);
    let accesses = match node.kind {
        Kind::Primitive(primitive, _) => matches!(primitive.effect(), Effect::Load | Effect::Store),
        Kind::LoadLanes(..)
        | Kind::StoreLanes(..)
        | Kind::Gather(..)
        | Kind::LoadRows(..)
        | Kind::LoadEven(..)
        | Kind::LoadBytes(..)
        | Kind::GatherBytes(..) => true,
        _ => false,
    };
    node.args.get(1).copied().filter(|_| accesses)
}

/// The addends of an index, and the sum of those that are constants.
fn addends(graph: &Graph, index: NodeId) -> (Sum, u64) {
    let (mut sum, mut constant, mut pending) = (Sum::new(), 0_u64, Sum::from_slice(&[(index, 1)]));
    while let Some((id, factor)) = pending.pop() {
        let node = graph.node(id);
        if let Some(bits) = graph.constant(id) {
            constant = constant.wrapping_add(bits.wrapping_mul(factor));
            continue;
        }
        let by = || graph.constant(*node.args.get(1)?).map(|bits| bits.wrapping_mul(factor));
        match (node.kind, by()) {
            _ if sum.len() + pending.len() >= MAX_NODES => sum.push((id, factor)),
            (SUM, _) => pending.extend(node.args.iter().map(|arg| (*arg, factor))),
            (Kind::Primitive(Primitive::WrappingMul, Scalar::I64), Some(by)) => pending.push((node.args[0], by)),
            (Kind::Primitive(Primitive::WrappingMulAdd, Scalar::I64), Some(by)) => {
                pending.extend([(node.args[0], by), (node.args[2], factor)]);
            }
            _ => sum.push((id, factor)),
        }
    }
    sum.sort_unstable();
    (sum, constant)
}

/// Whether a value grows by the same in each iteration. Collects the nodes inside the loop that it is computed by.
fn is_linear(
    graph: &Graph,
    block_of: &[BlockIndex],
    of: &Loop<'_>,
    induction_variables: &[InductionVariable],
    id: NodeId,
    nodes: &mut SmallVec<[NodeId; MAX_NODES]>,
) -> bool {
    let inside = |id: NodeId| is_inside(graph, block_of, of, id);
    if !inside(id) || induction_variables.iter().any(|one| one.parameter == id) || nodes.contains(&id) {
        return true;
    }
    let node = graph.node(id);
    let Kind::Primitive(primitive, Scalar::I64) = node.kind else { return false };
    let Some(linear) = primitive.linear() else { return false };
    let is_product = matches!(linear, Linear::Product | Linear::ProductAndSum);
    if nodes.len() == MAX_NODES || is_product && inside(node.args[0]) && inside(node.args[1]) {
        return false;
    }
    nodes.push(id);
    node.args.iter().all(|arg| is_linear(graph, block_of, of, induction_variables, *arg, nodes))
}

/// How often a loop uses each value. Nodes without a use are dead, and use nothing, since DCE has not run yet.
fn uses(graph: &Graph, of: &Loop<'_>) -> Table<NodeId, usize> {
    let mut uses: Table<NodeId, usize> = Table::default();
    for block in of.body.iter().rev() {
        let branches = graph.branches(*block);
        branches.iter().flat_map(|branch| &branch.args).for_each(|id| *uses.entry(*id).or_default() += 1);
        if let Terminator::Branch(test, ..) = graph.blocks[*block].terminator {
            uses.insert(test, 1);
        }
        for id in graph.blocks[*block].nodes.iter().rev() {
            if !is_dead(graph, *id, &uses) {
                graph.node(*id).args.iter().for_each(|arg| *uses.entry(*arg).or_default() += 1);
            }
        }
    }
    uses
}

/// Whether a node of a loop has a value that the loop does not use.
fn is_dead(graph: &Graph, id: NodeId, uses: &Table<NodeId, usize>) -> bool {
    let node = graph.node(id);
    node.ty != Ty::Nothing && node.exit.is_none() && !uses.contains_key(&id)
}

/// How many instructions are saved if the first index becomes an induction variable, and each index that differs from
/// it the sum of that variable and a constant.
fn saved(graph: &Graph, indices: &Indices) -> usize {
    let instructions = |id: &NodeId| if graph.node(*id).args.len() == 3 { 2 } else { 1 };
    let sums = indices.ids.iter().filter(|id| addends(graph, **id).1 != indices.constant).count();
    indices.dead.iter().map(instructions).sum::<usize>().saturating_sub(sums)
}

/// The nodes of indices that are dead once these are not computed any more: the indices, and nodes of which all uses
/// are in dead ones.
fn dead_nodes(graph: &Graph, indices: &Indices, uses: &Table<NodeId, usize>) -> Vec<NodeId> {
    let mut dead = indices.ids.clone();
    let mut uses_in_dead: Table<NodeId, usize> = Table::default();
    let mut at = 0;
    while let Some(id) = dead.get(at).copied() {
        at += 1;
        for arg in &graph.node(id).args {
            let count = uses_in_dead.entry(*arg).or_default();
            *count += 1;
            if uses.get(arg) == Some(count) && indices.nodes.contains(arg) && !indices.ids.contains(arg) {
                dead.push(*arg);
            }
        }
    }
    dead
}

/// Whether there are registers enough for the values of the loop if these indices are parameters.
fn has_registers(
    graph: &Graph,
    block_of: &[BlockIndex],
    of: &Loop<'_>,
    groups: &[Indices],
    uses: &Table<NodeId, usize>,
) -> bool {
    let is_left_out = |id: NodeId| groups.iter().any(|indices| indices.dead.contains(&id)) || is_dead(graph, id, uses);
    let (values, _) = needed_values(graph, block_of, of, &is_left_out);
    // One more is for what an iteration computes.
    values.len() + groups.len() < GENERAL.len()
}

/// Values that were made for nodes, so that none is made twice.
type Made = Table<NodeId, Option<NodeId>>;

/// By how much a linear value grows in each iteration.
fn step(maker: &mut Maker<'_, '_>, made: &mut Made, id: NodeId) -> Option<NodeId> {
    if let Some(known) = made.get(&id) {
        return *known;
    }
    let value = step_of(maker, made, id);
    made.insert(id, value);
    value
}

fn step_of(maker: &mut Maker<'_, '_>, made: &mut Made, id: NodeId) -> Option<NodeId> {
    if !is_inside(maker.graph, maker.block_of, maker.of, id) {
        return Some(maker.constant(Scalar::I64, 0));
    }
    if let Some(one) = maker.induction_variables.iter().find(|one| one.parameter == id) {
        return Some(one.step);
    }
    let node = maker.graph.node(id).clone();
    let Kind::Primitive(primitive, Scalar::I64) = node.kind else { return None };
    let product = |maker: &mut Maker<'_, '_>, made: &mut Made| {
        let is_first = is_inside(maker.graph, maker.block_of, maker.of, node.args[0]);
        let (grows, factor) = if is_first { (node.args[0], node.args[1]) } else { (node.args[1], node.args[0]) };
        let by = step(maker, made, grows)?;
        Some(maker.value(Primitive::WrappingMul, Scalar::I64, &[by, factor]))
    };
    match primitive.linear()? {
        Linear::Sum | Linear::Difference => {
            let (a, b) = (step(maker, made, node.args[0])?, step(maker, made, node.args[1])?);
            Some(maker.value(primitive, Scalar::I64, &[a, b]))
        }
        Linear::Product => product(maker, made),
        Linear::ProductAndSum => {
            let (product, sum) = (product(maker, made)?, step(maker, made, node.args[2])?);
            Some(maker.value(Primitive::WrappingAdd, Scalar::I64, &[product, sum]))
        }
    }
}

/// The value of a linear value in the first iteration.
fn initial(maker: &mut Maker<'_, '_>, made: &mut Made, id: NodeId) -> Option<NodeId> {
    if let Some(one) = maker.induction_variables.iter().find(|one| one.parameter == id) {
        return Some(one.start);
    }
    if !is_inside(maker.graph, maker.block_of, maker.of, id) {
        return Some(id);
    }
    if let Some(known) = made.get(&id) {
        return *known;
    }
    let node = maker.graph.node(id).clone();
    let Kind::Primitive(primitive, Scalar::I64) = node.kind else { return None };
    let mut args: SmallVec<[NodeId; 3]> = SmallVec::new();
    for arg in &node.args {
        args.push(initial(maker, made, *arg)?);
    }
    let value = maker.value(primitive, Scalar::I64, &args);
    made.insert(id, Some(value));
    Some(value)
}

/// Makes accesses take a parameter for indices, or a sum of it and a constant.
fn replace(maker: &mut Maker<'_, '_>, indices: &Indices) -> Option<()> {
    let (mut start, mut step) = (maker.constant(Scalar::I64, indices.constant), maker.constant(Scalar::I64, 0));
    let (mut starts, mut steps) = (Made::default(), Made::default());
    for (addend, factor) in &indices.sum {
        let factor = maker.constant(Scalar::I64, *factor);
        let (first, by) = (initial(maker, &mut starts, *addend)?, self::step(maker, &mut steps, *addend)?);
        let [first, by] = [first, by].map(|value| maker.value(Primitive::WrappingMul, Scalar::I64, &[value, factor]));
        start = maker.value(Primitive::WrappingAdd, Scalar::I64, &[start, first]);
        step = maker.value(Primitive::WrappingAdd, Scalar::I64, &[step, by]);
    }
    let parameter = maker.induction_variable(Scalar::I64, start, step)?;
    for block in maker.of.body {
        let nodes = std::mem::take(&mut maker.graph.blocks[*block].nodes);
        let mut all = Nodes::with_capacity(nodes.len());
        let mut sums: Table<u64, NodeId> = Table::default();
        for id in nodes {
            let index = index_of(maker.graph, id).filter(|index| indices.ids.contains(index));
            if let Some(index) = index {
                let constant = addends(maker.graph, index).1.wrapping_sub(indices.constant);
                let new = match sums.get(&constant) {
                    _ if constant == 0 => parameter,
                    Some(sum) => *sum,
                    None => {
                        let by = maker.constant(Scalar::I64, constant);
                        let sum = maker.push(*block, SUM, Scalar::I64, &[parameter, by]);
                        all.push(sum);
                        sums.insert(constant, sum);
                        sum
                    }
                };
                maker.graph.nodes[id.index()].args[1] = new;
            }
            all.push(id);
        }
        maker.graph.blocks[*block].nodes = all;
    }
    Some(())
}
