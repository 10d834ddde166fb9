//! Calls of small functions from Rust: typed calls of Vireo, in machine code and in the interpreter, the same calls
//! with lists of values, and typed calls of Wasmtime and wasmi, in turn in one process; and, as the last row, calls of
//! a function in Rust from a program. It prints the time of a call, the fastest of all rounds, and the ratios of the
//! typed calls.
//!
//! `vireo-bench-calls`; with `--rounds=N` so many rounds of 100,000 calls each.

use std::hint::black_box;
use std::process::ExitCode;
use std::time::Instant;

use vireo::interp::{Limits, Tier};
use vireo::vm::{Context, Function, Module, PassedList, TypedFunction, Value};
use vireo::vm_module;

/// Why there is no time.
type Error = Box<dyn std::error::Error>;

/// The functions as a module of Vireo.
const PROGRAM: &str = r#"
vm.module @calls version 0
vm.type i32
vm.import @host.increment cconv "0i_i"

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

vm.export @import
vm.func @import(%i0: i32) -> (i32) {
^bb0:
  %i1 = vm.const.i32.zero
  vm.br ^bb1()
^bb1:
  %i1 = vm.call @host.increment(%i1)
  %i2 = vm.cmp.lt.i32.s %i1, %i0
  vm.cond_br %i2, ^bb1(), ^bb2()
^bb2:
  vm.return %i1
}
"#;

/// The same functions in WebAssembly.
const WASM: &str = r#"(module
  (import "host" "increment" (func $increment (param i32) (result i32)))
  (func (export "import") (param $n i32) (result i32)
    (local $i i32)
    (loop $again
      (local.set $i (call $increment (local.get $i)))
      (br_if $again (i32.lt_s (local.get $i) (local.get $n))))
    (local.get $i))
  (func (export "empty"))
  (func (export "increment") (param i32) (result i32) (i32.add (local.get 0) (i32.const 1)))
  (func (export "abs") (param i32) (result i32)
    (select (i32.sub (i32.const 0) (local.get 0)) (local.get 0) (i32.lt_s (local.get 0) (i32.const 0))))
  (func (export "area") (param f64 f64) (result f64) (f64.mul (local.get 0) (local.get 1))))"#;

/// Calls that are timed as one.
const CALLS: u32 = 100_000;

/// The function that programs import.
fn increment(value: i32) -> i32 {
    black_box(value).wrapping_add(1)
}

struct Host;

#[vm_module(name = "host", version = 0)]
impl Host {
    #[vm_export("increment")]
    fn increment(&self, value: i32) -> vireo::Result<i32> {
        Ok(increment(value))
    }
}

/// Nanoseconds of each of `calls` calls.
fn time(calls: u32, mut call: impl FnMut() -> Result<(), Error>) -> Result<f64, Error> {
    let start = Instant::now();
    for _ in 0..calls {
        call()?;
    }
    Ok(start.elapsed().as_secs_f64() * 1e9 / f64::from(calls))
}

/// The runtimes, with the module loaded.
struct Runtimes {
    compiled: Context,
    interpreted: Context,
    wasmtime: (wasmtime::Store<()>, wasmtime::Instance),
    wasmi: (wasmi::Store<()>, wasmi::Instance),
    rounds: usize,
}

impl Runtimes {
    fn new(rounds: usize) -> Result<Runtimes, Error> {
        let program = Module::from_bytes(&vireo::asm::assemble(PROGRAM)?)?;
        let context = |tier| {
            let modules = [Module::native(Host)?, program.clone()];
            Context::with_limits(modules, Limits { tier, ..Limits::default() })
        };
        let mut store = wasmtime::Store::<()>::default();
        let module = wasmtime::Module::new(store.engine(), WASM)?;
        let mut linker = wasmtime::Linker::new(store.engine());
        linker.func_wrap("host", "increment", increment)?;
        let wasmtime = (linker.instantiate(&mut store, &module)?, store);
        let mut store = wasmi::Store::<()>::default();
        let module = wasmi::Module::new(store.engine(), WASM)?;
        let mut linker = wasmi::Linker::new(store.engine());
        linker.func_wrap("host", "increment", increment)?;
        let wasmi = (linker.instantiate_and_start(&mut store, &module)?, store);
        Ok(Runtimes {
            compiled: context(Tier::Compiled)?,
            interpreted: context(Tier::Interpreter)?,
            wasmtime: (wasmtime.1, wasmtime.0),
            wasmi: (wasmi.1, wasmi.0),
            rounds,
        })
    }

    /// Times a function whose arguments are these, and prints a line. Each call stands for `each` of what is timed.
    fn compare<P, R>(&mut self, name: &str, params: P, values: &[Value], each: u32) -> Result<(), Error>
    where
        P: PassedList + wasmtime::WasmParams + wasmi::WasmParams + Copy,
        R: PassedList + wasmtime::WasmResults + wasmi::WasmResults,
    {
        let untyped: Function = self.compiled.function(name)?;
        let typed: TypedFunction<P, R> = untyped.typed()?;
        let interpreted: TypedFunction<P, R> = self.interpreted.function(name)?.typed()?;
        let (store, instance) = &mut self.wasmtime;
        let wasmtime: wasmtime::TypedFunc<P, R> = instance.get_typed_func(&mut *store, name)?;
        let (wasmi_store, instance) = &mut self.wasmi;
        let wasmi: wasmi::TypedFunc<P, R> = instance.get_typed_func(&*wasmi_store, name)?;
        let mut results = Vec::new();
        let mut fastest = [f64::INFINITY; 5];
        let calls = CALLS / each;
        for _ in 0..self.rounds {
            let times = [
                time(calls, || Ok(drop(black_box(typed.call(black_box(params))?))))?,
                time(calls, || Ok(drop(black_box(interpreted.call(black_box(params))?))))?,
                time(calls, || Ok(untyped.call_into(black_box(values), &mut results)?))?,
                time(calls, || Ok(drop(black_box(wasmtime.call(&mut *store, black_box(params))?))))?,
                time(calls, || Ok(drop(black_box(wasmi.call(&mut *wasmi_store, black_box(params))?))))?,
            ];
            fastest.iter_mut().zip(times).for_each(|(fastest, time)| *fastest = fastest.min(time / f64::from(each)));
        }
        let [typed, interpreted, untyped, wasmtime, wasmi] = fastest;
        println!(
            "{name:<12}{typed:>8.1}{interpreted:>8.1}{untyped:>12.1}{wasmtime:>12.1}{:>8.2}{wasmi:>10.1}{:>8.2}",
            typed / wasmtime,
            interpreted / wasmi
        );
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
    println!("nanoseconds      jit  interp   call_into    Wasmtime   ratio     wasmi   ratio");
    runtimes.compare::<(), ()>("empty", (), &[], 1)?;
    runtimes.compare::<i32, i32>("increment", 7, &[Value::I32(7)], 1)?;
    runtimes.compare::<i32, i32>("abs", -7, &[Value::I32(-7)], 1)?;
    runtimes.compare::<(f64, f64), f64>("area", (2.5, 4.0), &[Value::F64(2.5), Value::F64(4.0)], 1)?;
    // A loop of calls of the import.
    runtimes.compare::<i32, i32>("import", 1000, &[Value::I32(1000)], 1000)
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
