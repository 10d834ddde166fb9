//! The programs of `programs.wat`, or of a module in WebAssembly (`--module=FILE`, text or binary), on
//! Wasmtime, compiled by Cranelift: `vireo_bench_harness` has the flags.
//!
//! Guard pages check accesses to memory, which is Wasmtime's default.

use std::process::ExitCode;

use vireo_bench_harness::{Answer, Call, Error, Program, command};
use wasmtime::{Config, Engine, Instance, Module, OptLevel, Store, Strategy};

fn load(program: &Program) -> Result<Call, Error> {
    let mut config = Config::new();
    config.strategy(Strategy::Cranelift).cranelift_opt_level(OptLevel::Speed);
    let engine = Engine::new(&config)?;
    let module = match program.module() {
        Some(file) => Module::new(&engine, std::fs::read(file)?)?,
        None => Module::new(&engine, include_str!("../../programs.wat"))?,
    };
    let mut store = Store::new(&engine, ());
    let instance = Instance::new(&mut store, &module, &[])?;
    let function = instance.get_func(&mut store, &program.function).ok_or("there is no such function")?;
    // Calls with the types known in advance are the fast ones.
    let Some(input) = program.input else {
        let function = function.typed::<(), ()>(&store)?;
        return Ok(Box::new(move || {
            function.call(&mut store, ())?;
            Ok(Answer::Nothing)
        }));
    };
    if let Ok(function) = function.typed::<i32, f32>(&store) {
        return Ok(Box::new(move || Ok(Answer::F32(function.call(&mut store, input)?))));
    }
    let function = function.typed::<i32, i32>(&store)?;
    Ok(Box::new(move || Ok(Answer::I32(function.call(&mut store, input)?))))
}

fn main() -> ExitCode {
    command("Wasmtime 48, Cranelift", load)
}
