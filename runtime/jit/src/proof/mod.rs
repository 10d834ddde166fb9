//! The proof that machine code accesses nothing but elements of its buffers. It is made of the graph of each function
//! after the last pass, in every build, and knows nothing of how passes came to it: it shares no code with them, and
//! asks them for nothing.
//!
//! An access needs that the register of its buffer has one, that it may be written if it is, and that its index is in
//! range. Most accesses of scalar code have that check right before them. Those of vector loops lean on guards that
//! stand for all iterations: the prover re-derives that they cover each lane of each iteration, in integers, with what
//! may wrap (`prover.rs`). A function with an access that it cannot prove is compiled once more without vector loops
//! and hoisted checks, so a mistake in a pass makes code slower, and never reach out of its buffers. `docs/jit.md` has
//! the argument.
//!
//! - `flow`: which positions are on every path to another one.
//! - `poly`: polynomials over values.
//! - `values`: the polynomial of each value.
//! - `prover`: the facts at a position, and proofs by them.

mod budget;
mod flow;
mod poly;
mod prover;
#[cfg(test)]
mod tests;
mod values;

use smallvec::{SmallVec, smallvec};

use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, ExitId, Graph, Kind, NodeId, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Scalar, Ty, Width};
use budget::Budget;
use flow::{At, Flow};
use poly::Poly;
use prover::{Prover, Reach};
use values::{Meaning, Values};

/// Steps of the proof for each node, and for a function.
const STEPS_PER_NODE: usize = 64;
const STEPS: usize = 1 << 14;

/// The distance from an index at which no element of an access is any more: its bytes are a number of 32 bits with a
/// sign.
const MAX_DISTANCE: u64 = 1 << (31 - 3);

/// An access that was not proved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unproved {
    /// None if the proof took too many steps, or the graph is not one.
    pub node: Option<NodeId>,
}

/// An access to elements of a buffer.
struct Access {
    primitive: Primitive,
    /// One reach, or two for the halves of a load of every other element.
    reaches: SmallVec<[Reach; 2]>,
}

/// Proves all accesses of a function.
pub(crate) fn check(graph: &Graph) -> Result<(), Unproved> {
    check_with(graph, 64)
}

/// The same for integers of so many bits instead of 64.
fn check_with(graph: &Graph, bits: u32) -> Result<(), Unproved> {
    let mut checker = Checker::new(graph, bits).ok_or(Unproved { node: None })?;
    for block in &graph.order {
        checker.block(*block)?;
    }
    if checker.prover.values.is_full { Err(Unproved { node: None }) } else { Ok(()) }
}

struct Checker<'g> {
    graph: &'g Graph,
    prover: Prover<'g>,
    /// The checks of indices by index, buffer and size of elements; of buffers that may be written by register.
    in_range: Table<(NodeId, u16, u8), SmallVec<[At; 2]>>,
    mutable: Table<u16, SmallVec<[At; 2]>>,
    /// The exits that store something.
    storing: Bits,
    /// The accesses since the last check in a block that lean on guards.
    guarded: Vec<Guarded>,
}

/// Accesses to one buffer at indices that differ by constants.
struct Guarded {
    buffer: (u16, u8),
    index: Poly,
    reach: Reach,
    /// Each of them, with what it reaches.
    parts: SmallVec<[(NodeId, i64, i64); 4]>,
}

