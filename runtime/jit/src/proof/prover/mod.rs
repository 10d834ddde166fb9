//! The prover: which facts hold at a position, and whether they imply that elements are inside of their buffer.
//!
//! A fact is a check on every path to the position, or a test and its result. Each says something about numbers of 64
//! bits; it becomes a polynomial that is not negative, in integers, where its operands are known not to wrap. A goal, a
//! polynomial too, is proved by replacing each number of iterations by its least and its most, and what is left by
//! adding up facts.
//!
//! An element is in range if its index differs from a checked one by a polynomial that is not negative, and at most
//! what the growth of that was checked to be. The index itself may wrap on the way: it is congruent to the checked one
//! and the difference, whose sum is in range, so it is that sum.

mod facts;
mod intervals;

use std::rc::Rc;

use smallvec::SmallVec;

use super::budget::Budget;
use super::flow::less;
use super::poly::{Atom, Poly, Product};
use super::values::{Counted, Meaning, Step, Values};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Kind, NodeId};
use crate::ir::hash::Table;
use crate::ir::types::{Scalar, Ty};

/// Most steps of the proof of a goal, most steps from a check to the one that it grows from, and most operations that
/// are looked through.
const MAX_STEPS: u32 = 256;
/// How many facts are added up: few at first, since most goals need none.
const EFFORTS: [u32; 3] = [0, 1, 3];
const MAX_CHAIN: u32 = 3;
const MAX_DEPTH: u32 = 40;

/// The least and the most that a number is.
type Interval = (i128, i128);

/// Whether what is put in place of an atom has to be its value, and not only congruent to it.
type Exactly = bool;

/// The facts that follow from the checks on every path to a position.
#[derive(Default)]
struct Checked {
    /// The least and the most that values are, which are not negative.
    ranges: Table<NodeId, Interval>,
    /// Checked indices of the buffers in registers, by the size of elements; and indices from which on so many elements
    /// more were checked.
    indices: Table<(u16, u8), Vec<Rc<Poly>>>,
    windows: Table<(u16, u8), Vec<Window>>,
    /// Polynomials that are not negative.
    positive: Vec<Rc<Poly>>,
    /// Whether a polynomial has a choice, on which a test may decide.
    has_choices: bool,
    /// The number under which intervals are kept that follow from the ranges.
    intervals: u32,
}

/// The facts at a position: those of checks, and what tests add to them.
#[derive(Default)]
struct Facts {
    /// The number of what checks say.
    checked: usize,
    /// Comparisons that hold: the first operand is less than the second, or not.
    tests: Vec<(NodeId, NodeId, bool)>,
    resolved: Table<(Atom, Exactly), Option<Rc<Poly>>>,
    windows: Table<(u16, u8), Rc<Vec<Window>>>,
    /// Polynomials that are not negative, and those without numbers of iterations.
    positive: Vec<Rc<Poly>>,
    invariant: Vec<Rc<Poly>>,
    /// Which atoms are known not to be negative.
    signs: Vec<Option<bool>>,
}

/// Elements of a buffer, from an index on, that a check has found to be there if the first one is.
#[derive(Clone, PartialEq)]
struct Window {
    from: Rc<Poly>,
    more: Rc<Poly>,
}

/// The elements that accesses reach, by their distances from an index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Reach {
    pub first: i64,
    pub last: i64,
    /// The lanes of an access, each so many elements after the one before, are only the first ones, as many as this
    /// `i32` says.
    pub lanes: Option<(NodeId, i64)>,
}

pub(super) struct Prover<'g> {
    pub values: Values<'g>,
    pub budget: Budget,
    facts: Facts,
    /// The facts of the checks on every path to the end of a block, or to a check in it; by that block and the number
    /// of its checks.
    checked: Vec<Checked>,
    numbers: Table<(BlockIndex, usize), usize>,
    /// The checks of each block.
    checks: Vec<Vec<[NodeId; 2]>>,
    /// For each value the interval that was found last, and the number of the facts that it was found with.
    intervals: Vec<(u32, Option<(i64, i64)>)>,
    next_intervals: u32,
    /// The steps that are left for a goal, and the most facts that may be added up.
    steps: u32,
    effort: u32,
}

