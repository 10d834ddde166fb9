//! Values as `vireo run` reads and prints them, against what the tools of the reference runtime printed
//! (`fixtures/values.json`).

use crate::common::{folder, vireo};
use serde_json::Value;

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_else(|| panic!("expected a string, got {value}"))
}

/// Whether the inputs of a case take less than the whole of the raw file that they name, which has 256 bytes.
fn reads_a_part(case: &Value) -> bool {
    case["flags"].as_array().into_iter().flatten().any(|flag| flag == "--input=2x2xi8=@bytes.bin")
}

#[test]
fn stdout_equals_that_of_the_reference_tool() {
    let cases = std::fs::read_to_string(folder("tests/fixtures").join("values.json")).unwrap();
    let cases: Vec<Value> = serde_json::from_str(&cases).unwrap();
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join("bytes.bin"), (0..=255).collect::<Vec<u8>>()).unwrap();
    let module = format!("--module={}", folder("tests/fixtures").join("values.vmfb").display());
    let (mut differences, mut parts) = (Vec::new(), 0);
    for case in &cases {
        let function = format!("--function={}", text(&case["function"]));
        let flags = case["flags"].as_array().into_iter().flatten().map(text);
        let outcome = vireo(temporary.path(), ["run", &module, &function].into_iter().chain(flags));
        let expected = text(&case["stdout"]);
        if expected.contains("list elements") {
            // A wrong number of expected results is refused before the call.
            assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
            continue;
        }
        if reads_a_part(case) {
            // The reference's tool ignores the rest of a file without a header.
            assert_eq!((outcome.code, outcome.stdout.as_str()), (2, ""), "{}", outcome.stderr);
            assert!(outcome.stderr.contains("bytes of `bytes.bin` are left"), "{}", outcome.stderr);
            parts += 1;
            continue;
        }
        let code = if expected.contains("[FAILED]") { 4 } else { 0 };
        if outcome.stdout != expected || outcome.code != code {
            let (stdout, stderr) = (outcome.stdout, outcome.stderr);
            differences
                .push(format!("{}: code {}\n{stdout}{stderr}expected:\n{expected}", case["flags"], outcome.code));
        }
    }
    assert_eq!(parts, 2, "cases that read a part of a file");
    assert!(differences.is_empty(), "{} of {} differ:\n{}", differences.len(), cases.len(), differences.join("\n"));
}

/// Linux allows any bytes in the names of files.
#[cfg(target_os = "linux")]
#[test]
fn files_are_named_by_any_bytes() {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;
    let temporary = tempfile::tempdir().unwrap();
    let module = folder("tests/fixtures").join("values.vmfb");
    let run = |flag: &[u8]| {
        let flag = OsString::from_vec(flag.to_vec());
        let arguments =
            ["run".into(), module.clone().into_os_string(), "--function=id".into(), "--input=2xf32=1,2".into(), flag];
        vireo(temporary.path(), arguments)
    };
    let written = run(b"--output=@o\xFF.npy");
    assert_eq!(written.code, 0, "{}", written.stderr);
    assert!(temporary.path().join(OsString::from_vec(b"o\xFF.npy".to_vec())).exists());
    let read = run(b"--expected_output=@o\xFF.npy");
    assert_eq!(read.code, 0, "{}", read.stderr);
    std::fs::write(temporary.path().join("flags"), b"--expected_output=@o\xFF.npy\n").unwrap();
    let flags = run(b"--flagfile=flags");
    assert_eq!((flags.code, &flags.stdout), (0, &read.stdout), "{}", flags.stderr);
    let missing = run(b"--expected_output=@x\xFE.npy");
    assert!(missing.code == 2 && missing.stderr.contains("cannot open"), "{}", missing.stderr);
}
