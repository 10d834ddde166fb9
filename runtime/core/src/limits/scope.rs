//! Limit scopes: the limits that are in force on a thread. Queue operations, kernels and native functions check them, so that they are held to the
//! limits of the call that they run for.
//!
//! A call with limits enters its scope while it runs ([`Scope::enter`]). Operations that run later, or on another thread, keep a [`Scope`]
//! and enter it themselves. Without limits all of this costs one check of a thread-local flag.

use std::cell::{Cell, RefCell};
use std::sync::Arc;

use super::Limits;
use crate::status::Result;

thread_local! {
    /// Whether `CURRENT` has limits. It is read often, so it is a flag of its own.
    static ARMED: Cell<bool> = const { Cell::new(false) };
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
    /// The scope that the thread is in.
    pub fn current() -> Scope {
        if ARMED.get() { CURRENT.with_borrow(Clone::clone) } else { Scope::default() }
    }

    /// The scope of a call within `limits`, which has started.
    pub fn of(limits: &Limits) -> Scope {
        Scope(limits.is_armed().then(|| Arc::new(limits.clone())))
    }

    /// Puts the scope in force on this thread until the value is dropped. One without limits changes nothing.
    #[inline]
    pub fn enter(self) -> ScopeGuard {
        if self.0.is_none() {
            return ScopeGuard { before: None };
        }
        let before = CURRENT.replace(self);
        ARMED.set(true);
        ScopeGuard { before: Some(before) }
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

impl Drop for ScopeGuard {
    #[inline]
    fn drop(&mut self) {
        if let Some(before) = self.before.take() {
            ARMED.set(before.0.is_some());
            // The old scope is dropped after the cell is no longer borrowed.
            drop(CURRENT.replace(before));
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

/// Fails if the time or the memory of the call that the thread runs for is used up.
#[inline(always)]
pub fn check() -> Result<()> {
    if is_armed() { check_armed() } else { Ok(()) }
}

#[cold]
fn check_armed() -> Result<()> {
    Scope::current().check()
}

/// True if the thread runs for a call that has limits.
#[inline(always)]
pub fn is_armed() -> bool {
    ARMED.get()
}
