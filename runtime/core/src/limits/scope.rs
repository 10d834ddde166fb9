//! Limit scopes: the limits that are in force on a thread. Queue operations, kernels and native functions check them,
//! so that they are held to the limits of the call that they run for.
//!
//! A call with limits enters its scope while it runs ([`Scope::enter`]). Operations that run later, or on another
//! thread, keep a [`Scope`] and enter it themselves. Without limits all of this costs one check of a thread-local flag.

use std::borrow::Cow;
use std::cell::{Cell, RefCell};
use std::sync::Arc;
use std::time::Instant;

use super::{Charge, Limits};
use crate::status::Result;

thread_local! {
    /// Whether `CURRENT` has limits. It is read often, so it is a flag of its own.
    static ARMED: Cell<bool> = const { Cell::new(false) };
    /// Whether these limits have a budget for memory, which each object that a program creates is charged to.
    static COUNTS_MEMORY: Cell<bool> = const { Cell::new(false) };
    static CURRENT: RefCell<Scope> = const { RefCell::new(Scope(None)) };
}

/// The limits of a running call, or none.
#[derive(Clone, Debug, Default)]
pub struct Scope(Option<Arc<Limits>>);

/// Leaves the scope when it is dropped.
pub struct ScopeGuard {
    /// The scope to restore, if entering changed it.
    before: Option<Scope>,
}

impl Scope {
    /// The scope that the thread is in, which others may enter. They may need the fuel that is lent to this thread.
    pub fn current() -> Scope {
        let scope = Scope::of_thread();
        scope.give_back_lent();
        scope
    }

    /// The scope that the thread is in, for this thread.
    fn of_thread() -> Scope {
        if ARMED.get() { CURRENT.with_borrow(Clone::clone) } else { Scope::default() }
    }

    /// The scope of a call within `limits`, which has started.
    pub fn of(limits: &Limits) -> Scope {
        Scope(limits.is_armed().then(|| Arc::new(limits.clone())))
    }

    /// Gives back the fuel that is lent to this thread.
    fn give_back_lent(&self) {
        if let Some(fuel) = self.limits().and_then(|limits| limits.fuel.as_ref()) {
            fuel.give_back_lent();
        }
    }

    /// Puts the scope in force on this thread until the value is dropped. One without limits changes nothing.
    #[inline]
    pub fn enter(self) -> ScopeGuard {
        if self.0.is_none() {
            return ScopeGuard { before: None };
        }
        self.set_flags();
        ScopeGuard { before: Some(CURRENT.replace(self)) }
    }

    /// Sets the flags of a thread that is about to enter it.
    fn set_flags(&self) {
        ARMED.set(self.0.is_some());
        COUNTS_MEMORY.set(self.limits().is_some_and(|limits| limits.memory.is_some()));
    }

    /// The limits.
    #[inline]
    pub fn limits(&self) -> Option<&Limits> {
        self.0.as_deref()
    }

    /// Fails if the time or the memory of the call is used up.
    pub fn check(&self) -> Result<()> {
        self.limits().map_or(Ok(()), Limits::check_time)
    }
}

impl Limits {
    /// The limits of an invocation that starts now, with its timeout as a deadline. One that starts inside another, as
    /// kernels do, is held to the limits of that one as well.
    #[doc(hidden)]
    pub fn started(&self) -> Cow<'_, Limits> {
        let outer = Scope::of_thread();
        let has_started = self.timeout.is_none() && (self.deadline.is_none() || self.started_at.is_some());
        if has_started && outer.limits().is_none() {
            return Cow::Borrowed(self);
        }
        let mut limits = self.clone();
        let mut timeout = limits.timeout.take();
        if let Some(outer) = outer.limits() {
            // The deadline of the outer invocation takes the place of a timeout.
            timeout = timeout.filter(|_| outer.deadline.is_none());
            limits.deadline = [limits.deadline, outer.deadline].into_iter().flatten().min();
            limits.started_at = outer.started_at.or(limits.started_at);
            limits.cancellation = limits.cancellation.or_else(|| outer.cancellation.clone());
            limits.fuel = limits.fuel.or_else(|| outer.fuel.clone());
            limits.memory = limits.memory.or_else(|| outer.memory.clone());
        }
        if limits.deadline.is_some() || timeout.is_some() {
            let now = Instant::now();
            limits.started_at.get_or_insert(now);
            let end = timeout.and_then(|timeout| now.checked_add(timeout));
            limits.deadline = [limits.deadline, end].into_iter().flatten().min();
        }
        Cow::Owned(limits)
    }
}

