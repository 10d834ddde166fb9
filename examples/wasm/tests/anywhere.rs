//! A compiled model in WebAssembly answers as the reference runtime did, and sees nothing of the host but its folder.
//!
//! `cargo build --target wasm32-wasip1 --package vireo-anywhere` builds the program; `VIREO_ANYWHERE` names a file
//! elsewhere.

use std::path::{Path, PathBuf};

use serde_json::Value;
use vireo_wasm_host::{Outcome, Program};

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The program, if it has been built.
fn program() -> Option<Program> {
    let built = std::env::var_os("VIREO_ANYWHERE").map(PathBuf::from);
    let file = built.unwrap_or_else(|| repository().join("target/wasm32-wasip1/debug/vireo-anywhere.wasm"));
    if !file.exists() {
        println!("skipped: there is no {}", file.display());
        return None;
    }
    Some(Program::load(&file).expect("a module"))
}

fn run(program: &Program, folder: &Path, arguments: &[&str]) -> Outcome {
    let arguments: Vec<String> = arguments.iter().map(|argument| argument.to_string()).collect();
    program.run(folder, &arguments).expect("it ends with an exit code")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8(bytes.to_vec()).expect("text")
}

#[test]
fn a_model_answers_as_the_reference_does() {
    let Some(program) = program() else { return };
    let models = repository().join("fixtures/models");
    let manifest = std::fs::read(models.join("manifest.json")).expect("the manifest");
    let manifest: Value = serde_json::from_slice(&manifest).expect("JSON");
    let case = |name: &str| {
        let cases = manifest["cases"].as_array().expect("cases");
        cases.iter().find(|case| case["name"] == name).unwrap_or_else(|| panic!("no case {name}"))["calls"][0].clone()
    };
    for (name, file) in [("vmvx_mlp/splat", "vmvx_mlp.vmfb"), ("vmvx_softmax/splat", "vmvx_softmax.vmfb")] {
        let call = case(name);
        let word = |value: &Value| value.as_str().expect("text").to_string();
        let (function, input, expected) = (word(&call["function"]), word(&call["inputs"][0]), word(&call["stdout"]));
        let outcome = run(&program, &models, &[file, &function, &input]);
        assert_eq!((outcome.code, text(&outcome.stdout)), (0, expected), "{name}: {}", text(&outcome.stderr));
    }
}

#[test]
fn failures_end_the_program_with_a_message() {
    let Some(program) = program() else { return };
    let models = repository().join("fixtures/models");
    // Kernels for x86-64 alone; and a file beside the folder, which the program cannot name.
    for (file, expected) in [("mlp.vmfb", "x86_64"), ("../elf/kernels.mlir", "../elf/kernels.mlir")] {
        let outcome = run(&program, &models, &[file, "mlp", "8x64xf32=0.25"]);
        let message = text(&outcome.stderr);
        assert!(outcome.code == 1 && outcome.stdout.is_empty() && message.contains(expected), "{outcome:?} {message}");
    }
}
