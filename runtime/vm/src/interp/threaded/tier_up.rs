//! The tier-up policy: when functions get machine code. The dispatcher counts runs of functions here, and hosts compile
//! functions ahead.
//!
//! A function that the counter finds hot is compiled by the thread of background jobs, if it is not very small and
//! there is a processor for that thread. The interpreter goes on meanwhile, and enters the code at the next call or at
//! a loop header, when it checks its limits there.
//!
//! Kernels are compiled by that thread from when they are loaded. The thread that runs one which has no code yet
//! compiles it, or waits for the other thread if that is about it: the interpreter would take far longer.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};

use super::function_code::code_of;
use crate::background::{self, Urgency};
use crate::interp::code::native_code::LeftOut;
use crate::interp::machine::Machine;
use crate::interp::machine::bound_modules::{BoundModule, BytecodeModule};
use crate::limits::scope::Scope;
use crate::limits::{DispatchMode, Limits, MemoryBudget, Tier};

/// A function is hot when its tier-up counter reaches this: it counts entries into the function, and checks of the
/// limits in it.
const TIER_UP_AT: u32 = 2;
/// The value of the counter of a function that is queued.
const QUEUED: u32 = u32::MAX;

/// At most so many functions are compiled in one tier-up: the function, its callees, and theirs.
const MAX_CALLEES: usize = 16;

/// Functions of at most so many ops, without loops and calls, are compiled at once: there is little to compile, and
/// another thread would have to wake.
const SMALL_OPS: usize = 32;

/// The tier-up policy of a bound module: decides when its functions are compiled, and compiles callees before callers.
#[derive(Clone, Copy)]
pub struct TierUp<'a> {
    /// The module.
    pub module: &'a Arc<BytecodeModule>,
    /// Index of the module in the context's module list.
    pub index: usize,
    /// True if functions are compiled even if that does not pay.
    pub always: bool,
    /// Most bytes of machine code that the module gets.
    pub code_limit: u64,
}

impl TierUp<'_> {
    /// Compiles a function now, and the small functions that it calls. False if it is left to the interpreter.
    pub fn compile(self, ordinal: u32) -> bool {
        let compiler = TierUp { always: true, ..self };
        compiler.compile_with_callees(ordinal, &mut Vec::new(), OnPanic::Unwind);
        let code = code_of(self.module, self.index, ordinal as usize);
        code.is_some_and(|code| code.native.get().is_some())
    }

    /// Has a function compiled in the background, and the small functions that it calls: as `compile` where that cannot
    /// be done. The code is charged to `memory`.
    pub fn compile_in_background(self, ordinal: u32, urgency: Urgency, memory: Option<&MemoryBudget>) {
        let job = Job {
            module: Arc::downgrade(self.module),
            index: self.index,
            ordinal,
            always: self.always,
            code_limit: self.code_limit,
            memory: memory.cloned(),
        };
        if let Err(job) = background::submit(urgency, Box::new(|| job.run())) {
            job();
        }
    }

    /// Counts a run of a function. When the counter is full, the function is compiled, or queued for that; `at_once` it
    /// is compiled now.
    #[inline]
    fn count(self, ordinal: u32, at_once: bool, limits: &Limits) {
        let TierUp { module, index, .. } = self;
        let Some(code) = code_of(module, index, ordinal as usize) else { return };
        if code.native.is_decided() {
            return;
        }
        if at_once {
            self.compile_with_callees(ordinal, &mut Vec::new(), OnPanic::Unwind);
            return;
        }
        // A count of another thread at the same time may be lost, which only delays the compilation or queues it twice.
        let counter = &code.native.tier_up_counter;
        let count = counter.load(Ordering::Relaxed);
        if count < TIER_UP_AT {
            counter.store(count + 1, Ordering::Relaxed);
        } else if count != QUEUED && counter.swap(QUEUED, Ordering::Relaxed) != QUEUED {
            self.begin(ordinal, limits);
        }
    }

    /// Compiles a hot function, or queues it for that.
    #[cold]
    fn begin(self, ordinal: u32, limits: &Limits) {
        if background::is_available() && !self.is_small(ordinal) {
            self.compile_in_background(ordinal, Urgency::Needed, limits.memory.as_ref());
        } else {
            self.compile_with_callees(ordinal, &mut Vec::new(), OnPanic::Unwind);
        }
    }

    /// Whether it takes little time to compile a function.
    fn is_small(self, ordinal: u32) -> bool {
        let module = self.module;
        let (Some(function), Some(compiler)) = (module.functions.get(ordinal as usize), &module.compiler) else {
            return true;
        };
        // The smallest loop that ends has a block before it and one after it.
        let decoded = function.decoded();
        decoded.ops.len() <= SMALL_OPS && decoded.blocks.len() < 3 && compiler.callees(module, function).is_empty()
    }

    /// Compiles a function, its callees before it.
    fn compile_with_callees(self, ordinal: u32, seen: &mut Vec<u32>, on_panic: OnPanic) {
        let TierUp { module, index, always, code_limit } = self;
        let (function, code) = (module.functions.get(ordinal as usize), code_of(module, index, ordinal as usize));
        let (Some(function), Some(code), Some(compiler)) = (function, code, &module.compiler) else { return };
        if code.native.is_decided() || on_panic == OnPanic::LeaveOut && Arc::strong_count(module) == 1 {
            return;
        }
        // Before `get_or_compile`, not inside it: two threads that compile functions which call each other would wait
        // for one another.
        seen.push(ordinal);
        for callee in compiler.callees(module, function) {
            if seen.len() < MAX_CALLEES && !seen.contains(&callee) {
                self.compile_with_callees(callee, seen, on_panic);
            }
        }
        let compile = || {
            let native = compiler.compile(module, function, code, always, code_limit)?;
            module.code.add_calls_of(ordinal, &native);
            Ok(native)
        };
        let native = code.native.get_or_compile(|| match on_panic {
            OnPanic::Unwind => compile(),
            OnPanic::LeaveOut => catch_unwind(AssertUnwindSafe(compile)).unwrap_or(Err(LeftOut::Panicked)),
        });
        if let Some(Ok(native)) = native {
            module.code.redirect(ordinal, code);
            // From here on other machine code may call it.
            compiler.publish(ordinal, native);
        }
    }
}

