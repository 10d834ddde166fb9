//! Emits the object-safe traits of the HAL.

use crate::Spec;
use crate::emit::GeneratedFile;

/// The files of this artifact.
pub fn emit(_spec: &Spec) -> Vec<GeneratedFile> {
    Vec::new()
}
