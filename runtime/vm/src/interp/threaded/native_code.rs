//! Machine code as part of a stream, and when functions get it: instructions whose handlers are machine code, the tier-up counter, and the
//! interface to the compiler.
//!
//! Machine code is entered through an instruction for each op at which it can be entered. At a side exit it continues at an instruction for
//! the op that the interpreter executes; the instruction after that one leads back into the code.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};

use super::code::{NO_INSTRUCTION, ThreadedCode};
use super::instruction::{CALL_INSTRUCTIONS, Ip, ThreadedCallSite, ThreadedInstruction, instructions_of};
use super::pinned_list::PinnedList;
use super::{CodeTable, Machine};
use crate::bytecode::VerifiedFunction;
use crate::interp::bound_modules::BytecodeModule;
use crate::limits::Charge;
use crate::limits::{Dispatch, Limits, Tier};

/// A function is compiled when its tier-up counter reaches this: it counts entries into the function, and checks of the limits in it.
const TIER_UP_AT: u32 = 2;

/// The native tier of a function: its tier-up counter, and its machine code once it has some.
#[derive(Default)]
pub(super) struct NativeTier {
    tier_up_counter: AtomicU32,
    /// None in it if the function cannot be compiled.
    native: OnceLock<Option<NativeCode>>,
}

impl NativeTier {
    #[inline]
    pub fn get(&self) -> Option<&NativeCode> {
        self.native.get()?.as_ref()
    }

    /// True if the function has been compiled, or never will be.
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.native.get().is_some()
    }
}

/// The machine code of a function, and the instructions through which the interpreter enters it and continues after it. The bytes are in
/// the code space of the module.
pub struct NativeCode {
    instructions: PinnedList<ThreadedInstruction>,
    /// For each instruction, the op at which the interpreter continues.
    pcs: Box<[u32]>,
    /// For each op, the instruction through which code is entered at it.
    entries: Box<[u32]>,
    sites: PinnedList<ThreadedCallSite>,
    /// The address at which other machine code calls the function, if it may.
    native_entry: Option<usize>,
    /// Charges the memory of the code to the call.
    _charge: Charge,
}

/// The compiler of the functions of one module. The crate `vireo-jit` implements it; the interpreter knows no more of the JIT than this.
pub trait FunctionCompiler: Send + Sync {
    /// The functions that are compiled before `function`, because it calls them.
    fn callees(&self, module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32>;

    /// Compiles a function: `always`, or if that pays. None leaves the function to the interpreter.
    fn compile(
        &self,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &ThreadedCode,
        always: bool,
    ) -> Option<NativeCode>;

    /// Lets other machine code call function `ordinal`, whose code is installed.
    fn publish(&self, ordinal: u32, native: &NativeCode);
}

/// At most so many functions are compiled in one tier-up: the function, its callees, and theirs.
const MAX_CALLEES: usize = 16;

impl NativeCode {
    /// Machine code that is entered and left through `instructions`, whose memory `charge` counts.
    pub fn new(
        instructions: PinnedList<ThreadedInstruction>,
        pcs: Vec<u32>,
        entries: Vec<u32>,
        sites: PinnedList<ThreadedCallSite>,
        native_entry: Option<usize>,
        charge: Charge,
    ) -> NativeCode {
        NativeCode { instructions, pcs: pcs.into(), entries: entries.into(), sites, native_entry, _charge: charge }
    }

    /// The address at which other machine code calls the function, if it may.
    pub fn native_entry(&self) -> Option<usize> {
        self.native_entry
    }

    /// The instruction through which code is entered at an op.
    pub fn entry(&self, pc: usize) -> Option<Ip> {
        let instruction = self.entries.get(pc).copied().filter(|instruction| *instruction != NO_INSTRUCTION)?;
        Some(self.instructions.at(instruction as usize))
    }

    fn position(&self, ip: Ip) -> Option<usize> {
        let distance = (ip as usize).checked_sub(self.instructions.at(0) as usize)? / size_of::<ThreadedInstruction>();
        (distance < self.pcs.len()).then_some(distance)
    }

    /// The op of an instruction, if the instruction belongs to this code.
    pub fn pc(&self, ip: Ip) -> Option<usize> {
        self.position(ip).map(|position| self.pcs[position] as usize)
    }

