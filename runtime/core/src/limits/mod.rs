//! Limits of invocations: stack, memory, time, fuel, and the tier that runs them. Hosts set them, and the interpreter, native modules and devices
//! check them.

mod budget;
pub mod scope;

pub use budget::{Charge, MemoryBudget, OBJECT_BYTES};

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::scope::Scope;
use crate::status::{Result, Status, StatusCode};

/// Backward branches and calls between two checks of the limits of a call whose fuel is counted, which is also the fuel that they cost.
const FUEL_INTERVAL: u32 = 1024;

/// The same where it is not: a check reads the clock, which takes as long as 70 iterations of the shortest loop.
const TIME_INTERVAL: u32 = 8192;

/// The limits of an invocation.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of VM stack.
    pub stack_bytes: usize,
    /// Most bytes that one buffer or list may take.
    pub allocation_bytes: u64,
    /// The time by which the invocation has to be done.
    pub deadline: Option<Instant>,
    /// Most time for each invocation, including operations that it submits to queues. An earlier deadline takes precedence.
    pub timeout: Option<Duration>,
    /// Set to stop the invocation.
    pub cancelled: Option<Arc<AtomicBool>>,
    /// Steps (backward branches and calls) that are left, shared by all invocations with this value. It is counted down in blocks, so an invocation
    /// may take up to about a thousand more.
    pub fuel: Option<Arc<AtomicU64>>,
    /// Budget for the memory that the invocation allocates, shared by all invocations with this value. Devices have a budget of their own, which may
    /// be the same.
    pub memory: Option<MemoryBudget>,
    /// The tier that runs programs. Only speed depends on it.
    pub tier: Tier,
    /// How ops are dispatched. Only speed depends on it; tests compare the dispatchers.
    #[doc(hidden)]
    pub dispatch: Dispatch,
}

/// The tier that runs programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// The interpreter, and machine code for functions that run often or long.
    #[default]
    Auto,
    /// The interpreter alone.
    Interpreter,
    /// Machine code for every function that is run, where this build has a compiler; the interpreter does what has no machine code.
    Compiled,
    /// The interpreter alone, which passes each op to the trace sink of the context before it executes it.
    Traced,
}

impl Tier {
    /// Fails if this build does not have the tier. `Compiled` needs the feature `jit` and an x86-64 processor, and runs the interpreter without
    /// them.
    ///
    /// # Errors
    /// `UNIMPLEMENTED`.
    pub fn check(self) -> Result<()> {
        if self == Tier::Compiled { check_available() } else { Ok(()) }
    }
}

/// How the interpreter goes from op to op.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Dispatch {
    /// Threaded where calls of handlers are sibling calls, else the loop.
    #[default]
    Auto,
    /// A loop around a match.
    Loop,
    /// Threaded code, whose handlers jump to each other. Without sibling calls a small loop calls one after the other.
    Threaded,
    /// Threaded code, with machine code for all functions.
    Compiled,
    /// One op at a time, each reported to the trace sink.
    Traced,
}

/// Fails if this build has no JIT for the processor.
#[doc(hidden)]
pub fn check_available() -> Result<()> {
    if cfg!(all(feature = "jit", target_arch = "x86_64", unix)) {
        return Ok(());
    }
    let why = if cfg!(all(target_arch = "x86_64", unix)) {
        "this build is without the feature `jit`"
    } else {
        "there is none but for x86-64 on Unix systems"
    };
    Err(Status::unimplemented(format!("machine code for programs: {why}")))
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            stack_bytes: 8 << 20,
            allocation_bytes: 4 << 30,
            deadline: None,
            timeout: None,
            cancelled: None,
            fuel: None,
            memory: None,
            tier: Tier::Auto,
            dispatch: Dispatch::Auto,
        }
    }
}

impl Limits {
    /// Steps until [`Limits::check`] has to be called.
    #[doc(hidden)]
    #[inline]
    pub fn check_interval(&self) -> u32 {
        if self.fuel.is_some() { FUEL_INTERVAL } else { TIME_INTERVAL }
    }

    /// True if more is limited than the sizes of the stack and of allocations, so that the limits have to be checked while the program runs.
    #[doc(hidden)]
    #[inline]
    pub fn is_armed(&self) -> bool {
        // `|`, so that there is no branch for each: nearly always all of them are none.
        self.deadline.is_some()
            | self.timeout.is_some()
            | self.cancelled.is_some()
            | self.fuel.is_some()
            | self.memory.is_some()
    }

    /// The limits of an invocation that starts now, with its timeout as a deadline. One that starts inside another, as kernels do, is held to the
    /// limits of that one as well.
    #[doc(hidden)]
    pub fn started(&self) -> Cow<'_, Limits> {
        let outer = Scope::current();
        if self.timeout.is_none() && outer.limits().is_none() {
            return Cow::Borrowed(self);
        }
        let mut limits = self.clone();
        let mut timeout = limits.timeout.take();
        if let Some(outer) = outer.limits() {
            // The deadline of the outer invocation takes the place of a timeout.
            timeout = timeout.filter(|_| outer.deadline.is_none());
            limits.deadline = [limits.deadline, outer.deadline].into_iter().flatten().min();
            limits.cancelled = limits.cancelled.or_else(|| outer.cancelled.clone());
            limits.fuel = limits.fuel.or_else(|| outer.fuel.clone());
            limits.memory = limits.memory.or_else(|| outer.memory.clone());
        }
        let end = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        limits.deadline = [limits.deadline, end].into_iter().flatten().min();
        Cow::Owned(limits)
    }

    /// Fails if the time is up, the memory is used up, or the invocation was cancelled.
    #[doc(hidden)]
    pub fn check_time(&self) -> Result<()> {
        if self.cancelled.as_ref().is_some_and(|cancelled| cancelled.load(Ordering::Relaxed)) {
            return Err(Status::new(StatusCode::Cancelled, "the invocation was cancelled"));
        }
        if self.deadline.is_some_and(|deadline| Instant::now() >= deadline) {
            return Err(Status::new(StatusCode::DeadlineExceeded, "the deadline of the invocation has passed"));
        }
        if let Some(memory) = &self.memory {
            memory.check()?;
        }
        Ok(())
    }

    /// As [`Limits::check_time`], and takes the fuel of the steps up to the next check.
    #[doc(hidden)]
    pub fn check(&self) -> Result<()> {
        self.check_time()?;
        if let Some(fuel) = &self.fuel {
            let spend = |fuel: u64| fuel.checked_sub(u64::from(FUEL_INTERVAL));
            if fuel.fetch_update(Ordering::Relaxed, Ordering::Relaxed, spend).is_err() {
                return Err(Status::resource_exhausted("the invocation has used up its fuel"));
            }
        }
        Ok(())
    }

    /// Fails if one allocation may not take `bytes`.
    #[doc(hidden)]
    pub fn check_allocation(&self, bytes: u64, what: &str) -> Result<()> {
        if bytes <= self.allocation_bytes && usize::try_from(bytes).is_ok() {
            return Ok(());
        }
        let limit = self.allocation_bytes;
        Err(Status::resource_exhausted(format!("a {what} of {bytes} bytes is over the limit of {limit} bytes")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_machine_code_may_be_missing() {
        assert!(Tier::Auto.check().is_ok() && Tier::Interpreter.check().is_ok());
        let code = Tier::Compiled.check().map_err(|status| status.code());
        assert_eq!(
            code,
            if cfg!(all(feature = "jit", target_arch = "x86_64", unix)) {
                Ok(())
            } else {
                Err(StatusCode::Unimplemented)
            }
        );
    }
}
