//! Inner loops of vector loops, which run once for all lanes.

use smallvec::SmallVec;

use super::body::{LoopBodyBuilder, UNROLLED, Unrolled, Value};
use super::transposition::transposable;
use crate::analysis::carried::Carried;
use crate::analysis::cost::{known_iterations, limits};
use crate::analysis::loop_nest::{Item, LoopNest};
use crate::analysis::shapes::{Element, Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Branch, Graph, Kind, NodeId, Nodes, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Scalar, Ty};

/// The nodes that an inner loop becomes without loops: each iteration of it and of the loops inside is a copy of the
/// body. None if one of them makes more than a few, as many as the window of a pooling or a convolution has.
fn copies(graph: &Graph, inner: &LoopNest) -> Option<u64> {
    let count = known_iterations(graph, inner).filter(|count| (1..=limits::COPIED_ITERATIONS).contains(count))?;
    let mut nodes = 0;
    for item in &inner.body {
        nodes += match item {
            Item::Nodes(block) => graph.blocks[*block].nodes.len() as u64,
            Item::Loop(inside) => copies(graph, inside)?,
        };
    }
    Some(nodes * count)
}

impl LoopBodyBuilder<'_, '_> {
    /// Builds an inner loop, which runs once for all lanes.
    pub(super) fn inner_loop(&mut self, inner: &LoopNest) -> Option<()> {
        let own = self.graph.blocks[inner.header].parameters.clone();
        let mut entering: Nodes = Nodes::new();
        for (parameter, start) in own.iter().zip(&inner.start) {
            self.expand(*parameter, *start, &mut entering)?;
        }
        // Elements that this loop carries, and no loop around it.
        let mut carried: Vec<(Element, Carried)> = self.of.shapes.elements(self.graph, inner)?;
        carried.retain(|(element, _)| !self.elements.contains_key(element));
        for ((_, index), _) in &carried {
            self.ensure(*index)?;
        }
        for (element, carried) in &carried {
            let values = self.load(inner, *element, carried)?;
            entering.extend_from_slice(&values);
            self.elements.insert(*element, (*carried, values));
        }
        // Elements that loops around carry are passed through.
        let mut others: Vec<Element> = self.elements.keys().copied().collect();
        others.retain(|element| !carried.iter().any(|(own, _)| own == element));
        others.sort();
        for element in &others {
            entering.extend_from_slice(&self.elements[element].1);
        }
        let all: Vec<Element> = carried.iter().map(|(element, _)| *element).chain(others).collect();
        if self.mask.is_none() && !self.of.factor.width.has_bytes() {
            self.unrolled.rows = transposable(self.graph, self.of.shapes, inner);
        }
        let fits = |copies: u64| copies * self.of.factor.vectors as u64 <= limits::COPIED_NODES;
        if self.unrolled.rows.is_empty() {
            match copies(self.graph, inner).filter(|copies| fits(*copies)) {
                Some(_) => self.all_iterations(inner, entering, &all)?,
                None => drop(self.iterations(inner, entering, &all, 1)?),
            }
        } else {
            let outside = self.values.clone();
            let left = self.iterations(inner, entering, &all, UNROLLED)?;
            self.unrolled = Unrolled::default();
            if known_iterations(self.graph, inner).is_none_or(|count| !count.is_multiple_of(UNROLLED)) {
                self.values = outside;
                self.iterations(inner, left, &all, 1)?;
            }
        }
        for (element, Carried { store, .. }) in carried {
            let (_, values) = self.elements.remove(&element)?;
            let (base, index) = (self.base(inner, element.0)?, self.scalar(element.1)?);
            for (number, value) in values.into_iter().enumerate() {
                self.access(Kind::StoreLanes(store, number as u8), Ty::Nothing, &[base, index, value]);
            }
        }
        Some(())
    }

    /// Builds a loop that makes `count` iterations of an inner loop at once, as long as there are so many; with more
    /// than one, the test has to be in the header. It is entered with these values of the parameters and of the
    /// elements that it carries. Gives the values after it.
    fn iterations(&mut self, inner: &LoopNest, entering: Nodes, carried: &[Element], count: u64) -> Option<Nodes> {
        let header = self.graph.add_block();
        let types: Vec<Ty> = entering.iter().map(|id| self.graph.node(*id).ty).collect();
        let parameters: Nodes = types.into_iter().map(|ty| self.graph.parameter(header, ty)).collect();
        let from = self.block;
        self.graph.blocks[from].terminator =
            Terminator::Jump(Branch { target: header, args: entering, ..Branch::default() });
        self.graph.blocks[from].preheader_exit = Some(self.of.exit);
        self.block = header;
        let outside = if count > 1 { self.values.clone() } else { Table::default() };
        self.begin_iteration(inner, &parameters, carried)?;
        let mut elements = Table::default();
        let mut items = &inner.body[..];
        let mut tested = None;
        if inner.is_top_tested {
            self.items(&items[..1])?;
            elements = self.elements.clone();
            items = &items[1..];
            let test = if count == 1 { self.scalar(inner.test)? } else { self.test_of_last(inner, count - 1)? };
            let body = self.graph.add_block();
            tested = Some((test, body, self.block, self.values.clone()));
            self.block = body;
        }
        self.items(items)?;
        let mut next = self.next_values(inner, carried)?;
        for iteration in 1..count {
            self.unrolled.iteration = iteration as usize;
            self.values = outside.clone();
            self.begin_iteration(inner, &next, carried)?;
            self.items(&inner.body)?;
            next = self.next_values(inner, carried)?;
        }
        let latch = self.block;
        let after = self.graph.add_block();
        let back = Branch { target: header, args: next, ..Branch::default() };
        let out = Branch { target: after, ..Branch::default() };
        self.block = after;
        match tested {
            Some((test, body, at, values)) => {
                self.graph.blocks[latch].terminator = Terminator::Jump(back);
                let into = Branch { target: body, ..Branch::default() };
                self.graph.blocks[at].terminator = Terminator::Branch(test, [into, out]);
                // The header dominates the exit: its parameters and nodes are available there, and no others of the
                // loop.
                self.values = values;
                self.elements = elements;
            }
            None => {
                let test = self.scalar(inner.test)?;
                self.graph.blocks[latch].terminator = Terminator::Branch(test, [back, out]);
            }
        }
        Some(parameters)
    }

