//! The printer: a graph as text, for `vireo dump --jit=graph`, the graph verifier and tests of passes.

use std::fmt::{self, Display, Formatter};

use super::kinds;
use super::used::Used;
use super::words::{self, Word};
use crate::ir::bits::Bits;
use crate::ir::graph::{
    BlockIndex, Branch, Entry, Exit, ExitId, Graph, LentOp, NativeKind, NativeTerminator, NodeId, Part, PassedIn,
    Terminator,
};

/// Writes a graph as text. The graph may be broken, for reports of that: it may refer to what it does not have.
pub(crate) struct Text<'g>(pub &'g Graph);

impl Display for Text<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        let graph = self.0;
        writeln!(f, "graph")?;
        if let Some((block, function)) = graph.native_entry {
            writeln!(f, "native_entry {block} function {function}")?;
        }
        if let Some(block) = graph.inlined_entry {
            writeln!(f, "inlined_entry {block}")?;
        }
        let used = Used::new(graph);
        let unplaced = used.nodes.without(&used.placed);
        if unplaced.iter().next().is_some() {
            writeln!(f)?;
        }
        for node in unplaced.iter() {
            self.node(f, NodeId(node as u32))?;
        }
        writeln!(f)?;
        let mut is_laid_out = Bits::new(graph.blocks.len());
        for block in graph.order.iter().copied() {
            is_laid_out.insert(block.index());
            self.block(f, block, true)?;
        }
        for block in graph.blocks.indices().filter(|block| !is_laid_out.contains(block.index())) {
            self.block(f, block, false)?;
        }
        if used.exits.iter().next().is_some() {
            writeln!(f)?;
        }
        for exit in used.exits.iter() {
            let id = ExitId(exit as u32);
            self.exit(f, id, graph.exit(id))?;
        }
        Ok(())
    }
}

