//! Values as polynomials: each `i64` of a function is congruent, modulo 2 to the number of its bits, to a polynomial
//! over atoms. Sums, differences and products are computed; parameters of a loop header that grow by the same in each
//! iteration are their start plus that times the number of iterations, which is an atom of the loop.
//!
//! That holds wherever the value is available, so it needs no facts. Whether a value *is* what its polynomial gives,
//! without wrapping, does, and `prover` finds it.

use std::rc::Rc;

use smallvec::SmallVec;

use super::budget::Budget;
use super::flow::{At, Edge, Flow, less};
use super::poly::{Atom, Poly, wrapped};
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Linear, Scalar, Ty};

/// Most operations from a value to those that it is computed of. Beyond, they are atoms.
const MAX_DEPTH: u32 = 40;
/// Most nodes of the step of a parameter.
const MAX_STEP_NODES: u32 = 64;

/// The meaning of an atom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Meaning {
    /// No value.
    Nothing,
    /// A value, as a number with a sign.
    Node(NodeId),
    /// The address of the buffer in a register.
    Base(u16),
    /// The number of its elements of a size.
    Elements(u16, u8),
    /// How far the loop with this header has come: the iterations after the first one.
    Iterations(BlockIndex),
    /// By which of the branches to this block it was entered, as a number that is not negative.
    Entered(BlockIndex),
}

/// A counted loop: what its counter stays below, for as long as it goes on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Counted {
    /// The parameter of the header that is the counter.
    pub counter: NodeId,
    pub bound: NodeId,
    /// By what the counter grows.
    pub step: Step,
    /// By how much the number that is tested is more than the counter.
    pub ahead: i128,
    /// The counter of this iteration is tested before its body, and not that of the next one after it.
    pub is_top_tested: bool,
}

/// By what a counter grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Constant(i128),
    /// By the same in each iteration. It has to be positive.
    Invariant(NodeId),
    /// By what it is away from the bound, so that there is no other iteration.
    ToBound,
}

/// The polynomials of a few values.
type Polys = SmallVec<[Rc<Poly>; 3]>;

type Edges<'g> = SmallVec<[Edge<'g>; 2]>;

pub(super) struct Values<'g> {
    pub graph: &'g Graph,
    pub flow: Flow<'g>,
    /// The width of an `i64`: 64, but in tests.
    pub bits: u32,
    /// The values that a check compares with a constant. They are atoms, which the prover resolves where they do not
    /// wrap.
    pub bounded: Bits,
    known: Vec<Meaning>,
    /// There are more atoms than numbers for them.
    pub is_full: bool,
    numbers: Table<Meaning, Atom>,
    polys: Vec<Option<Rc<Poly>>>,
    pub loops: Table<BlockIndex, Counted>,
}

