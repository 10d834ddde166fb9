//! Mini-specs: a few files, with the words of the real specs that ops cannot do without.

use vireo_codegen::{Diagnostics, Spec};

/// The instruction set that ops of mini-specs are written for.
pub const ISA: &str = include_str!("../specs/isa.yaml");

/// The files that every mini-spec shares with the real one: the beginnings of their paths.
const SHARED: [&str; 3] = ["spec/abi/status.yaml", "spec/abi/types.yaml", "spec/primitives/"];

/// Loads `files` after the instruction set of mini-specs.
pub fn load(files: &[(&str, &str)]) -> Result<Spec, Diagnostics> {
    let shared =
        vireo_spec::FILES.iter().copied().filter(|(path, _)| SHARED.iter().any(|shared| path.starts_with(shared)));
    let files: Vec<_> =
        [("spec/isa/vm/isa.yaml", ISA)].into_iter().chain(files.iter().copied()).chain(shared).collect();
    vireo_codegen::load(&files)
}
