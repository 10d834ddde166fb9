//! The grammar: what is read, and what is said about what is not.

use super::assemble;

/// The message for a function with this line in it.
fn message(line: &str) -> String {
    let text = format!("vm.module @m\nvm.func @f() -> () {{\n{line}\n  vm.return\n}}\n");
    assemble(&text).err().map(|error| error.to_string()).unwrap_or_default()
}

#[test]
fn errors_name_place_finding_and_expectation() {
    let cases = [
        ("  vm.add.i32 %i0, %i1", "3:22: expected a result in front of the op, as in `%i0 = ...`"),
    ];
    for (line, expected) in cases {
        assert_eq!(message(line), expected, "{line}");
    }
}
