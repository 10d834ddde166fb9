//! Generates what follows from `spec/` for this crate; `src/generated.rs` includes it.

fn main() {
    vireo_codegen::build::generate(vireo_spec::FILES, &["replay/"]);
}
