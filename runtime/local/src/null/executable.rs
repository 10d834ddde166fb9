//! Executables of the null device, and the loader that makes them without reading their data.

use std::ops::Range;
use std::sync::Arc;

use crate::hal::host_kernels::{Arguments, HostKernels, WorkgroupMemory};
use crate::hal::{Executable, ExecutableCachingMode, ExecutableFunction, ExecutableFunctionInfo, ExecutableLoader};
use crate::status::{Result, Status};

/// Accepts executables of every format.
#[derive(Debug)]
pub struct NullLoader;

impl ExecutableLoader for NullLoader {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, _data: &[u8]) -> Result<String> {
        Err(Status::unimplemented("the null device does not look into executables, so it cannot tell their format"))
    }

    fn supports(&self, _caching_mode: ExecutableCachingMode, _format: &str) -> bool {
        true
    }

    fn load(
        &self,
        _caching_mode: ExecutableCachingMode,
        format: &str,
        _data: &[u8],
        _constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        Ok(Arc::new(NullExecutable { format: format.to_string() }))
    }
}

/// An executable of any format. It has every function that is asked for, and none of them does anything.
#[derive(Debug)]
pub(super) struct NullExecutable {
    format: String,
}

impl NullExecutable {
    /// The error for a question that only the data of the executable could answer.
    fn unknown<T>(&self, what: &str) -> Result<T> {
        let format = &self.format;
        Err(Status::unimplemented(format!("the null device does not look into executables (`{format}`): {what}")))
    }
}

impl Executable for NullExecutable {
    /// Zero: the number is not known.
    fn function_count(&self) -> u32 {
        0
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        self.unknown(&format!("nothing is known of function {}", function.0))
    }

    /// The same function for every name: all of them do nothing.
    fn lookup_function(&self, _name: &str) -> Result<ExecutableFunction> {
        Ok(ExecutableFunction(0))
    }

    fn host_kernels(self: Arc<Self>) -> Option<Arc<dyn HostKernels>> {
        Some(self)
    }
}

impl HostKernels for NullExecutable {
    fn name(&self, _function: ExecutableFunction) -> &str {
        "a function that does nothing"
    }

    fn check_arguments(&self, _function: ExecutableFunction, _constants: usize, _bindings: usize) -> Result<()> {
        Ok(())
    }

    fn is_null(&self) -> bool {
        true
    }

    unsafe fn run(
        &self,
        _function: ExecutableFunction,
        _arguments: &Arguments<'_>,
        _workgroups: Range<u64>,
        _workgroup_memory: &mut WorkgroupMemory,
    ) -> Result<()> {
        Ok(())
    }
}