impl Text<'_> {
    fn block(&self, f: &mut Formatter<'_>, block: BlockIndex, is_laid_out: bool) -> fmt::Result {
        let graph = self.0;
        let content = &graph.blocks[block];
        write!(f, "{block}")?;
        for (index, parameter) in content.parameters.iter().enumerate() {
            f.write_str(if index == 0 { "(" } else { ", " })?;
            self.definition(f, *parameter)?;
            self.origin(f, *parameter)?;
        }
        f.write_str(if content.parameters.is_empty() { ":" } else { "):" })?;
        if content.depth > 0 {
            write!(f, " depth {}", content.depth)?;
        }
        if let Some(Entry { pc, resumes, native }) = content.entry {
            write!(f, " entry {pc}{}{}", word(resumes, "resumes"), word(native, "native"))?;
        }
        if let Some(exit) = content.preheader_exit {
            write!(f, " preheader e{}", exit.0)?;
        }
        if let Some(exit) = content.header_exit {
            write!(f, " header e{}", exit.0)?;
        }
        writeln!(f, "{}", word(!is_laid_out, "unplaced"))?;
        for id in &content.nodes {
            f.write_str("  ")?;
            self.node(f, *id)?;
        }
        self.terminator(f, &content.terminator)?;
        for (_, op) in graph.terminator_ops.iter().filter(|(of, _)| *of == block) {
            write!(f, " @{op}")?;
        }
        writeln!(f)?;
        match graph.native_terminators.get(block) {
            Some(terminator) => self.native(f, terminator),
            None => Ok(()),
        }
    }

    /// The number and the type of a node.
    fn definition(&self, f: &mut Formatter<'_>, id: NodeId) -> fmt::Result {
        write!(f, "v{}", id.0)?;
        let ty = self.0.nodes.get(id.index()).and_then(|node| words::ty(node.ty));
        ty.map_or(Ok(()), |ty| write!(f, ": {ty}"))
    }

    fn origin(&self, f: &mut Formatter<'_>, id: NodeId) -> fmt::Result {
        self.0.origins.get(id.index()).map_or(Ok(()), |op| write!(f, " @{op}"))
    }

    fn node(&self, f: &mut Formatter<'_>, id: NodeId) -> fmt::Result {
        self.definition(f, id)?;
        f.write_str(" = ")?;
        let Some(node) = self.0.nodes.get(id.index()) else { return writeln!(f, "missing") };
        kinds::print(node.kind, f)?;
        for (index, arg) in node.args.iter().enumerate() {
            write!(f, "{}v{}", if index == 0 { " " } else { ", " }, arg.0)?;
        }
        if let Some(exit) = node.exit {
            write!(f, " exit e{}", exit.0)?;
        }
        f.write_str(word(self.0.is_folded(id), "folded").as_str())?;
        self.origin(f, id)?;
        writeln!(f)
    }

    fn branch(&self, f: &mut Formatter<'_>, branch: &Branch) -> fmt::Result {
        write!(f, "{}", branch.target)?;
        for (index, arg) in branch.args.iter().enumerate() {
            write!(f, "{}v{}", if index == 0 { "(" } else { ", " }, arg.0)?;
        }
        f.write_str(if branch.args.is_empty() { "" } else { ")" })?;
        if let Some(exit) = branch.limits_exit {
            write!(f, " limits e{}", exit.0)?;
        }
        f.write_str(word(branch.skips_header_test, "skips_header_test").as_str())
    }

    fn terminator(&self, f: &mut Formatter<'_>, terminator: &Terminator) -> fmt::Result {
        match terminator {
            Terminator::Jump(branch) => {
                f.write_str("  jump ")?;
                self.branch(f, branch)
            }
            Terminator::Branch(test, [then, otherwise]) => {
                write!(f, "  branch v{}, ", test.0)?;
                self.branch(f, then)?;
                f.write_str(", ")?;
                self.branch(f, otherwise)
            }
            Terminator::Guarded([then, otherwise]) => {
                f.write_str("  guarded ")?;
                self.branch(f, then)?;
                f.write_str(", ")?;
                self.branch(f, otherwise)
            }
            Terminator::SideExit(kind, exit) => write!(f, "  side_exit {} e{}", kind.word(), exit.0),
            Terminator::Open => f.write_str("  open"),
        }
    }

    fn native(&self, f: &mut Formatter<'_>, terminator: &NativeTerminator) -> fmt::Result {
        f.write_str("  native ")?;
        match &terminator.kind {
            NativeKind::Return { operands, refs, through_frames } => {
                let through_frames = word(*through_frames, "through_frames");
                write!(f, "return list {} refs {refs}{through_frames}", operands.0)?;
            }
            NativeKind::Call(call) => {
                write!(f, "call function {} advance {} size {}", call.callee, call.advance, call.size)?;
                write!(f, " zeroed {} refs {}{}", call.zeroed, call.refs, word(call.passes_refs, "passes_refs"))?;
                write!(f, "{} continuation {}", word(call.partly_inlined, "partly_inlined"), call.continuation)?;
                for (index, slot) in call.live_slots.iter().enumerate() {
                    write!(f, "{} {slot}", if index == 0 { " live" } else { "," })?;
                }
            }
            NativeKind::Op(op) => {
                write!(f, "op continuation {}{}", op.continuation, word(op.is_filled, "filled"))?;
                f.write_str(&word(op.moves_refs, "moves_refs"))?;
                if let Some(import) = op.import {
                    write!(f, " import {}", import.0)?;
                }
                match op.lent {
                    Some(LentOp::Get { list, index, result }) => write!(f, " lent get {list} {index} {result}")?,
                    Some(LentOp::Data { rodata, result }) => write!(f, " lent data {rodata} {result}")?,
                    Some(LentOp::Discard(registers)) => write!(f, " lent discard {registers:#x}")?,
                    None => {}
                }
                if let Some(direct) = op.direct {
                    write!(f, " direct {:#x} {:#x}", direct.import, direct.function)?;
                    if let Some((of, slot)) = direct.result {
                        write!(f, " result {} {slot}", of.word())?;
                    }
                }
            }
        }
        for (index, (value, passed)) in terminator.values.iter().enumerate() {
            let separator = if index == 0 { " passes" } else { "," };
            write!(f, "{separator} v{} as {} slot {}", value.0, passed.of.word(), passed.slot)?;
            match passed.passed_in {
                PassedIn::Register(register) => write!(f, " register {register}")?,
                PassedIn::Slot => {}
            }
        }
        writeln!(f)
    }

    fn exit(&self, f: &mut Formatter<'_>, id: ExitId, exit: &Exit) -> fmt::Result {
        write!(f, "e{}: op {}", id.0, exit.pc)?;
        for (index, slot_value) in exit.frame_state.iter().enumerate() {
            let separator = if index == 0 { " slots" } else { "," };
            write!(f, "{separator} {} = v{}", slot_value.slot, slot_value.node.0)?;
            if slot_value.part != Part::Whole {
                write!(f, ".{}", slot_value.part.word())?;
            }
        }
        for (index, one) in exit.references.iter().enumerate() {
            write!(f, "{} {} = ", if index == 0 { " references" } else { "," }, one.target)?;
            match one.source {
                Some(source) => write!(f, "{source}")?,
                None => f.write_str("null")?,
            }
        }
        for (index, store) in exit.pending_stores.iter().enumerate() {
            write!(f, "{} v{}", if index == 0 { " stores" } else { "," }, store.0)?;
        }
        if let Some(branch) = &exit.fallback {
            f.write_str(" fallback ")?;
            self.branch(f, branch)?;
        }
        writeln!(f)
    }
}

/// A word with a space before it, if it is true.
fn word(is_true: bool, word: &str) -> String {
    if is_true { format!(" {word}") } else { String::new() }
}
