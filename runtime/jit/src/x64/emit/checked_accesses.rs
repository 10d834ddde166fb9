//! Checked accesses: where graphs are verified, machine code compares the index of each load and store with the length
//! of its buffer once more. The node emitter calls this before each access.
//!
//! Passes hoist range checks out of loops, sink them, and replace them by guards of vector loops. The verifier of
//! graphs sees that there is a guard, and not that it covers each index; this finds an index that it does not cover as
//! soon as a program has one. It reads the buffer and its length from the register of the VM, so it depends on no value
//! that the passes have moved, and only on registers that no value is allocated to, so the code around it stays what it
//! would be without. Of an access with a mask, the lanes are checked that are on when it is made.

use dynasmrt::{DynamicLabel, DynasmApi, DynasmLabelApi, dynasm};
use smallvec::{SmallVec, smallvec};

use super::super::lower::lanes;
use super::super::runtime_layout;
use super::emitter::{Emitter, FailedAccess, Shared};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, NodeId};
use crate::ir::types::{Effect, Scalar, Width};
use crate::processor::registers::{LOADED, R11, RAX, RCX, RDX, SCRATCH, VECTOR_LOADED};

// The index is reloaded to the first of them; the second is free, and so is `rdx` where there are vectors.
const _: () = assert!(LOADED[0] == RAX && LOADED[1] == RCX && SCRATCH == R11);

/// An access to a buffer, with the elements that it loads or stores.
struct Access {
    primitive: Primitive,
    parts: SmallVec<[Elements; 2]>,
}

/// Elements of a buffer, by their distances from the index of an access.
#[derive(Clone, Copy)]
enum Elements {
    /// Those from the first to the last one.
    All { first: i64, last: i64 },
    /// One for each lane of a vector that is on in a mask: how far that of lane 0 is, and by how much more that of each
    /// other one.
    Masked { mask: NodeId, width: Width, first: i64, by: i32 },
}

