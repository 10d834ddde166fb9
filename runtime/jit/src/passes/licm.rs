//! Loop-invariant code motion: moves loop-invariant nodes to the preheader, innermost loops first. While it has the
//! body of a loop at hand, it runs range-check hoisting, scalar promotion, and strength reduction or index reduction on
//! it.
//!
//! Checks move too. A check that fails in the preheader exits there with the frame state at the beginning of the loop,
//! before anything of the loop has happened. So it may be made earlier than the program makes it: the interpreter
//! continues at the loop, and finds out what is wrong, or that nothing is. The guards of an inner vector loop that ask
//! whether a buffer is there and may be written move, too: where one of them fails, an access inside the loop traps.

use std::cell::OnceCell;

use super::guard_sinking::Guarded;
use super::gvn::is_idempotent;
use super::range_check_hoisting::{self, Loop};
use super::{index_reduction, scalar_promotion, strength_reduction};
use crate::analysis::dominators::Dominators;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, ExitId, Graph, Kind, Node, NodeId, Terminator};
use crate::ir::per_block::PerBlock;
use crate::ir::types::{Effect, Scalar, Ty};

/// The candidates that [`hoist_invariants`] leaves to later passes.
#[derive(Default)]
pub(super) struct Hoisted {
    /// Guards that can sink, for loops that may run no iteration.
    pub guarded: Vec<Guarded>,
    /// Products, and the loop parameters that replace them.
    pub products: Vec<(NodeId, NodeId)>,
}

/// Hoists loop-invariant nodes of all loops, and sets the loop depth of each block. With `guards`, also what guards
/// before a loop replace.
pub(super) fn hoist_invariants(graph: &mut Graph, tree: &Dominators, guards: bool) -> Hoisted {
    let mut hoisted = Hoisted::default();
    let mut block_of = vec![BlockIndex::NONE; graph.nodes.len()];
    for (block, content) in graph.blocks.indexed() {
        content.parameters.iter().chain(&content.nodes).for_each(|node| block_of[node.index()] = block);
    }
    let mut position = PerBlock::new(graph, usize::MAX);
    tree.order().iter().enumerate().for_each(|(index, block)| position[*block] = index);
    let compared = OnceCell::new();
    let mut body = PerBlock::new(graph, false);
    let mut marked: Vec<BlockIndex> = Vec::new();
    // Inner loops come later in the order. A node that is hoisted from one may be hoisted from the outer one, too.
    for preheader in tree.order().iter().rev().copied() {
        let Some(exit) = graph.blocks[preheader].preheader_exit else { continue };
        let Some(header) = graph.branches(preheader).first().map(|branch| branch.target) else { continue };
        let latches: Vec<BlockIndex> =
            tree.predecessors[header].iter().map(|(from, _)| *from).filter(|from| *from != preheader).collect();
        // The natural loop: the blocks from which a latch is reached without passing the header.
        marked.drain(..).for_each(|block| body[block] = false);
        body[header] = true;
        marked.push(header);
        let mut pending = latches.clone();
        // All blocks of the loop are looked at a few times, with their nodes.
        if graph.effort.is_spent() {
            return hoisted;
        }
        let mut is_natural = true;
        while let Some(block) = pending.pop() {
            if !std::mem::replace(&mut body[block], true) {
                marked.push(block);
                // A way into the loop past its header: nothing is known of the blocks from which it comes.
                is_natural = position[block] == usize::MAX || tree.dominates(header, block);
                if !is_natural {
                    break;
                }
                pending.extend(tree.predecessors[block].iter().map(|(from, _)| *from));
            }
        }
        // Blocks that nothing reaches come last, and are left alone.
        marked.sort_unstable_by_key(|block| position[*block]);
        let inside = &marked[..marked.partition_point(|block| position[*block] != usize::MAX)];
        for block in inside {
            graph.blocks[*block].depth += 1;
            graph.effort.spend(1 + 2 * graph.blocks[*block].nodes.len());
        }
        if is_natural {
            let is_in_each_iteration = |block: BlockIndex| latches.iter().all(|latch| tree.dominates(block, *latch));
            let mut after_test = Vec::new();
            for block in inside.iter().copied() {
                let moved = graph.blocks[preheader].nodes.len();
                let made = InEachIteration {
                    checks: is_in_each_iteration(block),
                    guards: is_in_each_iteration(before_guards(graph, tree, block)),
                };
                move_invariants(graph, &mut block_of, block, (preheader, exit), made, (&body, &compared));
                if block != header {
                    after_test.extend_from_slice(&graph.blocks[preheader].nodes[moved..]);
                }
            }
            // In an outer loop, only checks that each iteration makes are hoisted: one that is not made may fail, and
            // would give up the whole loop.
            let is_outer = inside.iter().any(|block| graph.blocks[*block].preheader_exit.is_some());
            let checked: Vec<BlockIndex> =
                inside.iter().copied().filter(|block| !is_outer || is_in_each_iteration(*block)).collect();
            let this =
                Loop { preheader, header, latches: &latches, body: inside, inside: &body, checked: &checked, exit };
            if guards && let Some(mut guarded) = range_check_hoisting::move_checks(graph, &mut block_of, &this) {
                after_test.retain(|id| matches!(graph.node(*id).kind, Kind::IsMutable(_)));
                guarded.moved = after_test;
                hoisted.guarded.push(guarded);
            }
            if guards {
                scalar_promotion::promote(graph, &mut block_of, &this);
            }
            let induction_variables = strength_reduction::induction_variables(graph, &block_of, &this);
            if induction_variables.is_empty() {
                continue;
            }
            if index_reduction::is_vector_loop(graph, &this)
                && index_reduction::reduce(graph, &mut block_of, &this, &induction_variables)
            {
                continue;
            }
            let products =
                strength_reduction::reduce(graph, &mut block_of, &this, &induction_variables, &is_in_each_iteration);
            hoisted.products.extend(products);
        }
    }
    hoisted
}

