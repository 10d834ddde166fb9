//! Emits shims of calling conventions and the tables of native modules.

use crate::Spec;
use crate::emit::GeneratedFile;

/// The files of this artifact.
pub fn emit(_spec: &Spec) -> Vec<GeneratedFile> {
    Vec::new()
}
