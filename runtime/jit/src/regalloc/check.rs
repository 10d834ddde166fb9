//! The checker of allocations, which `allocate` runs in builds with debug assertions: it walks each block backwards
//! with the live values of each location, and knows nothing of live ranges.

use std::collections::HashMap;

use super::fixed_registers::{needs_rdx, needs_rdx_at_end};
use super::live_in::{LiveInSets, has_location, terminator_uses};
use super::location::{Location, SPILL_SLOT_BYTES};
use crate::ir::graph::{Graph, NodeId};
use crate::processor::registers::{CALLEE_SAVED, RDX};

/// A register with its bank, or a spill slot.
type Held = (bool, Location);

struct BackwardWalk<'a> {
    graph: &'a Graph,
    locations: &'a [Location],
    /// The live value of each location.
    needed: HashMap<Held, NodeId>,
}

/// Panics if two values that are live at the same time share a location, or if one is in a caller-saved register across
/// a call.
pub(super) fn check(graph: &Graph, live: &LiveInSets, locations: &[Location]) {
    for block in &graph.order {
        let mut walk = BackwardWalk { graph, locations, needed: HashMap::new() };
        for branch in graph.branches(*block) {
            live.of(branch.target).for_each(|id| walk.need(id));
        }
        walk.fallbacks(graph.branches(*block).iter().filter_map(|branch| branch.limits_exit), live);
        terminator_uses(graph, *block, &mut |id| walk.need(id));
        if needs_rdx_at_end(graph, *block) {
            walk.spare_rdx();
        }
        let content = &graph.blocks[*block];
        for id in content.nodes.iter().rev() {
            walk.write(*id);
            if needs_rdx(graph, *id) && !graph.node(*id).is_vector() {
                assert_ne!(locations[id.index()], Location::Register(RDX), "{id:?} is computed in what it needs");
            }
            walk.forget(*id);
            if graph.node(*id).is_call() {
                let kept = |held: &Held| match held {
                    (is_vector, Location::Register(register)) => !is_vector && CALLEE_SAVED.contains(register),
                    (_, location) => matches!(location, Location::SpillSlot(_)),
                };
                assert!(walk.needed.keys().all(kept), "a call clobbers a register whose value is live after {id:?}");
            }
            graph.for_each_operand(*id, &mut |operand| walk.need(operand));
            if let Some(exit) = graph.node(*id).exit {
                graph.for_each_exit_use(exit, &mut |value| walk.need(value));
            }
            walk.fallbacks(graph.node(*id).exit.into_iter(), live);
            if needs_rdx(graph, *id) {
                walk.spare_rdx();
            }
        }
        // Branches write all parameters at once, dead ones too.
        for id in &content.parameters {
            walk.write(*id);
            walk.need(*id);
        }
    }
}

impl BackwardWalk<'_> {
    fn held(&self, id: NodeId) -> impl Iterator<Item = Held> + use<> {
        let node = self.graph.node(id);
        let (first, size) = match self.locations[id.index()] {
            // A folded number is where its operand is, which is what is needed there.
            _ if self.graph.is_folded(id) => (Location::None, 0),
            Location::None => (Location::None, 0),
            location @ Location::SpillSlot(_) => {
                (location, node.width().map_or(1, |width| width.bytes() as u32 / SPILL_SLOT_BYTES as u32))
            }
            location => (location, 1),
        };
        let is_vector = node.is_vector();
        (0..size).map(move |index| match first {
            Location::SpillSlot(slot) => (false, Location::SpillSlot(slot + index)),
            location => (is_vector, location),
        })
    }

    fn need(&mut self, id: NodeId) {
        if has_location(self.graph, id) {
            self.write(id);
            self.needed.extend(self.held(id).map(|held| (held, id)));
        }
    }

    /// No other live value may be there.
    fn write(&self, id: NodeId) {
        for held in self.held(id) {
            let other = self.needed.get(&held).copied().unwrap_or(id);
            assert!(other == id, "{id:?} and {other:?} are both needed in {held:?}");
        }
    }

    /// No live value may be in `rdx`.
    fn spare_rdx(&self) {
        let held = self.needed.get(&(false, Location::Register(RDX)));
        assert!(held.is_none(), "{held:?} is in rdx, which is needed");
    }

    fn forget(&mut self, id: NodeId) {
        for held in self.held(id) {
            self.needed.remove(&held);
        }
    }

    /// The live values of the blocks that exits fall back to.
    fn fallbacks(&mut self, exits: impl Iterator<Item = super::ExitId>, live: &LiveInSets) {
        for exit in exits {
            let graph = self.graph;
            graph.exit(exit).fallback.iter().for_each(|branch| live.of(branch.target).for_each(|id| self.need(id)));
        }
    }
}
