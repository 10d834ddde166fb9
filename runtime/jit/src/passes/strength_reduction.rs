//! Strength reduction: a product of an induction variable becomes an induction variable of its own, which is added to
//! in each iteration.
//!
//! If `i` grows by `step` in each iteration, then `(i + a) * n + b` grows by `step * n`, in arithmetic that wraps at
//! the width of the product. The new parameter of the header equals the product in each iteration, so it replaces all
//! its uses, those in exits too. Each takes a register all through the loop, so there are few. LICM runs this for each
//! loop.

use smallvec::{SmallVec, smallvec};

use super::range_check_hoisting::{Loop, is_inside};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Graph, Kind, Node, NodeId, Terminator};
use crate::ir::types::{Linear, Scalar, Ty};
use crate::processor::registers::GENERAL;

/// Most products of a loop that are reduced.
const MAX_PRODUCTS: usize = 3;
/// Most sums between the induction variable and a product.
const MAX_SUMS: u32 = 4;
/// Loops that would need more general registers than this keep their products.
const MAX_VALUES: usize = GENERAL.len() - 1;

/// A parameter of the header that grows by a loop-invariant step.
pub(super) struct InductionVariable {
    pub parameter: NodeId,
    pub start: NodeId,
    pub step: NodeId,
}

/// A product: its node, the number of its induction variable, and the factor.
struct Product {
    id: NodeId,
    induction: usize,
    factor: NodeId,
}

/// Adds parameters to a loop for its products. Gives the products and the parameters that replace them.
pub(super) fn reduce(
    graph: &mut Graph,
    block_of: &mut Vec<BlockIndex>,
    of: &Loop<'_>,
    induction_variables: &[InductionVariable],
    is_in_each_iteration: &dyn Fn(BlockIndex) -> bool,
) -> Vec<(NodeId, NodeId)> {
    let mut products = products(graph, block_of, of, induction_variables, is_in_each_iteration);
    products.truncate(MAX_PRODUCTS);
    while !products.is_empty() && !has_registers(graph, block_of, of, induction_variables, &products) {
        products.pop();
    }
    let mut maker = Maker { graph, block_of, of, induction_variables };
    products.iter().filter_map(|product| Some((product.id, maker.parameter(product)?))).collect()
}

/// The induction variables of a loop.
pub(super) fn induction_variables(graph: &Graph, block_of: &[BlockIndex], of: &Loop<'_>) -> Vec<InductionVariable> {
    let mut induction_variables = Vec::new();
    let (&[latch], Terminator::Jump(entering)) = (of.latches, &graph.blocks[of.preheader].terminator) else {
        return induction_variables;
    };
    let branches = graph.branches(latch);
    let mut back = branches.iter().filter(|branch| branch.target == of.header);
    let (Some(back), None) = (back.next(), back.next()) else { return induction_variables };
    for (index, parameter) in graph.blocks[of.header].parameters.iter().enumerate() {
        let (Some(start), Some(next)) = (entering.args.get(index), back.args.get(index)) else { continue };
        let next = graph.node(*next);
        if !is_sum(next) {
            continue;
        }
        let step = match (next.args[0] == *parameter, next.args[1] == *parameter) {
            (true, false) => next.args[1],
            (false, true) => next.args[0],
            _ => continue,
        };
        if !is_inside(graph, block_of, of, step) {
            induction_variables.push(InductionVariable { parameter: *parameter, start: *start, step });
        }
    }
    induction_variables
}

fn is_integer(of: Scalar) -> bool {
    matches!(of, Scalar::I32 | Scalar::I64)
}

fn is_sum(node: &Node) -> bool {
    matches!(node.kind, Kind::Primitive(Primitive::WrappingAdd, of) if is_integer(of))
}

/// The induction variable that a value is, plus or minus loop-invariant values.
fn induction_of(
    graph: &Graph,
    block_of: &[BlockIndex],
    of: &Loop<'_>,
    induction_variables: &[InductionVariable],
    id: NodeId,
    sums: u32,
) -> Option<usize> {
    if let Some(index) = induction_variables.iter().position(|one| one.parameter == id) {
        return Some(index);
    }
    let node = graph.node(id);
    let inside = |id: NodeId| is_inside(graph, block_of, of, id);
    let Kind::Primitive(primitive, _) = node.kind else { return None };
    if sums == 0 || !inside(id) {
        return None;
    }
    let sum = match primitive.linear()? {
        Linear::Sum => match (inside(node.args[0]), inside(node.args[1])) {
            (true, false) => node.args[0],
            (false, true) => node.args[1],
            (true, true) | (false, false) => return None,
        },
        Linear::Difference if inside(node.args[1]) => return None,
        Linear::Difference => node.args[0],
        Linear::Product | Linear::ProductAndSum => return None,
    };
    induction_of(graph, block_of, of, induction_variables, sum, sums - 1)
}

