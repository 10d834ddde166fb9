//! Control flow as the prover sees it: which positions are on every path to another one. It is computed here once more,
//! so that the proof leans on no analysis that the passes have used.
//!
//! A block is two vertices, its top and its end, since a check in the middle of it may branch to another block: what
//! comes after that check is not on the path there. An edge to a loop header whose test is known to be false on that
//! edge leads to where the header goes then.

use smallvec::SmallVec;

use super::budget::Budget;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Branch, Graph, Kind, NodeId, Terminator};
use crate::ir::types::{Effect, Scalar, Ty};

/// The top or the end of a block.
type Vertex = u32;

fn top(block: BlockIndex) -> Vertex {
    2 * block.index() as u32
}

fn end(block: BlockIndex) -> Vertex {
    top(block) + 1
}

const NONE: u32 = u32::MAX;

/// Tests with their results.
pub(super) type Tests = Vec<(NodeId, bool)>;

/// A position: a block, and the number of a node in it. Parameters have 0, and the terminator comes after all nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct At(pub BlockIndex, pub u32);

/// A branch to a block.
#[derive(Clone, Copy)]
pub(super) struct Edge<'g> {
    pub from: BlockIndex,
    pub branch: &'g Branch,
}

pub(super) struct Flow<'g> {
    graph: &'g Graph,
    /// The reachable blocks. A block comes after those that dominate it.
    pub order: Vec<BlockIndex>,
    tree: Tree,
    /// The tree with edges to headers whose test is known, if there are some.
    plain: Option<Tree>,
    /// For each vertex, those from which it is reached.
    before: Lists,
    /// For each block, all branches to it, those that are known not to enter a loop included.
    pub edges: Vec<SmallVec<[Edge<'g>; 2]>>,
    at: Vec<Option<At>>,
}

/// Lists of vertices, one for each vertex.
#[derive(Default)]
struct Lists {
    /// Where each list begins, and where the last one ends.
    starts: Vec<u32>,
    all: Vec<Vertex>,
}

impl Lists {
    /// The second ones of pairs, by the first one.
    fn new(pairs: impl Iterator<Item = (Vertex, Vertex)> + Clone, count: usize) -> Lists {
        let mut starts = vec![0; count + 1];
        pairs.clone().for_each(|(of, _)| starts[of as usize + 1] += 1);
        for index in 0..count {
            starts[index + 1] += starts[index];
        }
        let mut next = starts.clone();
        let mut all = vec![0; starts[count] as usize];
        for (of, other) in pairs {
            all[next[of as usize] as usize] = other;
            next[of as usize] += 1;
        }
        Lists { starts, all }
    }

    fn of(&self, vertex: Vertex) -> &[Vertex] {
        let vertex = vertex as usize;
        &self.all[self.starts[vertex] as usize..self.starts[vertex + 1] as usize]
    }
}

/// The dominators of vertices.
#[derive(Default)]
struct Tree {
    /// The immediate dominator of each vertex, how many it has, and the numbers of its subtree. The root comes last.
    parents: Vec<Vertex>,
    depths: Vec<u32>,
    numbers: Vec<(u32, u32)>,
}

