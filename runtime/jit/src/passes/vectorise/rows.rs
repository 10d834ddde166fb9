//! Rows: the iterations of a loop that are computed together. What differs between them is computed for each, and all
//! else once.

use smallvec::SmallVec;

use super::guards::is_left_to_guards;
use crate::analysis::loop_nest::{Item, LoopNest, addend, increment};
use crate::analysis::shapes::access;
use crate::generated::vm::primitive::Primitive;
use crate::ir::bits::Bits;
use crate::ir::graph::{BlockIndex, Branch, ExitId, Graph, Kind, Node, NodeId, Nodes, Terminator};
use crate::ir::hash::Table;
use crate::ir::types::{Effect, Linear, Scalar, Ty};

/// Most passes until it is known what differs.
const MAX_PASSES: usize = 8;

/// How the values of a loop differ between its iterations.
pub(crate) struct Rows {
    /// The values that are defined in the loop.
    pub defined: Bits,
    /// Those that are not the same in all iterations.
    varies: Bits,
    /// Those that differ in a way that is not known. Only side exits need them, and a jammed loop has none.
    unknown: Bits,
    /// By how much an `i64` is more in each iteration than in the one before, if that is known. It may wrap.
    strides: Table<NodeId, u64>,
}

impl Rows {
    /// None if iterations depend on the ones before, or if all store to one element.
    pub fn new(graph: &Graph, nest: &LoopNest) -> Option<Rows> {
        let [varies, unknown] = [(); 2].map(|()| Bits::new(graph.nodes.len()));
        let mut rows = Rows { defined: nest.defined(graph), varies, unknown, strides: Table::default() };
        for (parameter, next) in graph.blocks[nest.header].parameters.iter().zip(&nest.next) {
            rows.varies.insert(parameter.index());
            match increment(graph, *parameter, *next) {
                Some(stride) => {
                    rows.strides.insert(*parameter, stride);
                }
                // A counter of the iterations of all rows, say, whose number is not known.
                None => {
                    addend(graph, *parameter, *next).filter(|by| !rows.defined.contains(by.index()))?;
                    rows.unknown.insert(parameter.index());
                }
            }
        }
        let mut passes = 0;
        while rows.find_varying(graph, nest) {
            passes += 1;
            if passes == MAX_PASSES {
                return None;
            }
        }
        rows.find_strides(graph, nest);
        let mut fits = true;
        nest.for_each_loop(&mut |inner| {
            // All rows make the same iterations of inner loops.
            fits &= inner.header == nest.header || !rows.varies(inner.test);
        });
        nest.for_each_node(graph, &mut |id| {
            fits &= access(graph, id).is_none_or(|(.., stores)| !stores || rows.varies(id));
            fits &= !rows.is_unknown(id) || is_pure_integer(graph.node(id));
        });
        fits.then_some(rows)
    }

    pub fn varies(&self, id: NodeId) -> bool {
        self.varies.contains(id.index())
    }

    /// Whether a value is left out of the jammed loop.
    fn is_unknown(&self, id: NodeId) -> bool {
        self.unknown.contains(id.index())
    }

    /// Finds values that differ since others do. Whether there was one.
    fn find_varying(&mut self, graph: &Graph, nest: &LoopNest) -> bool {
        let mut found = false;
        nest.for_each_loop(&mut |inner| {
            if inner.header == nest.header {
                return;
            }
            for (index, parameter) in graph.blocks[inner.header].parameters.iter().enumerate() {
                let from = [inner.start[index], inner.next[index]];
                found |= self.note_varying(*parameter, &from);
            }
        });
        nest.for_each_node(graph, &mut |id| {
            found |= self.note_varying(id, &graph.node(id).args);
        });
        found
    }

    /// Notes how a value differs that comes from others. Whether that is new.
    fn note_varying(&mut self, id: NodeId, from: &[NodeId]) -> bool {
        let mut is_new = from.iter().any(|id| self.varies(*id)) && self.varies.insert_new(id.index());
        is_new |= from.iter().any(|id| self.is_unknown(*id)) && self.unknown.insert_new(id.index());
        is_new
    }

