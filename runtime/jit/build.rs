//! Generates what follows from `spec/` for this crate; `src/generated.rs` includes it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fuzzing)");
    vireo_codegen::build::generate(vireo_spec::FILES, &["vm/jit", "vm/primitive", "jit/rewrites", "jit/rewrite_tests"]);
}
