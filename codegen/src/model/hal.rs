//! The model of `spec/hal/`: objects of the hardware abstraction layer.

use crate::diag::Diagnostics;
use crate::entry::Entry;

/// Every entry of `spec/hal/`.
#[derive(Clone, Debug, Default)]
pub struct Hal {}

impl Hal {
    /// Reads the entries of all files below `spec/hal/`, in the order of their paths.
    pub fn load(entries: &[Entry], diagnostics: &mut Diagnostics) -> Self {
        for entry in entries {
            diagnostics.error(&entry.origin, format!("unknown kind of entry `{}`", entry.kind));
        }
        Self::default()
    }
}
