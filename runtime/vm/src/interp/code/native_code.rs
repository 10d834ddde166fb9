//! Machine code as part of a stream: instructions whose handlers are machine code, and the interface to the compiler.
//! `tier_up.rs` decides when functions get it.
//!
//! Machine code is entered through an instruction for each op at which it can be entered. At a side exit it continues
//! at an instruction for the op that the interpreter executes; the instruction after that one leads back into the code.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::pinned_list::PinnedList;
use super::threaded_code::{NO_INSTRUCTION, ThreadedCode};
use crate::bytecode::VerifiedFunction;
use crate::interp::frame::instruction::{
    CALL_INSTRUCTIONS, Ip, ThreadedCallSite, ThreadedInstruction, instructions_of,
};
use crate::interp::machine::bound_modules::BytecodeModule;
use crate::interp::threaded::CodeTable;
use crate::limits::Charge;

/// The native tier of a function: its tier-up counter, and its machine code once it has some.
#[derive(Default)]
pub(in crate::interp) struct NativeTier {
    pub tier_up_counter: AtomicU32,
    /// The code, or why there is none.
    pub native: OnceLock<Result<NativeCode, LeftOut>>,
    /// Held by the thread that compiles it.
    compiling: Mutex<()>,
}

impl NativeTier {
    #[inline]
    pub fn get(&self) -> Option<&NativeCode> {
        self.native.get()?.as_ref().ok()
    }

    /// True if the function has been compiled, or never will be.
    #[inline]
    pub fn is_decided(&self) -> bool {
        self.native.get().is_some()
    }

    /// The code, or why there is none. Compiles it, or waits for the thread that does. None if the time of the call was
    /// over before there was code: then the next call that needs the function compiles it.
    pub fn get_or_compile(
        &self,
        compile: impl FnOnce() -> Result<NativeCode, LeftOut>,
    ) -> Option<&Result<NativeCode, LeftOut>> {
        if !self.is_decided() {
            // A compiler that panicked has left nothing behind.
            let _compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.is_decided() {
                match compile() {
                    Err(LeftOut::Interrupted) => self.tier_up_counter.store(0, Ordering::Relaxed),
                    compiled => _ = self.native.set(compiled),
                }
            }
        }
        self.native.get()
    }
}

/// The machine code of a function, and the instructions through which the interpreter enters it and continues after it.
/// The bytes are in the code space of the module.
pub struct NativeCode {
    instructions: PinnedList<ThreadedInstruction>,
    /// For each instruction, the op at which the interpreter continues.
    pcs: Box<[u32]>,
    /// For each op, the instruction through which code is entered at it.
    entries: Box<[u32]>,
    pub(in crate::interp) sites: PinnedList<ThreadedCallSite>,
    /// The address at which other machine code calls the function, if it may.
    native_entry: Option<usize>,
    /// Bytes of memory that it takes.
    bytes: u64,
    /// Charges them to the call.
    _charge: Charge,
}

/// Why a function is left to the interpreter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LeftOut {
    /// It does little but what the runtime does for it.
    NotWorthwhile,
    /// It has too many ops or values.
    TooLarge,
    /// The module has as much machine code as it may have.
    CodeLimit,
    /// The call that needed it has no memory left for the code, by its budget.
    Budget,
    /// The system has no memory for the code.
    Unmappable,
    /// The compiler panicked.
    Panicked,
    /// The time of the call that needed it was over before it was compiled.
    Interrupted,
}

impl fmt::Display for LeftOut {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            LeftOut::NotWorthwhile => "it does little but what the runtime does for it",
            LeftOut::TooLarge => "it is too large for the compiler",
            LeftOut::CodeLimit => "the module has as much machine code as it may have",
            LeftOut::Budget => "the budget of the call had no memory left for the code",
            LeftOut::Unmappable => "the system has no memory for the code",
            LeftOut::Panicked => "the compiler panicked",
            LeftOut::Interrupted => "the time of the call was over before it was compiled",
        })
    }
}

/// The machine code of a module.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MachineCode {
    /// How many functions have some.
    pub functions: usize,
    /// Bytes of memory that it takes.
    pub bytes: u64,
    /// The functions, by ordinal, for which it was decided that the interpreter runs them, and why.
    pub left_out: Vec<(usize, LeftOut)>,
}

/// The compiler of the functions of one module. The crate `vireo-jit` implements it; the interpreter knows no more of
/// the JIT than this.
pub trait FunctionCompiler: Send + Sync {
    /// The functions that are compiled before `function`, because it calls them.
    fn callees(&self, module: &BytecodeModule, function: &VerifiedFunction) -> Vec<u32>;

    /// Compiles a function: `always`, or if that pays. The module gets at most `limit` bytes of code.
    ///
    /// # Errors
    /// Why the function is left to the interpreter.
    fn compile(
        &self,
        module: &BytecodeModule,
        function: &VerifiedFunction,
        code: &ThreadedCode,
        always: bool,
        limit: u64,
    ) -> Result<NativeCode, LeftOut>;

