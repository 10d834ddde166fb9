//! A loop after guards ([`GuardedLoop`]), in place of one that stays for when they fail: jammed and collapsed loops are
//! made of it.

use crate::analysis::loop_nest::LoopNest;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Branch, ExitId, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::types::{Scalar, Ty};

/// The loop before its iteration is built.
pub(super) struct GuardedLoop {
    checks: BlockIndex,
    header: BlockIndex,
    /// In the order of those of the loop that stays.
    pub(super) parameters: Nodes,
    /// The block that begins an iteration.
    pub(super) body: BlockIndex,
    /// The exit of an iteration whose steps are not left.
    uncounted: ExitId,
}

impl GuardedLoop {
    /// A loop that is entered from `checks` with the values of `outer` before it. An iteration counts `steps` at once.
    pub(super) fn begin(
        graph: &mut Graph,
        outer: &LoopNest,
        (checks, state): (BlockIndex, ExitId),
        steps: NodeId,
    ) -> GuardedLoop {
        let header = graph.add_block();
        let i64 = Ty::Scalar(Scalar::I64);
        let parameters: Nodes = outer.start.iter().map(|_| graph.parameter(header, i64)).collect();
        graph.blocks[checks].terminator =
            Terminator::Jump(Branch { target: header, args: outer.start.clone(), ..Branch::default() });
        graph.blocks[checks].preheader_exit = Some(state);
        let body = graph.add_block();
        let uncounted = super::vector_loop::count(graph, body, steps);
        GuardedLoop { checks, header, parameters, body, uncounted }
    }

    /// Ends it: an iteration runs while the induction variable is below `limit`, and `last` goes on with `next`. The
    /// loop that stays, at `remainder`, runs afterwards.
    pub(super) fn end(
        self,
        graph: &mut Graph,
        outer: &LoopNest,
        limit: NodeId,
        (last, next): (BlockIndex, Nodes),
        remainder: BlockIndex,
    ) -> Option<()> {
        let GuardedLoop { checks, header, parameters, body, uncounted } = self;
        let exit_block = graph.add_block();
        let i64 = Ty::Scalar(Scalar::I64);
        let outs: Nodes = outer.start.iter().map(|_| graph.parameter(exit_block, i64)).collect();
        let truth = Kind::Primitive(Primitive::LtS, Scalar::I64);
        let test = graph.add_node(header, truth, Ty::Truth, &[parameters[outer.induction], limit]);
        let out = Branch { target: exit_block, args: parameters, ..Branch::default() };
        graph.exits[uncounted.0 as usize].fallback = Some(out.clone());
        graph.blocks[header].terminator = Terminator::Branch(test, [Branch { target: body, ..Branch::default() }, out]);
        graph.blocks[last].terminator = Terminator::Jump(Branch { target: header, args: next, ..Branch::default() });
        graph.blocks[exit_block].terminator =
            Terminator::Jump(Branch { target: remainder, args: outs, ..Branch::default() });
        let at = graph.order.iter().position(|block| *block == outer.preheader)?;
        let made: Vec<BlockIndex> = graph.blocks.indices().skip(checks.index()).chain([remainder]).collect();
        graph.order.splice(at + 1..at + 1, made);
        Some(())
    }
}

/// Lets the preheader of a loop enter the one after guards, or else the loop as it was.
pub(super) fn guard(graph: &mut Graph, outer: &LoopNest, checks: BlockIndex, enter: Branch) {
    graph.blocks[outer.preheader].terminator =
        Terminator::Guarded([Branch { target: checks, ..Branch::default() }, enter]);
    graph.blocks[outer.preheader].preheader_exit = None;
}
