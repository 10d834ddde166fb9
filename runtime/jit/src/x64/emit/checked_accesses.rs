//! Checked accesses: where graphs are verified, machine code compares the index of each load and store with the length of its buffer once more.
//! The node emitter calls this before each access.
//!
//! Passes hoist range checks out of loops, sink them, and replace them by guards of vector loops. The verifier of graphs sees that there is a
//! guard, and not that it covers each index; this finds an index that it does not cover as soon as a program has one. It reads the buffer
//! and its length from the register of the VM, so it depends on no value that the passes have moved, and only on registers that no value is
//! allocated to, so the code around it stays what it would be without.

use dynasmrt::{DynasmApi, DynasmLabelApi, dynasm};

use super::super::runtime_layout;
use super::{Emitter, FailedAccess, Shared};
use crate::generated::vm::primitive::Primitive;
use crate::ir::graph::{Kind, NodeId};
use crate::ir::types::{Effect, Width};
use crate::processor::registers::{LOADED, RAX, RCX, RDX};

// The index is reloaded to the first of them; the others are free.
const _: () = assert!(LOADED[0] == RAX && LOADED[1] == RCX && LOADED[2] == RDX);

/// The elements of a buffer that a node loads or stores, as distances from its index.
struct Access {
    primitive: Primitive,
    stores: bool,
    first: i64,
    last: i64,
}

impl Emitter<'_> {
    /// Checks the access of a node, if it is one to a buffer and accesses are checked.
    pub(super) fn check_access(&mut self, id: NodeId) {
        let graph = self.graph;
        let (Some(origins), Some(access)) = (&self.checked, self.access(id)) else { return };
        let node = graph.node(id);
        let Kind::Base(register) = origins.of(graph, node.args[0]) else { return };
        let label = self.asm.ops.new_dynamic_label();
        self.failed_accesses.push(FailedAccess { label, node: id });
        let index = self.fetch(node.args[1], RAX);
        let (reference, length) = (runtime_layout::reference(register), runtime_layout::BUFFER_LENGTH);
        dynasm!(self.asm.ops ; .arch x64 ; mov rcx, [r12 + reference]);
        if access.stores {
            let mutable = runtime_layout::BUFFER_MUTABLE;
            dynasm!(self.asm.ops ; .arch x64 ; cmp BYTE [rcx + mutable], 0 ; je =>label);
        }
        let shift = access.primitive.element_shift() as i8;
        dynasm!(self.asm.ops ; .arch x64 ; mov rcx, [rcx + length] ; shr rcx, shift);
        // Those in between are in range if both ends are, since an access is far shorter than half of all memory.
        for distance in [access.first, access.last] {
            match i32::try_from(distance) {
                Ok(distance) => {
                    dynasm!(self.asm.ops ; .arch x64 ; lea rdx, [Rq(index) + distance] ; cmp rdx, rcx ; jae =>label);
                }
                Err(_) => dynasm!(self.asm.ops ; .arch x64 ; jmp =>label),
            }
            if access.first == access.last {
                break;
            }
        }
    }

    fn access(&self, id: NodeId) -> Option<Access> {
        let graph = self.graph;
        let node = graph.node(id);
        let lanes = |width: Option<Width>| width.map_or(1, |width| width.lanes() as i64);
        let (primitive, first, count) = match node.kind {
            Kind::Primitive(primitive, _) if matches!(primitive.effect(), Effect::Load | Effect::Store) => {
                (primitive, 0, 1)
            }
            // Which lanes a mask has is not known here, but for the first one.
            Kind::LoadLanes(primitive, _) if node.args.len() > 2 => (primitive, 0, 1),
            Kind::StoreLanes(primitive, _) if node.args.len() > 3 => (primitive, 0, 1),
            Kind::Gather(primitive, displacement) if node.args.len() > 3 => (primitive, displacement.into(), 1),
            Kind::LoadLanes(primitive, number) => {
                let count = lanes(node.width());
                (primitive, i64::from(number) * count, count)
            }
            Kind::StoreLanes(primitive, number) => {
                let count = lanes(graph.node(node.args[2]).width());
                (primitive, i64::from(number) * count, count)
            }
            Kind::Gather(primitive, displacement) => {
                let Kind::Multiples(by) = graph.node(node.args[2]).kind else { return None };
                let (displacement, reach) = (i64::from(displacement), i64::from(by) * (lanes(node.width()) - 1));
                let (first, last) = (displacement + reach.min(0), displacement + reach.max(0));
                return Some(Access { primitive, stores: false, first, last });
            }
            Kind::LoadSplat(primitive, displacement) => (primitive, displacement.into(), 1),
            Kind::LoadRows(primitive, rows) => {
                let groups = lanes(node.width()) as i32 / 4;
                let (first, last) = (i64::from(rows.element(0)), i64::from(rows.element(groups - 1)) + 3);
                return Some(Access { primitive, stores: false, first, last });
            }
            Kind::LoadEven(primitive, _) if node.args.len() > 3 => (primitive, 0, 1),
            Kind::LoadEven(primitive, number) => {
                let first = 2 * i64::from(number) * lanes(node.width());
                let last = first + 2 * (lanes(node.width()) - 1);
                return Some(Access { primitive, stores: false, first, last });
            }
            Kind::LoadBytes(primitive, rows) | Kind::GatherBytes(primitive, rows) => {
                let first = i64::from(rows.stride) * i64::from(rows.first);
                let more = if matches!(node.kind, Kind::GatherBytes(..)) { 3 } else { 0 };
                let last = first + i64::from(rows.stride) * (lanes(node.width()) - 1) + more;
                return Some(Access { primitive, stores: false, first, last });
            }
            _ => return None,
        };
        let stores = matches!(primitive.effect(), Effect::Store);
        Some(Access { primitive, stores, first, last: first + count - 1 })
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
