//! Nests of counted loops, as trees. The vectoriser parses its candidates with this.
//!
//! Such a loop has one path through each iteration: a sequence of blocks and of loops of the same kind. Its induction
//! variable is a parameter of its header that grows by a constant as long as it is less than a bound.

use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::types::{Effect, Scalar};

/// Deepest nest.
const MAX_DEPTH: u32 = 8;
/// Most blocks of a loop.
const MAX_BLOCKS: usize = 256;

/// A loop.
#[derive(Debug)]
pub(crate) struct LoopNest {
    /// Its preheader.
    pub preheader: BlockIndex,
    /// Its header.
    pub header: BlockIndex,
    /// The test is in the header, and not in the latch.
    pub is_top_tested: bool,
    pub test: NodeId,
    /// Which parameter of the header is the induction variable, its step, and what it stays below.
    pub induction: usize,
    pub step: u64,
    pub bound: NodeId,
    /// The arguments of the preheader for the parameters.
    pub start: Nodes,
    /// The arguments of the back edge for them.
    pub next: Nodes,
    pub body: Vec<Item>,
    /// The block after it.
    pub exit_block: BlockIndex,
}

/// A part of a loop.
#[derive(Debug)]
pub(crate) enum Item {
    /// The nodes of a block.
    Nodes(BlockIndex),
    Loop(LoopNest),
}

impl LoopNest {
    /// The loop of a preheader, if it is of this kind.
    pub fn parse(graph: &Graph, preheader: BlockIndex) -> Option<LoopNest> {
        parse(graph, preheader, 0, &mut 0)
    }

    /// The op at which it begins.
    pub fn op(&self, graph: &Graph) -> u32 {
        op_of(graph, self.header)
    }

    /// Whether it has inner loops.
    pub fn is_outer(&self) -> bool {
        self.body.iter().any(|item| matches!(item, Item::Loop(_)))
    }

    /// Whether the header runs once more than there are iterations, and accesses or checks something.
    pub fn has_header_effects(&self, graph: &Graph) -> bool {
        self.is_top_tested
            && graph.blocks[self.header].nodes.iter().any(|id| {
                let node = graph.node(*id);
                let accesses = matches!(
                    node.kind,
                    Kind::Primitive(primitive, _) if matches!(primitive.effect(), Effect::Load | Effect::Store | Effect::Trap)
                );
                accesses || node.exit.is_some()
            })
    }

    /// The blocks that run only in iterations of the loop: not the header, if the test is there.
    pub fn for_each_block_of_iterations(&self, visit: &mut impl FnMut(BlockIndex)) {
        for item in &self.body {
            match item {
                Item::Nodes(block) if self.is_top_tested && *block == self.header => {}
                Item::Nodes(block) => visit(*block),
                Item::Loop(inner) => inner.for_each_block(visit),
            }
        }
    }

    /// Calls `visit` with all blocks, in their order.
    pub fn for_each_block(&self, visit: &mut impl FnMut(BlockIndex)) {
        for item in &self.body {
            match item {
                Item::Nodes(block) => visit(*block),
                Item::Loop(inner) => inner.for_each_block(visit),
            }
        }
    }

    /// Calls `visit` with all nodes, in their order.
    pub fn for_each_node(&self, graph: &Graph, visit: &mut impl FnMut(NodeId)) {
        for item in &self.body {
            match item {
                Item::Nodes(block) => graph.blocks[*block].nodes.iter().for_each(|id| visit(*id)),
                Item::Loop(inner) => inner.for_each_node(graph, visit),
            }
        }
    }

    /// How many nodes there are.
    pub fn count_nodes(&self, graph: &Graph) -> usize {
        let count = |item: &Item| match item {
            Item::Nodes(block) => graph.blocks[*block].nodes.len(),
            Item::Loop(inner) => inner.count_nodes(graph),
        };
        self.body.iter().map(count).sum()
    }

