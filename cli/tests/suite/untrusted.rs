//! `--untrusted` and the limits that flags set.

use crate::common::{Outcome, folder, vireo};
use crate::tiers::every_tier;

fn run(arguments: &[&str]) -> Outcome {
    vireo(&folder("../fixtures/models"), arguments)
}

const PORTABLE: [&str; 4] = ["run", "--module=vmvx_softmax.vmfb", "--input=4x37xf32=1", "--device=local-sync"];

#[test]
fn kernels_in_portable_bytecode_run_as_they_do_without_it() {
    let dump = run(&["dump", "--output=metadata", "vmvx_softmax.vmfb"]);
    assert_eq!(dump.code, 0, "{}", dump.stderr);
    let trusted = run(&PORTABLE);
    for more in [&["--untrusted"][..], &["--untrusted", every_tier()], &["--untrusted", "--device=local-task"]] {
        let untrusted = run(&[&PORTABLE[..], more].concat());
        assert_eq!((untrusted.code, &untrusted.stdout), (trusted.code, &trusted.stdout), "{}", untrusted.stderr);
    }
}

#[test]
fn native_kernels_are_refused_with_what_to_do() {
    for command in ["run", "benchmark"] {
        let outcome = run(&[command, "--untrusted", "--module=abs.vmfb", "--function=abs", "--input=f32=-2"]);
        assert_ne!(outcome.code, 0, "{}", outcome.stdout);
        let hint = "hint: the policy of --untrusted is why: it allows no machine code";
        assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
    }
}

#[test]
fn plugins_are_refused_before_they_are_loaded() {
    for (flag, what) in [("--driver_plugin", "driver library"), ("--executable_plugin", "executable plugin")] {
        let plugin = format!("{flag}=/nonexistent.so");
        let outcome = run(&["run", "--untrusted", "--module=abs.vmfb", "--input=f32=-2", &plugin]);
        let cause = format!(
            "PERMISSION_DENIED: the security policy allows no machine code, which {what} `/nonexistent.so` would be"
        );
        assert!(outcome.code != 0 && outcome.stderr.contains(&cause), "{}", outcome.stderr);
    }
}

#[test]
fn limits_can_be_set_by_themselves() {
    let tight = run(&["run", "--module=abs.vmfb", "--input=f32=-2", "--max_memory_bytes=1000"]);
    assert!(tight.code != 0 && tight.stderr.contains("of at most 1,000"), "{}", tight.stderr);
    let bench = vireo(
        &folder("../fixtures/bench"),
        ["run", "--module=vm.vmfb", "--function=loop", "--input=2000000000", "--timeout=0.05", "--tier=interp"],
    );
    assert!(bench.code != 0 && bench.stderr.contains("DEADLINE_EXCEEDED"), "{}{}", bench.stdout, bench.stderr);
    let wrong = run(&["run", "--module=abs.vmfb", "--timeout=0"]);
    assert!(wrong.code == 2 && wrong.stderr.contains("expected seconds above zero"), "{}", wrong.stderr);
}

#[cfg_attr(not(target_os = "linux"), ignore = "the software agent reserves addresses as Linux does")]
#[test]
fn programs_for_gpus_are_refused_by_the_policy() {
    let flags = ["--device=amdgpu", "--amdgpu_agent=software", "--input=37x130xf32"];
    let program = ["run", "--untrusted", "gfx1100/reductions.vmfb", "--function=main"];
    let outcome = vireo(&folder("../fixtures/gpu"), program.iter().chain(&flags));
    assert_eq!(outcome.code, 3, "{}", outcome.stderr);
    let hint = "hint: the policy of --untrusted is why: it allows no machine code, neither of processors nor of GPUs";
    assert!(outcome.stderr.contains(hint), "{}", outcome.stderr);
}
