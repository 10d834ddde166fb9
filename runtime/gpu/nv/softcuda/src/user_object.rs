//! Objects of the program with references ([`UserObject`]), which graphs keep alive: the last reference calls a
//! function of the host.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, PoisonError};

use vireo_cuda::types::HostFunction;

/// An object of the program.
#[derive(Debug)]
pub(crate) struct UserObject {
    destroy: HostFunction,
    data: *mut c_void,
    references: Mutex<u64>,
}

// SAFETY: the program gave function and argument for any thread, and nothing here follows the argument.
unsafe impl Send for UserObject {}
// SAFETY: a shared reference gives the argument to nothing but the function, once.
unsafe impl Sync for UserObject {}

impl UserObject {
    /// An object with references.
    pub(crate) fn new(destroy: HostFunction, data: *mut c_void, references: u32) -> Self {
        UserObject { destroy, data, references: Mutex::new(references.into()) }
    }

    /// Adds references.
    pub(crate) fn retain(&self, count: u32) {
        *self.references.lock().unwrap_or_else(PoisonError::into_inner) += u64::from(count);
    }

    /// Takes references, as far as there are some; true if none is left now.
    pub(crate) fn release(&self, count: u32) -> bool {
        let mut references = self.references.lock().unwrap_or_else(PoisonError::into_inner);
        if *references == 0 {
            return false;
        }
        *references = references.saturating_sub(count.into());
        let is_last = *references == 0;
        drop(references);
        if is_last {
            // SAFETY: the program gave function and argument for this, and the count reaches zero once.
            unsafe { (self.destroy)(self.data) };
        }
        is_last
    }
}

/// The references that a graph keeps.
#[derive(Debug, Default)]
pub(crate) struct Kept(Mutex<Vec<(Arc<UserObject>, u32)>>);

impl Kept {
    /// Whether there are none.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }

    /// Keeps references of the caller.
    pub(crate) fn take(&self, object: Arc<UserObject>, count: u32) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push((object, count));
    }

    /// Gives references back; false if there are not as many.
    pub(crate) fn give(&self, object: &Arc<UserObject>, count: u32) -> bool {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let kept: u64 =
            all.iter().filter(|(own, _)| Arc::ptr_eq(own, object)).map(|(_, count)| u64::from(*count)).sum();
        if kept < u64::from(count) {
            return false;
        }
        all.retain(|(own, _)| !Arc::ptr_eq(own, object));
        let rest = u32::try_from(kept - u64::from(count)).unwrap_or(u32::MAX);
        if rest != 0 {
            all.push((object.clone(), rest));
        }
        drop(all);
        object.release(count);
        true
    }
}

impl Clone for Kept {
    fn clone(&self) -> Self {
        let all = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        all.iter().for_each(|(object, count)| object.retain(*count));
        Kept(Mutex::new(all))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let all = std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner));
        for (object, count) in all {
            object.release(count);
        }
    }
}