/// The products that each iteration computes.
fn products(
    graph: &Graph,
    block_of: &[BlockIndex],
    of: &Loop<'_>,
    induction_variables: &[InductionVariable],
    is_in_each_iteration: &dyn Fn(BlockIndex) -> bool,
) -> Vec<Product> {
    let depth = graph.blocks[of.header].depth;
    let own = of.body.iter().filter(|block| graph.blocks[**block].depth == depth && is_in_each_iteration(**block));
    let product = |id: &NodeId| {
        let node = graph.node(*id);
        let Kind::Primitive(Primitive::WrappingMul | Primitive::WrappingMulAdd, width) = node.kind else { return None };
        let is_sum = node.args.len() == 3;
        if !is_integer(width) || is_sum && is_inside(graph, block_of, of, node.args[2]) {
            return None;
        }
        [(0, 1), (1, 0)].into_iter().find_map(|(value, factor)| {
            let (value, factor) = (node.args[value], node.args[factor]);
            // A product with a constant is one instruction, as the sum would be.
            let is_worthwhile = is_sum || graph.constant(factor).is_none();
            if !is_worthwhile || is_inside(graph, block_of, of, factor) {
                return None;
            }
            let induction = induction_of(graph, block_of, of, induction_variables, value, MAX_SUMS)?;
            Some(Product { id: *id, induction, factor })
        })
    };
    own.flat_map(|block| graph.blocks[*block].nodes.iter().filter_map(product)).collect()
}

/// Whether there are registers enough for the values of the loop if these products are parameters.
fn has_registers(
    graph: &Graph,
    block_of: &[BlockIndex],
    of: &Loop<'_>,
    induction_variables: &[InductionVariable],
    products: &[Product],
) -> bool {
    let is_product = |id: NodeId| products.iter().any(|product| product.id == id);
    let (mut values, calls) = needed_values(graph, block_of, of, &is_product);
    // The step of a product, if the preheader computes it.
    for product in products {
        let is_one = graph.constant(induction_variables[product.induction].step) == Some(1);
        let step = if is_one { product.factor } else { product.id };
        if graph.constant(step).is_none() && !values.contains(&step) {
            values.push(step);
        }
    }
    !calls && values.len() + products.len() <= MAX_VALUES
}

/// The values that are in general registers all through a loop, without those that only nodes need which are left out,
/// and whether the loop has calls. There are no more than tell that they are too many.
pub(super) fn needed_values(
    graph: &Graph,
    block_of: &[BlockIndex],
    of: &Loop<'_>,
    is_left_out: &dyn Fn(NodeId) -> bool,
) -> (Vec<NodeId>, bool) {
    let mut values: Vec<NodeId> = Vec::new();
    let mut need = |id: NodeId| {
        let node = graph.node(id);
        let is_general = matches!(node.ty, Ty::Scalar(of) if is_integer(of)) && graph.constant(id).is_none();
        if is_general && !values.contains(&id) && values.len() <= MAX_VALUES {
            values.push(id);
        }
    };
    let mut calls = false;
    for block in of.body {
        let content = &graph.blocks[*block];
        content.parameters.iter().for_each(|id| need(*id));
        for id in content.nodes.iter().filter(|id| !is_left_out(**id)) {
            calls |= graph.node(*id).is_call();
            graph.for_each_operand(*id, &mut |operand| {
                if !is_inside(graph, block_of, of, operand) {
                    need(operand);
                }
            });
        }
        if let Terminator::Branch(test, ..) = &content.terminator {
            graph.for_each_operand(*test, &mut |operand| {
                if !is_inside(graph, block_of, of, operand) {
                    need(operand);
                }
            });
        }
    }
    (values, calls)
}

/// Adds values to a loop.
pub(super) struct Maker<'a, 'b> {
    pub graph: &'a mut Graph,
    pub block_of: &'a mut Vec<BlockIndex>,
    pub of: &'a Loop<'b>,
    pub induction_variables: &'a [InductionVariable],
}

