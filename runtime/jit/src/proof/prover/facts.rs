//! The facts at a position: what the checks and tests say that are on every path to it. Those of checks are kept, since
//! the blocks of a loop share most of them.

use std::rc::Rc;

use super::super::flow::less;
use super::super::poly::{Atom, Poly};
use super::super::values::Meaning;
use super::{Checked, Facts, Prover, Window};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Kind, NodeId};
use crate::ir::types::Scalar;

impl Prover<'_> {
    /// Collects what holds in a block after so many of its checks.
    pub(in super::super) fn collect(&mut self, block: BlockIndex, checks: usize) -> Option<()> {
        let graph = self.values.graph;
        let (blocks, tests) = self.values.flow.dominating(block, &mut self.budget)?;
        let own = [(block, checks)].into_iter().filter(|(_, checks)| *checks > 0);
        let mut all = own
            .chain(blocks.into_iter().map(|block| (block, self.checks[block.index()].len())).filter(|one| one.1 > 0));
        self.facts = Facts::default();
        self.facts
            .tests
            .extend(tests.into_iter().filter_map(|(test, result)| less(graph, test).map(|(a, b)| (a, b, result))));
        if let Some(nearest) = all.next() {
            self.facts.checked = match self.numbers.get(&nearest) {
                Some(number) => *number,
                None => {
                    let all = [nearest]
                        .into_iter()
                        .chain(all)
                        .flat_map(|(block, checks)| &self.checks[block.index()][..checks]);
                    let checks: Vec<[NodeId; 2]> = all.copied().collect();
                    let number = self.checked.len();
                    self.checked.push(Checked { intervals: self.next_intervals, ..Checked::default() });
                    self.next_intervals += 1;
                    self.numbers.insert(nearest, number);
                    self.note(number, &checks)?;
                    number
                }
            };
        }
        self.note_tests()
    }

    /// Notes what these checks say, as number `number`.
    pub(super) fn note(&mut self, number: usize, checks: &[[NodeId; 2]]) -> Option<()> {
        let tests = std::mem::take(&mut self.facts.tests);
        self.facts.checked = number;
        self.budget.spend(checks.len())?;
        let limit = 1_i128 << (self.values.bits - 1);
        let mut others = Vec::new();
        for [value, bound] in checks.iter().copied() {
            let most = match self.values.known_elements(bound, &mut self.budget)? {
                Some((register, shift)) => {
                    let index = self.values.poly(value, &mut self.budget)?;
                    self.checked().indices.entry((register, shift)).or_default().push(index);
                    // It is also a check of all elements up to this one.
                    others.push([value, bound]);
                    Some(((limit - 1) >> shift) - 1)
                }
                None => self.values.graph.constant(bound).map(|bits| i128::from(bits) - 1).filter(|most| *most < limit),
            };
            match most {
                Some(most) => self.note_most(value, most),
                None if self.values.graph.constant(bound).is_none() => others.push([value, bound]),
                None => {}
            }
        }
        // Bounds of bounds are known now.
        for [value, bound] in &others {
            if let Some((0.., most)) = self.interval(*bound, 0)? {
                self.note_most(*value, most - 1);
                let graph = self.values.graph;
                if let (Some(bits), Some(range)) = (graph.constant(*value), self.checked().ranges.get_mut(bound)) {
                    range.0 = range.0.max(i128::from(bits) + 1);
                }
            }
        }
        self.forget_intervals();
        self.note_positive(checks)?;
        for [growth, rest] in others {
            self.note_window(growth, rest)?;
        }
        self.facts = Facts { checked: number, tests, ..Facts::default() };
        Some(())
    }

    pub(super) fn note_most(&mut self, value: NodeId, most: i128) {
        let known = self.checked().ranges.entry(value).or_insert((0, most));
        known.1 = most.min(known.1);
    }

    pub(super) fn note_positive(&mut self, checks: &[[NodeId; 2]]) -> Option<()> {
        let mut positive = Vec::new();
        let mut maxima: Vec<NodeId> = Vec::new();
        for [value, bound] in checks.iter().copied() {
            let poly = self.values.poly(value, &mut self.budget)?;
            maxima.extend(poly.atoms().filter_map(|atom| self.is_maximum(atom)));
            let Some((value, _)) = self.exact(value)? else { continue };
            let Some((bound, (0.., _))) = self.exact(bound)? else { continue };
            positive.extend(bound.plus(-1, &value).and_then(|more| more.and(-1)));
            positive.push((*value).clone());
        }
        // The maximum of two numbers is at least both.
        maxima.dedup();
        for id in maxima {
            let own = Poly::atom(self.values.atom(Meaning::Node(id)));
            for arg in self.values.graph.node(id).args.clone() {
                if let Some((arg, _)) = self.exact(arg)? {
                    positive.extend(own.plus(-1, &arg));
                }
            }
        }
        self.checked().has_choices |= positive.iter().any(|poly| self.has_choices(poly));
        for poly in positive.iter().filter(|poly| poly.as_constant().is_none()) {
            let poly = Rc::new(self.resolve(poly, true)?);
            if !self.checked().positive.contains(&poly) {
                self.checked().positive.push(poly);
            }
        }
        Some(())
    }

    /// Whether a polynomial has an atom that is one of two values.
    pub(super) fn has_choices(&self, poly: &Poly) -> bool {
        let is_choice = |atom| match self.values.known(atom) {
            Meaning::Node(id) => self.values.graph.node(id).kind == Kind::Primitive(Primitive::Select, Scalar::I64),
            _ => false,
        };
        poly.atoms().any(is_choice)
    }

    /// Notes a check against what is left of a buffer.
    pub(super) fn note_window(&mut self, growth: NodeId, rest: NodeId) -> Option<()> {
        let rest = self.values.poly(rest, &mut self.budget)?;
        let elements = rest.0.iter().find_map(|(product, value)| match product.as_atom() {
            Some(atom) if *value == 1 => match self.values.known(atom) {
                Meaning::Elements(register, shift) => Some((atom, (register, shift))),
                _ => None,
            },
            _ => None,
        });
        let (Some((atom, buffer)), Some((more, _))) = (elements, self.exact(growth)?) else { return Some(()) };
        let Some(from) = Poly::atom(atom).plus(-1, &rest) else { return Some(()) };
        if !from.atoms().any(|own| own == atom) {
            let window =
                Window { from: Rc::new(self.resolve(&from, false)?), more: Rc::new(self.resolve(&more, true)?) };
            let has_choices = self.has_choices(&window.from) || self.has_choices(&window.more);
            self.checked().has_choices |= has_choices;
            let windows = self.checked().windows.entry(buffer).or_default();
            if !windows.contains(&window) {
                windows.push(window);
            }
        }
        Some(())
    }

    /// Notes what the tests say, and with that what the checks do.
    pub(super) fn note_tests(&mut self) -> Option<()> {
        let mut positive = self.checked().positive.clone();
        for (a, b, result) in self.facts.tests.clone() {
            let (Some((a, _)), Some((b, _))) = (self.exact(a)?, self.exact(b)?) else { continue };
            // Not less is at least.
            let fact = if result { b.plus(-1, &a).and_then(|more| more.and(-1)) } else { a.plus(-1, &b) };
            if let Some(fact) = fact {
                positive.push(Rc::new(self.resolve(&fact, true)?));
            }
        }
        self.facts.resolved.clear();
        self.set_positive(positive.clone());
        if self.checked().has_choices {
            // With these facts, it is known which of two values some are.
            for poly in &mut positive {
                *poly = Rc::new(self.resolve(poly, true)?);
            }
            self.set_positive(positive);
        }
        Some(())
    }

    pub(super) fn set_positive(&mut self, positive: Vec<Rc<Poly>>) {
        let mut invariant: Vec<Rc<Poly>> = Vec::new();
        for fact in &positive {
            let has_counters = fact.atoms().any(|atom| self.depth(atom).is_some());
            if !has_counters {
                invariant.push(fact.clone());
            } else if let Some(fact) = self.without_counters(fact, u32::MAX).filter(|fact| fact.as_constant().is_none())
            {
                invariant.push(Rc::new(fact));
            }
        }
        (self.facts.positive, self.facts.invariant) = (positive, invariant);
        self.facts.signs.clear();
    }

    /// The windows of a buffer, with what is known at the position.
    pub(super) fn windows(&mut self, buffer: (u16, u8)) -> Option<Rc<Vec<Window>>> {
        if let Some(windows) = self.facts.windows.get(&buffer) {
            return Some(windows.clone());
        }
        let mut windows = self.checked().windows.get(&buffer).cloned().unwrap_or_default();
        if self.checked().has_choices {
            for Window { from, more } in &mut windows {
                (*from, *more) = (Rc::new(self.resolve(from, false)?), Rc::new(self.resolve(more, true)?));
            }
        }
        let windows = Rc::new(windows);
        self.facts.windows.insert(buffer, windows.clone());
        Some(windows)
    }

    pub(super) fn is_maximum(&self, atom: Atom) -> Option<NodeId> {
        let Meaning::Node(id) = self.values.known(atom) else { return None };
        (self.values.graph.node(id).kind == Kind::Primitive(Primitive::MaxS, Scalar::I64)).then_some(id)
    }

    /// A fact without the numbers of iterations of loops that are at least so deep, which only make it less.
    pub(super) fn without_counters(&mut self, fact: &Poly, depth: u32) -> Option<Poly> {
        let mut left = Poly::default();
        for (product, value) in &fact.0 {
            let is_inner = |atom: Atom| self.depth(atom).is_some_and(|own| depth == u32::MAX || own > depth);
            if !product.atoms().any(is_inner) {
                left.0.push((*product, *value));
            } else if *value > 0 || !self.is_positive(*product) {
                return None;
            }
        }
        Some(left)
    }

    /// How deep the block of a number of iterations is.
    pub(super) fn depth(&self, atom: Atom) -> Option<u32> {
        match self.values.known(atom) {
            Meaning::Iterations(block) | Meaning::Entered(block) => Some(self.values.flow.depth(block)),
            _ => None,
        }
    }
}
