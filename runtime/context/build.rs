//! The build script: generates the code that `src/generated.rs` includes from `spec/`, and sets `cfg(jit)` if the build
//! has the JIT.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(jit)");
    if std::env::var_os("CARGO_FEATURE_JIT").is_some()
        && std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64")
        && std::env::var_os("CARGO_CFG_UNIX").is_some()
    {
        println!("cargo::rustc-cfg=jit");
    }
    vireo_codegen::build::generate(vireo_spec::FILES, &["vm/op_tests"]);
}
