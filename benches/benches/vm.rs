//! The VM from file to result: load (which decodes and verifies), context creation, and the programs of `fixtures/bench`.
//!
//! `cargo bench -p vireo-benches`, or one of them by name: `cargo bench -p vireo-benches -- fib`.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, criterion_group, criterion_main};
use vireo::vm::{Context, Module, Value};

/// The programs and the argument each is called with; `None` for one without arguments.
const PROGRAMS: [(&str, Option<i32>); 7] = [
    ("empty", None),
    ("loop", Some(1_000_000)),
    ("fib", Some(25)),
    ("internal_call", Some(100_000)),
    ("buffer_reduce", Some(100_000)),
    ("matmul", Some(64)),
    ("sieve", Some(100_000)),
];

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(path)
}

fn programs(criterion: &mut Criterion) {
    let module = Module::from_file(fixture("bench/vm.vmfb")).expect("the fixture loads");
    let context = Context::new([module]).expect("the fixture has no imports");
    let mut group = criterion.benchmark_group("run");
    group.sample_size(20);
    for (name, argument) in PROGRAMS {
        let function = context.function(&format!("bench.{name}")).expect("the fixture exports it");
        let arguments: Vec<Value> = argument.map(Value::I32).into_iter().collect();
        group.bench_function(name, |bencher| {
            bencher.iter(|| function.call(black_box(&arguments)).expect("the program does not trap"));
        });
    }
    group.finish();
}

fn loading(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("load");
    for name in ["bench/vm.vmfb", "models/abs.vmfb", "models/dynamic_mlp.vmfb"] {
        let bytes = std::fs::read(fixture(name)).expect("the fixture exists");
        group.bench_function(name, |bencher| bencher.iter(|| Module::from_bytes(black_box(&bytes)).expect("it loads")));
    }
    group.finish();
    let module = Module::from_file(fixture("bench/vm.vmfb")).expect("the fixture loads");
    criterion.bench_function("context", |bencher| {
        bencher.iter(|| Context::new([black_box(&module).clone()]).expect("the fixture has no imports"));
    });
}

criterion_group!(benches, programs, loading);
criterion_main!(benches);
