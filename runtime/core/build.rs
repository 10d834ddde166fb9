//! The build script: generates the code that `src/generated.rs` includes from `spec/`.

fn main() {
    vireo_codegen::build::generate(vireo_spec::FILES, &["abi/status"]);
}
