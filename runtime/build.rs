//! Generates the Rust that follows from `spec/` into `OUT_DIR`; `src/generated.rs` includes it.

use std::path::PathBuf;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
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
    let out = PathBuf::from(std::env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let spec = match vireo_codegen::load(vireo_spec::FILES) {
        Ok(spec) => spec,
        Err(diagnostics) => {
            // Cargo prints these alone, and the build fails. Of a script that fails it would print all output, and theirs last.
            diagnostics.iter().for_each(|diagnostic| println!("cargo::error={diagnostic}"));
            return;
        }
    };
    for file in vireo_codegen::generate(&spec) {
        let path = out.join(&file.path);
        // A file that has not changed keeps its time, so that nothing is compiled again in vain.
        if std::fs::read_to_string(&path).is_ok_and(|old| old == file.text) {
            continue;
        }
        std::fs::create_dir_all(path.parent().expect("generated files are below OUT_DIR"))
            .expect("OUT_DIR is writable");
        std::fs::write(&path, file.text).expect("OUT_DIR is writable");
    }
}

/// Whether a call at the end of a function becomes a jump. That is up to the optimiser, and looked at on x86-64 only. What sanitizers and
/// fuzzers put into functions keeps some of them from it.
fn has_sibling_calls() -> bool {
    let variable = |name| std::env::var(name).unwrap_or_default();
    let instrumented = ["CARGO_CFG_FUZZING", "CARGO_CFG_SANITIZE"].iter().any(|name| std::env::var_os(name).is_some());
    let optimised = matches!(variable("OPT_LEVEL").as_str(), "2" | "3");
    optimised && variable("CARGO_CFG_TARGET_ARCH") == "x86_64" && !instrumented
}
