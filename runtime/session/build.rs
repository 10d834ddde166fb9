//! Says whether machine code is made, and generates what follows from `spec/`.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(jit)");
    if std::env::var_os("CARGO_FEATURE_JIT").is_some()
        && std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64")
    {
        println!("cargo::rustc-cfg=jit");
    }
    vireo_codegen::build::generate(vireo_spec::FILES, &["vm/op_tests", "names/reflection"]);
}
