//! The intermediate form as text, for people.

use std::fmt;

use super::allocate::{Allocation, Place};
use super::graph::{Branch, End, Graph, Kind, NodeId};

/// The names of general registers by number.
const GENERAL: [&str; 16] =
    ["rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13", "r14", "r15"];

/// A function with the places of its values.
pub(super) struct Listing<'a> {
    pub graph: &'a Graph,
    pub allocation: &'a Allocation,
}

impl Listing<'_> {
    fn name(&self, id: NodeId) -> String {
        match self.graph.node(id).kind {
            Kind::Constant(bits) => format!("{bits:#x}"),
            _ => format!("v{}", id.0),
        }
    }

    fn names(&self, ids: &[NodeId]) -> String {
        ids.iter().map(|id| self.name(*id)).collect::<Vec<_>>().join(", ")
    }

    fn place(&self, id: NodeId) -> String {
        match self.allocation.places[id.index()] {
            Place::None => String::new(),
            Place::Register(register) if self.graph.node(id).scalar().is_float() => format!(" in xmm{register}"),
            Place::Register(register) => format!(" in {}", GENERAL[usize::from(register)]),
            Place::Frame(slot) => format!(" in frame+{}", slot * 8),
        }
    }

    fn branch(&self, branch: &Branch) -> String {
        let counts = if branch.counts.is_some() { ", counted" } else { "" };
        format!("b{}({}){counts}", branch.target, self.names(&branch.args))
    }
}

impl fmt::Display for Listing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for index in &self.graph.order {
            let block = &self.graph.blocks[*index];
            let parameters = block.parameters.iter().map(|id| format!("v{}{}", id.0, self.place(*id)));
            write!(f, "b{index}({})", parameters.collect::<Vec<_>>().join(", "))?;
            match block.entry {
                Some(entry) => writeln!(f, ": entered at op {}", entry.pc)?,
                None => writeln!(f, ": depth {}", block.depth)?,
            }
            for id in &block.nodes {
                let node = self.graph.node(*id);
                let exit = node.exit.map_or(String::new(), |exit| format!(" or leave at op {}", self.graph.exit(exit).pc));
                let (kind, args) = (format!("{:?}", node.kind), self.names(&node.args));
                writeln!(f, "  v{} = {kind} {args}{exit}{}", id.0, self.place(*id))?;
            }
            match &block.end {
                End::Jump(branch) => writeln!(f, "  to {}", self.branch(branch))?,
                End::Choice(test, then, otherwise) => {
                    writeln!(f, "  if {} to {} else {}", self.name(*test), self.branch(then), self.branch(otherwise))?;
                }
                End::Leave(leave, exit) => {
                    let exit = self.graph.exit(*exit);
                    let saved = exit.saved.iter().map(|saved| format!("{:?} {} to slot {}", saved.part, self.name(saved.node), saved.slot));
                    writeln!(f, "  leave at op {} for {leave:?}: {}", exit.pc, saved.collect::<Vec<_>>().join(", "))?;
                }
                End::Open => writeln!(f, "  nowhere")?,
            }
        }
        Ok(())
    }
}