impl Charge {
    /// Charges the budget of the call that the thread runs for, if it has one.
    #[inline]
    pub fn of_call(bytes: u64, what: &str) -> Result<Charge> {
        if !counts_memory() {
            return Ok(Charge::default());
        }
        let scope = Scope::of_thread();
        Charge::new(scope.limits().and_then(|limits| limits.memory.as_ref()), bytes, what)
    }

    /// As [`Charge::of_call`], even beyond the limit.
    #[inline]
    pub fn of_call_anyway(bytes: u64) -> Charge {
        if !counts_memory() {
            return Charge::default();
        }
        let scope = Scope::of_thread();
        let budget = scope.limits().and_then(|limits| limits.memory.as_ref());
        budget.map_or_else(Charge::default, |budget| budget.charge_anyway(bytes))
    }
}

impl Drop for ScopeGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            before.set_flags();
            // The old scope is dropped after the cell is no longer borrowed.
            let own = CURRENT.replace(before);
            // Other threads may work for the same call.
            own.give_back_lent();
        }
    }
}

/// Limits that have started, and are in force on this thread until the value is dropped.
pub struct StartedLimits {
    /// The limits, which the scope shares.
    pub limits: Arc<Limits>,
    _entered: ScopeGuard,
}

/// Starts the limits of a call. None if neither it nor an outer call has any, which costs two checks.
#[inline(always)]
pub fn start(limits: &Limits) -> Option<StartedLimits> {
    if !is_armed() && !limits.is_armed() { None } else { Some(start_armed(limits)) }
}

#[cold]
fn start_armed(limits: &Limits) -> StartedLimits {
    // They are limits, or those of the outer call, so the scope is not empty.
    let limits = Arc::new(limits.started().into_owned());
    let _entered = Scope(Some(Arc::clone(&limits))).enter();
    StartedLimits { limits, _entered }
}

/// As [`start`], for limits that many calls share: they are not copied if the call adds nothing to them, such as a
/// point in time, or if they are in force already.
#[inline]
pub fn start_shared(limits: &Arc<Limits>) -> Option<StartedLimits> {
    let is_in_force = is_armed();
    if is_in_force && CURRENT.with_borrow(|scope| scope.0.as_ref().is_some_and(|outer| Arc::ptr_eq(outer, limits))) {
        return Some(StartedLimits { limits: Arc::clone(limits), _entered: ScopeGuard { before: None } });
    }
    if is_in_force || !limits.is_armed() || limits.timeout.is_some() || limits.deadline.is_some() {
        return start(limits);
    }
    let _entered = Scope(Some(Arc::clone(limits))).enter();
    Some(StartedLimits { limits: Arc::clone(limits), _entered })
}

/// As [`start`], for a callee that is called again and again within the same `limits`. `last` has the limits of an
/// earlier call: they are taken if they are in force already, as those of a kernel are that shares them with the call
/// which it runs for. So nothing is allocated.
#[inline]
pub fn start_again(limits: &Limits, last: &mut Option<Arc<Limits>>) -> Option<StartedLimits> {
    if !is_armed() && !limits.is_armed() {
        return None;
    }
    let in_force = |last: &mut Arc<Limits>| {
        CURRENT.with_borrow(|scope| {
            scope.limits().is_some_and(|outer| limits.adds_nothing_to(outer) && last.ends_as(outer))
        })
    };
    match last.take_if(in_force) {
        Some(limits) => Some(StartedLimits { limits, _entered: ScopeGuard { before: None } }),
        None => Some(start_armed(limits)),
    }
}

/// Fails if the time or the memory of the call that the thread runs for is used up.
#[inline(always)]
pub fn check() -> Result<()> {
    if is_armed() { check_armed() } else { Ok(()) }
}

#[cold]
fn check_armed() -> Result<()> {
    // Borrowed, since counting references of the limits would take longer than to check them.
    let asked = CURRENT.with_borrow(|scope| {
        scope.check()?;
        Ok(scope.limits().and_then(Limits::asked).cloned())
    })?;
    asked.map_or(Ok(()), |cancellation| cancellation.decide())
}

/// Gives back the fuel that is lent to the thread, which is about to wait for others that may need it.
#[inline]
pub fn give_back_lent_fuel() {
    if is_armed() {
        CURRENT.with_borrow(Scope::give_back_lent);
    }
}

/// True if the thread runs for a call whose memory is limited.
#[inline(always)]
pub fn counts_memory() -> bool {
    COUNTS_MEMORY.get()
}

/// True if the thread runs for a call that has limits.
#[inline(always)]
pub fn is_armed() -> bool {
    ARMED.get()
}
