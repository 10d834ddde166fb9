//! A host that runs Vireo as a WebAssembly module in Wasmtime: the build of `examples/anywhere` for `wasm32-wasip1`.
//!
//! The module is a sandbox around the whole runtime. It sees one folder of the host, read-only, as `/`, has a clock,
//! and gets no more memory than [`MAX_MEMORY`]; what it prints is collected.

use std::path::Path;

use wasmtime::{Engine, Linker, Module, Result, Store, StoreLimits, StoreLimitsBuilder};
use wasmtime_wasi::p1::{self, WasiP1Ctx};
use wasmtime_wasi::p2::pipe::MemoryOutputPipe;
use wasmtime_wasi::{FsPerms, I32Exit, WasiCtxBuilder};

/// Most bytes of memory that a program gets.
pub const MAX_MEMORY: usize = 1 << 30;
/// Most bytes that a program may print.
pub const MAX_OUTPUT: usize = 1 << 20;

/// A compiled program.
pub struct Program {
    engine: Engine,
    module: Module,
}

/// The result of a run of a program.
#[derive(Debug)]
pub struct Outcome {
    /// The exit code.
    pub code: i32,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error.
    pub stderr: Vec<u8>,
}

/// The parts of the host that a running program has.
struct State {
    wasi: WasiP1Ctx,
    limits: StoreLimits,
}

impl Program {
    /// Compiles a file in WebAssembly.
    ///
    /// # Errors
    /// The file cannot be read, or is no valid module.
    pub fn load(file: &Path) -> Result<Program> {
        let engine = Engine::default();
        let module = Module::from_file(&engine, file)?;
        Ok(Program { engine, module })
    }

    /// Runs the program with these arguments. It sees `folder` as `/`.
    ///
    /// # Errors
    /// The folder cannot be opened, the program imports what WASI does not have, or it traps. A program that ends with
    /// an exit code is no error.
    pub fn run(&self, folder: &Path, arguments: &[String]) -> Result<Outcome> {
        let (stdout, stderr) = (MemoryOutputPipe::new(MAX_OUTPUT), MemoryOutputPipe::new(MAX_OUTPUT));
        let mut builder = WasiCtxBuilder::new();
        builder.arg("vireo-anywhere").args(arguments).stdout(stdout.clone()).stderr(stderr.clone());
        builder.preopened_dir(folder, "/", FsPerms::ReadOnly)?;
        let limits = StoreLimitsBuilder::new().memory_size(MAX_MEMORY).build();
        let mut store = Store::new(&self.engine, State { wasi: builder.build_p1(), limits });
        store.limiter(|state| &mut state.limits);
        let mut linker = Linker::new(&self.engine);
        p1::add_to_linker_sync(&mut linker, |state: &mut State| &mut state.wasi)?;
        let instance = linker.instantiate(&mut store, &self.module)?;
        let start = instance.get_typed_func::<(), ()>(&mut store, "_start")?;
        let code = match start.call(&mut store, ()) {
            Ok(()) => 0,
            Err(error) => error.downcast::<I32Exit>()?.0,
        };
        Ok(Outcome { code, stdout: stdout.contents().to_vec(), stderr: stderr.contents().to_vec() })
    }
}
