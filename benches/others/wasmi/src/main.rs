//! The programs of `programs.wat`, or of a module in WebAssembly (`--module=FILE`, text or binary), on
//! wasmi, an interpreter: `vireo_bench_harness` has the flags.

use std::process::ExitCode;

use vireo_bench_harness::{Answer, Call, Error, Program, command};
use wasmi::{Engine, Linker, Module, Store, Val};

fn load(program: &Program) -> Result<Call, Error> {
    let engine = Engine::default();
    let module = match &program.module {
        Some(file) => Module::new(&engine, std::fs::read(file)?)?,
        None => Module::new(&engine, include_str!("../../programs.wat"))?,
    };
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module)?;
    let function = instance.get_func(&store, &program.function).ok_or("there is no such function")?;
    let arguments: Vec<Val> = program.input.map(Val::I32).into_iter().collect();
    let mut results = vec![Val::I32(0); function.ty(&store).results().len()];
    Ok(Box::new(move || {
        function.call(&mut store, &arguments, &mut results)?;
        Ok(match results.first() {
            Some(Val::I32(value)) => Answer::I32(*value),
            Some(Val::F32(value)) => Answer::F32(value.to_float()),
            _ => Answer::Nothing,
        })
    }))
}

fn main() -> ExitCode {
    command("wasmi 2", load)
}
