//! Shape analysis: how each value of a loop differs between its iterations, when these become lanes. The vectoriser
//! asks it whether a loop can be vectorised, and builds vector loops by it.
//!
//! Inner loops run once for all lanes, so their induction variables have to be uniform. An element that a loop loads
//! and stores in each iteration becomes a value that the loop carries, as in scalar promotion.

use smallvec::SmallVec;

use super::byte_lanes::ByteLanes;
use super::carried::Carried;
use super::loop_nest::{Item, LoopNest, addend, increment};
use super::shape::KnownShapes;
pub(crate) use super::shape::{Element, Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{Graph, Kind, NodeId};
use crate::ir::hash::{self, Table};
use crate::ir::types::{Effect, Linear, Scalar, Ty, Width};
use crate::processor::lanes;

/// How a parameter of the header changes from iteration to iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// It grows by a constant.
    Induction(u64),
    /// It grows by a value that is computed before the loop.
    Steps(NodeId),
    /// A sum of `i32`, which may be reordered.
    Reduction,
    /// In another way, from the iteration before.
    Sequential,
}

/// The shapes of the values of a loop that can be vectorised.
pub(crate) struct Shapes {
    of: Table<NodeId, Shape>,
    pub roles: Vec<Role>,
    /// The elements that the loop itself carries, with their stores.
    pub carried: Vec<(Element, Carried)>,
    /// Whether these are sums of `i32`, which may be reordered.
    pub sums: bool,
    /// The values that are defined in the loop.
    pub defined: Bits,
    /// The test of the loop, which has no shape: vector loops have a test of their own.
    test: NodeId,
    /// Whether there are gathers.
    pub gathers: bool,
    /// Whether there are calls of functions for vectors.
    pub calls: bool,
    /// Whether there are sequential values.
    pub sequential: bool,
    /// Whether inner loops store to other elements in each of their iterations. Then lanes may have to be checked not
    /// to store to one element.
    pub moves_stores: bool,
    /// Whether anything becomes a vector.
    pub any: bool,
    /// Whether some vectors have lanes of 64 bits. Then all of them have as many lanes as those.
    pub is_wide: bool,
    /// The primitives that compute all vectors in lanes of 8 bits, if there are such.
    pub bytes: Option<ByteLanes>,
    /// Whether a shape has changed in this pass.
    changed: bool,
}

/// Most passes until a fixed point.
const MAX_PASSES: usize = 8;

impl KnownShapes for Shapes {
    fn shape(&self, id: NodeId) -> Shape {
        self.get(id)
    }

    fn defines(&self, id: NodeId) -> bool {
        self.defined.contains(id.index())
    }
}

impl Shapes {
    /// None if the loop cannot be vectorised, or nothing of it would become a vector.
    pub fn new(graph: &Graph, nest: &LoopNest) -> Option<Shapes> {
        let defined = nest.defined(graph);
        let mut shapes = Shapes {
            of: hash::with_room(nest.count_nodes(graph)),
            roles: roles(graph, nest),
            carried: Vec::new(),
            sums: false,
            defined,
            test: nest.test,
            gathers: false,
            calls: false,
            sequential: false,
            moves_stores: false,
            any: false,
            is_wide: false,
            bytes: None,
            changed: false,
        };
        shapes.carried = shapes.elements(graph, nest)?;
        shapes.sums = !shapes.carried.is_empty()
            && !nest.is_outer()
            && !shapes.roles.contains(&Role::Sequential)
            && shapes.carried.iter().all(|(element, carried)| is_sum(graph, nest, *element, carried));
        let parameters = &graph.blocks[nest.header].parameters;
        for (parameter, role) in parameters.iter().zip(&shapes.roles) {
            let shape = match role {
                Role::Induction(step) => Shape::Strided(*step as i64),
                Role::Steps(_) => Shape::Unknown,
                Role::Reduction => Shape::Varying,
                Role::Sequential => Shape::Sequential,
            };
            shapes.of.insert(*parameter, shape);
        }
        for _ in 0..MAX_PASSES {
            shapes.changed = false;
            shapes.walk(graph, nest)?;
            if !shapes.changed {
                return shapes.check(graph, nest);
            }
        }
        None
    }

    pub fn get(&self, id: NodeId) -> Shape {
        self.of.get(&id).copied().unwrap_or(Shape::Uniform)
    }

