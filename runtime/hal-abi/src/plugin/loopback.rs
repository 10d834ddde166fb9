//! A loopback for tests: a second side of the boundary in this library, so that objects are called through their
//! vtables as those of a driver library are.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ffi::c_void;
use std::sync::Arc;

use super::RawObject;
use super::object::{Interface, Side, ThisLibrary, export, import, release_object};
use crate::status::Result;

/// The other side of the loopback.
#[derive(Debug)]
pub struct OtherLibrary;

static OTHER_LIBRARY: u8 = 2;

thread_local! {
    /// The methods that this thread has called, while [`methods_called`] records them.
    static CALLED: RefCell<Option<BTreeSet<&'static str>>> = const { RefCell::new(None) };
}

impl Side for OtherLibrary {
    const LIBRARY: *const c_void = (&raw const OTHER_LIBRARY).cast();

    fn called(method: &'static str) {
        CALLED.with_borrow_mut(|called| {
            if let Some(called) = called {
                called.insert(method);
            }
        });
    }
}

/// The methods of objects of the other library that `run` calls on this thread, as `device.queue_fill`.
pub fn methods_called(run: impl FnOnce()) -> BTreeSet<&'static str> {
    CALLED.set(Some(BTreeSet::new()));
    run();
    CALLED.take().unwrap_or_default()
}

/// A reference to `object` as exported by the other side. The caller owns it.
pub fn exported<T: ?Sized + Interface<OtherLibrary>>(object: &Arc<T>) -> RawObject {
    export::<OtherLibrary, T>(object)
}

/// `object` exported by the other side and imported by this one.
///
/// # Errors
/// As [`import`].
pub fn through<T: ?Sized + Interface<ThisLibrary> + Interface<OtherLibrary>>(object: &Arc<T>) -> Result<Arc<T>> {
    let raw = export::<OtherLibrary, T>(object);
    // SAFETY: the object was exported just now.
    let imported = unsafe { import::<ThisLibrary, T>(raw) };
    // SAFETY: the object was exported just now; `import` took a reference of its own.
    unsafe { release_object(raw) };
    imported
}
