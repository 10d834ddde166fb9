//! Partial inlining: a caller executes the entry block of a short callee itself, and the call returns early if the
//! callee returns after it or after the branch at its end. No frame is made then, and values stay in registers. The
//! base case of a recursion is inlined like that, and so is a function that only computes something.
//!
//! An inlined call is counted, and its frame has to fit, as that of any other call. `calls.rs` calls this for each
//! native call.

use smallvec::SmallVec;

use super::builder::{FunctionBuilder, Incoming};
use super::defs::Defs;
use crate::analysis::edges::moves_refs;
use crate::bytecode::{BlockId, CallSite, Callee, Decoded, EdgeId, ListId, Op, Reg, VerifiedFunction};
use crate::generated::vm::primitive::Primitive;
use crate::generated::vm::{jit, jit_facts};
use crate::ir::graph::{BlockIndex, Branch, Entry, ExitId, Kind, NodeId, Passed, Terminator};
use crate::ir::types::{Scalar, Ty};

/// Most ops of a block that is inlined.
const MAX_INLINED_OPS: usize = 12;

/// How the entry block of a callee ends.
enum EntryTerminator {
    Return(ListId),
    /// A branch on this register, with the edges that are taken if it is set, and if it is not.
    CondBranch(Reg, [EdgeId; 2]),
}

/// An early return: the branch that leads to the block after the call, and the results.
struct EarlyReturn {
    from: BlockIndex,
    second: bool,
    results: Vec<NodeId>,
}

/// The result of inlining a call.
pub(super) enum Inlined {
    /// Nothing is inlined.
    No,
    /// The callee always returns after its entry block, with these results.
    Fully(Vec<NodeId>),
    /// The callee returns early on the paths that end in these branches. On the others, if there are some, the call is
    /// made in this block.
    Partly(Vec<Incoming>, Option<BlockIndex>),
}

/// The ops of a block and its terminator, if they are few and pure.
fn pure_block(decoded: &Decoded, block: BlockId) -> Option<(std::ops::Range<u32>, Op)> {
    let ops = decoded.block(block).ops.clone();
    let last = ops.end - 1;
    let simple =
        ops.len() <= MAX_INLINED_OPS && (ops.start..last).all(|pc| jit_facts::is_simple(decoded.ops[pc as usize]));
    simple.then(|| (ops.start..last, decoded.ops[last as usize]))
}

/// The registers that a block returns, if its other ops are few and pure.
fn returns(decoded: &Decoded, block: BlockId) -> Option<ListId> {
    match pure_block(decoded, block)?.1 {
        Op::Return { operands } => Some(operands),
        _ => None,
    }
}

/// The terminator of the entry block, if the block is pure and the callee may return early.
fn entry_terminator(decoded: &Decoded) -> Option<EntryTerminator> {
    match pure_block(decoded, BlockId(0))?.1 {
        Op::Return { operands } => Some(EntryTerminator::Return(operands)),
        Op::CondBr { condition, true_target, false_target } => {
            let edges = [true_target, false_target];
            if moves_refs(decoded, &edges) {
                return None;
            }
            let returns_early = edges.iter().any(|edge| returns(decoded, decoded.edge(*edge).target).is_some());
            returns_early.then_some(EntryTerminator::CondBranch(condition, edges))
        }
        _ => None,
    }
}

