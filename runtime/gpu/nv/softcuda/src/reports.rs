//! Texts on the error stream: what is not implemented, and why a call is refused where its status does not say it.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

/// Says why something is refused.
pub(crate) fn tell(text: impl Display) {
    eprintln!("softcuda: {text}");
}

/// Says something about the function with this name, once for each name.
pub(crate) fn tell_once(name: &'static str, text: impl Display) {
    static TOLD: Mutex<BTreeSet<&'static str>> = Mutex::new(BTreeSet::new());
    if TOLD.lock().unwrap_or_else(PoisonError::into_inner).insert(name) {
        tell(format_args!("{name}: {text}"));
    }
}