impl<'g> Checker<'g> {
    fn new(graph: &'g Graph, bits: u32) -> Option<Checker<'g>> {
        let mut budget = Budget(graph.nodes.len().saturating_mul(STEPS_PER_NODE).saturating_add(STEPS));
        let flow = Flow::new(graph, &mut budget)?;
        let mut in_range: Table<(NodeId, u16, u8), SmallVec<[At; 2]>> = Table::default();
        let mut mutable: Table<u16, SmallVec<[At; 2]>> = Table::default();
        for block in &flow.order {
            for (number, id) in (1..).zip(&graph.blocks[*block].nodes) {
                let (node, at) = (graph.node(*id), At(*block, number));
                match node.kind {
                    Kind::InRange => {
                        if let Kind::Elements(register, shift) = graph.node(node.args[1]).kind {
                            in_range.entry((node.args[0], register, shift)).or_default().push(at);
                        }
                    }
                    Kind::IsMutable(register) => mutable.entry(register).or_default().push(at),
                    _ => {}
                }
            }
        }
        let mut storing = Bits::new(graph.exits.len());
        let stores = graph.exits.iter().enumerate().filter(|(_, exit)| !exit.pending_stores.is_empty());
        stores.for_each(|(index, _)| storing.insert(index));
        let prover = Prover::new(Values::new(graph, flow, bits), budget);
        Some(Checker { graph, prover, in_range, mutable, storing, guarded: Vec::new() })
    }

    fn block(&mut self, block: BlockIndex) -> Result<(), Unproved> {
        let graph = self.graph;
        let content = &graph.blocks[block];
        if !self.prover.values.flow.is_reached(block) {
            // Nothing is known of a block that nothing is known to reach.
            return if content.nodes.is_empty() { Ok(()) } else { Err(Unproved { node: None }) };
        }
        let mut checks = 0;
        for (number, id) in (1..).zip(content.nodes.iter().copied()) {
            let (node, at) = (graph.node(id), At(block, number));
            self.needs(&node.args, Some(id), at)?;
            // It is taken if the check of the node itself fails.
            self.exit(node.exit, at)?;
            match node.kind {
                Kind::InRange => {
                    self.prove(block, checks)?;
                    checks += 1;
                }
                // They read the object in the register.
                Kind::Base(register) | Kind::Elements(register, _) | Kind::IsMutable(register) => {
                    let is_there = node.args.first().is_some_and(|check| {
                        let checks = graph.node(*check).kind == Kind::IsBuffer(register);
                        checks
                            && self
                                .prover
                                .values
                                .at(*check)
                                .is_some_and(|own| self.prover.values.flow.precedes(own, at))
                    });
                    if !is_there {
                        return Err(Unproved { node: Some(id) });
                    }
                }
                _ => self.access(id, at)?,
            }
        }
        let end = At(block, content.nodes.len() as u32 + 1);
        for branch in graph.branches(block) {
            self.needs(&branch.args, None, end)?;
            self.exit(branch.limits_exit, end)?;
        }
        if let Some(terminator) = graph.native_terminators.get(block) {
            terminator.values.iter().try_for_each(|(value, _)| self.needs(&[*value], None, end))?;
        }
        match &content.terminator {
            Terminator::SideExit(_, exit) => self.exit(Some(*exit), end)?,
            // A test is a fact about its operands.
            Terminator::Branch(test, _) => self.needs(&[*test], None, end)?,
            Terminator::Jump(_) | Terminator::Guarded(_) | Terminator::Open => {}
        }
        self.prove(block, checks)
    }

    /// Makes sure that values are there: what is in a register else is not what a guard has checked.
    fn needs(&self, values: &[NodeId], node: Option<NodeId>, at: At) -> Result<(), Unproved> {
        let flow = &self.prover.values.flow;
        if values.iter().all(|value| flow.is_available(*value, at)) { Ok(()) } else { Err(Unproved { node }) }
    }

    /// Proves the stores that an exit makes, and that what it writes to slots is there.
    fn exit(&mut self, exit: Option<ExitId>, at: At) -> Result<(), Unproved> {
        if let Some(exit) = exit.map(|exit| self.graph.exit(exit)) {
            for slot_value in exit.frame_state.iter().filter(|slot_value| !self.graph.is_in_slot(slot_value)) {
                // A number that is made of a truth value is computed there.
                let node = self.graph.node(slot_value.node);
                let value = if node.kind == Kind::Number { &node.args[..] } else { &[slot_value.node] };
                self.needs(value, None, at)?;
            }
            exit.fallback.iter().try_for_each(|branch| self.needs(&branch.args, None, at))?;
        }
        let Some(exit) = exit.filter(|exit| self.storing.contains(exit.0 as usize)) else { return Ok(()) };
        self.graph.exit(exit).pending_stores.iter().try_for_each(|store| {
            self.needs(&self.graph.node(*store).args, Some(*store), at)?;
            self.access(*store, at)
        })
    }

    /// Proves the access of a node, if it is one, but for what leans on guards.
    fn access(&mut self, id: NodeId, at: At) -> Result<(), Unproved> {
        let Some(access) = self.access_of(id) else { return Ok(()) };
        // Displacements of instructions have 32 bits.
        let reaches = |access: &Access| {
            let fits = |distance: i64| distance.unsigned_abs() < MAX_DISTANCE;
            access.reaches.iter().all(|reach| fits(reach.first) && fits(reach.last))
        };
        match access.filter(reaches).and_then(|access| self.is_checked(id, access, at)) {
            Some(true) => Ok(()),
            _ => Err(Unproved { node: Some(id) }),
        }
    }

    /// Whether an access may be made, if its index is in range. If it is not known to be, notes that.
    fn is_checked(&mut self, id: NodeId, access: Access, at: At) -> Option<bool> {
        let node = self.graph.node(id);
        let (base, index) = (*node.args.first()?, *node.args.get(1)?);
        let register = match self.buffer(base)? {
            Buffer::Register(register) => register,
            // The verifier of bytecode has proved constant offsets there.
            Buffer::Globals => return Some(self.graph.constant(index).is_some()),
            Buffer::Unknown => return Some(false),
        };
        let precedes = |prover: &Prover<'_>, all: Option<&SmallVec<[At; 2]>>| {
            all.is_some_and(|all| all.iter().any(|own| prover.values.flow.precedes(*own, at)))
        };
        if access.primitive.effect() == Effect::Store && !precedes(&self.prover, self.mutable.get(&register)) {
            return Some(false);
        }
        let buffer = (register, access.primitive.element_shift());
        let checks = self.in_range.get(&(index, register, buffer.1));
        self.prover.budget.spend(1 + checks.map_or(0, SmallVec::len))?;
        if let [Reach { first: 0, last: 0, .. }] = access.reaches.as_slice()
            && precedes(&self.prover, checks)
        {
            return Some(true);
        }
        let index = self.prover.values.poly(index, &mut self.prover.budget)?;
        let offset = index.constant_term();
        let index = index.and(offset.checked_neg()?)?;
        for reach in access.reaches {
            let (first, last) = (reach.first.checked_add(offset)?, reach.last.checked_add(offset)?);
            self.prover.budget.spend(1 + self.guarded.len())?;
            let is_same = |other: &&mut Guarded| {
                other.buffer == buffer && other.reach.lanes == reach.lanes && other.index == index
            };
            match self.guarded.iter_mut().find(is_same) {
                Some(Guarded { reach: all, parts, .. })
                    if reach.lanes.is_none() || (all.first, all.last) == (first, last) =>
                {
                    (all.first, all.last) = (all.first.min(first), all.last.max(last));
                    parts.push((id, first, last));
                }
                _ => {
                    let reach = Reach { first, last, ..reach };
                    let parts = smallvec![(id, first, last)];
                    self.guarded.push(Guarded { buffer, index: index.clone(), reach, parts });
                }
            }
        }
        Some(true)
    }

