//! Global value numbering: a node is replaced by one with the same operation and operands in a dominating block. Checks
//! are nodes, so a check that was made before is removed like any other, and so is one that constants make true. It
//! runs before the passes for loops, and again after them.
//!
//! Before them, loads are numbered, too: an element that was loaded is not loaded again if nothing has stored since, on
//! the only path from there.

use std::hash::{BuildHasher, Hash, Hasher};

use super::replacements::Replacements;
use super::simplify::simplify;
use crate::analysis::dominators::Dominators;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId};
use crate::ir::hash::{self, RandomState, Table};
use crate::ir::per_block::PerBlock;
use crate::ir::rewrite::Simpler;
use crate::ir::types::{Effect, Scalar, Ty};

/// Whether two nodes of this kind with the same operands have the same value and effect.
pub(super) fn is_idempotent(kind: Kind) -> bool {
    match kind {
        // The second one of two divisions does not trap if the first one has not.
        Kind::Primitive(primitive, _) => {
            matches!(primitive.effect(), Effect::Pure | Effect::Call | Effect::Trap)
        }
        Kind::Lanes(primitive, _) => matches!(primitive.effect(), Effect::Pure | Effect::Call),
        Kind::Constant(_) | Kind::Parameter | Kind::Slot(_) | Kind::Passed(_) => false,
        Kind::LoadLanes(..) | Kind::StoreLanes(..) | Kind::Gather(..) | Kind::LoadRows(..) | Kind::LoadSplat(..) => {
            false
        }
        Kind::LoadEven(..) | Kind::LoadBytes(..) | Kind::GatherBytes(..) => false,
        Kind::CountSteps | Kind::UncountStep => false,
        _ => true,
    }
}

/// Most operands of a node that is looked for.
const MAX_OPERANDS: usize = 4;

/// The nodes that have been numbered: chains of those with the same hash, the last one first. Nodes themselves are the
/// keys.
struct Numbered {
    state: RandomState,
    /// The first node of each chain, by the lower bits of the hash.
    chains: Vec<u32>,
    nodes: Vec<NumberedNode>,
}

#[derive(Clone, Copy)]
struct NumberedNode {
    hash: u32,
    node: NodeId,
    block: BlockIndex,
    /// Of a load, the state of memory; zero for other nodes.
    memory: u32,
    /// The next node of the chain.
    next: u32,
}

/// The end of a chain.
const END: u32 = u32::MAX;

impl Numbered {
    /// With room for so many nodes.
    fn new(nodes: usize) -> Numbered {
        let chains = vec![END; nodes.next_power_of_two()];
        Numbered { state: RandomState::default(), chains, nodes: Vec::with_capacity(nodes) }
    }

    /// A node with the same operation, type and operands in a block that dominates this one. Adds the node if there is
    /// none. The type counts since vectors of one value may have different widths; the hash leaves it out, because it
    /// hardly ever differs.
    fn find_or_add(
        &mut self,
        graph: &Graph,
        tree: &Dominators,
        block: BlockIndex,
        (id, memory): (NodeId, u32),
    ) -> Option<NodeId> {
        let node = graph.node(id);
        let mut operands = [END; MAX_OPERANDS];
        operands.iter_mut().zip(&node.args).for_each(|(operand, arg)| *operand = arg.0);
        let [a, b, c, d] = operands.map(u64::from);
        let mut hasher = self.state.build_hasher();
        node.kind.hash(&mut hasher);
        hasher.write_u64(a | b << 32);
        hasher.write_u64(c | d << 32);
        hasher.write_u32(memory);
        let hash = hasher.finish() as u32;
        let chain = hash as usize & (self.chains.len() - 1);
        let (mut at, mut candidates) = (self.chains[chain], 0);
        while let Some(numbered) = self.nodes.get(at as usize) {
            let other = graph.node(numbered.node);
            let is_same = other.kind == node.kind && other.ty == node.ty && other.args == node.args;
            if numbered.hash == hash && is_same && numbered.memory == memory {
                if tree.dominates(numbered.block, block) {
                    return Some(numbered.node);
                }
                candidates += 1;
                if candidates == MAX_CANDIDATES {
                    break;
                }
            }
            at = numbered.next;
        }
        self.nodes.push(NumberedNode { hash, node: id, block, memory, next: self.chains[chain] });
        self.chains[chain] = self.nodes.len() as u32 - 1;
        None
    }
}

