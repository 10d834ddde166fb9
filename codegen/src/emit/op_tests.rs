//! Emits tests made of the examples of each op.

use crate::Spec;
use crate::emit::GeneratedFile;

/// The files of this artifact.
pub fn emit(_spec: &Spec) -> Vec<GeneratedFile> {
    Vec::new()
}