    /// Proves that guards cover the accesses that lean on them, after so many checks in a block.
    fn prove(&mut self, block: BlockIndex, checks: usize) -> Result<(), Unproved> {
        let guarded = std::mem::take(&mut self.guarded);
        if guarded.is_empty() {
            return Ok(());
        }
        self.prover.collect(block, checks).ok_or(Unproved { node: None })?;
        for Guarded { buffer, index, reach, parts } in &guarded {
            // All at once, or else one by one: what is between them may be out of range.
            if self.prover.covers(index, reach, *buffer) == Some(true) {
                continue;
            }
            for (node, first, last) in parts.iter().copied() {
                let own = Reach { first, last, ..*reach };
                if parts.len() == 1 || self.prover.covers(index, &own, *buffer) != Some(true) {
                    return Err(Unproved { node: Some(node) });
                }
            }
        }
        Ok(())
    }

    fn buffer(&mut self, base: NodeId) -> Option<Buffer> {
        if let Kind::Base(register) = self.graph.node(base).kind {
            return Some(Buffer::Register(register));
        }
        let poly = self.prover.values.poly(base, &mut self.prover.budget)?;
        let Some((product, 1)) = poly.0.iter().find(|(product, _)| !product.is_one()).copied() else {
            return Some(Buffer::Unknown);
        };
        let Some(atom) = product.as_atom() else { return Some(Buffer::Unknown) };
        Some(match (self.prover.values.known(atom), poly.0.len()) {
            (Meaning::Base(register), 1) => Buffer::Register(register),
            (Meaning::Node(id), 1 | 2) if self.graph.node(id).kind == Kind::Globals => {
                let is_constant = poly.0.len() == 1 || poly.constant_term() != 0;
                if is_constant { Buffer::Globals } else { Buffer::Unknown }
            }
            _ => Buffer::Unknown,
        })
    }