/// Constants by their bits and type.
pub(super) type Constants = Table<(u64, Scalar), NodeId>;

/// Replaces constants with the same bits by one: passes make new ones without looking. Gives those that are left.
pub(super) fn merge_constants(graph: &Graph, replacements: &mut Replacements) -> Constants {
    let mut constants: Constants = hash::with_room(64);
    for (index, node) in graph.nodes.iter().enumerate() {
        if let (Kind::Constant(bits), Ty::Scalar(of)) = (node.kind, node.ty) {
            replacements.0[index] = *constants.entry((bits, of)).or_insert(NodeId(index as u32));
        }
    }
    constants
}

/// GVN keeps several candidates per key where none dominates the others; at most this many are tested.
const MAX_CANDIDATES: usize = 32;

/// Whether loads are numbered, too. They are not once exits lead to blocks of the graph, which then have predecessors
/// that no branch tells of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Loads {
    Numbered,
    Kept,
}

/// The states of memory: numbers that differ where something may have been stored between.
struct Memory {
    last: u32,
    /// The state at the end of each block.
    at_end: PerBlock<u32>,
}

impl Memory {
    /// A state that differs from all others.
    fn change(&mut self) -> u32 {
        self.last += 1;
        self.last
    }

    /// The state at the beginning of a block: that at the end of the only one before it, if there is one.
    fn at_begin(&mut self, graph: &Graph, tree: &Dominators, block: BlockIndex) -> u32 {
        match tree.predecessors[block][..] {
            [(from, _)] if graph.blocks[block].entry.is_none() && self.at_end[from] > 0 => self.at_end[from],
            _ => self.change(),
        }
    }
}

/// Numbers the values of a graph, and applies the replacements that were found before, too. `constants` are some that
/// it has.
pub(super) fn number_values(
    graph: &mut Graph,
    tree: &Dominators,
    mut replacements: Replacements,
    mut constants: Constants,
    loads: Loads,
) {
    let mut memory = Memory { last: 0, at_end: PerBlock::new(graph, 0) };
    let mut numbered = Numbered::new(graph.blocks.iter().map(|block| block.nodes.len()).sum());
    for block in tree.order() {
        let mut nodes = std::mem::take(&mut graph.blocks[*block].nodes);
        let mut state = memory.at_begin(graph, tree, *block);
        nodes.retain(|id| {
            let id = *id;
            let node = &mut graph.nodes[id.index()];
            node.args.iter_mut().for_each(|arg| *arg = replacements.get(*arg));
            let is_load = match node.kind {
                Kind::Primitive(primitive, _) => {
                    if primitive.effect() == Effect::Store {
                        state = memory.change();
                    }
                    primitive.effect() == Effect::Load && loads == Loads::Numbered
                }
                _ => false,
            };
            if !is_load && !is_idempotent(node.kind) || node.args.len() > MAX_OPERANDS {
                return true;
            }
            let node = graph.node(id);
            let other = match simplify(graph, node.kind, &node.args) {
                None => numbered.find_or_add(graph, tree, *block, (id, if is_load { state } else { 0 })),
                Some(Simpler::Holds) => return false,
                Some(Simpler::Operand(operand)) => Some(operand),
                Some(Simpler::Constant(of, bits)) => {
                    // If there is none yet, the node itself becomes the constant, which is in no block.
                    let constant = *constants.entry((bits, of)).or_insert(id);
                    if constant == id {
                        let node = &mut graph.nodes[id.index()];
                        (node.kind, node.ty) = (Kind::Constant(bits), Ty::Scalar(of));
                        node.args.clear();
                        return false;
                    }
                    Some(constant)
                }
            };
            if let Some(other) = other {
                replacements.0[id.index()] = other;
            }
            other.is_none()
        });
        graph.blocks[*block].nodes = nodes;
        memory.at_end[*block] = state;
    }
    replacements.apply(graph);
}
