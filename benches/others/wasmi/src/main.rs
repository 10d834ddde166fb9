//! The programs of `programs.wat`, or of a module in WebAssembly (`--module=FILE`, text or binary), on
//! wasmi, an interpreter: `vireo_bench_harness` has the flags.

use std::process::ExitCode;

use vireo_bench_harness::{Answer, Call, Error, Program, command};
use wasmi::{Engine, F32, Linker, Module, Store};

fn load(program: &Program) -> Result<Call, Error> {
    let engine = Engine::default();
    let module = match program.module() {
        Some(file) => Module::new(&engine, std::fs::read(file)?)?,
        None => Module::new(&engine, include_str!("../../programs.wat"))?,
    };
    let mut store = Store::new(&engine, ());
    let instance = Linker::new(&engine).instantiate_and_start(&mut store, &module)?;
    let function = instance.get_func(&store, &program.function).ok_or("there is no such function")?;
    // Calls with the types known in advance are the fast ones.
    let Some(input) = program.input else {
        let function = function.typed::<(), ()>(&store)?;
        return Ok(Box::new(move || {
            function.call(&mut store, ())?;
            Ok(Answer::Nothing)
        }));
    };
    if let Ok(function) = function.typed::<i32, F32>(&store) {
        return Ok(Box::new(move || Ok(Answer::F32(function.call(&mut store, input)?.to_float()))));
    }
    let function = function.typed::<i32, i32>(&store)?;
    Ok(Box::new(move || Ok(Answer::I32(function.call(&mut store, input)?))))
}

fn main() -> ExitCode {
    command("wasmi 2", load)
}
