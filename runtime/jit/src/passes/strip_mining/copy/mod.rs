//! The copy of a loop that runs one strip. Nodes are copied in their order, simplified by what is known in a strip:
//! values that are the same in all iterations are computed before it, and values that grow by one from iteration to
//! iteration are known by their first one.

mod rows;

use std::collections::HashSet;

use smallvec::SmallVec;

use super::candidates::{LARGE, MIN_STRIP, SMALL, division};
use crate::analysis::loop_nest::{Item, LoopNest};
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Branch, ExitId, Graph, Kind, Node, NodeId, Nodes, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Linear, Scalar, Ty};

/// Where a value of the copy may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    /// Nowhere: it is computed before the first strip.
    Loop,
    /// From strip to strip.
    Strip,
    /// From iteration to iteration.
    Iteration,
}

/// A value that grows by one from iteration to iteration.
#[derive(Clone, Copy)]
struct Unit {
    /// Its value in the first iteration of a strip.
    at_strip: NodeId,
    /// Its value in the first iteration of the loop, if it is the induction variable and a loop-invariant number.
    at_loop: Option<NodeId>,
}

/// A value that a node of the loop is known to have, so that its copy need not compute it.
enum KnownResult {
    Value(NodeId),
    Truth(bool),
}

/// The copy of a loop. Its header has no terminator yet.
pub(super) struct Copied {
    pub header: BlockIndex,
    /// The block that the header continues at if there is another iteration.
    pub body: BlockIndex,
    pub latch: BlockIndex,
    /// The exclusive bound of the induction variable in a strip.
    pub end: NodeId,
    /// Where the row of a strip ends, if that may be after the strip.
    pub row_end: Option<NodeId>,
    pub rectangle: Option<Rectangle>,
    /// The copies of all blocks, in their order.
    pub blocks: Vec<BlockIndex>,
}

/// The extents and the counter of strips that are the rows of a rectangle.
pub(super) struct Rectangle {
    pub rows: NodeId,
    pub columns: NodeId,
    /// One more parameter of the header, which counts the iterations of a strip.
    pub column: NodeId,
    /// By how much the parameters of the loop grow from strip to strip.
    pub steps: Nodes,
}

/// The builder of the copy.
pub(super) struct Copier<'a> {
    graph: &'a mut Graph,
    nest: &'a LoopNest,
    defined: Bits,
    /// The block of the guards, and the exit to the original loop.
    checks: BlockIndex,
    exit: ExitId,
    /// The block before each strip, the state there, and the induction variable.
    strip: BlockIndex,
    at_strip: ExitId,
    counter: NodeId,
    /// The induction variable of the copy, and what it stays below in a strip.
    own: NodeId,
    end: NodeId,
    /// If strips are rows, or the rest of one: the number of the row, with that of the columns in the loop; and the
    /// number of the iteration in it.
    row: Option<(NodeId, NodeId)>,
    column: Option<NodeId>,
    /// Whether they are the rows of a rectangle, which the outer loop counts. Otherwise it counts their iterations,
    /// too.
    is_rectangle: bool,
    /// The distance of the column from the induction variable, and where the row ends, if they are not.
    offset: Option<NodeId>,
    row_end: Option<NodeId>,
    /// Whether strips end where something else than a row does, too.
    has_parts: bool,
    /// Values of the copy that are a number of rows and the column, with that number.
    in_rows: Table<NodeId, NodeId>,
    /// Copies of nodes, blocks and exits of the loop.
    values: Table<NodeId, NodeId>,
    blocks: Table<BlockIndex, BlockIndex>,
    exits: Table<ExitId, ExitId>,
    /// Truth values of the loop that are known.
    truths: Table<NodeId, bool>,
    /// The levels at which values of the copy are invariant, units, and values that are not negative.
    levels: Table<NodeId, Level>,
    units: Table<NodeId, Unit>,
    non_negative: HashSet<NodeId>,
    /// Divisors of the loop, and the numbers that loop-invariant ones are checked not to be less than.
    divisors: HashSet<NodeId>,
    at_least: Table<NodeId, u64>,
    /// Quotients and remainders before a strip, by the dividend and the divisor.
    quotients: Table<(NodeId, NodeId), (NodeId, NodeId)>,
    /// Those in a strip, of dividends that grow by one.
    in_strip: Table<(NodeId, NodeId), (NodeId, NodeId)>,
}

