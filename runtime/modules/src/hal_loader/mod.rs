//! The `hal_loader` module: kernels for programs without devices, which compute in host memory.
//!
//! Its interface is `spec/abi/modules/hal_loader.yaml`. The loaders of local devices load its executables; dispatches
//! run on the calling thread, on VM buffers in place.

use std::sync::Arc;

use smallvec::SmallVec;
use vireo_macros::vm_module;

use super::hal::convert::{object, words};
use crate::Result;
use crate::abi::Span;
use crate::status::StatusCode;
use crate::vm::{Buffer as VmBuffer, Obj};
use vireo_hal::SecurityPolicy;
use vireo_hal::host_kernels::{HostBinding, HostDispatch, dispatch_on_host, unsupported};
use vireo_hal::{ExecutableCachingMode, ExecutableFunction, ExecutableLoader, ExecutableRef};
use vireo_vm::Constant;

/// The `hal_loader` module over a list of loaders.
pub struct HalLoaderModule {
    loaders: Vec<Arc<dyn ExecutableLoader>>,
    native_code: bool,
}

impl HalLoaderModule {
    /// A module with these loaders: the first one that supports the format loads an executable, or a later one if that
    /// does not find it. `vireo::hal::local::default_loaders` are those of local devices.
    pub fn new(loaders: Vec<Arc<dyn ExecutableLoader>>) -> HalLoaderModule {
        HalLoaderModule { loaders, native_code: true }
    }

    /// A module for programs under `policy`. `loaders` are those that the policy allows.
    pub fn with_policy(policy: &SecurityPolicy, loaders: Vec<Arc<dyn ExecutableLoader>>) -> HalLoaderModule {
        let module = HalLoaderModule::new(loaders);
        if policy.native_code { module } else { module.without_native_code() }
    }

    /// The same module, whose errors say that the policy refuses machine code. It has no loader for machine code.
    fn without_native_code(self) -> HalLoaderModule {
        HalLoaderModule { native_code: false, ..self }
    }

    fn supporting(&self, format: &str) -> impl Iterator<Item = &Arc<dyn ExecutableLoader>> {
        self.loaders.iter().filter(move |loader| loader.supports(ExecutableCachingMode::empty(), format))
    }
}

#[vm_module(spec = "hal_loader")]
impl HalLoaderModule {
    #[vm_export("executable.dispatch")]
    #[expect(clippy::too_many_arguments, reason = "the spec lists the arguments")]
    fn executable_dispatch(
        &self,
        executable: &Obj<ExecutableRef>,
        function_id: ExecutableFunction,
        workgroup_x: u32,
        workgroup_y: u32,
        workgroup_z: u32,
        constants: Span<'_, u32>,
        bindings: Span<'_, (&Obj<VmBuffer>, u64, u64)>,
    ) -> Result<()> {
        let constants: SmallVec<[u32; 16]> = constants.iter().collect();
        let mut memory: SmallVec<[HostBinding; 16]> = SmallVec::new();
        for (buffer, offset, length) in bindings.iter() {
            // Kernels may write to constants in place, so they get the context's own copy.
            let buffer: &VmBuffer = match buffer.owner::<Constant>() {
                Some(constant) => constant.kernel_copy()?,
                None => buffer,
            };
            let (pointer, writable) = (buffer.range(offset, length)?.cast(), buffer.is_mutable());
            memory.push(HostBinding { pointer, length, writable });
        }
        let dispatch = HostDispatch {
            function: function_id,
            workgroups: [workgroup_x, workgroup_y, workgroup_z],
            constants: &constants,
            bindings: &memory,
        };
        // SAFETY: the ranges were checked, and the arguments hold the buffers until the call returns. Kernels in
        // bytecode write where `writable` says; native code is trusted to write to what it was compiled to write to.
        unsafe { dispatch_on_host(&executable.0, &dispatch) }
    }

    #[vm_export("executable.load")]
    fn executable_load(
        &self,
        executable_format: &str,
        executable_data: &Obj<VmBuffer>,
        constants: Option<&Obj<VmBuffer>>,
    ) -> Result<Obj<ExecutableRef>> {
        let constants = constants.map_or(Ok(Vec::new()), |constants| words("constants", constants))?;
        // The bytes are copied: a program may write to a buffer that is mutable while the loader reads it.
        let data = executable_data.to_vec();
        let mut unknown = None;
        for loader in self.supporting(executable_format) {
            match loader.load(ExecutableCachingMode::empty(), executable_format, &data, &constants) {
                Err(status) if status.code() == StatusCode::NotFound => unknown = Some(status),
                result => return result.map(object),
            }
        }
        Err(unknown.unwrap_or_else(|| unsupported(executable_format, self.native_code)))
    }

    #[vm_export("executable.lookup.function")]
    fn executable_lookup_function(
        &self,
        executable: &Obj<ExecutableRef>,
        function_name: &str,
    ) -> Result<ExecutableFunction> {
        executable.lookup_function(function_name)
    }

    #[vm_export("executable.query_support")]
    fn executable_query_support(&self, executable_format: &str) -> Result<bool> {
        Ok(self.supporting(executable_format).next().is_some())
    }
}
