//! The specs as they are, and what is generated from them. To load them, and to generate everything, takes long enough
//! for the tests to share it.

use std::sync::LazyLock;

use vireo_codegen::{GeneratedFile, Spec, generate, load};

pub static SPEC: LazyLock<Spec> =
    LazyLock::new(|| load(vireo_spec::FILES).unwrap_or_else(|diagnostics| panic!("{diagnostics}")));

pub static GENERATED: LazyLock<Vec<GeneratedFile>> = LazyLock::new(|| generate(&SPEC));

/// The text of a generated file.
pub fn text(path: &str) -> &'static str {
    let file = GENERATED.iter().find(|file| file.path == path);
    &file.unwrap_or_else(|| panic!("{path} is not generated")).text
}