    /// The elements that a loop of the nest carries: all that it stores to at a loop-invariant index.
    /// None if accesses of different widths would share one, or loads that extend it in different ways.
    pub fn elements(&self, graph: &Graph, nest: &LoopNest) -> Option<Vec<(Element, Carried)>> {
        let mut elements: Vec<(Element, Primitive, Option<Primitive>)> = Vec::new();
        let inside = nest.defined(graph);
        let mut mixed = false;
        nest.for_each_node(graph, &mut |id| {
            let Some((element, primitive, true)) = access(graph, id) else { return };
            if stays(graph, &inside, element.1) {
                match elements.iter().find(|(other, ..)| *other == element) {
                    Some((_, other, _)) => mixed |= *other != primitive,
                    None => elements.push((element, primitive, None)),
                }
            }
        });
        nest.for_each_node(graph, &mut |id| {
            if let Some((element, primitive, false)) = access(graph, id)
                && let Some((.., load)) = elements.iter_mut().find(|(other, ..)| *other == element)
            {
                mixed |= load.replace(primitive).is_some_and(|other| other != primitive);
            }
        });
        if mixed || !elements.iter().all(|(_, store, _)| lanes::can_access(*store)) {
            return None;
        }
        elements.into_iter().map(|(element, store, load)| Some((element, Carried::new(store, load)?))).collect()
    }

    fn set(&mut self, id: NodeId, shape: Shape) {
        self.changed |= self.of.insert(id, shape) != Some(shape);
    }

    fn walk(&mut self, graph: &Graph, nest: &LoopNest) -> Option<()> {
        for item in &nest.body {
            match item {
                Item::Nodes(block) => {
                    for id in &graph.blocks[*block].nodes {
                        if let Some(shape) = self.shape(graph, *id)? {
                            self.set(*id, shape);
                        }
                    }
                }
                Item::Loop(inner) => self.inner(graph, inner)?,
            }
        }
        Some(())
    }

    fn inner(&mut self, graph: &Graph, inner: &LoopNest) -> Option<()> {
        for (index, parameter) in graph.blocks[inner.header].parameters.iter().enumerate() {
            let start = self.get(inner.start[index]);
            let next = self.of.get(&inner.next[index]).copied();
            // The shape of the argument of the back edge may not be known in the first pass.
            let next =
                next.unwrap_or(if self.defined.contains(inner.next[index].index()) { start } else { Shape::Uniform });
            self.set(*parameter, start.join(next, graph.node(*parameter).ty)?);
        }
        self.walk(graph, inner)
    }

