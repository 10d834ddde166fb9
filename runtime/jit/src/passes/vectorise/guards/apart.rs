//! Guards that make sure that accesses do not overlap: those of a nest, those of iterations that become lanes, and
//! those of rows.

use super::{Growth, Guards, Reach};
use crate::analysis::loop_nest::{Item, LoopNest};
use crate::analysis::shapes::access;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId};

impl Guards<'_> {
    /// Makes sure, once [`Guards::check`] has been called for the loop, that no two iterations of it store to one
    /// element, so that they can be made in any order. The elements that one iteration stores to are at most as far
    /// apart as the index grows in the inner loops, and that has to be less than what it grows by from one iteration to
    /// the next.
    pub(in super::super) fn check_iterations_are_apart(&mut self, nest: &LoopNest) -> Option<()> {
        for (index, at, _) in self.stores(nest) {
            // It is linear: by how much one loop makes it grow does not depend on the others.
            self.growth(index, at)?;
            let inside = self.growth_with(index, at, |header, reach| {
                if header == nest.header { Reach::same(Growth::Constant(0)) } else { reach }
            })?;
            let stride = self
                .growth_with(index, at, |header, _| Reach::same(Growth::Constant(u64::from(header == nest.header))))?;
            let (inside, stride) = (self.node(inside), self.node(stride));
            self.below(inside, stride)?;
        }
        Some(())
    }

    /// Makes sure, once [`Guards::check`] has been called for the loop, that iterations of it, which become lanes,
    /// store to different elements, in whatever iterations of inner loops each one does. From the innermost loop around
    /// a store on, the index has to grow by more from one iteration to the next than it does in all iterations of the
    /// loop itself, and of the loops that are further inside.
    pub(in super::super) fn check_lanes_are_apart(&mut self, nest: &LoopNest) -> Option<()> {
        for (index, at, around) in self.stores(nest) {
            let mut reach = self.growth_in(index, at, nest.header, None)?;
            for inner in around.into_iter().rev() {
                let stride = self.growth_in(index, at, inner, Some(1))?;
                if stride == Growth::Constant(0) {
                    continue;
                }
                let (inside, stride) = (self.node(reach), self.node(stride));
                self.below(inside, stride)?;
                let whole = self.growth_in(index, at, inner, None)?;
                reach = self.plus(reach, whole)?;
            }
        }
        Some(())
    }

    /// The indices of the stores of a nest, with their blocks and the headers of the loops around each.
    pub(super) fn stores(&self, nest: &LoopNest) -> Vec<(NodeId, BlockIndex, Vec<BlockIndex>)> {
        let mut stores = Vec::new();
        stores_of(self.graph, nest, &mut Vec::new(), &mut stores);
        stores.dedup();
        stores
    }

    /// By how much an index grows in so many iterations of one loop, or in all of them, while the other loops stay
    /// where they are.
    pub(super) fn growth_in(
        &mut self,
        index: NodeId,
        at: BlockIndex,
        header: BlockIndex,
        iterations: Option<u64>,
    ) -> Option<Growth> {
        self.growth_with(index, at, |own, reach| match iterations {
            _ if own != header => Reach::same(Growth::Constant(0)),
            Some(iterations) => Reach::same(Growth::Constant(iterations)),
            None => reach,
        })
    }

    /// By how much an index grows if loops come as far as `change` says, which gets their headers.
    pub(super) fn growth_with(
        &mut self,
        index: NodeId,
        at: BlockIndex,
        change: impl Fn(BlockIndex, Reach) -> Reach,
    ) -> Option<Growth> {
        let before = self.parameters.clone();
        for parameter in self.parameters.values_mut() {
            parameter.grows = parameter.grows.map(|(by, reach)| (by, change(parameter.header, reach)));
        }
        let growths = std::mem::take(&mut self.growths);
        let growth = self.growth(index, at);
        (self.parameters, self.growths) = (before, growths);
        growth
    }

    /// The address of the first byte that a node ever accesses, and the number of bytes from there through the last
    /// one.
    pub(super) fn bytes(&mut self, (id, at): (NodeId, BlockIndex)) -> Option<(NodeId, NodeId)> {
        let node = self.graph.node(id).clone();
        let Kind::Primitive(primitive, _) = node.kind else { return None };
        let size = 1 << primitive.element_shift();
        let growth = self.growth(node.args[1], at)?;
        let (base, first) = (self.initial(node.args[0])?, self.initial(node.args[1])?);
        let size_of = self.constant(size);
        let offset = self.integer(Primitive::WrappingMul, &[first, size_of]);
        let address = self.integer(Primitive::WrappingAdd, &[base, offset]);
        let bytes = match growth {
            // The range was checked: a buffer has fewer bytes than would wrap.
            Growth::Constant(growth) => self.constant(growth.wrapping_mul(size).wrapping_add(size)),
            Growth::Node(growth) => self.integer(Primitive::WrappingMulAdd, &[growth, size_of, size_of]),
        };
        Some((address, bytes))
    }

    /// Makes sure that the bytes that two nodes access do not overlap. They overlap if the distance from the first byte
    /// of one to the last byte of the other is less than the sum of both lengths less one, unsigned.
    pub(super) fn apart(&mut self, one: (NodeId, BlockIndex), other: (NodeId, BlockIndex)) -> Option<()> {
        let (own, own_bytes) = self.bytes(one)?;
        let (there, bytes) = self.bytes(other)?;
        let minus_one = self.constant(u64::MAX);
        let end = self.integer(Primitive::WrappingAdd, &[own, own_bytes]);
        let last = self.integer(Primitive::WrappingAdd, &[end, minus_one]);
        let distance = self.integer(Primitive::WrappingSub, &[last, there]);
        let both = self.integer(Primitive::WrappingAdd, &[own_bytes, bytes]);
        let minus_two = self.constant(u64::MAX - 1);
        // The distance is at least the sum less one: the sum less two is below it.
        let both = self.integer(Primitive::WrappingAdd, &[both, minus_two]);
        self.below(both, distance)
    }
}

/// The indices of the stores of a nest, each with its block and the headers of the loops around it inside the nest, the
/// innermost one last. `around` are those that `nest` is in.
fn stores_of(
    graph: &Graph,
    nest: &LoopNest,
    around: &mut Vec<BlockIndex>,
    found: &mut Vec<(NodeId, BlockIndex, Vec<BlockIndex>)>,
) {
    for item in &nest.body {
        match item {
            Item::Nodes(block) => {
                for id in &graph.blocks[*block].nodes {
                    if let Some(((_, index), _, true)) = access(graph, *id) {
                        found.push((index, *block, around.clone()));
                    }
                }
            }
            Item::Loop(inner) => {
                around.push(inner.header);
                stores_of(graph, inner, around, found);
                around.pop();
            }
        }
    }
}
