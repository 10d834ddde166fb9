//! The trace of `--dispatch_trace`: when the kernels of a program ran, for `run`.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::sync::Arc;

use vireo::hal::ExecutionTrace;

use crate::exit::Exit;
use crate::failure::Failure;

/// A trace in a file.
pub struct DispatchTrace {
    name: String,
    /// The trace that the devices write to.
    pub trace: Arc<ExecutionTrace>,
}

impl DispatchTrace {
    /// Creates the file.
    pub fn create(path: &Path) -> Result<DispatchTrace, Failure> {
        let name = path.display().to_string();
        let trace = File::create(path).and_then(|file| ExecutionTrace::new(BufWriter::new(file)));
        match trace {
            Ok(trace) => Ok(DispatchTrace { name, trace }),
            Err(error) => Err(failed(&name, error)),
        }
    }

    /// Ends the file. If there is nothing in it, a message says so.
    pub fn finish(self) -> Result<(), Failure> {
        if self.trace.finish().map_err(|error| failed(&self.name, error))? == 0 {
            let _ = writeln!(io::stderr(), "--dispatch_trace={}: no kernel was timed", self.name);
        }
        Ok(())
    }
}

fn failed(name: &str, error: io::Error) -> Failure {
    Failure::new(Exit::Usage, format!("cannot write --dispatch_trace={name}")).because(error)
}
