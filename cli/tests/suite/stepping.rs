//! `vireo replay diff`, `minimize` and `edit`: a kernel that computes wrong in one build, devices of several kinds, and
//! the mistakes that they refuse.

use std::fs;
use std::path::Path;
use std::time::Duration;

use crate::common::{Outcome, folder, vireo};
use serde_json::Value;
use vireo::hal::BuiltinOptions;
use vireo::interp::Limits;
use vireo::replay::{Comparison, DiffSide, FirstDifference, Plan, Reader, ReplayOptions, Substitution, diff};

/// The capture of a program with six dispatches, whose kernels are bytecode.
const CHAIN: &str = "replay/runs/chain.ireereplay";

/// Its argument: the numbers from -3.1 to 3.2.
fn argument() -> String {
    let numbers = (-31..=32).map(|number| format!("{}", f64::from(number) / 10.0));
    format!("--input=8x8xf32={}", numbers.collect::<Vec<_>>().join(","))
}

fn ends(arguments: &[&str], code: i32, told: &str) -> String {
    let Outcome { code: found, stdout, stderr } = vireo(&folder("../fixtures"), arguments);
    assert!(found == code && format!("{stdout}{stderr}").contains(told), "{arguments:?}: {found} {stdout}{stderr}");
    stdout
}

/// The executable of a capture.
fn executable_of(capture: &str, scratch: &Path) -> Vec<u8> {
    let parts = scratch.join("parts").display().to_string();
    ends(&["replay", "extract", capture, &format!("--output={parts}")], 0, "executable-4");
    fs::read(Path::new(&parts).join("executable-4.vmvx-bytecode-fb.bin")).expect("it was written")
}

/// The numbers below 2^64 that a seed gives.
fn draw(state: &mut u64) -> u64 {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    *state
}

/// The executable with a bit that is drawn so that a kernel computes something else.
fn a_wrong_build(executable: &[u8]) -> Vec<u8> {
    let mut reader = Reader::open(&folder("../fixtures").join(CHAIN)).expect("it is a capture");
    let plan = Plan::read(&mut reader, None).expect("it can be replayed");
    let registry = BuiltinOptions::default().registry();
    let devices = [registry.create_device("local-sync").expect("a device of the host")];
    let limits = Limits { timeout: Some(Duration::from_secs(20)), ..Limits::default() };
    let usual = ReplayOptions { limits, ..ReplayOptions::default() };
    let mut state = 11;
    for _ in 0..1000 {
        let mut changed = executable.to_vec();
        let place = draw(&mut state) as usize % changed.len();
        changed[place] ^= 1 << (draw(&mut state) % 8);
        let format = Some("vmvx-bytecode-fb".to_string());
        let substitutions = vec![Substitution { executable: None, format, data: changed.clone().into() }];
        let options = ReplayOptions { substitutions, ..usual.clone() };
        let sides = [&usual, &options].map(|options| DiffSide { plan: &plan, devices: &devices, options });
        let found = diff(sides, &Comparison::default(), &mut ());
        if found.is_ok_and(|found| matches!(found.first, Some(FirstDifference::Results { .. }))) {
            return changed;
        }
    }
    panic!("no change makes a kernel compute something else");
}

