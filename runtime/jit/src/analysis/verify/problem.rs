//! Faults of graphs, which the graph verifier finds.

use crate::ir::graph::{BlockIndex, Graph, NodeId};
use crate::ir::text::print::Text;

/// A fault of a graph.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    pub block: BlockIndex,
    pub node: Option<NodeId>,
    pub what: String,
}

impl Problem {
    /// The report of a problem after a pass, with the whole graph.
    pub fn report(&self, pass: &str, graph: &Graph) -> String {
        let Problem { block, node, what } = self;
        let node = node.map_or(String::new(), |node| format!(", v{}", node.0));
        format!("after the pass `{pass}`: {block}{node}: {what}\n{}", Text(graph))
    }
}

pub(super) fn problem<T>(
    block: BlockIndex,
    node: impl Into<Option<NodeId>>,
    what: impl Into<String>,
) -> Result<T, Problem> {
    Err(Problem { block, node: node.into(), what: what.into() })
}
