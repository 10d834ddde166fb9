//! Executables in the memory of a device ([`AmdExecutable`]), and the cache that prepares them
//! ([`AmdExecutableCache`]).

use std::fmt;
use std::sync::Arc;

use super::container::{Container, Export};
use crate::agent::GpuAgent;
use crate::hal::{
    Executable, ExecutableCache, ExecutableCachingMode, ExecutableFunction, ExecutableFunctionFlags,
    ExecutableFunctionInfo, QueueAffinity,
};
use crate::status::{Result, Status};
use crate::symbols::LoadedCode;
use vireo_hsa::target::TargetId;

/// A kernel in the memory of a device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LoadedKernel {
    /// Address of its descriptor.
    pub object: u64,
    /// Bytes of memory of a work-item.
    pub private_size: u32,
    /// Bytes of memory of a work-group.
    pub group_size: u32,
}

/// An executable on the agents of a device.
pub struct AmdExecutable {
    target: TargetId,
    exports: Vec<Export>,
    /// By agent and ordinal.
    kernels: Vec<Vec<LoadedKernel>>,
    /// The agents it was loaded for.
    agents: Vec<u64>,
    _code: Vec<LoadedCode>,
}

impl fmt::Debug for AmdExecutable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "executable({}, {} functions)", self.target, self.exports.len())
    }
}

impl AmdExecutable {
    /// Loads an executable for some agents.
    ///
    /// # Errors
    /// INVALID_ARGUMENT if it is malformed, FAILED_PRECONDITION if it is for another target, and those of the HSA
    /// library.
    pub fn load(agents: &[Arc<GpuAgent>], data: &[u8]) -> Result<AmdExecutable> {
        let Container { target, modules, exports } = Container::read(data)?;
        if let Some(other) = agents.iter().find(|agent| !target.runs_on(&agent.target)) {
            return Err(Status::failed_precondition(format!("an executable for `{target}` does not run on {other:?}")));
        }
        let images: Vec<Arc<[u8]>> = modules.into_iter().map(Arc::from).collect();
        let (mut kernels, mut code) = (Vec::new(), Vec::new());
        for agent in agents {
            let first = code.len();
            for image in &images {
                code.push(agent.hsa().load_code(agent.agent, image.clone())?);
            }
            let loaded: &[LoadedCode] = &code[first..];
            let kernel = |export: &Export| {
                let object = loaded[export.module].kernel_object(&export.kernel.symbol)?;
                let (private_size, group_size) = (export.kernel.private_size, export.kernel.group_size);
                Ok(LoadedKernel { object, private_size, group_size })
            };
            kernels.push(exports.iter().map(kernel).collect::<Result<_>>()?);
        }
        let agents = agents.iter().map(|agent| agent.agent.0).collect();
        Ok(AmdExecutable { target, exports, kernels, agents, _code: code })
    }

    fn export(&self, function: ExecutableFunction) -> Result<(usize, &Export)> {
        let ordinal = usize::try_from(function.0).ok();
        let export = ordinal.and_then(|ordinal| Some((ordinal, self.exports.get(ordinal)?)));
        export.ok_or_else(|| {
            let (function, count) = (function.0, self.exports.len());
            Status::out_of_range(format!("function {function}: the executable has {count}"))
        })
    }

    /// A function as an agent has it.
    ///
    /// # Errors
    /// OUT_OF_RANGE if there is no such function, INVALID_ARGUMENT if it was not loaded for the agent.
    pub fn kernel(&self, agent: &GpuAgent, function: ExecutableFunction) -> Result<(LoadedKernel, &Export)> {
        let (ordinal, export) = self.export(function)?;
        let place = self.agents.iter().position(|other| *other == agent.agent.0);
        let place = place.ok_or_else(|| Status::invalid_argument(format!("{self:?} was not loaded for {agent:?}")))?;
        Ok((self.kernels[place][ordinal], export))
    }
}

impl Executable for AmdExecutable {
    fn function_count(&self) -> u32 {
        self.exports.len() as u32
    }

    fn function_info(&self, function: ExecutableFunction) -> Result<ExecutableFunctionInfo> {
        let (_, export) = self.export(function)?;
        let count = |count: usize| {
            u16::try_from(count).map_err(|_| Status::out_of_range(format!("`{}` has {count}", export.kernel.name)))
        };
        Ok(ExecutableFunctionInfo {
            name: export.kernel.name.clone(),
            flags: ExecutableFunctionFlags::empty(),
            constant_count: count(export.constants as usize)?,
            binding_count: count(export.bindings.len())?,
            parameter_count: 0,
            workgroup_size: export.workgroup_size.map(u32::from),
        })
    }

    fn lookup_function(&self, name: &str) -> Result<ExecutableFunction> {
        let ordinal = self.exports.iter().position(|export| export.kernel.name == name);
        let ordinal = ordinal.ok_or_else(|| Status::not_found(format!("the executable has no function `{name}`")))?;
        Ok(ExecutableFunction(ordinal as u64))
    }
}

/// Prepares executables for the agents of a device.
#[derive(Debug)]
pub struct AmdExecutableCache {
    agents: Vec<Arc<GpuAgent>>,
    /// Whether programs may bring code of their own for the device.
    native_code: bool,
}

impl AmdExecutableCache {
    /// A cache for some agents; without `native_code` it prepares nothing.
    pub fn new(agents: Vec<Arc<GpuAgent>>, native_code: bool) -> AmdExecutableCache {
        AmdExecutableCache { agents, native_code }
    }
}

/// Whether executables of a format, which is their target, run on all of some agents.
pub(crate) fn supports(agents: &[Arc<GpuAgent>], format: &str) -> bool {
    TargetId::parse(format).is_ok_and(|target| agents.iter().all(|agent| target.runs_on(&agent.target)))
}

impl ExecutableCache for AmdExecutableCache {
    fn infer_format(&self, _caching_mode: ExecutableCachingMode, data: &[u8]) -> Result<String> {
        Ok(Container::read(data)?.target.to_string())
    }

    fn can_prepare_format(&self, _caching_mode: ExecutableCachingMode, format: &str) -> bool {
        self.native_code && supports(&self.agents, format)
    }

    fn prepare_executable(
        &self,
        _queue_affinity: QueueAffinity,
        _caching_mode: ExecutableCachingMode,
        format: &str,
        data: &[u8],
        constants: &[u32],
    ) -> Result<Arc<dyn Executable>> {
        if !self.native_code {
            return Err(Status::permission_denied(
                "the security policy allows no machine code, and executables for AMD GPUs are that",
            ));
        }
        if !supports(&self.agents, format) {
            let message = format!("executables of the format `{format}` do not run on {:?}", self.agents);
            return Err(Status::unimplemented(message));
        }
        if !constants.is_empty() {
            return Err(Status::unimplemented("executables for AMD GPUs have no specialisation constants"));
        }
        Ok(Arc::new(AmdExecutable::load(&self.agents, data)?))
    }
}