    /// The access of a node: none if it makes none, and nothing in it if it is of no form that is known.
    fn access_of(&self, id: NodeId) -> Option<Option<Access>> {
        let node = self.graph.node(id);
        let lanes_of = |ty: Ty| ty.width().map_or(1, |width| width.lanes() as i64);
        let lanes = lanes_of(node.ty);
        let reach = |first: i64, last: i64| Reach { first, last, lanes: None };
        // The lanes of one vector, and the mask that may follow the operands.
        let vector = |first: i64, by: i64, ty: Ty, primitive: Primitive, mask: Option<&NodeId>| {
            let (one, other) = (first, first + by * (lanes_of(ty) - 1));
            let lanes = match mask {
                None => None,
                Some(mask) => Some((self.first_lanes(*mask, ty, primitive)?, by)),
            };
            // Lanes that go backwards are all taken as accessed.
            Some(Reach { first: one.min(other), last: one.max(other), lanes: lanes.filter(|_| by >= 0) })
        };
        let one =
            |primitive, reach: Option<Reach>| Some(reach.map(|reach| Access { primitive, reaches: smallvec![reach] }));
        match node.kind {
            Kind::Primitive(primitive, _) if matches!(primitive.effect(), Effect::Load | Effect::Store) => {
                one(primitive, Some(reach(0, 0)))
            }
            Kind::LoadLanes(primitive, number) => {
                let first = i64::from(number) * lanes;
                let reach = vector(first, 1, node.ty, primitive, node.args.get(2));
                one(primitive, reach.filter(|_| has_lanes(node.ty, primitive)))
            }
            Kind::StoreLanes(primitive, number) => {
                let ty = node.args.get(2).map_or(Ty::Nothing, |stored| self.graph.node(*stored).ty);
                let first = i64::from(number) * lanes_of(ty);
                let reach = vector(first, 1, ty, primitive, node.args.get(3));
                one(primitive, reach.filter(|_| has_lanes(ty, primitive)))
            }
            Kind::Gather(primitive, displacement) => {
                // Distances of lanes are numbers of 32 bits.
                let by = self.multiples(node.args.get(2)).filter(|by| i32::try_from(by * (lanes - 1)).is_ok());
                let reach = by.and_then(|by| vector(displacement.into(), by, node.ty, primitive, node.args.get(3)));
                one(primitive, reach.filter(|_| has_words(node.ty, primitive)))
            }
            Kind::LoadSplat(primitive, displacement) => {
                let reach = reach(displacement.into(), displacement.into());
                one(primitive, Some(reach).filter(|_| has_words(node.ty, primitive)))
            }
            Kind::LoadRows(primitive, rows) => {
                let row = |group: i64| i64::from(rows.stride) * (i64::from(rows.first) + 4 * group);
                let (a, b) = (row(0), row(lanes / 4 - 1));
                let reach = reach(a.min(b), a.max(b) + 3);
                one(primitive, Some(reach).filter(|_| has_words(node.ty, primitive)))
            }
            Kind::LoadBytes(primitive, rows) | Kind::GatherBytes(primitive, rows) => {
                let row = |lane: i64| i64::from(rows.stride) * (i64::from(rows.first) + lane);
                let (a, b) = (row(0), row(lanes - 1));
                let gathers = matches!(node.kind, Kind::GatherBytes(..));
                let is_known = !gathers || self.multiples(node.args.get(2)) == Some(rows.stride.into());
                let more = if gathers { 3 } else { 0 };
                let is_known = is_known && primitive.element_shift() == 0;
                one(primitive, is_known.then(|| reach(a.min(b), a.max(b) + more)))
            }
            Kind::LoadEven(primitive, number) => {
                let first = 2 * i64::from(number) * lanes;
                // The second half begins with the last element of the first one.
                let halves = [first, first + lanes - 1];
                let masks = node.args.len().checked_sub(2).filter(|_| node.args.len() > 3);
                // With masks there is one vector, of eight lanes.
                let is_known = matches!(node.ty.width(), Some(Width::Eight | Width::Sixteen))
                    && primitive.element_shift() == 2
                    && (masks.is_none() || number == 0 && node.ty.width() == Some(Width::Eight));
                let halves = halves.into_iter().enumerate().map(|(half, first)| {
                    let mask = masks.and_then(|masks| node.args.get(masks + half));
                    vector(first, 1, node.ty, primitive, mask)
                });
                let reaches = halves.collect::<Option<_>>().filter(|_| is_known);
                Some(reaches.map(|reaches| Access { primitive, reaches }))
            }
            // They access no element of a buffer. A new kind has to be listed here, or above.
            Kind::Primitive(..)
            | Kind::Constant(_)
            | Kind::Parameter
            | Kind::Slot(_)
            | Kind::FlushToSlots
            | Kind::Passed(_)
            | Kind::Number
            | Kind::Low
            | Kind::High
            | Kind::Pair
            | Kind::Cast
            | Kind::IsBuffer(_)
            | Kind::IsMutable(_)
            | Kind::Base(_)
            | Kind::Elements(..)
            | Kind::Reference(_)
            | Kind::Globals
            | Kind::InRange
            | Kind::CountSteps
            | Kind::UncountStep
            | Kind::Lanes(..)
            | Kind::FirstOfPair(..)
            | Kind::Quotients { .. }
            | Kind::ConstantQuotients(_)
            | Kind::LowProducts
            | Kind::ShiftLanes(..)
            | Kind::Splat
            | Kind::LaneNumbers
            | Kind::Extract(_)
            | Kind::SumLanes
            | Kind::Multiples(_)
            | Kind::Byte(..)
            | Kind::Interleave(_)
            | Kind::HasRoom => None,
        }
    }