    /// The shape of a node. Checks and stores have none. None at all if the node cannot be vectorised.
    fn shape(&self, graph: &Graph, id: NodeId) -> Option<Option<Shape>> {
        let node = graph.node(id);
        if id == self.test {
            return Some(None);
        }
        if node.args.contains(&self.test) {
            return None;
        }
        let shapes: SmallVec<[Shape; 3]> = node.args.iter().map(|arg| self.get(*arg)).collect();
        let all = |wanted: Shape| shapes.iter().all(|shape| *shape == wanted);
        Some(Some(match node.kind {
            Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::InRange => return Some(None),
            Kind::Base(_) | Kind::Elements(..) => Shape::Uniform,
            Kind::Primitive(primitive, of) => match primitive.effect() {
                Effect::Load => {
                    let (element, ..) = access(graph, id)?;
                    if self.carried.iter().any(|(other, _)| *other == element) {
                        return Some(Some(if self.sums { Shape::Varying } else { Shape::Sequential }));
                    }
                    match shapes[1] {
                        Shape::Uniform => Shape::Uniform,
                        Shape::Strided(1) if lanes::can_access(primitive) => Shape::Varying,
                        Shape::Strided(by)
                            if lanes::can_gather(primitive, by) || lanes::can_load_bytes(primitive, by) =>
                        {
                            Shape::Varying
                        }
                        _ => return None,
                    }
                }
                Effect::Store => {
                    let (element, ..) = access(graph, id)?;
                    if self.carried.iter().any(|(other, _)| *other == element) {
                        return Some(None);
                    }
                    if shapes[1] != Shape::Strided(1) || shapes[2] == Shape::Sequential || !lanes::can_access(primitive)
                    {
                        return None;
                    }
                    return Some(None);
                }
                Effect::Trap => {
                    let division = lanes::division(primitive, of).filter(|_| shapes[0] == Shape::Varying)?;
                    let divides = match graph.constant(node.args[1]) {
                        Some(divisor) if of == Scalar::I64 => lanes::can_divide_wide(divisor, division.signed),
                        // Guards check the divisor, so it has to be known before the loop.
                        _ => of == Scalar::I32 && stays(graph, &self.defined, node.args[1]),
                    };
                    if !divides {
                        return None;
                    }
                    Shape::Varying
                }
                Effect::Pure | Effect::Call if all(Shape::Uniform) => Shape::Uniform,
                Effect::Pure if shapes.contains(&Shape::Unknown) && node.ty == Ty::Scalar(Scalar::I64) => {
                    Shape::Unknown
                }
                Effect::Pure | Effect::Call if shapes.contains(&Shape::Unknown) => return None,
                Effect::Pure | Effect::Call if shapes.contains(&Shape::Sequential) => Shape::Sequential,
                Effect::Pure => {
                    if let Some(shape) = linear(graph, primitive, of, &node.args, &shapes) {
                        shape
                    } else if primitive.lanes(of).is_some() && node.args.iter().all(|arg| self.fits(graph, *arg)) {
                        Shape::Varying
                    } else {
                        return None;
                    }
                }
                Effect::Call if primitive.lanes(of).is_some() && node.args.iter().all(|arg| self.fits(graph, *arg)) => {
                    Shape::Varying
                }
                Effect::Call => return None,
            },
            _ if all(Shape::Uniform) => Shape::Uniform,
            Kind::Number | Kind::Cast if shapes[0] == Shape::Sequential => Shape::Sequential,
            Kind::Number if shapes[0] == Shape::Varying => Shape::Varying,
            Kind::Cast if shapes[0] == Shape::Varying => Shape::Varying,
            _ => return None,
        }))
    }

    /// Whether a value can be the operand of a vector instruction.
    fn fits(&self, graph: &Graph, id: NodeId) -> bool {
        match self.get(id) {
            Shape::Varying => true,
            Shape::Uniform => matches!(graph.node(id).ty, Ty::Scalar(_) | Ty::Truth),
            Shape::Strided(_) | Shape::Sequential | Shape::Unknown => false,
        }
    }

    /// The largest vectors that the loop may have, where the processor has vectors of `largest`.
    pub fn largest(&self, largest: Width) -> Width {
        if self.is_wide { Width::Four } else { largest }
    }

    /// Whether a node has vectors with lanes of 64 bits, or stores some.
    fn has_wide_lanes(&self, graph: &Graph, id: NodeId) -> bool {
        let node = graph.node(id);
        match node.kind {
            Kind::Primitive(primitive, of) => {
                let is_vector = primitive.effect() == Effect::Store || self.of.get(&id) == Some(&Shape::Varying);
                is_vector && primitive.is_wide(of)
            }
            _ => self.of.get(&id) == Some(&Shape::Varying) && node.scalar().is_wide(),
        }
    }

    /// Whether a node can be computed where vectors have four lanes.
    fn fits_four_lanes(&self, graph: &Graph, id: NodeId) -> bool {
        let node = graph.node(id);
        let Kind::Primitive(primitive, _) = node.kind else { return true };
        let is_vector = primitive.effect() == Effect::Store || self.of.get(&id) == Some(&Shape::Varying);
        !is_vector
            || match primitive.effect() {
                Effect::Load | Effect::Store => matches!(primitive.element_shift(), 2 | 3),
                // Functions are for more lanes.
                Effect::Call => false,
                Effect::Pure | Effect::Trap => true,
            }
    }

