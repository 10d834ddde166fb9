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

/// A program writes a profile, whose reports have its dispatches; the flags that need each other say so.
#[test]
fn programs_write_profiles() {
    let temporary = tempfile::tempdir().unwrap();
    let (module, profile) = (folder("../fixtures/models").join("vmvx_mlp.vmfb"), temporary.path().join("mlp.ireeprof"));
    let (module, profile) = (module.to_str().unwrap(), profile.to_str().unwrap());
    let output = format!("--device_profiling_output={profile}");
    let call = ["run", module, "--input=8x64xf32=1", "--device_profiling_mode=queue-events,host-execution"];
    let outcome = vireo(temporary.path(), call.iter().chain(&[output.as_str()]));
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let report = |command: &'static str| vireo(temporary.path(), ["profile", command, profile]);
    for command in ["summary", "statistics", "executable", "dispatch", "command", "queue", "counter", "memory", "cat"] {
        let outcome = report(command);
        assert_eq!(outcome.code, 0, "{command}: {}", outcome.stderr);
    }
    assert!(report("dispatch").stdout.contains("host_dispatches: total=2 matched=2 valid=2"));
    for (flags, told) in [
        (["--device_profiling_mode=queue-events", ""], "needs --device_profiling_output"),
        ([output.as_str(), ""], "needs --device_profiling_mode"),
        ([output.as_str(), "--device_profiling_mode=no-such"], "has no mode `no-such`"),
        ([output.as_str(), "--device_profiling_mode=counters"], "need each other"),
        ([output.as_str(), "--device_profiling_mode=dispatch-events"], "has no measurements of dispatch_events"),
    ] {
        let flags = flags.into_iter().filter(|flag| !flag.is_empty());
        let outcome = vireo(temporary.path(), ["run", module, "--input=8x64xf32=1"].into_iter().chain(flags));
        assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{told}");
        assert!(outcome.stderr.contains(told), "{}", outcome.stderr);
    }
    let outcome = vireo(temporary.path(), ["profile", "dispatch", profile, "--dispatch_events"]);
    assert_eq!(outcome.code, 2, "{}", outcome.stderr);
}
