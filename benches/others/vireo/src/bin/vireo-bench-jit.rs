//! Programs of a module (`--module=FILE`) in machine code of Vireo: `vireo_bench_harness` has the flags.

use std::process::ExitCode;

use vireo_bench_harness::command;
use vireo_bench_vireo::{Tier, load};

fn main() -> ExitCode {
    command("Vireo, machine code", |program| load(program, Tier::Compiled))
}
