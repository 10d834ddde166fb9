//! The builder of one vector loop: it copies the nodes of a scalar loop, uniform and strided values as scalars, varying
//! ones as vectors, and sequential ones once for each lane. The module around calls it for each factor.

mod accesses;
mod body;
mod division;
mod inner_loop;
pub(super) mod mask;
mod sequential;
pub(super) mod transposition;
mod wide_division;

use smallvec::SmallVec;

use super::guards::is_left_to_guards;
use crate::analysis::carried::Carried;
use crate::analysis::loop_nest::Item;
use crate::analysis::shapes::{Element, Role, Shape, access, load_and_store};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Branch, Exit, ExitId, Graph, Kind, Node, NodeId, Nodes, Terminator};
use crate::ir::hash::{self, Table};
use crate::ir::types::{Effect, Lanes, Scalar, Ty, Width};
use crate::processor::lanes;
pub(super) use body::VectorLoop;
use body::{LoopBodyBuilder, Unrolled, Value, integer};

impl VectorLoop<'_> {
    /// Builds the loop, which is entered from `from` with these values of the parameters. Gives the block after it and
    /// the values there.
    pub fn make(&self, graph: &mut Graph, from: BlockIndex, current: &[NodeId]) -> Option<(BlockIndex, Nodes)> {
        let (nest, vectors) = (self.nest, self.factor.vectors);
        let iterations = self.factor.iterations();
        let counted = iterations.checked_mul(nest.step)?;
        let bound = self.initial_values.get(&nest.bound).copied().unwrap_or(nest.bound);
        // The loop continues while all its lanes are iterations of the scalar loop; without the last one, if that has
        // to be left.
        let back = if nest.is_top_tested || self.skips_remainder { counted - nest.step } else { counted };
        let back = graph.add_constant(Scalar::I64, back);
        let i64 = Ty::Scalar(Scalar::I64);
        let limit = if self.factor.is_masked {
            bound
        } else {
            graph.add_node(from, Kind::Primitive(Primitive::WrappingSub, Scalar::I64), i64, &[bound, back])
        };
        let mut entering = Nodes::new();
        for (value, role) in current.iter().zip(&self.shapes.roles) {
            match role {
                Role::Induction(_) | Role::Steps(_) | Role::Sequential => entering.push(*value),
                Role::Reduction => {
                    let zero = graph.add_constant(Scalar::I32, 0);
                    let zeros = graph.add_node(from, Kind::Splat, self.lanes_of(Scalar::I32), &[zero]);
                    entering.extend(std::iter::repeat_n(zeros, vectors));
                }
            }
        }
        // With a mask, the number of iterations is known only in the body.
        let steps = match self.steps.filter(|_| !self.factor.is_masked) {
            Some(steps) => Some(self.all_steps(graph, from, steps)?),
            None => None,
        };
        graph.blocks[from].preheader_exit = None;
        let truth = Kind::Primitive(Primitive::LtS, Scalar::I64);
        // Carried elements are stored after the loop, so a loop that does not run is skipped.
        let skipped = (!self.shapes.carried.is_empty())
            .then(|| graph.add_node(from, truth, Ty::Truth, &[current[nest.induction], limit]));
        let preheader = if skipped.is_some() { graph.add_block() } else { from };
        for (element, carried) in &self.shapes.carried {
            if self.shapes.sums {
                let zero = graph.add_constant(Scalar::I32, 0);
                let zeros = graph.add_node(preheader, Kind::Splat, self.lanes_of(Scalar::I32), &[zero]);
                entering.extend(std::iter::repeat_n(zeros, vectors));
            } else {
                entering.push(self.load_element(graph, preheader, *element, carried)?);
            }
        }
        let header = graph.add_block();
        let carried_types: Vec<Ty> = entering.iter().map(|id| graph.node(*id).ty).collect();
        let parameters: Nodes = carried_types.iter().map(|ty| graph.parameter(header, *ty)).collect();
        graph.blocks[preheader].terminator =
            Terminator::Jump(Branch { target: header, args: entering, ..Branch::default() });
        graph.blocks[preheader].preheader_exit = Some(self.exit);
        let body = graph.add_block();
        let left = if self.factor.is_masked { Some(self.left(graph, body, &parameters, bound)?) } else { None };
        let steps = match (left, self.steps) {
            (Some(left), Some(steps)) => Some(integer(graph, body, Primitive::WrappingMul, &[steps, left])),
            _ => steps,
        };
        let uncounted = steps.map(|steps| count(graph, body, steps));
        let values = hash::with_room(nest.count_nodes(graph));
        let mut builder = LoopBodyBuilder {
            graph,
            of: self,
            block: body,
            values,
            elements: Table::default(),
            unrolled: Unrolled::default(),
            mask: None,
            left: None,
            wide_mask: None,
        };
        let own = builder.graph.blocks[nest.header].parameters.clone();
        let mut at = 0;
        let mut counter = parameters[0];
        for (index, (parameter, role)) in own.iter().zip(&self.shapes.roles).enumerate() {
            let value = match role {
                Role::Induction(_) | Role::Steps(_) | Role::Sequential => Value::Scalar(parameters[at]),
                Role::Reduction => Value::Vectors(SmallVec::from_slice(&parameters[at..at + vectors])),
            };
            if index == nest.induction {
                counter = parameters[at];
            }
            at += if *role == Role::Reduction { vectors } else { 1 };
            builder.values.insert(*parameter, value);
        }
        let carried = if self.shapes.sums { &[] } else { &parameters[at..] };
        for ((element, _), sums) in self.shapes.carried.iter().zip(parameters[at..].chunks(vectors)) {
            if self.shapes.sums {
                let (load, _) = load_and_store(builder.graph, nest, *element)?;
                builder.values.insert(load, Value::Vectors(SmallVec::from_slice(sums)));
            }
        }
        if let Some(left) = left {
            builder.mask_beyond(left);
        }
        builder.items(&nest.body)?;
        let sequential = if self.shapes.sums { Nodes::new() } else { builder.sequential_lanes(carried)? };
        let mut back: Nodes = Nodes::new();
        let mut sequential_next = sequential.iter().copied();
        for ((parameter, next), role) in own.iter().zip(&nest.next).zip(&self.shapes.roles) {
            match role {
                Role::Induction(_) | Role::Steps(_) => {
                    let one = builder.scalar(*parameter)?;
                    let by = match (role, left) {
                        (Role::Induction(by), None) => {
                            builder.graph.add_constant(Scalar::I64, by.checked_mul(iterations)?)
                        }
                        _ => {
                            let by = match role {
                                Role::Steps(by) => *by,
                                Role::Induction(by) => builder.graph.add_constant(Scalar::I64, *by),
                                Role::Reduction | Role::Sequential => return None,
                            };
                            let times = left.unwrap_or_else(|| builder.graph.add_constant(Scalar::I64, iterations));
                            builder.integer(Primitive::WrappingMul, &[by, times])
                        }
                    };
                    back.push(builder.integer(Primitive::WrappingAdd, &[one, by]));
                }
                Role::Sequential => back.push(sequential_next.next()?),
                Role::Reduction => {
                    for number in 0..vectors {
                        back.push(builder.vector(*next, number)?);
                    }
                }
            }
        }
        back.extend(sequential_next);
        for (element, _) in self.shapes.carried.iter().filter(|_| self.shapes.sums) {
            let (_, store) = load_and_store(builder.graph, nest, *element)?;
            let value = builder.graph.node(store).args[2];
            for number in 0..vectors {
                back.push(builder.vector(value, number)?);
            }
        }
        let latch = builder.block;
        // The exit of the loop.
        let exit_block = graph.add_block();
        let outs: Nodes = carried_types.iter().map(|ty| graph.parameter(exit_block, *ty)).collect();
        let test = graph.add_node(header, truth, Ty::Truth, &[counter, limit]);
        let into = Branch { target: body, ..Branch::default() };
        let out = Branch { target: exit_block, args: parameters, ..Branch::default() };
        if let Some(uncounted) = uncounted {
            graph.exits[uncounted.0 as usize].fallback = Some(out.clone());
        }
        graph.blocks[header].terminator = Terminator::Branch(test, [into, out]);
        graph.blocks[latch].terminator = Terminator::Jump(Branch { target: header, args: back, ..Branch::default() });
        let mut values = Nodes::new();
        let mut outs = outs.into_iter();
        for (value, role) in current.iter().zip(&self.shapes.roles) {
            values.push(match role {
                Role::Induction(_) | Role::Steps(_) | Role::Sequential => outs.next()?,
                Role::Reduction => {
                    let lanes: SmallVec<[NodeId; 4]> = outs.by_ref().take(vectors).collect();
                    self.plus_lanes(graph, exit_block, *value, &lanes)?
                }
            });
        }
        for (element, carried) in &self.shapes.carried {
            let value = if self.shapes.sums {
                let lanes: SmallVec<[NodeId; 4]> = outs.by_ref().take(vectors).collect();
                let before = self.load_element(graph, exit_block, *element, carried)?;
                self.plus_lanes(graph, exit_block, before, &lanes)?
            } else {
                outs.next()?
            };
            let (base, index) = self.element_address(graph, *element)?;
            let kind = Kind::Primitive(carried.store, carried.of);
            graph.add_node(exit_block, kind, Ty::Nothing, &[base, index, value]);
        }
        let Some(runs) = skipped else { return Some((exit_block, values)) };
        let both = graph.add_block();
        let parameters = values.iter().map(|id| graph.parameter(both, graph.node(*id).ty)).collect();
        let branch = |target, args| Branch { target, args, ..Branch::default() };
        graph.blocks[exit_block].terminator = Terminator::Jump(branch(both, values));
        graph.blocks[from].terminator =
            Terminator::Branch(runs, [branch(preheader, Nodes::new()), branch(both, current.into())]);
        Some((both, parameters))
    }

    /// The steps that an iteration of the vector loop stands for, computed in `block`: `steps`, those of one iteration
    /// of the scalar loop, times the scalar iterations of a vector iteration.
    fn all_steps(&self, graph: &mut Graph, block: BlockIndex, steps: NodeId) -> Option<NodeId> {
        let iterations = self.factor.iterations();
        if let Some(steps) = graph.constant(steps) {
            return Some(graph.add_constant(Scalar::I64, steps.checked_mul(iterations)?));
        }
        let iterations = graph.add_constant(Scalar::I64, iterations);
        let times = Kind::Primitive(Primitive::WrappingMul, Scalar::I64);
        Some(graph.add_node(block, times, Ty::Scalar(Scalar::I64), &[steps, iterations]))
    }

    /// The sum of a value and all lanes of vectors.
    fn plus_lanes(&self, graph: &mut Graph, block: BlockIndex, value: NodeId, lanes: &[NodeId]) -> Option<NodeId> {
        let (mut sum, others) = (*lanes.first()?, &lanes[1..]);
        let add = Kind::Lanes(Primitive::WrappingAdd, Scalar::I32);
        for other in others {
            sum = graph.add_node(block, add, self.lanes_of(Scalar::I32), &[sum, *other]);
        }
        let i32 = Ty::Scalar(Scalar::I32);
        let sum = graph.add_node(block, Kind::SumLanes, i32, &[sum]);
        Some(graph.add_node(block, Kind::Primitive(Primitive::WrappingAdd, Scalar::I32), i32, &[value, sum]))
    }

    fn lanes_of(&self, of: Scalar) -> Ty {
        Ty::Lanes(of, self.factor.width)
    }

    /// The base of the buffer of an element that the loop itself carries, and the index.
    fn element_address(&self, graph: &Graph, element: Element) -> Option<(NodeId, NodeId)> {
        let (register, index) = element;
        let mut base = None;
        self.nest.for_each_node(graph, &mut |id| {
            // Any of them will do: GVN makes them one node.
            if let Some(((own, _), ..)) = access(graph, id)
                && own == register
            {
                base.get_or_insert(graph.node(id).args[0]);
            }
        });
        // A value that the loop does not compute is available before it: another access before the loop may have the
        // same base.
        let first = |id: NodeId| {
            if self.shapes.defined.contains(id.index()) { self.initial_values.get(&id).copied() } else { Some(id) }
        };
        Some((first(base?)?, first(index)?))
    }

    fn load_element(
        &self,
        graph: &mut Graph,
        block: BlockIndex,
        element: Element,
        carried: &Carried,
    ) -> Option<NodeId> {
        let (base, index) = self.element_address(graph, element)?;
        let Carried { load, of, .. } = *carried;
        Some(graph.add_node(block, Kind::Primitive(load, of), Ty::Scalar(of), &[base, index]))
    }
}