    /// Calls `visit` with this loop and all inner ones.
    pub fn for_each_loop<'a>(&'a self, visit: &mut impl FnMut(&'a LoopNest)) {
        visit(self);
        for item in &self.body {
            if let Item::Loop(inner) = item {
                inner.for_each_loop(visit);
            }
        }
    }

    /// The values that are defined in it: nodes, and parameters of headers.
    pub fn defined(&self, graph: &Graph) -> Bits {
        let mut defined = Bits::new(graph.nodes.len());
        self.for_each_node(graph, &mut |id| defined.insert(id.index()));
        self.for_each_loop(&mut |inner| {
            graph.blocks[inner.header].parameters.iter().for_each(|id| defined.insert(id.index()));
        });
        defined
    }
}

fn parse(graph: &Graph, preheader: BlockIndex, depth: u32, blocks: &mut usize) -> Option<LoopNest> {
    if depth == MAX_DEPTH {
        return None;
    }
    let Terminator::Jump(entering) = &graph.blocks[preheader].terminator else { return None };
    let (header, start) = (entering.target, entering.args.clone());
    let mut body = Vec::new();
    let mut block = header;
    let mut found = None;
    if let Terminator::Branch(test, [then, otherwise]) = &graph.blocks[header].terminator
        && then.target != header
        && otherwise.target != header
    {
        body.push(Item::Nodes(header));
        if !then.args.is_empty() {
            return None;
        }
        block = then.target;
        found = Some((*test, otherwise.target));
    }
    let is_top_tested = found.is_some();
    let (next, test, after) = loop {
        *blocks += 1;
        let content = &graph.blocks[block];
        if *blocks > MAX_BLOCKS || content.entry.is_some() || (block != header && !content.parameters.is_empty()) {
            return None;
        }
        body.push(Item::Nodes(block));
        if content.preheader_exit.is_some() {
            let inner = parse(graph, block, depth + 1, blocks)?;
            block = inner.exit_block;
            body.push(Item::Loop(inner));
            continue;
        }
        match (&content.terminator, found) {
            (Terminator::Jump(branch), Some((test, after))) if branch.target == header => {
                break (branch.args.clone(), test, after);
            }
            (Terminator::Jump(branch), _) if branch.target != header && branch.args.is_empty() => block = branch.target,
            (Terminator::Branch(test, [then, otherwise]), None)
                if then.target == header && otherwise.target != header =>
            {
                break (then.args.clone(), *test, otherwise.target);
            }
            _ => return None,
        }
    };
    let truth = graph.node(test);
    if truth.kind != Kind::Primitive(Primitive::LtS, Scalar::I64) {
        return None;
    }
    let (tested, bound) = (truth.args[0], truth.args[1]);
    let parameters = &graph.blocks[header].parameters;
    let induction = if is_top_tested {
        parameters.iter().position(|parameter| *parameter == tested)?
    } else {
        next.iter().position(|next| *next == tested)?
    };
    let step = increment(graph, parameters[induction], next[induction]).filter(|step| *step > 0)?;
    Some(LoopNest {
        preheader,
        header,
        is_top_tested,
        test,
        induction,
        step,
        bound,
        start,
        next,
        body,
        exit_block: after,
    })
}

/// The op at which the loop begins whose preheader or header is `block`.
pub(crate) fn op_of(graph: &Graph, block: BlockIndex) -> u32 {
    let content = &graph.blocks[block];
    content.header_exit.or(content.preheader_exit).map_or(0, |exit| graph.exit(exit).pc)
}

/// The constant that the next value of an `i64` parameter is more than the current one.
pub(crate) fn increment(graph: &Graph, parameter: NodeId, next: NodeId) -> Option<u64> {
    graph.constant(addend(graph, parameter, next)?).filter(|by| *by < 1 << 31)
}

/// The increment of an `i64` parameter: the difference of its next value to the current one.
pub(crate) fn addend(graph: &Graph, parameter: NodeId, next: NodeId) -> Option<NodeId> {
    let node = graph.node(next);
    let adds = node.kind == Kind::Primitive(Primitive::WrappingAdd, Scalar::I64) && node.args[0] == parameter;
    adds.then(|| node.args[1])
}
