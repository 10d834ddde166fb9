//! Loaded programs: the modules of the command line, their devices, parameters and policy.

use std::io::{self, Write};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use vireo::hal::Device;
use vireo::hal::local::{self, ImportProvider};
use vireo::interp::{Recorder, Stderr, Tier, TraceSink, write_perf_map};
use vireo::modules::hal::{HalModule, trace_to, trace_to_stderr};
use vireo::modules::hal_inline::HalInlineModule;
use vireo::modules::hal_loader::HalLoaderModule;
use vireo::modules::vmvx::VmvxModule;
use vireo::vm::convention::Argument;
use vireo::vm::module::ExportInfo;
use vireo::vm::{Context, Module, ReflectionAttribute};
use vireo::vmfb::Archive;
use vireo::{Result, SecurityPolicy};

use super::function::{Export, FENCES, takes_fences};
use super::session::Session;
use super::{open_archive, verify};
use crate::arguments::{ModuleMode, ProgramArguments, TierChoice};
use crate::devices::Drivers;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::observers::observed;
use crate::parameters;
use crate::tiers;

/// The prefix of imports that load parameters.
const PARAMETERS: &str = "io_parameters.";
/// The prefixes of imports of programs that need no device.
const HAL_INLINE: &str = "hal_inline.";
const HAL_LOADER: &str = "hal_loader.";
/// The prefix of imports of microkernels, in programs that contain their kernels.
const VMVX: &str = "vmvx.";

/// Loaded and verified modules, with their devices, parameters and policy. Nothing has run yet.
pub struct Program {
    devices: Vec<Arc<dyn Device>>,
    /// The `io_parameters` module.
    parameters: Module,
    has_parameters: bool,
    /// Functions that kernels may import.
    imports: Arc<dyn ImportProvider>,
    modules: Vec<Module>,
    policy: SecurityPolicy,
    /// Records traces of programs if two tiers are compared; otherwise traces go to stderr.
    reports: Option<Arc<Recorder>>,
}

impl Program {
    /// Loads the modules that the flags name, then `more`.
    pub fn load(program: &ProgramArguments, more: &[PathBuf]) -> Result<Program, Failure> {
        if program.module.is_empty() && more.is_empty() {
            let failure = Failure::new(Exit::Usage, "no module is given");
            return Err(failure.hint("use --module=file.vmfb, or --module=- for stdin"));
        }
        let tier = tiers::first(program.tier, program.trace_execution)?;
        if program.perf_map {
            let failed = || Failure::new(Exit::Usage, "cannot write a map for perf");
            write_perf_map().map_err(|status| failed().because(status))?;
        }
        let policy = program.policy.policy(tier);
        let (devices, imports) = create_devices(program, &policy)?;
        let devices = observed(devices, program)?;
        let parameters = Module::native(parameters::module(&program.parameters)?.with_policy(&policy));
        let mut loaded = Program {
            devices,
            parameters: parameters.map_err(|status| cannot("make the io_parameters module").because(status))?,
            has_parameters: !program.parameters.parameters.is_empty(),
            imports,
            modules: Vec::new(),
            policy,
            reports: (program.tier == TierChoice::Both).then(Arc::default),
        };
        // Truncating a mapped file would end the process.
        let mode = if program.policy.untrusted { ModuleMode::Preload } else { program.module_mode };
        for path in program.module.iter().chain(more) {
            loaded.modules.push(verify(open_archive(path, mode)?)?);
        }
        Ok(loaded)
    }

    /// The same modules for machine code, on devices of their own, if `--tier=both`.
    pub fn other(&self, program: &ProgramArguments) -> Result<Option<Program>, Failure> {
        if program.tier != TierChoice::Both {
            return Ok(None);
        }
        let policy = program.policy.policy(Tier::Compiled);
        let (devices, imports) = create_devices(program, &policy)?;
        let reports = Some(Arc::default());
        let (parameters, modules) = (self.parameters.clone(), self.modules.clone());
        let has_parameters = self.has_parameters;
        Ok(Some(Program { devices, parameters, has_parameters, imports, modules, policy, reports }))
    }

    /// The same with another module instead of the last.
    pub fn with_main(&self, path: &Path, mode: ModuleMode) -> Result<Program, Failure> {
        let mut modules = self.modules.clone();
        modules.pop();
        modules.push(verify(open_archive(path, mode)?)?);
        let (devices, parameters, imports) = (self.devices.clone(), self.parameters.clone(), self.imports.clone());
        let (has_parameters, policy) = (self.has_parameters, self.policy.clone());
        let reports = self.reports.as_ref().map(|_| Arc::default());
        Ok(Program { devices, parameters, has_parameters, imports, modules, policy, reports })
    }

    /// The module that is run.
    pub fn main(&self) -> Option<&Module> {
        self.modules.last()
    }

