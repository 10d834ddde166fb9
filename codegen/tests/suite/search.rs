//! The search of the manual: `search.js` with the names of the real specs, run by Node.js where that is installed.

use std::io::Write;
use std::process::{Command, Stdio};

use vireo_codegen::GeneratedFile;

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
const QUERIES: [(&str, &str); 17] = [
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
    // Other forms of a word: of a name, of several, and of the text.
    ("frobnicates", "--frobnicate (flag)"),
    ("frobnicating", "--frobnicate (flag)"),
    ("allocating", "list.alloc (op)"),
    ("barriers", "bar (GPU instruction)"),
    ("signalling a semaphore", "semaphore.signal (method) hal-semaphore.html#semaphore.signal"),
    ("multiplied integers", "mul.i32 (op) vm-integer.html#mul.i32"),
    ("multiplying integers", "mul.i32 (op) vm-integer.html#mul.i32"),
    // Text only, or what it is.
    ("flag frobnicates", "--frobnicate (flag)"),
    ("zzzz", ""),
];

/// The output of Node.js for the script of the search with more lines; none if there is no Node.js.
fn run(files: &[GeneratedFile], more: &str) -> Option<String> {
    let text = |path: &str| &files.iter().find(|file| file.path == path).expect("a file of the manual").text;
    let program = format!("{}\n{}\n{more}", text("names.js"), text("search.js"));
    let spawned = Command::new("node").arg("-").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn();
    let mut node = match spawned {
        Ok(node) => node,
        Err(error) => {
            skipped(Need::Tool("node"), format!("node: {error}"));
            return None;
        }
    };
    let mut stdin = node.stdin.take().expect("a pipe");
    stdin.write_all(program.as_bytes()).expect("node reads the program");
    drop(stdin);
    let output = node.wait_with_output().expect("node ends");
    assert!(output.status.success(), "node: {}", output.status);
    Some(String::from_utf8(output.stdout).expect("UTF-8"))
}

/// The button of a session copies its commands, with the lines that they go on in, and no output.
#[test]
fn the_commands_of_a_session_are_copied() {
    let blocks = [r"$ a --b \\\n    c\nout\n$ d\nout \\\n", r"let a = 1;\nlet b;\n\n"];
    let print = blocks.map(|text| format!("console.log(textToCopy(\"{text}\"));\n"));
    if let Some(copied) = run(manual(), &print.concat()) {
        assert_eq!(copied, "a --b \\\n    c\nd\nlet a = 1;\nlet b;\n");
    }
}

#[test]
fn what_is_typed_is_found() {
    let files = manual();
    let queries: Vec<String> = QUERIES.iter().map(|(query, _)| format!("{query:?}")).collect();
    let queries = format!("const queries = [{}];\n{DRIVER}", queries.join(","));
    let Some(lines) = run(files, &queries) else { return };
    assert_eq!(lines.lines().count(), QUERIES.len(), "{lines}");
    for (line, (query, first)) in lines.lines().zip(QUERIES) {
        let found = line.strip_prefix(&format!("{query} -> ")).unwrap_or_else(|| panic!("{line}"));
        let matches = if first.is_empty() { found.is_empty() } else { found.starts_with(first) };
        assert!(matches, "`{query}` finds {found}, not {first}");
    }
}
