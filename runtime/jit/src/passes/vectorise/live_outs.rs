//! Live-outs of a vectorised loop: the values of the loop that are used after it. If they are only parameters of its
//! header, and bases and lengths of buffers, they can be reconstructed after the vector loops, so that the scalar
//! remainder loop is skipped if no iteration is left.

use std::cell::Cell;

use smallvec::SmallVec;

use crate::analysis::loop_nest::{Item, LoopNest};
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Branch, ExitId, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::hash::Table;
use crate::ir::per_block::BlockSet;
use crate::ir::types::{Scalar, Ty};

/// The blocks of a loop, without its preheader.
pub(super) fn blocks_of(graph: &Graph, nest: &LoopNest) -> BlockSet {
    let mut blocks = BlockSet::new(graph);
    nest.for_each_loop(&mut |inner| {
        for item in &inner.body {
            if let Item::Nodes(block) = item {
                blocks.insert(*block);
            }
        }
    });
    blocks
}

/// The blocks that use values of loops which are candidates, so that each loop looks at these alone and not at all of
/// the function.
pub(super) struct Users {
    /// The values of all candidates.
    wanted: Bits,
    /// For each of them the blocks that use it. Some may not any more.
    blocks: Vec<SmallVec<[BlockIndex; 2]>>,
    /// The blocks that have been looked at are the first ones, so many.
    scanned: usize,
}

impl Users {
    /// For loops that define these values.
    pub fn new<'a>(graph: &Graph, defined: impl Iterator<Item = &'a Bits>) -> Users {
        let mut wanted = Bits::new(graph.nodes.len());
        defined.flat_map(Bits::iter).for_each(|id| wanted.insert(id));
        Users { wanted, blocks: vec![SmallVec::new(); graph.nodes.len()], scanned: 0 }
    }

    /// Looks at the blocks that are new. None of them may be removed after that.
    pub fn update(&mut self, graph: &Graph) {
        for block in graph.blocks.indices().skip(self.scanned) {
            let mut note = |id: NodeId| {
                if self.wanted.contains(id.index()) && self.blocks[id.index()].last() != Some(&block) {
                    self.blocks[id.index()].push(block);
                }
            };
            for_each_use(graph, block, &mut note);
            for_each_exit(graph, block, &mut |exit| {
                let exit = graph.exit(exit);
                for slot_value in &exit.frame_state {
                    note(slot_value.node);
                    if graph.node(slot_value.node).kind == Kind::Number {
                        graph.for_each_operand(slot_value.node, &mut note);
                    }
                }
                exit.pending_stores.iter().for_each(|store| note(*store));
                exit.fallback.iter().flat_map(|branch| &branch.args).for_each(|arg| note(*arg));
            });
        }
        self.scanned = graph.blocks.len();
    }

    /// The blocks that may use these values, in order.
    fn of(&self, graph: &Graph, defined: &Bits) -> Vec<BlockIndex> {
        if defined.iter().any(|id| !self.wanted.contains(id)) {
            return graph.blocks.indices().collect();
        }
        let known = defined.iter().filter_map(|id| self.blocks.get(id)).flatten().copied();
        let mut all: Vec<BlockIndex> = known.chain(graph.blocks.indices().skip(self.scanned)).collect();
        all.sort_unstable_by_key(|block| block.index());
        all.dedup();
        all
    }
}

/// The live-outs of a loop that can be reconstructed.
pub(super) struct LiveOuts {
    /// The values of the loop's parameters at the exit, in their order, and then bases and lengths of buffers, which
    /// the guards have computed.
    pub values: Nodes,
    /// The blocks outside that use them. Blocks that are made later do not: they are not reached from the loop.
    users: SmallVec<[BlockIndex; 16]>,
}