/// The handling of a panic of the compiler.
#[derive(Clone, Copy, PartialEq, Eq)]
enum OnPanic {
    /// The thread unwinds, as by any mistake in a call.
    Unwind,
    /// No call waits for the function, which is left to the interpreter. The panic hook has reported the panic.
    LeaveOut,
}

/// A function to compile in the background. It does not keep its module alive.
struct Job {
    module: Weak<BytecodeModule>,
    index: usize,
    ordinal: u32,
    always: bool,
    code_limit: u64,
    memory: Option<MemoryBudget>,
}

impl Job {
    fn run(self) {
        let Some(module) = self.module.upgrade() else { return };
        // Time and fuel of the call are not what compiles; the memory that the code takes is the call's.
        let _scope = Scope::of(&Limits { memory: self.memory, ..Limits::default() }).enter();
        let Job { index, always, code_limit, .. } = self;
        let compiler = TierUp { module: &module, index, always, code_limit };
        compiler.compile_with_callees(self.ordinal, &mut Vec::new(), OnPanic::LeaveOut);
    }
}

/// True if the tier-up counts what is called within these limits, or compiles it at once.
#[inline]
pub(super) fn is_counted(limits: &Limits) -> bool {
    match limits.dispatch {
        DispatchMode::Compiled | DispatchMode::Tiered | DispatchMode::Kernels => true,
        DispatchMode::Auto => matches!(limits.tier, Tier::Auto | Tier::Compiled),
        DispatchMode::Loop | DispatchMode::Threaded | DispatchMode::Traced => false,
    }
}

impl Machine<'_> {
    /// Counts an entry into the running function, or a check of the limits in it, and compiles it when the counter is
    /// full.
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
        let index = self.module_index();
        let Some(BoundModule::Bytecode(module)) = self.module_list.modules.get(index) else { return };
        let at_once = matches!(self.limits.dispatch, DispatchMode::Kernels | DispatchMode::Compiled)
            || self.limits.tier == Tier::Compiled;
        let always = at_once || self.limits.dispatch == DispatchMode::Tiered;
        let compiler = TierUp { module, index, always, code_limit: self.limits.machine_code_bytes };
        compiler.count(ordinal, at_once, self.limits);
    }
}