impl Emitter<'_> {
    /// Checks the access of a node, if it is one to a buffer and accesses are checked.
    pub(super) fn check_access(&mut self, id: NodeId) {
        let graph = self.graph;
        let (Some(origins), Some(access)) = (&self.checked, self.access(id)) else { return };
        let node = graph.node(id);
        let base = graph.node(node.args[0]);
        // Globals whose offset is no multiple of their size have an address of their own.
        let base = match (base.kind, &base.args[..]) {
            (Kind::Primitive(Primitive::WrappingAdd, Scalar::I64), [a, b]) if graph.constant(*b).is_some() => *a,
            _ => node.args[0],
        };
        let register = match origins.of(graph, base) {
            Kind::Base(register) if base == node.args[0] => Some(register),
            // The verifier of bytecode has proved the offsets of globals, which are constants.
            Kind::Globals => return,
            _ => None,
        };
        let label = self.asm.ops.new_dynamic_label();
        self.failed_accesses.push(FailedAccess { label, node: id });
        let Some(register) = register else {
            // An access whose buffer is not known can be anywhere.
            return dynasm!(self.asm.ops ; .arch x64 ; jmp =>label);
        };
        let shift = access.primitive.element_shift();
        let is_store = access.primitive.effect() == Effect::Store;
        for elements in access.parts {
            let done = self.asm.ops.new_dynamic_label();
            if let Elements::Masked { mask, width, .. } = elements {
                let mask = self.fetch(mask, VECTOR_LOADED[0]);
                lanes::mask_bits(&mut self.asm, width, shift, RDX, mask);
                // Without a lane that is on, nothing is accessed.
                dynasm!(self.asm.ops ; .arch x64 ; test edx, edx ; jz =>done);
            }
            let index = self.fetch(node.args[1], RAX);
            let (reference, length) = (runtime_layout::reference(register), runtime_layout::BUFFER_LENGTH);
            dynasm!(self.asm.ops ; .arch x64 ; mov rcx, [r12 + reference]);
            if is_store {
                let mutable = runtime_layout::BUFFER_MUTABLE;
                dynasm!(self.asm.ops ; .arch x64 ; cmp BYTE [rcx + mutable], 0 ; je =>label);
            }
            dynasm!(self.asm.ops ; .arch x64 ; mov rcx, [rcx + length] ; shr rcx, shift as i8);
            // Those in between are in range if both ends are, since an access is far shorter than half of all memory.
            match elements {
                Elements::All { first, last } => {
                    self.check_element(index, first, label);
                    if first != last {
                        self.check_element(index, last, label);
                    }
                }
                Elements::Masked { first, by, .. } => {
                    for is_last in [false, true] {
                        if is_last {
                            dynasm!(self.asm.ops ; .arch x64 ; bsr r11d, edx);
                        } else {
                            dynasm!(self.asm.ops ; .arch x64 ; bsf r11d, edx);
                        }
                        dynasm!(self.asm.ops ; .arch x64 ; imul r11, r11, by ; add r11, Rq(index));
                        self.check_element(SCRATCH, first, label);
                    }
                }
            }
            dynasm!(self.asm.ops ; .arch x64 ; =>done);
        }
    }

    /// Compares an index and a distance from it with the number of elements, which is in a register.
    fn check_element(&mut self, index: u8, distance: i64, label: DynamicLabel) {
        match i32::try_from(distance) {
            Ok(distance) => {
                dynasm!(self.asm.ops ; .arch x64 ; lea r11, [Rq(index) + distance] ; cmp r11, rcx ; jae =>label);
            }
            Err(_) => dynasm!(self.asm.ops ; .arch x64 ; jmp =>label),
        }
    }

    fn access(&self, id: NodeId) -> Option<Access> {
        let graph = self.graph;
        let node = graph.node(id);
        // The lanes of a vector, with the mask that may follow the operands.
        let vector = |first: i64, by: i32, width: Option<Width>, mask: Option<&NodeId>| match (width, mask) {
            (Some(width), Some(mask)) => Elements::Masked { mask: *mask, width, first, by },
            _ => {
                let reach = i64::from(by) * (width.map_or(1, Width::lanes) as i64 - 1);
                Elements::All { first: first + reach.min(0), last: first + reach.max(0) }
            }
        };
        let one = |primitive, elements| Some(Access { primitive, parts: smallvec![elements] });
        let lanes = node.width().map_or(1, Width::lanes) as i64;
        match node.kind {
            Kind::Primitive(primitive, _) if matches!(primitive.effect(), Effect::Load | Effect::Store) => {
                one(primitive, Elements::All { first: 0, last: 0 })
            }
            Kind::LoadLanes(primitive, number) => {
                one(primitive, vector(i64::from(number) * lanes, 1, node.width(), node.args.get(2)))
            }
            Kind::StoreLanes(primitive, number) => {
                let width = graph.node(node.args[2]).width();
                let first = i64::from(number) * width.map_or(1, Width::lanes) as i64;
                one(primitive, vector(first, 1, width, node.args.get(3)))
            }
            Kind::Gather(primitive, displacement) => {
                let Kind::Multiples(by) = graph.node(node.args[2]).kind else {
                    unreachable!("the vectoriser gathers at multiples of the numbers of lanes")
                };
                one(primitive, vector(displacement.into(), by, node.width(), node.args.get(3)))
            }
            Kind::LoadSplat(primitive, displacement) => {
                one(primitive, Elements::All { first: displacement.into(), last: displacement.into() })
            }
            Kind::LoadRows(primitive, rows) => {
                let groups = lanes as i32 / 4;
                let (first, last) = (i64::from(rows.element(0)), i64::from(rows.element(groups - 1)) + 3);
                one(primitive, Elements::All { first, last })
            }
            Kind::LoadEven(primitive, number) => {
                let first = 2 * i64::from(number) * lanes;
                // The second vector begins with the last element of the first one.
                let masks = node.args.len().checked_sub(2).filter(|_| node.args.len() > 3);
                let half = |half: usize, first| {
                    let mask = masks.and_then(|masks| node.args.get(masks + half));
                    vector(first, 1, node.width(), mask)
                };
                Some(Access { primitive, parts: smallvec![half(0, first), half(1, first + lanes - 1)] })
            }
            Kind::LoadBytes(primitive, rows) | Kind::GatherBytes(primitive, rows) => {
                let first = i64::from(rows.stride) * i64::from(rows.first);
                let more = if matches!(node.kind, Kind::GatherBytes(..)) { 3 } else { 0 };
                let last = first + i64::from(rows.stride) * (lanes - 1) + more;
                one(primitive, Elements::All { first, last })
            }
            _ => None,
        }
    }

    /// Emits what is done where an access has failed its check: the call fails.
    pub(super) fn emit_failed_access(&mut self, failed: &FailedAccess) {
        let (label, shared) = (failed.label, self.shared(Shared::OutOfRange));
        // Nodes of vector loops come from no op of their own.
        let pc = self.graph.origins.get(failed.node.index()).map_or(runtime_layout::NO_OP, |pc| *pc as i32);
        dynasm!(self.asm.ops ; .arch x64 ; =>label ; mov edx, pc ; jmp =>shared);
    }

    /// Emits the shared stub, which ends the call.
    pub(super) fn emit_out_of_range(&mut self) {
        let (countdown, stop) = (runtime_layout::COUNTDOWN, self.shared(Shared::Stop));
        let function = runtime_layout::out_of_range as *const () as i64;
        self.zero_upper_lanes();
        dynasm!(self.asm.ops ; .arch x64
            ; mov [r13 + countdown], r15d
            ; mov rdi, r13
            ; mov rsi, r12
            ; mov rax, QWORD function
        );
        self.call_runtime();
        dynasm!(self.asm.ops ; .arch x64 ; jmp =>stop);
    }
}
