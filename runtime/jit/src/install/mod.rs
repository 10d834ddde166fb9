//! Installation of machine code: it copies the code of a function into its module's code space, links it, and makes the
//! threaded instructions by which the interpreter enters it and continues after side exits. The interpreter calls it by
//! the trait `FunctionCompiler`.

#[cfg(test)]
mod background_tests;
#[cfg(test)]
mod tests;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use super::{Plan, SideExitKind};
use crate::analysis::verify;
use crate::bytecode::VerifiedFunction;
use crate::executable_memory::{CodeSpace, page_size};
use crate::interp::BytecodeModule;
use crate::interp::code::perf_map;
use crate::interp::code::side_exits::{SideExitCounts, SideExitReason};
use crate::interp::threaded::{
    CALL_INSTRUCTIONS, FunctionCompiler, HandlerAddress, LeftOut, NO_INSTRUCTION, NativeCode, PinnedList, ThreadedCode,
    ThreadedInstruction, address_of, cold,
};
use crate::ir::graph::BlockIndex;
use crate::limits::{self, Charge};
use crate::x64::runtime_layout::{LinkTargets, NativeEntry};

/// Code spaces consist of whole pages.
const CODE_PAGE: u64 = 4096;
/// Threaded instructions of a side exit: the op, which may be a call, and what follows it.
const EXIT_INSTRUCTIONS: usize = CALL_INSTRUCTIONS + 1;
/// Bytes of machine code that are reserved for each op, which is more than most become.
const CODE_PER_OP: usize = 256;

/// The machine code of a module.
pub struct ModuleCode {
    space: CodeSpace,
    /// Bytes that its functions take.
    bytes: AtomicU64,
    /// The native entry of each function; null for one that has none, or no code yet.
    native_entries: Box<[AtomicUsize]>,
}

impl ModuleCode {
    /// For a module of these functions.
    pub fn new(functions: &[VerifiedFunction]) -> ModuleCode {
        let code = |function: &VerifiedFunction| function.decoded().ops.len() * CODE_PER_OP + page_size();
        ModuleCode {
            space: CodeSpace::new(functions.iter().map(code).sum()),
            bytes: AtomicU64::new(0),
            native_entries: functions.iter().map(|_| AtomicUsize::new(0)).collect(),
        }
    }

    fn native_entry(&self, ordinal: u32) -> Option<NativeEntry> {
        let variable = self.native_entries.get(ordinal as usize)?;
        Some(match variable.load(Ordering::Acquire) {
            0 => NativeEntry::Pending(variable.as_ptr() as usize),
            address => NativeEntry::Known(address),
        })
    }
}

/// Bytes of a module's limit that are given back if there will be no code in them.
struct Reserved<'a> {
    used: &'a AtomicU64,
    bytes: u64,
}

