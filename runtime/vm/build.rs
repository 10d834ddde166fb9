//! The build script: generates the code that `src/generated.rs` includes from `spec/`, and sets `cfg(sibling_calls)`
//! where handlers jump.

fn main() {
    println!("cargo::rustc-check-cfg=cfg(optimised, sibling_calls, thread_sanitizer)");
    if std::env::var("OPT_LEVEL").is_ok_and(|level| level != "0") {
        println!("cargo::rustc-cfg=optimised");
    }
    if has_sibling_calls() {
        println!("cargo::rustc-cfg=sibling_calls");
    }
    if std::env::var("CARGO_CFG_SANITIZE").is_ok_and(|sanitizers| sanitizers.split(',').any(|name| name == "thread")) {
        println!("cargo::rustc-cfg=thread_sanitizer");
    }
    vireo_codegen::build::generate(
        vireo_spec::FILES,
        &[
            "vm/interp",
            "vm/tests/primitives",
            "abi/refs",
            "abi/callees",
            "abi/modules",
            "abi/shims",
            "names/list_elements",
        ],
    );
}

/// Whether the optimiser makes a call at the end of a function a jump (a sibling call). That is checked on x86-64 with
/// the System V convention only. Instrumentation of sanitizers and fuzzers prevents it in some functions.
fn has_sibling_calls() -> bool {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let instrumented = ["CARGO_CFG_FUZZING", "CARGO_CFG_SANITIZE"].iter().any(|name| std::env::var_os(name).is_some());
    let optimised = matches!(variable("OPT_LEVEL").as_str(), "2" | "3");
    let checked = variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && std::env::var_os("CARGO_CFG_UNIX").is_some();
    optimised && checked && !instrumented
}
