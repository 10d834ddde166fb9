//! Limits of invocations: stack, memory, time, fuel, and the tier that runs them. Hosts set them, and the interpreter,
//! native modules and devices check them.

mod budget;
mod cancellation;
mod fuel;
mod message_text;
pub mod scope;
#[doc(hidden)]
pub mod work;

pub use budget::{Charge, MAX_ALIGNMENT, MemoryBudget, OBJECT_BYTES, block_bytes};
pub use cancellation::{CancelSubscription, Cancellation, Decide};
pub use fuel::Fuel;
#[doc(hidden)]
pub use fuel::LentSteps;

use std::time::{Duration, Instant};

use self::message_text::time_text;
use crate::status::{Result, Status, StatusCode};

/// Backward branches and calls between two checks of the limits: a check reads the clock, which takes as long as 70
/// iterations of the shortest loop.
const CHECK_INTERVAL: u32 = 8192;

/// Vector loops count many iterations at once, which take far less time than as many of a scalar loop. The limits are
/// checked after this many such counts,
const COUNTS: u32 = 8;

/// but after at most about this many iterations.
const MAX_CHECK_INTERVAL: u32 = 1 << 20;

/// The limits of an invocation.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Bytes of VM stack.
    pub stack_bytes: usize,
    /// Most bytes that one buffer or list may take.
    pub allocation_bytes: u64,
    /// The time by which the invocation has to be done.
    pub deadline: Option<Instant>,
    /// Most time for each invocation, including operations that it submits to queues. An earlier deadline takes
    /// precedence.
    pub timeout: Option<Duration>,
    /// Stops the invocation from another thread, also while it waits for a device.
    pub cancellation: Option<Cancellation>,
    /// Steps (backward branches and calls) that may be taken, shared by all invocations with this value. They are the
    /// same on every tier.
    pub fuel: Option<Fuel>,
    /// Budget for the memory that the invocation allocates, shared by all invocations with this value. Devices have a
    /// budget of their own, which may be the same.
    pub memory: Option<MemoryBudget>,
    /// The tier that runs programs. Only speed depends on it.
    pub tier: Tier,
    /// Most bytes of machine code that each module gets. The interpreter runs the functions beyond.
    pub machine_code_bytes: u64,
    /// How ops are dispatched. Only speed depends on it; tests compare the dispatchers.
    #[doc(hidden)]
    pub dispatch: DispatchMode,
    /// When the time of the invocation began, once it has started within a deadline: for the message when that has
    /// passed.
    #[doc(hidden)]
    pub started_at: Option<Instant>,
}

/// The tier that runs programs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tier {
    /// The interpreter, and machine code for functions that run often or long.
    #[default]
    Auto,
    /// The interpreter alone.
    Interpreter,
    /// Machine code for every function that is run, where this build has a compiler; the interpreter does what has no
    /// machine code.
    Compiled,
    /// The interpreter alone, which passes each op to the trace sink of the context before it executes it.
    Traced,
}

impl Tier {
    /// Fails if this build does not have the tier. `Compiled` needs the feature `jit` and an x86-64 processor, and runs
    /// the interpreter without them.
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
pub enum DispatchMode {
    /// Threaded where calls of handlers are sibling calls, else the loop.
    #[default]
    Auto,
    /// A loop around a match.
    Loop,
    /// Threaded code, whose handlers jump to each other. Without sibling calls a small loop calls one after the other.
    Threaded,
    /// Threaded code, and machine code for functions once they are compiled in the background: all that are hot.
    Tiered,
    /// The same for kernels, which are compiled in the background ahead, or else by the thread that runs one first.
    Kernels,
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
            cancellation: None,
            fuel: None,
            memory: None,
            tier: Tier::Auto,
            machine_code_bytes: 64 << 20,
            dispatch: DispatchMode::Auto,
            started_at: None,
        }
    }
}

impl Limits {
    /// True if more is limited than the sizes of the stack and of allocations, so that the limits have to be checked
    /// while the program runs.
    #[doc(hidden)]
    #[inline]
    pub fn is_armed(&self) -> bool {
        // `|`, so that there is no branch for each: nearly always all of them are none.
        self.deadline.is_some()
            | self.timeout.is_some()
            | self.cancellation.is_some()
            | self.fuel.is_some()
            | self.memory.is_some()
    }

    /// The bytes of the stack of a call: as many as `stack_bytes` says, but no more than half of the memory that the
    /// call may have, unless that is very little. Else a call within a small budget could not begin.
    pub fn stack_size(&self) -> usize {
        const LEAST: u64 = 64 << 10;
        let half = self.memory.as_ref().map_or(u64::MAX, |memory| (memory.limit() / 2).max(LEAST));
        self.stack_bytes.min(usize::try_from(half).unwrap_or(usize::MAX))
    }

