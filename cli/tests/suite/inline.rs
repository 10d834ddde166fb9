//! Programs that are compiled in special ways: such that need no device, kernels that need an executable plugin,
//! kernels for several machines. That this package depends on the example plugin makes cargo build its library.

use crate::common::{example_library, folder, vireo};
use crate::skip::{Need, skipped};

fn run(program: &str, function: &str, input: &str) -> String {
    let (module, function) = (format!("--module={program}.vmfb"), format!("--function={function}"));
    let outcome = vireo(&folder("../fixtures/inline"), ["run", &module, &function, &format!("--input={input}")]);
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    outcome.stdout
}

/// The programs that this host can run: kernels of the processor, kernels in bytecode, and kernels that are
/// part of the program.
fn programs() -> impl Iterator<Item = &'static str> {
    let has_kernels = cfg!(target_arch = "x86_64");
    if !has_kernels {
        skipped(Need::Platform("x86_64"), "the kernels of `loader` are for x86-64");
    }
    ["loader", "loader_vmvx", "inline"].into_iter().filter(move |name| has_kernels || *name != "loader")
}

#[test]
fn results_are_those_of_reference_tools() {
    for (function, input) in [("abs", "4xf32=-1,2,-0,-nan"), ("layer", "3x3xf32=1,2,3,-4,5,-6,7,8,9")] {
        let expected = std::fs::read_to_string(folder("../fixtures/inline").join(format!("{function}.txt"))).unwrap();
        for program in programs() {
            assert_eq!(run(program, function, input), expected, "{program}");
        }
    }
}

#[test]
fn variables_are_wrapped() {
    for program in programs() {
        let results = run(program, "accumulate", "4xi32=1,-2,3,4");
        let expected =
            "EXEC @accumulate\nresult[0]: hal.buffer_view\n4xi32=1 -2 3 4\nresult[1]: hal.buffer_view\n2xi32=-2 3\n";
        assert_eq!(results, expected, "{program}");
    }
}

#[test]
fn kernels_call_executable_plugins() {
    let plugin = example_library("vireo_executable_plugin");
    let file = if cfg!(target_arch = "aarch64") { "program_arm_64.vmfb" } else { "program.vmfb" };
    let program = ["run", file, "--function=scale_and_add", "--input=4xf32=1,2,3,4", "--input=0.5"];
    let flag = format!("--executable_plugin={}", plugin.display());
    let folder = folder("../fixtures/plugin");
    let outcome = vireo(&folder, [&program[..], &[flag.as_str()]].concat());
    let expected = "EXEC @scale_and_add\nresult[0]: hal.buffer_view\n4xf32=1.5 3 4.5 6\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, expected), "{}", outcome.stderr);
    let without = vireo(&folder, program);
    assert!(without.code != 0 && without.stderr.contains("imports `vireo_example_scale`"), "{}", without.stderr);
    let wrong = vireo(&folder, [&program[..], &["--executable_plugin=program.mlir"]].concat());
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    assert!(wrong.stderr.starts_with("error: cannot load an executable plugin\n"), "{}", wrong.stderr);
}

#[test]
fn the_first_variant_that_can_be_loaded_is_taken() {
    let run = |program: &str| {
        let module = format!("--module={program}.vmfb");
        vireo(&folder("../fixtures/variants"), ["run", &module, "--function=twice", "--input=4xf32=1,2,3,4"])
    };
    for program in ["machines", "portable"] {
        let outcome = run(program);
        let expected = "EXEC @twice\nresult[0]: hal.buffer_view\n4xf32=2 4 6 8\n";
        assert_eq!(outcome.stdout, expected, "{program}: {}", outcome.stderr);
    }
    if cfg!(target_arch = "aarch64") {
        return skipped(Need::Platform("x86_64"), "the kernels of `foreign` are for 64-bit Arm");
    }
    let foreign = run("foreign");
    assert_eq!(foreign.code, 3, "{}", foreign.stderr);
    assert!(foreign.stderr.contains("not found or unavailable"), "{}", foreign.stderr);
    assert!(foreign.stderr.contains("embedded-elf-arm_64"), "{}", foreign.stderr);
}
