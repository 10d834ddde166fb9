//! Generates the Rust that follows from `spec/` into `OUT_DIR`; `src/generated.rs` includes it.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(fuzzing, jit, optimised, sibling_calls, thread_sanitizer)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level != "0") {
        println!("cargo::rustc-cfg=optimised");
    }
    if has_sibling_calls() {
        println!("cargo::rustc-cfg=sibling_calls");
    }
    if std::env::var("CARGO_CFG_SANITIZE").is_ok_and(|sanitizers| sanitizers.split(',').any(|name| name == "thread")) {
        println!("cargo::rustc-cfg=thread_sanitizer");
    }
    if std::env::var_os("CARGO_FEATURE_JIT").is_some()
        && std::env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|arch| arch == "x86_64")
    {
        println!("cargo::rustc-cfg=jit");
    }
    let prefixes = ["vm/interp", "vm/jit", "vm/primitive", "vm/op_tests", "abi/", "schema/", "hal/", "amdgpu/"];
    vireo_codegen::build::generate(vireo_spec::FILES, &prefixes);
}

/// Whether a call at the end of a function becomes a jump. That is up to the optimiser, and looked at on x86-64 only. What sanitizers and
/// fuzzers put into functions keeps some of them from it.
fn has_sibling_calls() -> bool {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let instrumented = ["CARGO_CFG_FUZZING", "CARGO_CFG_SANITIZE"].iter().any(|name| std::env::var_os(name).is_some());
    let optimised = matches!(variable("OPT_LEVEL").as_str(), "2" | "3");
    optimised && variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && !instrumented
}
