//! Times the programs of `fixtures/bench` once each and prints `name nanoseconds` lines: the least of several calls. What
//! `benches/compare.py` runs in turn with the reference tool.
//!
//! `table [NAME ARGUMENT REPETITIONS]...`

use std::path::PathBuf;
use std::time::Instant;

use vireo::vm::{Context, Module, Value};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/bench/vm.vmfb");
    let context = Context::new([Module::from_file(path).expect("the fixture loads")]).expect("it has no imports");
    for program in arguments.chunks_exact(3) {
        let function = context.function(&format!("bench.{}", program[0])).expect("the fixture exports it");
        let values: Vec<Value> = program[1].parse().ok().map(Value::I32).into_iter().collect();
        let repetitions: u32 = program[2].parse().expect("a number of repetitions");
        // A short call is timed in batches, because looking at the clock takes as long.
        let batch = if values.is_empty() { 1000 } else { 1 };
        let least = (0..repetitions).map(|_| {
            let start = Instant::now();
            for _ in 0..batch {
                std::hint::black_box(function.call(std::hint::black_box(&values)).expect("the program does not trap"));
            }
            start.elapsed().as_nanos() as f64 / f64::from(batch)
        });
        println!("{} {}", program[0], least.fold(f64::INFINITY, f64::min));
    }
}
