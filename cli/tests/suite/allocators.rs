//! `--device_allocator`, with the texts that the tools of the reference runtime read.

use crate::common::{Outcome, folder, vireo};
use crate::tiers::every_tier;

fn run(rest: &[&str]) -> Outcome {
    let flags = ["run", "vmvx_mlp.vmfb", "--input=8x64xf32=0.5", "--output=-"];
    vireo(&folder("../fixtures/models"), flags.iter().chain(rest))
}

#[test]
fn allocators_change_no_results() {
    let expected = run(&[]);
    assert_eq!((expected.code, expected.stderr.as_str()), (0, ""));
    for flags in [
        &["--device_allocator=caching"][..],
        &["--device_allocator=caching:device_local=1gib;*;16", "--device=local-task"],
        &["--device_allocator=debug"],
        &["--device_allocator=caching:*;transfer=;1mib", "--device-allocator", "debug", every_tier()],
        &["--device_allocator=caching", "--untrusted"],
    ] {
        let outcome = run(flags);
        // Debug allocators list nothing: programs free what they allocate.
        let found = (outcome.code, outcome.stdout, outcome.stderr);
        assert_eq!(found, (0, expected.stdout.clone(), String::new()), "{flags:?}");
    }
    let kept = run(&["--device_allocator=caching", "--print_statistics"]).stderr;
    let freed = run(&["--device_allocator=debug", "--print_statistics"]).stderr;
    assert!(kept.contains("            0B freed") && kept != freed, "{kept}{freed}");
}

#[test]
fn allocators_that_cannot_be_made_are_code_2() {
    for (flag, part) in [
        ("--device_allocator=", "`` is no allocator"),
        ("--device_allocator=arena", "`arena` is no allocator: expected `caching`"),
        ("--device_allocator=caching:device_local=1x", "`1x` is no size"),
        ("--device_allocator=caching:host_local", "no heap has host_visible|"),
    ] {
        let outcome = run(&[flag]);
        assert!(outcome.code == 2 && outcome.stderr.contains(part), "{flag}: {}", outcome.stderr);
    }
    let outcome = run(&["--device_allocator=debug", "--untrusted"]);
    assert!(outcome.code == 2 && outcome.stderr.contains("cannot be combined with --untrusted"), "{}", outcome.stderr);
}