    /// The exports of the module that is run.
    pub fn exports(&self) -> Vec<Export> {
        let Some(main) = self.main() else { return Vec::new() };
        let export = |export: ExportInfo<'_>| {
            // A span takes any number of arguments, so none suffices; but no compiler writes such exports.
            let arguments = export.convention.args.iter().map(Argument::first_letter);
            let arguments = arguments.collect::<String>();
            let made = if takes_fences(main.attr_of(&export, ReflectionAttribute::InvocationModel.name()), &arguments) {
                FENCES
            } else {
                0
            };
            Export {
                name: export.name.to_string(),
                takes_arguments: arguments.len() > made,
                returns_results: !export.convention.results.is_empty(),
            }
        };
        main.exports().map(export).collect()
    }

    /// A context with the modules of the host, those of `host` and the loaded ones, all of them initialized.
    pub fn session(&self, host: impl IntoIterator<Item = Module>) -> Result<Session, Failure> {
        let device = self.devices.first().cloned().ok_or_else(|| Failure::new(Exit::Usage, "no device is given"))?;
        let hal = self.hal_modules(&device).map_err(|status| cannot("make the hal modules").because(status))?;
        let modules = hal.into_iter().chain([self.parameters.clone()]).chain(host).chain(self.modules.iter().cloned());
        let limits = self.policy.limits.clone();
        let sink: Arc<dyn TraceSink> = match &self.reports {
            Some(reports) => reports.clone(),
            None => Arc::new(Stderr),
        };
        let context = Context::with_sink(modules, limits, sink).map_err(|status| {
            let failure = cannot("initialize the modules").because(status);
            if !self.policy.native_code && self.has_native_kernels() {
                failure.hint("with --untrusted kernels have to be portable bytecode: compile for the backend `vmvx`")
            } else if self.imports_from(PARAMETERS) && !self.has_parameters {
                failure.hint("the program has parameters; use --parameters=FILE, or --parameters=SCOPE=FILE")
            } else {
                failure
            }
        })?;
        Ok(Session { context, device, limits: self.policy.limits.clone(), reports: self.reports.clone() })
    }

    /// The `hal` module, and the related modules that the programs import.
    fn hal_modules(&self, device: &Arc<dyn Device>) -> Result<Vec<Module>> {
        let sink = match &self.reports {
            Some(reports) => trace_to(Tensors(reports.clone())),
            None => trace_to_stderr(),
        };
        let mut modules = vec![Module::native(HalModule::new(self.devices.clone()).with_trace_sink(sink.clone()))?];
        if self.imports_from(HAL_INLINE) {
            modules.push(Module::native(HalInlineModule::new(device.allocator()).with_trace_sink(sink))?);
        }
        if self.imports_from(HAL_LOADER) {
            modules.push(Module::native(HalLoaderModule::with_policy(
                &self.policy,
                local::loaders_for(&self.policy, &self.imports),
            ))?);
        }
        if self.imports_from(VMVX) {
            modules.push(Module::native(VmvxModule::default())?);
        }
        Ok(modules)
    }

    /// The traces of programs since the last call, if they are recorded.
    pub fn take_reports(&self) -> Vec<String> {
        self.reports.as_ref().map(|reports| reports.take()).unwrap_or_default()
    }

    /// Whether a program holds an executable that is machine code.
    fn has_native_kernels(&self) -> bool {
        let is_native = |archive: &Archive, range: Range<usize>| {
            archive.bytes().get(range).is_some_and(|bytes| local::elf::infer_format(bytes).is_ok())
        };
        let mut archives = self.modules.iter().filter_map(Module::archive);
        archives.any(|archive| archive.rodata().any(|segment| is_native(archive, segment.range)))
    }

    /// Whether a program has an import whose name has this prefix.
    fn imports_from(&self, prefix: &str) -> bool {
        let mut imports = self.modules.iter().filter_map(Module::archive).flat_map(Archive::imports);
        imports.any(|import| import.full_name.starts_with(prefix))
    }
}

/// A writer that records traced tensors as lines.
struct Tensors(Arc<Recorder>);

impl Write for Tensors {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.add(String::from_utf8_lossy(text).trim_end().to_string());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Devices, and the functions that kernels may import.
type Devices = (Vec<Arc<dyn Device>>, Arc<dyn ImportProvider>);

/// Creates the devices of the flags under a policy.
fn create_devices(program: &ProgramArguments, policy: &SecurityPolicy) -> Result<Devices, Failure> {
    let drivers = Drivers::load(&program.devices, policy.clone())?;
    let devices = program.device.iter().map(|uri| drivers.create_device(uri)).collect::<Result<Vec<_>, Failure>>()?;
    Ok((devices, drivers.imports()))
}

fn cannot(what: &str) -> Failure {
    Failure::new(Exit::LoadFailure, format!("cannot {what}"))
}