impl LoopBodyBuilder<'_, '_> {
    fn items(&mut self, items: &[Item]) -> Option<()> {
        for item in items {
            match item {
                Item::Nodes(block) => {
                    for id in self.graph.blocks[*block].nodes.clone() {
                        self.node(id)?;
                    }
                }
                Item::Loop(inner) => self.inner_loop(inner)?,
            }
        }
        Some(())
    }

    /// Adds the arguments for a parameter: one, or one for each vector. None for one that only side exits need.
    fn expand(&mut self, parameter: NodeId, value: NodeId, into: &mut Nodes) -> Option<()> {
        match self.of.shapes.get(parameter) {
            Shape::Varying => {
                for number in 0..self.of.factor.vectors {
                    into.push(self.vector(value, number)?);
                }
            }
            Shape::Unknown => {}
            Shape::Uniform | Shape::Strided(_) | Shape::Sequential => into.push(self.scalar(value)?),
        }
        Some(())
    }

    fn node(&mut self, id: NodeId) -> Option<()> {
        let shapes = self.of.shapes;
        let is_left_out = id == self.of.nest.test || matches!(shapes.get(id), Shape::Sequential | Shape::Unknown);
        if is_left_out || self.values.contains_key(&id) {
            return Some(());
        }
        let node = self.graph.node(id).clone();
        let value = match node.kind {
            kind if is_left_to_guards(kind) => return Some(()),
            Kind::Base(_) => Value::Scalar(*self.of.initial_values.get(&id)?),
            Kind::Primitive(primitive, _) if primitive.effect() == Effect::Store => return self.store(&node, id),
            Kind::Primitive(primitive, _) if primitive.effect() == Effect::Load => self.load_node(&node, id)?,
            _ if shapes.get(id) != Shape::Varying => {
                let mut args: SmallVec<[NodeId; 3]> = SmallVec::new();
                for arg in &node.args {
                    args.push(self.scalar(*arg)?);
                }
                Value::Scalar(self.add(node.kind, node.ty, &args))
            }
            // Lanes have no type: the vectors stay the same.
            kind if is_same_bits(kind, self.of.factor.width) => {
                let all = (0..self.of.factor.vectors).map(|number| self.vector(node.args[0], number));
                Value::Vectors(all.collect::<Option<_>>()?)
            }
            Kind::Number => {
                let mut all = SmallVec::new();
                for number in 0..self.of.factor.vectors {
                    let truth = self.vector(node.args[0], number)?;
                    let truth = self.truth_of_size(truth, Scalar::I32);
                    all.push(self.add(Kind::LaneNumbers, self.of.lanes_of(Scalar::I32), &[truth]));
                }
                Value::Vectors(all)
            }
            Kind::Primitive(primitive, of) if primitive.effect() == Effect::Trap => {
                let division = lanes::division(primitive, of)?;
                if of == Scalar::I64 { self.divide_wide(&node, division)? } else { self.divide(&node, division)? }
            }
            Kind::Primitive(primitive, of) => {
                let primitive = match &shapes.bytes {
                    Some(bytes) if self.of.factor.width.has_bytes() => bytes.primitive(self.graph, id)?,
                    _ => primitive,
                };
                if let Some(by) = self.constant_shift(&node, primitive, of) {
                    let all = (0..self.of.factor.vectors).map(|number| {
                        self.vector(node.args[0], number).map(|value| self.shifted(primitive, of, value, by))
                    });
                    let all = all.collect::<Option<_>>()?;
                    self.values.insert(id, Value::Vectors(all));
                    return Some(());
                }
                let mut all = SmallVec::new();
                for number in 0..self.of.factor.vectors {
                    let mut args: SmallVec<[NodeId; 3]> = SmallVec::new();
                    for arg in &node.args {
                        let vector = self.vector(*arg, number)?;
                        let is_truth = self.graph.node(*arg).ty == Ty::Truth;
                        args.push(if is_truth { self.truth_of_size(vector, of) } else { vector });
                    }
                    // A truth has as many bits as what is compared.
                    let result = if node.ty == Ty::Truth { of.integer() } else { node.scalar() };
                    all.push(self.add(Kind::Lanes(primitive, of), self.of.lanes_of(result), &args));
                }
                Value::Vectors(all)
            }
            _ => return None,
        };
        self.values.insert(id, value);
        Some(())
    }

