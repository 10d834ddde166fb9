//! Benchmarks of the VM, from file to result: decoding and verification by themselves, module load (which does both),
//! context creation, the programs of `fixtures/bench`, and calls of imports.
//!
//! `cargo bench -p vireo-benches`, or one of them by name: `cargo bench -p vireo-benches -- fib`.

use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use vireo::bytecode::{FunctionInfo, ModuleInfo, Rules, VerifiedFunction, steps, verify_function};
use vireo::vm::{Context, Convention, Module, Value};
use vireo::vmfb::Archive;
use vireo::{Result, vm_module};

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

/// The module with the import `native.increment`.
struct Native;

#[vm_module(name = "native", version = 0)]
impl Native {
    #[vm_export("increment")]
    fn increment(&self, value: i32) -> Result<i32> {
        Ok(value.wrapping_add(1))
    }
}

/// A hundred thousand calls of a function of another module: one in Rust, one in bytecode.
fn imports(criterion: &mut Criterion) {
    const CALLS: i32 = 100_000;
    let module = |name: &str| Module::from_file(fixture(name)).expect("the fixture loads");
    let native = Module::native(Native).expect("the exports are sound");
    let modules = [native, module("bench/callee.vmfb"), module("bench/imports.vmfb")];
    let context = Context::new(modules).expect("the imports are there");
    let mut group = criterion.benchmark_group("import");
    group.sample_size(20).throughput(Throughput::Elements(CALLS as u64));
    for name in ["native_call", "bytecode_call"] {
        let function = context.function(&format!("imports.{name}")).expect("the fixture exports it");
        group.bench_function(name, |bencher| {
            bencher.iter(|| function.call(black_box(&[Value::I32(CALLS)])).expect("the program does not trap"));
        });
    }
    group.finish();
}

/// Decoding and verification of all functions of a module, each by itself.
fn steps(criterion: &mut Criterion) {
    for name in ["bench/vm.vmfb", "models/dynamic_mlp.vmfb"] {
        let archive = Archive::open(fixture(name)).expect("the fixture exists");
        let functions: Vec<_> = archive.functions().collect();
        let convention = |text: &str| text.parse::<Convention>().expect("the fixture loads");
        let conventions: Vec<_> = functions.iter().map(|function| convention(function.convention())).collect();
        let imports: Vec<_> = archive.imports().map(|import| convention(import.convention)).collect();
        let (global_bytes, global_refs) = archive.globals();
        let module = ModuleInfo {
            global_bytes: global_bytes as u64,
            global_refs: global_refs as u32,
            types: archive.types().len() as u32,
            rodata: archive.rodata().len() as u32,
            imports: &imports,
            functions: &conventions,
        };
        let infos: Vec<(&[u8], FunctionInfo<'_>)> = (0..)
            .zip(functions.iter().zip(&conventions))
            .map(|(ordinal, (function, convention))| {
                let (slots, refs, blocks) = (function.slots, function.refs, function.blocks);
                let features = function.requirements.0;
                let rules = Rules::default();
                let info = FunctionInfo { ordinal, convention, slots, refs, blocks, features, rules };
                (&archive.bytecode()[function.code.clone()], info)
            })
            .collect();
        let bytes = infos.iter().map(|(code, _)| code.len() as u64).sum();
        let verified: Vec<VerifiedFunction> =
            infos.iter().map(|(code, info)| verify_function(code, info, &module).expect("the fixture loads")).collect();

        let mut group = criterion.benchmark_group("decode");
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for (code, info) in &infos {
                    black_box(steps::decode(black_box(code), info).expect("the fixture loads"));
                }
            });
        });
        group.finish();
        let mut group = criterion.benchmark_group("verify");
        group.throughput(Throughput::Bytes(bytes));
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for ((_, info), verified) in infos.iter().zip(&verified) {
                    steps::verify_again(black_box(verified), info, &module).expect("the fixture loads");
                }
            });
        });
        group.finish();
    }
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

criterion_group!(benches, programs, imports, steps, loading);
criterion_main!(benches);
