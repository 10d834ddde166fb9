//! The model of `spec/schema/`: FlatBuffer tables and file headers.

use crate::diag::Diagnostics;
use crate::entry::Entry;

/// Every entry of `spec/schema/`.
#[derive(Clone, Debug, Default)]
pub struct Schema {}

impl Schema {
    /// Reads the entries of all files below `spec/schema/`, in the order of their paths.
    pub fn load(_entries: &[Entry], _diagnostics: &mut Diagnostics) -> Self {
        Self::default()
    }
}
