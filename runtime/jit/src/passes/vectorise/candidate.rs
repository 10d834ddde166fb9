//! Loops that may be vectorised, and the scalar loops that remain of them.

use super::vector_loop::{mask, transposition};
use crate::analysis::cost::{known_iterations, limits};
use crate::analysis::loop_nest::{Item, LoopNest};
use crate::analysis::shapes::Shapes;
use crate::interp::code::loops::Refusal;
use crate::ir::graph::{BlockIndex, Branch, Exit, ExitId, Graph, Nodes, Terminator};
use crate::ir::types::Width;

pub(super) struct Candidate {
    pub nest: LoopNest,
    /// The op at which it begins.
    pub op: u32,
    pub shapes: Shapes,
    /// Candidates that are better have a lower one.
    pub rank: (u32, usize),
    pub blocks: Vec<BlockIndex>,
    pub nodes: usize,
    /// The largest vectors that it may have.
    pub largest: Width,
}

impl Candidate {
    /// The loop after a preheader, on a processor with vectors of `largest`.
    pub fn new(graph: &Graph, preheader: BlockIndex, largest: Width) -> Result<Candidate, Refusal> {
        let nest = LoopNest::parse(graph, preheader).ok_or(Refusal::NotCounted)?;
        let nodes = nest.count_nodes(graph);
        if nodes > limits::VECTORISED_NODES || graph.blocks[nest.header].header_exit.is_none() {
            return Err(Refusal::TooLarge);
        }
        let count = known_iterations(graph, &nest);
        if count.is_some_and(|count| count < limits::FEWEST) {
            return Err(Refusal::TooFewIterations);
        }
        let shapes = Shapes::new(graph, &nest).ok_or(Refusal::NotVectors)?;
        let largest = shapes.largest(largest);
        // Fewer iterations than the shortest vector has lanes are one vector with a mask.
        let is_short = count.is_some_and(|count| count < largest.min(Width::Eight).lanes());
        if is_short && mask::least_width(graph, &nest, &shapes, largest).is_none() {
            return Err(Refusal::TooFewIterations);
        }
        let class = match (shapes.sequential, shapes.calls, shapes.gathers) {
            (false, _, false) if !shapes.sums => 0,
            // A transposition takes little more than loads, but there is none with a mask.
            (false, _, true) if !shapes.sums && !is_short && has_rows(graph, &nest, &shapes) => 1,
            (false, _, false) => 2,
            (false, _, true) => 3,
            (true, true, _) => 4,
            // Sequential values take as long as before, and without vector calls there is little to gain elsewhere.
            (true, false, _) => return Err(Refusal::Sequential),
        };
        let mut blocks = vec![nest.preheader];
        let mut loops = 0;
        nest.for_each_loop(&mut |inner| {
            loops += 1;
            blocks.extend(inner.body.iter().filter_map(|item| match item {
                Item::Nodes(block) => Some(*block),
                Item::Loop(_) => None,
            }));
        });
        let op = nest.op(graph);
        Ok(Candidate { nest, op, shapes, rank: (class, loops), blocks, nodes, largest })
    }
}

/// Whether an inner loop loads rows that are transposed: the vectors of four iterations take the registers that more
/// lanes would need.
pub(super) fn has_rows(graph: &Graph, nest: &LoopNest, shapes: &Shapes) -> bool {
    let mut found = false;
    nest.for_each_loop(&mut |inner| {
        let is_inner = inner.header != nest.header;
        found |= is_inner && !transposition::transposable(graph, shapes, inner).is_empty();
    });
    found
}

/// Makes a loop. If that is not possible, nothing that is reached has changed then.
pub(super) fn attempt(graph: &mut Graph, make: impl FnOnce(&mut Graph) -> Option<()>) -> Option<()> {
    let (blocks, order, decisions) = (graph.blocks.len(), graph.order.clone(), graph.decisions.all.len());
    let made = make(graph);
    if made.is_none() {
        graph.blocks.truncate(blocks);
        graph.order = order;
        graph.decisions.all.truncate(decisions);
    }
    made
}

/// The preheader of a scalar loop that does what a faster one before it leaves.
pub(super) struct Remainder {
    pub block: BlockIndex,
    /// The frame state there.
    pub state: ExitId,
    /// The branch to it from where the loop was entered before.
    pub enter: Branch,
}

impl Remainder {
    pub fn new(graph: &mut Graph, nest: &LoopNest) -> Option<Remainder> {
        let own: Nodes = graph.blocks[nest.header].parameters.clone();
        let block = graph.add_block();
        let parameters: Nodes = own.iter().map(|id| graph.parameter(block, graph.node(*id).ty)).collect();
        graph.blocks[block].terminator =
            Terminator::Jump(Branch { target: nest.header, args: parameters.clone(), ..Branch::default() });
        let mut state = graph.exit(graph.blocks[nest.header].header_exit?).clone();
        for slot_value in &mut state.frame_state {
            if let Some(index) = own.iter().position(|id| *id == slot_value.node) {
                slot_value.node = parameters[index];
            }
        }
        let state = graph.add_exit(state);
        graph.blocks[block].preheader_exit = Some(state);
        let enter = Branch { target: block, args: nest.start.clone(), ..Branch::default() };
        Some(Remainder { block, state, enter })
    }

    /// The exit of guards: if one fails, the scalar loop does everything.
    pub fn exit_of_guards(&self, graph: &mut Graph) -> ExitId {
        let fallback = Some(self.enter.clone());
        graph.add_exit(Exit {
            pc: 0,
            frame_state: Vec::new(),
            references: Vec::new(),
            pending_stores: Vec::new(),
            fallback,
        })
    }
}
