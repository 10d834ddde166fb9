//! A second opinion on where values are, for builds with debug assertions: walks each block backwards with what is needed at each
//! place, and knows nothing of segments.

use std::collections::HashMap;

use super::{Live, Place, SLOT, end_reads, is_placed, reads};
use crate::ir::graph::{Graph, NodeId};
use crate::processor::registers::CALLEE_SAVED;

/// A register with its bank, or a slot of the native frame.
type Spot = (bool, Place);

struct Walk<'a> {
    graph: &'a Graph,
    places: &'a [Place],
    /// The values that are needed, by where they are.
    needed: HashMap<Spot, NodeId>,
}

/// Panics if two values that are needed at the same time are in one place, or a call loses one.
pub(super) fn check(graph: &Graph, live: &Live, places: &[Place]) {
    for block in &graph.order {
        let mut walk = Walk { graph, places, needed: HashMap::new() };
        for branch in graph.branches(*block) {
            live.of(branch.target).for_each(|id| walk.need(id));
        }
        walk.detours(graph.branches(*block).iter().filter_map(|branch| branch.limits_exit), live);
        end_reads(graph, *block, &mut |id| walk.need(id));
        let content = &graph.blocks[*block];
        for id in content.nodes.iter().rev() {
            walk.write(*id);
            walk.forget(*id);
            if graph.node(*id).is_call() {
                let kept = |spot: &Spot| match spot {
                    (is_vector, Place::Register(register)) => !is_vector && CALLEE_SAVED.contains(register),
                    (_, place) => matches!(place, Place::Frame(_)),
                };
                assert!(walk.needed.keys().all(kept), "a call loses what is needed behind {id:?}");
            }
            reads(graph, *id, &mut |operand| walk.need(operand));
            walk.detours(graph.node(*id).exit.into_iter(), live);
        }
        // Branches write all parameters at once, whether or not they are needed.
        for id in &content.parameters {
            walk.write(*id);
            walk.need(*id);
        }
    }
}

impl Walk<'_> {
    fn spots(&self, id: NodeId) -> impl Iterator<Item = Spot> + use<> {
        let node = self.graph.node(id);
        let (first, size) = match self.places[id.index()] {
            Place::None => (Place::None, 0),
            place @ Place::Frame(_) => (place, node.width().map_or(1, |width| width.bytes() as u32 / SLOT as u32)),
            place => (place, 1),
        };
        let is_vector = node.is_vector();
        (0..size).map(move |index| match first {
            Place::Frame(slot) => (false, Place::Frame(slot + index)),
            place => (is_vector, place),
        })
    }

    fn need(&mut self, id: NodeId) {
        if is_placed(self.graph, id) {
            self.write(id);
            self.needed.extend(self.spots(id).map(|spot| (spot, id)));
        }
    }

    /// Nothing else that is needed may be there.
    fn write(&self, id: NodeId) {
        for spot in self.spots(id) {
            let other = self.needed.get(&spot).copied().unwrap_or(id);
            assert!(other == id, "{id:?} and {other:?} are both needed in {spot:?}");
        }
    }

    fn forget(&mut self, id: NodeId) {
        for spot in self.spots(id) {
            self.needed.remove(&spot);
        }
    }

    /// What is needed where exits lead to in the code.
    fn detours(&mut self, exits: impl Iterator<Item = super::ExitId>, live: &Live) {
        for exit in exits {
            let graph = self.graph;
            graph.exit(exit).fallback.iter().for_each(|branch| live.of(branch.target).for_each(|id| self.need(id)));
        }
    }
}
