//! The search of the manual: `search.js` with the names of the real specs, run by Node.js where that is installed.

use std::io::Write;
use std::process::{Command, Stdio};

use crate::reference_docs::manual;
use crate::skip::{Need, skipped};

/// Prints the best results of each query, a line for each query.
const DRIVER: &str = "
const entries = read(vireoNames);
for (const query of queries) {
  const found = find(entries, query).slice(0, 3);
  console.log(query + ' -> ' + found.map((one) => one.name + ' (' + one.kind + ') ' + one.href).join(', '));
}
";

/// The texts that are typed, and the first results.
const QUERIES: [(&str, &str); 11] = [
    // A whole name, with and without the prefix of ops, in any case.
    ("add.i32", "add.i32 (op) vm-integer.html#add.i32"),
    ("VM.Add.i32", "add.i32 (op) vm-integer.html#add.i32"),
    ("out-of-range", "OUT_OF_RANGE (status code) abi.html#status-out_of_range"),
    ("frobnicate", "--frobnicate (flag) guide-tool.html#flag-frobnicate"),
    // The last part of a name comes before names that begin so.
    ("map_range", "buffer.map_range (method) hal-buffer.html#buffer.map_range"),
    // The beginning of a name.
    ("checked_div", "checked_div_s (primitive) vm-primitives.html#CheckedDivS, checked_div_u"),
    // A word inside, and several words.
    ("kernel dispatch packet", "kernel_dispatch_packet (packet or command) amdgpu-packet.html#kernel_dispatch_packet"),
    ("opcode sets", "Opcode sets and features (section) vm.html#sets"),
    // Text only, or what it is.
    ("frobnicates", "--frobnicate (flag)"),
    ("flag frobnicates", "--frobnicate (flag)"),
    ("zzzz", ""),
];

#[test]
fn what_is_typed_is_found() {
    let files = manual();
    let text = |path: &str| &files.iter().find(|file| file.path == path).expect("a file of the manual").text;
    let queries: Vec<String> = QUERIES.iter().map(|(query, _)| format!("{query:?}")).collect();
    let program =
        format!("{}\n{}\nconst queries = [{}];\n{DRIVER}", text("names.js"), text("search.js"), queries.join(","));
    let spawned = Command::new("node").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut node = match spawned {
        Ok(node) => node,
        Err(error) => return skipped(Need::Tool("node"), format!("node: {error}")),
    };
    let mut stdin = node.stdin.take().expect("a pipe");
    stdin.write_all(program.as_bytes()).expect("node reads the program");
    drop(stdin);
    let output = node.wait_with_output().expect("node ends");
    assert!(output.status.success(), "node: {}", output.status);
    let lines = String::from_utf8(output.stdout).expect("UTF-8");
    assert_eq!(lines.lines().count(), QUERIES.len(), "{lines}");
    for (line, (query, first)) in lines.lines().zip(QUERIES) {
        let found = line.strip_prefix(&format!("{query} -> ")).unwrap_or_else(|| panic!("{line}"));
        let matches = if first.is_empty() { found.is_empty() } else { found.starts_with(first) };
        assert!(matches, "`{query}` finds {found}, not {first}");
    }
}
