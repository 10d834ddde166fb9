//! [`CodeTable`]: the code of all functions of a module, and which calls lead to each. Bound modules have one;
//! `threaded/function_code.rs` fills it.

use std::collections::HashMap;
use std::sync::atomic::{Ordering, fence};
use std::sync::{Mutex, OnceLock, PoisonError};

use super::native_code::{LeftOut, NativeCode};
use super::side_exits::SideExits;
use super::threaded_code::ThreadedCode;
use crate::bytecode::{Callee, VerifiedFunction};
use crate::interp::frame::instruction::ThreadedCallSite;

/// The threaded code of a module's functions, built for each function when it first runs.
pub struct CodeTable {
    functions: Box<[OnceLock<ThreadedCode>]>,
    /// For each function, whether a function of the module calls it, itself included.
    called: OnceLock<Box<[bool]>>,
    callers: Callers,
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
    /// The side exits that were taken: where machine code has handed an op to the interpreter. Code that keeps doing so
    /// gains little.
    pub side_exits: Vec<SideExits>,
}

impl CodeTable {
    /// An empty table for a module with these functions.
    pub fn new(functions: &[VerifiedFunction]) -> CodeTable {
        let code = functions.iter().map(|_| OnceLock::new()).collect();
        CodeTable { functions: code, called: OnceLock::new(), callers: Callers::default() }
    }

    /// The code of function `ordinal`, if it has been built.
    #[inline]
    pub(in crate::interp) fn get(&self, ordinal: usize) -> Option<&ThreadedCode> {
        self.functions.get(ordinal)?.get()
    }

    /// The code of function `ordinal`, which `build` builds if it is not there.
    #[inline]
    pub(in crate::interp) fn get_or_build(
        &self,
        ordinal: usize,
        build: impl FnOnce() -> ThreadedCode,
    ) -> Option<&ThreadedCode> {
        Some(self.functions.get(ordinal)?.get_or_init(|| {
            let code = build();
            self.callers.add(ordinal as u32, CallerTier::Interpreter, code.sites.items());
            code
        }))
    }

    /// Adds the calls in new machine code of function `ordinal`, before anybody else can see the code.
    pub(in crate::interp) fn add_calls_of(&self, ordinal: u32, native: &NativeCode) {
        self.callers.add(ordinal, CallerTier::MachineCode, native.sites.items());
    }

    /// True if one of the functions calls function `ordinal`.
    pub fn is_called(&self, functions: &[VerifiedFunction], ordinal: u32) -> bool {
        let called = self.called.get_or_init(|| {
            let mut called = vec![false; functions.len()];
            for site in functions.iter().flat_map(|function| function.decoded().calls()) {
                if let Callee::Function(callee) = site.callee
                    && let Some(called) = called.get_mut(callee.index())
                {
                    *called = true;
                }
            }
            called.into()
        });
        called.get(ordinal as usize).copied().unwrap_or_default()
    }

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
                    let native = self.get(ordinal).and_then(|code| code.native.get());
                    all.side_exits.extend(native.into_iter().flat_map(|native| native.side_exits.taken(ordinal)));
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

/// The calls of each function of a module, so that a function which gets machine code finds them without looking at all
/// others.
#[derive(Default)]
struct Callers(Mutex<HashMap<u32, Vec<SiteId>>>);

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
enum CallerTier {
    /// The threaded code of its function.
    Interpreter,
    /// The machine code.
    MachineCode,
}

impl Callers {
    /// Adds the calls in new code of a function, before anybody else can see the code.
    fn add(&self, caller: u32, tier: CallerTier, sites: &[ThreadedCallSite]) {
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
