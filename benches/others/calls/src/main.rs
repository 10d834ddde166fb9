//! Calls of small functions from Rust: typed calls of Vireo, the same calls with lists of values, and typed calls of Wasmtime, in turn in one
//! process. It prints the time of a call, the fastest of all rounds, and the ratio of the typed calls.
//!
//! `vireo-bench-calls`; with `--rounds=N` so many rounds of 100,000 calls each.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use vireo::interp::{Limits, Tier};
use vireo::vm::{Context, Function, Module, PassedList, TypedFunction, Value};
use wasmtime::{Instance, Store, TypedFunc, WasmParams, WasmResults};

/// Why there is no time.
type Error = Box<dyn std::error::Error>;

/// The functions as a module of Vireo.
const PROGRAM: &str = "
vm.module @calls version 0
vm.type i32

vm.export @empty
vm.func @empty() -> () {
^bb0:
  vm.return
}

vm.export @increment
vm.func @increment(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32 1
  %i0 = vm.add.i32 %i0, %i1
  vm.return %i0
}

vm.export @abs
vm.func @abs(%i0: i32) -> (i32) {
^bb0:
  %i0 = vm.abs.i32 %i0
  vm.return %i0
}

vm.export @area
vm.func @area(%i0:1: f64, %i2:3: f64) -> (f64) {
^bb0:
  %i0:1 = vm.mul.f64 %i0:1, %i2:3
  vm.return %i0:1
}
";

/// The same functions in WebAssembly.
const WASM: &str = r#"(module
  (func (export "empty"))
  (func (export "increment") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
  (func (export "abs") (param i32) (result i32)
    (select (i32.sub (i32.const 0) (local.get 0)) (local.get 0) (i32.lt_s (local.get 0) (i32.const 0))))
  (func (export "area") (param f64 f64) (result f64) (f64.mul (local.get 0) (local.get 1))))"#;

/// Calls that are timed as one.
const CALLS: u32 = 100_000;

/// Nanoseconds of a call.
fn time(mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..CALLS {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(CALLS))
}

/// The runtimes, with the module loaded.
struct Runtimes {
    context: Context,
    store: Store<()>,
    instance: Instance,
    rounds: usize,
}

impl Runtimes {
    fn new(rounds: usize) -> Result<Runtimes, Error> {
        let limits = Limits { tier: Tier::Compiled, ..Limits::default() };
        let context = Context::with_limits([Module::from_bytes(&vireo::asm::assemble(PROGRAM)?)?], limits)?;
        let mut store = Store::<()>::default();
        let module = wasmtime::Module::new(store.engine(), WASM)?;
        let instance = Instance::new(&mut store, &module, &[])?;
        Ok(Runtimes { context, store, instance, rounds })
    }

    /// Times a function whose arguments are these, and prints a line.
    fn compare<P, R>(&mut self, name: &str, params: P, values: &[Value]) -> Result<(), Error>
    where
        P: PassedList + WasmParams + Copy,
        R: PassedList + WasmResults,
    {
        let untyped: Function = self.context.function(name)?;
        let typed: TypedFunction<P, R> = untyped.typed()?;
        let wasmtime: TypedFunc<P, R> = self.instance.get_typed_func(&mut self.store, name)?;
        let mut results = Vec::new();
        let mut fastest = [f64::INFINITY; 3];
        for _ in 0..self.rounds {
            let times = [
                time(|| Ok(drop(black_box(typed.call(black_box(params))?))))?,
                time(|| Ok(untyped.call_into(black_box(values), &mut results)?))?,
                time(|| Ok(drop(black_box(wasmtime.call(&mut self.store, black_box(params))?))))?,
            ];
            fastest.iter_mut().zip(times).for_each(|(fastest, time)| *fastest = fastest.min(time));
        }
        let [typed, untyped, wasmtime] = fastest;
        println!("{name:<12}{typed:>8.1}{untyped:>12.1}{wasmtime:>12.1}{:>8.2}", typed / wasmtime);
        Ok(())
    }
}

fn run() -> Result<(), Error> {
    let mut rounds = 50;
    for argument in std::env::args().skip(1) {
        let number = argument.strip_prefix("--rounds=").ok_or_else(|| format!("unknown flag {argument}"))?;
        rounds = number.parse()?;
    }
    let mut runtimes = Runtimes::new(rounds)?;
    println!("nanoseconds    typed   call_into    Wasmtime   ratio");
    runtimes.compare::<(), ()>("empty", (), &[])?;
    runtimes.compare::<i32, i32>("increment", 7, &[Value::I32(7)])?;
    runtimes.compare::<i32, i32>("abs", -7, &[Value::I32(-7)])?;
    runtimes.compare::<(f64, f64), f64>("area", (2.5, 4.0), &[Value::F64(2.5), Value::F64(4.0)])
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}
