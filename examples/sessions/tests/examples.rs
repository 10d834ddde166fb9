//! The examples run, and print what their comments say.

use std::path::Path;
use std::process::Command;

fn output(program: &str, arguments: &[&str]) -> String {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let output = Command::new(program).args(arguments).current_dir(root).output().expect("starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{text}{}", String::from_utf8_lossy(&output.stderr));
    text
}

#[track_caller]
fn has(text: &str, expected: &[&str]) {
    for part in expected {
        assert!(text.contains(part), "`{part}` is not in:\n{text}");
    }
}

#[test]
fn embed() {
    let text = output(env!("CARGO_BIN_EXE_embed"), &[]);
    has(&text, &["mlp(input0: tensor<8x64xf32>) -> (output0: tensor<8x16xf32>)", "sums of rows: [", "step 2: "]);
}

#[test]
fn bind() {
    let text = output(env!("CARGO_BIN_EXE_bind"), &[]);
    has(&text, &["mlp: [8, 16]\n", "increment: 15 16 11\n", "doubled: [2, 4, 6], total: 12\n"]);
}

#[test]
fn custom_module() {
    let text = output(env!("CARGO_BIN_EXE_custom_module"), &[]);
    has(&text, &["total: 16\n", "there is no item 9", "shop.total"]);
}

#[test]
fn many_threads() {
    let text = output(env!("CARGO_BIN_EXE_many_threads"), &["fixtures/models/mlp.vmfb", "2", "20"]);
    has(&text, &["one thread: ", "2 threads: "]);
}

#[test]
fn old_artifact() {
    let text = output(env!("CARGO_BIN_EXE_old_artifact"), &[]);
    let refused = |version| {
        format!(
            "bytecode {version}.0: INCOMPATIBLE: module: the module has bytecode version {version}.0, this runtime reads 15.0 (IREE 3.1 to 3.9), "
        )
    };
    has(
        &text,
        &[
            "3.1/abs.vmvx.vmfb: bytecode 15.0, written by IREE 3.1 to 3.9\n",
            "abs(-2.5) = 2.5\n",
            &refused(14),
            &refused(18),
            "compile it with one of these releases\n",
        ],
    );
}

#[test]
fn sandbox() {
    let text = output(env!("CARGO_BIN_EXE_sandbox"), &[]);
    has(
        &text,
        &[
            "in the sandbox: ",
            "machine code: ",
            "the program needs a device that runs kernels in the format `embedded-elf-x86_64`",
            "a long loop: ",
        ],
    );
}

#[test]
fn tokio_server() {
    let text = output(env!("CARGO_BIN_EXE_tokio_server"), &["load", "2000"]);
    has(&text, &["1000 calls wait at a time: 2000 calls, ", "latency: p50", "cancelled half-way: 500 of 500"]);
}