impl Maker<'_, '_> {
    /// Makes the parameter that replaces a product.
    fn parameter(&mut self, product: &Product) -> Option<NodeId> {
        let width = self.graph.node(product.id).scalar();
        let one = &self.induction_variables[product.induction];
        let step = self.value(Primitive::WrappingMul, width, &[one.step, product.factor]);
        let start = self.initial(one, product.id);
        let parameter = self.induction_variable(width, start, step)?;
        for block in self.of.body {
            self.graph.blocks[*block].nodes.retain(|id| *id != product.id);
        }
        Some(parameter)
    }

    /// Adds a parameter to the loop that begins with one value, and grows by another one in each iteration.
    pub fn induction_variable(&mut self, width: Scalar, start: NodeId, step: NodeId) -> Option<NodeId> {
        let [latch] = *self.of.latches else { return None };
        let parameter = self.push(self.of.header, Kind::Parameter, width, &[]);
        self.graph.blocks[self.of.header].parameters.push(parameter);
        let next = self.push(latch, Kind::Primitive(Primitive::WrappingAdd, width), width, &[parameter, step]);
        self.graph.blocks[latch].nodes.push(next);
        for (block, arg) in [(self.of.preheader, start), (latch, next)] {
            let header = self.of.header;
            let branches = self.graph.branches_mut(block);
            branches.iter_mut().filter(|branch| branch.target == header).for_each(|branch| branch.args.push(arg));
        }
        Some(parameter)
    }

    /// The value of a node in the first iteration.
    fn initial(&mut self, one: &InductionVariable, id: NodeId) -> NodeId {
        if id == one.parameter {
            return one.start;
        }
        if !is_inside(self.graph, self.block_of, self.of, id) {
            return id;
        }
        let node = self.graph.node(id).clone();
        let Kind::Primitive(primitive, width) = node.kind else { return id };
        let args: SmallVec<[NodeId; 3]> = node.args.iter().map(|arg| self.initial(one, *arg)).collect();
        self.value(primitive, width, &args)
    }

    /// A value in the preheader, simplified.
    pub fn value(&mut self, primitive: Primitive, width: Scalar, args: &[NodeId]) -> NodeId {
        let bits: SmallVec<[Option<u64>; 3]> = args.iter().map(|arg| self.graph.constant(*arg)).collect();
        let is = |index: usize, number: u64| bits[index] == Some(number);
        let both = || bits.iter().copied().collect::<Option<SmallVec<[u64; 3]>>>();
        let known = match primitive.linear() {
            Some(Linear::Product) if is(0, 0) || is(1, 0) => Some(0),
            Some(Linear::Sum | Linear::Product) => both().and_then(|bits| primitive.known(width, &bits)),
            Some(Linear::Difference | Linear::ProductAndSum) | None => None,
        };
        if let Some(bits) = known {
            return self.constant(width, bits);
        }
        match primitive.linear() {
            Some(Linear::Product) if is(0, 1) => return args[1],
            Some(Linear::Product) if is(1, 1) => return args[0],
            Some(Linear::Sum) if is(0, 0) => return args[1],
            Some(Linear::Sum | Linear::Difference) if is(1, 0) => return args[0],
            Some(Linear::ProductAndSum) if is(0, 0) || is(1, 0) => return args[2],
            Some(Linear::ProductAndSum) if is(0, 1) => {
                return self.value(Primitive::WrappingAdd, width, &[args[1], args[2]]);
            }
            Some(Linear::Sum | Linear::Difference | Linear::Product | Linear::ProductAndSum) | None => {}
        }
        let preheader = self.of.preheader;
        let node = self.push(preheader, Kind::Primitive(primitive, width), width, args);
        self.graph.blocks[preheader].nodes.push(node);
        node
    }

    pub fn constant(&mut self, width: Scalar, bits: u64) -> NodeId {
        self.push(BlockIndex::NONE, Kind::Constant(bits), width, &[])
    }

    pub fn push(&mut self, block: BlockIndex, kind: Kind, width: Scalar, args: &[NodeId]) -> NodeId {
        let node = Node { kind, ty: Ty::Scalar(width), args: smallvec![], exit: None };
        self.graph.nodes.push(Node { args: SmallVec::from_slice(args), ..node });
        self.block_of.push(block);
        NodeId(self.graph.nodes.len() as u32 - 1)
    }
}
