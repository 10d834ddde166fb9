//! Range-check hoisting: the range check of an index that is linear in the induction variable is replaced by guards in
//! the preheader, since the index is in range in all iterations if its first and its last value are.
//!
//! The induction variable `i` of a counted loop begins at `start` and grows by a positive step as long as it is less
//! than `bound`. So in the loop `start <= i`, and `i < bound` unless it is the first iteration. An index `a * i + b`
//! is, in arithmetic that wraps, `first + (i - start) * a`, where `first` is its first value. The guards make sure that
//! nothing of this wraps: `start`, `bound`, the step and `a` are small, `first` is in range, and `(last - start) * a`
//! is less than the number of elements from `first` on. If a guard fails, the preheader exits, and the interpreter
//! finds out what the program does. A loop that runs no iteration must not exit: zeros replace `start` and `first`
//! then. LICM runs this for each loop.

use smallvec::{SmallVec, smallvec};

use super::guard_sinking::Guarded;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, ExitId, Graph, Kind, Node, NodeId, Terminator};
use crate::ir::per_block::PerBlock;
use crate::ir::types::{Linear, Scalar, Ty};

/// Upper bound of `start`, `bound` and `a`, exclusive, so that their products do not wrap.
const SMALL: u64 = 1 << 31;

/// A counted loop: its induction variable, and what that begins with and stays below.
pub(super) struct CountedLoop {
    parameter: NodeId,
    start: NodeId,
    bound: NodeId,
    /// The step, if that is no constant.
    step: Option<NodeId>,
    /// The test is in the header, and not in the latch.
    pub is_top_tested: bool,
}

/// A natural loop that LICM is working on, with its header as the only way in.
pub(super) struct Loop<'a> {
    pub preheader: BlockIndex,
    pub header: BlockIndex,
    pub latches: &'a [BlockIndex],
    pub body: &'a [BlockIndex],
    /// Those blocks as a set.
    pub inside: &'a PerBlock<bool>,
    /// The blocks whose checks may be hoisted.
    pub checked: &'a [BlockIndex],
    pub exit: ExitId,
}

impl Loop<'_> {
    /// Whether a block is in the loop. One that was added after the loop was found is not.
    fn contains(&self, block: BlockIndex) -> bool {
        self.inside.get(block).is_some_and(|is_inside| *is_inside)
    }
}

/// Hoists the range checks of indices that are linear in the induction variable. Gives the guards that replace them, if
/// they may sink.
pub(super) fn move_checks(graph: &mut Graph, block_of: &mut Vec<BlockIndex>, of: &Loop<'_>) -> Option<Guarded> {
    let counted = counted_loop(graph, block_of, of)?;
    let (test, is_top_tested, begin) =
        ([counted.start, counted.bound], counted.is_top_tested, graph.nodes.len() as u32);
    let mut guard = Guard::new(graph, block_of, of, counted);
    // Before the test, the induction variable need not be less than the bound.
    for block in of.checked {
        if guard.counted.is_top_tested && *block == of.header {
            continue;
        }
        let mut nodes = std::mem::take(&mut guard.graph.blocks[*block].nodes);
        nodes.retain(|id| !guard.hoist(*id));
        guard.graph.blocks[*block].nodes = nodes;
    }
    let made = begin..guard.graph.nodes.len() as u32;
    (is_top_tested && !made.is_empty()).then_some(Guarded { preheader: of.preheader, test, made, moved: Vec::new() })
}

pub(super) fn is_inside(graph: &Graph, block_of: &[BlockIndex], of: &Loop<'_>, id: NodeId) -> bool {
    of.contains(block_of[id.index()]) && graph.constant(id).is_none()
}

/// The loop as a counted one, if it is: with the test in its latch, or in its header.
pub(super) fn counted_loop(graph: &Graph, block_of: &[BlockIndex], of: &Loop<'_>) -> Option<CountedLoop> {
    let [latch] = of.latches else { return None };
    let (test, is_top_tested) = match (&graph.blocks[*latch].terminator, &graph.blocks[of.header].terminator) {
        (Terminator::Branch(test, [then, _]), _) if then.target == of.header => (*test, false),
        (Terminator::Jump(_), Terminator::Branch(test, [then, otherwise]))
            if of.contains(then.target) && !of.contains(otherwise.target) =>
        {
            (*test, true)
        }
        _ => return None,
    };
    let truth = graph.node(test);
    if truth.kind != Kind::Primitive(Primitive::LtS, Scalar::I64) {
        return None;
    }
    let (tested, bound) = (truth.args[0], truth.args[1]);
    let branches = graph.branches(*latch);
    let back = branches.iter().find(|branch| branch.target == of.header)?;
    let parameters = &graph.blocks[of.header].parameters;
    let index = if is_top_tested {
        parameters.iter().position(|parameter| *parameter == tested)?
    } else {
        back.args.iter().position(|arg| *arg == tested)?
    };
    let (parameter, next) = (parameters[index], *back.args.get(index)?);
    let step = graph.node(next);
    let counts = step.kind == Kind::Primitive(Primitive::WrappingAdd, Scalar::I64) && step.args[0] == parameter;
    let by = *step.args.get(1)?;
    let is_known = graph.constant(by).is_some_and(|by| (1..SMALL).contains(&by));
    let is_step = is_known || (graph.constant(by).is_none() && !is_inside(graph, block_of, of, by));
    if !counts || !is_step || is_inside(graph, block_of, of, bound) {
        return None;
    }
    let start = *graph.branches(of.preheader).first()?.args.get(index)?;
    Some(CountedLoop { parameter, start, bound, step: (!is_known).then_some(by), is_top_tested })
}