    /// Checks what depends on the shapes of the whole loop.
    fn check(mut self, graph: &Graph, nest: &LoopNest) -> Option<Shapes> {
        let parameters = &graph.blocks[nest.header].parameters;
        for ((parameter, next), role) in parameters.iter().zip(&nest.next).zip(&self.roles) {
            match role {
                Role::Induction(_) | Role::Steps(_) => {}
                // The sum is a vector if the addend can be one. That it has no other use was found before.
                Role::Reduction if self.get(*next) == Shape::Varying => {}
                Role::Sequential if !graph.node(*parameter).scalar().is_wide() => self.sequential = true,
                _ => return None,
            }
        }
        self.sequential |= !self.carried.is_empty() && !self.sums;
        if self.sequential && nest.is_outer() {
            return None;
        }
        let (mut fits, mut moves_stores) = (true, false);
        nest.for_each_loop(&mut |inner| {
            let uniform = |id: &NodeId| self.get(*id) == Shape::Uniform;
            let is_inner = inner.header != nest.header;
            // All lanes make the same iterations of inner loops.
            fits &= !is_inner || graph.node(inner.test).args.iter().all(uniform);
            if is_inner {
                for (index, parameter) in graph.blocks[inner.header].parameters.iter().enumerate() {
                    let joined =
                        self.get(inner.start[index]).join(self.get(inner.next[index]), graph.node(*parameter).ty);
                    fits &= joined.is_some() && joined == Some(self.get(*parameter));
                }
                let elements = self.elements(graph, inner);
                fits &= elements.is_some();
                moves_stores |= elements.is_some_and(|elements| !is_stored_in_place(graph, inner, &elements));
            }
        });
        let (mut gathers, mut calls, mut any) = (false, false, self.roles.contains(&Role::Reduction));
        nest.for_each_node(graph, &mut |id| {
            let node = graph.node(id);
            let Kind::Primitive(primitive, _) = node.kind else { return };
            let is_lanes = self.of.get(&id) == Some(&Shape::Varying);
            any |= is_lanes || primitive.effect() == Effect::Store;
            calls |= is_lanes && primitive.effect() == Effect::Call;
            let moves = matches!(self.get(*node.args.get(1).unwrap_or(&id)), Shape::Strided(by) if by != 1);
            gathers |= is_lanes && primitive.effect() == Effect::Load && moves;
        });
        (self.gathers, self.calls, self.any, self.moves_stores) = (gathers, calls, any, moves_stores);
        let is_lane_by_lane = !self.sequential && !self.sums && !self.roles.contains(&Role::Reduction);
        let mut fits_four = is_lane_by_lane;
        let mut is_wide = self.carried.iter().any(|(_, carried)| carried.of.is_wide());
        nest.for_each_node(graph, &mut |id| {
            is_wide |= self.has_wide_lanes(graph, id);
            fits_four &= self.fits_four_lanes(graph, id);
        });
        self.is_wide = is_wide;
        if fits && is_lane_by_lane {
            self.bytes = ByteLanes::new(graph, nest, &self);
        }
        (fits && any && (!is_wide || fits_four)).then_some(self)
    }
}

/// Whether an element that a loop carries is a sum of `i32`: it is loaded once, something is added, and that is stored.
fn is_sum(graph: &Graph, nest: &LoopNest, element: Element, carried: &Carried) -> bool {
    let Some((load, store)) = load_and_store(graph, nest, element) else { return false };
    let value = graph.node(store).args[2];
    let node = graph.node(value);
    let adds = match node.kind {
        Kind::Primitive(Primitive::WrappingAdd, Scalar::I32) => node.args.contains(&load),
        Kind::Primitive(Primitive::WrappingMulAdd, Scalar::I32) => node.args[2] == load,
        _ => false,
    };
    let mut uses = [0, 0];
    let mut count = |id: NodeId| {
        uses[0] += usize::from(id == load);
        uses[1] += usize::from(id == value);
    };
    nest.for_each_node(graph, &mut |id| graph.node(id).args.iter().for_each(|arg| count(*arg)));
    nest.next.iter().for_each(|id| count(*id));
    adds && uses == [1, 1] && carried.of == Scalar::I32 && carried.extension.is_none()
}

/// The only load and the only store of an element in a loop.
pub(crate) fn load_and_store(graph: &Graph, nest: &LoopNest, element: Element) -> Option<(NodeId, NodeId)> {
    let (mut loads, mut stores): (SmallVec<[NodeId; 2]>, SmallVec<[NodeId; 2]>) = (SmallVec::new(), SmallVec::new());
    nest.for_each_node(graph, &mut |id| match access(graph, id) {
        Some((own, _, true)) if own == element => stores.push(id),
        Some((own, _, false)) if own == element => loads.push(id),
        _ => {}
    });
    match (&loads[..], &stores[..]) {
        ([load], [store]) => Some((*load, *store)),
        _ => None,
    }
}