impl<'g> Flow<'g> {
    pub fn new(graph: &'g Graph, budget: &mut Budget) -> Option<Flow<'g>> {
        let count = graph.blocks.len();
        let mut flow = Flow {
            graph,
            order: Vec::new(),
            tree: Tree::default(),
            plain: None,
            before: Lists::default(),
            edges: vec![SmallVec::new(); count],
            at: vec![None; graph.nodes.len()],
        };
        // The edges, in the order of the vertices that they are from, and those that are known to lead elsewhere.
        let mut after: Vec<(Vertex, Vertex)> = Vec::with_capacity(3 * count);
        let mut known = Vec::new();
        let root = 2 * count as u32;
        for (block, content) in graph.blocks.indexed() {
            budget.spend(1 + content.nodes.len())?;
            after.push((top(block), end(block)));
            let mut exits: SmallVec<[_; 8]> = content.nodes.iter().filter_map(|id| graph.node(*id).exit).collect();
            // Many nodes have one exit.
            exits.dedup();
            exits.extend(graph.branches(block).iter().filter_map(|branch| branch.limits_exit));
            if let Terminator::SideExit(_, exit) = &content.terminator {
                exits.push(*exit);
            }
            for branch in exits.iter().filter_map(|exit| graph.exits.get(exit.0 as usize)?.fallback.as_ref()) {
                after.push((top(block), top(branch.target)));
                flow.edges.get_mut(branch.target.index())?.push(Edge { from: block, branch });
            }
            for branch in graph.branches(block) {
                let past = past_header(graph, block, branch);
                if branch.skips_header_test && !(past.is_some() && only_tests(graph, branch.target)) {
                    return None;
                }
                known.extend(past.map(|_| (after.len(), top(branch.target))));
                after.push((end(block), top(past.unwrap_or(branch.target))));
                flow.edges.get_mut(branch.target.index())?.push(Edge { from: block, branch });
            }
            let parameters = content.parameters.iter().map(|id| (0, *id));
            for (position, id) in parameters.chain((1..).zip(content.nodes.iter().copied())) {
                if flow.at.get_mut(id.index())?.replace(At(block, position)).is_some() {
                    return None;
                }
            }
        }
        let entries = graph.blocks.indexed().filter(|(_, content)| content.entry.is_some());
        after.extend(entries.map(|(block, _)| (root, top(block))));
        let (tree, order, before) = Tree::new(&after, 2 * count + 1, budget)?;
        flow.order = order.into_iter().filter(|vertex| vertex % 2 == 0).map(block_of).collect();
        flow.before = before;
        flow.tree = tree;
        if !known.is_empty() {
            known.iter().for_each(|(edge, target)| after[*edge].1 = *target);
            flow.plain = Some(Tree::new(&after, 2 * count + 1, budget)?.0);
        }
        // A block that no path reaches brings no values.
        let reached = |block: BlockIndex| flow.tree.parents[top(block) as usize] != NONE;
        flow.edges.iter_mut().for_each(|edges| edges.retain(|edge| reached(edge.from)));
        Some(flow)
    }

    pub fn is_reached(&self, block: BlockIndex) -> bool {
        self.tree.parents[top(block) as usize] != NONE
    }

    /// Whether the top of a block is on every path to that of another one. It is on that to its own.
    pub fn is_above(&self, block: BlockIndex, other: BlockIndex) -> bool {
        self.tree.covers(top(block), top(other))
    }

    /// How deep a block is in the tree of dominators.
    pub fn depth(&self, block: BlockIndex) -> u32 {
        self.tree.depths[top(block) as usize]
    }

    /// Where a node is computed. Constants are nowhere.
    pub fn at(&self, id: NodeId) -> Option<At> {
        *self.at.get(id.index())?
    }

    /// Whether one position comes before another one on every path to that.
    pub fn precedes(&self, one: At, other: At) -> bool {
        if one.0 == other.0 { one.1 < other.1 } else { self.tree.covers(end(one.0), top(other.0)) }
    }

    /// Whether a value is computed on every path to a position. A truth value is if its operands are.
    pub fn is_available(&self, id: NodeId, at: At) -> bool {
        let Some(node) = self.graph.nodes.get(id.index()) else { return false };
        match (node.kind, node.ty) {
            (Kind::Constant(_), _) => true,
            (_, Ty::Truth) => node.args.iter().all(|arg| self.is_available(*arg, at)),
            _ => self.at(id).is_some_and(|own| {
                let tree = self.plain.as_ref().unwrap_or(&self.tree);
                if own.0 == at.0 { own.1 < at.1 } else { tree.covers(end(own.0), top(at.0)) }
            }),
        }
    }

    /// Whether a value stays the same while the loop with this header runs: it is computed on every path to the header,
    /// before it.
    pub fn is_before(&self, id: NodeId, header: BlockIndex) -> bool {
        self.graph.constant(id).is_some() || self.at(id).is_some_and(|at| at.0 != header && self.is_above(at.0, header))
    }

    /// The blocks whose nodes are all on every path to a block, the nearest one first, and the tests on these paths
    /// with their results.
    pub fn dominating(&self, block: BlockIndex, budget: &mut Budget) -> Option<(Vec<BlockIndex>, Tests)> {
        let (mut blocks, mut tests) = (Vec::new(), Vec::new());
        let mut vertex = top(block);
        let root = self.tree.parents.len() as u32 - 1;
        while vertex != root {
            budget.spend(1)?;
            if vertex % 2 == 1 {
                blocks.push(block_of(vertex));
            } else if let [from] = self.before.of(vertex)
                && from % 2 == 1
                && *from != root
                && let Terminator::Branch(test, [then, otherwise]) = &self.graph.blocks[block_of(*from)].terminator
            {
                let target = |branch| past_header(self.graph, block_of(*from), branch).unwrap_or(branch.target);
                if target(then) != target(otherwise) {
                    tests.push((*test, target(then) == block_of(vertex)));
                }
            }
            vertex = self.tree.parents[vertex as usize];
        }
        Some((blocks, tests))
    }
}

impl Tree {
    /// The tree, the reachable vertices without the root in reverse postorder, and for each vertex those that it is
    /// reached from.
    fn new(edges: &[(Vertex, Vertex)], count: usize, budget: &mut Budget) -> Option<(Tree, Vec<Vertex>, Lists)> {
        let mut tree = Tree { parents: vec![NONE; count], depths: vec![0; count], numbers: vec![(NONE, NONE); count] };
        let after = Lists::new(edges.iter().copied(), count);
        let root = count as u32 - 1;
        let mut order: Vec<Vertex> = Vec::with_capacity(count);
        let mut seen = vec![false; count];
        let mut stack = vec![(root, 0)];
        seen[root as usize] = true;
        while let Some((vertex, next)) = stack.pop() {
            match after.of(vertex).get(next) {
                Some(target) => {
                    stack.push((vertex, next + 1));
                    if !std::mem::replace(&mut seen[*target as usize], true) {
                        stack.push((*target, 0));
                    }
                }
                None => order.push(vertex),
            }
        }
        order.reverse();
        let mut rank = vec![NONE; count];
        (0..).zip(&order).for_each(|(number, vertex)| rank[*vertex as usize] = number);
        let reached = edges.iter().filter(|(from, _)| rank[*from as usize] != NONE);
        let before = Lists::new(reached.map(|(from, to)| (*to, *from)), count);
        tree.parents[root as usize] = root;
        let mut changed = true;
        while std::mem::take(&mut changed) {
            for vertex in &order[1..] {
                budget.spend(1)?;
                let mut common = NONE;
                for from in before.of(*vertex).iter().filter(|from| tree.parents[**from as usize] != NONE) {
                    let (mut a, mut b) = (if common == NONE { *from } else { common }, *from);
                    while a != b {
                        budget.spend(1)?;
                        let deeper = if rank[a as usize] > rank[b as usize] { &mut a } else { &mut b };
                        *deeper = tree.parents[*deeper as usize];
                    }
                    common = a;
                }
                changed |= std::mem::replace(&mut tree.parents[*vertex as usize], common) != common;
            }
        }
        // Sizes of subtrees first, then numbers.
        let mut sizes = vec![1_u32; count];
        order[1..]
            .iter()
            .rev()
            .for_each(|vertex| sizes[tree.parents[*vertex as usize] as usize] += sizes[*vertex as usize]);
        let mut next = vec![1_u32; count];
        tree.numbers[root as usize] = (0, sizes[root as usize]);
        for vertex in &order[1..] {
            let parent = tree.parents[*vertex as usize] as usize;
            let first = tree.numbers[parent].0 + next[parent];
            next[parent] += sizes[*vertex as usize];
            tree.numbers[*vertex as usize] = (first, first + sizes[*vertex as usize]);
            tree.depths[*vertex as usize] = tree.depths[parent] + 1;
        }
        order.remove(0);
        Some((tree, order, before))
    }