/// The builder of guards in the preheader of a counted loop.
pub(super) struct Guard<'a, 'b> {
    pub graph: &'a mut Graph,
    block_of: &'a mut Vec<BlockIndex>,
    of: &'a Loop<'b>,
    counted: CountedLoop,
    is_guarded: bool,
    /// The test whether the loop runs at all, and the start of the induction variable, or zero if it does not.
    runs: Option<(NodeId, NodeId)>,
}

impl<'a, 'b> Guard<'a, 'b> {
    pub fn new(
        graph: &'a mut Graph,
        block_of: &'a mut Vec<BlockIndex>,
        of: &'a Loop<'b>,
        counted: CountedLoop,
    ) -> Guard<'a, 'b> {
        Guard { graph, block_of, of, counted, is_guarded: false, runs: None }
    }

    /// The start of the induction variable; zero if the loop does not run, so that no guard fails for it.
    fn start(&mut self) -> NodeId {
        if !self.counted.is_top_tested {
            return self.counted.start;
        }
        if let Some((_, start)) = self.runs {
            return start;
        }
        let (start, bound) = (self.counted.start, self.counted.bound);
        let test = Kind::Primitive(Primitive::LtS, Scalar::I64);
        let runs = self.add(test, Ty::Truth, smallvec![start, bound]);
        let zero = self.constant(0);
        let start = self.integer(Primitive::Select, &[runs, start, zero]);
        self.runs = Some((runs, start));
        start
    }

    /// Makes sure that the loop runs at least once.
    pub fn check_runs(&mut self) {
        let (start, bound) = (self.counted.start, self.counted.bound);
        self.add(Kind::InRange, Ty::Nothing, smallvec![start, bound]);
    }

    /// The address of an element of `width` bytes.
    pub fn address(&mut self, base: NodeId, index: NodeId, width: u64) -> NodeId {
        let width = self.constant(width);
        let offset = self.integer(Primitive::WrappingMul, &[index, width]);
        self.integer(Primitive::WrappingAdd, &[base, offset])
    }

    /// Makes sure that the `width` bytes at an address do not overlap the elements of `size` bytes that a linear index
    /// reaches.
    ///
    /// With `n` bytes from `there` on, the two overlap if `own + width - 1 - there` is less than `n + width - 1`,
    /// unsigned.
    pub fn check_apart(&mut self, own: NodeId, width: u64, base: NodeId, index: NodeId, size: u64) {
        let (first, grows) = if is_inside(self.graph, self.block_of, self.of, index) {
            let (first, slope) = self.first(index);
            (first, Some(self.growth(slope)))
        } else {
            (index, None)
        };
        let there = self.address(base, first, size);
        let before = self.constant(width - 1);
        let end = self.integer(Primitive::WrappingAdd, &[own, before]);
        let distance = self.integer(Primitive::WrappingSub, &[end, there]);
        // One less than what the distance has to reach.
        let mut span = self.constant(size + width - 2);
        if let Some(grows) = grows {
            let size = self.constant(size);
            let bytes = self.integer(Primitive::WrappingMul, &[grows, size]);
            span = self.integer(Primitive::WrappingAdd, &[bytes, span]);
        }
        self.add(Kind::InRange, Ty::Nothing, smallvec![span, distance]);
    }

    /// By how much an index that grows by `slope` with the induction variable grows in all.
    fn growth(&mut self, slope: Option<NodeId>) -> NodeId {
        // The distance from the first to the last value of the induction variable, times the slope.
        let (start, bound) = (self.start(), self.counted.bound);
        let one = self.constant(1);
        let zero = self.constant(0);
        let iterations = self.integer(Primitive::WrappingSub, &[bound, start]);
        let iterations = self.integer(Primitive::WrappingSub, &[iterations, one]);
        let iterations = self.integer(Primitive::MaxS, &[iterations, zero]);
        match slope {
            None => iterations,
            Some(slope) => self.integer(Primitive::WrappingMul, &[iterations, slope]),
        }
    }

    /// A node that belongs to a block, to which the caller adds it.
    pub fn push_to(&mut self, block: BlockIndex, kind: Kind, ty: Ty) -> NodeId {
        let id = self.push(Node { kind, ty, args: SmallVec::new(), exit: None });
        self.block_of[id.index()] = block;
        id
    }

