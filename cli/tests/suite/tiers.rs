//! `--tier=` of the commands that run programs, `vireo dump --jit`, and `--perf_map`, on a small program and on kernels
//! in bytecode.

use std::path::Path;

use crate::common::{Outcome, folder, vireo};
use crate::skip::{Need, skipped};
use tempfile::TempDir;
use vireo::interp::loops::{Refusal, Transformation};

const PROGRAM: &str = r#"vm.module @tiers

vm.export @sum
vm.func @sum(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  %i2 = vm.const.i32.zero
  %i3 = vm.const.i32 1
  vm.br ^bb1()
^bb1:
  %i1 = vm.add.i32 %i1, %i2
  %i2 = vm.add.i32 %i2, %i3
  %i4 = vm.cmp.lt.i32.s %i2, %i0
  vm.cond_br %i4, ^bb1(), ^bb2()
^bb2:
  vm.return %i1
}

vm.export @divide
vm.func @divide(%i0: i32, %i1: i32) -> (i32) {
^bb0:
  %i2 = vm.div.i32.s %i0, %i1
  vm.trace "divided", %i2
  vm.return %i2
}
"#;

/// The document that a command has printed.
fn json(outcome: &Outcome) -> serde_json::Value {
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    serde_json::from_str(&outcome.stdout).expect("a document")
}

/// A folder with the program.
fn program() -> TempDir {
    let temporary = tempfile::tempdir().unwrap();
    std::fs::write(temporary.path().join("tiers.vmasm"), PROGRAM).unwrap();
    let outcome = vireo(temporary.path(), ["asm", "tiers.vmasm", "-o", "tiers.vmfb"]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    temporary
}

/// The values of `--tier=` here.
pub fn tiers() -> &'static [&'static str] {
    if has_jit() { &["interp", "jit", "auto", "both"] } else { &["interp", "auto"] }
}

/// Whether the command makes machine code.
pub fn has_jit() -> bool {
    let available = cfg!(target_arch = "x86_64");
    if !available {
        skipped(Need::Platform("x86_64"), "there is no machine code but for x86-64");
    }
    available
}

/// The flag by which a program runs on every tier that there is here.
pub fn every_tier() -> &'static str {
    if has_jit() { "--tier=both" } else { "--tier=interp" }
}

fn run(folder: &Path, tier: &str, flags: &[&str]) -> Outcome {
    let tier = format!("--tier={tier}");
    vireo(folder, ["run", "--module=tiers.vmfb", &tier].iter().chain(flags))
}