impl FunctionBuilder<'_> {
    /// Makes the block at which the function enters itself when the call has executed its first block, if it calls
    /// itself so: the first block is built once more, for its values, and leads on without a test.
    pub(super) fn inlined_entry(&mut self) {
        let (decoded, function) = (self.decoded, self.context.function);
        let Some(arguments) = self.arguments_if_called.clone() else { return };
        let is_own =
            |call: &CallSite| matches!(call.callee, Callee::Function(own) if own.index() as u32 == function.ordinal());
        if function.reads_unwritten_slots() || !decoded.calls().iter().any(is_own) {
            return;
        }
        let Some(EntryTerminator::CondBranch(_, edges)) = entry_terminator(decoded) else { return };
        let goes_on = |edge: &EdgeId| returns(decoded, decoded.edge(*edge).target).is_none();
        let Some(edge) = edges.into_iter().find(goes_on).map(|edge| decoded.edge(edge)) else { return };
        if edge.target == BlockId(0) || !self.entry_constants.is_reached(edge.target) {
            return;
        }
        let block = self.open(Some(Entry { pc: 0, resumes: false, native: true }));
        self.take_arguments(&arguments);
        self.inline_ops(decoded, BlockId(0));
        for remap in decoded.remaps(edge) {
            self.defs.copy_within(remap.target.reg().index(), remap.source.reg().index());
        }
        self.graph.blocks[block].terminator = Terminator::Jump(Branch::default());
        self.incoming[edge.target.index()].push(Incoming { from: block, second: false, defs: self.defs.clone() });
        self.graph.inlined_entry = Some(block);
        self.laid_out_before = Some((edge.target, block));
    }

    /// Inlines the entry block of a callee, and those after it that return. Wherever that ends, the call has been
    /// counted, and its frame was found to fit.
    pub(super) fn inline_entry_block(
        &mut self,
        callee: &VerifiedFunction,
        values: &[(NodeId, Passed)],
        results: &[(u16, Passed)],
        exit: ExitId,
    ) -> Inlined {
        let decoded = callee.decoded();
        let Some(terminator) = entry_terminator(decoded) else { return Inlined::No };
        let kinds: Vec<Scalar> = results.iter().map(|(_, result)| result.of).collect();
        let room = self.push(Kind::HasRoom, Ty::Nothing, SmallVec::new(), Some(exit));
        self.graph.blocks[self.current].nodes.push(room);
        let from = self.current;
        let start = self.open(None);
        self.graph.order.push(start);
        let limits_exit = Some(self.limits_exit());
        self.graph.blocks[from].terminator =
            Terminator::Jump(Branch { target: start, limits_exit, ..Branch::default() });
        let own = std::mem::replace(&mut self.defs, Defs::new(callee.slots()));
        for (value, argument) in values {
            self.define(argument.of, argument.slot.into(), *value);
        }
        self.inline_ops(decoded, BlockId(0));
        let (condition, edges) = match terminator {
            EntryTerminator::Return(operands) => {
                let results = self.returned_by(decoded, operands, &kinds);
                self.defs = own;
                return Inlined::Fully(results);
            }
            EntryTerminator::CondBranch(condition, edges) => (condition, edges),
        };
        let condition = self.read(Scalar::I32, condition);
        let test = match self.graph.node(condition).kind {
            Kind::Number => self.graph.node(condition).args[0],
            _ => self.primitive(Primitive::IsNonzero, Scalar::I32, &[condition]),
        };
        self.graph.blocks[start].terminator = Terminator::Branch(test, [Branch::default(), Branch::default()]);
        let defs = self.defs.clone();
        let (mut returns_early, mut call_branch) = (Vec::new(), None);
        for (index, edge) in edges.into_iter().enumerate() {
            let edge = decoded.edge(edge);
            let Some(operands) = returns(decoded, edge.target) else {
                call_branch = Some(index);
                continue;
            };
            let block = self.open(None);
            self.defs = defs.clone();
            for remap in decoded.remaps(edge) {
                self.defs.copy_within(remap.target.reg().index(), remap.source.reg().index());
            }
            self.inline_ops(decoded, edge.target);
            let results = self.returned_by(decoded, operands, &kinds);
            if self.graph.blocks[block].nodes.is_empty() {
                // An empty block: the branch itself leads to the block after the call.
                returns_early.push(EarlyReturn { from: start, second: index == 1, results });
                continue;
            }
            self.graph.order.push(block);
            self.graph.branches_mut(start)[index].target = block;
            returns_early.push(EarlyReturn { from: block, second: false, results });
        }
        let returns_early = returns_early.into_iter().map(|one| {
            self.defs = own.clone();
            self.define_results(results, &one.results);
            Incoming { from: one.from, second: one.second, defs: self.defs.clone() }
        });
        let returns_early = returns_early.collect();
        let call_block = call_branch.map(|index| {
            let block = self.open(None);
            self.graph.order.push(block);
            self.graph.branches_mut(start)[index].target = block;
            block
        });
        self.defs = own;
        Inlined::Partly(returns_early, call_block)
    }

    /// Defines the registers of a call's results.
    pub(super) fn define_results(&mut self, registers: &[(u16, Passed)], results: &[NodeId]) {
        for ((slot, result), node) in registers.iter().zip(results) {
            self.define(result.of, usize::from(*slot), *node);
        }
    }

    /// Builds the ops of a block of the callee, whose slots are those that are defined now.
    fn inline_ops(&mut self, decoded: &Decoded, block: BlockId) {
        let Some((ops, _)) = pure_block(decoded, block) else { return };
        for pc in ops {
            self.failed |= !jit::build(decoded.ops[pc as usize], self);
        }
    }

    fn returned_by(&mut self, decoded: &Decoded, operands: ListId, kinds: &[Scalar]) -> Vec<NodeId> {
        let registers = decoded.list(operands);
        registers.iter().zip(kinds).map(|(register, of)| self.read(*of, register.reg())).collect()
    }
}
