//! Emits the numbers and names of executables in portable bytecode.

use crate::emit::file::{GeneratedFile, source};
use crate::emit::hal_types;
use crate::load::Spec;

/// `hal/vmvx.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let file = spec.hal.file("vmvx");
    if file.constants.is_empty() {
        return Vec::new();
    }
    vec![source("hal/vmvx.rs", "spec/hal/vmvx.yaml", hal_types::values(&file))]
}