/// The live-outs of a loop, whose users are known if it is a candidate of the function. None if there are others.
pub(super) fn live_outs(
    graph: &Graph,
    nest: &LoopNest,
    defined: &Bits,
    initial_values: &Table<NodeId, NodeId>,
    known_users: Option<&Users>,
) -> Option<LiveOuts> {
    let inside = blocks_of(graph, nest);
    let mut values = if nest.is_top_tested { graph.blocks[nest.header].parameters.clone() } else { nest.next.clone() };
    let mut seen = Bits::new(graph.nodes.len());
    if !values.iter().all(|id| seen.insert_new(id.index()) && defined.contains(id.index())) {
        return None;
    }
    let can_reconstruct = Cell::new(true);
    let mut note = |id: NodeId| {
        let is_live_out = defined.contains(id.index());
        if is_live_out && seen.insert_new(id.index()) {
            let is_known =
                matches!(graph.node(id).kind, Kind::Base(_) | Kind::Elements(..)) && initial_values.contains_key(&id);
            can_reconstruct.set(can_reconstruct.get() && is_known);
            values.push(id);
        }
        is_live_out
    };
    // The arguments of branches out of these blocks are used outside.
    for branch in inside.iter().flat_map(|block| graph.branches(block)) {
        if !inside.contains(branch.target) {
            branch.args.iter().for_each(|arg| _ = note(*arg));
        }
    }
    let mut users = SmallVec::new();
    let (mut exits, mut in_truths) = (Bits::new(graph.exits.len()), false);
    let all = known_users.map_or_else(|| graph.blocks.indices().collect(), |users| users.of(graph, defined));
    for block in all.into_iter().filter(|block| !inside.contains(*block)) {
        let mut uses = false;
        for_each_use(graph, block, &mut |id| uses |= note(id));
        for_each_exit(graph, block, &mut |id| {
            // Several blocks may have one exit.
            if exits.insert_new(id.0 as usize) {
                let exit = graph.exit(id);
                for slot_value in &exit.frame_state {
                    uses |= note(slot_value.node);
                    // The exit emits the test of such a number itself, so the operands are used outside even if the
                    // number is not.
                    if graph.node(slot_value.node).kind == Kind::Number {
                        graph.for_each_operand(slot_value.node, &mut |operand| {
                            in_truths |= defined.contains(operand.index());
                        });
                    }
                }
                exit.pending_stores.iter().for_each(|store| uses |= note(*store));
                exit.fallback.iter().flat_map(|branch| &branch.args).for_each(|arg| uses |= note(*arg));
            }
        });
        if !can_reconstruct.get() || in_truths {
            return None;
        }
        if uses {
            users.push(block);
        }
    }
    can_reconstruct.get().then_some(LiveOuts { values, users })
}

/// Calls `visit` with the values that a block uses, but for those of its exits.
fn for_each_use(graph: &Graph, block: BlockIndex, visit: &mut impl FnMut(NodeId)) {
    let content = &graph.blocks[block];
    for id in &content.nodes {
        graph.node(*id).args.iter().for_each(|arg| visit(*arg));
    }
    if let Terminator::Branch(test, ..) = &content.terminator {
        visit(*test);
    }
    for branch in graph.branches(block) {
        branch.args.iter().for_each(|arg| visit(*arg));
    }
    if let Some(terminator) = graph.native_terminators.get(block) {
        terminator.values.iter().for_each(|(value, _)| visit(*value));
    }
}

/// Calls `visit` with the exits of a block.
fn for_each_exit(graph: &Graph, block: BlockIndex, visit: &mut impl FnMut(ExitId)) {
    let content = &graph.blocks[block];
    content.nodes.iter().filter_map(|id| graph.node(*id).exit).for_each(&mut *visit);
    graph.branches(block).iter().filter_map(|branch| branch.limits_exit).for_each(&mut *visit);
    content.preheader_exit.into_iter().chain(content.header_exit).for_each(&mut *visit);
    if let Terminator::SideExit(_, exit) = &content.terminator {
        visit(*exit);
    }
}

