//! The model of `spec/abi/`: calling-convention types and module signatures.

use crate::diag::Diagnostics;
use crate::entry::Entry;

/// Every entry of `spec/abi/`.
#[derive(Clone, Debug, Default)]
pub struct Abi {}

impl Abi {
    /// Reads the entries of all files below `spec/abi/`, in the order of their paths.
    pub fn load(_entries: &[Entry], _diagnostics: &mut Diagnostics) -> Self {
        Self::default()
    }
}