    /// Copies a node of an inner loop, with its operands, before that loop.
    fn ensure(&mut self, id: NodeId) -> Option<()> {
        if self.of.shapes.defined.contains(id.index()) && !self.values.contains_key(&id) {
            for arg in self.graph.node(id).args.clone() {
                self.ensure(arg)?;
            }
            self.node(id)?;
        }
        Some(())
    }

    /// The scalar that a value became.
    fn scalar(&mut self, id: NodeId) -> Option<NodeId> {
        if !self.of.shapes.defined.contains(id.index()) {
            return Some(id);
        }
        match self.values.get(&id) {
            Some(Value::Scalar(one)) => Some(*one),
            _ => None,
        }
    }

    /// Vector number `number` of a value. A uniform one is splatted.
    fn vector(&mut self, id: NodeId, number: usize) -> Option<NodeId> {
        if let Some(Value::Vectors(all)) = self.values.get(&id) {
            return all.get(number).copied();
        }
        if self.of.shapes.get(id) != Shape::Uniform {
            return None;
        }
        let mut one = self.scalar(id)?;
        if self.graph.node(one).ty != Ty::Truth {
            let of = self.graph.node(one).scalar();
            return Some(self.add(Kind::Splat, self.of.lanes_of(of), &[one]));
        }
        one = self.add(Kind::Number, Ty::Scalar(Scalar::I32), &[one]);
        let all = self.add(Kind::Splat, self.of.lanes_of(Scalar::I32), &[one]);
        Some(self.add(Kind::Lanes(Primitive::IsNonzero, Scalar::I32), self.of.lanes_of(Scalar::I32), &[all]))
    }