impl Drop for Reserved<'_> {
    fn drop(&mut self) {
        self.used.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl FunctionCompiler for ModuleCode {
    fn callees(&self, module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32> {
        super::callees(module, function)
    }

    fn publish(&self, ordinal: u32, native: &NativeCode) {
        if let (Some(native_entry), Some(variable)) = (native.native_entry(), self.native_entries.get(ordinal as usize))
        {
            variable.store(native_entry, Ordering::Release);
        }
    }

    fn compile(
        &self,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &ThreadedCode,
        always: bool,
        limit: u64,
    ) -> Result<NativeCode, LeftOut> {
        // Where no function fits, none is compiled to see that.
        if self.bytes.load(Ordering::Relaxed).saturating_add(CODE_PAGE) > limit {
            return Err(LeftOut::CodeLimit);
        }
        let plan = Plan::new(function, module).ok_or_else(|| match limits::scope::check() {
            Ok(()) => LeftOut::TooLarge,
            Err(_) => LeftOut::Interrupted,
        })?;
        if !always && !plan.is_worthwhile() {
            return Err(LeftOut::NotWorthwhile);
        }
        self.install(&plan, module, function, code, limit)
    }
}

impl ModuleCode {
    /// Reserves bytes for code, of which there are at most `limit`.
    fn reserve(&self, bytes: u64, limit: u64) -> Result<Reserved<'_>, LeftOut> {
        let within = |used: u64| used.checked_add(bytes).filter(|used| *used <= limit);
        let reserved = self.bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, within);
        reserved.map(|_| Reserved { used: &self.bytes, bytes }).map_err(|_| LeftOut::CodeLimit)
    }

    fn install(
        &self,
        plan: &Plan,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &ThreadedCode,
        limit: u64,
    ) -> Result<NativeCode, LeftOut> {
        // For each side exit the threaded instructions to continue at its op and after it, and one for each other
        // resume point.
        let side_exits: Vec<_> = plan.side_exits().collect();
        let resume_points: Vec<_> = plan.resume_points().filter(|resume_point| !resume_point.resumes).collect();
        let count = side_exits.len() * EXIT_INSTRUCTIONS + resume_points.len();
        let instructions = PinnedList::new(vec![ThreadedInstruction::EMPTY; count]);
        let mut pcs = vec![0; count];
        let mut entries = vec![NO_INSTRUCTION; function.decoded().ops.len()];
        let mut sites = Vec::new();
        let functions = plan.calls().filter_map(|ordinal| Some((ordinal, self.native_entry(ordinal)?)));
        let mut link_targets = LinkTargets {
            functions: functions.collect(),
            checks_accesses: verify::is_wanted(),
            ..LinkTargets::default()
        };
        let mut calls = Vec::new();
        // For each side exit the instruction after its op.
        let mut after: Vec<usize> = (0..side_exits.len()).map(|index| index * EXIT_INSTRUCTIONS + 1).collect();
        for (index, side_exit) in side_exits.iter().enumerate() {
            let position = index * EXIT_INSTRUCTIONS;
            pcs[position..position + EXIT_INSTRUCTIONS].fill(side_exit.pc + 1);
            pcs[position] = side_exit.pc;
            let (ip, carried) = code.interpreted(side_exit.pc);
            match side_exit.kind {
                SideExitKind::Return => {
                    link_targets.threaded_instructions.insert(side_exit.block, (ip as usize, carried));
                    continue;
                }
                SideExitKind::Call => {
                    if let Some(site) = code.site(ip) {
                        after[index] = position + CALL_INSTRUCTIONS;
                        calls.push((position, side_exit.block, ip));
                        sites.push(site.resumed_at(instructions.at(after[index])));
                        link_targets
                            .threaded_instructions
                            .insert(side_exit.block, (instructions.at(position) as usize, carried));
                        continue;
                    }
                }
                SideExitKind::Op => {}
            }
            link_targets.threaded_instructions.insert(side_exit.block, (instructions.at(position) as usize, None));
        }
        let reasons = side_exits.iter().filter_map(|side_exit| {
            let reason = match side_exit.kind {
                SideExitKind::Op => SideExitReason::Op,
                SideExitKind::Call => SideExitReason::Call,
                SideExitKind::Return => return None,
            };
            Some((side_exit.pc, reason))
        });
        let counts = SideExitCounts::new(function.decoded().ops.len(), reasons.collect());
        link_targets.side_exit_counts = counts.address();
        let sites = PinnedList::new(sites);
        let resumed =
            calls.iter().map(|(position, block, _)| (*block, instructions.at(position + CALL_INSTRUCTIONS) as usize));
        link_targets.resumes.extend(resumed);
        let machine = plan.compile(&link_targets).ok_or(LeftOut::TooLarge)?;
        let tables = count * size_of::<ThreadedInstruction>() + counts.bytes();
        let bytes = (machine.code.len() + tables) as u64 + CODE_PAGE;
        let reserved = self.reserve(bytes, limit)?;
        // A call whose budget does not have the memory continues without machine code.
        let charge = Charge::of_call(bytes, "machine code").map_err(|_| LeftOut::Budget)?;
        let base = self.space.add(&machine.code).map_err(|_| LeftOut::Unmappable)?;
        perf_map::note(base, machine.code.len(), || {
            format!("{}.{}", module.name, module.function_name(function.ordinal() as usize))
        });
        std::mem::forget(reserved);
        let native_entry = machine.native_entry.map(|offset| base + offset);
        // The code at an entry has the convention of handlers.
        let handler = |block: BlockIndex| -> Option<HandlerAddress> {
            Some((base + machine.entries.get(&block)?) as HandlerAddress)
        };
        let write = |position: usize, instruction: ThreadedInstruction| {
            // SAFETY: the instruction was made by this function, which has the only pointer to it.
            unsafe { instructions.at(position).cast_mut().write(instruction) };
        };
        // By op, because there can be as many as side exits.
        let mut resumed: HashMap<u32, BlockIndex> = HashMap::new();
        for resume_point in plan.resume_points().filter(|resume_point| resume_point.resumes) {
            resumed.entry(resume_point.pc).or_insert(resume_point.block);
        }
        for ((index, side_exit), after) in side_exits.iter().enumerate().zip(after) {
            let position = index * EXIT_INSTRUCTIONS;
            write(position, ThreadedInstruction::with(address_of(cold), u64::from(side_exit.pc)));
            let resumed = resumed.get(&(side_exit.pc + 1)).and_then(|block| handler(*block));
            write(after, resumed.map_or(ThreadedInstruction::EMPTY, ThreadedInstruction::of));
            if resumed.is_some() {
                entries[side_exit.pc as usize + 1] = after as u32;
            }
        }
        for (site, (position, _, ip)) in calls.into_iter().enumerate() {
            // SAFETY: it is the threaded instruction of a call.
            let call = unsafe { (*ip).handler() };
            let callee = code.site(ip).map_or(std::ptr::null_mut(), |site| site.callee_entry());
            for (index, element) in
                ThreadedInstruction::call(call, sites.items()[site].operands(callee)).into_iter().enumerate()
            {
                write(position + index, element);
            }
        }
        for (index, resume_point) in resume_points.iter().enumerate() {
            let position = side_exits.len() * EXIT_INSTRUCTIONS + index;
            write(position, ThreadedInstruction::of(handler(resume_point.block).ok_or(LeftOut::TooLarge)?));
            pcs[position] = resume_point.pc;
            entries[resume_point.pc as usize] = position as u32;
        }
        Ok(NativeCode::new(instructions, pcs, entries, sites, native_entry, counts, (bytes, charge)))
    }
}
