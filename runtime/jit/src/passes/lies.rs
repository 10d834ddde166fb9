//! Lies: a pass that breaks a graph at random, as a fault of another pass would, for tests of the proof. It runs after
//! the last pass, and only in builds with the feature `lies`, which no other crate enables but for its tests.
//!
//! Guards are dropped, weakened, checked against another buffer, or made of other numbers; and what they guard is
//! changed: indices, masks, steps, bounds, and where loops begin. Guards against overlapping stay as they are: results
//! depend on them, and no access does.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::dce;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{BlockIndex, Graph, Kind, NodeId, Terminator};
use crate::ir::types::{Effect, Scalar, Ty};

/// One lie.
#[derive(Clone, Debug)]
pub struct Lie {
    /// A description of it.
    pub what: String,
    /// The proof has found that accesses are not guarded any more.
    pub is_refused: bool,
    /// Code can be made of the graph without the proof: all values are still computed before they are used.
    pub is_sound: bool,
}

/// Which lies are told.
struct Liar {
    random: Random,
    /// Functions are compiled even if they are refused.
    unproved: bool,
    told: Vec<Lie>,
}

static LIAR: Mutex<Option<Liar>> = Mutex::new(None);

fn liar() -> MutexGuard<'static, Option<Liar>> {
    LIAR.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Lies about each function that is compiled from now on, once. With `unproved`, lies that are refused are compiled
/// nevertheless.
pub fn begin(seed: u64, unproved: bool) {
    *liar() = Some(Liar { random: Random::new(seed), unproved, told: Vec::new() });
}

/// Tells the truth again. Gives the lies that were told, without those about functions that could not be proved before.
pub fn end() -> Vec<Lie> {
    liar().take().map_or(Vec::new(), |liar| liar.told)
}

/// Whether lies are told.
pub(crate) fn are_told() -> bool {
    liar().is_some()
}

/// Lies about a graph.
pub(crate) fn tell(graph: &mut Graph) -> bool {
    let Some(liar) = &mut *liar() else { return false };
    let mut told = Breaking { random: &mut liar.random, graph, is_sound: true };
    for _ in 0..20 {
        if let Some(what) = told.tell() {
            let is_sound = told.is_sound;
            // Nodes that nothing uses any more would have no place.
            dce::remove_dead_nodes(graph, false);
            liar.told.push(Lie { what, is_refused: false, is_sound });
            return true;
        }
    }
    false
}

/// Notes what the proof says about the last lie. Gives that, unless the lie is compiled all the same.
pub(crate) fn judge<T>(proved: Result<(), T>) -> Result<(), T> {
    let Some(liar) = &mut *liar() else { return proved };
    let Some(lie) = liar.told.last_mut() else { return proved };
    lie.is_refused = proved.is_err();
    if liar.unproved && lie.is_sound { Ok(()) } else { proved }
}

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Random {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        (0..4).for_each(|_| _ = random.below(2));
        random
    }

    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(0x5851_F42D_4C95_7F2D).wrapping_add(0x1405_7B7E_F767_814F);
        (self.0 >> 33) as usize % bound
    }

    fn pick<T: Copy>(&mut self, all: &[T]) -> Option<T> {
        if all.is_empty() { None } else { Some(all[self.below(all.len())]) }
    }

    /// A small distance, mostly one.
    fn distance(&mut self) -> u64 {
        let all = [1, 1, 1, 1, 2, 3, 4, 7, 8, 15, 16, 64, 1 << 10, 1 << 20, 1 << 31, 1 << 40];
        all[self.below(all.len())]
    }
}

/// Where new nodes of a block go.
#[derive(Clone, Copy)]
struct At {
    block: BlockIndex,
    position: usize,
}

const I64: Ty = Ty::Scalar(Scalar::I64);

struct Breaking<'a> {
    random: &'a mut Random,
    graph: &'a mut Graph,
    is_sound: bool,
}

