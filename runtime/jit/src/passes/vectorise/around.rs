//! The loops around a candidate, each parsed once for all transformations that ask for them.

use std::cell::OnceCell;

use super::candidate::Candidate;
use super::rows::Rows;
use crate::analysis::cost::Trip;
use crate::analysis::loop_nest::{Item, LoopNest};
use crate::ir::graph::{BlockIndex, Graph};

/// A loop that may be around a candidate.
pub(super) struct Outer {
    pub nest: LoopNest,
    pub trip: Trip,
    rows: OnceCell<Option<Rows>>,
}

impl Outer {
    /// How its values differ between its iterations; none if they depend on each other.
    pub fn rows(&self, graph: &Graph) -> Option<&Rows> {
        self.rows.get_or_init(|| Rows::new(graph, &self.nest)).as_ref()
    }
}

/// The loops whose preheaders come before a candidate, the closest one first. Not all of them need to be around it.
pub(super) struct LoopsAround {
    preheaders: Vec<BlockIndex>,
    /// As far as somebody has asked for them; none is no nest of counted loops.
    parsed: Vec<OnceCell<Option<Outer>>>,
}

impl LoopsAround {
    /// `preheaders` are those of all loops in their order.
    pub fn new(candidate: &Candidate, preheaders: &[BlockIndex]) -> LoopsAround {
        // The loops around come before it in the order, the innermost one last.
        let before = preheaders.iter().rev().skip_while(|preheader| **preheader != candidate.nest.preheader).skip(1);
        let preheaders: Vec<BlockIndex> = before.copied().collect();
        LoopsAround { parsed: preheaders.iter().map(|_| OnceCell::new()).collect(), preheaders }
    }

    /// The one with this number.
    pub fn get(&self, graph: &Graph, number: usize) -> Option<&Outer> {
        let parse = |preheader| {
            let nest = LoopNest::parse(graph, preheader)?;
            let trip = Trip::of(graph, &nest);
            Some(Outer { nest, trip, rows: OnceCell::new() })
        };
        self.parsed.get(number)?.get_or_init(|| parse(self.preheaders[number])).as_ref()
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.preheaders.len()
    }
}

/// Whether a loop has the other one in it, and no third one that has not.
pub(super) fn is_directly_around(outer: &LoopNest, inner: &LoopNest) -> bool {
    let mut loops = outer.body.iter().filter_map(|item| match item {
        Item::Loop(own) => Some(own),
        Item::Nodes(_) => None,
    });
    let (Some(only), None) = (loops.next(), loops.next()) else { return false };
    only.preheader == inner.preheader || is_directly_around(only, inner)
}
