//! `vireo asm` and `vireo disasm`: modules from text and back.

use crate::common::{folder, model, vireo};

#[test]
fn a_module_and_back() {
    let temporary = tempfile::tempdir().unwrap();
    let module = folder("../fixtures/models").join(model("state"));
    let outcome = vireo(temporary.path(), ["disasm", module.to_str().unwrap(), "-o", "state.vmasm"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, ""), "{}", outcome.stderr);
    let outcome = vireo(temporary.path(), ["asm", "state.vmasm", "-o", "state.vmfb"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let outcome = vireo(temporary.path(), ["run", "--module=state.vmfb", "--function=increment", "--input=5"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert_eq!(
        outcome.stdout,
        vireo(temporary.path(), ["run", module.to_str().unwrap(), "--function=increment", "--input=5"]).stdout
    );
    let text = std::fs::read_to_string(temporary.path().join("state.vmasm")).unwrap();
    assert_eq!(vireo(temporary.path(), ["disasm", "state.vmfb"]).stdout, text);
}

#[test]
fn errors_name_file_line_and_column() {
    let temporary = tempfile::tempdir().unwrap();
    let write = |text: &str| std::fs::write(temporary.path().join("a.vmasm"), text).unwrap();
    let run = |flags: &[&str]| vireo(temporary.path(), ["asm", "a.vmasm", "-o", "a.vmfb"].iter().chain(flags));
    write("vm.module @m\nvm.func @f() -> () {\n  vm.retrun\n}\n");
    let outcome = run(&[]);
    assert_eq!(outcome.code, 2);
    assert!(
        outcome.stderr.contains("a.vmasm:3:3: expected an op such as vm.add.i32, found `vm.retrun`"),
        "{}",
        outcome.stderr
    );
    assert!(outcome.stderr.contains("\n 3 |   vm.retrun\n   |   ^\n"), "{}", outcome.stderr);
    // One value too many is a matter of the verifier.
    write("vm.module @m\nvm.export @f\nvm.func @f() -> () {\n  vm.return %i0\n}\n");
    let outcome = run(&[]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains("--no-verify") && !temporary.path().join("a.vmfb").exists(), "{}", outcome.stderr);
    assert_eq!(run(&["--no-verify"]).code, 0);
    assert!(temporary.path().join("a.vmfb").exists());
    // A register that nothing writes is zero.
    write("vm.module @m\nvm.export @f\nvm.func @f() -> (i32) {\n  vm.return %i3\n}\n");
    let outcome = run(&[]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("warning: a.vmasm: @f may read a value register"), "{}", outcome.stderr);
    assert_eq!(vireo(temporary.path(), ["asm", "none.vmasm", "-o", "a.vmfb"]).code, 2);
}
