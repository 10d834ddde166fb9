//! The convention of native calls: which calls of functions of the same module machine code makes itself, and where
//! values are passed.
//!
//! The callee's frame is the one that the interpreter would make, so a side exit of either function leaves frames that
//! the interpreter can continue with. Values are passed in registers and a call instruction keeps the return address;
//! references are passed in the frames.

use crate::bytecode::{AnyReg, CallId, Callee, Decoded, Op, VerifiedFunction};
use crate::convention::{Convention, Kind};
use crate::interp::ArgumentLayout;
use crate::interp::BytecodeModule;
use crate::interp::threaded::offsets;
use crate::ir::graph::{Passed, PassedIn};
use crate::ir::types::Scalar;
use crate::processor::registers::{DIRECT, PASSED, VECTOR_DIRECT, VECTOR_PASSED};

/// Bytes of the stack that have to be free after the slots of a caller. Most calls take less, and need no check of
/// their own.
pub(crate) const STACK_RESERVE: usize = 2048;
/// Most bytes of slots that a native call zeroes.
const MAX_ZEROED_BYTES: usize = 256;
/// Most ops of the callees that are compiled with a function. Others are compiled when they are hot themselves.
const MAX_CALLEE_OPS: usize = 1 << 9;

fn scalar(kind: Kind) -> Option<Scalar> {
    match kind {
        Kind::I32 => Some(Scalar::I32),
        Kind::I64 => Some(Scalar::I64),
        Kind::F32 => Some(Scalar::F32),
        Kind::F64 => Some(Scalar::F64),
        Kind::Ref => None,
    }
}

/// How arguments or results of these kinds are passed, references aside.
fn passed(kinds: &[Kind]) -> Vec<Passed> {
    passed_in(kinds, &PASSED, &VECTOR_PASSED)
}

/// The same in these registers, as far as there are enough.
fn passed_in(kinds: &[Kind], integers: &[u8], floats: &[u8]) -> Vec<Passed> {
    let (mut integers, mut floats) = (integers.iter(), floats.iter());
    let mut layout = ArgumentLayout::default();
    let of_each = kinds.iter().filter_map(|kind| {
        let slot = layout.place(*kind) as u16;
        let of = scalar(*kind)?;
        let register = if of.is_float() { floats.next() } else { integers.next() };
        Some(Passed { of, slot, passed_in: register.map_or(PassedIn::Slot, |register| PassedIn::Register(*register)) })
    });
    of_each.collect()
}

/// The registers of a list that are no references.
pub(crate) fn values(registers: &[AnyReg]) -> impl Iterator<Item = AnyReg> {
    registers.iter().copied().filter(|register| !register.is_ref())
}

/// How the arguments of a function are passed. None if their number differs from call to call.
pub(super) fn arguments(function: &VerifiedFunction) -> Option<Vec<Passed>> {
    Some(passed(&function.convention().fixed_args()?))
}

/// How its results are passed: if there are too many for the registers, all in the slots of the caller that they go to.
pub(crate) fn results(function: &VerifiedFunction) -> Vec<Passed> {
    let mut all = passed(&function.convention().results);
    if all.iter().any(|result| result.passed_in == PassedIn::Slot) {
        all.iter_mut().for_each(|result| result.passed_in = PassedIn::Slot);
    }
    all
}

/// How the arguments of a direct call are passed; none if they are not numbers that fit into the registers.
pub(crate) fn direct_arguments(convention: &Convention) -> Option<Vec<Passed>> {
    let kinds = convention.fixed_args()?;
    let passed = passed_in(&kinds, &DIRECT, &VECTOR_DIRECT);
    let all_in_registers = passed.len() == kinds.len() && passed.iter().all(|one| one.passed_in != PassedIn::Slot);
    all_in_registers.then_some(passed)
}

/// The type of the result of a direct call, if it has one.
pub(crate) fn direct_result(convention: &Convention) -> Option<Option<Scalar>> {
    match convention.results[..] {
        [] => Some(None),
        [kind] => scalar(kind).map(Some),
        _ => None,
    }
}

/// The function that a call calls, if it is a plain call of one of the module.
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

/// A call that machine code can make itself.
pub(crate) struct ModuleCall<'a> {
    pub callee: &'a VerifiedFunction,
    pub arguments: Vec<Passed>,
    pub results: Vec<Passed>,
    /// Bytes from the caller's slots to those of the callee, and to their end.
    pub advance: u32,
    pub size: u32,
    /// Bytes of the callee's slots to zero: it reads slots that it has not written.
    pub zeroed: u32,
}

/// The function that is compiled, and its module.
#[derive(Clone, Copy)]
pub(crate) struct FunctionContext<'a> {
    pub module: &'a BytecodeModule,
    pub function: &'a VerifiedFunction,
}

impl<'a> FunctionContext<'a> {
    /// A call as a native one, if machine code can make it.
    pub fn module_call(&self, call: CallId) -> Option<ModuleCall<'a>> {
        let ordinal = callee(self.function.decoded(), call)?;
        let callee = self.module.functions.get(ordinal as usize)?;
        let lead = offsets::HEADER + callee.refs() * offsets::REFERENCE;
        let advance = slot_bytes(self.function) + lead;
        // A frame has fewer than 2^17 registers.
        let (advance, size) = (advance as u32, (advance + slot_bytes(callee)) as u32);
        let zeroed = if callee.reads_unwritten_slots() { slot_bytes(callee) } else { 0 };
        let (arguments, results) = (arguments(callee)?, results(callee));
        (zeroed <= MAX_ZEROED_BYTES).then_some(ModuleCall {
            callee,
            arguments,
            results,
            advance,
            size,
            zeroed: zeroed as u32,
        })
    }

    /// How the arguments of the function are passed, if the module has calls of it.
    pub fn arguments(&self) -> Option<Vec<Passed>> {
        arguments(self.function).filter(|_| self.module.is_called(self.function.ordinal()))
    }
}

/// The callees of a function that are to be compiled with it: all but itself that fit the budget.
pub(crate) fn callees(module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32> {
    let decoded = function.decoded();
    let calls = decoded.ops.iter().filter_map(|op| if let Op::Call { call } = op { Some(*call) } else { None });
    let mut callees: Vec<u32> = calls.filter_map(|call| callee(decoded, call)).collect();
    callees.sort_unstable();
    callees.dedup();
    let mut budget = MAX_CALLEE_OPS;
    callees.retain(|callee| {
        let ops = module.functions.get(*callee as usize).map_or(usize::MAX, |callee| callee.decoded().ops.len());
        let fits = *callee != function.ordinal() && ops <= budget;
        budget -= if fits { ops } else { 0 };
        fits
    });
    callees
}