    /// Hoists a node if it is a range check of a linear index. Whether it was.
    fn hoist(&mut self, id: NodeId) -> bool {
        let node = self.graph.node(id).clone();
        let goes_on = node.exit.is_some_and(|exit| self.graph.exit(exit).fallback.is_some());
        if node.kind != Kind::InRange || goes_on || is_inside(self.graph, self.block_of, self.of, node.args[1]) {
            return false;
        }
        let (index, elements) = (node.args[0], node.args[1]);
        if !is_inside(self.graph, self.block_of, self.of, index) || !self.is_linear(index, 8) {
            return false;
        }
        self.check_bounds();
        let (mut first, slope) = self.first(index);
        if let Some((runs, _)) = self.runs {
            let zero = self.constant(0);
            first = self.integer(Primitive::Select, &[runs, first, zero]);
        }
        self.add(Kind::InRange, Ty::Nothing, smallvec![first, elements]);
        // The growth is less than the number of elements from the first index on.
        let grows = self.growth(slope);
        let rest = self.integer(Primitive::WrappingSub, &[elements, first]);
        self.add(Kind::InRange, Ty::Nothing, smallvec![grows, rest]);
        true
    }

    /// Makes sure that the bounds and the step are small enough for products not to wrap.
    pub fn check_bounds(&mut self) {
        if !std::mem::replace(&mut self.is_guarded, true) {
            let small = self.constant(SMALL);
            for value in [Some(self.start()), Some(self.counted.bound), self.counted.step].into_iter().flatten() {
                self.add(Kind::InRange, Ty::Nothing, smallvec![value, small]);
            }
            if let Some(step) = self.counted.step {
                let zero = self.constant(0);
                self.add(Kind::InRange, Ty::Nothing, smallvec![zero, step]);
            }
        }
    }

    /// Whether a value is linear in the induction variable, or loop-invariant.
    pub fn is_linear(&self, id: NodeId, depth: u32) -> bool {
        if id == self.counted.parameter || !is_inside(self.graph, self.block_of, self.of, id) {
            return true;
        }
        let node = self.graph.node(id);
        if depth == 0 {
            return false;
        }
        let inside = |id: NodeId| is_inside(self.graph, self.block_of, self.of, id);
        let Kind::Primitive(primitive, Scalar::I64) = node.kind else { return false };
        let Some(linear) = primitive.linear() else { return false };
        let [a, b] = [node.args[0], node.args[1]];
        match linear {
            // One operand is linear, and the other is invariant: an offset or a factor.
            Linear::Sum | Linear::Product | Linear::ProductAndSum => {
                (inside(a) != inside(b))
                    && self.is_linear(a, depth - 1)
                    && self.is_linear(b, depth - 1)
                    && node.args.get(2).is_none_or(|sum| !inside(*sum))
            }
            Linear::Difference => !inside(b) && self.is_linear(a, depth - 1),
        }
    }

    /// The first value of one that is linear, and its slope: by what it grows when the induction variable grows by one,
    /// if that is not one.
    fn first(&mut self, id: NodeId) -> (NodeId, Option<NodeId>) {
        if id == self.counted.parameter {
            return (self.counted.start, None);
        }
        let node = self.graph.node(id).clone();
        let mut args = node.args.clone();
        let mut slope = None;
        for index in 0..args.len() {
            if !is_inside(self.graph, self.block_of, self.of, args[index]) {
                continue;
            }
            let (first, grows) = self.first(args[index]);
            args[index] = first;
            slope = grows;
            if let Kind::Primitive(Primitive::WrappingMul | Primitive::WrappingMulAdd, _) = node.kind {
                let factor = node.args[1 - index];
                let small = self.constant(SMALL);
                self.add(Kind::InRange, Ty::Nothing, smallvec![factor, small]);
                slope = Some(match grows {
                    None => factor,
                    Some(grows) => {
                        let product = self.integer(Primitive::WrappingMul, &[grows, factor]);
                        self.add(Kind::InRange, Ty::Nothing, smallvec![product, small]);
                        product
                    }
                });
            }
        }
        (self.add(node.kind, node.ty, args), slope)
    }

    fn integer(&mut self, primitive: Primitive, args: &[NodeId]) -> NodeId {
        self.add(Kind::Primitive(primitive, Scalar::I64), Ty::Scalar(Scalar::I64), SmallVec::from_slice(args))
    }

    fn constant(&mut self, bits: u64) -> NodeId {
        self.push(Node { kind: Kind::Constant(bits), ty: Ty::Scalar(Scalar::I64), args: SmallVec::new(), exit: None })
    }

    fn push(&mut self, node: Node) -> NodeId {
        self.graph.nodes.push(node);
        self.block_of.push(self.of.preheader);
        NodeId(self.graph.nodes.len() as u32 - 1)
    }

    /// Adds a node to the preheader.
    pub fn add(&mut self, kind: Kind, ty: Ty, args: SmallVec<[NodeId; 3]>) -> NodeId {
        let exit = (kind == Kind::InRange).then_some(self.of.exit);
        let node = self.push(Node { kind, ty, args, exit });
        self.graph.blocks[self.of.preheader].nodes.push(node);
        node
    }
}