impl<'g> Values<'g> {
    pub fn new(graph: &'g Graph, flow: Flow<'g>, bits: u32) -> Values<'g> {
        let mut bounded = Bits::new(graph.nodes.len());
        for id in flow.order.iter().flat_map(|block| &graph.blocks[*block].nodes) {
            let node = graph.node(*id);
            if node.kind == Kind::InRange && graph.constant(node.args[1]).is_some() {
                bounded.insert(node.args[0].index());
            }
        }
        let polys = vec![None; graph.nodes.len()];
        let (known, numbers, loops) = (vec![Meaning::Nothing], Table::default(), Table::default());
        Values { graph, flow, bits, bounded, known, is_full: false, numbers, polys, loops }
    }

    pub fn atom(&mut self, known: Meaning) -> Atom {
        // Numbers begin with one. With too many, some would stand for several values, and nothing is proved.
        let next = self.known.len().min(Atom::MAX.into()) as Atom;
        let atom = *self.numbers.entry(known).or_insert(next);
        if atom == next && next < Atom::MAX {
            self.known.push(known);
        }
        self.is_full |= atom == Atom::MAX;
        atom
    }

    pub fn known(&self, atom: Atom) -> Meaning {
        self.known.get(usize::from(atom)).copied().unwrap_or(Meaning::Nothing)
    }

    fn whole(&mut self, known: Meaning) -> Poly {
        Poly::atom(self.atom(known))
    }

    /// The polynomial of an `i64`.
    pub fn poly(&mut self, id: NodeId, budget: &mut Budget) -> Option<Rc<Poly>> {
        self.poly_at(id, 0, budget)
    }

    fn poly_at(&mut self, id: NodeId, depth: u32, budget: &mut Budget) -> Option<Rc<Poly>> {
        if let Some(poly) = &self.polys[id.index()] {
            return Some(poly.clone());
        }
        budget.spend(1)?;
        // Only parameters can depend on themselves, and what does is found in the graph by their blocks.
        let poly = match self.graph.node(id).kind {
            _ if depth == MAX_DEPTH => None,
            Kind::Parameter => {
                if let Some(At(block, _)) = self.flow.at(id) {
                    self.parameters(block, depth + 1, budget)?;
                    return self.polys[id.index()].clone();
                }
                None
            }
            Kind::Primitive(..) if self.bounded.contains(id.index()) => None,
            _ => self.computed(id, depth, budget),
        };
        let poly = Rc::new(poly.unwrap_or_else(|| self.whole(Meaning::Node(id))));
        self.polys[id.index()] = Some(poly.clone());
        Some(poly)
    }

    /// Whether the polynomial of a value is the value itself.
    pub fn is_atom(&mut self, id: NodeId, budget: &mut Budget) -> Option<bool> {
        let poly = self.poly(id, budget)?;
        Some(match poly.0.as_slice() {
            [(product, 1)] => product.as_atom().is_some_and(|atom| self.known(atom) == Meaning::Node(id)),
            _ => false,
        })
    }

    /// The polynomial of a value by what it is computed of.
    pub fn computed(&mut self, id: NodeId, depth: u32, budget: &mut Budget) -> Option<Poly> {
        let node = self.graph.node(id);
        match node.kind {
            Kind::Constant(bits) => Some(Poly::constant(wrapped(bits.into(), self.bits) as i64)),
            Kind::Base(register) => Some(self.whole(Meaning::Base(register))),
            Kind::Elements(register, shift) => Some(self.whole(Meaning::Elements(register, shift))),
            Kind::Primitive(primitive, Scalar::I64) => {
                let linear = primitive.linear()?;
                let mut args = Polys::new();
                for arg in &node.args {
                    args.push(self.poly_at(*arg, depth + 1, budget)?);
                }
                self.combined(linear, &args)
            }
            _ => None,
        }
    }

    fn combined(&self, linear: Linear, args: &[Rc<Poly>]) -> Option<Poly> {
        let result = match (linear, args) {
            (Linear::Sum, [a, b]) => a.plus(1, b),
            (Linear::Difference, [a, b]) => a.plus(-1, b),
            (Linear::Product, [a, b]) => a.times(b),
            (Linear::ProductAndSum, [a, b, c]) => a.times(b)?.plus(1, c),
            _ => None,
        };
        // With coefficients that wrap, it would be another number.
        result.filter(|poly| poly.fits(self.bits))
    }

    /// Whether a polynomial is the same all through the loop with this header, and available at this block otherwise.
    fn is_before(&self, poly: &Poly, block: BlockIndex) -> bool {
        poly.atoms().all(|atom| match self.known(atom) {
            Meaning::Node(id) => self.flow.is_before(id, block),
            Meaning::Nothing => false,
            Meaning::Base(_) | Meaning::Elements(..) => true,
            Meaning::Iterations(other) | Meaning::Entered(other) => other != block && self.flow.is_above(other, block),
        })
    }

    /// Finds the polynomials of all parameters of a block, if it is entered by branches alone.
    fn parameters(&mut self, block: BlockIndex, depth: u32, budget: &mut Budget) -> Option<()> {
        let graph = self.graph;
        let parameters = &graph.blocks[block].parameters;
        for id in parameters {
            let atom = self.whole(Meaning::Node(*id));
            self.polys[id.index()] = Some(Rc::new(atom));
        }
        let edges = &self.flow.edges[block.index()];
        budget.spend(parameters.len() * edges.len())?;
        if graph.blocks[block].entry.is_some() || edges.iter().any(|edge| edge.branch.args.len() != parameters.len()) {
            return Some(());
        }
        let (back, enter): (Edges<'g>, Edges<'g>) =
            edges.iter().copied().partition(|edge| self.flow.is_above(block, edge.from));
        let mut brought: Vec<Polys> = Vec::with_capacity(parameters.len());
        for index in 0..parameters.len() {
            let mut polys = Polys::new();
            for edge in &enter {
                let arg = edge.branch.args[index];
                polys.push(if graph.node(arg).ty == Ty::Scalar(Scalar::I64) {
                    self.poly_at(arg, depth, budget)?
                } else {
                    Rc::new(self.whole(Meaning::Node(arg)))
                });
            }
            brought.push(polys);
        }
        let same = |polys: &Polys| polys.first().filter(|first| polys.iter().all(|poly| poly == *first)).cloned();
        let starts: Vec<Option<Rc<Poly>>> =
            brought.iter().map(|polys| same(polys).filter(|start| self.is_before(start, block))).collect();
        let is_number = |id: &NodeId| graph.node(*id).ty == Ty::Scalar(Scalar::I64);
        if !back.is_empty() {
            if let [back] = back[..] {
                self.count(block, back.branch.args.as_slice(), back.from, budget);
            }
            for (index, id) in parameters.iter().enumerate().filter(|(_, id)| is_number(id)) {
                let mut steps: SmallVec<[_; 2]> = SmallVec::new();
                for edge in &back {
                    steps.push(self.step(block, *id, edge.branch.args[index], budget)?);
                }
                let step = steps
                    .first()
                    .cloned()
                    .flatten()
                    .filter(|step| steps.iter().all(|other| other.as_ref() == Some(step)));
                let (Some(start), Some(step)) = (&starts[index], step) else { continue };
                let Some(by) = self.per_iteration(block, step) else { continue };
                let iterations = self.whole(Meaning::Iterations(block));
                let value = by.times(&iterations).and_then(|grown| start.plus(1, &grown));
                if let Some(value) = value.filter(|value| value.fits(self.bits)) {
                    self.polys[id.index()] = Some(Rc::new(value));
                }
            }
            return Some(());
        }
        for (id, start) in parameters.iter().zip(&starts).filter(|(id, _)| is_number(id)) {
            if let Some(start) = start {
                self.polys[id.index()] = Some(start.clone());
            }
        }
        if starts.iter().zip(parameters).any(|(start, id)| start.is_none() && is_number(id)) {
            self.merge(block, &brought)?;
        }
        Some(())
    }

    /// Finds parameters that differ between the branches to a block by multiples of one number: where a loop may be
    /// skipped, how far it has come.
    fn merge(&mut self, block: BlockIndex, brought: &[Polys]) -> Option<()> {
        let parameters = self.graph.blocks[block].parameters.clone();
        let count = brought.first().map_or(0, SmallVec::len);
        for base in 0..count {
            // For each other branch the atom that the number is there.
            let mut numbers: Vec<Option<Atom>> = vec![None; count];
            let mut found: Vec<(NodeId, &Polys, Poly)> = Vec::new();
            for (polys, id) in brought.iter().zip(&parameters) {
                let mut by: Option<Poly> = None;
                let fits = self.is_before(&polys[base], block)
                    && (0..count).all(|edge| {
                        let Some(more) = polys[edge].plus(-1, &polys[base]) else { return false };
                        if more.0.is_empty() {
                            return true;
                        }
                        // A number that is never negative, whatever wraps.
                        let is_counter = |atom: &Atom| match self.known(*atom) {
                            Meaning::Iterations(other) => {
                                self.loops.get(&other).is_none_or(|counted| counted.step != Step::ToBound)
                            }
                            Meaning::Entered(_) => true,
                            _ => false,
                        };
                        let number = numbers[edge].or_else(|| more.atoms().find(is_counter));
                        let Some((factor, rest)) = number.and_then(|number| more.split(number)) else { return false };
                        numbers[edge] = number;
                        rest.0.is_empty()
                            && self.is_before(&factor, block)
                            && *by.get_or_insert_with(|| factor.clone()) == factor
                    });
                if fits && let Some(by) = by {
                    found.push((*id, polys, by));
                }
            }
            // All parameters grow with the number of a branch, or the branch has none.
            found.retain(|(_, polys, _)| (0..count).all(|edge| numbers[edge].is_none() || polys[edge] != polys[base]));
            if numbers.iter().any(Option::is_some) && !found.is_empty() {
                let entered = self.whole(Meaning::Entered(block));
                for (id, polys, by) in found {
                    let value = by.times(&entered).and_then(|more| polys[base].plus(1, &more));
                    if let Some(value) = value.filter(|value| value.fits(self.bits)) {
                        self.polys[id.index()] = Some(Rc::new(value));
                    }
                }
                return Some(());
            }
        }
        Some(())
    }

    /// By how much the argument of a back edge is more than the parameter, in terms of the parameters of the header, if
    /// that is known.
    fn step(
        &mut self,
        block: BlockIndex,
        parameter: NodeId,
        next: NodeId,
        budget: &mut Budget,
    ) -> Option<Option<Poly>> {
        let mut left = MAX_STEP_NODES;
        let next = self.within(block, next, &mut left, budget)?;
        let own = self.whole(Meaning::Node(parameter));
        Some(next.and_then(|next| next.plus(-1, &own)).filter(|step| step.fits(self.bits)))
    }

    /// A value inside a loop, in which the parameters of the header are atoms.
    fn within(
        &mut self,
        block: BlockIndex,
        id: NodeId,
        left: &mut u32,
        budget: &mut Budget,
    ) -> Option<Option<Rc<Poly>>> {
        budget.spend(1)?;
        let graph = self.graph;
        if graph.blocks[block].parameters.contains(&id) {
            return Some(Some(Rc::new(self.whole(Meaning::Node(id)))));
        }
        if self.flow.is_before(id, block) {
            return self.poly(id, budget).map(Some);
        }
        let node = graph.node(id);
        let linear = match node.kind {
            Kind::Primitive(primitive, Scalar::I64) => primitive.linear(),
            _ => None,
        };
        let (Some(linear), true) = (linear, *left > 0) else { return Some(None) };
        *left -= 1;
        let mut args = Polys::new();
        for arg in &node.args {
            let Some(arg) = self.within(block, *arg, left, budget)? else { return Some(None) };
            args.push(arg);
        }
        Some(self.combined(linear, &args).map(Rc::new))
    }

    /// The factor by which a parameter grows with the loop's number of iterations: its step, if that is always the
    /// same.
    fn per_iteration(&self, block: BlockIndex, step: Poly) -> Option<Poly> {
        let single = self.loops.get(&block).filter(|counted| counted.step == Step::ToBound);
        let Some(counted) = single else { return self.is_before(&step, block).then_some(step) };
        if step.0.is_empty() {
            return Some(step);
        }
        // The steps of all parameters are multiples of how far the counter is away from the bound.
        let counter = *self.numbers.get(&Meaning::Node(counted.counter))?;
        let bound = self.polys[counted.bound.index()].clone()?;
        let by = Poly::default().plus(-1, &step.split(counter)?.0)?;
        let left = bound.plus(-1, &Poly::atom(counter))?;
        (by.times(&left)? == step && self.is_before(&by, block)).then_some(by)
    }

    /// Finds out how a loop with one back edge is counted.
    fn count(&mut self, block: BlockIndex, next: &[NodeId], latch: BlockIndex, budget: &mut Budget) {
        let graph = self.graph;
        let parameters = &graph.blocks[block].parameters;
        let tested = |at: BlockIndex| match &graph.blocks[at].terminator {
            Terminator::Branch(test, [then, otherwise]) if then.target != otherwise.target => {
                less(graph, *test).map(|(a, b)| (a, b, then.target))
            }
            _ => None,
        };
        let top = tested(block).and_then(|(tested, bound, body)| {
            let (counter, ahead) = self.sum(tested);
            let index = parameters.iter().position(|id| *id == counter)?;
            let only = self.flow.edges[body.index()].len() == 1 && body != block && self.flow.is_above(body, latch);
            only.then_some((index, bound, Some(ahead)))
        });
        let bottom = || {
            let (tested, bound, target) = tested(latch)?;
            let index = next.iter().position(|id| *id == tested)?;
            (target == block).then_some((index, bound, None))
        };
        let Some((index, bound, ahead)) = top.or_else(bottom) else { return };
        if !self.flow.is_before(bound, block) || graph.node(parameters[index]).ty != Ty::Scalar(Scalar::I64) {
            return;
        }
        let Some(Some(step)) = self.step(block, parameters[index], next[index], budget) else { return };
        let counter = parameters[index];
        let addend = |next: NodeId| {
            let node = graph.node(next);
            let adds = node.kind == Kind::Primitive(Primitive::WrappingAdd, Scalar::I64) && node.args[0] == counter;
            adds.then(|| node.args[1]).filter(|by| self.flow.is_before(*by, block))
        };
        let step = match step.as_constant() {
            Some(step) if step > 0 && step < 1 << (self.bits / 2) => Step::Constant(step.into()),
            Some(_) => return,
            None => match addend(next[index]) {
                Some(by) => Step::Invariant(by),
                None => {
                    let Some(bound) = self.poly(bound, budget) else { return };
                    let own = self.whole(Meaning::Node(counter));
                    if ahead != Some(0) || bound.plus(-1, &own).as_ref() != Some(&step) {
                        return;
                    }
                    Step::ToBound
                }
            },
        };
        let counted = Counted { counter, bound, step, ahead: ahead.unwrap_or(0), is_top_tested: ahead.is_some() };
        self.loops.insert(block, counted);
    }

    /// A value without a constant that is added to it, and that constant, if it is small and not negative.
    fn sum(&self, id: NodeId) -> (NodeId, i128) {
        let node = self.graph.node(id);
        if node.kind == Kind::Primitive(Primitive::WrappingAdd, Scalar::I64)
            && let Some(bits) = self.graph.constant(node.args[1])
            && bits < 1 << (self.bits / 2)
        {
            return (node.args[0], bits.into());
        }
        (id, 0)
    }

    /// The mask of an access: the first lanes, as many as an `i32` says, or none if it is negative. Gives that number.
    pub fn first_lanes(&self, mask: NodeId) -> Option<NodeId> {
        let node = self.graph.node(mask);
        match node.kind {
            Kind::Lanes(Primitive::Sext64 | Primitive::Low32, Scalar::I64)
                if self.graph.node(node.args[0]).ty.width() == node.ty.width() =>
            {
                self.first_lanes(node.args[0])
            }
            Kind::Lanes(Primitive::LtS, Scalar::I32) => {
                let (numbers, count) = (self.graph.node(node.args[0]), self.graph.node(node.args[1]));
                let is_mask = numbers.kind == Kind::Multiples(1)
                    && count.kind == Kind::Splat
                    && (numbers.ty, count.ty) == (node.ty, node.ty)
                    && self.graph.node(count.args[0]).ty == Ty::Scalar(Scalar::I32);
                is_mask.then(|| count.args[0])
            }
            _ => None,
        }
    }

    pub fn at(&self, id: NodeId) -> Option<At> {
        self.flow.at(id)
    }
}