    /// Finds the strides of the parameters of inner loops and of nodes, which come after those that they are computed
    /// from.
    fn find_strides(&mut self, graph: &Graph, nest: &LoopNest) {
        for item in &nest.body {
            match item {
                Item::Nodes(block) => {
                    for id in &graph.blocks[*block].nodes {
                        if let Some(stride) = self.stride_of(graph, graph.node(*id)) {
                            self.strides.insert(*id, stride);
                        }
                    }
                }
                Item::Loop(inner) => {
                    for (index, parameter) in graph.blocks[inner.header].parameters.iter().enumerate() {
                        // The increment in each iteration of the inner loop is the same in all rows.
                        if increment(graph, *parameter, inner.next[index]).is_some()
                            && let Some(stride) = self.stride(inner.start[index])
                        {
                            self.strides.insert(*parameter, stride);
                        }
                    }
                    self.find_strides(graph, inner);
                }
            }
        }
    }

    /// By how much a value is more in each row than in the one before, if that is known.
    pub fn stride(&self, id: NodeId) -> Option<u64> {
        if self.varies(id) { self.strides.get(&id).copied() } else { Some(0) }
    }

    fn stride_of(&self, graph: &Graph, node: &Node) -> Option<u64> {
        let Kind::Primitive(primitive, Scalar::I64) = node.kind else { return None };
        let linear = primitive.linear()?;
        let (a, b) = (self.stride(node.args[0])?, self.stride(node.args[1])?);
        let product = || match (a, b) {
            (0, 0) => Some(0),
            (a, 0) => Some(a.wrapping_mul(graph.constant(node.args[1])?)),
            (0, b) => Some(b.wrapping_mul(graph.constant(node.args[0])?)),
            _ => None,
        };
        Some(match linear {
            Linear::Sum => a.wrapping_add(b),
            Linear::Difference => a.wrapping_sub(b),
            Linear::Product => product()?,
            Linear::ProductAndSum => product()?.wrapping_add(self.stride(node.args[2])?),
        })
    }
}

/// The copies of a value: one, or one for each row.
type Copies = SmallVec<[NodeId; 8]>;

/// The builder of the body of a jammed loop. It copies the structure of inner loops once, without checks and without
/// counting their back edges.
pub(crate) struct RowsBuilder<'a> {
    graph: &'a mut Graph,
    rows: &'a Rows,
    /// The values of nodes in the first iteration, from the guards.
    initial_values: &'a Table<NodeId, NodeId>,
    count: u64,
    /// Where it appends nodes.
    block: BlockIndex,
    /// The exit that preheaders and headers have to have. No check takes it.
    exit: ExitId,
    values: Table<NodeId, Copies>,
    /// The header of a loop whose new preheader is looked for, and that.
    wanted: (BlockIndex, Option<BlockIndex>),
    /// Other bounds of inner loops, by their headers.
    bounds: Vec<(BlockIndex, NodeId)>,
}

