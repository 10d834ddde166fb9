//! The `vireo` command: runs and inspects IREE programs.
//!
//! [`arguments`] is the command line, [`values`] reads and prints values, [`engine`] and [`devices`] are the only
//! modules that use the runtime to run programs, [`run`], [`benchmark`], [`check`], [`explain`], [`trace`], [`dump`],
//! [`params`], [`replay`], [`profile`] and [`devices`] are the commands. Every failure is a [`failure::Failure`], and
//! ends the process with a code of [`exit`].
#![deny(unsafe_code)]

mod allocators;
mod arguments;
mod assembly;
mod benchmark;
mod check;
pub mod confine;
mod cpu_info;
mod device_profile;
mod devices;
mod dispatch_trace;
mod dump;
mod engine;
mod exit;
mod explain;
mod failure;
mod flags;
mod gpu_code;
mod observers;
mod os_text;
mod parameters;
mod params;
mod print;
mod profile;
mod progress;
mod ptx_code;
mod recording;
mod reference_flags;
mod replay;
mod run;
mod sanitizer;
mod statistics;
mod styles;
mod suggest;
#[cfg(test)]
mod support_matrix;
mod table;
mod task;
mod tiers;
mod time_limit;
mod trace;
mod values;

use std::ffi::OsString;
use std::io;

use anstream::AutoStream;
use clap::{CommandFactory, Parser};

use arguments::{Arguments, Color, Command, Format};
pub use exit::{Exit, exit_code};
use failure::Failure;

/// Does what the arguments of this process say.
pub fn main() -> Exit {
    main_with(std::env::args_os())
}

/// Does what these arguments say, of which the first is the name of the command.
pub fn main_with(arguments: impl IntoIterator<Item = OsString>) -> Exit {
    let arguments = match flags::expand(arguments) {
        Ok(arguments) => flags::without_defaults(arguments),
        Err(failure) => return finish(Err(failure), Color::Auto),
    };
    match Arguments::try_parse_from(&arguments) {
        Ok(arguments) => {
            let result = execute(&arguments);
            // All that the program had is gone by now.
            let recorded = recording::finish();
            let result = result.and_then(|exit| recorded.map(|()| exit));
            let specs = arguments.command.program().map_or(&[][..], |program| &program.device_allocator);
            if let Some(text) = allocators::leaks(specs) {
                print::print_aside(&text);
            }
            let found = sanitizer::finish(arguments.command.program());
            if let (Err(failure), Format::Json) = (&result, arguments.command.format()) {
                print::print_failure_as_json(failure);
            }
            let exit = finish(result, arguments.color);
            found.unwrap_or(exit)
        }
        Err(mut error) => {
            flags::suggest(&mut error);
            if let Some(failure) = flags::not_supported(&error, &arguments) {
                return finish(Err(failure), Color::Auto);
            }
            // Help and version are not errors; clap writes them to stdout and everything else to stderr.
            let exit = if error.use_stderr() { Exit::Usage } else { Exit::Ok };
            let _ = error.print();
            exit
        }
    }
}

fn execute(arguments: &Arguments) -> Result<Exit, Failure> {
    let color = arguments.color;
    match &arguments.command {
        Command::Run(arguments) => run::run(&arguments.run, arguments.format),
        Command::Benchmark(arguments) => benchmark::benchmark(arguments, color),
        Command::Check(check) => check::check(check, color),
        Command::Trace(arguments) => trace::trace(arguments),
        Command::Explain(arguments) => explain::explain(arguments, color),
        Command::Dump(arguments) => dump::dump(arguments, color),
        Command::Asm(arguments) => assembly::assemble(arguments),
        Command::Disasm(arguments) => assembly::disassemble(arguments),
        Command::Params(command) => params::params(command),
        Command::Replay(command) => replay::replay(command, color),
        Command::Profile(command) => profile::profile(command),
        Command::Devices(arguments) => devices::print_devices(arguments, color),
        Command::Cpuinfo(arguments) => print::print(&mut io::stdout(), &cpu_info::cpu_info(arguments.format)),
        Command::Completions { shell } => {
            let mut script = Vec::new();
            clap_complete::generate(*shell, &mut Arguments::command(), "vireo", &mut script);
            print::print_styled(&mut io::stdout(), &String::from_utf8_lossy(&script))
        }
    }
}

fn finish(result: Result<Exit, Failure>, color: Color) -> Exit {
    let failure = match result {
        Ok(exit) => return exit,
        Err(failure) => failure,
    };
    // Nothing is left to do where stderr is closed.
    let _ = failure.report(&mut AutoStream::new(io::stderr(), color.choice()));
    failure.exit
}
