//! Calls that compiled code makes itself, of functions of the same module: which ones it can, and where values are passed.
//!
//! A function can be called like that if it takes and gives values only, and nothing but traps and limits makes it leave its code: then
//! the frames that the interpreter would have made are hardly ever needed, and are made when they are.

use smallvec::SmallVec;

use super::graph::To;
use super::types::Scalar;
use crate::bytecode::{CallId, Callee, Decoded, Op, VerifiedFunction};
use crate::generated::vm::jit;
use crate::interp::BytecodeModule;
use crate::interp::machine::Layout;
use crate::interp::threaded::offsets;
use crate::vm::convention::Kind;

/// Registers that values are passed in. No value lives in them, so they are read and written in any order.
const INTEGERS: [u8; 3] = [0, 1, 2];
const FLOATS: [u8; 3] = [12, 13, 14];
/// Most slots of a function that is called.
const MAX_SLOTS: usize = 192;
/// Bytes that have to be left of the stack behind the slots of a caller: most that a call takes.
pub(super) const ROOM: usize = 2048;
/// Ops that are looked at to find out whether a function can be called, and how deep.
const MAX_OPS: usize = 1 << 12;
const MAX_DEPTH: usize = 8;

/// A value that is passed.
#[derive(Clone, Copy)]
pub(super) struct Passed {
    pub of: Scalar,
    /// The slot that the interpreter puts it into.
    pub slot: u16,
    pub to: To,
}

fn scalar(kind: Kind) -> Option<Scalar> {
    match kind {
        Kind::I32 => Some(Scalar::I32),
        Kind::I64 => Some(Scalar::I64),
        Kind::F32 => Some(Scalar::F32),
        Kind::F64 => Some(Scalar::F64),
        Kind::Ref => None,
    }
}

/// How values of these kinds are passed. None if one is a reference.
fn passed(kinds: &[Kind]) -> Option<Vec<Passed>> {
    let (mut integers, mut floats) = (INTEGERS.iter(), FLOATS.iter());
    let mut layout = Layout::default();
    let of_each = kinds.iter().map(|kind| {
        let of = scalar(*kind)?;
        let slot = layout.place(*kind) as u16;
        let register = if of.is_float() { floats.next() } else { integers.next() };
        Some(Passed { of, slot, to: register.map_or(To::Slot(slot), |register| To::Register(*register)) })
    });
    of_each.collect()
}

/// How the arguments of a function are passed.
pub(super) fn arguments(function: &VerifiedFunction) -> Option<Vec<Passed>> {
    passed(&function.convention().fixed_args()?)
}

/// How its results are, which are all in registers.
pub(super) fn results(function: &VerifiedFunction) -> Option<Vec<Passed>> {
    let all = passed(&function.convention().results)?;
    all.iter().all(|result| matches!(result.to, To::Register(_))).then_some(all)
}

/// The function that a call calls, if that is all it does.
fn callee(decoded: &Decoded, call: CallId) -> Option<u32> {
    let site = decoded.call(call);
    match site.callee {
        Callee::Function(callee) if site.segments.is_none() && site.resume.is_none() => Some(callee.index() as u32),
        _ => None,
    }
}

fn slot_bytes(function: &VerifiedFunction) -> usize {
    (function.slots() * 4).next_multiple_of(8)
}

/// A function on its way to code, and which others have code that can be called.
#[derive(Clone, Copy)]
pub(super) struct Calls<'a> {
    pub module: &'a BytecodeModule,
    pub function: &'a VerifiedFunction,
    /// Whether a function that [`is_callable`] has code.
    pub has_code: &'a dyn Fn(u32) -> bool,
}

impl<'a> Calls<'a> {
    /// What a call calls, and bytes from the caller's slots to its own, if code can make the call itself.
    pub fn direct(&self, call: CallId) -> Option<(&'a VerifiedFunction, u32)> {
        let ordinal = callee(self.function.decoded(), call)?;
        let callee = self.module.functions.get(ordinal as usize)?;
        let advance = slot_bytes(self.function) + offsets::HEADER;
        let fits = advance + slot_bytes(callee) <= ROOM;
        let has_code = ordinal == self.function.ordinal() || (self.has_code)(ordinal);
        (fits && is_callable(self.module, ordinal) && has_code).then_some((callee, advance as u32))
    }

    /// Whether the function itself can be called.
    pub fn is_callable(&self) -> bool {
        is_callable(self.module, self.function.ordinal())
    }
}

/// Whether compiled code can call a function itself.
fn is_callable(module: &BytecodeModule, ordinal: u32) -> bool {
    stays_inside(module, ordinal, &mut SmallVec::new(), &mut MAX_OPS.clone())
}

/// The functions that a function calls and that can be called.
pub(crate) fn callees(module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32> {
    let decoded = function.decoded();
    let calls = decoded.ops.iter().filter_map(|op| if let Op::Call { call } = op { Some(*call) } else { None });
    let mut callees: Vec<u32> = calls.filter_map(|call| callee(decoded, call)).collect();
    callees.sort_unstable();
    callees.dedup();
    callees.retain(|callee| *callee != function.ordinal() && is_callable(module, *callee));
    callees
}

/// Whether the code of a function, which those of `path` call, is left for traps and limits only. A `budget` of ops is looked at.
fn stays_inside(
    module: &BytecodeModule,
    ordinal: u32,
    path: &mut SmallVec<[u32; MAX_DEPTH]>,
    budget: &mut usize,
) -> bool {
    if path.contains(&ordinal) {
        // Of functions that call each other, one would have to have code before the other.
        return path.last() == Some(&ordinal);
    }
    let Some(function) = module.functions.get(ordinal as usize) else { return false };
    let decoded = function.decoded();
    let plain = function.refs() == 0 && !function.reads_unwritten_slots() && function.slots() <= MAX_SLOTS;
    if !plain || arguments(function).is_none() || results(function).is_none() || path.len() == MAX_DEPTH {
        return false;
    }
    let Some(rest) = budget.checked_sub(decoded.ops.len()) else { return false };
    *budget = rest;
    path.push(ordinal);
    let inside = decoded.ops.iter().all(|op| match *op {
        Op::Br { .. } | Op::CondBr { .. } | Op::Return { .. } => true,
        Op::Call { call } => callee(decoded, call).is_some_and(|callee| stays_inside(module, callee, path, budget)),
        op => jit::is_built(op),
    });
    path.pop();
    inside
}
