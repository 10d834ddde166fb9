//! The fuzz target of the JIT: the input is the sequence of decisions of the generator of random programs, so every input is a valid program,
//! and mutations change its behaviour. Both dispatchers of the interpreter and machine code must do the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vireo::asm::assemble;

#[path = "../../runtime/tests/support/programs.rs"]
mod programs;
#[path = "../../runtime/tests/support/ways.rs"]
mod ways;

fuzz_target!(|bytes: &[u8]| {
    let text = programs::program(&mut programs::Bytes(bytes), None);
    let module = assemble(&text).unwrap_or_else(|error| panic!("{error}\n{text}"));
    match ways::run_all_ways(&module) {
        Ok(Ok(_)) => {}
        Ok(Err(difference)) => panic!("{difference}\n{text}"),
        Err(status) => panic!("{status}\n{text}"),
    }
});
