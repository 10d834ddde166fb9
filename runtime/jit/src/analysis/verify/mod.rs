//! The graph verifier, which runs between passes: it checks what every pass relies on, and what memory safety does.
//!
//! - Definitions dominate their uses, and operands have the types that nodes take.
//! - Branches have an argument of the right type for each parameter.
//! - Each access to a buffer comes after the check that there is one, that it may be written, and that the index is in
//!   range.
//! - No slot is missing from a frame state: those of the graph that was built are held to the bytecode (`exits.rs`),
//!   and those after a pass to them. Values fit their slots.
//! - Each back edge counts against the limits.
//!
//! It knows nothing of how passes work. Builds with debug assertions run it after each pass, as do those that are
//! fuzzed; others do after a call of [`always`].

mod exits;
mod problem;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use super::calls::FunctionContext;
use super::dominators::Dominators;
use super::origins::Origins;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{
    BlockIndex, Branch, CompileMode, ExitId, Graph, Interleave, Kind, Node, NodeId, Part, Terminator,
};
use crate::ir::per_block::PerBlock;
use crate::ir::types::{Effect, Scalar, Ty, Width};
use crate::processor::lanes::can_shift;
pub(crate) use problem::Problem;
use problem::problem;

/// Whether optimised builds verify, too.
static ALWAYS: AtomicBool = AtomicBool::new(false);

/// Verifies the graphs of all functions that are compiled from now on.
pub fn always() {
    ALWAYS.store(true, Ordering::Relaxed);
}

/// Whether graphs are verified, and accesses of machine code are checked.
pub(crate) fn is_wanted() -> bool {
    cfg!(any(debug_assertions, fuzzing)) || ALWAYS.load(Ordering::Relaxed)
}

/// How an access has to be known to be in range, which depends on the passes that have run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum RangeChecks {
    /// By the check of its own index, on every path to it.
    Exact,
    /// By a check of an index of that buffer, on every path to it: it may stand for all indices of a loop.
    Guarded,
    /// By a check of an index of that buffer somewhere: guards that were sunk do not dominate the loop.
    Skipped,
}

/// The slots of the frame states when the function was built, by exit.
#[derive(Default)]
pub(crate) struct Verifier {
    slots: Vec<Vec<u16>>,
}

impl Verifier {
    /// Verifies the exits of a graph that was just built against the bytecode.
    ///
    /// # Panics
    /// If a frame state forgets a slot.
    pub fn built(graph: &Graph, context: FunctionContext<'_>, mode: CompileMode) {
        if is_wanted()
            && let Err(problem) = exits::check(graph, context, mode)
        {
            panic!("{}", problem.report("build", graph));
        }
    }

    /// Verifies a graph as it was built, and remembers its frame states.
    pub fn begin(graph: &Graph) -> Verifier {
        if !is_wanted() {
            return Verifier::default();
        }
        let verifier = Verifier::remember(graph);
        verifier.after("build", graph, RangeChecks::Exact);
        verifier
    }

    /// Remembers the frame states of a graph.
    pub fn remember(graph: &Graph) -> Verifier {
        let written =
            graph.exits.iter().map(|exit| exit.frame_state.iter().map(|slot_value| slot_value.slot).collect());
        Verifier { slots: written.collect() }
    }

    /// Verifies a graph after a pass.
    ///
    /// # Panics
    /// If something is wrong with it, with the pass, the position and the whole graph.
    pub fn after(&self, pass: &str, graph: &Graph, ranges: RangeChecks) {
        if !is_wanted() {
            return;
        }
        if let Err(problem) = self.verify(graph, ranges) {
            panic!("{}", problem.report(pass, graph));
        }
    }

    pub fn verify(&self, graph: &Graph, ranges: RangeChecks) -> Result<(), Problem> {
        let checker = Checker::new(graph, ranges)?;
        for block in checker.tree.order() {
            checker.block(*block)?;
        }
        for (index, slots) in self.slots.iter().enumerate() {
            let exit = &graph.exits[index];
            if exit.frame_state.iter().map(|slot_value| slot_value.slot).eq(slots.iter().copied()) {
                continue;
            }
            if let Some(slot) =
                slots.iter().find(|slot| exit.frame_state.iter().all(|slot_value| slot_value.slot != **slot))
            {
                // Exits are told by their numbers: no block has all uses of one.
                return problem(BlockIndex::new(0), None, format!("exit {index} forgets slot {slot}"));
            }
        }
        Ok(())
    }
}