    fn add(&mut self, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        // The counter of iterations that are made at once grows by one constant.
        if kind == Kind::Primitive(Primitive::WrappingAdd, Scalar::I64)
            && let Some(by) = self.graph.constant(args[1])
            && let before = self.graph.node(args[0])
            && before.kind == kind
            && let (first, Some(more)) = (before.args[0], self.graph.constant(before.args[1]))
        {
            let by = self.graph.add_constant(Scalar::I64, by.wrapping_add(more));
            return self.graph.add_node(self.block, kind, ty, &[first, by]);
        }
        self.graph.add_node(self.block, kind, ty, args)
    }

    /// By how much a node shifts, if that is a constant. Of the amount the lower bits count.
    fn constant_shift(&self, node: &Node, primitive: Primitive, of: Scalar) -> Option<u32> {
        let amount = node.args.get(1).filter(|_| lanes::can_shift(primitive, of, self.of.factor.width))?;
        Some(self.graph.constant(*amount)? as u32 & if of.is_wide() { 63 } else { 31 })
    }

    /// Lanes that are shifted by a constant.
    fn shifted(&mut self, primitive: Primitive, of: Scalar, value: NodeId, by: u32) -> NodeId {
        match by {
            0 => value,
            _ => self.add(Kind::ShiftLanes(primitive, of, by as u8), self.of.lanes_of(of), &[value]),
        }
    }

