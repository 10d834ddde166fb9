//! A library with streams as a driver ([`Instance`]): its names, and the targets of its code.

use std::fmt;
use std::time::Instant;

use crate::api::{ApiError, Traced, Tracer};
use crate::generated::api::StreamApi;
use crate::hal::GpuQueryCategory;
use crate::status::Result;

/// The names of a library and its driver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Names {
    /// The name of the driver, as in URIs.
    pub driver: &'static str,
    /// The library, for people.
    pub library: &'static str,
    /// The format of its executables.
    pub format: &'static str,
    /// The category of queries for what its GPUs are.
    pub queries: GpuQueryCategory,
    /// The oldest version of the library that the driver works with, as the library counts.
    pub least_version: i32,
}

/// A library with streams as a driver.
pub trait Instance: StreamApi {
    /// Its names.
    fn names(&self) -> &'static Names;

    /// Whether the code of a module may run on a device of a compute capability; the library has the last word.
    ///
    /// # Errors
    /// FAILED_PRECONDITION with both targets if it may not.
    fn check_target(&self, module: &str, capability: (i32, i32)) -> Result<()>;
}

impl<A: Instance> Instance for Traced<A> {
    fn names(&self) -> &'static Names {
        self.api.names()
    }

    fn check_target(&self, module: &str, capability: (i32, i32)) -> Result<()> {
        self.api.check_target(module, capability)
    }
}

/// A tracer that writes a line for each call to the error output.
#[derive(Clone, Copy, Debug, Default)]
pub struct PrintTracer;

impl Tracer for PrintTracer {
    fn call(&self, function: &'static str, began: Instant, arguments: fmt::Arguments<'_>, failure: Option<&ApiError>) {
        let micros = began.elapsed().as_micros();
        match failure {
            Some(failure) => eprintln!("{function}({arguments}) -> {failure} [{micros} us]"),
            None => eprintln!("{function}({arguments}) [{micros} us]"),
        }
    }
}