impl<'g> Prover<'g> {
    pub fn new(values: Values<'g>, budget: Budget) -> Prover<'g> {
        let graph = values.graph;
        let in_range = |id: &NodeId| Some(graph.node(*id)).filter(|node| node.kind == Kind::InRange);
        let of_block = |block: BlockIndex| {
            graph.blocks[block].nodes.iter().filter_map(in_range).map(|node| [node.args[0], node.args[1]]).collect()
        };
        let checks = graph.blocks.indices().map(of_block).collect();
        let (facts, numbers) = (Facts::default(), Table::default());
        let checked = vec![Checked { intervals: 1, ..Checked::default() }];
        let intervals = vec![(0, None); graph.nodes.len()];
        let next_intervals = 2;
        Prover { values, budget, facts, checked, numbers, checks, intervals, next_intervals, steps: 0, effort: 0 }
    }

    /// Forgets the intervals that were found with the facts of checks: there are more now.
    fn forget_intervals(&mut self) {
        self.checked().intervals = self.next_intervals;
        self.next_intervals += 1;
    }

    fn checked(&mut self) -> &mut Checked {
        &mut self.checked[self.facts.checked]
    }

    /// The polynomial with what is known at the position in place of atoms that stand for it.
    fn resolve(&mut self, poly: &Poly, exactly: Exactly) -> Option<Poly> {
        let mut result = poly.clone();
        let mut atoms: SmallVec<[Atom; 8]> = poly.atoms().filter(|atom| self.may_stand_for_others(*atom)).collect();
        atoms.sort_unstable();
        atoms.dedup();
        for atom in atoms {
            if let Some(value) = self.resolved(atom, exactly)?
                && let Some(with) = result.with(atom, &value)
            {
                result = with;
            }
        }
        Some(result)
    }

    /// Whether an atom is a value for which others may be put: a choice, or one that is bounded by a check.
    fn may_stand_for_others(&self, atom: Atom) -> bool {
        let Meaning::Node(id) = self.values.known(atom) else { return false };
        match self.values.graph.node(id).kind {
            Kind::Primitive(Primitive::Select, Scalar::I64) => true,
            Kind::Primitive(..) => self.values.bounded.contains(id.index()),
            _ => false,
        }
    }

    fn resolved(&mut self, atom: Atom, exactly: Exactly) -> Option<Option<Rc<Poly>>> {
        if let Some(known) = self.facts.resolved.get(&(atom, exactly)) {
            return Some(known.clone());
        }
        self.facts.resolved.insert((atom, exactly), None);
        self.budget.spend(1)?;
        let Meaning::Node(id) = self.values.known(atom) else { return Some(None) };
        let node = self.values.graph.node(id);
        let found = match node.kind {
            Kind::Primitive(Primitive::Select, Scalar::I64) => match self.chosen(node.args[0])? {
                Some(first) => {
                    let chosen = node.args[if first { 1 } else { 2 }];
                    let fits = !exactly || self.interval(chosen, 0)?.is_some();
                    if fits { Some(self.values.poly(chosen, &mut self.budget)?) } else { None }
                }
                None => None,
            },
            Kind::Primitive(..) if self.values.bounded.contains(id.index()) => {
                let interval = self.computed(id, 0)?;
                let limit = 1_i128 << (self.values.bits - 1);
                match interval.filter(|(least, most)| *least >= -limit && *most < limit) {
                    Some(_) => self.values.computed(id, 0, &mut self.budget).map(Rc::new),
                    None => None,
                }
            }
            _ => None,
        };
        let found = match found {
            Some(poly) => Some(Rc::new(self.resolve(&poly, exactly)?)),
            None => None,
        };
        self.facts.resolved.insert((atom, exactly), found.clone());
        Some(found)
    }

    /// The result of a test that the facts decide.
    fn chosen(&mut self, test: NodeId) -> Option<Option<bool>> {
        let Some((a, b)) = less(self.values.graph, test) else { return Some(None) };
        if let Some((_, _, result)) = self.facts.tests.iter().find(|(own, other, _)| (*own, *other) == (a, b)) {
            return Some(Some(*result));
        }
        let (Some((a, _)), Some((b, _))) = (self.exact(a)?, self.exact(b)?) else { return Some(None) };
        let Some(more) = b.plus(-1, &a).and_then(|more| more.and(-1)) else { return Some(None) };
        let more = self.resolve(&more, true)?;
        Some(self.proves(&more, 1)?.then_some(true))
    }

    /// Whether the elements that accesses at an index reach are elements of the buffer in a register.
    pub fn covers(&mut self, index: &Poly, reach: &Reach, buffer: (u16, u8)) -> Option<bool> {
        let index = self.resolve(index, false)?;
        let lanes = match reach.lanes {
            Some((count, by)) => self.last_lane(count, by)?,
            None => None,
        };
        // If there is no such lane, nothing is accessed.
        if let Some(last) = lanes.and_then(|last| last.and(reach.first))
            && self.reaches(&index, (reach.first, &last), buffer, 0)?
        {
            return Some(true);
        }
        self.reaches(&index, (reach.first, &Poly::constant(reach.last)), buffer, 0)
    }

    /// How far the last of the first lanes is from the first one, if so many as an `i32` says are accessed.
    fn last_lane(&mut self, count: NodeId, by: i64) -> Option<Option<Poly>> {
        let Some((count, (least, most))) = self.count(count, 0)? else { return Some(None) };
        let count = self.resolve(&count, true)?;
        let is_least = least >= -(1 << 31)
            || match count.and(1 << 31) {
                Some(above) => self.proves(&above, 1)?,
                None => false,
            };
        let fits = is_least && most < 1 << 32 && by >= 0;
        Some(if fits { Poly::constant(-by).plus(by, &count) } else { None })
    }

    /// An `i32` as a polynomial that it is congruent to modulo 2^32, with the interval of that.
    fn count(&mut self, id: NodeId, depth: u32) -> Option<Option<(Poly, Interval)>> {
        self.budget.spend(1)?;
        let node = self.values.graph.node(id);
        Some(match node.kind {
            Kind::Constant(bits) => {
                let value = i64::from(bits as u32 as i32);
                Some((Poly::constant(value), (value.into(), value.into())))
            }
            Kind::Low => self.exact(node.args[0])?.map(|(poly, interval)| ((*poly).clone(), interval)),
            Kind::Primitive(Primitive::WrappingAdd, Scalar::I32) if depth < 4 => {
                let (a, b) = (self.count(node.args[0], depth + 1)?, self.count(node.args[1], depth + 1)?);
                let Some(((a, own), (b, other))) = a.zip(b) else { return Some(None) };
                a.plus(1, &b).map(|sum| (sum, (own.0 + other.0, own.1 + other.1)))
            }
            _ => None,
        })
    }

    /// Whether all elements from `first` to `last` after an index are in a buffer.
    fn reaches(&mut self, index: &Poly, (first, last): (i64, &Poly), buffer: (u16, u8), chain: u32) -> Option<bool> {
        // From its first element on, all of a buffer is left. The check against that has found one element.
        if chain > 0 && index.0.is_empty() {
            return Some(true);
        }
        if last.as_constant().is_some_and(|last| last == first) {
            let indices = self.checked().indices.get(&buffer).map_or(0, Vec::len);
            self.budget.spend(indices)?;
            for number in 0..indices {
                let checked = self.checked().indices[&buffer][number].clone();
                let checked =
                    if self.checked().has_choices { Rc::new(self.resolve(&checked, false)?) } else { checked };
                if index.plus(-1, &checked).and_then(|more| more.as_constant()) == Some(-first) {
                    return Some(true);
                }
            }
        }
        if chain == MAX_CHAIN {
            return Some(false);
        }
        let windows = self.windows(buffer)?;
        for effort in EFFORTS {
            for Window { from, more } in windows.iter() {
                self.budget.spend(1)?;
                let Some(ahead) = index.plus(-1, from) else { continue };
                let (Some(low), Some(high)) =
                    (ahead.and(first), more.plus(-1, &ahead).and_then(|left| left.plus(-1, last)))
                else {
                    continue;
                };
                if self.proves(&low, effort)?
                    && self.proves(&high, effort)?
                    && self.reaches(from, (0, &Poly::default()), buffer, chain + 1)?
                {
                    return Some(true);
                }
            }
        }
        Some(false)
    }

    /// Whether a polynomial is never negative.
    fn proves(&mut self, goal: &Poly, effort: u32) -> Option<bool> {
        (self.steps, self.effort) = (MAX_STEPS, effort);
        self.is_proved(goal)
    }

    fn is_proved(&mut self, goal: &Poly) -> Option<bool> {
        if self.steps == 0 {
            return Some(false);
        }
        self.steps -= 1;
        self.budget.spend(1 + goal.0.len())?;
        let counter =
            goal.atoms().filter(|atom| self.depth(*atom).is_some()).max_by_key(|atom| (self.depth(*atom), *atom));
        let Some(counter) = counter else { return self.is_invariant(goal) };
        // One fact about this number may be enough.
        let of_counter = |poly: &Poly| poly.0.iter().find(|(product, _)| product.contains(counter)).copied();
        let (product, value) = of_counter(goal)?;
        for index in 0..self.facts.positive.len() {
            let fact = &self.facts.positive[index];
            let Some((_, factor)) = of_counter(fact).filter(|(own, _)| *own == product) else { continue };
            let times =
                value.checked_div(factor).filter(|times| *times > 0 && times.checked_mul(factor) == Some(value));
            let left = times.and_then(|times| goal.plus(-times, fact));
            if left.is_some_and(|left| left.0.iter().all(|(product, value)| *value > 0 && self.is_positive(*product))) {
                return Some(true);
            }
        }
        let Some((grows, rest)) = goal.split(counter).filter(|_| self.is_positive(Product::of(counter))) else {
            return Some(false);
        };
        if grows.0.iter().all(|(product, value)| *value > 0 && self.is_positive(*product)) {
            return self.is_proved(&rest);
        }
        // It is linear in the number: it is never negative between two numbers if it is not at either.
        let falls = grows.0.iter().all(|(product, value)| *value < 0 && self.is_positive(*product));
        for (step, most, is_reached) in self.bounds(counter)? {
            let at_most = match (step.as_constant(), multiple(&grows, &step)) {
                (Some(step), _) => {
                    Poly::default().plus(step, &rest).and_then(|rest| rest.plus(1, &grows.times(&most)?))
                }
                (None, Some(times)) => rest.plus(times, &most),
                (None, None) => None,
            };
            let Some(at_most) = at_most else { continue };
            if self.is_proved(&at_most)? && (falls && is_reached || self.is_proved(&rest)?) {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Bounds of a number of iterations: a step, and what the number times that is at most, or zero if that is
    /// negative; and whether it is known not to be.
    fn bounds(&mut self, counter: Atom) -> Option<Vec<(Poly, Poly, bool)>> {
        let mut found = Vec::new();
        let depth = self.depth(counter)?;
        for index in 0..self.facts.positive.len() {
            let fact = self.facts.positive[index].clone();
            if !fact.0.iter().any(|(product, value)| *value < 0 && product.contains(counter)) {
                continue;
            }
            let Some((factor, rest)) = fact.split(counter) else { continue };
            if factor.0.is_empty() || !factor.0.iter().all(|(product, value)| *value < 0 && self.is_positive(*product))
            {
                continue;
            }
            self.budget.spend(1)?;
            let Some(step) = Poly::default().plus(-1, &factor) else { continue };
            if let Some(rest) = self.without_counters(&rest, depth) {
                found.push((step, rest, true));
            }
        }
        if let Meaning::Iterations(block) = self.values.known(counter)
            && let Some((step, most)) = self.header_bound(block)?
        {
            found.push((step, most, false));
        }
        Some(found)
    }

    /// How far a loop has come at its header and after it: the iteration before began, so the counter was less than the
    /// bound.
    fn header_bound(&mut self, block: BlockIndex) -> Option<Option<(Poly, Poly)>> {
        let Some(counted) = self.values.loops.get(&block).copied() else { return Some(None) };
        // That the counter has not wrapped is what its interval says.
        let (Some((counter, _)), Some((bound, _))) = (self.exact(counted.counter)?, self.exact(counted.bound)?) else {
            return Some(None);
        };
        let iterations = self.values.atom(Meaning::Iterations(block));
        let Some((step, start)) = counter.split(iterations) else { return Some(None) };
        let most = bound.plus(-1, &start).and_then(|most| match (counted.step, counted.is_top_tested) {
            // A counter that grows by what it is away from the bound is at the bound then.
            (Step::ToBound, _) => Some(most),
            (_, true) => most.plus(1, &step)?.and(-(counted.ahead as i64) - 1),
            (_, false) => most.and(-1),
        });
        let Some(most) = most else { return Some(None) };
        Some(Some((step, self.resolve(&most, true)?)))
    }

    /// Whether a polynomial without numbers of iterations is never negative: facts are subtracted until only what is
    /// positive is left, as few as possible.
    fn is_invariant(&mut self, goal: &Poly) -> Option<bool> {
        for facts in 0..=self.effort {
            if self.is_sum(goal, facts)? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Whether a polynomial is a sum of so many facts, each times something that is positive, and of what is positive.
    fn is_sum(&mut self, goal: &Poly, facts: u32) -> Option<bool> {
        let wrong = goal.0.iter().find(|(product, value)| *value < 0 || !self.is_positive(*product)).copied();
        let Some((product, value)) = wrong else { return Some(true) };
        if facts == 0 {
            return Some(false);
        }
        // Those that leave least come first.
        let mut attempts: Vec<Poly> = Vec::new();
        for index in 0..self.facts.invariant.len() {
            let fact = self.facts.invariant[index].clone();
            if !fact.0.iter().any(|(own, factor)| (*factor < 0) == (value < 0) && product.quotient(*own).is_some()) {
                continue;
            }
            for (own, factor) in &fact.0 {
                self.budget.spend(1)?;
                let Some(times) = product.quotient(*own).filter(|_| (*factor < 0) == (value < 0)) else { continue };
                if !self.is_positive(times) {
                    continue;
                }
                // As often as the term needs it, or as often as what is positive in the goal allows.
                // The least number does not fit where its sign is changed.
                let Some(whole) = value.checked_div(*factor) else { continue };
                let needed = (whole + i64::from(whole.checked_mul(*factor) != Some(value))).max(1);
                let of_goal =
                    |other: &Product| goal.0.iter().find(|(own, _)| own == other).map_or(0, |(_, value)| *value);
                let allowed = fact.0.iter().filter(|(_, more)| *more > 0 && times.is_one());
                let allowed = allowed
                    .map(|(other, more)| of_goal(other) / more)
                    .min()
                    .filter(|allowed| (1..needed).contains(allowed));
                for often in [Some(needed), allowed].into_iter().flatten() {
                    let times = Poly::term(times, often);
                    attempts.extend(fact.times(&times).and_then(|fact| goal.plus(-1, &fact)));
                }
            }
        }
        attempts.sort_by_key(|left| left.0.len());
        for left in attempts {
            if self.steps == 0 {
                return Some(false);
            }
            self.steps -= 1;
            if self.is_sum(&left, facts - 1)? {
                return Some(true);
            }
        }
        Some(false)
    }

    /// Whether no factor of a product is negative.
    fn is_positive(&mut self, product: Product) -> bool {
        product.atoms().all(|atom| match self.facts.signs.get(usize::from(atom)) {
            Some(Some(known)) => *known,
            _ => {
                let known = self.is_positive_atom(atom);
                let signs = &mut self.facts.signs;
                signs.resize(signs.len().max(usize::from(atom) + 1), None);
                signs[usize::from(atom)] = Some(known);
                known
            }
        })
    }

    fn is_positive_atom(&mut self, atom: Atom) -> bool {
        match self.values.known(atom) {
            Meaning::Node(id) => {
                let own = Poly::atom(atom);
                matches!(self.interval(id, 0), Some(Some((0.., _))))
                    || self.facts.positive.iter().any(|fact| **fact == own)
            }
            Meaning::Base(_) | Meaning::Nothing => false,
            // How far a loop with one iteration comes is a difference, which has to be known not to wrap.
            Meaning::Iterations(block) => match self.values.loops.get(&block) {
                Some(Counted { step: Step::ToBound, counter, .. }) => {
                    matches!(self.interval(*counter, 0), Some(Some(_)))
                }
                _ => true,
            },
            // It is the number of iterations of a loop.
            Meaning::Entered(_) | Meaning::Elements(..) => true,
        }
    }
}

impl Values<'_> {
    /// The buffer of which a value is the number of elements, and their size.
    pub fn known_elements(&mut self, id: NodeId, budget: &mut Budget) -> Option<Option<(u16, u8)>> {
        if self.graph.node(id).ty != Ty::Scalar(Scalar::I64) {
            return Some(None);
        }
        let poly = self.poly(id, budget)?;
        Some(match poly.0.as_slice() {
            [(product, 1)] => match product.as_atom().map(|atom| self.known(atom)) {
                Some(Meaning::Elements(register, shift)) => Some((register, shift)),
                _ => None,
            },
            _ => None,
        })
    }
}

/// How many times another polynomial one is.
fn multiple(poly: &Poly, of: &Poly) -> Option<i64> {
    let ((product, value), (other, one)) = (poly.0.first()?, of.0.first()?);
    let times = value.checked_div(*one)?;
    (product == other && Poly::default().plus(times, of)? == *poly).then_some(times)
}