impl<'a> RowsBuilder<'a> {
    pub fn new(
        graph: &'a mut Graph,
        rows: &'a Rows,
        initial_values: &'a Table<NodeId, NodeId>,
        count: u64,
        block: BlockIndex,
        exit: ExitId,
    ) -> RowsBuilder<'a> {
        let wanted = (BlockIndex::NONE, None);
        let (values, bounds) = (Table::default(), Vec::new());
        RowsBuilder { graph, rows, initial_values, count, block, exit, values, wanted, bounds }
    }

    /// Gives inner loops with these headers, which have their tests there, other bounds.
    pub fn set_bounds(&mut self, bounds: Vec<(BlockIndex, NodeId)>) {
        self.bounds = bounds;
    }

    /// Where the body ends.
    pub fn block(&self) -> BlockIndex {
        self.block
    }

    /// Builds the body of a loop whose parameters have these values in the first row. Gives those in the row after the
    /// last one, and the preheader of the copy of an inner loop.
    pub fn build(
        &mut self,
        nest: &LoopNest,
        first: &[NodeId],
        header_of_inner: BlockIndex,
    ) -> Option<(Nodes, BlockIndex)> {
        self.wanted.0 = header_of_inner;
        let own = self.graph.blocks[nest.header].parameters.clone();
        let mut next = Nodes::new();
        for (index, (parameter, first)) in own.into_iter().zip(first).enumerate() {
            if self.rows.is_unknown(parameter) {
                let by = addend(self.graph, parameter, nest.next[index])?;
                let count = self.graph.add_constant(Scalar::I64, self.count);
                let by = self.integer(Primitive::WrappingMul, &[by, count]);
                next.push(self.integer(Primitive::WrappingAdd, &[*first, by]));
                continue;
            }
            let stride = self.rows.stride(parameter)?;
            let copies = self.with_stride(*first, stride);
            self.values.insert(parameter, copies);
            next.push(self.plus(*first, stride.wrapping_mul(self.count)));
        }
        self.items(&nest.body, nest.test)?;
        Some((next, self.wanted.1?))
    }

    /// The values of all rows for one with a stride.
    fn with_stride(&mut self, first: NodeId, stride: u64) -> Copies {
        (0..self.count).map(|row| self.plus(first, stride.wrapping_mul(row))).collect()
    }

    fn plus(&mut self, id: NodeId, by: u64) -> NodeId {
        if by == 0 {
            return id;
        }
        let by = self.graph.add_constant(Scalar::I64, by);
        self.integer(Primitive::WrappingAdd, &[id, by])
    }

    fn integer(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        self.add(Kind::Primitive(primitive, Scalar::I64), Ty::Scalar(Scalar::I64), args)
    }

    fn add(&mut self, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        self.graph.add_node(self.block, kind, ty, args)
    }

    fn items(&mut self, items: &[Item], test: NodeId) -> Option<()> {
        for item in items {
            match item {
                Item::Nodes(block) => {
                    let nodes = self.graph.blocks[*block].nodes.iter().copied();
                    let nodes: Nodes = nodes.filter(|id| *id != test && !self.rows.is_unknown(*id)).collect();
                    let (varying, shared): (Nodes, Nodes) = nodes.into_iter().partition(|id| self.rows.varies(*id));
                    for id in shared {
                        self.node(id, 0)?;
                    }
                    // Row by row, so that what one has loaded does not take registers while others are computed.
                    for row in 0..self.count {
                        for id in &varying {
                            self.node(*id, row)?;
                        }
                    }
                }
                Item::Loop(inner) => self.inner_loop(inner)?,
            }
        }
        Some(())
    }

    /// The rows for which a value is computed: one, if it is the same in all, or if the others follow from it.
    fn computed(&self, id: NodeId) -> u64 {
        if self.rows.stride(id).is_some() { 1 } else { self.count }
    }

    fn inner_loop(&mut self, inner: &LoopNest) -> Option<()> {
        if inner.header == self.wanted.0 {
            self.wanted.1 = Some(self.block);
        }
        // Each with the index of its start and of its next value.
        let own = self.graph.blocks[inner.header].parameters.iter().copied().enumerate();
        let own: SmallVec<[(usize, NodeId); 8]> = own.filter(|(_, id)| !self.rows.is_unknown(*id)).collect();
        let header = self.graph.add_block();
        let mut entering = Nodes::new();
        let mut parameters: Vec<Copies> = Vec::new();
        for (index, parameter) in &own {
            let ty = self.graph.node(*parameter).ty;
            let mut copies = Copies::new();
            for row in 0..self.computed(*parameter) {
                entering.push(self.value(inner.start[*index], row)?);
                copies.push(self.graph.parameter(header, ty));
            }
            parameters.push(copies);
        }
        let preheader = &mut self.graph.blocks[self.block];
        preheader.terminator = Terminator::Jump(Branch { target: header, args: entering, ..Branch::default() });
        preheader.preheader_exit = Some(self.exit);
        self.graph.blocks[header].header_exit = Some(self.exit);
        self.block = header;
        for ((_, parameter), copies) in own.iter().zip(parameters) {
            let copies = match self.rows.stride(*parameter) {
                Some(stride) if self.rows.varies(*parameter) => self.with_stride(copies[0], stride),
                _ => copies,
            };
            self.values.insert(*parameter, copies);
        }
        let mut items = &inner.body[..];
        let mut tested = None;
        if inner.is_top_tested {
            self.items(&items[..1], inner.test)?;
            items = &items[1..];
            let test = match self.bounds.iter().find(|(own, _)| *own == inner.header) {
                Some((_, bound)) => {
                    let bound = *bound;
                    let counter = self.value(self.graph.blocks[inner.header].parameters[inner.induction], 0)?;
                    self.add(Kind::Primitive(Primitive::LtS, Scalar::I64), Ty::Truth, &[counter, bound])
                }
                None => self.test(inner.test)?,
            };
            let body = self.graph.add_block();
            tested = Some((test, body, self.block, self.values.clone()));
            self.block = body;
        }
        self.items(items, inner.test)?;
        let mut back = Nodes::new();
        for (index, parameter) in &own {
            for row in 0..self.computed(*parameter) {
                back.push(self.value(inner.next[*index], row)?);
            }
        }
        let latch = self.block;
        let back = Branch { target: header, args: back, ..Branch::default() };
        let to = |target| Branch { target, ..Branch::default() };
        match tested {
            Some((test, body, at, values)) => {
                self.graph.blocks[latch].terminator = Terminator::Jump(back);
                self.block = self.graph.add_block();
                self.graph.blocks[at].terminator = Terminator::Branch(test, [to(body), to(self.block)]);
                // The header dominates what comes after the loop: what it has is available there, and nothing else of
                // the loop.
                self.values = values;
            }
            None => {
                let test = self.test(inner.test)?;
                self.block = self.graph.add_block();
                self.graph.blocks[latch].terminator = Terminator::Branch(test, [back, to(self.block)]);
            }
        }
        Some(())
    }

    /// Copies the test of an inner loop.
    fn test(&mut self, test: NodeId) -> Option<NodeId> {
        self.node(test, 0)?;
        self.value(test, 0)
    }

    /// A value in a row.
    fn value(&self, id: NodeId, row: u64) -> Option<NodeId> {
        if !self.rows.defined.contains(id.index()) {
            return Some(id);
        }
        self.values.get(&id)?.get(if self.rows.varies(id) { row as usize } else { 0 }).copied()
    }

    /// Copies a node for a row.
    fn node(&mut self, id: NodeId, row: u64) -> Option<()> {
        let node = self.graph.node(id).clone();
        let copy = match node.kind {
            kind if is_left_to_guards(kind) => return Some(()),
            Kind::Base(_) => *self.initial_values.get(&id)?,
            Kind::Primitive(primitive, _) if !can_copy(self.graph, id, primitive) => return None,
            Kind::Primitive(..) | Kind::Low | Kind::High | Kind::Pair | Kind::Cast | Kind::Number => {
                match self.rows.stride(id).filter(|_| row > 0) {
                    Some(stride) => self.plus(self.value(id, 0)?, stride.wrapping_mul(row)),
                    None => {
                        let args = node.args.iter().map(|arg| self.value(*arg, row));
                        let args = args.collect::<Option<SmallVec<[NodeId; 3]>>>()?;
                        self.add(node.kind, node.ty, &args)
                    }
                }
            }
            _ => return None,
        };
        self.values.entry(id).or_default().push(copy);
        Some(())
    }
}

/// Whether a node is an `i64` that is computed without an access or a trap.
fn is_pure_integer(node: &Node) -> bool {
    let is_pure = matches!(node.kind, Kind::Primitive(primitive, _) if primitive.effect() == Effect::Pure);
    is_pure && node.ty == Ty::Scalar(Scalar::I64)
}

/// Whether a primitive can be computed for several rows: it cannot trap, and accesses nothing but an element of a
/// buffer.
fn can_copy(graph: &Graph, id: NodeId, primitive: Primitive) -> bool {
    match primitive.effect() {
        Effect::Pure | Effect::Call => true,
        Effect::Load | Effect::Store => access(graph, id).is_some(),
        Effect::Trap => false,
    }
}
