//! The fuzz targets ([`TARGETS`]): for each reader of hostile input, a function of bytes that must not panic, and the
//! seeds that inputs are made from.
//!
//! `targets` and `gpu` have the functions, `seeds` and `gpu_seeds` the seeds, which come from `fixtures/`; `ptx` has
//! both, and `hosts` the modules of the target `function`. `mutate` damages seeds, for runs without a fuzzer:
//! `tests/short.rs` makes few of them and `examples/mutants.rs` many. The programs in `fuzz_targets/` hand the inputs
//! of libFuzzer to the same functions.

mod gpu;
mod gpu_seeds;
mod hosts;
mod mutate;
mod ptx;
mod seeds;
mod targets;

use std::panic::{AssertUnwindSafe, catch_unwind};

pub use mutate::mutant;
pub use seeds::Seed;

/// The subject of a fuzz target.
pub struct Target {
    /// Its name: that of the program in `fuzz_targets/` and of the folder in `corpus/`.
    pub name: &'static str,
    /// Runs one input.
    ///
    /// # Panics
    /// If the input shows a bug.
    pub run: fn(&[u8]),
    /// The seeds of inputs, always in the same order.
    pub seeds: fn() -> Vec<Seed>,
    /// How many mutants of each seed the test runs, so that it takes a few seconds without optimisation.
    pub mutants: u64,
}

impl Target {
    /// Runs one input. False if that panics, which shows a bug.
    pub fn survives(&self, bytes: &[u8]) -> bool {
        catch_unwind(AssertUnwindSafe(|| (self.run)(bytes))).is_ok()
    }
}

/// All targets.
pub const TARGETS: [Target; 16] = [
    Target { name: "archive", run: targets::archive, seeds: seeds::archives, mutants: 3000 },
    Target { name: "assembler", run: targets::assembler, seeds: seeds::texts, mutants: 4 },
    Target { name: "collection", run: targets::collection, seeds: seeds::collections, mutants: 200 },
    Target { name: "elf", run: targets::elf, seeds: seeds::libraries, mutants: 500 },
    Target { name: "function", run: targets::function, seeds: seeds::functions, mutants: 4 },
    Target { name: "gpu_code", run: gpu::code, seeds: gpu_seeds::codes, mutants: 20 },
    Target { name: "gpu_executable", run: gpu::executable, seeds: gpu_seeds::executables, mutants: 300 },
    Target { name: "gpu_object", run: gpu::object, seeds: gpu_seeds::objects, mutants: 200 },
    Target { name: "gpu_packets", run: gpu::packets, seeds: gpu_seeds::packets, mutants: 100 },
    Target { name: "gpu_text", run: ptx::text, seeds: ptx::texts, mutants: 200 },
    Target { name: "kernel", run: targets::kernel, seeds: seeds::kernels, mutants: 1 },
    Target { name: "module", run: targets::module, seeds: seeds::modules, mutants: 1 },
    Target { name: "npy", run: targets::npy, seeds: seeds::arrays, mutants: 100 },
    Target { name: "profile", run: targets::profile, seeds: seeds::profiles, mutants: 30 },
    Target { name: "replay", run: targets::replay, seeds: seeds::captures, mutants: 20 },
    Target { name: "program", run: targets::program, seeds: seeds::programs, mutants: 1 },
];

/// The target of a name.
///
/// # Panics
/// If there is none.
pub fn target(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).unwrap_or_else(|| {
        let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
        panic!("there is no target `{name}`; there are {}", names.join(", "))
    })
}
