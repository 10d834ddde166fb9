//! The model of `spec/hal/`: objects of the hardware abstraction layer.

use crate::diag::Diagnostics;
use crate::entry::Entry;

/// Every entry of `spec/hal/`.
#[derive(Clone, Debug, Default)]
pub struct Hal {}

impl Hal {
    /// Reads the entries of all files below `spec/hal/`, in the order of their paths.
    pub fn load(_entries: &[Entry], _diagnostics: &mut Diagnostics) -> Self {
        Self::default()
    }
}
