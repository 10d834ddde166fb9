//! The session of a device while one is open ([`OpenSession`]).

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, PoisonError, RwLock, RwLockWriteGuard};

use super::device_events::DeviceEvents;
use super::session::Session;

/// A session that is open, with the observer of the device's own times if it has some.
#[derive(Clone, Debug)]
pub(super) struct Open {
    pub(super) session: Arc<Session>,
    pub(super) device_events: Option<Arc<DeviceEvents>>,
}

/// The session of a device, if one is open.
#[derive(Debug, Default)]
pub(super) struct OpenSession {
    /// Whether there is one. It is read often, so it is a flag of its own.
    is_open: AtomicBool,
    open: RwLock<Option<Open>>,
}

impl OpenSession {
    pub(super) fn get(&self) -> Option<Open> {
        if !self.is_open.load(Ordering::Acquire) {
            return None;
        }
        self.open.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn session(&self) -> Option<Arc<Session>> {
        if !self.is_open.load(Ordering::Acquire) {
            return None;
        }
        let open = self.open.read().unwrap_or_else(PoisonError::into_inner);
        open.as_ref().map(|open| open.session.clone())
    }

    /// The session, locked while one begins.
    pub(super) fn lock(&self) -> RwLockWriteGuard<'_, Option<Open>> {
        self.open.write().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a session in what is locked.
    pub(super) fn begin(&self, locked: &mut Option<Open>, open: Open) {
        *locked = Some(open);
        self.is_open.store(true, Ordering::Release);
    }

    /// Ends the session, and returns it.
    pub(super) fn end(&self) -> Option<Open> {
        let open = self.lock().take();
        self.is_open.store(false, Ordering::Release);
        open
    }
}
