//! Sequential values of a vector loop, each of which depends on the iteration before: they are computed lane by lane.

use smallvec::SmallVec;

use super::body::LoopBodyBuilder;
use crate::analysis::carried::Carried;
use crate::analysis::shapes::{Element, Role, Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, NodeId, Nodes};
use crate::ir::hash::Table;
use crate::ir::types::{Scalar, Ty};

impl LoopBodyBuilder<'_, '_> {
    /// Computes sequential values, one lane after the other. Gives the sequential parameters of the next iteration, and
    /// then the elements that the loop carries.
    pub(super) fn sequential_lanes(&mut self, carried: &[NodeId]) -> Option<Nodes> {
        let (nest, shapes) = (self.of.nest, self.of.shapes);
        let own = self.graph.blocks[nest.header].parameters.clone();
        let mut current: Table<NodeId, NodeId> = Table::default();
        let mut elements: Table<Element, (Carried, NodeId)> = shapes
            .carried
            .iter()
            .zip(carried)
            .map(|((element, carried), value)| (*element, (*carried, *value)))
            .collect();
        for (parameter, role) in own.iter().zip(&shapes.roles) {
            if *role == Role::Sequential {
                current.insert(*parameter, self.scalar(*parameter)?);
            }
        }
        if current.is_empty() && elements.is_empty() {
            return Some(Nodes::new());
        }
        let mut nodes = Vec::new();
        nest.for_each_node(self.graph, &mut |id| nodes.push(id));
        for lane in 0..self.of.factor.iterations() {
            for id in &nodes {
                let is_carried = access(self.graph, *id).filter(|(element, ..)| elements.contains_key(element));
                if let Some((element, _, stores)) = is_carried {
                    if stores {
                        let stored = self.graph.node(*id).args[2];
                        let mut value = self.sequential_value(stored, lane, &current)?;
                        let (carried, _) = elements[&element];
                        if let Some(extension) = carried.extension_of(self.graph, stored) {
                            let kind = Kind::Primitive(extension, Scalar::I32);
                            value = self.add(kind, Ty::Scalar(Scalar::I32), &[value]);
                        }
                        elements.insert(element, (carried, value));
                    } else {
                        current.insert(*id, elements[&element].1);
                    }
                } else if shapes.get(*id) == Shape::Sequential && self.graph.node(*id).ty != Ty::Truth {
                    let new = self.sequential_node(*id, lane, &current)?;
                    current.insert(*id, new);
                }
            }
            let mut next = Vec::new();
            for ((parameter, next_value), role) in own.iter().zip(&nest.next).zip(&shapes.roles) {
                if *role == Role::Sequential {
                    next.push((*parameter, self.sequential_value(*next_value, lane, &current)?));
                }
            }
            current.extend(next);
        }
        let parameters = own.iter().zip(&shapes.roles).filter(|(_, role)| **role == Role::Sequential);
        let parameters = parameters.map(|(parameter, _)| current[parameter]);
        Some(parameters.chain(shapes.carried.iter().map(|(element, _)| elements[element].1)).collect())
    }

    /// Copies a node for one lane.
    fn sequential_node(&mut self, id: NodeId, lane: u64, current: &Table<NodeId, NodeId>) -> Option<NodeId> {
        let node = self.graph.node(id).clone();
        let mut args: SmallVec<[NodeId; 3]> = SmallVec::new();
        for arg in &node.args {
            args.push(self.sequential_value(*arg, lane, current)?);
        }
        Some(self.add(node.kind, node.ty, &args))
    }

    /// A value in one lane.
    fn sequential_value(&mut self, id: NodeId, lane: u64, current: &Table<NodeId, NodeId>) -> Option<NodeId> {
        if !self.of.shapes.defined.contains(id.index()) {
            return Some(id);
        }
        if let Some(value) = current.get(&id) {
            return Some(*value);
        }
        if self.graph.node(id).ty == Ty::Truth {
            return self.sequential_node(id, lane, current);
        }
        match self.of.shapes.get(id) {
            Shape::Uniform => self.scalar(id),
            Shape::Strided(by) => {
                let one = self.scalar(id)?;
                let by = self.graph.add_constant(Scalar::I64, (by as u64).wrapping_mul(lane));
                Some(self.integer(Primitive::WrappingAdd, &[one, by]))
            }
            Shape::Varying => {
                let lanes = self.of.factor.width.lanes();
                let vector = self.vector(id, (lane / lanes) as usize)?;
                let of = self.graph.node(vector).scalar();
                Some(self.add(Kind::Extract((lane % lanes) as u8), Ty::Scalar(of), &[vector]))
            }
            Shape::Sequential | Shape::Unknown => None,
        }
    }
}
