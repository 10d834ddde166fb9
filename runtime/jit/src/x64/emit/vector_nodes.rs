//! Nodes with vector values or operands.

use dynasmrt::{DynasmApi, dynasm};

use super::super::lower::{Src, lanes};
use super::emitter::Emitter;
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, NodeId};
use crate::ir::types::Width;
use crate::math::vector::VectorFunction;
use crate::processor::registers::{VECTOR_LOADED, VECTOR_SCRATCH};
use crate::regalloc::Location;

impl Emitter<'_> {
    pub(super) fn lanes(&mut self, id: NodeId, target: u8) {
        let node = self.graph.node(id).clone();
        // A node whose value is no vector has a vector operand.
        let of_operand = || node.args.iter().find_map(|arg| self.graph.node(*arg).width());
        let Some(width) = node.width().or_else(of_operand) else { unreachable!("{:?} has no lanes", node.kind) };
        match node.kind {
            Kind::Lanes(primitive, of) => {
                if let Some(first) = self.first_of_pair.take() {
                    return self.call_pair(primitive, width, first, id);
                }
                let sources: Vec<u8> =
                    node.args.iter().enumerate().map(|(index, arg)| self.operand(*arg, index)).collect();
                match lanes::called(primitive, width) {
                    Some(function) => self.call_lanes(function, width, target, sources[0]),
                    None => lanes::value(&mut self.asm, width, (primitive, of), target, &sources),
                }
            }
            Kind::ShiftLanes(primitive, of, amount) => {
                let source = self.operand(node.args[0], 0);
                lanes::shift(&mut self.asm, width, (primitive, of), target, source, amount);
            }
            Kind::Splat => {
                let (source, of) = (self.operand(node.args[0], 0), self.of(node.args[0]));
                lanes::splat(&mut self.asm, width, of, target, source);
            }
            Kind::Quotients { signed } => {
                let (number, reciprocal) = (self.operand(node.args[0], 0), self.operand(node.args[1], 1));
                // No operand is reloaded to the third register.
                lanes::quotients(&mut self.asm, width, target, number, reciprocal, VECTOR_LOADED[2], signed);
            }
            Kind::ConstantQuotients(division) => {
                let (number, multiplier) = (self.operand(node.args[0], 0), self.operand(node.args[1], 1));
                // As above.
                lanes::constant_quotients(&mut self.asm, width, target, number, multiplier, VECTOR_LOADED[2], division);
            }
            Kind::LowProducts => {
                let (a, b) = (self.operand(node.args[0], 0), self.operand(node.args[1], 1));
                lanes::low_products(&mut self.asm, target, a, b);
            }
            Kind::LaneNumbers => {
                let source = self.operand(node.args[0], 0);
                lanes::numbers(&mut self.asm, width, target, source);
            }
            Kind::Extract(lane) => {
                let source = self.operand(node.args[0], 0);
                lanes::extract(&mut self.asm, width, node.scalar(), target, source, lane);
            }
            Kind::SumLanes => {
                let source = self.operand(node.args[0], 0);
                lanes::sum(&mut self.asm, width, target, source);
            }
            Kind::Multiples(by) => lanes::multiples(&mut self.asm, width, target, by),
            Kind::LoadLanes(primitive, number) => {
                let from = self.element(&node.args, primitive);
                let mask = self.mask(node.args.get(2));
                lanes::load(&mut self.asm, width, primitive, target, from, number, mask);
            }
            Kind::Gather(primitive, displacement) => {
                let from = self.element(&node.args, primitive);
                let offsets = self.operand(node.args[2], 2);
                // A register to which no operand is reloaded: the first two operands are no vectors.
                let loaded = VECTOR_LOADED[1];
                let mask = self.mask(node.args.get(3));
                let displacement = (displacement, primitive.element_shift());
                match self.graph.node(node.args[2]).kind {
                    Kind::Multiples(by) => {
                        let offsets = (offsets, by);
                        lanes::load_apart(&mut self.asm, width, loaded, from, offsets, displacement, mask);
                    }
                    _ => lanes::gather(&mut self.asm, width, loaded, from, offsets, displacement, mask),
                }
                return self.put(id, loaded);
            }
            Kind::GatherBytes(primitive, rows) => {
                let from = self.element(&node.args, primitive);
                let offsets = self.operand(node.args[2], 2);
                // As for other gathers.
                let loaded = VECTOR_LOADED[1];
                let displacement = rows.stride.wrapping_mul(rows.first);
                lanes::gather(&mut self.asm, width, loaded, from, offsets, (displacement, 0), None);
                return self.put(id, loaded);
            }
            Kind::LoadEven(primitive, number) => {
                let from = self.element(&node.args, primitive);
                let (orders, masks) = node.args[2..].split_at(usize::from(width == Width::Sixteen));
                let order = orders.first().map_or(0, |order| self.operand(*order, 2));
                // As for gathers.
                let free = VECTOR_LOADED[1];
                if let [first, second] = masks[..] {
                    debug_assert_eq!(number, 0, "with a mask there is one vector");
                    // Reloading the second mask may replace the first one.
                    for (mask, into, is_second) in [(first, VECTOR_SCRATCH, false), (second, free, true)] {
                        let mask = self.fetch(mask, VECTOR_LOADED[0]);
                        lanes::load_part_of_even(&mut self.asm, width, into, from, is_second, mask);
                    }
                    lanes::even(&mut self.asm, width, target, order, free);
                } else {
                    lanes::load_even(&mut self.asm, width, target, from, order, free, number);
                }
            }
            Kind::LoadBytes(primitive, rows) => {
                let from = self.element(&node.args, primitive);
                // As for gathers.
                lanes::load_bytes(&mut self.asm, width, primitive, target, from, rows, VECTOR_LOADED[1]);
            }
            Kind::Byte(primitive, number) => {
                let source = self.operand(node.args[0], 0);
                lanes::byte(&mut self.asm, width, target, source, number, primitive == Primitive::LoadI8s);
            }
            Kind::LoadRows(_, rows) => {
                // Displacements may be large, so a constant index is not added to them.
                let (base, index) = (self.operand(node.args[0], 0), self.operand(node.args[1], 1));
                lanes::load_rows(&mut self.asm, width, target, base, index, rows);
            }
            Kind::LoadSplat(primitive, displacement) => {
                let (base, index) = (self.operand(node.args[0], 0), self.operand(node.args[1], 1));
                match primitive.element_shift() {
                    3 => lanes::load_wide_splat(&mut self.asm, target, base, index, displacement),
                    _ => lanes::load_splat(&mut self.asm, width, target, base, index, displacement),
                }
            }
            Kind::Interleave(which) => {
                let (a, b) = (self.operand(node.args[0], 0), self.operand(node.args[1], 1));
                lanes::interleave(&mut self.asm, width, target, a, b, which);
            }
            Kind::StoreLanes(primitive, number) => {
                let to = self.element(&node.args, primitive);
                let value = self.operand(node.args[2], 2);
                let mask = self.mask(node.args.get(3));
                return lanes::store(&mut self.asm, width, primitive, to, value, number, mask);
            }
            _ => unreachable!("{:?} has no lanes", node.kind),
        }
        self.put(id, target);
    }

    /// Calls a function for a vector, which it takes and returns in the first vector register.
    fn call_lanes(&mut self, function: VectorFunction, width: Width, target: u8, source: u8) {
        let function = function.address() as i64;
        lanes::copy(&mut self.asm, width, 0, source);
        dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD function);
        self.call_runtime();
        lanes::copy(&mut self.asm, width, target, 0);
    }

    /// Calls a function for two vectors, which it takes and returns in the first two vector registers. Since nothing is
    /// between the two nodes, the vector of the first one is still where that one found it.
    fn call_pair(&mut self, primitive: Primitive, width: Width, first: NodeId, second: NodeId) {
        let Some(function) = lanes::called_for_pair(primitive) else { unreachable!("{primitive:?} has a function") };
        let [one, other] = [first, second].map(|id| self.graph.node(id).args[0]);
        let is_overwritten = self.location(other) == Location::Register(0);
        if is_overwritten {
            lanes::copy(&mut self.asm, width, VECTOR_SCRATCH, 0);
        }
        let one = self.fetch(one, 0);
        lanes::copy(&mut self.asm, width, 0, one);
        let other = if is_overwritten { VECTOR_SCRATCH } else { self.fetch(other, 1) };
        lanes::copy(&mut self.asm, width, 1, other);
        let function = function.address() as i64;
        dynasm!(self.asm.ops ; .arch x64 ; mov rax, QWORD function);
        self.call_runtime();
        let mut result = 1;
        if self.location(first) == Location::Register(result) {
            lanes::copy(&mut self.asm, width, VECTOR_SCRATCH, result);
            result = VECTOR_SCRATCH;
        }
        self.put(first, 0);
        self.put(second, result);
    }

    /// The mask of an access, if it has one, in a register to which no other operand of it is reloaded.
    fn mask(&mut self, mask: Option<&NodeId>) -> Option<u8> {
        mask.map(|mask| self.fetch(*mask, VECTOR_LOADED[0]))
    }

    /// The base and the index of elements.
    fn element(&mut self, args: &[NodeId], primitive: Primitive) -> (u8, Src) {
        let base = self.operand(args[0], 0);
        (base, self.index(args[1], primitive))
    }
}
