//! Lanes of bytes: which loops can be computed in the lowest bytes of their values, and by what. The shape analysis
//! asks it of loops that can be vectorised, and the vectoriser builds vector loops with lanes of 8 bits by it.
//!
//! Integers of the program have 32 bits, and the lowest byte of a sum, of a product or of bits is that of the lowest
//! bytes of its operands. A comparison, and what is made of one, needs more: that both operands are known to be
//! extended from their lowest bytes in one way. With signs, or without, the bytes are then in the order of the numbers.
//! Of a sum of bytes this is not known: it may have wrapped in 8 bits.

use super::loop_nest::{Item, LoopNest};
use super::shape::{KnownShapes, Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::hash::{self, Table};
use crate::ir::types::{Effect, Lanes, Scalar, Ty};
use crate::processor::lanes;

/// Most passes until a fixed point.
const MAX_PASSES: usize = 8;
/// How many operations back a value from outside the loop is looked at.
const MAX_DEPTH: u32 = 4;

/// In which ways a value is known to be its lowest byte extended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Extensions {
    /// With the sign of the byte.
    signed: bool,
    /// With zeros.
    unsigned: bool,
}

impl Extensions {
    const NONE: Extensions = Extensions { signed: false, unsigned: false };
    const SIGNED: Extensions = Extensions { signed: true, unsigned: false };
    const UNSIGNED: Extensions = Extensions { signed: false, unsigned: true };
    /// Of numbers from 0 to 127.
    const BOTH: Extensions = Extensions { signed: true, unsigned: true };

    fn of_constant(bits: u64) -> Extensions {
        let value = bits as i32;
        Extensions { signed: i8::try_from(value).is_ok(), unsigned: u8::try_from(value).is_ok() }
    }

    /// Those that two values have in common.
    fn common(self, other: Extensions) -> Extensions {
        Extensions { signed: self.signed && other.signed, unsigned: self.unsigned && other.unsigned }
    }

    fn is_any(self) -> bool {
        self.signed || self.unsigned
    }
}

/// A loop that can be computed in bytes.
pub(crate) struct ByteLanes {
    extensions: Table<NodeId, Extensions>,
}

impl ByteLanes {
    /// None if a vector of the loop needs more than the lowest bytes.
    pub fn new(graph: &Graph, nest: &LoopNest, shapes: &impl KnownShapes) -> Option<ByteLanes> {
        let mut bytes = ByteLanes { extensions: hash::with_room(nest.count_nodes(graph)) };
        let parameters = &graph.blocks[nest.header].parameters;
        bytes.extensions.extend(parameters.iter().map(|parameter| (*parameter, Extensions::NONE)));
        for _ in 0..MAX_PASSES {
            // A value that is not known yet may have both extensions, so each pass finds fewer than the one before.
            if !bytes.walk(graph, nest, shapes) {
                return bytes.fits(graph, nest, shapes).then_some(bytes);
            }
        }
        None
    }

    /// The primitive that computes the lowest byte of a primitive's value from those of its operands, which have `i32`
    /// values. None if nothing does.
    pub fn primitive(&self, graph: &Graph, id: NodeId) -> Option<Primitive> {
        let node = graph.node(id);
        let Kind::Primitive(primitive, Scalar::I32) = node.kind else { return None };
        primitive.byte_lanes()?;
        let of = |index: usize| self.outside(graph, node.args[index], MAX_DEPTH);
        let in_order = |signed: Primitive, unsigned: Primitive| match of(0).common(of(1)) {
            // Numbers without signs have the same order as those with signs, as all are positive, and bytes have the
            // order without signs.
            Extensions { unsigned: true, .. } => Some(unsigned),
            // Negative numbers come after the others where they count as numbers without signs, and so do their bytes.
            Extensions { signed: true, .. } => Some(signed),
            _ => None,
        };
        match primitive {
            Primitive::MinS => in_order(primitive, Primitive::MinU),
            Primitive::MaxS => in_order(primitive, Primitive::MaxU),
            Primitive::LtS => in_order(primitive, Primitive::LtU),
            Primitive::MinU | Primitive::MaxU | Primitive::LtU | Primitive::Eq | Primitive::Ne => {
                in_order(primitive, primitive)
            }
            Primitive::IsNonzero => of(0).is_any().then_some(primitive),
            Primitive::AbsWrapping => of(0).signed.then_some(primitive),
            _ => Some(primitive),
        }
    }