/// A build with a wrong kernel, made of a good one by changing bits that are drawn: its dispatch is named, a capture of
/// it alone still shows that, and so does the least capture for which `diff` finds a difference.
#[test]
fn a_wrong_kernel_is_found_and_isolated() {
    let scratch = tempfile::tempdir().expect("a folder");
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let executable = executable_of(CHAIN, scratch.path());
    let wrong = at("wrong.bin");
    let substitution = format!("--replay_executable_substitution=4@vmvx-bytecode-fb={wrong}");
    let two = ["--device=local-sync", "--device=local-task"];
    fs::write(&wrong, a_wrong_build(&executable)).expect("it can be written");
    let rows = ends(
        &["replay", "diff", CHAIN, two[0], two[1], &substitution, "--format=jsonl", "--timeout=60"],
        4,
        "\"kind\":\"results\"",
    );
    let row: Value = serde_json::from_str(rows.lines().last().expect("a line")).expect("it is JSON");
    let first = &row["first"]["dispatches"][0];
    let number = first["number"].as_u64().expect("a number");
    let dispatched = rows.lines().filter(|line| line.contains("\"kind\":\"dispatch\"")).count() as u64;
    assert_eq!(dispatched, number + 1, "{rows}");
    assert_eq!(row["first"]["cause"], "dispatch");
    let function = first["function"].as_str().expect("a name").to_string();
    let saved = at("saved");
    let told = format!("dispatch {number} differs: `{function}`, record ");
    let save = format!("--save={saved}");
    ends(&["replay", "diff", CHAIN, two[0], two[1], &substitution, &save], 4, &told);
    let file = |name: &str| fs::read(Path::new(&saved).join(format!("dispatch-{number}.{name}.bin"))).expect(name);
    let binding = row["first"]["bindings"][0]["binding"].as_u64().expect("a number");
    let offset = row["first"]["bindings"][0]["difference"]["first"]["offset"].as_u64().expect("a number") as usize;
    let (one, other) =
        (file(&format!("binding-{binding}.result.first")), file(&format!("binding-{binding}.result.second")));
    assert_eq!(one.iter().zip(&other).position(|(one, other)| one != other), Some(offset));
    assert_eq!(file(&format!("binding-{binding}.input.first")), file(&format!("binding-{binding}.input.second")));
    // A folder with such files is not written to.
    ends(&["replay", "diff", CHAIN, two[0], two[1], &substitution, &save], 1, "cannot write");

    // The build with the wrong kernel, as a capture of its own.
    let bad = at("bad.ireereplay");
    let edit = ["replay", "edit", CHAIN, &format!("--substitute=4={wrong}"), &format!("--output={bad}")];
    ends(&edit, 0, "1 executables were replaced");
    ends(&["replay", "diff", CHAIN, &bad], 4, &told);
    let single = at("single.ireereplay");
    let dispatch = format!("--dispatch={number}");
    let expected = format!("--expected={}", folder("../fixtures").join(CHAIN).display());
    let output = format!("--output={single}");
    let found = ends(&["replay", "minimize", &bad, &dispatch, &expected, &output], 0, &function);
    assert!(found.starts_with(&format!("dispatch {number}: ")), "{found}");
    ends(&["replay", "verify", &single], 4, "outputs are as expected");
    ends(&["replay", "check", &single], 0, "replays with IREE's tools: yes");
    let original = format!("all={}", scratch.path().join("parts/executable-4.vmvx-bytecode-fb.bin").display());
    ends(&["replay", "verify", &single, &format!("--replay_executable_substitution={original}")], 0, "as expected");
    // A file that is there is not replaced.
    ends(&["replay", "minimize", &bad, &dispatch, &output], 1, "cannot write");
    ends(
        &["replay", "minimize", CHAIN, "--dispatch=6", &format!("--output={}", at("no"))],
        2,
        "dispatch 6 is not there",
    );
    assert!(!Path::new(&at("no")).exists());
    let refused = ["replay", "minimize", &bad, "--dispatch=0", &format!("--output={}", at("no"))];
    ends(&[&refused[..], &["--expected=replay/runs/softmax.ireereplay"]].concat(), 1, "dispatch 0 is of `softmax");
    ends(&["replay", "minimize", &bad, &format!("--output={}", at("no"))], 2, "--dispatch");
}

#[cfg(unix)]
#[test]
fn captures_are_reduced_by_a_command() {
    let scratch = tempfile::tempdir().expect("a folder");
    let least = scratch.path().join("least.ireereplay").display().to_string();
    let output = format!("--output={least}");
    let program = env!("CARGO_BIN_EXE_vireo");
    // The function of the fourth dispatch has to be executed, and all to be replayed.
    let test = format!(
        "--test={program} replay diff {{}} --device=local-sync --device=local-sync --format=jsonl | grep -q dispatch_3"
    );
    if std::env::var_os("VIREO_RUNNER").is_some() {
        return;
    }
    let told = ends(&["replay", "minimize", CHAIN, &test, &output], 0, "records are left after");
    let rows = ends(&["replay", "diff", &least, "--device=local-sync", "--device=local-sync", "--format=jsonl"], 0, "");
    let dispatches = rows.lines().filter(|line| line.contains("\"kind\":\"dispatch\"")).collect::<Vec<_>>();
    assert!(dispatches.len() == 1 && dispatches[0].contains("dispatch_3"), "{told}{rows}");
    let refused = scratch.path().join("no.ireereplay").display().to_string();
    let output = format!("--output={refused}");
    ends(&["replay", "minimize", CHAIN, "--test=test -n {} && exit 3", &output], 1, "does not find the whole capture");
    ends(&["replay", "minimize", CHAIN, "--test=true", &output], 2, "has no `{}`");
    ends(&["replay", "minimize", CHAIN, "--test=true {}", &output, "--untrusted"], 2, "--untrusted is not for --test");
    assert!(!Path::new(&refused).exists());
    ends(
        &["replay", "minimize", CHAIN, "--test=sleep 1; test -e {}", &output, "--timeout=1.5"],
        0,
        "the time was over",
    );
}