    /// A primitive on lanes of `i32`.
    fn lanes(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        self.add(Kind::Lanes(primitive, Scalar::I32), self.of.lanes_of(Scalar::I32), args)
    }

    fn integer(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        self.add(Kind::Primitive(primitive, Scalar::I64), Ty::Scalar(Scalar::I64), args)
    }
}

/// Counts the steps of an iteration before it begins. If they cannot be counted, the vector loop ends there, by the
/// exit that this gives: the scalar loop does the rest, and ends at the step at which the limit is reached.
pub(super) fn count(graph: &mut Graph, body: BlockIndex, steps: NodeId) -> ExitId {
    let exit = graph.add_exit(Exit {
        pc: 0,
        frame_state: Vec::new(),
        references: Vec::new(),
        pending_stores: Vec::new(),
        fallback: None,
    });
    let count = graph.add_node(body, Kind::CountSteps, Ty::Nothing, &[steps]);
    graph.nodes[count.index()].exit = Some(exit);
    exit
}

/// Whether a node only changes the type of lanes.
fn is_same_bits(kind: Kind, width: Width) -> bool {
    match kind {
        Kind::Cast => true,
        Kind::Primitive(primitive, _) if width.has_bytes() => primitive.byte_lanes() == Some(Lanes::SameBits),
        Kind::Primitive(primitive, of) => primitive.lanes(of) == Some(Lanes::SameBits),
        _ => false,
    }
}
