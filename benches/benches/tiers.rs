//! Benchmarks of the two tiers, interpreter and machine code, on the programs of `fixtures/bench` and on whole calls of
//! small networks, without limits and with fuel: a group for each workload, with plots in
//! `target/criterion/report/index.html`.
//!
//! `cargo bench -p vireo-benches --bench tiers`, or one of them by name:
//! `cargo bench -p vireo-benches --bench tiers -- fib`.

use std::hint::black_box;
use std::path::PathBuf;
use std::sync::Arc;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vireo::hal::{BufferView, BuiltinOptions};
use vireo::interp::{Limits, Tier};
use vireo::modules::hal::HalModule;
use vireo::vm::{Context, Module, Value};
use vireo::{Fuel, Result, SecurityPolicy};

/// The tiers, each without limits and with fuel, which never runs out.
const TIERS: [(&str, Tier, bool); 4] = [
    ("interp", Tier::Interpreter, false),
    ("interp with fuel", Tier::Interpreter, true),
    ("jit", Tier::Compiled, false),
    ("jit with fuel", Tier::Compiled, true),
];

/// A program: its name, its argument, and how many steps a call makes.
const PROGRAMS: [(&str, Option<i32>, u64); 7] = [
    ("empty", None, 1),
    ("loop", Some(1_000_000), 1_000_000),
    ("fib", Some(25), 242_785),
    ("internal_call", Some(100_000), 100_000),
    ("buffer_reduce", Some(100_000), 100_000),
    ("matmul", Some(64), 64 * 64 * 64),
    ("sieve", Some(100_000), 100_000),
];

/// A network: the file in `fixtures/models`, its function, and the shape of its only input.
const NETWORKS: [(&str, &str, &[u64]); 4] = [
    // One native kernel for one number: what is compared is the host's part.
    ("abs", "abs", &[]),
    // Kernels in portable bytecode.
    ("vmvx_mlp", "mlp", &[8, 64]),
    ("vmvx_softmax", "softmax", &[4, 37]),
    ("vmvx_layernorm", "layernorm", &[3, 384]),
];

fn fixture(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures").join(path)
}

fn limits(tier: Tier, has_fuel: bool) -> Limits {
    Limits { tier, fuel: has_fuel.then(|| Fuel::new(u64::MAX)), ..Limits::default() }
}

/// Machine code belongs to a module, so each tier has one of its own.
fn programs(criterion: &mut Criterion) {
    let context = |limits| {
        let module = Module::from_file(fixture("bench/vm.vmfb"))?;
        Context::with_limits([module], limits)
    };
    let contexts = TIERS
        .map(|(name, tier, has_fuel)| (name, context(limits(tier, has_fuel)).expect("the fixture has no imports")));
    for (name, argument, steps) in PROGRAMS {
        let mut group = criterion.benchmark_group(format!("interp vs jit/{name}"));
        group.sample_size(20).throughput(Throughput::Elements(steps));
        let arguments: Vec<Value> = argument.map(Value::I32).into_iter().collect();
        for (tier, context) in &contexts {
            let function = context.function(&format!("bench.{name}")).expect("the fixture exports it");
            group.bench_function(*tier, |bencher| {
                bencher.iter(|| function.call(black_box(&arguments)).expect("the program does not trap"));
            });
        }
        group.finish();
    }
}

/// A network and the tensor it is called with, in a program whose kernels are run by the same tier as the rest.
fn network(file: &str, shape: &[u64], limits: Limits) -> Result<(Context, Value)> {
    let policy = SecurityPolicy { limits: limits.clone(), ..SecurityPolicy::trusted() };
    let registry = BuiltinOptions { policy, ..BuiltinOptions::default() }.registry();
    let device = registry.create_device("local-sync://")?;
    let count = shape.iter().product::<u64>() as u16;
    let elements: Vec<f32> = (0..count).map(|index| f32::from(index % 17) * 0.25 - 2.0).collect();
    let input = BufferView::from_slice(&*device, shape, &elements)?;
    let hal = Module::native(HalModule::new(vec![Arc::clone(&device)]))?;
    let module = Module::from_file(fixture(&format!("models/{file}.vmfb")))?;
    Ok((Context::with_limits([hal, module], limits)?, input.into_ref().into()))
}

fn networks(criterion: &mut Criterion) {
    for (file, name, shape) in NETWORKS {
        let mut group = criterion.benchmark_group(format!("interp vs jit/{file}"));
        group.sample_size(20);
        for (label, tier, has_fuel) in TIERS {
            let (context, input) = network(file, shape, limits(tier, has_fuel)).expect("the fixture loads");
            let function = context.function(&format!("module.{name}")).expect("the fixture exports it");
            let arguments = [input];
            group.bench_function(label, |bencher| {
                bencher.iter(|| function.call(black_box(&arguments)).expect("the network runs"));
            });
        }
        group.finish();
    }
}

criterion_group!(benches, programs, networks);
criterion_main!(benches);