/// The position of a node: its block, and its number there. Parameters have 0.
type At = (BlockIndex, usize);

struct Checker<'a> {
    graph: &'a Graph,
    tree: Dominators,
    ranges: RangeChecks,
    at: Vec<Option<At>>,
    /// The range checks for the buffer in a register by the size of elements, and the checks that it may be written.
    in_range: HashMap<(u16, u8), Vec<NodeId>>,
    mutable: HashMap<u16, Vec<NodeId>>,
    /// The blocks that count steps.
    counting: Vec<BlockIndex>,
    /// The predecessors of each block.
    predecessors: PerBlock<Vec<BlockIndex>>,
    origins: Origins,
}

impl<'a> Checker<'a> {
    fn new(graph: &'a Graph, ranges: RangeChecks) -> Result<Checker<'a>, Problem> {
        for (block, content) in graph.blocks.indexed() {
            for branch in graph.branches(block) {
                if graph.blocks.get(branch.target).is_none() {
                    return problem(block, None, format!("it branches to {}, which is not there", branch.target));
                }
            }
            let all = content.parameters.iter().chain(&content.nodes);
            if let Some(id) = all.into_iter().find(|id| id.index() >= graph.nodes.len()) {
                return problem(block, *id, "it is not there");
            }
        }
        let tree = Dominators::new(graph);
        let mut checker = Checker {
            graph,
            origins: Origins::new(graph, tree.order()),
            tree,
            ranges,
            at: vec![None; graph.nodes.len()],
            in_range: HashMap::new(),
            mutable: HashMap::new(),
            counting: Vec::new(),
            predecessors: PerBlock::new(graph, Vec::new()),
        };
        for block in checker.tree.order() {
            for branch in graph.branches(*block) {
                checker.predecessors[branch.target].push(*block);
            }
        }
        for block in checker.tree.order().to_vec() {
            let content = &graph.blocks[block];
            let parameters = content.parameters.iter().map(|id| (0, *id));
            for (position, id) in parameters.chain((1..).zip(content.nodes.iter().copied())) {
                if checker.at[id.index()].replace((block, position)).is_some() {
                    return problem(block, id, "it is computed twice");
                }
                let node = graph.node(id);
                match node.kind {
                    Kind::InRange => {
                        if let Some(elements) = node.args.get(1)
                            && let Kind::Elements(register, shift) = checker.origin(*elements)
                        {
                            checker.in_range.entry((register, shift)).or_default().push(id);
                        }
                    }
                    Kind::IsMutable(register) => checker.mutable.entry(register).or_default().push(id),
                    Kind::CountSteps => checker.counting.push(block),
                    _ => {}
                }
            }
        }
        Ok(checker)
    }

    /// Whether a definition at one position dominates another one.
    fn precedes(&self, (block, position): At, (other, other_position): At) -> bool {
        if block == other { position < other_position } else { self.tree.dominates(block, other) }
    }

    /// Whether a value is available. A truth value is if its operands are.
    fn is_there(&self, id: NodeId, at: At) -> bool {
        let node = self.graph.node(id);
        match (node.kind, node.ty) {
            (Kind::Constant(_), _) => true,
            (_, Ty::Truth) => node.args.iter().all(|arg| self.is_there(*arg, at)),
            _ => self.at[id.index()].is_some_and(|own| self.precedes(own, at)),
        }
    }

    /// The operation that computes a value.
    fn origin(&self, id: NodeId) -> Kind {
        self.origins.of(self.graph, id)
    }

    fn need(&self, id: NodeId, user: Option<NodeId>, at: At) -> Result<(), Problem> {
        if id.index() >= self.graph.nodes.len() || !self.is_there(id, at) {
            return problem(at.0, user, format!("it needs v{}, which is not there on every path", id.0));
        }
        Ok(())
    }

    fn block(&self, block: BlockIndex) -> Result<(), Problem> {
        let content = &self.graph.blocks[block];
        if content.entry.is_some() && !content.parameters.is_empty() {
            return problem(block, None, "it is entered from outside, and takes parameters");
        }
        for (position, id) in (1..).zip(content.nodes.iter().copied()) {
            self.node(id, (block, position))?;
            let node = self.graph.node(id);
            if let Kind::FirstOfPair(primitive, of) = node.kind {
                let second = content.nodes.get(position).map(|next| self.graph.node(*next));
                let is_second = |second: &&Node| {
                    second.kind == Kind::Lanes(primitive, of) && second.ty == node.ty && !second.args.contains(&id)
                };
                if second.filter(is_second).is_none() {
                    return problem(block, id, "the next node is not the second one of the pair");
                }
            }
        }
        let end = (block, content.nodes.len() + 1);
        match &content.terminator {
            Terminator::Open => return problem(block, None, "it has no end"),
            Terminator::SideExit(_, exit) => self.exit(*exit, None, end)?,
            Terminator::Branch(test, ..) => {
                if self.graph.node(*test).ty != Ty::Truth {
                    return problem(block, *test, "a branch on it, which is no truth");
                }
                self.need(*test, None, end)?;
            }
            Terminator::Jump(_) | Terminator::Guarded(..) => {}
        }
        for branch in self.graph.branches(block) {
            self.branch(branch, None, end)?;
            branch.limits_exit.map_or(Ok(()), |exit| self.exit(exit, None, end))?;
            let is_back = self.tree.dominates(branch.target, block);
            let is_counted = branch.limits_exit.is_some() || self.counts_steps(branch.target, block);
            if is_back && !is_counted && !self.is_counted_outside(branch.target) {
                return problem(block, None, format!("its branch back to {} is not counted", branch.target));
            }
        }
        if let Some(terminator) = self.graph.native_terminators.get(block) {
            for (value, passed) in &terminator.values {
                self.need(*value, None, end)?;
                let ty = self.graph.node(*value).ty;
                if ty != Ty::Scalar(passed.of) {
                    return problem(block, *value, format!("it passes {ty:?} as {:?}", passed.of));
                }
            }
        }
        Ok(())
    }

    /// Whether each iteration of a loop, from its header to this block, counts its steps, as vector loops do.
    fn counts_steps(&self, header: BlockIndex, latch: BlockIndex) -> bool {
        self.counting.iter().any(|block| self.tree.dominates(header, *block) && self.tree.dominates(*block, latch))
    }

    /// Whether a loop is inside a vector loop, which counts its iterations, too.
    fn is_counted_outside(&self, header: BlockIndex) -> bool {
        self.tree.order().iter().any(|from| {
            self.graph.branches(*from).iter().any(|branch| {
                let is_around = branch.target != header && self.tree.dominates(branch.target, header);
                is_around && self.tree.dominates(branch.target, *from) && self.counts_steps(branch.target, header)
            })
        })
    }

    fn branch(&self, branch: &Branch, user: Option<NodeId>, at: At) -> Result<(), Problem> {
        let target = &self.graph.blocks[branch.target];
        if branch.args.len() != target.parameters.len() {
            let (brought, taken) = (branch.args.len(), target.parameters.len());
            let what = format!("it brings {brought} values to {}, which takes {taken}", branch.target);
            return problem(at.0, user, what);
        }
        for (arg, parameter) in branch.args.iter().zip(&target.parameters) {
            self.need(*arg, user, at)?;
            let (brought, taken) = (self.graph.node(*arg).ty, self.graph.node(*parameter).ty);
            // Lanes are bits: a vector of floats is one of integers of their size.
            let are_same_lanes = match (brought, taken) {
                (Ty::Lanes(own, width), Ty::Lanes(other, wanted)) => {
                    width == wanted && own.is_wide() == other.is_wide()
                }
                _ => false,
            };
            if brought != taken && !are_same_lanes {
                let what = format!("it brings {brought:?} as v{}, which is {taken:?}", parameter.0);
                return problem(at.0, user, what);
            }
        }
        Ok(())
    }

    /// Whether the values that an exit uses are available, and fit their slots.
    fn exit(&self, id: ExitId, user: Option<NodeId>, at: At) -> Result<(), Problem> {
        let Some(exit) = self.graph.exits.get(id.0 as usize) else {
            return problem(at.0, user, format!("exit {} is not there", id.0));
        };
        let mut last = None;
        for slot_value in &exit.frame_state {
            if self.graph.is_in_slot(slot_value) {
                continue;
            }
            // A number made of a truth value is computed by the exit.
            let node = self.graph.node(slot_value.node);
            self.need(if node.kind == Kind::Number { node.args[0] } else { slot_value.node }, user, at)?;
            let ty = self.graph.node(slot_value.node).ty;
            let (Ty::Scalar(of), true) = (ty, last < Some(slot_value.slot)) else {
                return problem(at.0, user, format!("slot {} of exit {} gets {ty:?} once more", slot_value.slot, id.0));
            };
            if slot_value.part != Part::Whole && !of.is_wide() {
                let what = format!("slot {} of exit {} gets a half of 32 bits", slot_value.slot, id.0);
                return problem(at.0, user, what);
            }
            let is_pair = slot_value.part == Part::Whole && of.is_wide();
            last = Some(slot_value.slot + u16::from(is_pair));
        }
        for store in &exit.pending_stores {
            for arg in &self.graph.node(*store).args {
                self.need(*arg, user, at)?;
            }
        }
        exit.fallback.as_ref().map_or(Ok(()), |branch| self.branch(branch, user, at))
    }

    fn node(&self, id: NodeId, at: At) -> Result<(), Problem> {
        let node = self.graph.node(id);
        // A test is emitted where its truth value is used.
        if node.ty != Ty::Truth {
            for arg in &node.args {
                self.need(*arg, Some(id), at)?;
            }
        }
        if let Some(exit) = node.exit {
            self.exit(exit, Some(id), at)?;
        }
        self.types(id, at)?;
        match node.kind {
            Kind::Primitive(primitive, _) => match primitive.effect() {
                Effect::Load => self.access(id, primitive, false, at),
                Effect::Store => self.access(id, primitive, true, at),
                Effect::Trap if node.exit.is_none() => problem(at.0, id, "it may trap, and cannot leave"),
                Effect::Pure | Effect::Call | Effect::Trap => Ok(()),
            },
            Kind::LoadLanes(primitive, _)
            | Kind::Gather(primitive, _)
            | Kind::LoadRows(primitive, _)
            | Kind::LoadSplat(primitive, _)
            | Kind::LoadEven(primitive, _)
            | Kind::LoadBytes(primitive, _)
            | Kind::GatherBytes(primitive, _) => self.access(id, primitive, false, at),
            Kind::StoreLanes(primitive, _) => self.access(id, primitive, true, at),
            Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::InRange | Kind::HasRoom | Kind::CountSteps
                if node.exit.is_none() =>
            {
                problem(at.0, id, "it is a check, and cannot leave")
            }
            Kind::Base(register) | Kind::Elements(register, _) | Kind::IsMutable(register) => {
                let is_check = |arg: &NodeId| self.graph.node(*arg).kind == Kind::IsBuffer(register);
                if node.args.iter().any(is_check) {
                    return Ok(());
                }
                problem(at.0, id, format!("nobody knows that register {register} holds a buffer"))
            }
            _ => Ok(()),
        }
    }

    /// Whether an access is dominated by its checks.
    fn access(&self, id: NodeId, primitive: Primitive, stores: bool, at: At) -> Result<(), Problem> {
        let args = &self.graph.node(id).args;
        let (base, index, shift) = (args[0], args[1], primitive.element_shift());
        let Kind::Base(register) = self.origin(base) else {
            return self.global(id, base, index, at);
        };
        let none = Vec::new();
        let is_before = |check: &&NodeId| self.at[check.index()].is_some_and(|own| self.precedes(own, at));
        let mutable = self.mutable.get(&register).unwrap_or(&none);
        let may_be_written =
            if self.ranges == RangeChecks::Skipped { !mutable.is_empty() } else { self.is_covered(mutable, at) };
        if stores && !may_be_written {
            return problem(at.0, id, format!("nobody knows that the buffer in register {register} may be written"));
        }
        let checks = self.in_range.get(&(register, shift)).unwrap_or(&none);
        let is_known = match self.ranges {
            RangeChecks::Exact => checks.iter().filter(is_before).any(|check| self.graph.node(*check).args[0] == index),
            RangeChecks::Guarded => self.is_covered(checks, at),
            RangeChecks::Skipped => !checks.is_empty(),
        };
        if is_known {
            return Ok(());
        }
        problem(at.0, id, format!("nobody knows that its index is in the buffer in register {register}"))
    }

    /// Whether every path to a position passes one of these checks.
    fn is_covered(&self, checks: &[NodeId], at: At) -> bool {
        let positions: Vec<At> = checks.iter().filter_map(|check| self.at[check.index()]).collect();
        if positions.iter().any(|position| self.precedes(*position, at)) {
            return true;
        }
        let (mut seen, mut pending) = (vec![at.0], vec![at.0]);
        while let Some(block) = pending.pop() {
            if self.graph.blocks[block].entry.is_some() {
                return false;
            }
            let open = |source: &BlockIndex| positions.iter().all(|(block, _)| block != source);
            for source in self.predecessors[block].iter().copied().filter(open) {
                if !seen.contains(&source) {
                    seen.push(source);
                    pending.push(source);
                }
            }
        }
        true
    }

    /// An access to value globals has an offset that the bytecode's verifier has proved.
    fn global(&self, id: NodeId, base: NodeId, index: NodeId, at: At) -> Result<(), Problem> {
        let node = self.graph.node(base);
        let is_constant = |id: NodeId| self.graph.constant(id).is_some();
        let is_globals = |id: NodeId| self.origin(id) == Kind::Globals;
        let is_sum = node.kind == Kind::Primitive(Primitive::WrappingAdd, Scalar::I64)
            && is_globals(node.args[0])
            && is_constant(node.args[1]);
        if is_constant(index) && (is_globals(base) || is_sum) {
            return Ok(());
        }
        problem(at.0, id, "its address is neither in a buffer nor in the globals")
    }

    /// Whether the operands and the value have the types of the operation.
    fn types(&self, id: NodeId, at: At) -> Result<(), Problem> {
        let node = self.graph.node(id);
        let (i32, i64) = (Ty::Scalar(Scalar::I32), Ty::Scalar(Scalar::I64));
        let of = |index: usize| node.args.get(index).map(|arg| self.graph.node(*arg).ty);
        let all: Vec<Ty> = (0..node.args.len()).filter_map(of).collect();
        let is_lanes = |ty: Ty| matches!(ty, Ty::Lanes(..));
        // Lanes of 8 bits are those of bytes.
        let fits_bytes =
            |primitive: Primitive, ty: Ty| primitive.element_shift() == 0 || !ty.width().is_some_and(Width::has_bytes);
        // None, or one of as many lanes, which have the size of elements in four lanes; lanes of 8 bits have no masks.
        let is_mask = |mask: &[Ty], of: Ty, primitive: Primitive| match mask {
            [] => true,
            [Ty::Lanes(size, width)] => {
                Some(*width) == of.width()
                    && !width.has_bytes()
                    && (*width != Width::Four || size.is_wide() == (primitive.element_shift() == 3))
            }
            _ => false,
        };
        // In four lanes all have the sizes that they have in the scalar loop, where a truth has that of what it
        // compares or chooses.
        let have_sizes = |primitive: Primitive, of: Scalar| {
            let fits = |(ty, wanted): (&Ty, Ty)| match (ty, wanted) {
                (Ty::Lanes(own, Width::Four), Ty::Scalar(wanted)) => own.is_wide() == wanted.is_wide(),
                (Ty::Lanes(own, Width::Four), _) => own.is_wide() == of.is_wide(),
                _ => true,
            };
            all.iter().zip(primitive.operands(of)).all(fits) && fits((&node.ty, primitive.result(of)))
        };
        let fits = match node.kind {
            Kind::Primitive(primitive, of) => {
                node.ty == primitive.result(of) && all.iter().copied().eq(primitive.operands(of))
            }
            Kind::Lanes(primitive, of) | Kind::FirstOfPair(primitive, of) => {
                let same = all.iter().all(|ty| is_lanes(*ty) && ty.width() == node.ty.width());
                let is_computed = match node.ty.width() {
                    Some(width) if width.has_bytes() => of == Scalar::I32 && primitive.byte_lanes().is_some(),
                    _ => primitive.lanes(of).is_some(),
                };
                is_computed && same && have_sizes(primitive, of) && all.len() == primitive.operands(of).count()
            }
            Kind::ShiftLanes(primitive, of, amount) => {
                let bits = if of.is_wide() { 64 } else { 32 };
                let has_width = node.width().is_some_and(|width| can_shift(primitive, of, width));
                all == [node.ty] && matches!(node.ty, Ty::Lanes(own, _) if own == of) && has_width && amount < bits
            }
            Kind::Number => node.ty == i32 && all == [Ty::Truth],
            Kind::Low | Kind::High => node.ty == i32 && all == [i64],
            Kind::Pair => node.ty == i64 && all == [i32, i32],
            Kind::Cast => match (node.ty, &all[..]) {
                (Ty::Scalar(to), [Ty::Scalar(from)]) => to.is_wide() == from.is_wide() && to != *from,
                _ => false,
            },
            Kind::InRange => node.ty == Ty::Nothing && all == [i64, i64],
            Kind::Base(_) | Kind::Elements(..) | Kind::Reference(_) | Kind::Globals => node.ty == i64,
            Kind::Slot(_) | Kind::Passed(_) | Kind::Constant(_) => matches!(node.ty, Ty::Scalar(_)) && all.is_empty(),
            Kind::Parameter => false,
            Kind::Splat => is_lanes(node.ty) && matches!(all[..], [Ty::Scalar(_)]),
            Kind::Quotients { .. } => match (node.ty, &all[..]) {
                (Ty::Lanes(Scalar::I32, width), [number, reciprocal]) => {
                    *number == Ty::Lanes(Scalar::I32, width) && *reciprocal == Ty::Lanes(Scalar::F64, width)
                }
                _ => false,
            },
            // No instructions of sixteen lanes do it.
            Kind::ConstantQuotients(_) => {
                matches!(node.ty, Ty::Lanes(Scalar::I32, Width::Four | Width::Eight)) && all == [node.ty, node.ty]
            }
            Kind::LowProducts => node.ty == Ty::Lanes(Scalar::I64, Width::Four) && all == [node.ty, node.ty],
            Kind::LaneNumbers => is_lanes(node.ty) && all.len() == 1 && is_lanes(all[0]),
            Kind::Multiples(_) => is_lanes(node.ty) && all.is_empty(),
            Kind::Extract(_) | Kind::SumLanes => matches!(node.ty, Ty::Scalar(_)) && all.len() == 1 && is_lanes(all[0]),
            Kind::LoadRows(..) | Kind::LoadSplat(..) | Kind::LoadBytes(..) => is_lanes(node.ty) && all == [i64, i64],
            Kind::LoadEven(..) => {
                let width = node.ty.width();
                let vectors = all.get(2..).unwrap_or_default();
                let own = usize::from(width == Some(Width::Sixteen));
                let are_lanes = vectors.iter().all(|ty| is_lanes(*ty) && ty.width() == width);
                width.is_some()
                    && all.starts_with(&[i64, i64])
                    && are_lanes
                    && matches!(vectors.len().checked_sub(own), Some(0 | 2))
            }
            Kind::GatherBytes(..) => is_lanes(node.ty) && all == [i64, i64, node.ty],
            Kind::Byte(..) => is_lanes(node.ty) && all == [node.ty],
            Kind::LoadLanes(primitive, _) => {
                is_lanes(node.ty)
                    && all.starts_with(&[i64, i64])
                    && fits_bytes(primitive, node.ty)
                    && is_mask(&all[2..], node.ty, primitive)
            }
            Kind::Interleave(which) => {
                let needs_four = matches!(which, Interleave::Even | Interleave::Odd);
                let allows_four = !matches!(which, Interleave::Low | Interleave::High);
                let is_four = node.ty.width() == Some(Width::Four);
                is_lanes(node.ty)
                    && all == [node.ty, node.ty]
                    && if is_four { allows_four && node.scalar().is_wide() } else { !needs_four }
            }
            Kind::Gather(primitive, _) => {
                is_lanes(node.ty)
                    && all.len() > 2
                    && all[..2] == [i64, i64]
                    && is_lanes(all[2])
                    && is_mask(&all[3..], all[2], primitive)
            }
            Kind::StoreLanes(primitive, _) => {
                let fits = all.len() > 2
                    && all[..2] == [i64, i64]
                    && is_lanes(all[2])
                    && fits_bytes(primitive, all[2])
                    && is_mask(&all[3..], all[2], primitive);
                node.ty == Ty::Nothing && fits
            }
            Kind::CountSteps => node.ty == Ty::Nothing && all == [i64],
            Kind::IsBuffer(_) | Kind::IsMutable(_) | Kind::FlushToSlots | Kind::UncountStep | Kind::HasRoom => {
                node.ty == Ty::Nothing
            }
        };
        if fits {
            return Ok(());
        }
        problem(at.0, id, format!("{:?} of {all:?} is not {:?}", node.kind, node.ty))
    }
}