/// One program, built for the host, for a GPU of AMD and for one of NVIDIA, whose software agents the tests have: small
/// differences are rounding, and every dispatch is aligned by its name.
#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn builds_for_other_devices_are_compared() {
    let scratch = tempfile::tempdir().expect("a folder");
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let record = |module: &str, flags: &[&str]| {
        let capture = at(&format!("{module}.ireereplay"));
        let (module, output) = (format!("--module={module}.vmfb"), format!("--device_replay_output={capture}"));
        let argument = argument();
        let program = ["run", &module, "--function=chain", &argument, &output].into_iter().chain(flags.iter().copied());
        let outcome = vireo(&folder("../fixtures/replay/programs"), program);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        capture
    };
    let host = record("chain_vmvx", &["--device=local-sync"]);
    for (module, flags) in [
        ("chain_gfx1100", ["--device=amdgpu", "--amdgpu_agent=software"]),
        ("chain_sm_86", ["--device=cuda", "--cuda_driver=software"]),
    ] {
        let other = record(module, &flags);
        let diff = ["replay", "diff", &host, &other, "--device=local-sync", flags[0], flags[1]];
        ends(&[&diff[..], &["--compare=f32", "--ulps=1000"]].concat(), 0, "equal: 6 dispatches");
        let same = ["replay", "diff", &other, flags[0], flags[0], flags[1]];
        ends(&same, 0, "equal: 6 dispatches and 1 reads");
        let single = at(&format!("{module}.single.ireereplay"));
        let output = format!("--output={single}");
        ends(&["replay", "minimize", &other, "--dispatch=3", flags[0], flags[1], &output], 0, "dispatch_3");
        ends(&["replay", "verify", &single, flags[0], flags[1]], 0, "outputs are as expected");
    }
}

#[test]
fn flags_that_do_not_fit_are_refused() {
    let two = ["replay", "diff", CHAIN, "--device=local-sync", "--device=local-task"];
    ends(&two, 0, "equal: 6 dispatches and 2 reads of the host\n");
    ends(&["replay", "diff", CHAIN], 2, "is replayed on two sides: expected --device= 2 times, found 1");
    ends(&["replay", "diff", CHAIN, CHAIN], 0, "equal: 6 dispatches");
    ends(&["replay", "diff", CHAIN, "replay/runs/softmax.ireereplay"], 4, "dispatch 0 is another one:");
    let with = |flags: &[&str], code: i32, told: &str| ends(&[&two[..], flags].concat(), code, told);
    with(&["--ulps=1"], 2, "bytes have no tolerance");
    with(&["--ulps=1", "--compare=i32"], 2, "--ulps is for floats");
    with(&["--compare=f31"], 2, "expected `bytes`, `f64`");
    with(&["--absolute_tolerance=-1", "--compare=f32"], 2, "a tolerance is a number");
    with(&["--untrusted", "--no-confine", "--timeout=60"], 0, "equal");
    with(&["--untrusted", "--timeout=60"], 0, "equal");
    with(&["--max_memory_bytes=30000"], 3, "RESOURCE_EXHAUSTED");
    let scratch = tempfile::tempdir().expect("a folder");
    let output = format!("--output={}", scratch.path().join("single.ireereplay").display());
    let untrusted = ["replay", "minimize", CHAIN, "--dispatch=5", "--untrusted", "--timeout=60", &output];
    ends(&untrusted, 0, "dispatch 5: `chain_dispatch_1_softmax");
    if cfg!(target_os = "linux") {
        with(&["--untrusted", "--save=/no/such"], 2, "--save writes files");
    }
    ends(&["replay", "diff", "replay/payloads.ireereplay", CHAIN], 3, "cannot replay the capture");
    ends(&["replay", "diff", "no/such/file", CHAIN], 2, "no/such/file");
    let edit = ["replay", "edit", CHAIN, "--output=/no/such/file"];
    ends(&edit, 2, "--keep");
    ends(&[&edit[..], &["--order"]].concat(), 1, "cannot write");
    ends(&[&edit[..], &["--keep=3-1"]].concat(), 2, "expected numbers of records");
}

/// Copies of a capture that waits for a later submission, and one without what is private.
#[test]
fn captures_are_edited() {
    let scratch = tempfile::tempdir().expect("a folder");
    let at = |name: &str| scratch.path().join(name).display().to_string();
    let edit = |name: &str, file: &str, flags: &[&str], code: i32, told: &str| {
        let output = format!("--output={}", at(name));
        ends(&[&["replay", "edit", file, &output], flags].concat(), code, told)
    };
    edit("ordered", "replay/runs/waits.ireereplay", &["--order"], 0, "1 records come after a later one");
    ends(&["replay", "check", &at("ordered")], 0, "replays with IREE's tools: yes");
    edit("private", CHAIN, &["--strip=data,paths"], 0, "bytes of data are zero");
    ends(&["replay", "run", &at("private")], 0, "");
    edit("part", CHAIN, &["--keep=10"], 0, "left out");
    edit("no", CHAIN, &["--keep=1000"], 2, "record 1000 is not there");
    edit("no", CHAIN, &["--substitute=9=replay/abs.txt"], 2, "executable 9 is not there");
    edit("no", "replay/payloads.ireereplay", &["--order"], 3, "cannot edit the capture");
    edit("no", CHAIN, &["--order", "--max_memory_bytes=1000"], 1, "RESOURCE_EXHAUSTED");
    assert!(!Path::new(&at("no")).exists());
}
