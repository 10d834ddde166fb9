//! Programs: the modules of the command line as a model of the library, with the devices, parameters and policy of the
//! flags.

use std::collections::BTreeSet;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use vireo::abi::modules::io_parameters;
use vireo::hal::local::LoadedKernels;
use vireo::hal::{ExecutionStatistics, local};
use vireo::inference::{CudaExecutable, GpuExecutable, ModelBuilder};
use vireo::interp::{Tier, TraceRecorder, write_perf_map};
use vireo::vm::Module;
use vireo::vmfb::Archive;
use vireo::{Model, SecurityPolicy, StatusCode};

use super::session::Session;
use super::tier::first_tier;
use super::{open_archive, verify};
use crate::allocators;
use crate::arguments::{ModuleMode, ParameterArguments, ProgramArguments, TierChoice};
use crate::device_profile::DeviceProfile;
use crate::devices::Drivers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observers::observed;
use crate::parameters;
use crate::sanitizer;

/// The devices, parameters and policy of the flags, and the modules that programs import from.
pub struct Loader {
    builder: ProgramBuilder,
    /// The same for machine code, on devices of its own, if `--tier=both`.
    compiled: Option<ProgramBuilder>,
    mode: ModuleMode,
    parameters: ParameterArguments,
}

/// The parts that programs are linked with.
#[derive(Clone)]
struct ProgramBuilder {
    model: ModelBuilder,
    /// The kernels in bytecode that its devices have loaded.
    kernels: Arc<LoadedKernels>,
}

impl Loader {
    /// Creates what the flags name, but loads no module. What the devices do is counted by `statistics`, and written to
    /// `profile`.
    pub fn new(
        arguments: &ProgramArguments,
        statistics: Option<&Arc<ExecutionStatistics>>,
        profile: Option<&DeviceProfile>,
    ) -> Result<Loader, Failure> {
        let tier = first_tier(arguments.tier, arguments.trace_execution)?;
        sanitizer::check(arguments)?;
        if arguments.perf_map {
            let failed = || Failure::new(Exit::Usage, "cannot write a map for perf");
            write_perf_map().map_err(|status| failed().because(status))?;
        }
        let builder = |policy: SecurityPolicy, observes: bool| -> Result<ProgramBuilder, Failure> {
            let drivers = Drivers::load(&arguments.devices, policy.clone())?;
            let create = |uri: &String| drivers.create_device(uri);
            let mut devices = arguments.device.iter().map(create).collect::<Result<Vec<_>, Failure>>()?;
            allocators::wrap(&devices, arguments)?;
            if let Some(statistics) = statistics {
                devices = devices.iter().map(|device| statistics.device(device)).collect();
            }
            if observes {
                if let Some(profile) = profile {
                    devices = profile.begin(&devices)?;
                }
                devices = observed(devices, arguments)?;
            }
            let builder = vireo::Session::builder().policy(policy).with_imports(drivers.imports());
            let builder = devices.into_iter().fold(builder, ModelBuilder::with_device);
            Ok(ProgramBuilder { model: builder, kernels: drivers.kernels() })
        };
        let policy = arguments.policy.policy(tier);
        let other = (arguments.tier == TierChoice::Both).then(|| arguments.policy.policy(Tier::Compiled));
        Ok(Loader {
            builder: builder(policy, true)?,
            compiled: other.map(|policy| builder(policy, false)).transpose()?,
            // Truncating a mapped file would end the process.
            mode: if arguments.policy.untrusted { ModuleMode::Preload } else { arguments.module_mode },
            parameters: arguments.parameters.clone(),
        })
    }

    /// Loads and verifies a module.
    pub fn module(&self, path: &Path) -> Result<Module, Failure> {
        verify(open_archive(path, self.mode)?)
    }

    /// Links a program: `modules`, of which the last is run, after those of the host. With `--tier=both` it is linked a
    /// second time, for machine code.
    pub fn link(&self, modules: &[Module]) -> Result<(Program, Option<Program>), Failure> {
        let recorder = || self.compiled.is_some().then(Arc::<TraceRecorder>::default);
        // After the modules: what writes a module to stdin may write the archive before it ends.
        let scopes = parameters::open(&self.parameters)?;
        let link = |builder: &ProgramBuilder| {
            let ProgramBuilder { model, kernels } = builder.clone();
            let builder = ProgramBuilder { model: parameters::add_to(model, &scopes), kernels };
            Program::link(builder, modules, recorder(), !scopes.is_empty())
        };
        let program = link(&self.builder)?;
        let compiled = self.compiled.as_ref().map(link);
        Ok((program, compiled.transpose()?))
    }
}