    /// Whether a vertex is on every path to another one.
    fn covers(&self, vertex: Vertex, other: Vertex) -> bool {
        let (first, after) = self.numbers[vertex as usize];
        first != NONE && (first..after).contains(&self.numbers[other as usize].0)
    }
}

fn block_of(vertex: Vertex) -> BlockIndex {
    BlockIndex::new(vertex as usize / 2)
}

/// The operands of a test whether one number is less than another one.
pub(super) fn less(graph: &Graph, test: NodeId) -> Option<(NodeId, NodeId)> {
    let node = graph.nodes.get(test.index())?;
    (node.kind == Kind::Primitive(Primitive::LtS, Scalar::I64)).then(|| (node.args[0], node.args[1]))
}

/// Whether a block computes nothing but truth values, so that machine code may leave it out where its test is known.
fn only_tests(graph: &Graph, block: BlockIndex) -> bool {
    graph.blocks[block].nodes.iter().all(|id| graph.node(*id).ty == Ty::Truth)
}

/// Where a branch leads that is taken if a loop does not run: the header of the loop makes the same test again. Nothing
/// of the header may rely on checks then, so it must only compute.
fn past_header(graph: &Graph, from: BlockIndex, branch: &Branch) -> Option<BlockIndex> {
    let header = graph.blocks.get(branch.target)?;
    let Terminator::Branch(test, [_, out]) = &header.terminator else { return None };
    let Terminator::Branch(known, [then, otherwise]) = &graph.blocks[from].terminator else { return None };
    if otherwise.target != branch.target || then.target == branch.target {
        return None;
    }
    let ((counter, bound), (start, limit)) = (less(graph, *test)?, less(graph, *known)?);
    let index = header.parameters.iter().position(|parameter| *parameter == counter)?;
    let brought = *branch.args.get(index)?;
    let is_same =
        |a: NodeId, b: NodeId| a == b || graph.constant(a).is_some_and(|bits| graph.constant(b) == Some(bits));
    let computes = header.nodes.iter().all(|id| {
        let node = graph.node(*id);
        let is_pure = matches!(node.kind, Kind::Primitive(primitive, _) if primitive.effect() == Effect::Pure);
        node.exit.is_none() && (node.ty == Ty::Truth || is_pure)
    });
    // The bound is a value from before, not a parameter of the header.
    let is_own = header.parameters.contains(&bound) || header.nodes.contains(&bound);
    (is_same(brought, start) && is_same(bound, limit) && !is_own && computes).then_some(out.target)
}
