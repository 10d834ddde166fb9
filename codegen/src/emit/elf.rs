//! Emits the numbers and structs of ELF files.

use crate::emit::file::{GeneratedFile, source};
use crate::emit::layouts;
use crate::emit::scope::Scope;
use crate::load::Spec;

/// `hal/elf.rs`
pub fn emit(spec: &Spec) -> Vec<GeneratedFile> {
    let file = spec.hal.file("elf");
    if file.layouts.is_empty() {
        return Vec::new();
    }
    vec![source("hal/elf.rs", "spec/hal/elf.yaml", layouts::file(&file, Scope::File))]
}
