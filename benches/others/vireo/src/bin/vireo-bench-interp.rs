//! Programs of a module (`--module=FILE`) in the interpreter of Vireo: `vireo_bench_harness` has the flags.

use std::process::ExitCode;

use vireo_bench_harness::command;
use vireo_bench_vireo::{Tier, load};

fn main() -> ExitCode {
    command("Vireo, the interpreter", |program| load(program, Tier::Interpreter))
}
