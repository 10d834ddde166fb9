//! `vireo replay` and `vireo profile` against recorded output of IREE's tools.

use std::fs;

use crate::common::{folder, vireo};

/// Each command with the record of its output, both in `fixtures/`.
const COMMANDS: [(&[&str], &str); 7] = [
    (&["replay", "dump", "replay/payloads.ireereplay"], "replay/payloads.txt"),
    (&["replay", "dump", "replay/parameters.ireereplay", "--format=jsonl"], "replay/parameters.jsonl"),
    (&["profile", "cat", "profile/abs.ireeprof"], "profile/abs.cat.txt"),
    (&["profile", "cat", "profile/contents.ireeprof", "--format=jsonl"], "profile/contents.cat.jsonl"),
    (&["profile", "summary", "profile/contents.ireeprof"], "profile/contents.summary.txt"),
    (&["profile", "summary", "profile/abs.ireeprof", "--format=jsonl"], "profile/abs.summary.jsonl"),
    (&["profile", "export", "profile/contents.ireeprof", "--format=ireeperf-jsonl"], "profile/contents.export.jsonl"),
];

#[test]
fn reports_are_those_of_the_reference_tools() {
    let fixtures = folder("../fixtures");
    for (arguments, expected) in COMMANDS {
        let outcome = vireo(&fixtures, arguments);
        let expected = fs::read_to_string(fixtures.join(expected)).expect("the record exists");
        assert_eq!((outcome.code, outcome.stdout.as_str()), (0, expected.as_str()), "{arguments:?}");
    }
}

/// A file of another format, and one that is not there.
#[test]
fn other_files_are_refused() {
    let fixtures = folder("../fixtures");
    let outcome = vireo(&fixtures, ["replay", "dump", "profile/abs.ireeprof"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    let told = "byte 0: the file begins with 0x46505249: expected 0x50525249 of a capture";
    assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    let outcome = vireo(&fixtures, ["profile", "cat", "no/such/file.ireeprof"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""));
    assert!(outcome.stderr.contains("no/such/file.ireeprof"), "{}", outcome.stderr);
}