    /// The mask of an access by a vector of this type: how many lanes are on, the first ones, if instructions leave out
    /// the others.
    fn first_lanes(&self, mask: NodeId, ty: Ty, primitive: Primitive) -> Option<NodeId> {
        let (width, shift) = (ty.width()?, primitive.element_shift());
        let has_masks = match width {
            Width::Four => shift >= 2,
            Width::Eight => shift == 2,
            Width::Sixteen => shift <= 2,
            Width::SixteenBytes | Width::ThirtyTwoBytes => false,
        };
        // A lane of the mask is as large as one that is accessed.
        let of = if shift == 3 { Scalar::I64 } else { Scalar::I32 };
        let fits = has_masks && self.graph.node(mask).ty == Ty::Lanes(of, width);
        if fits { self.prover.values.first_lanes(mask) } else { None }
    }

    /// The factor of the numbers of lanes that an operand is.
    fn multiples(&self, operand: Option<&NodeId>) -> Option<i64> {
        match self.graph.node(*operand?).kind {
            Kind::Multiples(by) => Some(by.into()),
            _ => None,
        }
    }
}

/// Whether there are instructions that load or store lanes of this type as consecutive elements.
fn has_lanes(ty: Ty, primitive: Primitive) -> bool {
    let shift = primitive.element_shift();
    match ty.width() {
        Some(Width::Four) => shift >= 2,
        Some(Width::Eight | Width::Sixteen) => shift <= 2,
        Some(Width::SixteenBytes | Width::ThirtyTwoBytes) => shift == 0,
        None => false,
    }
}

/// Whether lanes of this type are as large as elements, so that instructions load each to any lane.
fn has_words(ty: Ty, primitive: Primitive) -> bool {
    match ty.width() {
        Some(Width::Four) => matches!(primitive.element_shift(), 2 | 3),
        Some(Width::Eight | Width::Sixteen) => primitive.element_shift() == 2,
        _ => false,
    }
}

/// The memory that an access is to.
enum Buffer {
    /// The buffer in a register.
    Register(u16),
    /// The value globals.
    Globals,
    /// Neither, as far as is known.
    Unknown,
}