/// Ends `from`, the block after the last vector loop, with a branch past the remainder loop if no iteration is left,
/// else to it if there is one. Gives a new block after both, which has the live-outs as parameters: the loop's
/// parameters are `current` at `from`, and the guards have computed the others. `counts` tells that the vector loops
/// have counted steps.
pub(super) fn skip_remainder(
    graph: &mut Graph,
    nest: &LoopNest,
    (from, mut current): (BlockIndex, Nodes),
    remainder: Option<BlockIndex>,
    live_outs: &LiveOuts,
    initial_values: &Table<NodeId, NodeId>,
    counts: bool,
) -> Option<BlockIndex> {
    let inside = blocks_of(graph, nest);
    let outs = &live_outs.values;
    let counter = current[nest.induction];
    let again = remainder.map(|target| Branch { target, args: current.clone(), ..Branch::default() });
    for out in &outs[current.len()..] {
        current.push(*initial_values.get(out)?);
    }
    let new = graph.add_block();
    let parameters: Nodes = outs.iter().map(|id| graph.parameter(new, graph.node(*id).ty)).collect();
    let mut is_out = Bits::new(graph.nodes.len());
    outs.iter().for_each(|id| is_out.insert(id.index()));
    let replaced = |id: NodeId| {
        let index = outs.iter().position(|out| is_out.contains(id.index()) && *out == id);
        index.map_or(id, |index| parameters[index])
    };
    let mut seen = Bits::new(graph.exits.len());
    inside.iter().for_each(|block| for_each_exit(graph, block, &mut |exit| seen.insert(exit.0 as usize)));
    for block in live_outs.users.iter().copied() {
        let mut exits: SmallVec<[usize; 16]> = SmallVec::new();
        for_each_exit(graph, block, &mut |exit| exits.push(exit.0 as usize));
        for exit in exits {
            if !seen.insert_new(exit) {
                continue;
            }
            let exit = &mut graph.exits[exit];
            exit.frame_state.iter_mut().for_each(|slot_value| slot_value.node = replaced(slot_value.node));
            exit.pending_stores.iter_mut().for_each(|store| *store = replaced(*store));
            exit.fallback.iter_mut().flat_map(|branch| &mut branch.args).for_each(|arg| *arg = replaced(*arg));
        }
        for id in graph.blocks[block].nodes.clone() {
            graph.nodes[id.index()].args.iter_mut().for_each(|arg| *arg = replaced(*arg));
        }
        if let Terminator::Branch(test, ..) = &mut graph.blocks[block].terminator {
            *test = replaced(*test);
        }
        if let Some(terminator) = graph.native_terminators.get_mut(block) {
            terminator.values.iter_mut().for_each(|(value, _)| *value = replaced(*value));
        }
        for branch in graph.branches_mut(block) {
            branch.args.iter_mut().for_each(|arg| *arg = replaced(*arg));
        }
    }
    let last =
        inside.iter().find(|block| graph.branches(*block).iter().any(|branch| branch.target == nest.exit_block))?;
    let to_new = Branch { target: new, args: outs.clone(), ..Branch::default() };
    let out = graph.branches_mut(last).iter_mut().find(|branch| branch.target == nest.exit_block);
    let out = std::mem::replace(out?, to_new);
    let args = out.args.iter().map(|arg| replaced(*arg)).collect();
    graph.blocks[new].terminator = Terminator::Jump(Branch { args, ..out });
    let mut on = Branch { target: new, args: current, ..Branch::default() };
    if counts && !nest.is_top_tested {
        // The vector loops have counted a back edge for each iteration, and the last one has none.
        let last = graph.add_block();
        graph.add_node(last, Kind::UncountStep, Ty::Nothing, &[]);
        graph.blocks[last].terminator = Terminator::Jump(on);
        on = Branch { target: last, ..Branch::default() };
    }
    graph.blocks[from].terminator = match again {
        Some(again) => {
            let truth = Kind::Primitive(Primitive::LtS, Scalar::I64);
            let test = graph.add_node(from, truth, Ty::Truth, &[counter, nest.bound]);
            Terminator::Branch(test, [again, on])
        }
        None => Terminator::Jump(on),
    };
    Some(new)
}
