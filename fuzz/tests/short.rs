//! A short run of each fuzz target, without a fuzzer: all of its seeds, and the first mutants of each. Inputs are the
//! same in every run.

use std::collections::BTreeSet;
use std::path::Path;

use vireo_fuzz::{TARGETS, mutant, target};

/// The names of the tests below.
macro_rules! short_runs {
    ($($name:ident),*) => {
        $(#[test]
        fn $name() {
            short_run(stringify!($name));
        })*

        const TESTED: &[&str] = &[$(stringify!($name)),*];
    };
}

short_runs!(
    archive,
    assembler,
    collection,
    elf,
    function,
    gpu_code,
    gpu_executable,
    gpu_object,
    gpu_packets,
    gpu_text,
    kernel,
    module,
    npy,
    profile,
    program,
    replay
);

fn short_run(name: &str) {
    let target = target(name);
    let seeds = (target.seeds)();
    assert!(seeds.len() >= 4, "{} seeds", seeds.len());
    for seed in &seeds {
        assert!(target.survives(&seed.bytes), "the seed {} failed", seed.name);
    }
    let mutants = target.mutants * seeds.len() as u64;
    for number in 0..mutants {
        let (seed, bytes) = mutant(&seeds, number);
        assert!(
            target.survives(&bytes),
            "mutant {number} of {} failed; `cargo run --release -p vireo-fuzz --example mutants {name} 0 {number}` repeats it",
            seed.name
        );
    }
    println!("{} seeds and {mutants} mutants", seeds.len());
}

#[test]
fn every_target_is_tested_and_has_a_program() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_string()).collect();
    assert_eq!(names, TESTED.iter().map(ToString::to_string).collect());
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz_targets");
    let programs = folder.read_dir().expect("the programs").map(|entry| entry.expect("an entry").path());
    let programs = programs.map(|path| path.file_stem().expect("a name").to_string_lossy().into_owned());
    assert_eq!(names, programs.collect());
}

/// Each format for which there is a reader is among the seeds, and is accepted.
#[test]
fn seeds_have_all_formats() {
    let names = |name: &str| (target(name).seeds)().into_iter().map(|seed| seed.name).collect::<Vec<_>>().join("\n");
    for (name, expected) in [
        ("archive", &["weights.irpa", "weights.gguf", "weights.safetensors"][..]),
        ("collection", &["tensors.npz", "tensors.safetensors", "deflated.npz"]),
        ("elf", &["kernels.so", "models-aarch64_mlp.vmfb", "models-mlp.vmfb"]),
        ("gpu_code", &["gfx1100-softmax.vmfb", "amdgpu-kernels_gfx1100.hsaco"]),
        ("gpu_executable", &["amdgpu-kernels_gfx942.amd1", "amdgpu-kernels_gfx1100.hsaco", "gfx1100-softmax.vmfb"]),
        ("gpu_object", &["amdgpu-kernels_gfx1100.hsaco", "gfx1100-softmax.vmfb"]),
        ("gpu_packets", &["dispatch", "barriers", "commands"]),
        ("gpu_text", &["many_instructions", "product"]),
        ("module", &["3.1-abs.cpu.vmfb", "models-mlp.vmfb", "golden-ref.vmfb"]),
        ("npy", &["inputs-", "bf16", "columns"]),
        ("profile", &["abs.ireeprof", "contents.ireeprof", "joined.ireeprof"]),
        ("replay", &["replay-abs", "runs-softmax", "runs-calls_bytecode"]),
    ] {
        let names = names(name);
        for part in expected {
            assert!(names.contains(part), "no seed of `{name}` is {part}:\n{names}");
        }
    }
}
