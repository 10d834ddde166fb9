//! Loads the files that are given, and says what their kernels need: `cargo run -p vireo-ptx --example load FILE ...`.

use std::process::ExitCode;
use std::time::Instant;

use vireo_ptx::{Module, Options};

fn main() -> ExitCode {
    let mut failed = 0;
    for path in std::env::args().skip(1) {
        let text = match std::fs::read(&path) {
            Ok(text) => text,
            Err(error) => {
                println!("{path}: {error}");
                failed += 1;
                continue;
            }
        };
        let started = Instant::now();
        match Module::load(&text, &Options::default()) {
            Ok(module) => {
                println!("{path}: {} bytes in {:.1} ms", text.len(), started.elapsed().as_secs_f64() * 1e3);
                for kernel in module.kernels() {
                    println!(
                        "  {}: {} instructions, {} rows, {} bytes shared, {} local, {} threads at most",
                        kernel.name(),
                        kernel.instructions(),
                        kernel.registers(),
                        kernel.shared_bytes(),
                        kernel.local_bytes(),
                        kernel.max_threads()
                    );
                }
            }
            Err(error) => {
                println!("{path}: {error}");
                failed += 1;
            }
        }
    }
    ExitCode::from(u8::from(failed > 0))
}
