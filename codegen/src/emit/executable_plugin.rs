//! Emits the structs that libraries of functions for kernels share with the runtime.

use crate::emit::file::{GeneratedFile, source};
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::load::Spec;

/// `hal/executable_plugin.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let file = spec.hal.file("executable_plugin");
    if file.layouts.is_empty() {
        return Vec::new();
    }
    vec![source("hal/executable_plugin.rs", "spec/hal/executable_plugin.yaml", layouts::file(&file, Scope::File))]
}