#[test]
fn every_tier_does_the_same() {
    let folder = program();
    for tier in tiers() {
        let outcome = run(folder.path(), tier, &["--function=sum", "--input=5000"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{tier}");
        assert_eq!(outcome.stdout, "EXEC @sum\nresult[0]: i32=12497500\n", "{tier}");
        let outcome = run(folder.path(), tier, &["--function=divide", "--input=7", "--input=-2"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, "[trace] divided: -3\n"), "{tier}");
        assert_eq!(outcome.stdout, "EXEC @divide\nresult[0]: i32=-3\n", "{tier}");
        let outcome = run(folder.path(), tier, &["--function=divide", "--input=7", "--input=0"]);
        assert_eq!(outcome.code, 1, "{tier}");
        assert!(outcome.stderr.contains("at tiers.divide+0x"), "{tier}: {}", outcome.stderr);
    }
    let outcome = run(folder.path(), "fast", &["--function=sum", "--input=1"]);
    assert_eq!(outcome.code, 2);
    assert!(outcome.stderr.contains("interp, jit, auto, both"), "{}", outcome.stderr);
}

#[test]
fn what_there_is_not_is_said() {
    if has_jit() {
        return;
    }
    let folder = program();
    for tier in ["jit", "both"] {
        let outcome = run(folder.path(), tier, &["--function=sum", "--input=1"]);
        assert_eq!(outcome.code, 2);
        assert!(outcome.stderr.contains("UNIMPLEMENTED: machine code"), "{}", outcome.stderr);
    }
}

#[test]
fn kernels_run_on_every_tier() {
    let models = folder("../fixtures/models");
    let flags = ["--module=vmvx_mlp.vmfb", "--input=8x64xf32=0.5"];
    let expected = vireo(&models, ["run"].iter().chain(&flags)).stdout;
    assert!(expected.contains("8x16xf32="), "{expected}");
    for device in ["local-sync", "local-task"] {
        for tier in tiers() {
            let more = [format!("--tier={tier}"), format!("--device={device}")];
            let more = more.each_ref().map(String::as_str);
            let outcome = vireo(&models, ["run"].iter().chain(&flags).chain(&more));
            assert_eq!((outcome.code, &outcome.stdout), (0, &expected), "{tier}: {}", outcome.stderr);
        }
    }
}

#[test]
fn statistics_count_the_machine_code_of_kernels() {
    let models = folder("../fixtures/models");
    let statistics = |module: &str, input: &str, tier: &str| {
        let flags = ["run", module, input, tier, "--print_statistics"];
        let outcome = vireo(&models, flags);
        assert_eq!(outcome.code, 0, "{}", outcome.stderr);
        let lines = outcome.stderr.lines().filter(|line| line.starts_with("MACHINE_CODE:")).map(str::to_string);
        lines.collect::<Vec<_>>()
    };
    // Bytes of kernels in bytecode, and of no other kernels.
    let bytes = |tier| {
        let lines = statistics("vmvx_mlp.vmfb", "--input=8x64xf32=0.5", tier);
        assert_eq!(lines.len(), 2, "{lines:?}");
        let count = lines[1].strip_prefix("MACHINE_CODE:").and_then(|line| line.split_once("B in "));
        let (bytes, what) = count.unwrap_or_else(|| panic!("{lines:?}"));
        assert!(what.ends_with(" functions of kernels in bytecode"), "{lines:?}");
        bytes.trim().parse::<u64>().unwrap()
    };
    assert_eq!(bytes("--tier=interp"), 0);
    if tiers().contains(&"jit") {
        assert!(bytes("--tier=jit") > 1000);
    }
    assert_eq!(statistics("abs.vmfb", "--input=f32=-2", "--tier=interp").len(), 1);
}

#[test]
fn documents_have_the_machine_code_and_its_side_exits() {
    let models = folder("../fixtures/models");
    let flags = ["run", "abs.vmfb", "--input=f32=-2", "--tier=auto", "--print_statistics", "--format=json"];
    let outcome = vireo(&models, flags);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let document: serde_json::Value = serde_json::from_str(&outcome.stdout).unwrap();
    let code = &document["machine_code"][0];
    assert!(code["bytes"].is_u64() && code["side_exits"].is_array(), "{document:#}");
}

#[test]
fn tests_run_on_every_tier() {
    let fixtures = folder("tests/fixtures");
    for tier in tiers() {
        let tier = format!("--tier={tier}");
        let outcome = vireo(&fixtures, ["check", "check.vmfb", "check_types.vmfb", "--filter=-fails*:traps", &tier]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{tier}: {}", outcome.stdout);
        assert!(outcome.stdout.contains("\nok: 10 passed, 2 skipped in "), "{tier}: {}", outcome.stdout);
        let outcome = vireo(&fixtures, ["check", "check.vmfb", "--filter=fails*:traps", &tier]);
        assert_eq!(outcome.code, 1, "{tier}: {}", outcome.stderr);
        assert!(outcome.stdout.contains("\nFAILED: 0 passed, 1 failed, 1 "), "{tier}: {}", outcome.stdout);
        assert!(!outcome.stdout.contains("differ:"), "{tier}: {}", outcome.stdout);
    }
}

#[test]
fn both_tiers_are_measured() {
    if !has_jit() {
        return;
    }
    let folder = program();
    let flags = ["--module=tiers.vmfb", "--function=sum", "--input=100", "--tier=both", "--benchmark_min_time=2x"];
    let outcome = vireo(folder.path(), ["benchmark"].iter().chain(&flags));
    // The machine may be busy.
    let others = outcome.stderr.lines().filter(|line| !line.starts_with("warning: the machine is busy")).count();
    assert_eq!((outcome.code, others), (0, 0), "{}", outcome.stderr);
    for name in ["BM_sum/interp/", "BM_sum/jit/"] {
        assert!(outcome.stdout.contains(name), "{}", outcome.stdout);
    }
}

#[test]
fn machine_code_beside_ops() {
    let folder = program();
    let outcome = vireo(folder.path(), ["dump", "--jit", "tiers.vmfb", "--function=sum"]);
    if !has_jit() {
        assert!(outcome.code == 2 && outcome.stderr.contains("UNIMPLEMENTED"), "{}", outcome.stderr);
        return;
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = outcome.stdout;
    assert!(text.starts_with("vm.func @sum(%i0: i32) -> (i32) {\n"), "{text}");
    let ops = PROGRAM.lines().filter(|line| line.starts_with("  ")).take(9);
    for (op, line) in ops.enumerate() {
        assert!(text.contains(&format!("{op:>4}  {}", line.trim())), "{op}: {text}");
    }
    // An op, what it became, and where the value is.
    let add = text.split("%i1 = vm.add.i32 %i1, %i2\n").nth(1).unwrap();
    let instruction = add.lines().next().unwrap();
    assert!(instruction.contains(" add ") && instruction.contains("  ; v") && instruction.contains(" in e"), "{text}");
    assert!(text.ends_with("}\n"), "{text}");
    let all = vireo(folder.path(), ["dump", "--jit", "tiers.vmfb"]).stdout;
    assert!(all.contains("vm.trace \"divided\"(%i2)  // by the interpreter\n"), "{all}");
    assert_eq!(all.matches("vm.func @").count(), 2, "{all}");
}

#[test]
fn graphs_of_the_compiler() {
    let folder = program();
    let outcome = vireo(folder.path(), ["dump", "--jit=graph", "tiers.vmfb", "--function=sum"]);
    if !has_jit() {
        assert!(outcome.code == 2 && outcome.stderr.contains("UNIMPLEMENTED"), "{}", outcome.stderr);
        return;
    }
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    let text = outcome.stdout;
    let title = "; vm.func @sum(%i0: i32) -> (i32)\n";
    assert!(text.strip_prefix(title).is_some_and(|graph| graph.starts_with("graph\n")), "{text}");
    assert!(text.contains(": i32 = wrapping_add.i32 v") && text.contains("  side_exit return e"), "{text}");
    assert!(!text.contains("  ; v"), "{text}");
    let models = crate::common::folder("../fixtures/models");
    let kernels = vireo(&models, ["dump", "--jit=graph", "vmvx_mlp.vmfb"]).stdout;
    assert!(kernels.contains("\n; executable @") && kernels.contains("load_lanes[load_f32, "), "{kernels}");
    let outcome = vireo(folder.path(), ["dump", "--jit=tree", "tiers.vmfb"]);
    assert!(outcome.code == 2 && outcome.stderr.contains("graph"), "{}", outcome.stderr);
}

#[test]
fn decisions_about_loops() {
    let folder = program();
    let why = ["dump", "--jit=why", "tiers.vmfb", "--function=sum"];
    let outcome = vireo(folder.path(), why);
    if !has_jit() {
        assert!(outcome.code == 2 && outcome.stderr.contains("UNIMPLEMENTED"), "{}", outcome.stderr);
        return;
    }
    let reason = "no vectors, since it is no nest of counted loops (not_counted)";
    assert_eq!(outcome.stdout, format!("; vm.func @sum(%i0: i32) -> (i32)\n; loop at op 4: {reason}\n"));
    let document = json(&vireo(folder.path(), why.into_iter().chain(["--format=json"])));
    let expected = serde_json::json!({"functions": [{
        "name": "sum",
        "executable": null,
        "is_compiled": true,
        "loops": [{"op": 4, "decisions": [{"transformation": "vectors", "is_made": false, "reason": "not_counted"}]}],
    }]});
    assert_eq!(document, expected);
    for form in ["--jit", "--jit=graph"] {
        let outcome = vireo(folder.path(), ["dump", form, "--format=json", "tiers.vmfb"]);
        assert!(outcome.code == 2 && outcome.stderr.contains("--jit=why"), "{}", outcome.stderr);
    }
}

/// Text and JSON of the kernels of a model have the same decisions, and each reason is one of the list.
#[test]
fn decisions_about_kernels() {
    if !has_jit() {
        return;
    }
    let models = folder("../fixtures/models");
    let text = vireo(&models, ["dump", "--jit=why", "vmvx_mlp.vmfb"]).stdout;
    let document = json(&vireo(&models, ["dump", "--jit=why", "--format=json", "vmvx_mlp.vmfb"]));
    let functions = document["functions"].as_array().expect("a list");
    let (mut count, mut kernels) = (0, 0);
    for function in functions {
        kernels += usize::from(function["executable"].is_string());
        for one in function["loops"].as_array().expect("a list") {
            for decision in one["decisions"].as_array().expect("a list") {
                count += 1;
                let name = decision["transformation"].as_str().expect("a name");
                assert!(Transformation::ALL.iter().any(|one| one.name() == name), "{decision}");
                let reason = decision["reason"].as_str();
                assert_eq!(decision["is_made"] == false, reason.is_some(), "{decision}");
                assert!(reason.is_none_or(|reason| Refusal::ALL.iter().any(|one| one.name() == reason)), "{decision}");
            }
        }
    }
    assert_eq!(text.matches("; loop at op ").count(), count, "{text}");
    assert_eq!(text.matches("; vm.func @").count(), functions.len(), "{text}");
    assert!(count > 5 && kernels > 0 && text.contains("; executable @"), "{text}");
    #[cfg(target_arch = "x86_64")]
    if is_x86_feature_detected!("avx2") && !is_x86_feature_detected!("avx512f") {
        let guide = std::fs::read_to_string(models.join("../../docs/jit.md")).expect("it is there");
        let (_, lines) = guide.split_once("these are some of the lines:\n\n```text\n").expect("it shows some");
        let lines: Vec<&str> = lines.lines().take_while(|line| *line != "```").collect();
        assert!(lines.len() > 3 && lines.iter().all(|line| text.contains(&format!("{line}\n"))), "{text}");
    }
}

#[test]
fn perf_knows_names() {
    if !has_jit() {
        return;
    }
    let folder = program();
    let command = crate::common::command()
        .args(["run", "--module=tiers.vmfb", "--function=sum", "--input=9", "--tier=jit", "--perf_map"])
        .current_dir(folder.path())
        .stdout(std::process::Stdio::null())
        .spawn();
    let mut command = command.unwrap();
    let path = format!("/tmp/perf-{}.map", command.id());
    assert!(command.wait().unwrap().success());
    let map = std::fs::read_to_string(&path).unwrap();
    let words = map.lines().next().unwrap().split(' ').collect::<Vec<_>>();
    assert_eq!(words[2..], ["vireo:tiers.sum"], "{map}");
    assert!(words[..2].iter().all(|word| u64::from_str_radix(word, 16).is_ok_and(|number| number > 0)), "{map}");
    std::fs::remove_file(path).unwrap();
}

#[test]
fn kernels_inside_a_module_are_shown() {
    if !has_jit() {
        return;
    }
    let models = folder("../fixtures/models");
    let dump = |file: &str, flags: &[&str]| vireo(&models, ["dump", "--jit", file].iter().chain(flags));
    // Without instructions: addresses in them are those of one process.
    let ops = |flags: &[&str]| {
        let text = dump("vmvx_mlp.vmfb", flags).stdout;
        text.lines().filter(|line| !line.starts_with("      ")).map(|line| format!("{line}\n")).collect::<String>()
    };
    let all = dump("vmvx_mlp.vmfb", &[]);
    assert_eq!(all.code, 0, "{}", all.stderr);
    let (host, kernels) = all.stdout.split_once("// executable @").unwrap();
    assert!(host.contains("vm.func @mlp("), "{host}");
    assert!(kernels.contains("mulss"), "{kernels}");
    let name = kernels.lines().find_map(|line| line.strip_prefix("vm.func @mlp")).unwrap();
    let name = format!("mlp{}", name.split('(').next().unwrap());

    let one = ops(&[&format!("--function={name}")]);
    assert!(one.starts_with("// executable @") && one.matches("vm.func @").count() == 1, "{one}");
    assert!(ops(&[]).contains(one.split_once('\n').unwrap().1.trim_end()), "{one}");
    let executable = one["// executable @".len()..].split(' ').next().unwrap().to_string();
    assert_eq!(ops(&[&format!("--function={executable}.{name}")]), one);
    // A name of the host's code does not show kernels, and both can be asked for.
    let main = ops(&["--function=mlp"]);
    assert!(main.starts_with("vm.func @mlp(") && !main.contains("// executable"), "{main}");
    let both = ops(&[&format!("--function={name}"), "--function=mlp"]);
    assert_eq!(both, format!("{main}\n{one}"));

    let outcome = dump("vmvx_mlp.vmfb", &["--function=nope"]);
    assert_eq!(outcome.code, 3);
    assert!(outcome.stderr.contains(&format!("@{name}")), "{}", outcome.stderr);
    // Native kernels have none.
    assert!(!dump("mlp.vmfb", &[]).stdout.contains("// executable"));
}

/// Guards that are not proved to cover the accesses that lean on them are left out, which makes code slower. So a pass
/// that makes such guards for any program of the fixtures fails here.
#[test]
fn guards_of_all_fixtures_are_proved() {
    if !has_jit() {
        return;
    }
    let mut count = 0;
    for name in ["models", "bench", "context", "inline", "math", "old", "parameters", "variants"] {
        let folder = folder(&format!("../fixtures/{name}"));
        let files =
            std::fs::read_dir(&folder).expect("the folder is there").map(|entry| entry.expect("it is listed").path());
        let mut files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|extension| extension == "vmfb")).collect();
        files.sort();
        for file in files {
            let file = file.file_name().and_then(|name| name.to_str()).expect("a name of ours").to_string();
            let outcome = vireo(&folder, ["dump", "--jit", file.as_str()]);
            assert_eq!(outcome.code, 0, "{name}/{file}: {}", outcome.stderr);
            assert!(!outcome.stdout.contains("were not proved"), "{name}/{file}:\n{}", outcome.stdout);
            count += outcome.stdout.matches("bytes of machine code").count();
        }
    }
    assert!(count > 100, "only {count} functions have machine code");
}
