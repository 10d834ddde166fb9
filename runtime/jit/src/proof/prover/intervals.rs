//! The least and the most that values are, and whether they are what their polynomials give, without wrapping.

use std::rc::Rc;

use super::super::flow::At;
use super::super::poly::{Poly, wrapped};
use super::super::values::{Meaning, Step};
use super::{Interval, MAX_DEPTH, Prover};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Kind, NodeId};
use crate::ir::types::{Linear, Scalar};

impl Prover<'_> {
    /// The polynomial and the interval of a value that is what its polynomial gives, as a number with a sign.
    pub(super) fn exact(&mut self, id: NodeId) -> Option<Option<(Rc<Poly>, Interval)>> {
        let Some(interval) = self.interval(id, 0)? else { return Some(None) };
        Some(Some((self.values.poly(id, &mut self.budget)?, interval)))
    }

    pub(super) fn interval(&mut self, id: NodeId, depth: u32) -> Option<Option<Interval>> {
        let facts = self.checked().intervals;
        if let (own, known) = self.intervals[id.index()]
            && own == facts
        {
            return Some(known.map(|(least, most)| (least.into(), most.into())));
        }
        self.budget.spend(1)?;
        let limit = 1_i128 << (self.values.bits - 1);
        let whole = (-limit, limit - 1);
        // A value that depends on itself may be anything.
        self.intervals[id.index()] = (facts, None);
        let computed = if depth < MAX_DEPTH { self.computed(id, depth + 1)? } else { None };
        let found = match computed.filter(|(least, most)| *least >= whole.0 && *most <= whole.1) {
            Some(interval) => Some(interval),
            // An atom stands for the value itself.
            None => self.values.is_atom(id, &mut self.budget)?.then_some(whole),
        };
        let range = self.checked().ranges.get(&id).copied();
        let found = found.map(|own| range.map_or(own, |range| (own.0.max(range.0), own.1.min(range.1))));
        let kept = found.map(|(least, most)| i64::try_from(least).ok().zip(i64::try_from(most).ok()));
        self.intervals[id.index()] = (facts, kept.flatten());
        Some(found)
    }

    /// The interval of a value by what it is computed of, before it wraps.
    pub(super) fn computed(&mut self, id: NodeId, depth: u32) -> Option<Option<Interval>> {
        let node = self.values.graph.node(id);
        let limit = 1_i128 << (self.values.bits - 1);
        Some(match node.kind {
            Kind::Constant(bits) => {
                let value = wrapped(bits.into(), self.values.bits);
                Some((value, value))
            }
            Kind::Elements(_, shift) => Some((0, (limit - 1) >> shift)),
            Kind::Primitive(Primitive::Zext64, _) if self.values.bits == 64 => Some((0, u32::MAX.into())),
            Kind::Primitive(Primitive::Select, Scalar::I64) => {
                let (a, b) = (self.interval(node.args[1], depth)?, self.interval(node.args[2], depth)?);
                a.zip(b).map(|(a, b)| (a.0.min(b.0), a.1.max(b.1)))
            }
            Kind::Primitive(Primitive::MaxS, Scalar::I64) => {
                let (a, b) = (self.interval(node.args[0], depth)?, self.interval(node.args[1], depth)?);
                a.zip(b).map(|(a, b)| (a.0.max(b.0), a.1.max(b.1)))
            }
            Kind::Primitive(primitive, Scalar::I64) => {
                let Some(linear) = primitive.linear() else { return Some(None) };
                let mut args = [(0, 0); 3];
                for (arg, interval) in node.args.iter().zip(&mut args) {
                    let Some(own) = self.interval(*arg, depth)? else { return Some(None) };
                    *interval = own;
                }
                match (linear, &args[..node.args.len().min(3)]) {
                    (Linear::Sum, [a, b]) => Some((a.0 + b.0, a.1 + b.1)),
                    (Linear::Difference, [a, b]) => Some((a.0 - b.1, a.1 - b.0)),
                    (Linear::Product, [a, b]) => Some(product(*a, *b)),
                    (Linear::ProductAndSum, [a, b, c]) => {
                        let (least, most) = product(*a, *b);
                        Some((least.saturating_add(c.0), most.saturating_add(c.1)))
                    }
                    _ => None,
                }
            }
            Kind::Parameter => {
                // How its loop is counted is found with it.
                self.values.poly(id, &mut self.budget)?;
                self.parameter(id, depth)?
            }
            _ => None,
        })
    }

    /// The interval of a parameter: of a loop by how often that can run, of another block by all that it is given.
    pub(super) fn parameter(&mut self, id: NodeId, depth: u32) -> Option<Option<Interval>> {
        let values = &self.values;
        let Some(At(block, _)) = values.at(id) else { return Some(None) };
        let content = &values.graph.blocks[block];
        let Some(index) = content.parameters.iter().position(|own| *own == id) else { return Some(None) };
        if content.entry.is_some() {
            return Some(None);
        }
        if !values.flow.edges[block.index()].iter().any(|edge| values.flow.is_above(block, edge.from)) {
            return self.brought(block, index, depth);
        }
        let Some(counted) = values.loops.get(&block).copied() else { return Some(None) };
        let Some(counter) = content.parameters.iter().position(|own| *own == counted.counter) else {
            return Some(None);
        };
        let (start, own) = (self.brought(block, counter, depth)?, self.brought(block, index, depth)?);
        let bound = self.interval(counted.bound, depth)?;
        let (Some(start), Some(own), Some(bound)) = (start, own, bound) else { return Some(None) };
        let limit = 1_i128 << (self.values.bits - 1);
        // The counter is less than the bound where it grows, so that it never wraps; a loop that is tested at its end
        // grows it before that once.
        let by = match counted.step {
            Step::Constant(step) => (step, step),
            Step::Invariant(by) => match self.interval(by, depth)? {
                Some(by) if by.0 > 0 => by,
                _ => return Some(None),
            },
            Step::ToBound => (1, (bound.1 - start.0).max(1)),
        };
        let first = start.1 + if counted.is_top_tested { counted.ahead } else { by.1 };
        if bound.1 - 1 + by.1 >= limit || first >= limit {
            return Some(None);
        }
        let reach = match (counted.step, counted.is_top_tested) {
            (Step::ToBound, _) => bound.1,
            (_, true) => bound.1 - 1 - counted.ahead + by.1,
            (_, false) => bound.1 - 1,
        };
        let most = start.1.max(reach);
        if id == counted.counter {
            return Some(Some((start.0, most)));
        }
        let iterations = self.values.atom(Meaning::Iterations(block));
        if self.values.is_atom(id, &mut self.budget)? {
            return Some(None);
        }
        let poly = self.values.poly(id, &mut self.budget)?;
        let Some(grows) = poly.split(iterations).and_then(|(grows, _)| grows.as_constant()) else { return Some(None) };
        let all = (reach - start.0).max(0) / by.0;
        let grown = product((grows.into(), grows.into()), (0, all));
        Some(Some((own.0.saturating_add(grown.0), own.1.saturating_add(grown.1))))
    }
}

impl Prover<'_> {
    /// The interval of all that the branches which enter a block, but for those from inside of its loop, bring for a
    /// parameter.
    fn brought(&mut self, block: BlockIndex, index: usize, depth: u32) -> Option<Option<Interval>> {
        let mut all: Option<Interval> = None;
        for number in 0..self.values.flow.edges[block.index()].len() {
            let edge = self.values.flow.edges[block.index()][number];
            if self.values.flow.is_above(block, edge.from) {
                continue;
            }
            let Some(arg) = edge.branch.args.get(index) else { return Some(None) };
            let Some(one) = self.interval(*arg, depth)? else { return Some(None) };
            all = Some(all.map_or(one, |all| (all.0.min(one.0), all.1.max(one.1))));
        }
        Some(all)
    }
}

fn product(a: Interval, b: Interval) -> Interval {
    let all = [(a.0, b.0), (a.0, b.1), (a.1, b.0), (a.1, b.1)].map(|(a, b)| a.saturating_mul(b));
    (all.into_iter().min().unwrap_or(0), all.into_iter().max().unwrap_or(0))
}
