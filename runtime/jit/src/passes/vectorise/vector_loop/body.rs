//! The state of the builder of vector loops, which all files of this folder share.

use smallvec::SmallVec;

use super::super::factor::Factor;
use crate::analysis::carried::Carried;
use crate::analysis::loop_nest::LoopNest;
use crate::analysis::shapes::{Element, Shapes};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, ExitId, Graph, Kind, NodeId};
use crate::ir::hash::Table;
use crate::ir::types::{Scalar, Ty};

/// A vector loop to be built.
pub(crate) struct VectorLoop<'a> {
    pub nest: &'a LoopNest,
    pub shapes: &'a Shapes,
    /// The values of nodes in the first iteration, from the guards.
    pub initial_values: &'a Table<NodeId, NodeId>,
    pub factor: Factor,
    /// The steps that an iteration of the scalar loop counts against the limits, unless a loop around counts them.
    pub steps: Option<NodeId>,
    /// Whether it may do the last iteration: the live-outs can be reconstructed without the scalar loop.
    pub skips_remainder: bool,
    /// The exit that preheaders have to have. No check of a vector loop takes it.
    pub exit: ExitId,
}

/// The vector form of a value of the scalar loop.
#[derive(Clone, Debug)]
pub(super) enum Value {
    /// A scalar: the value of all lanes if it is uniform, of the first one if it is strided.
    Scalar(NodeId),
    /// As many vectors as the factor has.
    Vectors(SmallVec<[NodeId; 4]>),
}

/// The builder of the body of a vector loop, with the values and elements at the point where it appends nodes.
pub(super) struct LoopBodyBuilder<'a, 'b> {
    pub(super) graph: &'a mut Graph,
    pub(super) of: &'a VectorLoop<'b>,
    pub(super) block: BlockIndex,
    pub(super) values: Table<NodeId, Value>,
    /// The vectors of the elements that loops around carry at this point.
    pub(super) elements: Table<Element, (Carried, SmallVec<[NodeId; 4]>)>,
    /// The inner loop that is unrolled at this point.
    pub(super) unrolled: Unrolled,
    /// The mask of all accesses.
    pub(super) mask: Option<NodeId>,
    /// How many lanes it has, as an `i32`.
    pub(super) left: Option<NodeId>,
    /// The same with lanes of 64 bits, where there are elements of these.
    pub(super) wide_mask: Option<NodeId>,
}

pub(super) fn integer(graph: &mut Graph, block: BlockIndex, primitive: Primitive, args: &[NodeId]) -> NodeId {
    graph.add_node(block, Kind::Primitive(primitive, Scalar::I64), Ty::Scalar(Scalar::I64), args)
}

/// How many iterations of an inner loop are one of the unrolled loop: the lanes of a group.
pub(super) const UNROLLED: u64 = 4;

/// The knowledge of the builder while it unrolls an inner loop.
#[derive(Default)]
pub(super) struct Unrolled {
    /// The loads that are transposed.
    pub rows: SmallVec<[NodeId; 4]>,
    /// Which of the iterations that are made at once is being built.
    pub iteration: usize,
    /// The values that were loaded in the first of them.
    pub(super) transposed: Table<NodeId, Transposed>,
}

/// The vectors of a load, for each iteration that the unrolled loop makes at once.
pub(super) type Transposed = [SmallVec<[NodeId; 4]>; UNROLLED as usize];