    /// The call at an instruction.
    pub fn site(&self, ip: Ip) -> Option<&ThreadedCallSite> {
        let after = self.instructions.at(self.position(ip)? + CALL_INSTRUCTIONS);
        self.sites.items().iter().find(|site| site.resume == after)
    }
}

impl ThreadedCallSite {
    /// A copy of the call site for a call that machine code leaves to the interpreter, and after which execution continues at `resume`.
    pub fn resumed_at(&self, resume: Ip) -> ThreadedCallSite {
        ThreadedCallSite {
            resume,
            descriptor: self.descriptor,
            advance: self.advance,
            bytes: self.bytes,
            zeroed: self.zeroed,
            words: self.words.clone(),
            refs: self.refs.clone(),
            result_words: self.result_words.clone(),
            result_refs: self.result_refs.clone(),
        }
    }
}

impl CodeTable {
    /// Makes all resolved calls of a function enter the machine code that it now has.
    fn redirect(&self, ordinal: u32, code: &ThreadedCode) {
        for caller in self.functions.iter().filter_map(OnceLock::get) {
            let compiled = caller.native.get().map_or(&[][..], |native| native.sites.items());
            for site in caller.sites.items().iter().chain(compiled) {
                if site.descriptor.function == ordinal && !site.entry().load(Ordering::Relaxed).is_null() {
                    site.entry().store(code.call_entry().cast_mut(), Ordering::Release);
                }
            }
        }
    }
}

/// The tier-up policy of a bound module: decides when its functions are compiled, and compiles callees before callers.
#[derive(Clone, Copy)]
pub struct TierUp<'a> {
    /// The module.
    pub module: &'a BytecodeModule,
    /// Index of the module in the context's module list.
    pub index: usize,
    /// True if functions are compiled when they first run.
    pub always: bool,
}

impl TierUp<'_> {
    /// Compiles a function now, and the small functions that it calls. False if it is left to the interpreter.
    pub fn compile(self, ordinal: u32) -> bool {
        let compiler = TierUp { always: true, ..self };
        compiler.tier_up(ordinal, true, &mut Vec::new());
        let code = self.module.code.code(self.module, self.index, ordinal as usize);
        code.is_some_and(|code| code.native.get().is_some())
    }

    /// Counts a run of a function and compiles it when the counter is full, or `at_once`; its callees before it.
    #[inline]
    fn tier_up(self, ordinal: u32, at_once: bool, seen: &mut Vec<u32>) {
        let TierUp { module, index, always } = self;
        let at_once = at_once || always;
        let (function, code) =
            (module.functions.get(ordinal as usize), module.code.code(module, index, ordinal as usize));
        let (Some(function), Some(code), Some(compiler)) = (function, code, &module.compiler) else { return };
        if code.native.native.get().is_some() {
            return;
        }
        // A count of another thread at the same time may be lost, which only delays the compilation.
        let count = code.native.tier_up_counter.load(Ordering::Relaxed);
        if count < TIER_UP_AT && !at_once {
            code.native.tier_up_counter.store(count + 1, Ordering::Relaxed);
            return;
        }
        // Before `get_or_init`, not inside it: two threads that compile functions which call each other would wait for one another.
        seen.push(ordinal);
        for callee in compiler.callees(module, function) {
            if seen.len() < MAX_CALLEES && !seen.contains(&callee) {
                self.tier_up(callee, true, seen);
            }
        }
        let native = code.native.native.get_or_init(|| compiler.compile(module, function, code, always));
        if let Some(native) = native {
            module.code.redirect(ordinal, code);
            // From here on other machine code may call it.
            compiler.publish(ordinal, native);
        }
    }
}

/// True if the tier-up counts what is called within these limits, or compiles it at once.
#[inline]
pub(super) fn is_counted(limits: &Limits) -> bool {
    match limits.dispatch {
        Dispatch::Compiled => true,
        Dispatch::Auto => matches!(limits.tier, Tier::Auto | Tier::Compiled),
        Dispatch::Loop | Dispatch::Threaded | Dispatch::Traced => false,
    }
}

impl Machine<'_> {
    /// Counts an entry into the running function, or a check of the limits in it, and compiles it when the counter is full.
    #[inline(never)]
    pub(super) fn count_for_tier_up(&self) {
        self.count_function_for_tier_up(self.function.ordinal());
    }

    /// As `count_for_tier_up`, for a function that is about to be called.
    #[inline]
    pub(super) fn count_function_for_tier_up(&self, ordinal: u32) {
        if !is_counted(self.limits) {
            return;
        }
        let always = self.limits.dispatch == Dispatch::Compiled || self.limits.tier == Tier::Compiled;
        let compiler = TierUp { module: self.module, index: self.module_index(), always };
        compiler.tier_up(ordinal, false, &mut Vec::new());
    }
}

const _: () = assert!(instructions_of::<u32>() == 1);
