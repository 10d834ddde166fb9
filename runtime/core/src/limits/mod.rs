//! What an invocation may use: stack, memory per allocation, time, and steps.

mod budget;
pub mod scope;

pub use budget::{Charge, MemoryBudget, OBJECT_BYTES};

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use self::scope::Scope;
use crate::status::{Result, Status, StatusCode};

/// Backward branches and calls between two looks at the clock.
const CHECK_INTERVAL: u32 = 1024;

/// The limits of an invocation.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of VM stack.
    pub stack_bytes: usize,
    /// Most bytes that one buffer or list may take.
    pub allocation_bytes: u64,
    /// When the invocation has to be done, at the latest.
    pub deadline: Option<Instant>,
    /// How long each invocation may take, with all it hands to queues. An earlier deadline counts.
    pub timeout: Option<Duration>,
    /// Set to stop the invocation.
    pub cancelled: Option<Arc<AtomicBool>>,
    /// Backward branches and calls that may still be taken, shared by whoever shares this value. It is counted down in steps, so
    /// an invocation may take up to a thousand more.
    pub fuel: Option<Arc<AtomicU64>>,
    /// Memory of all that the invocation makes and keeps, shared by whoever shares this value. Devices have a budget of their own, which
    /// may be this one.
    pub memory: Option<MemoryBudget>,
    /// What runs programs. Only speed depends on it.
    pub tier: Tier,
    /// How ops are dispatched. Only speed depends on it; tests compare.
    #[doc(hidden)]
    pub dispatch: Dispatch,
}

/// What runs programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// The interpreter, and machine code for functions that run often or long.
    #[default]
    Auto,
    /// The interpreter alone.
    Interpreter,
    /// Machine code for every function that is run, where this build has a compiler; the interpreter does what has no machine code.
    Compiled,
    /// The interpreter alone, which hands each op of the program to the sink of the context before it is executed.
    Traced,
}

impl Tier {
    /// Fails if this build cannot do what the tier says. `Auto` and `Interpreter` always can; `Compiled` needs the feature `jit` and an
    /// x86-64 processor, and is the interpreter where it is used without.
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
    /// Threaded where handlers are known to become sibling calls, else the loop.
    #[default]
    Auto,
    /// A loop around a match.
    Loop,
    /// A stream of handlers that jump to each other. Without sibling calls a small loop calls one after the other.
    Threaded,
    /// That, with machine code for all functions.
    Compiled,
    /// One op after the other, each of which is reported.
    Traced,
}

/// Fails where no machine code can be made.
#[doc(hidden)]
pub fn check_available() -> Result<()> {
    if cfg!(all(feature = "jit", target_arch = "x86_64")) {
        return Ok(());
    }
    let why = if cfg!(target_arch = "x86_64") {
        "this build is without the feature `jit`"
    } else {
        "there is none but for x86-64"
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
        CHECK_INTERVAL
    }

    /// Whether anything but the sizes of the stack and of allocations is limited.
    #[doc(hidden)]
    #[inline]
    pub fn is_armed(&self) -> bool {
        // All of them are looked at without a branch: nearly always there is none.
        self.deadline.is_some()
            | self.timeout.is_some()
            | self.cancelled.is_some()
            | self.fuel.is_some()
            | self.memory.is_some()
    }

    /// The limits of an invocation that starts now. One that starts inside of another, as kernels do, is held to the limits of that one as
    /// well.
    #[doc(hidden)]
    pub fn started(&self) -> Cow<'_, Limits> {
        let outer = Scope::current();
        if self.timeout.is_none() && outer.limits().is_none() {
            return Cow::Borrowed(self);
        }
        let mut limits = self.clone();
        let mut timeout = limits.timeout.take();
        if let Some(outer) = outer.limits() {
            // What is left of the time of the outer invocation is all that there is.
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
            let spend = |fuel: u64| fuel.checked_sub(u64::from(CHECK_INTERVAL));
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
            if cfg!(all(feature = "jit", target_arch = "x86_64")) { Ok(()) } else { Err(StatusCode::Unimplemented) }
        );
    }
}
