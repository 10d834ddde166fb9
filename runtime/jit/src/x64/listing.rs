//! Text for listings: what each part of the machine code was emitted for, with the locations of values.
//! `vireo dump --jit` shows it.

use std::collections::HashMap;

use super::emit::Origin;
use crate::interp::code::listing::CodePart;
use crate::ir::graph::{BlockIndex, Branch, ExitId, Graph, Kind, NativeKind, NodeId, RuntimeOp, Terminator};
use crate::ir::types::{Scalar, Ty, Width};
use crate::processor::registers::NAMES;
use crate::regalloc::{Allocation, Location};

/// The names of the low halves of general registers, by number.
const HALVES: [&str; 16] = [
    "eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi", "r8d", "r9d", "r10d", "r11d", "r12d", "r13d", "r14d",
    "r15d",
];

/// A function and the locations of its values.
pub(crate) struct Listing<'a> {
    graph: &'a Graph,
    allocation: &'a Allocation,
    /// The ops that the terminators of blocks are from.
    terminator_ops: HashMap<BlockIndex, u32>,
}

impl<'a> Listing<'a> {
    pub fn new(graph: &'a Graph, allocation: &'a Allocation) -> Listing<'a> {
        Listing { graph, allocation, terminator_ops: graph.terminator_ops.iter().copied().collect() }
    }

    /// The part of the listing that begins at a code offset.
    pub fn part(&self, offset: usize, origin: Origin) -> CodePart {
        let (pc, text) = match origin {
            Origin::Block(block) => (None, self.block(block)),
            // Loads of slots and passed values are from no op.
            Origin::Node(id) if matches!(self.graph.node(id).kind, Kind::Slot(_) | Kind::Passed(_)) => {
                (None, self.node(id))
            }
            Origin::Node(id) => (self.graph.origins.get(id.index()).copied(), self.node(id)),
            Origin::Limits(exit) => {
                let pc = self.graph.exit(exit).pc;
                (Some(pc), format!("check the limits at op {pc}"))
            }
            Origin::ResumePoint(block) => (None, format!("resume point of {block}")),
            Origin::Constant => (None, "constant".to_string()),
            Origin::Shared(shared) => (None, shared.text().to_string()),
            Origin::Terminator(block) => (self.terminator_pc(block), self.terminator(block)),
            Origin::SideExit(exit) => {
                let exit = self.graph.exit(exit);
                (
                    Some(exit.pc),
                    format!(
                        "side exit at op {}{}",
                        exit.pc,
                        self.slot_values(exit.frame_state.iter().map(|slot_value| (slot_value.slot, slot_value.node)))
                    ),
                )
            }
        };
        let (begins_block, is_data) = (matches!(origin, Origin::Block(_)), matches!(origin, Origin::Constant));
        CodePart { offset, op: pc, begins_block, is_data, text }
    }

    fn name(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        match (node.kind, node.ty) {
            (Kind::Constant(bits), Ty::Scalar(Scalar::I32)) => format!("{}", bits as u32 as i32),
            (Kind::Constant(bits), Ty::Scalar(Scalar::I64)) => format!("{}", bits as i64),
            (Kind::Constant(bits), Ty::Scalar(Scalar::F32)) => format!("{:?}", f32::from_bits(bits as u32)),
            (Kind::Constant(bits), Ty::Scalar(Scalar::F64)) => format!("{:?}", f64::from_bits(bits)),
            (Kind::Constant(bits), _) => format!("{bits:#x}"),
            _ => format!("v{}", id.0),
        }
    }

    fn names(&self, ids: &[NodeId]) -> String {
        ids.iter().map(|id| self.name(*id)).collect::<Vec<_>>().join(", ")
    }

    fn location(&self, id: NodeId) -> String {
        let (of, width) = (self.graph.node(id).scalar(), self.graph.node(id).width());
        match (self.allocation.locations[id.index()], width) {
            (Location::None, _) => String::new(),
            (Location::Register(register), Some(Width::Sixteen)) => format!(" in zmm{register}"),
            (Location::Register(register), Some(width)) if width.has_bytes() => {
                format!(" in {} bytes of ymm{register}", width.lanes())
            }
            (Location::Register(register), Some(_)) => format!(" in ymm{register}"),
            (Location::Register(register), None) if of.is_float() => format!(" in xmm{register}"),
            (Location::Register(register), None) if of.is_wide() => format!(" in {}", NAMES[usize::from(register)]),
            (Location::Register(register), None) => format!(" in {}", HALVES[usize::from(register)]),
            (Location::SpillSlot(slot), _) => format!(" in [rsp+{:#x}]", slot * 8),
        }
    }

    fn branch(&self, branch: &Branch) -> String {
        let counted = if branch.limits_exit.is_some() { ", counted" } else { "" };
        format!("{}({}){counted}", branch.target, self.names(&branch.args))
    }

    /// The values that are written to slots.
    fn slot_values(&self, values: impl Iterator<Item = (u16, NodeId)>) -> String {
        let all = values.map(|(slot, node)| format!("%i{slot} = {}", self.name(node))).collect::<Vec<_>>();
        if all.is_empty() { String::new() } else { format!(" with {}", all.join(", ")) }
    }

    fn exit_pc(&self, exit: Option<ExitId>) -> String {
        exit.map_or(String::new(), |exit| match &self.graph.exit(exit).fallback {
            Some(branch) => format!(" or fall back to {}", self.branch(branch)),
            None => format!(" or exit at op {}", self.graph.exit(exit).pc),
        })
    }

    fn block(&self, block: BlockIndex) -> String {
        let content = &self.graph.blocks[block];
        let parameters = content.parameters.iter().map(|id| format!("v{}{}", id.0, self.location(*id)));
        let parameters = parameters.collect::<Vec<_>>().join(", ");
        let entry = content.entry.map_or(String::new(), |entry| format!(" entered at op {}", entry.pc));
        format!("{block}({parameters}):{entry} depth {}", content.depth)
    }

    fn node(&self, id: NodeId) -> String {
        let node = self.graph.node(id);
        let what = match node.kind {
            Kind::Primitive(primitive, of) => format!("{primitive:?}.{of:?}"),
            Kind::Slot(slot) => format!("%i{slot}"),
            Kind::Passed(register) if node.scalar().is_float() => format!("passed in xmm{register}"),
            Kind::Passed(register) => format!("passed in {}", NAMES[usize::from(register)]),
            kind => format!("{kind:?}"),
        };
        if let (Kind::FlushToSlots, Some(exit)) = (node.kind, node.exit) {
            let frame_state = self.graph.exit(exit).frame_state.iter();
            return format!(
                "flush to slots{}",
                self.slot_values(frame_state.map(|slot_value| (slot_value.slot, slot_value.node)))
            );
        }
        let args = if node.args.is_empty() { String::new() } else { format!(" {}", self.names(&node.args)) };
        let exit = self.exit_pc(node.exit);
        match node.ty {
            Ty::Nothing => format!("{what}{args}{exit}"),
            Ty::Truth | Ty::Scalar(_) | Ty::Lanes(..) => format!("v{} = {what}{args}{exit}{}", id.0, self.location(id)),
        }
    }

    fn terminator_pc(&self, block: BlockIndex) -> Option<u32> {
        match &self.graph.blocks[block].terminator {
            Terminator::SideExit(_, exit) => Some(self.graph.exit(*exit).pc),
            _ => self.terminator_ops.get(&block).copied(),
        }
    }

    fn terminator(&self, block: BlockIndex) -> String {
        match &self.graph.blocks[block].terminator {
            Terminator::Jump(branch) => format!("to {}", self.branch(branch)),
            Terminator::Guarded([branch, other]) => {
                format!("to {}, or fall back to {}", self.branch(branch), self.branch(other))
            }
            Terminator::Branch(test, [then, otherwise]) => {
                let node = self.graph.node(*test);
                let test = match node.kind {
                    Kind::Primitive(primitive, of) => format!("{primitive:?}.{of:?} {}", self.names(&node.args)),
                    _ => self.name(*test),
                };
                format!("if {test} to {} else {}", self.branch(then), self.branch(otherwise))
            }
            Terminator::SideExit(kind, exit) => {
                let exit = self.graph.exit(*exit);
                if let Some(terminator) = self.graph.native_terminators.get(block) {
                    let values = terminator.values.iter().map(|(value, _)| *value).collect::<Vec<_>>();
                    return match &terminator.kind {
                        NativeKind::Call(call) => {
                            let live =
                                exit.frame_state.iter().filter(|slot_value| call.live_slots.contains(&slot_value.slot));
                            let live = self.slot_values(live.map(|slot_value| (slot_value.slot, slot_value.node)));
                            format!(
                                "call function {}({}){live}, continue at {}",
                                call.callee,
                                self.names(&values),
                                call.continuation
                            )
                        }
                        NativeKind::Return { .. } => format!("return {}", self.names(&values)),
                        NativeKind::Op(op) => {
                            let written = self.slot_values(
                                exit.frame_state.iter().map(|slot_value| (slot_value.slot, slot_value.node)),
                            );
                            let what = match op {
                                RuntimeOp { moves_refs: true, .. } => "move references",
                                RuntimeOp { direct: Some(_), .. } => "call the import directly",
                                RuntimeOp { import: Some(_), .. } => "call the import",
                                RuntimeOp { is_filled: true, .. } => "allocate without zeroing",
                                RuntimeOp { lent: Some(_), .. } => "use lent references, or call the runtime",
                                _ => "call the runtime",
                            };
                            format!("{what} at op {}{written}, continue at {}", exit.pc, op.continuation)
                        }
                    };
                }
                let frame_state =
                    self.slot_values(exit.frame_state.iter().map(|slot_value| (slot_value.slot, slot_value.node)));
                format!("side exit at op {} for {kind:?}{frame_state}", exit.pc)
            }
            Terminator::Open => "no terminator".to_string(),
        }
    }
}
