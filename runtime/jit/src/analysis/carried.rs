//! Elements of a buffer that a loop carries: what the loop stores to at an index that stays the same is a value in a
//! register meanwhile. It is kept as the loads of the element would give it, so a store to a narrow element extends
//! what it is given, unless that is extended already. The shape analysis finds these elements, and the vectoriser makes
//! values of them.

use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::types::Scalar;

/// How an element that a loop carries is accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Carried {
    pub store: Primitive,
    /// All loads of the element are by this one.
    pub load: Primitive,
    /// The type of the value.
    pub of: Scalar,
    /// The extension of the stored value to the loaded one, if they differ.
    pub extension: Option<Primitive>,
}

/// Stores of a part of a value, with loads of that part and how these extend it.
const NARROW: [(Primitive, Primitive, Primitive); 4] = [
    (Primitive::StoreI8, Primitive::LoadI8u, Primitive::Low8Zext),
    (Primitive::StoreI8, Primitive::LoadI8s, Primitive::Low8Sext),
    (Primitive::StoreI16, Primitive::LoadI16u, Primitive::Low16Zext),
    (Primitive::StoreI16, Primitive::LoadI16s, Primitive::Low16Sext),
];
/// How many operations back it is looked for whether a value is extended.
const MAX_DEPTH: u32 = 4;

impl Carried {
    /// An element that is stored by one primitive and, if it is loaded at all, loaded by another one. None if that does
    /// not load what was stored.
    pub fn new(store: Primitive, load: Option<Primitive>) -> Option<Carried> {
        if let Some((whole, of)) = store.whole_load() {
            let is_whole = load.is_none_or(|load| load == whole);
            return is_whole.then_some(Carried { store, load: whole, of, extension: None });
        }
        let fits = |(own, other, _): &&(Primitive, Primitive, Primitive)| {
            *own == store && load.is_none_or(|load| load == *other)
        };
        let (_, load, extension) = *NARROW.iter().find(fits)?;
        Some(Carried { store, load, of: Scalar::I32, extension: Some(extension) })
    }

    /// The extension that a value needs where it is stored.
    pub fn extension_of(&self, graph: &Graph, value: NodeId) -> Option<Primitive> {
        self.extension.filter(|extension| !self.is_extended(graph, value, *extension, MAX_DEPTH))
    }

    /// Whether extending a value is known to change nothing.
    fn is_extended(&self, graph: &Graph, value: NodeId, extension: Primitive, depth: u32) -> bool {
        let node = graph.node(value);
        let all =
            |args: &[NodeId]| depth > 0 && args.iter().all(|arg| self.is_extended(graph, *arg, extension, depth - 1));
        match node.kind {
            Kind::Constant(bits) => extension.known(Scalar::I32, &[bits]) == Some(bits),
            Kind::Primitive(Primitive::Select, _) => all(&node.args[1..]),
            Kind::Primitive(primitive, _) if primitive == self.load || primitive == extension => true,
            // The result is one of the operands, or has what they have in all upper bits.
            Kind::Primitive(
                Primitive::MinS
                | Primitive::MaxS
                | Primitive::MinU
                | Primitive::MaxU
                | Primitive::And
                | Primitive::Or
                | Primitive::Xor,
                _,
            ) => all(&node.args),
            _ => false,
        }
    }
}