impl Breaking<'_> {
    /// Tells a lie, unless there is nothing to lie about in the way that is drawn.
    fn tell(&mut self) -> Option<String> {
        match self.random.below(20) {
            0..11 => self.guard(),
            11..15 => self.access(),
            15..18 => self.loop_argument(),
            18 => self.test(),
            _ => self.flow(),
        }
    }

    fn nodes(&self, wanted: impl Fn(&Graph, NodeId) -> bool) -> Vec<(At, NodeId)> {
        let graph = &*self.graph;
        let of_block = |block: &BlockIndex| {
            let block = *block;
            let nodes = graph.blocks[block].nodes.iter().enumerate();
            nodes.map(move |(position, id)| (At { block, position }, *id)).collect::<Vec<_>>()
        };
        graph.order.iter().flat_map(of_block).filter(|(_, id)| wanted(graph, *id)).collect()
    }

    /// Adds a node before a position, which moves on.
    fn insert(&mut self, at: &mut At, kind: Kind, ty: Ty, args: &[NodeId]) -> NodeId {
        let id = self.graph.add_node(at.block, kind, ty, args);
        let nodes = &mut self.graph.blocks[at.block].nodes;
        nodes.pop();
        nodes.insert(at.position, id);
        at.position += 1;
        id
    }

    /// A value that differs a little from another one.
    fn other(&mut self, at: &mut At, value: NodeId, of: Scalar) -> Option<NodeId> {
        let by = self.random.distance();
        let ty = Ty::Scalar(of);
        if let Some(bits) = self.graph.constant(value) {
            let bits = match self.random.below(6) {
                0 => bits / 2,
                1 => bits.wrapping_mul(2),
                2 => 0,
                3 => bits.wrapping_sub(by),
                _ => bits.wrapping_add(by),
            };
            let bits = if of == Scalar::I32 { u64::from(bits as u32) } else { bits };
            return Some(self.graph.add_constant(of, bits));
        }
        Some(match self.random.below(5) {
            0 => {
                let one = self.graph.add_constant(Scalar::I32, 1);
                self.insert(at, Kind::Primitive(Primitive::ShrU, of), ty, &[value, one])
            }
            1 => self.graph.add_constant(of, 0),
            way => {
                let by = if way == 2 { by.wrapping_neg() } else { by };
                let by = if of == Scalar::I32 { u64::from(by as u32) } else { by };
                let by = self.graph.add_constant(of, by);
                self.insert(at, Kind::Primitive(Primitive::WrappingAdd, of), ty, &[value, by])
            }
        })
    }

    /// A value of which an operand, an operand of that or so on is another one.
    fn deep(&mut self, at: &mut At, value: NodeId, depth: u32) -> Option<NodeId> {
        let node = self.graph.node(value).clone();
        let is_pure = match node.kind {
            Kind::Primitive(primitive, _) | Kind::Lanes(primitive, _) => primitive.effect() == Effect::Pure,
            Kind::Splat | Kind::Low => true,
            _ => false,
        };
        let goes_on = is_pure && depth < 6 && !self.graph.is_folded(value);
        if let Ty::Scalar(of @ (Scalar::I32 | Scalar::I64)) = node.ty
            && !(goes_on && self.random.below(3) > 0)
        {
            return self.other(at, value, of);
        }
        if !goes_on {
            return None;
        }
        let mut args = node.args.clone();
        let operand = self.random.below(args.len());
        if args.len() > 1 && self.random.below(6) == 0 && self.graph.node(args[0]).ty == self.graph.node(args[1]).ty {
            args.swap(0, 1);
        } else {
            args[operand] = self.deep(at, args[operand], depth + 1)?;
        }
        Some(self.insert(at, node.kind, node.ty, &args))
    }

    /// Whether a value has something to do with an address.
    fn is_address(&self, value: NodeId, depth: u32) -> bool {
        let node = self.graph.node(value);
        match node.kind {
            Kind::Base(_) | Kind::Reference(_) => true,
            Kind::Primitive(..) if depth < 12 => node.args.iter().any(|arg| self.is_address(*arg, depth + 1)),
            _ => false,
        }
    }

    /// Lies about a guard.
    fn guard(&mut self) -> Option<String> {
        let accessed: Vec<NodeId> = {
            let indices = self.nodes(is_access);
            indices.iter().map(|(_, id)| self.graph.node(*id).args[1]).collect()
        };
        let mut guards = self.nodes(|graph, id| graph.node(id).kind == Kind::InRange);
        guards.retain(|(_, id)| self.graph.node(*id).args.iter().all(|arg| !self.is_address(*arg, 0)));
        // Those of one access only matter less.
        if self.random.below(8) > 0 {
            guards.retain(|(_, id)| !accessed.contains(&self.graph.node(*id).args[0]));
        }
        let (mut at, id) = self.random.pick(&guards)?;
        let args = self.graph.node(id).args.clone();
        let what = format!("the guard v{} in {} ", id.0, at.block);
        let what = match self.random.below(16) {
            0 | 1 => {
                self.graph.blocks[at.block].nodes.retain(|own| *own != id);
                what + "is dropped"
            }
            2 => {
                let [zero, one] = [0, 1].map(|bits| self.graph.add_constant(Scalar::I64, bits));
                self.graph.nodes[id.index()].args = [zero, one].into_iter().collect();
                what + "is always true"
            }
            3 => {
                self.graph.nodes[id.index()].args.swap(0, 1);
                what + "has its operands swapped"
            }
            4 | 5 => {
                let other = self.other_elements(&mut at, args[1])?;
                self.graph.nodes[id.index()].args[1] = other;
                what + "is of other elements"
            }
            6 => {
                self.is_sound = false;
                let to = self.random.pick(&self.graph.order)?;
                self.graph.blocks[at.block].nodes.retain(|own| *own != id);
                let position = self.random.below(self.graph.blocks[to].nodes.len() + 1);
                self.graph.blocks[to].nodes.insert(position, id);
                format!("{what}is in {to}")
            }
            7 => {
                let numbers = self.nodes(|graph, id| graph.node(id).ty == I64);
                let (_, other) = self.random.pick(&numbers)?;
                self.is_sound = false;
                self.graph.nodes[id.index()].args[0] = other;
                format!("{what}is of v{}", other.0)
            }
            way => {
                let operand = way % 2;
                let other = self.deep(&mut at, args[operand], 0)?;
                self.graph.nodes[id.index()].args[operand] = other;
                format!("{what}has another {}", ["index", "bound"][operand])
            }
        };
        Some(what)
    }

    /// A number of elements in place of another one: those of another size, or of another buffer.
    fn other_elements(&mut self, at: &mut At, value: NodeId) -> Option<NodeId> {
        let node = self.graph.node(value).clone();
        match node.kind {
            Kind::Elements(register, shift) if self.random.below(2) == 0 => {
                let shift = if shift == 0 { 1 } else { shift - 1 };
                Some(self.insert(at, Kind::Elements(register, shift), I64, &node.args))
            }
            Kind::Elements(..) => {
                let others = self.nodes(|graph, id| matches!(graph.node(id).kind, Kind::Elements(..)) && id != value);
                let before: Vec<NodeId> = others.iter().map(|(_, id)| *id).collect();
                // It may not be there yet.
                self.is_sound = false;
                self.random.pick(&before)
            }
            Kind::Primitive(primitive, Scalar::I64) if primitive.effect() == Effect::Pure => {
                let operand = (0..node.args.len()).find(|operand| self.has_elements(node.args[*operand], 0))?;
                let mut args = node.args.clone();
                args[operand] = self.other_elements(at, args[operand])?;
                Some(self.insert(at, node.kind, node.ty, &args))
            }
            _ => None,
        }
    }

    fn has_elements(&self, value: NodeId, depth: u32) -> bool {
        let node = self.graph.node(value);
        match node.kind {
            Kind::Elements(..) => true,
            Kind::Primitive(..) if depth < 12 => node.args.iter().any(|arg| self.has_elements(*arg, depth + 1)),
            _ => false,
        }
    }

    /// Lies about an access: its index, the elements that it reaches, or its mask.
    fn access(&mut self) -> Option<String> {
        let mut accesses = self.nodes(is_access);
        if self.random.below(4) > 0 {
            accesses.retain(|(_, id)| !matches!(self.graph.node(*id).kind, Kind::Primitive(..)));
        }
        let (mut at, id) = self.random.pick(&accesses)?;
        let node = self.graph.node(id).clone();
        let what = format!("the access v{} in {} ", id.0, at.block);
        let mask_at = match node.kind {
            Kind::LoadLanes(..) => 2,
            Kind::StoreLanes(..) | Kind::Gather(..) => 3,
            _ => usize::MAX,
        };
        match (self.random.below(6), node.args.get(mask_at).copied()) {
            (0, Some(_)) => {
                self.graph.nodes[id.index()].args.pop();
                return Some(what + "has no mask");
            }
            (0..3, Some(mask)) => {
                let mask = self.deep(&mut at, mask, 0)?;
                self.graph.nodes[id.index()].args[mask_at] = mask;
                return Some(what + "has another mask");
            }
            (0..3, None) => {
                let kind = match node.kind {
                    Kind::LoadLanes(primitive, number) => Kind::LoadLanes(primitive, number + 1),
                    Kind::StoreLanes(primitive, number) => Kind::StoreLanes(primitive, number + 1),
                    Kind::LoadEven(primitive, number) if node.args.len() < 4 => Kind::LoadEven(primitive, number + 1),
                    Kind::Gather(primitive, displacement) => Kind::Gather(primitive, displacement + 1),
                    Kind::LoadSplat(primitive, displacement) => Kind::LoadSplat(primitive, displacement + 1),
                    Kind::LoadRows(primitive, mut rows) => {
                        rows.first += 1;
                        Kind::LoadRows(primitive, rows)
                    }
                    Kind::LoadBytes(primitive, mut rows) => {
                        rows.first += 1;
                        Kind::LoadBytes(primitive, rows)
                    }
                    Kind::GatherBytes(primitive, mut rows) => {
                        rows.first += 1;
                        Kind::GatherBytes(primitive, rows)
                    }
                    _ => return None,
                };
                self.graph.nodes[id.index()].kind = kind;
                return Some(what + "reaches further");
            }
            (3, _) if self.random.below(2) == 0 => {
                let numbers = self.nodes(|graph, id| graph.node(id).ty == I64);
                let (_, other) = self.random.pick(&numbers)?;
                self.is_sound = false;
                self.graph.nodes[id.index()].args[1] = other;
                return Some(format!("{what}is at v{}", other.0));
            }
            _ => {}
        }
        let index = self.deep(&mut at, node.args[1], 0)?;
        self.graph.nodes[id.index()].args[1] = index;
        Some(what + "has another index")
    }

    /// Lies about what a loop begins with or goes on with.
    fn loop_argument(&mut self) -> Option<String> {
        let order = self.graph.order.clone();
        let from = self.random.below(order.len());
        let block = order[from];
        let count = self.graph.branches(block).len();
        if count == 0 {
            return None;
        }
        let which = self.random.below(count);
        let branch = self.graph.branches(block)[which].clone();
        let target = order.iter().position(|other| *other == branch.target)?;
        let numbers: Vec<usize> =
            (0..branch.args.len()).filter(|index| self.graph.node(branch.args[*index]).ty == I64).collect();
        let index = self.random.pick(&numbers)?;
        let mut at = At { block, position: self.graph.blocks[block].nodes.len() };
        let arg = branch.args[index];
        let other = if target <= from {
            // Loops go on, and come to an end sooner.
            let node = self.graph.node(arg).clone();
            let step = *node.args.get(1)?;
            let by = self.graph.constant(step).filter(|by| (1..1 << 32).contains(by))?;
            if node.kind != Kind::Primitive(Primitive::WrappingAdd, Scalar::I64) {
                return None;
            }
            let by = by + 1 + self.random.below(4) as u64;
            let by = self.graph.add_constant(Scalar::I64, by);
            self.insert(&mut at, node.kind, node.ty, &[node.args[0], by])
        } else {
            self.deep(&mut at, arg, 0)?
        };
        self.graph.branches_mut(block)[which].args[index] = other;
        Some(format!("branch {which} of {block} brings something else for parameter {index} of {}", branch.target))
    }

    /// Lies about the bound of a loop.
    fn test(&mut self) -> Option<String> {
        let tests = |block: &BlockIndex| matches!(self.graph.blocks[*block].terminator, Terminator::Branch(..));
        let blocks: Vec<BlockIndex> = self.graph.order.iter().copied().filter(tests).collect();
        let block = self.random.pick(&blocks)?;
        let Terminator::Branch(test, _) = self.graph.blocks[block].terminator else { return None };
        let mut at = At { block, position: self.graph.blocks[block].nodes.len() };
        let node = self.graph.node(test).clone();
        if node.kind != Kind::Primitive(Primitive::LtS, Scalar::I64) {
            return None;
        }
        let mut args = node.args.clone();
        let operand = self.random.below(2);
        args[operand] = self.deep(&mut at, args[operand], 0)?;
        let other = self.insert(&mut at, node.kind, node.ty, &args);
        let Terminator::Branch(test, _) = &mut self.graph.blocks[block].terminator else { return None };
        *test = other;
        Some(format!("the test of {block} has another operand {operand}"))
    }

    /// Lies about where branches lead, and about checks of buffers.
    fn flow(&mut self) -> Option<String> {
        self.is_sound = false;
        if self.random.below(2) == 0 {
            let checks = self.nodes(|graph, id| matches!(graph.node(id).kind, Kind::IsBuffer(_) | Kind::IsMutable(_)));
            let (at, id) = self.random.pick(&checks)?;
            self.graph.blocks[at.block].nodes.retain(|own| *own != id);
            return Some(format!("the check v{} in {} is dropped", id.0, at.block));
        }
        let block = self.random.pick(&self.graph.order)?;
        let count = self.graph.branches(block).len();
        if count == 0 {
            return None;
        }
        let which = self.random.below(count);
        let target = self.graph.branches(block)[which].target;
        let is_header = matches!(self.graph.blocks[target].terminator, Terminator::Branch(..));
        let branch = &mut self.graph.branches_mut(block)[which];
        if branch.skips_header_test || !is_header {
            return None;
        }
        branch.skips_header_test = true;
        Some(format!("branch {which} of {block} skips the test of {target}"))
    }
}

/// Whether a node is an access to memory, of which the second operand is an index.
fn is_access(graph: &Graph, id: NodeId) -> bool {
    match graph.node(id).kind {
        Kind::Primitive(primitive, _) => {
            matches!(primitive.effect(), Effect::Load | Effect::Store)
                && matches!(graph.node(graph.node(id).args[0]).kind, Kind::Base(_) | Kind::Parameter)
        }
        Kind::LoadLanes(..)
        | Kind::StoreLanes(..)
        | Kind::Gather(..)
        | Kind::LoadRows(..)
        | Kind::LoadSplat(..)
        | Kind::LoadEven(..)
        | Kind::LoadBytes(..)
        | Kind::GatherBytes(..) => true,
        _ => false,
    }
}