    /// True if an invocation inside one with the limits `outer` is held to nothing more by these, apart from sizes.
    fn adds_nothing_to(&self, outer: &Limits) -> bool {
        fn adds_nothing<T>(own: &Option<T>, outer: &Option<T>, is_same: fn(&T, &T) -> bool) -> bool {
            own.is_none() || is_same_option(own, outer, is_same)
        }
        self.timeout.is_none()
            && self.deadline.is_none()
            && adds_nothing(&self.cancellation, &outer.cancellation, Cancellation::is_same)
            && adds_nothing(&self.fuel, &outer.fuel, Fuel::is_same)
            && adds_nothing(&self.memory, &outer.memory, MemoryBudget::is_same)
    }

    /// True if both end invocations at the same time, and count with the same fuel and memory.
    fn ends_as(&self, other: &Limits) -> bool {
        (self.deadline, self.started_at) == (other.deadline, other.started_at)
            && is_same_option(&self.cancellation, &other.cancellation, Cancellation::is_same)
            && is_same_option(&self.fuel, &other.fuel, Fuel::is_same)
            && is_same_option(&self.memory, &other.memory, MemoryBudget::is_same)
    }

    /// Fails if the time is up, the memory is used up, or the invocation was cancelled.
    #[doc(hidden)]
    #[inline]
    pub fn check_time(&self) -> Result<()> {
        if self.cancellation.as_ref().is_some_and(Cancellation::is_cancelled) {
            return Err(Status::new(StatusCode::Cancelled, "the invocation was cancelled"));
        }
        if let Some(deadline) = self.deadline {
            let now = Instant::now();
            if now >= deadline {
                return Err(self.deadline_exceeded(deadline, now));
            }
        }
        if let Some(memory) = &self.memory {
            memory.check()?;
        }
        Ok(())
    }

    /// The cancellation, if a thread that runs for the call has to decide whether it ends.
    #[doc(hidden)]
    #[inline]
    pub fn asked(&self) -> Option<&Cancellation> {
        self.cancellation.as_ref().filter(|cancellation| cancellation.is_asked())
    }

    #[cold]
    fn deadline_exceeded(&self, deadline: Instant, now: Instant) -> Status {
        let message = match self.started_at {
            Some(start) => {
                let [taken, limit] = [now, deadline].map(|end| end.saturating_duration_since(start));
                format!("deadline exceeded after {} (limit {})", time_text(taken), time_text(limit))
            }
            // Limits that nothing has started within.
            None => "deadline exceeded".to_string(),
        };
        Status::new(StatusCode::DeadlineExceeded, message)
    }

    /// The steps that may be taken up to the next check, after `counted` ones have been found to be too many by
    /// `needed`. They are taken from the fuel, and at least `needed`.
    ///
    /// # Errors
    /// As [`Limits::check_time`].
    #[doc(hidden)]
    #[inline]
    pub fn grant(&self, counted: u32, needed: u32) -> Result<Granted> {
        if let Some(cancellation) = self.asked() {
            cancellation.decide()?;
        }
        self.check_time()?;
        let wanted = check_interval(counted).max(needed);
        Ok(match &self.fuel {
            Some(fuel) => fuel.take(needed, wanted).map_or(Granted::OutOfFuel, Granted::Steps),
            None => Granted::Steps(wanted),
        })
    }

    /// Gives back steps that were granted and not taken.
    #[doc(hidden)]
    #[inline]
    pub fn give_back(&self, steps: u32) {
        if let Some(fuel) = &self.fuel {
            fuel.give_back(steps);
        }
    }

    /// The error of an invocation that needs a step more than its fuel has.
    #[doc(hidden)]
    #[cold]
    pub fn out_of_fuel(&self) -> Status {
        self.fuel.as_ref().map_or_else(|| Status::internal("fuel is not counted"), Fuel::exhausted)
    }

    /// Fails if one allocation may not take `bytes`.
    #[doc(hidden)]
    #[inline]
    pub fn check_allocation(&self, bytes: u64, what: &str) -> Result<()> {
        if bytes <= self.allocation_bytes && usize::try_from(bytes).is_ok() {
            return Ok(());
        }
        Err(self.over_allocation(bytes, what))
    }

    #[cold]
    fn over_allocation(&self, bytes: u64, what: &str) -> Status {
        let limit = self.allocation_bytes;
        Status::resource_exhausted(format!("a {what} of {bytes} bytes is over the limit of {limit} bytes"))
    }
}

fn is_same_option<T>(one: &Option<T>, other: &Option<T>, is_same: fn(&T, &T) -> bool) -> bool {
    match (one, other) {
        (Some(one), Some(other)) => is_same(one, other),
        (None, None) => true,
        _ => false,
    }
}

