//! `vireo check`, on the tests of `fixtures/check.mlir` and `check_types.mlir`.

use crate::common::{Outcome, folder, vireo};
use serde_json::Value;

fn check(flags: &[&str]) -> Outcome {
    vireo(&folder("tests/fixtures"), ["check"].iter().chain(flags))
}

#[test]
fn tests_that_pass() {
    let outcome = check(&["check.vmfb", "check_types.vmfb", "--filter=-fails*:traps"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{}", outcome.stdout);
    assert!(outcome.stdout.starts_with("check.vmfb: module module, 5 tests\n  ok       sums"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\ncheck_types.vmfb: module module, 7 tests\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("skipped  takes_an_argument  takes arguments\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("skipped  returns_a_result   returns results\n"), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("\nok: 10 passed, 2 skipped in "), "{}", outcome.stdout);
}

#[test]
fn all_expectations_of_a_test_are_checked() {
    let outcome = check(&["--module=check.vmfb", "--gtest_filter=module.fails*"]);
    assert_eq!(outcome.code, 4, "{}", outcome.stderr);
    let expected = "
      expect_true: the operand is 0; expected any other number
      expect_eq: 1 of 4 elements differs
        [1, 1]: lhs 4, rhs 5
        lhs: 2x2xi32=[1 2][3 4]
        rhs: 2x2xi32=[1 2][3 5]
      expect_almost_eq: 1 of 2 elements is farther apart than atol=0.25 and rtol=0 allow
        [1]: lhs 2, rhs 2.5, 0.5 apart
        lhs: 2xf32=1 2
        rhs: 2xf32=1 2.5
FAILED: 0 passed, 1 failed in ";
    assert!(outcome.stdout.contains(expected), "{}", outcome.stdout);
}

#[test]
fn programs_that_fail_are_errors() {
    let outcome = check(&["check.vmfb", "--filter=traps"]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let place =
        "      error: calling @traps\n        cause: FAILED_PRECONDITION: this cannot be\n          at module.traps+0x";
    assert!(outcome.stdout.contains(place), "{}", outcome.stdout);
    assert!(outcome.stdout.contains("      expect_true: the operand is 0"), "{}", outcome.stdout);
}

#[test]
fn reports_for_programs() {
    let temporary = tempfile::tempdir().unwrap();
    let path = temporary.path().join("report.xml");
    let junit = format!("--junit={}", path.display());
    let outcome = check(&["check.vmfb", "--format=json", &junit]);
    assert_eq!(outcome.code, 1, "{}", outcome.stderr);
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    let counts = ["passed", "failed", "errors", "skipped"].map(|name| report[name].as_u64().unwrap());
    assert_eq!(counts, [3, 1, 1, 2]);
    let tests = report["modules"][0]["tests"].as_array().unwrap();
    assert_eq!((tests[3]["outcome"].as_str(), tests[3]["expectations"].as_array().unwrap().len()), (Some("failed"), 3));
    assert_eq!((tests[4]["outcome"].as_str(), tests[4]["code"].as_str()), (Some("error"), Some("FAILED_PRECONDITION")));
    assert!(tests[4]["backtrace"][0].as_str().unwrap().starts_with("at module.traps+"));
    let xml = std::fs::read_to_string(path).unwrap();
    let suite = "<testsuite name=\"module\" file=\"check.vmfb\" tests=\"7\" failures=\"1\" errors=\"1\" skipped=\"2\"";
    assert!(xml.contains(suite) && xml.contains("<testcase classname=\"module\" name=\"sums\""), "{xml}");
}

#[test]
fn failures_may_be_expected() {
    for (flags, code, part) in [
        (&["check.vmfb", "--expect_failure"] as &[&str], 0, ""),
        (&["check.vmfb", "--expect_failure=true", "--filter=sums"], 4, "a failure was expected"),
        (&["check.vmfb", "--expect_failure=false", "--filter=sums"], 0, ""),
        (&["check.vmfb", "--fail_fast"], 4, ""),
        (&["check.vmfb", "--filter=nothing"], 2, "no test was run"),
        (&["check.vmfb", "--filter=takes*"], 2, "no test was run"),
        (&["nothing.vmfb", "--expect_failure"], 3, "nothing.vmfb"),
        (&["check.vmfb", "nothing.vmfb", "--filter=sums"], 3, ""),
        (&[], 2, "no module is given"),
        (&["check.vmfb", "--device=bogus"], 3, "bogus"),
        (&["check.vmfb", "--junit=no/such/folder", "--filter=sums"], 1, "no/such/folder"),
    ] {
        let outcome = check(flags);
        assert_eq!(outcome.code, code, "{flags:?}: {}", outcome.stderr);
        assert!(outcome.stderr.contains(part), "{flags:?}: {}", outcome.stderr);
    }
    let outcome = check(&["check.vmfb", "--filter=takes*"]);
    assert!(outcome.stdout.contains("\nFAILED: 0 passed, 1 skipped in "), "{}", outcome.stdout);
    let outcome = check(&["check.vmfb", "--list", "--filter=*a*-*ls:f*:r*:sums:truths"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, "module.traps\nmodule.takes_an_argument\n"));
}

#[test]
fn a_file_that_cannot_be_loaded_does_not_keep_others_from_being_run() {
    let flags = ["check.mlir", "check.vmfb", "--filter=sums"];
    let outcome = check(&flags);
    assert_eq!(outcome.code, 3, "{}{}", outcome.stdout, outcome.stderr);
    for part in
        ["check.mlir: not loaded\n  ERROR    (load)", "MLIR program", "check.vmfb: module module, 1 test\n  ok "]
    {
        assert!(outcome.stdout.contains(part), "{}", outcome.stdout);
    }
    let outcome = check(&[&flags[..], &["--format=json"]].concat());
    let report: Value = serde_json::from_str(&outcome.stdout).unwrap();
    assert_eq!((report["passed"].as_u64(), report["errors"].as_u64()), (Some(1), Some(1)));
    let outcome = check(&[&flags[..], &["--list"]].concat());
    assert_eq!((outcome.code, outcome.stdout.as_str()), (3, "module.sums\n"), "{}", outcome.stderr);
}
