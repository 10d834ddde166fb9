//! The last vector of a loop: the iterations that are left are fewer than there are lanes, so the other lanes are
//! masked. They access no memory, whatever is there, and what is computed in them goes nowhere.
//!
//! Without a mask, the scalar loop does these iterations, each of them with all that inner loops do. A row of fourteen
//! elements would spend most of its time there.

use super::body::{LoopBodyBuilder, VectorLoop, integer};
use crate::analysis::loop_nest::LoopNest;
use crate::analysis::shapes::{Role, Shape, Shapes, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId};
use crate::ir::types::{Scalar, Ty, Width};
use crate::processor::lanes;

/// The smallest vectors with which the iterations that are left can be made with a mask, if they can.
pub(crate) fn least_width(graph: &Graph, nest: &LoopNest, shapes: &Shapes, largest: Width) -> Option<Width> {
    let are_independent =
        !shapes.sums && shapes.roles.iter().all(|role| matches!(role, Role::Induction(_) | Role::Steps(_)));
    let (mut are_words, mut are_bytes_apart) = (true, false);
    nest.for_each_node(graph, &mut |id| {
        // AVX2 has masks for elements of 32 and 64 bits only.
        let Some(((_, index), primitive, _)) = access(graph, id) else { return };
        are_words &= primitive.element_shift() == 2;
        // Bytes that are loaded one by one have no masks.
        are_bytes_apart |=
            matches!(shapes.get(index), Shape::Strided(by) if by != 1 && lanes::can_load_bytes(primitive, by));
    });
    let width = match largest {
        Width::Four => Width::Four,
        _ if are_words => Width::Eight,
        _ => Width::Sixteen,
    };
    let can_mask = nest.is_top_tested && nest.step == 1 && are_independent && !shapes.sequential && !are_bytes_apart;
    (can_mask && width <= largest).then_some(width)
}

impl VectorLoop<'_> {
    /// How many iterations are left at the begin of the body of a loop with these parameters.
    pub(super) fn left(
        &self,
        graph: &mut Graph,
        body: BlockIndex,
        parameters: &[NodeId],
        bound: NodeId,
    ) -> Option<NodeId> {
        // No parameter is a vector, so each has one value.
        let counter = *parameters.get(self.nest.induction)?;
        Some(integer(graph, body, Primitive::WrappingSub, &[bound, counter]))
    }
}

impl LoopBodyBuilder<'_, '_> {
    /// Masks all lanes but the first `left` ones.
    pub(super) fn mask_beyond(&mut self, left: NodeId) {
        // Guards have checked that the bound is small.
        let left = self.add(Kind::Low, Ty::Scalar(Scalar::I32), &[left]);
        self.left = Some(left);
        let mask = self.first_lanes(left);
        self.mask = Some(mask);
        if self.of.factor.width == Width::Four {
            self.wide_mask = Some(self.truth_of_size(mask, Scalar::I64));
        }
    }

    /// A mask of so many lanes, the first ones.
    fn first_lanes(&mut self, count: NodeId) -> NodeId {
        let lanes = self.of.lanes_of(Scalar::I32);
        let count = self.add(Kind::Splat, lanes, &[count]);
        let numbers = self.add(Kind::Multiples(1), lanes, &[]);
        self.add(Kind::Lanes(Primitive::LtS, Scalar::I32), lanes, &[numbers, count])
    }

    /// The masks of the two vectors that a load of every other element is made of, if there is a mask: of all elements
    /// up to the last one that is taken. The second vector begins with the last element of the first one.
    pub(super) fn masks_of_even(&mut self) -> Option<[NodeId; 2]> {
        let (left, lanes) = (self.left?, self.of.factor.width.lanes());
        let masks = [1, lanes].map(|before| {
            let before = self.graph.add_constant(Scalar::I32, u64::from((before as u32).wrapping_neg()));
            let sum = Kind::Primitive(Primitive::WrappingAdd, Scalar::I32);
            let both = self.add(sum, Ty::Scalar(Scalar::I32), &[left, left]);
            let count = self.add(sum, Ty::Scalar(Scalar::I32), &[both, before]);
            self.first_lanes(count)
        });
        Some(masks)
    }

    /// A truth value of lanes, with as many bits as those of a type: an integer that is all ones is extended and cut
    /// so.
    pub(super) fn truth_of_size(&mut self, truth: NodeId, of: Scalar) -> NodeId {
        match (self.graph.node(truth).scalar().is_wide(), of.is_wide()) {
            (false, true) => {
                self.add(Kind::Lanes(Primitive::Sext64, Scalar::I64), self.of.lanes_of(Scalar::I64), &[truth])
            }
            (true, false) => {
                self.add(Kind::Lanes(Primitive::Low32, Scalar::I64), self.of.lanes_of(Scalar::I32), &[truth])
            }
            _ => truth,
        }
    }

    /// Adds an access of lanes, with the mask if there is one.
    pub(super) fn access(&mut self, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        let is_wide = match kind {
            Kind::LoadLanes(primitive, _) | Kind::StoreLanes(primitive, _) | Kind::Gather(primitive, _) => {
                primitive.element_shift() == 3
            }
            _ => false,
        };
        match if is_wide { self.wide_mask } else { self.mask } {
            Some(mask) => self.add(kind, ty, &[args, &[mask]].concat()),
            None => self.add(kind, ty, args),
        }
    }
}
