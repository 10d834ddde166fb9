//! Inner loops of vector loops, which run once for all lanes.

use smallvec::SmallVec;

use super::{LoopBodyBuilder, Value};
use crate::analysis::loop_nest::LoopNest;
use crate::analysis::shapes::{Element, Shape, access};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Branch, Kind, NodeId, Nodes, Terminator};
use crate::ir::types::Ty;

impl LoopBodyBuilder<'_, '_> {
    /// Builds an inner loop, which runs once for all lanes.
    pub(super) fn inner_loop(&mut self, inner: &LoopNest) -> Option<()> {
        let own = self.graph.blocks[inner.header].parameters.clone();
        let mut entering: Nodes = Nodes::new();
        for (parameter, start) in own.iter().zip(&inner.start) {
            self.expand(*parameter, *start, &mut entering)?;
        }
        // Elements that this loop carries, and no loop around it.
        let mut carried: Vec<(Element, Primitive)> = self.of.shapes.elements(self.graph, inner)?;
        carried.retain(|(element, _)| !self.elements.contains_key(element));
        for ((_, index), _) in &carried {
            self.ensure(*index)?;
        }
        for (element, store) in &carried {
            let values = self.load(inner, *element, *store)?;
            entering.extend_from_slice(&values);
            self.elements.insert(*element, values);
        }
        // Elements that loops around carry are passed through.
        let mut others: Vec<Element> = self.elements.keys().copied().collect();
        others.retain(|element| !carried.iter().any(|(own, _)| own == element));
        others.sort();
        for element in &others {
            entering.extend_from_slice(&self.elements[element]);
        }
        let from = self.block;
        let header = self.graph.add_block();
        let parameters: Nodes = entering
            .iter()
            .map(|id| self.graph.node(*id).ty)
            .collect::<Vec<_>>()
            .into_iter()
            .map(|ty| self.graph.parameter(header, ty))
            .collect();
        self.graph.blocks[from].terminator =
            Terminator::Jump(Branch { target: header, args: entering, ..Branch::default() });
        self.graph.blocks[from].preheader_exit = Some(self.of.exit);
        self.block = header;
        let mut at = parameters.iter().copied();
        for parameter in &own {
            let value = match self.of.shapes.get(*parameter) {
                Shape::Varying => Value::Vectors(at.by_ref().take(self.of.factor.vectors).collect()),
                _ => Value::Scalar(at.next()?),
            };
            self.values.insert(*parameter, value);
        }
        let all: Vec<Element> = carried.iter().map(|(element, _)| *element).chain(others).collect();
        for element in &all {
            let values = at.by_ref().take(self.of.factor.vectors).collect();
            self.elements.insert(*element, values);
        }
        let begin = (self.values.clone(), self.elements.clone());
        let mut items = &inner.body[..];
        let mut tested = None;
        if inner.is_top_tested {
            self.items(&items[..1])?;
            items = &items[1..];
            let test = self.scalar(inner.test)?;
            let body = self.graph.add_block();
            tested = Some((test, body, self.block, self.values.clone()));
            self.block = body;
        }
        self.items(items)?;
        let mut back = Nodes::new();
        for (parameter, next) in own.iter().zip(&inner.next) {
            self.expand(*parameter, *next, &mut back)?;
        }
        for element in &all {
            back.extend_from_slice(&self.elements[element]);
        }
        let latch = self.block;
        let back = Branch { target: header, args: back, ..Branch::default() };
        match tested {
            Some((test, body, at, values)) => {
                self.graph.blocks[latch].terminator = Terminator::Jump(back);
                let after = self.graph.add_block();
                let (into, out) =
                    (Branch { target: body, ..Branch::default() }, Branch { target: after, ..Branch::default() });
                self.graph.blocks[at].terminator = Terminator::Branch(test, into, out);
                self.block = after;
                // The header dominates the exit: its parameters and nodes are available there, and no others of the loop.
                self.values = values;
                self.elements = begin.1;
            }
            None => {
                let test = self.scalar(inner.test)?;
                let after = self.graph.add_block();
                self.graph.blocks[latch].terminator =
                    Terminator::Branch(test, back, Branch { target: after, ..Branch::default() });
                self.block = after;
            }
        }
        for (element, store) in carried {
            let values = self.elements.remove(&element)?;
            let (base, index) = (self.base(inner, element.0)?, self.scalar(element.1)?);
            for (number, value) in values.into_iter().enumerate() {
                self.add(Kind::StoreLanes(store, number as u8), Ty::Nothing, &[base, index, value]);
            }
        }
        Some(())
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
    fn load(&mut self, inner: &LoopNest, element: Element, store: Primitive) -> Option<SmallVec<[NodeId; 4]>> {
        let (base, index) = (self.base(inner, element.0)?, self.scalar(element.1)?);
        let (primitive, of) = store.whole_load()?;
        let ty = self.of.lanes_of(of);
        let numbers = 0..self.of.factor.vectors as u8;
        Some(numbers.map(|number| self.add(Kind::LoadLanes(primitive, number), ty, &[base, index])).collect())
    }
}
