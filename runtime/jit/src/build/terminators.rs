//! Terminators of blocks: branches of the bytecode, and side exits for ops that the runtime or the interpreter
//! executes, after which machine code continues.

use super::builder::{FunctionBuilder, Incoming};
use crate::analysis::constants::apply;
use crate::analysis::edges::{moves_refs, native_edges};
use crate::bytecode::{Callee, Op};
use crate::interp::machine::lent_references::may_be_lent_to;
use crate::ir::graph::{
    Branch, DirectCall, Entry, ExitId, LentOp, NativeKind, NativeTerminator, NodeId, Passed, RuntimeOp, SideExitKind,
    Terminator,
};
use crate::vm::list::ListType;
use crate::vm::{Buffer, Object};

impl FunctionBuilder<'_> {
    pub(super) fn terminate(&mut self, op: Op) {
        let edges = native_edges(op);
        let is_native = !edges.is_empty() && (self.refs.renames() || !moves_refs(self.decoded, &edges));
        if !is_native {
            self.settle_references();
        }
        self.graph.terminator_ops.push((self.current, self.pc));
        if let Op::Return { operands } = op {
            self.native_return(operands);
        }
        if !is_native {
            let kind = if matches!(op, Op::Return { .. }) { SideExitKind::Return } else { SideExitKind::Op };
            let exit = self.exit_here();
            self.graph.blocks[self.current].terminator = Terminator::SideExit(kind, exit);
            return;
        }
        let block = self.current;
        let from = block;
        let test = self.tested(op);
        let branch = Branch::default();
        self.graph.blocks[from].terminator = match test {
            Some((test, _)) => Terminator::Branch(test, [branch.clone(), branch]),
            None => Terminator::Jump(branch),
        };
        let mut second = (edges.len() > 1).then(|| self.defs.clone());
        let is_negated = test.is_some_and(|(_, is_negated)| is_negated);
        for (index, id) in edges.iter().enumerate() {
            let index = if is_negated { 1 - index } else { index };
            let edge = self.decoded.edge(*id);
            for remap in self.decoded.remaps(edge).iter().filter(|remap| !remap.source.is_ref()) {
                self.copy_slot(remap.target.reg().index(), remap.source.reg().index());
            }
            let moves = self.refs.moves_of(self.decoded, edge);
            let (from, branch) =
                if moves.is_empty() { (from, index) } else { (self.move_on_edge((from, index), edge, moves), 0) };
            if edge.entry <= self.pc {
                let exit = self.limits_exit();
                self.graph.branches_mut(from)[branch].limits_exit = Some(exit);
            }
            let defs = match second.take() {
                Some(second) => std::mem::replace(&mut self.defs, second),
                None => self.defs.clone(),
            };
            let incoming = Incoming { from, second: branch == 1, defs };
            if edge.entry > self.pc {
                let all = &mut self.incoming[edge.target.index()];
                if all.is_empty() {
                    // Most blocks have one, and definitions take some memory.
                    all.reserve_exact(1);
                }
                all.push(incoming);
            } else if let Some((header, live_ins)) = self.headers.get(&edge.target) {
                let (header, live_ins) = (*header, live_ins.clone());
                self.connect(header, &live_ins, &mut [incoming]);
            } else {
                self.failed = true;
            }
            self.select(block);
        }
    }

    /// Builds an op that is not made of nodes: a native call, or an op that the runtime or the interpreter executes.
    pub(super) fn execute(&mut self, op: Op) {
        self.settle_references();
        if let Op::Call { call } = op
            && self.native_call(call)
        {
            return;
        }
        let direct = self.direct_call(op);
        // The builder applies the op again when it continues to the next one, which changes nothing.
        apply(self.decoded, &self.liveness, self.pc, &mut self.slot_constants);
        let home = self.live_after();
        let exit = self.exit_for_op(&home);
        self.execute_by_runtime(op, exit, direct);
        self.defs.leave(home);
    }

    /// Whether an op only releases references that the function returns without, and returns next. The return releases
    /// all references of the frame at once, and no op between the two could notice the difference.
    pub(super) fn is_released_next(&self, op: Op) -> bool {
        let decoded = self.decoded;
        let returns_numbers = |op: Op| match op {
            Op::Return { operands } => !decoded.list(operands).iter().any(|reg| reg.is_ref()),
            _ => false,
        };
        let next = match op {
            Op::DiscardRefs { .. } if !may_be_lent_to(self.context.function) => decoded.ops[self.pc as usize + 1],
            _ => return false,
        };
        match native_edges(next)[..] {
            [edge] => {
                let edge = decoded.edge(edge);
                let moves_refs = decoded.remaps(edge).iter().any(|remap| remap.source.is_ref());
                !moves_refs && returns_numbers(decoded.ops[edge.entry as usize])
            }
            _ => returns_numbers(next),
        }
    }

    /// How machine code executes an op itself in a frame that references are lent to. The runtime moves references out
    /// of lists.
    fn lent_op(&self, op: Op) -> Option<LentOp> {
        let narrow = |index: usize| u16::try_from(index).ok();
        let lent = match op {
            Op::ListGetRef { list, index, ref_type, result } if !result.is_move() => {
                // The list has buffers and nothing else.
                match self.context.module.types.get(ref_type.index())? {
                    ListType::Ref(name) if name == Buffer::TYPE_NAME => {}
                    ListType::Variant => {}
                    ListType::Ref(_) | ListType::Value(_) => return None,
                }
                let (list, index, result) = (narrow(list.index())?, narrow(index.index())?, narrow(result.index())?);
                LentOp::Get { list, index, result }
            }
            Op::ConstRefRodata { rodata, result } => {
                self.context.module.rodata.get(rodata.index())?;
                LentOp::Data { rodata: narrow(rodata.index())?, result: narrow(result.index())? }
            }
            Op::DiscardRefs { refs } => {
                let mut bits =
                    self.decoded.list(refs).iter().map(|reg| 1_u64.checked_shl(reg.ref_reg().index() as u32));
                LentOp::Discard(bits.try_fold(0, |all, bit| Some(all | bit?))?)
            }
            _ => return None,
        };
        may_be_lent_to(self.context.function).then_some(lent)
    }

    /// Ends the block with an op that the runtime or the interpreter executes, and begins its continuation.
    pub(super) fn execute_by_runtime(
        &mut self,
        op: Op,
        exit: ExitId,
        direct: Option<(DirectCall, Vec<(NodeId, Passed)>)>,
    ) {
        let (from, is_filled) = (self.current, self.is_filled_next(op));
        let called = match op {
            Op::Call { call } | Op::CallVariadic { call } => Some((call, self.decoded.call(call).callee)),
            _ => None,
        };
        let is_inside = matches!(called, Some((_, Callee::Function(_))));
        let kind = if is_inside { SideExitKind::Call } else { SideExitKind::Op };
        self.graph.blocks[from].terminator = Terminator::SideExit(kind, exit);
        // An import may wait. The interpreter then makes the call again, and enters the continuation.
        let entry = Entry { pc: self.pc + 1, resumes: is_inside, native: !is_inside && called.is_none() };
        let new = self.open(Some(entry));
        self.graph.order.push(new);
        if !is_inside {
            let (import, lent) = (called.map(|(call, _)| call), self.lent_op(op));
            let (direct, values) = direct.unzip();
            let op = RuntimeOp { continuation: new, import, is_filled, moves_refs: false, lent, direct };
            let terminator = NativeTerminator { values: values.unwrap_or_default(), kind: NativeKind::Op(op) };
            self.graph.native_terminators.insert(from, terminator);
        }
    }
}