    /// Makes the iterations of an inner loop, whose number is constant, one after the other without a loop.
    fn all_iterations(&mut self, inner: &LoopNest, entering: Nodes, carried: &[Element]) -> Option<()> {
        let outside = self.values.clone();
        let mut next = entering;
        for iteration in 0..known_iterations(self.graph, inner)? {
            if iteration > 0 {
                self.values.clone_from(&outside);
            }
            self.begin_iteration(inner, &next, carried)?;
            self.items(&inner.body)?;
            next = self.next_values(inner, carried)?;
        }
        if inner.is_top_tested {
            // The values that are available after the loop: its parameters, and the nodes of its header.
            self.values = outside;
            self.begin_iteration(inner, &next, carried)?;
            self.items(&inner.body[..1])?;
        }
        Some(())
    }

    /// Notes the values with which an iteration of an inner loop begins: those of the parameters, and of the elements
    /// that it carries.
    fn begin_iteration(&mut self, inner: &LoopNest, values: &[NodeId], carried: &[Element]) -> Option<()> {
        let vectors = self.of.factor.vectors;
        let mut values = values.iter().copied();
        for parameter in self.graph.blocks[inner.header].parameters.clone() {
            let value = match self.of.shapes.get(parameter) {
                Shape::Varying => Value::Vectors(values.by_ref().take(vectors).collect()),
                Shape::Unknown => continue,
                Shape::Uniform | Shape::Strided(_) | Shape::Sequential => Value::Scalar(values.next()?),
            };
            self.values.insert(parameter, value);
        }
        for element in carried {
            self.elements.get_mut(element)?.1 = values.by_ref().take(vectors).collect();
        }
        Some(())
    }

    /// The values with which the next iteration begins.
    fn next_values(&mut self, inner: &LoopNest, carried: &[Element]) -> Option<Nodes> {
        let mut values = Nodes::new();
        for (parameter, next) in self.graph.blocks[inner.header].parameters.clone().iter().zip(&inner.next) {
            self.expand(*parameter, *next, &mut values)?;
        }
        for element in carried {
            values.extend_from_slice(&self.elements[element].1);
        }
        Some(values)
    }

    /// Whether there is an iteration that is `ahead` of the one that begins. Guards have checked that the sum does not
    /// wrap.
    fn test_of_last(&mut self, inner: &LoopNest, ahead: u64) -> Option<NodeId> {
        let parameter = self.graph.blocks[inner.header].parameters[inner.induction];
        let (current, bound) = (self.scalar(parameter)?, self.scalar(inner.bound)?);
        let ahead = self.graph.add_constant(Scalar::I64, ahead.checked_mul(inner.step)?);
        let last = self.integer(Primitive::WrappingAdd, &[current, ahead]);
        Some(self.add(Kind::Primitive(Primitive::LtS, Scalar::I64), Ty::Truth, &[last, bound]))
    }

    /// The base of a buffer that a loop accesses.
    fn base(&mut self, inner: &LoopNest, register: u16) -> Option<NodeId> {
        let mut found = None;
        inner.for_each_node(self.graph, &mut |id| {
            if let Some(((own, _), ..)) = access(self.graph, id)
                && own == register
            {
                found = Some(self.graph.node(id).args[0]);
            }
        });
        self.ensure(found?)?;
        self.scalar(found?)
    }

    /// Loads the vectors of an element that a loop carries.
    fn load(&mut self, inner: &LoopNest, element: Element, carried: &Carried) -> Option<SmallVec<[NodeId; 4]>> {
        let (base, index) = (self.base(inner, element.0)?, self.scalar(element.1)?);
        let (primitive, ty) = (carried.load, self.of.lanes_of(carried.of));
        let numbers = 0..self.of.factor.vectors as u8;
        Some(numbers.map(|number| self.access(Kind::LoadLanes(primitive, number), ty, &[base, index])).collect())
    }
}
