//! Generates what follows from `spec/` for this crate; `src/lib.rs` includes it.

fn main() {
    vireo_codegen::build::generate(vireo_spec::FILES, &["softnccl/exports"]);
}
