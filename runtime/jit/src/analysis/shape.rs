//! The shape of a value: how it differs between lanes, and the elements of buffers that nodes access.

use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::types::{Effect, Scalar, Ty};

/// How a value differs between lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Shape {
    /// The same in all lanes.
    Uniform,
    /// An `i64` that is by this stride more in each lane than in the one before.
    Strided(i64),
    /// A value for each lane: a vector.
    Varying,
    /// It depends on the lane before, so it is computed lane by lane.
    Sequential,
    /// An `i64` that differs in a way that is not known. Only side exits may need it, and vector loops have none.
    Unknown,
}

impl Shape {
    /// The shape of a value that may have either one.
    pub fn join(self, other: Shape, of: Ty) -> Option<Shape> {
        match (self, other) {
            (a, b) if a == b => Some(a),
            (Shape::Sequential, _) | (_, Shape::Sequential) => Some(Shape::Sequential),
            _ if is_narrow(of) => Some(Shape::Varying),
            (Shape::Uniform | Shape::Varying, Shape::Uniform | Shape::Varying) => Some(Shape::Varying),
            _ => None,
        }
    }
}

/// An element of a buffer: the register of the buffer, and the index.
pub(crate) type Element = (u16, NodeId);

pub(super) fn is_narrow(ty: Ty) -> bool {
    matches!(ty, Ty::Scalar(Scalar::I32 | Scalar::F32) | Ty::Truth)
}

/// The element that a node accesses, by which primitive, and whether it is a store.
pub(crate) fn access(graph: &Graph, id: NodeId) -> Option<(Element, Primitive, bool)> {
    let node = graph.node(id);
    let Kind::Primitive(primitive, _) = node.kind else { return None };
    let stores = match primitive.effect() {
        Effect::Load => false,
        Effect::Store => true,
        Effect::Pure | Effect::Call | Effect::Trap => return None,
    };
    let Kind::Base(register) = graph.node(node.args[0]).kind else { return None };
    Some(((register, node.args[1]), primitive, stores))
}

/// The shapes of the values of a loop, as far as they are known.
pub(crate) trait KnownShapes {
    fn shape(&self, id: NodeId) -> Shape;

    /// Whether the loop defines a value.
    fn defines(&self, id: NodeId) -> bool;
}