/// The parts of a block that every iteration of a loop executes.
#[derive(Clone, Copy)]
struct InEachIteration {
    /// Its checks.
    checks: bool,
    /// Its guards, which fall back to a scalar loop, if no other guard before them has failed.
    guards: bool,
}

/// The block from which a block of guards is entered, past other blocks of guards before it; any other block is its
/// own.
fn before_guards(graph: &Graph, tree: &Dominators, mut block: BlockIndex) -> BlockIndex {
    while let [(from, 0)] = tree.predecessors[block].as_slice()
        && matches!(graph.blocks[*from].terminator, Terminator::Guarded(_))
    {
        block = *from;
    }
    block
}

fn move_invariants(
    graph: &mut Graph,
    block_of: &mut [BlockIndex],
    block: BlockIndex,
    (preheader, exit): (BlockIndex, ExitId),
    made: InEachIteration,
    (body, compared): (&PerBlock<bool>, &OnceCell<Vec<u16>>),
) {
    let is_header = graph.branches(preheader).first().is_some_and(|branch| branch.target == block);
    let mut nodes = std::mem::take(&mut graph.blocks[block].nodes);
    nodes.retain(|id| {
        let id = *id;
        let node = graph.node(id);
        // The address and the length of a buffer are loaded fast, while registers that hold them in all of the loop
        // would be missing in the inner one.
        let stays = made.guards && !made.checks && matches!(node.kind, Kind::Base(_) | Kind::Elements(..));
        let invariant = is_idempotent(node.kind)
            && node.ty != Ty::Truth
            && !stays
            && node.args.iter().all(|arg| !in_body(graph, block_of, *arg, body))
            && node.exit.is_none_or(|exit| match graph.exit(exit).fallback {
                // A buffer to which the loop may store somewhere can mostly be written: then no iteration has to ask.
                // Nor whether there is a buffer that the loop may access somewhere, unless the program asks that.
                None => match node.kind {
                    Kind::IsMutable(_) => true,
                    // A loop that runs no iteration must not exit.
                    Kind::Primitive(primitive, of) => is_header || !may_trap(graph, (primitive, of), &node.args),
                    Kind::IsBuffer(register) => {
                        let compared = || compared.get_or_init(|| compared_references(graph));
                        made.checks || compared().binary_search(&register).is_err()
                    }
                    _ => made.checks,
                },
                Some(_) => made.guards && matches!(node.kind, Kind::IsBuffer(_) | Kind::IsMutable(_)),
            });
        if !invariant {
            return true;
        }
        if graph.node(id).exit.is_some() {
            graph.nodes[id.index()].exit = Some(exit);
        }
        // Tests that it uses are emitted where it is.
        block_of[id.index()] = preheader;
        graph.blocks[preheader].nodes.push(id);
        false
    });
    graph.blocks[block].nodes = nodes;
}

/// Whether a division may trap: not if it is by a constant but 0 and -1, or by some bits of a number plus a constant.
fn may_trap(graph: &Graph, (primitive, of): (Primitive, Scalar), args: &[NodeId]) -> bool {
    if primitive.effect() != Effect::Trap {
        return false;
    }
    let Some(divisor) = args.get(1) else { return true };
    if let Some(divisor) = graph.constant(*divisor) {
        let ones = if of.is_wide() { u64::MAX } else { u32::MAX.into() };
        return [0, ones].contains(&(divisor & ones));
    }
    // Constants so small that their sum has no sign.
    let small = 1..if of.is_wide() { 1 << 62 } else { 1 << 30 };
    let constant = |node: &Node| node.args.get(1).and_then(|constant| graph.constant(*constant));
    let sum = graph.node(*divisor);
    let is_sum = sum.kind == Kind::Primitive(Primitive::WrappingAdd, of);
    let bits = sum.args.first().map(|bits| graph.node(*bits)).filter(|_| is_sum);
    let is_positive = bits.is_some_and(|bits| {
        bits.kind == Kind::Primitive(Primitive::And, of)
            && constant(bits).is_some_and(|mask| mask < small.end)
            && constant(sum).is_some_and(|added| small.contains(&added))
    });
    !is_positive
}

/// The registers whose references the program compares, mostly with null.
fn compared_references(graph: &Graph) -> Vec<u16> {
    let references = graph.nodes.iter().filter_map(|node| match node.kind {
        Kind::Reference(register) => Some(register),
        _ => None,
    });
    let mut compared: Vec<u16> = references.collect();
    compared.sort_unstable();
    compared.dedup();
    compared
}

/// Whether a value is computed in a loop. A truth value is if its operands are.
fn in_body(graph: &Graph, block_of: &[BlockIndex], id: NodeId, body: &PerBlock<bool>) -> bool {
    if graph.node(id).ty == Ty::Truth {
        return graph.node(id).args.iter().any(|arg| in_body(graph, block_of, *arg, body));
    }
    // Constants are in no block.
    body.get(block_of[id.index()]).is_some_and(|inside| *inside)
}