impl<'a> Copier<'a> {
    pub fn new(
        graph: &'a mut Graph,
        nest: &'a LoopNest,
        defined: Bits,
        checks: BlockIndex,
        exit: ExitId,
        (strip, at_strip, counter): (BlockIndex, ExitId, NodeId),
        (row, is_rectangle): (Option<(NodeId, NodeId)>, bool),
    ) -> Copier<'a> {
        let mut divisors = HashSet::new();
        nest.for_each_node(graph, &mut |id| {
            if division(graph, id).is_some() {
                divisors.insert(graph.node(id).args[1]);
            }
        });
        Copier {
            own: counter,
            end: nest.bound,
            row,
            column: None,
            is_rectangle,
            offset: None,
            row_end: None,
            has_parts: false,
            in_rows: Table::default(),
            graph,
            nest,
            defined,
            checks,
            exit,
            strip,
            at_strip,
            counter,
            values: Table::default(),
            blocks: Table::default(),
            exits: Table::default(),
            truths: Table::default(),
            levels: Table::default(),
            units: Table::default(),
            non_negative: HashSet::new(),
            divisors,
            at_least: Table::default(),
            quotients: Table::default(),
            in_strip: Table::default(),
        }
    }

    /// Copies the loop. None if it has something that cannot be copied, or divides nothing that grows by one.
    pub fn copy(mut self) -> Option<Copied> {
        let nest = self.nest;
        let mut old = Vec::new();
        blocks_of(nest, &mut old);
        let mut blocks = Vec::new();
        for block in &old {
            let new = self.graph.add_block();
            self.blocks.insert(*block, new);
            blocks.push(new);
        }
        self.check_bounds()?;
        self.items(nest, true)?;
        if self.in_strip.is_empty() {
            return None;
        }
        let Terminator::Branch(_, [then, _]) = &self.graph.blocks[nest.header].terminator else { return None };
        let [header, body] = [nest.header, then.target].map(|block| self.blocks.get(&block).copied());
        let rectangle = match self.row.filter(|_| self.is_rectangle) {
            Some((_, columns)) => Some(self.rectangle(columns)?),
            None => None,
        };
        let row_end = self.row_end.filter(|_| self.has_parts);
        Some(Copied { header: header?, body: body?, latch: *blocks.last()?, end: self.end, row_end, rectangle, blocks })
    }

    /// Makes sure that the loop runs for long enough, and that its numbers are small.
    fn check_bounds(&mut self) -> Option<()> {
        let (start, bound) = (self.nest.start[self.nest.induction], self.nest.bound);
        self.check_below(start, if self.is_rectangle { 1 } else { SMALL })?;
        self.check_below(bound, SMALL)?;
        self.check(start, bound)?;
        let iterations = self.integer(Level::Loop, Primitive::WrappingSub, &[bound, start]);
        let few = self.constant(MIN_STRIP - 1);
        self.check(few, iterations)
    }

    fn items(&mut self, nest: &LoopNest, is_own: bool) -> Option<()> {
        self.parameters(nest, is_own)?;
        for item in &nest.body {
            match item {
                Item::Nodes(block) => {
                    let nodes = self.graph.blocks[*block].nodes.clone();
                    let into = *self.blocks.get(block)?;
                    for id in nodes {
                        self.node(id, into, is_own)?;
                    }
                    self.ends(*block, into)?;
                }
                Item::Loop(inner) => self.items(inner, false)?,
            }
        }
        Some(())
    }

    /// Gives the copy of a header its parameters.
    fn parameters(&mut self, nest: &LoopNest, is_own: bool) -> Option<()> {
        let into = *self.blocks.get(&nest.header)?;
        for parameter in self.graph.blocks[nest.header].parameters.clone() {
            let new = self.graph.parameter(into, self.graph.node(parameter).ty);
            self.levels.insert(new, Level::Iteration);
            self.values.insert(parameter, new);
        }
        if is_own {
            let own = self.value(self.graph.blocks[nest.header].parameters[nest.induction])?;
            let start = nest.start[nest.induction];
            self.own = own;
            self.levels.insert(self.counter, Level::Strip);
            self.units.insert(own, Unit { at_strip: self.counter, at_loop: Some(start) });
            // Starts have been checked.
            self.non_negative.extend([own, self.counter]);
            if let Some((row, columns)) = self.row {
                self.levels.insert(row, Level::Strip);
                let column = if self.is_rectangle {
                    self.graph.parameter(into, Ty::Scalar(Scalar::I64))
                } else {
                    self.column_of(row, columns, into)?
                };
                self.levels.insert(column, Level::Iteration);
                self.non_negative.extend([row, column]);
                self.column = Some(column);
                self.in_rows.insert(own, row);
            }
        }
        Some(())
    }

    /// Copies what a block has besides nodes.
    fn ends(&mut self, block: BlockIndex, into: BlockIndex) -> Option<()> {
        let content = self.graph.blocks[block].clone();
        let preheader_exit = content.preheader_exit.map(|exit| self.exit(exit));
        let header_exit = content.header_exit.map(|exit| self.exit(exit));
        if preheader_exit == Some(None) || header_exit == Some(None) {
            return None;
        }
        self.graph.blocks[into].preheader_exit = preheader_exit.flatten();
        self.graph.blocks[into].header_exit = header_exit.flatten();
        self.graph.blocks[into].terminator = match &content.terminator {
            // The caller ends the header.
            _ if block == self.nest.header => Terminator::Open,
            Terminator::Jump(branch) => Terminator::Jump(self.branch(branch)?),
            Terminator::Branch(test, [then, otherwise]) => {
                Terminator::Branch(self.value(*test)?, [self.branch(then)?, self.branch(otherwise)?])
            }
            Terminator::Guarded(..) | Terminator::SideExit(..) | Terminator::Open => return None,
        };
        Some(())
    }

    fn branch(&mut self, branch: &Branch) -> Option<Branch> {
        let args: Option<Nodes> = branch.args.iter().map(|arg| self.value(*arg)).collect();
        let limits_exit = match branch.limits_exit {
            Some(exit) => Some(self.exit(exit)?),
            None => None,
        };
        let target = *self.blocks.get(&branch.target)?;
        Some(Branch { target, args: args?, limits_exit, skips_header_test: branch.skips_header_test })
    }

    fn exit(&mut self, id: ExitId) -> Option<ExitId> {
        if let Some(new) = self.exits.get(&id) {
            return Some(*new);
        }
        let mut exit = self.graph.exit(id).clone();
        if exit.fallback.is_some() || !exit.pending_stores.is_empty() {
            return None;
        }
        for slot_value in &mut exit.frame_state {
            slot_value.node = self.value(slot_value.node)?;
        }
        let new = self.graph.add_exit(exit);
        self.exits.insert(id, new);
        Some(new)
    }

    /// The copy of a value. None for a truth value that is known.
    fn value(&self, id: NodeId) -> Option<NodeId> {
        if self.defined.contains(id.index()) { self.values.get(&id).copied() } else { Some(id) }
    }

    fn level(&self, id: NodeId) -> Level {
        self.levels.get(&id).copied().unwrap_or(Level::Loop)
    }

    /// Copies a node of the loop itself, or of an inner one.
    fn node(&mut self, id: NodeId, into: BlockIndex, is_own: bool) -> Option<()> {
        let node = self.graph.node(id).clone();
        match self.known(&node) {
            Some(KnownResult::Value(new)) => {
                self.values.insert(id, new);
                return Some(());
            }
            Some(KnownResult::Truth(truth)) => {
                self.truths.insert(id, truth);
                return Some(());
            }
            None => {}
        }
        let args: Option<SmallVec<[NodeId; 3]>> = node.args.iter().map(|arg| self.value(*arg)).collect();
        let args = args?;
        let new = match division(self.graph, id) {
            Some(is_quotient) if is_own => self.divide(&node, &args, into, is_quotient),
            _ => None,
        };
        let new = match new {
            Some(new) => new,
            None => self.plain(&node, &args, into, is_own)?,
        };
        self.values.insert(id, new);
        Some(())
    }

    /// Copies a node as it is.
    fn plain(&mut self, node: &Node, args: &[NodeId], into: BlockIndex, is_own: bool) -> Option<NodeId> {
        let is_pure = match node.kind {
            Kind::Primitive(primitive, _) => primitive.effect() == Effect::Pure,
            Kind::Number | Kind::Low | Kind::High | Kind::Pair | Kind::Cast => true,
            _ => false,
        };
        let mut level = Level::Iteration;
        if is_pure && is_own {
            level = args.iter().map(|arg| self.level(*arg)).max().unwrap_or(Level::Loop);
        }
        let exit = match node.exit {
            Some(exit) => Some(self.exit(exit)?),
            None => None,
        };
        let block = self.block(level, into);
        let new = self.graph.add_node(block, node.kind, node.ty, args);
        self.graph.nodes[new.index()].exit = exit;
        self.levels.insert(new, level);
        if level == Level::Iteration
            && let Some(unit) = self.sum(node, args)
        {
            self.units.insert(new, unit);
        }
        Some(new)
    }

    fn block(&self, level: Level, into: BlockIndex) -> BlockIndex {
        match level {
            Level::Loop => self.checks,
            Level::Strip => self.strip,
            Level::Iteration => into,
        }
    }

    /// The unit of a sum of a value that grows by one and one that is invariant.
    fn sum(&mut self, node: &Node, args: &[NodeId]) -> Option<Unit> {
        let Kind::Primitive(primitive, Scalar::I64) = node.kind else { return None };
        let grows = match (primitive.linear()?, self.units.get(&args[0]), self.units.get(args.get(1)?)) {
            (Linear::Sum | Linear::Difference, Some(_), None) => 0,
            (Linear::Sum, None, Some(_)) => 1,
            _ => return None,
        };
        let other = self.level(args[1 - grows]);
        if other == Level::Iteration {
            return None;
        }
        let Unit { at_strip, at_loop } = *self.units.get(&args[grows])?;
        let mut operands = [args[0], args[1]];
        operands[grows] = at_strip;
        let at_strip = self.integer(Level::Strip, primitive, &operands);
        let at_loop = at_loop.filter(|_| other == Level::Loop).map(|first| {
            operands[grows] = first;
            self.integer(Level::Loop, primitive, &operands)
        });
        Some(Unit { at_strip, at_loop })
    }

    /// The known value of a node, which then need not be computed: mostly of nodes that correct quotients and
    /// remainders of numbers with different signs.
    fn known(&mut self, node: &Node) -> Option<KnownResult> {
        let truth = |id: &NodeId| self.truths.get(id).copied();
        match node.kind {
            Kind::Number => {
                let truth = truth(&node.args[0])?;
                Some(KnownResult::Value(self.graph.add_constant(Scalar::I32, u64::from(truth))))
            }
            Kind::Primitive(Primitive::Select, _) => {
                let chosen = if truth(&node.args[0])? { node.args[1] } else { node.args[2] };
                self.value(chosen).map(KnownResult::Value)
            }
            Kind::Primitive(primitive, of @ (Scalar::I32 | Scalar::I64)) if primitive.effect() == Effect::Pure => {
                let args: SmallVec<[NodeId; 3]> =
                    node.args.iter().map(|arg| self.value(*arg)).collect::<Option<_>>()?;
                let bits: SmallVec<[Option<u64>; 3]> = args.iter().map(|arg| self.graph.constant(*arg)).collect();
                match (primitive, &bits[..]) {
                    (Primitive::LtS, [_, Some(0)]) if of == Scalar::I64 => {
                        self.is_non_negative(node.args[0]).then_some(KnownResult::Truth(false))
                    }
                    (Primitive::Eq, [Some(a), Some(b)]) => Some(KnownResult::Truth(a == b)),
                    (Primitive::Ne, [Some(a), Some(b)]) => Some(KnownResult::Truth(a != b)),
                    (Primitive::IsNonzero, [Some(a)]) => Some(KnownResult::Truth(*a != 0)),
                    (Primitive::And, [Some(0), _] | [_, Some(0)]) => {
                        Some(KnownResult::Value(self.graph.add_constant(of, 0)))
                    }
                    _ => None,
                }
            }
            _ => None,
        }
    }

    /// Whether a value of the loop is known not to be negative. A loop-invariant divisor is checked for it.
    fn is_non_negative(&mut self, id: NodeId) -> bool {
        let Some(new) = self.value(id) else { return false };
        self.non_negative.contains(&new) || self.divisors.contains(&id) && self.check_divisor(new, 1)
    }

    /// Makes sure that a loop-invariant divisor is at least so much. Whether that is possible.
    fn check_divisor(&mut self, divisor: NodeId, least: u64) -> bool {
        if let Some(bits) = self.graph.constant(divisor) {
            return (least..SMALL).contains(&bits);
        }
        if self.level(divisor) != Level::Loop {
            return false;
        }
        if self.at_least.get(&divisor).is_none_or(|before| *before < least) {
            let less = self.constant(least);
            let above = self.integer(Level::Loop, Primitive::WrappingSub, &[divisor, less]);
            if self.check_below(above, SMALL - least).is_none() {
                return false;
            }
            self.at_least.insert(divisor, least);
            self.non_negative.insert(divisor);
        }
        true
    }

    /// The value of a division in the copy. None if it has to be computed in each iteration.
    fn divide(&mut self, node: &Node, args: &[NodeId], into: BlockIndex, is_quotient: bool) -> Option<NodeId> {
        let &[dividend, divisor] = args else { return None };
        if self.level(dividend) != Level::Iteration && self.level(divisor) != Level::Iteration {
            if !self.non_negative.contains(&dividend) || !self.check_divisor(divisor, 1) {
                // Should it trap, the interpreter makes it again, in the iteration that begins.
                return Some(self.trap(node.kind, args));
            }
            let (quotient, remainder) = self.both(dividend, divisor);
            return Some(if is_quotient { quotient } else { remainder });
        }
        if let Some((_, columns)) = self.row.filter(|_| self.is_rectangle || self.in_rows.contains_key(&dividend)) {
            match self.divide_rows(dividend, divisor, columns, into) {
                Some((quotient, remainder)) => return Some(if is_quotient { quotient } else { remainder }),
                None if self.is_rectangle => return None,
                None => {}
            }
        }
        let unit = *self.units.get(&dividend)?;
        if !self.check_dividend(dividend, unit) || !self.check_divisor(divisor, MIN_STRIP) {
            return None;
        }
        if let Some((quotient, remainder)) = self.in_strip.get(&(dividend, divisor)) {
            return Some(if is_quotient { *quotient } else { *remainder });
        }
        let (quotient, first) = self.both(unit.at_strip, divisor);
        let left = self.integer(Level::Strip, Primitive::WrappingSub, &[divisor, first]);
        let end = self.integer(Level::Strip, Primitive::WrappingAdd, &[self.counter, left]);
        self.end = self.integer(Level::Strip, Primitive::MinS, &[self.end, end]);
        self.has_parts = true;
        let offset = self.integer(Level::Strip, Primitive::WrappingSub, &[first, self.counter]);
        let remainder = self.add(into, Level::Iteration, Primitive::WrappingAdd, &[self.own, offset]);
        self.units.insert(remainder, Unit { at_strip: first, at_loop: None });
        self.non_negative.insert(remainder);
        self.in_strip.insert((dividend, divisor), (quotient, remainder));
        Some(if is_quotient { quotient } else { remainder })
    }

    /// Makes sure that a dividend that grows by one is not negative in any iteration. Whether that is possible.
    fn check_dividend(&mut self, dividend: NodeId, unit: Unit) -> bool {
        if self.non_negative.contains(&dividend) {
            return true;
        }
        let Some(first) = unit.at_loop else { return false };
        if self.check_below(first, LARGE).is_none() {
            return false;
        }
        self.non_negative.extend([dividend, unit.at_strip]);
        true
    }

    /// The quotient and the remainder before each strip. Neither operand is negative, and the divisor is not zero.
    fn both(&mut self, dividend: NodeId, divisor: NodeId) -> (NodeId, NodeId) {
        if let Some(known) = self.quotients.get(&(dividend, divisor)) {
            return *known;
        }
        let quotient = self.trap(Kind::Primitive(Primitive::CheckedDivS, Scalar::I64), &[dividend, divisor]);
        let product = self.integer(Level::Strip, Primitive::WrappingMul, &[quotient, divisor]);
        let remainder = self.integer(Level::Strip, Primitive::WrappingSub, &[dividend, product]);
        self.non_negative.extend([quotient, remainder]);
        self.quotients.insert((dividend, divisor), (quotient, remainder));
        (quotient, remainder)
    }

    /// Adds a division before each strip.
    fn trap(&mut self, kind: Kind, args: &[NodeId]) -> NodeId {
        let new = self.graph.add_node(self.strip, kind, Ty::Scalar(Scalar::I64), args);
        self.graph.nodes[new.index()].exit = Some(self.at_strip);
        self.levels.insert(new, Level::Strip);
        new
    }

    fn integer(&mut self, level: Level, primitive: Primitive, args: &[NodeId]) -> NodeId {
        let constants: SmallVec<[u64; 2]> = args.iter().filter_map(|arg| self.graph.constant(*arg)).collect();
        if constants.len() == args.len()
            && let Some(known) = primitive.known(Scalar::I64, &constants)
        {
            return self.constant(known);
        }
        let block = if level == Level::Loop { self.checks } else { self.strip };
        self.add(block, level, primitive, args)
    }

    fn add(&mut self, block: BlockIndex, level: Level, primitive: Primitive, args: &[NodeId]) -> NodeId {
        let kind = Kind::Primitive(primitive, Scalar::I64);
        let new = self.graph.add_node(block, kind, Ty::Scalar(Scalar::I64), args);
        self.levels.insert(new, level);
        new
    }

    fn constant(&mut self, bits: u64) -> NodeId {
        self.graph.add_constant(Scalar::I64, bits)
    }

    /// Makes sure that a value is below a constant, unsigned. None if it is known not to be.
    fn check_below(&mut self, value: NodeId, bound: u64) -> Option<()> {
        let bound = self.constant(bound);
        self.check(value, bound)
    }

    /// Makes sure that a value is below another one, unsigned. None if it is known not to be.
    fn check(&mut self, value: NodeId, bound: NodeId) -> Option<()> {
        if let (Some(value), Some(bound)) = (self.graph.constant(value), self.graph.constant(bound)) {
            return (value < bound).then_some(());
        }
        let check = self.graph.add_node(self.checks, Kind::InRange, Ty::Nothing, &[value, bound]);
        self.graph.nodes[check.index()].exit = Some(self.exit);
        Some(())
    }
}

/// The blocks of a loop and of those in it, in their order.
fn blocks_of(nest: &LoopNest, into: &mut Vec<BlockIndex>) {
    for item in &nest.body {
        match item {
            Item::Nodes(block) => into.push(*block),
            Item::Loop(inner) => blocks_of(inner, into),
        }
    }
}
