//! Machine code as part of a stream: instructions whose handlers are machine code. `threaded/tier_up.rs` decides when
//! functions get it.
//!
//! Machine code is entered through an instruction for each op at which it can be entered. At a side exit it continues
//! at an instruction for the op that the interpreter executes; the instruction after that one leads back into the code.

use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::pinned_list::PinnedList;
use super::side_exits::SideExitCounts;
use crate::interp::frame::instruction::{
    CALL_INSTRUCTIONS, Ip, NO_INSTRUCTION, ThreadedCallSite, ThreadedInstruction, instructions_of,
};
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
    pub(super) side_exits: SideExitCounts,
    /// Bytes of memory that it takes.
    pub(super) bytes: u64,
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

impl NativeCode {
    /// Machine code that is entered and left through `instructions`, and takes so many bytes, which are charged. The
    /// `sites` are in the order of their instructions. The code counts in `side_exits`.
    pub fn new(
        instructions: PinnedList<ThreadedInstruction>,
        pcs: Vec<u32>,
        entries: Vec<u32>,
        sites: PinnedList<ThreadedCallSite>,
        native_entry: Option<usize>,
        side_exits: SideExitCounts,
        (bytes, charge): (u64, Charge),
    ) -> NativeCode {
        let (pcs, entries) = (pcs.into(), entries.into());
        NativeCode { instructions, pcs, entries, sites, native_entry, side_exits, bytes, _charge: charge }
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

const _: () = assert!(instructions_of::<u32>() == 1);