    /// Notes the extensions of all values of a loop. Whether some have changed.
    fn walk(&mut self, graph: &Graph, nest: &LoopNest, shapes: &impl KnownShapes) -> bool {
        let mut changed = false;
        for item in &nest.body {
            match item {
                Item::Nodes(block) => {
                    for id in &graph.blocks[*block].nodes {
                        let extensions = self.computed(graph, *id, &|arg| self.inside(graph, shapes, arg));
                        changed |= self.extensions.insert(*id, extensions) != Some(extensions);
                    }
                }
                Item::Loop(inner) => {
                    for (index, parameter) in graph.blocks[inner.header].parameters.iter().enumerate() {
                        let [start, next] =
                            [inner.start[index], inner.next[index]].map(|id| self.inside(graph, shapes, id));
                        let extensions = start.common(next);
                        changed |= self.extensions.insert(*parameter, extensions) != Some(extensions);
                    }
                    changed |= self.walk(graph, inner, shapes);
                }
            }
        }
        changed
    }

    /// The extensions of a value while the loop is walked.
    fn inside(&self, graph: &Graph, shapes: &impl KnownShapes, id: NodeId) -> Extensions {
        let is_unknown = shapes.defines(id) && !self.extensions.contains_key(&id);
        if is_unknown { Extensions::BOTH } else { self.outside(graph, id, MAX_DEPTH) }
    }

    /// The extensions of a value that the loop defines, or that is computed before the loop by a few operations.
    fn outside(&self, graph: &Graph, id: NodeId, depth: u32) -> Extensions {
        if let Some(extensions) = self.extensions.get(&id) {
            return *extensions;
        }
        if depth == 0 {
            return Extensions::NONE;
        }
        self.computed(graph, id, &|arg| self.outside(graph, arg, depth - 1))
    }

    /// The extensions of what a node computes from operands with these.
    fn computed(&self, graph: &Graph, id: NodeId, of: &dyn Fn(NodeId) -> Extensions) -> Extensions {
        let node = graph.node(id);
        if node.ty != Ty::Scalar(Scalar::I32) {
            return Extensions::NONE;
        }
        let all = |args: &[NodeId]| args.iter().map(|arg| of(*arg)).fold(Extensions::BOTH, Extensions::common);
        let primitive = match node.kind {
            Kind::Constant(bits) => return Extensions::of_constant(bits),
            Kind::Number => return Extensions::BOTH,
            Kind::Primitive(primitive, _) => primitive,
            _ => return Extensions::NONE,
        };
        match primitive {
            Primitive::LoadI8s => Extensions::SIGNED,
            Primitive::LoadI8u => Extensions::UNSIGNED,
            // The result is one of the operands, or all upper bits are the same as in one.
            Primitive::MinS | Primitive::MaxS | Primitive::MinU | Primitive::MaxU | Primitive::Or | Primitive::Xor => {
                all(&node.args)
            }
            Primitive::Select => all(&node.args[1..]),
            Primitive::And => {
                // An operand that has no upper bits takes them from the other one.
                let [a, b] = [of(node.args[0]), of(node.args[1])];
                let is_small = a == Extensions::BOTH || b == Extensions::BOTH;
                Extensions { signed: is_small || (a.signed && b.signed), unsigned: a.unsigned || b.unsigned }
            }
            Primitive::Not => Extensions { unsigned: false, ..of(node.args[0]) },
            Primitive::AbsWrapping => {
                let a = of(node.args[0]);
                Extensions { signed: a == Extensions::BOTH, unsigned: a.is_any() }
            }
            Primitive::Low8Zext => Extensions { signed: of(node.args[0]) == Extensions::BOTH, ..Extensions::UNSIGNED },
            Primitive::Low8Sext => Extensions { unsigned: of(node.args[0]) == Extensions::BOTH, ..Extensions::SIGNED },
            Primitive::Low16Sext => of(node.args[0]),
            // The upper half of a negative number is lost.
            Primitive::Low16Zext => {
                let a = of(node.args[0]);
                if a.unsigned { a } else { Extensions::NONE }
            }
            _ => Extensions::NONE,
        }
    }

    /// Whether all vectors of a loop can be computed in bytes.
    fn fits(&self, graph: &Graph, nest: &LoopNest, shapes: &impl KnownShapes) -> bool {
        let mut fits = true;
        nest.for_each_node(graph, &mut |id| fits &= self.fits_node(graph, id, shapes));
        fits
    }

    fn fits_node(&self, graph: &Graph, id: NodeId, shapes: &impl KnownShapes) -> bool {
        let node = graph.node(id);
        let is_vector = shapes.shape(id) == Shape::Varying;
        let Kind::Primitive(primitive, of) = node.kind else {
            return !is_vector || (node.kind == Kind::Number && node.ty == Ty::Scalar(Scalar::I32));
        };
        match primitive.effect() {
            Effect::Store => primitive.byte_lanes() == Some(Lanes::Instructions),
            _ if !is_vector => true,
            Effect::Load => access(graph, id).is_some_and(|((_, index), ..)| match shapes.shape(index) {
                Shape::Strided(by) => lanes::can_load_byte_lanes(primitive, by),
                _ => false,
            }),
            Effect::Pure => of == Scalar::I32 && self.primitive(graph, id).is_some(),
            Effect::Call | Effect::Trap => false,
        }
    }
}
