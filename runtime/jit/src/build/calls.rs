//! Native calls: the entry at which machine code of the module calls the function, calls that the function makes
//! itself, and returns. `analysis/calls.rs` has the convention.

use smallvec::SmallVec;

use super::blocks::live_ins;
use super::builder::{FunctionBuilder, Incoming, LiveIn};
use super::partial_inlining::Inlined;
use crate::analysis::calls::{self, FunctionContext, ModuleCall};
use crate::analysis::constants::apply;
use crate::bytecode::{AnyReg, CallId, Callee, ListId, Op};
use crate::interp::machine::lent_references::may_be_lent_to;
use crate::ir::graph::{
    DirectCall, Entry, Kind, NativeCall, NativeKind, NativeTerminator, NodeId, Passed, PassedIn, SideExitKind,
    Terminator,
};
use crate::ir::types::{Scalar, Ty};

impl FunctionBuilder<'_> {
    /// Makes the block at which native calls enter the function, if there may be some, with the arguments where they
    /// are passed.
    pub(super) fn native_entry(&mut self, live_ins: &[LiveIn]) -> Option<Incoming> {
        let arguments = self.arguments_if_called.clone()?;
        let entry = self.open(Some(Entry { pc: 0, resumes: false, native: true }));
        self.graph.order.push(entry);
        self.graph.native_entry = Some((entry, self.context.function.ordinal()));
        self.take_arguments(&arguments);
        // Slots that are read and are no arguments have been zeroed.
        for slot in live_ins.iter().flat_map(|one| one.slot..one.slot + one.slots()) {
            if self.defs[usize::from(slot)].is_none() {
                self.passed(Kind::Slot(slot), Scalar::I32, slot);
            }
        }
        Some(Incoming { from: entry, second: false, defs: self.defs.clone() })
    }

    /// Defines the slots of the arguments of a native call where they are passed.
    pub(super) fn take_arguments(&mut self, arguments: &[Passed]) {
        self.defs.fill(None);
        // Arguments in registers come first: loads of slots may overwrite their registers.
        for argument in arguments {
            if let PassedIn::Register(register) = argument.passed_in {
                self.passed(Kind::Passed(register), argument.of, argument.slot);
            }
        }
        for argument in arguments {
            if argument.passed_in == PassedIn::Slot {
                self.passed(Kind::Slot(argument.slot), argument.of, argument.slot);
            }
        }
    }

    fn passed(&mut self, kind: Kind, of: Scalar, slot: u16) {
        let node = self.push(kind, Ty::Scalar(of), SmallVec::new(), None);
        self.graph.blocks[self.current].nodes.push(node);
        self.define(of, slot.into(), node);
    }

    /// The values of registers that are no references, with the way that each is passed.
    fn values(&mut self, registers: &[AnyReg], passed: &[Passed]) -> Vec<(NodeId, Passed)> {
        let pairs = calls::values(registers).zip(passed);
        pairs.map(|(register, passed)| (self.read(passed.of, register.reg()), *passed)).collect()
    }

    /// Makes the return at the end of the current block a native one, for native calls of the function.
    pub(super) fn native_return(&mut self, operands: ListId) {
        if self.arguments_if_called.is_none() {
            return;
        }
        let results = calls::results(self.context.function);
        let registers = self.decoded.list(operands);
        let mut values = self.values(registers, &results);
        for ((_, passed), register) in values.iter_mut().zip(calls::values(registers)) {
            passed.slot = register.reg().0;
        }
        let refs = self.context.function.refs() as u16;
        let through_frames = registers.iter().any(|register| register.is_ref())
            || values.iter().any(|(_, passed)| passed.passed_in == PassedIn::Slot);
        let kind = NativeKind::Return { operands, refs, through_frames };
        self.graph.native_terminators.insert(self.current, NativeTerminator { values, kind });
    }

    /// A call of an import that machine code can make directly, with the values that it passes. References that are
    /// lent to the frame have to be counted before the import runs.
    pub(super) fn direct_call(&mut self, op: Op) -> Option<(DirectCall, Vec<(NodeId, Passed)>)> {
        let Op::Call { call } = op else { return None };
        let site = self.decoded.call(call);
        let Callee::Import(import) = site.callee else { return None };
        let FunctionContext { module, function } = self.context;
        let import = module.imports.get(import.index())?;
        let direct = import.direct.as_deref().filter(|_| !may_be_lent_to(function))?;
        let passed = calls::direct_arguments(&import.convention)?;
        let result = calls::direct_result(&import.convention)?;
        let (operands, targets) = (self.decoded.list(site.operands), self.decoded.list(site.results));
        let result = result.zip(targets.first()).map(|(of, target)| (of, target.reg().0));
        let values = self.values(operands, &passed);
        let call = DirectCall { import: std::ptr::from_ref(direct) as usize, function: direct.function(), result };
        Some((call, values))
    }

    /// Builds a native call. False, and nothing is built, if machine code cannot make the call.
    pub(super) fn native_call(&mut self, id: CallId) -> bool {
        let Some(call) = self.context.module_call(id) else { return false };
        let ModuleCall { callee, arguments, results, advance, size, zeroed } = call;
        let site = self.decoded.call(id);
        let (operands, targets) = (self.decoded.list(site.operands), self.decoded.list(site.results));
        let passes_refs = operands.iter().any(|register| register.is_ref());
        // Results that are passed in slots are loaded as other slots are.
        let in_registers = results.iter().all(|result| result.passed_in != PassedIn::Slot);
        let only_values = in_registers && !passes_refs && targets.iter().all(|register| !register.is_ref());
        let written = calls::values(targets).zip(results).map(|(register, result)| (register.reg().0, result));
        let written: Vec<(u16, Passed)> = written.filter(|_| in_registers).collect();
        let is_written = |slot: u16| {
            written.iter().any(|(first, result)| (*first..first + 1 + u16::from(result.of.is_wide())).contains(&slot))
        };
        let values = self.values(operands, &arguments);
        let exit = self.exit_here();
        let fits = size as usize <= calls::STACK_RESERVE && zeroed == 0;
        let inlined =
            if only_values && fits { self.inline_entry_block(callee, &values, &written, exit) } else { Inlined::No };
        let (returns_early, call_block) = match inlined {
            Inlined::No => (Vec::new(), None),
            Inlined::Fully(results) => {
                self.define_results(&written, &results);
                return true;
            }
            Inlined::Partly(returns_early, call_block) => (returns_early, Some(call_block)),
        };
        let reads = self.reads_before(self.pc + 1).to_vec();
        let pc = self.pc;
        let before = self.slot_constants.clone();
        apply(self.decoded, &self.liveness, pc, &mut self.slot_constants);
        let all = live_ins(&reads);
        if let Some(None) = call_block {
            let after = self.open(None);
            self.graph.order.push(after);
            self.merge(after, &reads, returns_early);
            self.slot_constants = before;
            return true;
        }
        let from = call_block.flatten().unwrap_or(self.current);
        self.select(from);
        self.graph.blocks[from].terminator = Terminator::SideExit(SideExitKind::Call, exit);
        // The block after the call takes results as parameters, and if early returns lead there all live-ins. It loads
        // the others from the slots.
        let is_brought = |one: &LiveIn| call_block.is_some() || (one.slot..one.slot + one.slots()).any(is_written);
        let (brought, read_later): (Vec<LiveIn>, Vec<LiveIn>) = all.into_iter().partition(is_brought);
        let resumed = self.open(Some(Entry { pc: pc + 1, resumes: true, native: false }));
        self.cold.push(resumed);
        self.take_slots(&brought);
        let mut incoming = vec![Incoming { from: resumed, second: false, defs: self.defs.clone() }];

        let back = self.open(Some(Entry { pc: pc + 1, resumes: true, native: true }));
        self.graph.order.push(back);
        self.defs.fill(None);
        for (slot, result) in &written {
            if let PassedIn::Register(register) = result.passed_in {
                self.passed(Kind::Passed(register), result.of, *slot);
            }
        }
        for one in &brought {
            let slots = one.slot..one.slot + one.slots();
            if !slots.clone().any(is_written) {
                self.add_slots(&[*one]);
                continue;
            }
            for slot in slots.filter(|slot| !is_written(*slot)) {
                self.passed(Kind::Slot(slot), Scalar::I32, slot);
            }
        }
        incoming.push(Incoming { from: back, second: false, defs: self.defs.clone() });
        incoming.extend(returns_early);

        let after = self.open(None);
        self.graph.order.push(after);
        let (unknown, known) = self.unknown(brought.clone());
        self.parameters(after, &unknown);
        self.define_all(&known);
        self.connect(after, &unknown, &mut incoming);
        self.add_slots(&read_later);

        // Constants are known after the call, and so need not be written.
        let mut live_slots = Vec::new();
        for one in brought.iter().chain(&read_later) {
            if self.known(*one).is_none() {
                live_slots.extend((one.slot..one.slot + one.slots()).filter(|slot| !is_written(*slot)));
            }
        }
        live_slots.sort_unstable();
        let call = NativeCall {
            callee: callee.ordinal(),
            advance,
            size,
            zeroed,
            refs: callee.refs() as u16,
            passes_refs,
            continuation: back,
            live_slots,
            partly_inlined: call_block.is_some(),
        };
        self.graph.native_terminators.insert(from, NativeTerminator { values, kind: NativeKind::Call(call) });
        self.slot_constants = before;
        true
    }
}