/// The result of [`Limits::grant`].
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Granted {
    /// So many steps may be taken before the next check.
    Steps(u32),
    /// There is not enough fuel.
    OutOfFuel,
}

/// Counts steps that no program takes, such as the workgroups of a dispatch, and checks the limits of a call in
/// intervals.
#[doc(hidden)]
pub struct StepCounter<'a> {
    limits: &'a Limits,
    /// Steps until the next check.
    interval: u32,
    left: u32,
}

impl StepCounter<'_> {
    /// A counter that checks the limits at the first step and after each `interval`.
    pub fn new(limits: &Limits, interval: u32) -> StepCounter<'_> {
        StepCounter { limits, interval, left: 0 }
    }

    /// Counts a step.
    ///
    /// # Errors
    /// As [`Limits::check_time`], and `RESOURCE_EXHAUSTED` if there is no fuel.
    #[inline]
    pub fn count(&mut self) -> Result<()> {
        if self.left == 0 {
            self.limits.check_time()?;
            self.left = match &self.limits.fuel {
                Some(fuel) => fuel.take(1, self.interval).ok_or_else(|| fuel.exhausted())?,
                None => self.interval,
            };
        }
        self.left -= 1;
        Ok(())
    }
}

impl Drop for StepCounter<'_> {
    fn drop(&mut self) {
        self.limits.give_back(self.left);
    }
}

/// The steps between two checks of the limits, where so many are counted at once.
#[doc(hidden)]
#[inline]
pub fn check_interval(counted: u32) -> u32 {
    counted.saturating_mul(COUNTS).clamp(CHECK_INTERVAL, MAX_CHECK_INTERVAL)
}

#[cfg(test)]
mod tests {
    use super::scope::Scope;
    use super::*;

    #[test]
    fn a_deadline_says_how_long_it_was() {
        let limits = Limits { timeout: Some(Duration::ZERO), ..Limits::default() };
        let error = limits.started().check_time().expect_err("there is no time");
        assert_eq!(error.code(), StatusCode::DeadlineExceeded);
        assert!(error.message().starts_with("deadline exceeded after "), "{error}");
        assert!(error.message().ends_with(" (limit 0 s)"), "{error}");
        // A call that starts inside is held to the time of the outermost one, and says so.
        let start = Instant::now();
        let deadline = start.checked_add(Duration::from_millis(1500));
        let outer = Limits { deadline, started_at: Some(start), ..Limits::default() };
        let _entered = Scope::of(&outer).enter();
        let inner = Limits { timeout: Some(Duration::from_secs(90)), ..Limits::default() }.started().into_owned();
        assert_eq!((inner.deadline, inner.started_at), (deadline, Some(start)));
        let end = start + Duration::from_millis(1503);
        let error = inner.deadline_exceeded(start + Duration::from_millis(1500), end);
        assert_eq!(error.message(), "deadline exceeded after 1.503 s (limit 1.5 s)");
        // The shortest limit is told as what it is.
        let error =
            Limits { deadline: Some(start + Duration::from_nanos(1)), started_at: Some(start), ..Limits::default() }
                .deadline_exceeded(start + Duration::from_nanos(1), start + Duration::from_nanos(39_500));
        assert_eq!(error.message(), "deadline exceeded after 39.5 us (limit 1 ns)");
    }

    #[test]
    fn steps_are_granted_until_there_is_no_fuel() {
        let limits = Limits { fuel: Some(Fuel::new(1 << 20)), ..Limits::default() };
        let grant = |limits: &Limits, counted, needed| limits.grant(counted, needed).expect("nothing else is limited");
        assert_eq!(grant(&limits, 1, 1), Granted::Steps(CHECK_INTERVAL));
        assert_eq!(grant(&limits, 1 << 20, 1 << 19), Granted::Steps(1 << 19));
        assert_eq!(grant(&limits, 1 << 20, 1 << 19), Granted::OutOfFuel);
        assert_eq!(grant(&Limits::default(), 1 << 10, 7), Granted::Steps(CHECK_INTERVAL));
        assert_eq!(grant(&Limits::default(), 1 << 30, 1 << 29), Granted::Steps(1 << 29));
    }

    #[test]
    fn a_counter_uses_what_it_counts() {
        let fuel = Fuel::new(1000);
        let limits = Limits { fuel: Some(fuel.clone()), ..Limits::default() };
        let count = |steps: usize| {
            let mut counter = StepCounter::new(&limits, 256);
            (0..steps).try_for_each(|_| counter.count())
        };
        for (steps, used) in [(0, 0), (990, 990)] {
            count(steps).expect("there is enough");
            assert_eq!(fuel.used(), used);
        }
        let error = count(11).expect_err("there are ten");
        assert_eq!(error.message(), "ran out of fuel: 1,000 of 1,000 units used");
    }

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