    /// Lets other machine code call function `ordinal`, whose code is installed.
    fn publish(&self, ordinal: u32, native: &NativeCode);
}

impl NativeCode {
    /// Machine code that is entered and left through `instructions`, and takes so many bytes, which are charged. The
    /// `sites` are in the order of their instructions.
    pub fn new(
        instructions: PinnedList<ThreadedInstruction>,
        pcs: Vec<u32>,
        entries: Vec<u32>,
        sites: PinnedList<ThreadedCallSite>,
        native_entry: Option<usize>,
        (bytes, charge): (u64, Charge),
    ) -> NativeCode {
        let (pcs, entries) = (pcs.into(), entries.into());
        NativeCode { instructions, pcs, entries, sites, native_entry, bytes, _charge: charge }
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
        let sites = self.sites.items();
        let position = sites.binary_search_by_key(&after, |site| site.resume).ok()?;
        sites.get(position)
    }
}

impl ThreadedCallSite {
    /// A copy of the call site for a call that machine code leaves to the interpreter, and after which execution
    /// continues at `resume`.
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

/// The calls of each function of a module, so that a function which gets machine code finds them without looking at all
/// others.
#[derive(Default)]
pub(in crate::interp) struct Callers(Mutex<HashMap<u32, Vec<SiteId>>>);

/// A call in the code of a function.
#[derive(Clone, Copy)]
struct SiteId {
    caller: u32,
    tier: CallerTier,
    /// Index in the sites of that code.
    index: u32,
}

/// The code that a call is in.
#[derive(Clone, Copy)]
pub(in crate::interp) enum CallerTier {
    /// The threaded code of its function.
    Interpreter,
    /// The machine code.
    MachineCode,
}

impl Callers {
    /// Adds the calls in new code of a function, before anybody else can see the code.
    pub(in crate::interp) fn add(&self, caller: u32, tier: CallerTier, sites: &[ThreadedCallSite]) {
        let mut callers = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (index, site) in (0..).zip(sites) {
            callers.entry(site.descriptor.function).or_default().push(SiteId { caller, tier, index });
        }
    }

    /// The calls of a function.
    fn of(&self, callee: u32) -> Vec<SiteId> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get(&callee).cloned().unwrap_or_default()
    }
}

impl CodeTable {
    /// The bytes that the machine code of a function takes, or why it is left to the interpreter. None as long as that
    /// is not decided.
    pub fn machine_code(&self, ordinal: usize) -> Option<Result<u64, LeftOut>> {
        let native = self.functions.get(ordinal)?.get()?.native.native.get()?;
        Some(native.as_ref().map(|native| native.bytes).map_err(|left_out| *left_out))
    }

    /// The machine code of all functions so far.
    pub fn all_machine_code(&self) -> MachineCode {
        let mut all = MachineCode::default();
        for ordinal in 0..self.functions.len() {
            match self.machine_code(ordinal) {
                Some(Ok(bytes)) => {
                    all.functions += 1;
                    all.bytes += bytes;
                }
                Some(Err(left_out)) => all.left_out.push((ordinal, left_out)),
                None => {}
            }
        }
        all
    }

    /// Makes all resolved calls of a function enter the machine code that it now has, and the calls in this code that
    /// of their callees.
    pub(in crate::interp) fn redirect(&self, ordinal: u32, code: &ThreadedCode) {
        // Another thread may resolve a call or install code at the same time: one of the two sees what the other has
        // stored.
        fence(Ordering::SeqCst);
        for SiteId { caller, tier, index } in self.callers.of(ordinal) {
            // A caller whose code is not there yet has resolved no call.
            let caller = self.functions.get(caller as usize).and_then(OnceLock::get);
            let sites = caller.and_then(|caller| match tier {
                CallerTier::Interpreter => Some(caller.sites.items()),
                CallerTier::MachineCode => caller.native.get().map(|native| native.sites.items()),
            });
            let site = sites.and_then(|sites| sites.get(index as usize));
            if let Some(site) = site.filter(|site| !site.entry().load(Ordering::Relaxed).is_null()) {
                site.entry().store(code.call_entry().cast_mut(), Ordering::Release);
            }
        }
        // They were copied from calls in the interpreter's code when this code was made, and callees may have got code
        // since.
        for site in code.native.get().map_or(&[][..], |native| native.sites.items()) {
            let callee = self.functions.get(site.descriptor.function as usize).and_then(OnceLock::get);
            if let Some(callee) = callee.filter(|_| !site.entry().load(Ordering::Relaxed).is_null()) {
                site.entry().store(callee.call_entry().cast_mut(), Ordering::Release);
            }
        }
    }
}

const _: () = assert!(instructions_of::<u32>() == 1);
