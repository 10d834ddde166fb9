//! Emits the structs that kernels of local devices share with the runtime.

use crate::emit::file::{GeneratedFile, source};
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::load::Spec;

/// `hal/executable_library.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let file = spec.hal.file("executable_library");
    if file.layouts.is_empty() {
        return Vec::new();
    }
    vec![source("hal/executable_library.rs", "spec/hal/executable_library.yaml", layouts::file(&file, Scope::File))]
}