/// A linked program. Nothing of it has run yet.
pub struct Program {
    model: Model,
    kernels: Arc<LoadedKernels>,
    /// Records traces of programs if two tiers are compared; otherwise traces go to stderr.
    reports: Option<Arc<TraceRecorder>>,
}

impl Program {
    fn link(
        builder: ProgramBuilder,
        modules: &[Module],
        reports: Option<Arc<TraceRecorder>>,
        has_parameters: bool,
    ) -> Result<Program, Failure> {
        let Some((main, others)) = modules.split_last() else {
            let failure = Failure::new(Exit::Usage, "no module is given");
            return Err(failure.hint("name a file, or use --module=file.vmfb; `-` is stdin"));
        };
        let ProgramBuilder { model: builder, kernels } = builder;
        let builder = others.iter().cloned().fold(builder, ModelBuilder::with_module);
        let builder = match &reports {
            Some(reports) => builder.record_to(reports.clone()),
            None => builder,
        };
        let loads_parameters = || {
            let mut archives = modules.iter().filter_map(Module::archive);
            archives.any(|archive| archive.imports_from(io_parameters::NAME))
        };
        let asked = builder.clone();
        let model = builder.build(main.clone()).map_err(|status| {
            let failure = Failure::new(Exit::LoadFailure, "cannot link the modules").because(status);
            if has_parameters || !loads_parameters() {
                return failure;
            }
            let needed = asked.requirements(main).map(|found| found.parameters).unwrap_or_default();
            let scopes: BTreeSet<&str> = needed.iter().map(|parameter| parameter.scope.as_str()).collect();
            let flags = scopes.into_iter().map(|scope| match scope {
                "" => "--parameters=FILE".to_string(),
                scope => format!("--parameters={scope}=FILE"),
            });
            let flags = flags.collect::<Vec<_>>().join(" ");
            let flags =
                if flags.is_empty() { "--parameters=FILE, or --parameters=SCOPE=FILE".to_string() } else { flags };
            failure.hint(format!("the program has parameters; use {flags}"))
        })?;
        Ok(Program { model, kernels, reports })
    }

    /// The model that it is.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// The traces of programs since the last call, if they are recorded.
    pub fn take_reports(&self) -> Vec<String> {
        self.reports.as_ref().map(|reports| reports.take()).unwrap_or_default()
    }

    /// A session of its own, with all modules initialized.
    pub fn session(&self) -> Result<Session, Failure> {
        let session = self.model.session().map_err(|status| {
            let is_for_others = status.code() == StatusCode::Incompatible && status.message().contains("#hal.device.target");
            let failure = Failure::new(Exit::LoadFailure, "cannot initialize the modules").because(status);
            if !self.model.policy().native_code && self.has_native_kernels() {
                return failure.hint(
                    "the policy of --untrusted is why: it allows no machine code, neither of processors nor of GPUs. Kernels have to be \
                     portable bytecode: compile for the backend `vmvx`",
                );
            }
            if is_for_others {
                return failure.hint(
                    "compile it for this machine: iree-compile --iree-hal-target-device=local \
                     --iree-hal-local-target-device-backends=llvm-cpu; `vireo explain` shows what it needs, and `vireo devices` what is here",
                );
            }
            failure
        })?;
        Ok(Session::new(session, self.kernels.clone(), self.reports.clone()))
    }

    /// Whether a program holds an executable that is machine code.
    fn has_native_kernels(&self) -> bool {
        let is_native = |archive: &Archive, range: Range<usize>| {
            let bytes = archive.bytes().get(range);
            let is_of_gpu = |bytes| GpuExecutable::read(bytes).is_ok() || CudaExecutable::read(bytes).is_ok();
            bytes.is_some_and(|bytes| local::elf::infer_format(bytes).is_ok() || is_of_gpu(bytes))
        };
        let mut archives = self.model.modules().iter().filter_map(Module::archive);
        archives.any(|archive| archive.rodata().any(|segment| is_native(archive, segment.range)))
    }
}