/// Whether each store in an inner loop is to one of these elements, which the loop carries, so that no two lanes store
/// to one element.
fn is_stored_in_place(graph: &Graph, inner: &LoopNest, elements: &[(Element, Carried)]) -> bool {
    let mut all = true;
    inner.for_each_node(graph, &mut |id| {
        if let Some((element, _, true)) = access(graph, id) {
            all &= elements.iter().any(|(other, _)| *other == element);
        }
    });
    all
}

/// The shape of an `i64` that is linear in uniform and strided operands.
fn linear(graph: &Graph, primitive: Primitive, of: Scalar, args: &[NodeId], shapes: &[Shape]) -> Option<Shape> {
    if of != Scalar::I64 {
        return None;
    }
    let by = |index: usize| match shapes[index] {
        Shape::Uniform => Some(0_i64),
        Shape::Strided(by) => Some(by),
        Shape::Varying | Shape::Sequential | Shape::Unknown => None,
    };
    let constant = |index: usize| graph.constant(args[index]).map(|bits| bits as i64);
    let product = || match (by(0)?, by(1)?) {
        (0, 0) => Some(0),
        (a, 0) => a.checked_mul(constant(1)?),
        (0, b) => b.checked_mul(constant(0)?),
        _ => None,
    };
    let by = match primitive.linear()? {
        Linear::Sum => by(0)?.checked_add(by(1)?)?,
        Linear::Difference => by(0)?.checked_sub(by(1)?)?,
        Linear::Product => product()?,
        Linear::ProductAndSum => product()?.checked_add(by(2)?)?,
    };
    Some(if by == 0 { Shape::Uniform } else { Shape::Strided(by) })
}

/// Whether a value is invariant in the loop that defines `inside`.
fn stays(graph: &Graph, inside: &Bits, id: NodeId) -> bool {
    let (mut seen, mut pending): (SmallVec<[NodeId; 16]>, SmallVec<[NodeId; 16]>) = (SmallVec::new(), SmallVec::new());
    pending.push(id);
    while let Some(id) = pending.pop() {
        if !inside.contains(id.index()) || seen.contains(&id) {
            continue;
        }
        let node = graph.node(id);
        if !matches!(node.kind, Kind::Primitive(primitive, _) if primitive.effect() == Effect::Pure) {
            return false;
        }
        seen.push(id);
        pending.extend(node.args.iter().copied());
    }
    true
}

/// The roles of the parameters of the loop's header.
fn roles(graph: &Graph, nest: &LoopNest) -> Vec<Role> {
    let parameters = &graph.blocks[nest.header].parameters;
    let inside = nest.defined(graph);
    let role = |(parameter, next): (&NodeId, &NodeId)| {
        if let Some(by) = increment(graph, *parameter, *next) {
            return Role::Induction(by);
        }
        if let Some(by) = addend(graph, *parameter, *next).filter(|by| !inside.contains(by.index())) {
            return Role::Steps(by);
        }
        let node = graph.node(*next);
        let adds = node.kind == Kind::Primitive(Primitive::WrappingAdd, Scalar::I32);
        if adds && node.args.iter().filter(|arg| *arg == parameter).count() == 1 {
            let mut uses = 0;
            let mut count = |id: NodeId| {
                let args = &graph.node(id).args;
                uses += args.iter().filter(|arg| *arg == parameter || *arg == next).count();
            };
            nest.for_each_node(graph, &mut count);
            nest.for_each_loop(&mut |inner| {
                if inner.header != nest.header {
                    uses += inner.start.iter().chain(&inner.next).filter(|id| *id == parameter || *id == next).count();
                }
            });
            if uses == 1 && is_own(graph, nest, *next) {
                return Role::Reduction;
            }
        }
        Role::Sequential
    };
    parameters.iter().zip(&nest.next).map(role).collect()
}

/// Whether a node is in the loop itself, and not in an inner one.
fn is_own(graph: &Graph, nest: &LoopNest, id: NodeId) -> bool {
    nest.body.iter().any(|item| matches!(item, Item::Nodes(block) if graph.blocks[*block].nodes.contains(&id)))
}
