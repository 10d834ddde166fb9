//! Models ([`Model`]): verified and linked modules with their devices and parameters, from which sessions are made, and
//! the builder of both.

use std::fmt;
use std::io::{self, Write};
use std::path::Path;
#[cfg(feature = "params")]
use std::path::PathBuf;
use std::sync::Arc;

use vireo_context::{Context, ExportInfo, LinkedModules, Module};
use vireo_core::limits::Limits;
#[cfg(feature = "local")]
use vireo_core::status::StatusCode;
use vireo_core::status::{Result, Status};
use vireo_hal::host_kernels::ImportProvider;
#[cfg(feature = "local")]
use vireo_hal::host_kernels::ImportProviders;
#[cfg(feature = "local")]
use vireo_hal::{Allocator, DriverRegistry};
use vireo_hal::{Device, ParameterProvider, SecurityPolicy};
#[cfg(feature = "local")]
use vireo_hal_observe::wrap_allocator;
use vireo_module::vmfb::is_for_callers;
use vireo_modules::hal::{HalModule, TraceSink as TensorSink, trace_to, trace_to_stderr};
use vireo_modules::hal_inline::HalInlineModule;
use vireo_modules::hal_loader::HalLoaderModule;
use vireo_modules::io_parameters::IoParameters;
#[cfg(feature = "params")]
use vireo_params::{ContentsMode, IndexProvider, ParameterIndex, Progress};
use vireo_vm::abi::modules as host;
use vireo_vm::interp::{Stderr, TraceRecorder, TraceSink};

use crate::events;
use crate::signature::Signature;

/// The device of a model for which none is chosen.
#[cfg(feature = "local")]
const DEFAULT_DEVICE: &str = "local-task";

/// How many missing parameters an error lists.
#[cfg(feature = "local")]
const MAX_LISTED: usize = 8;

/// Verified and linked modules with their devices and parameters. Cheap to clone: clones are the same model.
///
/// Everything that sessions of a model share is here, machine code included, and none of it is locked while sessions
/// run.
#[derive(Clone)]
pub struct Model(Arc<Inner>);

struct Inner {
    linked: LinkedModules,
    devices: Vec<Arc<dyn Device>>,
    /// The builder of the model.
    builder: ModelBuilder,
}

impl fmt::Debug for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Model").field("modules", &self.0.linked).field("devices", &self.0.devices).finish()
    }
}

impl Model {
    /// The name of its module and its devices, for events.
    pub(crate) fn describe(&self) -> (&str, Vec<&str>) {
        (self.main().name(), self.devices().iter().map(|device| device.id()).collect())
    }

    /// A context of its modules, whose initialisers have run.
    pub(crate) fn context(&self) -> Result<Context> {
        self.0.linked.context(self.limits().clone()).map_err(|status| self.explain(status))
    }

    /// A failure of an initialiser, with what the host lacks.
    #[cfg(feature = "local")]
    fn explain(&self, status: Status) -> Status {
        // A program that was stopped has told why, and would have to be stopped again.
        if !matches!(status.code(), StatusCode::NotFound | StatusCode::Incompatible | StatusCode::Unavailable) {
            return status;
        }
        let builder = ModelBuilder { devices: self.0.builder.devices_of(&self.0.devices), ..self.0.builder.clone() };
        match builder.requirements(self.main()).map(|found| found.missing()) {
            Ok(missing) if !missing.is_empty() => {
                let short = without_long_attributes(status.message());
                status.with_message(short).context(format!("the program needs {}", missing.join("; ")))
            }
            _ => status,
        }
    }

    #[cfg(not(feature = "local"))]
    fn explain(&self, status: Status) -> Status {
        status
    }

    /// The module that was loaded last, whose functions are called.
    pub fn main(&self) -> &Module {
        // The builder has put one there.
        &self.0.linked.modules()[self.0.linked.modules().len() - 1]
    }

    /// All modules in the order in which they are linked, those of the host first.
    pub fn modules(&self) -> &[Module] {
        self.0.linked.modules()
    }

    /// The devices in the order in which programs see them.
    pub fn devices(&self) -> &[Arc<dyn Device>] {
        &self.0.devices
    }

    /// The device of tensors of the host.
    pub(crate) fn device(&self) -> &Arc<dyn Device> {
        // The builder has put one there.
        &self.0.devices[0]
    }

    /// The rights and limits of its programs.
    pub fn policy(&self) -> &SecurityPolicy {
        &self.0.builder.policy
    }

    /// The limits of calls.
    pub fn limits(&self) -> &Limits {
        &self.0.builder.policy.limits
    }

    /// The signatures of the functions that the main module exports. Functions that take any number of arguments cannot
    /// be called and have none.
    pub fn signatures(&self) -> Vec<Signature> {
        let main = self.main();
        main.exports().filter_map(|export| Signature::of(main, &export).ok()).collect()
    }

    /// The function to call where none is named: the only one of the main module that is there for callers.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT`, with the names, if there are none or several.
    pub fn default_function(&self) -> Result<&str> {
        let main = self.main();
        let all: Vec<&str> = main.exports().map(|export| export.name).collect();
        let names: Vec<&str> = all.iter().copied().filter(|name| is_for_callers(name)).collect();
        match (&names[..], &all[..]) {
            ([only], _) | ([], [only]) => Ok(only),
            ([], _) => Err(Status::invalid_argument(format!("module `{}` exports no function", main.name()))),
            _ => {
                let message =
                    format!("no function is named, and module `{}` exports {}", main.name(), names.join(", "));
                Err(Status::invalid_argument(message))
            }
        }
    }

    /// The signature of a function of the main module.
    ///
    /// # Errors
    /// `NOT_FOUND` if there is none, `UNIMPLEMENTED` for one that takes any number of arguments.
    pub fn signature(&self, name: &str) -> Result<Signature> {
        let main = self.main();
        let export = main.exports_named(name).next();
        let export: ExportInfo<'_> = export
            .ok_or_else(|| Status::not_found(format!("module `{}` exports no function `{name}`", main.name())))?;
        Signature::of(main, &export)
    }
}

/// A message with `{...}` in place of long attributes, which compilers print with all that they know of a target.
#[cfg(feature = "local")]
fn without_long_attributes(message: &str) -> String {
    const LONG: usize = 40;
    let (mut short, mut rest) = (String::new(), message);
    while let Some(start) = rest.find('{') {
        let mut depth = 0_usize;
        let end = rest[start..].char_indices().find_map(|(at, c)| {
            depth = match c {
                '{' => depth + 1,
                '}' => depth - 1,
                _ => depth,
            };
            (depth == 0).then_some(start + at + 1)
        });
        let end = end.unwrap_or(rest.len());
        short += &rest[..start];
        short += if end - start > LONG { "{...}" } else { &rest[start..end] };
        rest = &rest[end..];
    }
    short + rest
}

/// Says what a model consists of: `Session::builder()`.
///
/// Nothing is opened before [`ModelBuilder::load`] or [`ModelBuilder::build`].
#[derive(Clone, Default)]
pub struct ModelBuilder {
    devices: Vec<DeviceChoice>,
    imports: Option<Arc<dyn ImportProvider>>,
    #[cfg(feature = "params")]
    archives: Vec<(String, PathBuf)>,
    #[cfg(feature = "params")]
    indices: Vec<(String, ParameterIndex)>,
    #[cfg(feature = "params")]
    parameter_mode: ContentsMode,
    #[cfg(feature = "params")]
    progress: Option<Arc<dyn Progress>>,
    preloads: bool,
    /// The wrappers of allocators of new devices, innermost first.
    #[cfg(feature = "local")]
    allocators: Vec<WrapAllocator>,
    #[cfg(feature = "local")]
    drivers: Option<Arc<DriverRegistry>>,
    providers: Vec<Arc<dyn ParameterProvider>>,
    pub(crate) modules: Vec<Module>,
    policy: SecurityPolicy,
    recorder: Option<Arc<TraceRecorder>>,
}

#[cfg(feature = "local")]
type WrapAllocator = Arc<dyn Fn(Arc<dyn Allocator>) -> Result<Arc<dyn Allocator>> + Send + Sync>;

#[derive(Clone)]
enum DeviceChoice {
    #[cfg(feature = "local")]
    Uri(String),
    Device(Arc<dyn Device>),
}

impl ModelBuilder {
    /// Adds a device by its URI, such as `local-sync` or `local-task`. Programs for several devices see them in this
    /// order. Without one it is `local-task`.
    #[cfg(feature = "local")]
    pub fn device(mut self, uri: impl Into<String>) -> ModelBuilder {
        self.devices.push(DeviceChoice::Uri(uri.into()));
        self
    }

    /// Creates the devices that are named by their URI from `drivers` in place of those of this build: for drivers of
    /// plugins, and for drivers that start from other options. The policy of such devices is that of `drivers`, and
    /// kernels of the `hal_loader` module import what its devices offer.
    #[cfg(feature = "local")]
    pub fn drivers(mut self, drivers: Arc<DriverRegistry>) -> ModelBuilder {
        self.drivers = Some(drivers);
        self
    }

    /// Adds a device that exists.
    pub fn with_device(mut self, device: Arc<dyn Device>) -> ModelBuilder {
        self.devices.push(DeviceChoice::Device(device));
        self
    }

    /// Puts an allocator over that of each device that is named by its URI, which `wrap` gets; a later one is put over
    /// the earlier ones. Devices that exist have allocators of their own, over which
    /// [`wrap_allocator`](vireo_hal_observe::wrap_allocator) puts another one.
    ///
    /// ```
    /// use vireo::hal::AllocatorSpec;
    /// use vireo::{Session, inputs};
    ///
    /// # fn main() -> vireo::Result<()> {
    /// # std::env::set_current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../..")).expect("the workspace exists");
    /// let spec: AllocatorSpec = "caching:device_local=1gib;*;16".parse()?;
    /// let builder = Session::builder().device("local-sync").wrap_allocators(move |inner| spec.wrap(inner));
    /// let session = builder.load("fixtures/models/abs.vmfb")?;
    /// let result: f32 = session.call("abs", inputs![-2.0f32])?.get()?;
    /// assert_eq!(result, 2.0);
    /// # Ok(())
    /// # }
    /// ```
    #[cfg(feature = "local")]
    pub fn wrap_allocators(
        mut self,
        wrap: impl Fn(Arc<dyn Allocator>) -> Result<Arc<dyn Allocator>> + Send + Sync + 'static,
    ) -> ModelBuilder {
        self.allocators.push(Arc::new(wrap));
        self
    }

    /// Adds an archive of parameters: a `.irpa`, `.gguf` or `.safetensors` file. Of parameters with one name in several
    /// archives the first counts.
    #[cfg(feature = "params")]
    pub fn parameters(self, path: impl Into<PathBuf>) -> ModelBuilder {
        self.parameters_in("", path)
    }

    /// As [`ModelBuilder::parameters`], of the parameters of a scope.
    #[cfg(feature = "params")]
    pub fn parameters_in(mut self, scope: impl Into<String>, path: impl Into<PathBuf>) -> ModelBuilder {
        self.archives.push((scope.into(), path.into()));
        self
    }

    /// As [`ModelBuilder::parameters_in`], of an archive that is open, or of parameters that the host has put together.
    /// They come before those of archives that are named by their path.
    #[cfg(feature = "params")]
    pub fn parameter_index(mut self, scope: impl Into<String>, index: ParameterIndex) -> ModelBuilder {
        self.indices.push((scope.into(), index));
        self
    }

    /// Sets how archives of parameters are read: mapped, which is the default, or read, parameter by parameter or at
    /// once.
    #[cfg(feature = "params")]
    pub fn parameter_mode(mut self, mode: ContentsMode) -> ModelBuilder {
        self.parameter_mode = mode;
        self
    }

    /// Reports to `progress` how far the program has come with loading parameters from archives.
    #[cfg(feature = "params")]
    pub fn parameter_progress(mut self, progress: Arc<dyn Progress>) -> ModelBuilder {
        self.progress = Some(progress);
        self
    }

    /// Adds a source of parameters.
    pub fn with_parameters(mut self, provider: Arc<dyn ParameterProvider>) -> ModelBuilder {
        self.providers.push(provider);
        self
    }

    /// Adds a module that the main module imports from, in Rust or loaded before. Modules can import from those that
    /// were added earlier.
    pub fn with_module(mut self, module: Module) -> ModelBuilder {
        self.modules.push(module);
        self
    }

    /// Adds what kernels of the `hal_loader` module may import. Kernels of devices import what their devices offer.
    pub fn with_imports(mut self, imports: Arc<dyn ImportProvider>) -> ModelBuilder {
        self.imports = Some(imports);
        self
    }

    /// Sets what programs may do and use, for the devices that are made by their URI and for calls. Devices that exist
    /// have a policy of their own.
    pub fn policy(mut self, policy: SecurityPolicy) -> ModelBuilder {
        self.policy = policy;
        self
    }

    /// Sets the limits of calls: time, memory, fuel, and which tier runs them.
    pub fn limits(mut self, limits: Limits) -> ModelBuilder {
        self.policy.limits = limits;
        self
    }

    /// Lets `recorder` have what programs trace and print, instead of the standard error stream.
    pub fn record_to(mut self, recorder: Arc<TraceRecorder>) -> ModelBuilder {
        self.recorder = Some(recorder);
        self
    }

    /// Lets [`ModelBuilder::load`] read all of a module file instead of mapping a large one, so that the file may be
    /// truncated while the model lives. A policy without native code, that of untrusted programs, reads the file in any
    /// case.
    pub fn preload(mut self) -> ModelBuilder {
        self.preloads = true;
        self
    }

    /// A model whose main module is the file at `path`.
    ///
    /// # Errors
    /// As [`Module::from_file`] and [`ModelBuilder::build`].
    pub fn build_file(self, path: impl AsRef<Path>) -> Result<Model> {
        // A truncated file ends the process that maps it, which the author of an untrusted program must not be able to
        // do.
        let reads = self.preloads || !self.policy.native_code;
        let main = if reads { Module::read_file(path) } else { Module::from_file(path) };
        self.build(main?)
    }

    /// Creates the devices, opens the parameters and links the modules. Nothing of the program runs, except that the
    /// initialisers of one that loads parameters run on a stand-in first, to find out which
    /// (`ModelBuilder::requirements`).
    ///
    /// # Errors
    /// `NOT_FOUND` for devices, files and functions that are not there, `INCOMPATIBLE` for modules of other versions,
    /// failures of devices.
    pub fn build(self, main: Module) -> Result<Model> {
        events::made("linked a model", || self.link(main), Model::describe)
    }

    fn link(self, main: Module) -> Result<Model> {
        let devices = self.create_devices()?;
        // A file that is missing is an error also where the program does not ask for parameters.
        let parameters = self.parameter_providers()?;
        self.check_parameters(&devices, &main)?;
        let mut modules = self.modules.clone();
        modules.push(main);
        let host = self.host_modules(&devices, parameters, &modules)?;
        let sink: Arc<dyn TraceSink> = match &self.recorder {
            Some(recorder) => recorder.clone(),
            None => Arc::new(Stderr),
        };
        let linked = LinkedModules::with_sink(host.into_iter().chain(modules), sink)?;
        Ok(Model(Arc::new(Inner { linked, devices, builder: self })))
    }

    /// Fails if the program loads parameters that the host does not have: loading the others may take long.
    #[cfg(feature = "local")]
    fn check_parameters(&self, devices: &[Arc<dyn Device>], main: &Module) -> Result<()> {
        if !imports_from(self.modules.iter().chain([main]), host::io_parameters::NAME) {
            return Ok(());
        }
        let builder = ModelBuilder { devices: self.devices_of(devices), ..self.clone() };
        let missing = builder.requirements(main)?.missing_parameters();
        if missing.is_empty() {
            return Ok(());
        }
        let more = missing.len().saturating_sub(MAX_LISTED);
        let listed = missing[..missing.len() - more].join("; ");
        let more = if more > 0 { format!("; and {more} more") } else { String::new() };
        Err(Status::not_found(format!("the program needs {listed}{more}")))
    }

    #[cfg(not(feature = "local"))]
    fn check_parameters(&self, _devices: &[Arc<dyn Device>], _main: &Module) -> Result<()> {
        Ok(())
    }

    /// These devices, as choices.
    #[cfg(feature = "local")]
    fn devices_of(&self, devices: &[Arc<dyn Device>]) -> Vec<DeviceChoice> {
        devices.iter().cloned().map(DeviceChoice::Device).collect()
    }

    /// The drivers that devices are created from.
    #[cfg(feature = "local")]
    pub(crate) fn registry(&self) -> Arc<DriverRegistry> {
        self.drivers.clone().unwrap_or_else(|| {
            let options = crate::BuiltinOptions { policy: self.policy.clone(), ..crate::BuiltinOptions::default() };
            Arc::new(options.registry())
        })
    }

    #[cfg(feature = "local")]
    pub(crate) fn create_devices(&self) -> Result<Vec<Arc<dyn Device>>> {
        let default = [DeviceChoice::Uri(DEFAULT_DEVICE.into())];
        let choices = if self.devices.is_empty() { &default } else { &self.devices[..] };
        let registry = self.registry();
        let may_run_more = registry.policy().native_code && !self.policy.native_code;
        let create = |choice: &DeviceChoice| match choice {
            DeviceChoice::Uri(uri) if may_run_more => Err(Status::failed_precondition(format!(
                "device `{uri}`: the drivers let programs run machine code, which the policy of the model forbids"
            ))),
            DeviceChoice::Uri(uri) => {
                let create = || {
                    let device = registry.create_device(uri)?;
                    self.allocators.iter().try_for_each(|wrap| wrap_allocator(&*device, |inner| wrap(inner)))?;
                    Ok(device)
                };
                create().map_err(|status: Status| status.context(format!("device `{uri}`")))
            }
            DeviceChoice::Device(device) => Ok(device.clone()),
        };
        choices.iter().map(create).collect()
    }

    #[cfg(not(feature = "local"))]
    pub(crate) fn create_devices(&self) -> Result<Vec<Arc<dyn Device>>> {
        if self.devices.is_empty() {
            return Err(Status::failed_precondition("the model has no device, and this build has none of its own"));
        }
        Ok(self.devices.iter().map(|DeviceChoice::Device(device)| device.clone()).collect())
    }

    /// The modules of the host that `modules` import from, and those that the host has added itself.
    pub(crate) fn host_modules(
        &self,
        devices: &[Arc<dyn Device>],
        parameters: Vec<Arc<dyn ParameterProvider>>,
        modules: &[Module],
    ) -> Result<Vec<Module>> {
        let imports_from = |name: &str| imports_from(modules, name);
        let sink = || -> Arc<TensorSink> {
            match &self.recorder {
                Some(recorder) => trace_to(Lines(recorder.clone())),
                None => trace_to_stderr(),
            }
        };
        let mut host = vec![Module::native(HalModule::new(devices.to_vec()).with_trace_sink(sink()))?];
        if imports_from(host::hal_inline::NAME) {
            host.push(Module::native(HalInlineModule::new(devices[0].allocator()).with_trace_sink(sink()))?);
        }
        if imports_from(host::hal_loader::NAME) {
            host.push(self.loader_module()?);
        }
        if imports_from(host::io_parameters::NAME) {
            host.push(Module::native(IoParameters::new(parameters).with_policy(&self.policy))?);
        }
        #[cfg(feature = "vmvx")]
        if imports_from(host::vmvx::NAME) {
            host.push(Module::native(vireo_vmvx::VmvxModule::default())?);
        }
        Ok(host)
    }

    #[cfg(feature = "local")]
    fn loader_module(&self) -> Result<Module> {
        let of_drivers = || -> Arc<dyn ImportProvider> {
            self.drivers.as_ref().map_or_else(Arc::<ImportProviders>::default, |drivers| drivers.imports().clone())
        };
        let imports = self.imports.clone().unwrap_or_else(of_drivers);
        Module::native(HalLoaderModule::with_policy(&self.policy, crate::loaders_for(&self.policy, &imports)))
    }

    #[cfg(not(feature = "local"))]
    fn loader_module(&self) -> Result<Module> {
        Module::native(HalLoaderModule::with_policy(&self.policy, Vec::new()))
    }

    /// The indices and the archives of each scope, put together.
    #[cfg(feature = "params")]
    fn scopes(&self, mode: ContentsMode) -> Result<Vec<(&str, ParameterIndex)>> {
        let opened = self.indices.iter().map(|(scope, index)| -> Result<_> { Ok((scope, index.clone())) });
        let archives = self.archives.iter().map(|(scope, path)| {
            let index = ParameterIndex::open(path, mode);
            let index = index.map_err(|status| status.context(format!("parameters `{}`", path.display())))?;
            Ok((scope, index))
        });
        let mut scopes: Vec<(&str, ParameterIndex)> = Vec::new();
        for found in opened.chain(archives) {
            let (scope, index) = found?;
            match scopes.iter_mut().find(|(name, _)| name == scope) {
                Some((_, merged)) => merged.merge(index),
                None => scopes.push((scope, index)),
            }
        }
        Ok(scopes)
    }

    /// A provider for each scope.
    fn parameter_providers(&self) -> Result<Vec<Arc<dyn ParameterProvider>>> {
        #[cfg_attr(not(feature = "params"), expect(unused_mut, reason = "this build reads no archives"))]
        let mut providers = self.providers.clone();
        #[cfg(feature = "params")]
        providers.extend(self.scopes(self.parameter_mode)?.into_iter().map(
            |(scope, index)| -> Arc<dyn ParameterProvider> {
                let provider = IndexProvider::new(scope, index);
                Arc::new(match &self.progress {
                    Some(progress) => provider.with_progress(progress.clone()),
                    None => provider,
                })
            },
        ));
        Ok(providers)
    }

    /// How many bytes the host has of a parameter of which so many are needed; none if it has none of this name. Other
    /// sources than archives only tell whether they have a scope. Opens the archives.
    #[cfg(feature = "local")]
    pub(crate) fn parameter_lengths(&self) -> Result<impl Fn(&str, &str, u64) -> Option<u64>> {
        #[cfg(feature = "params")]
        let scopes = self.scopes(ContentsMode::Mmap)?;
        Ok(move |scope: &str, key: &str, wanted: u64| {
            #[cfg(feature = "params")]
            if let Some((_, index)) = scopes.iter().find(|(name, _)| *name == scope)
                && let Some(parameter) = index.get(key)
            {
                return Some(parameter.length);
            }
            let _ = key;
            self.providers.iter().any(|provider| provider.query_support(scope)).then_some(wanted)
        })
    }

    /// The limits of calls.
    #[cfg(feature = "local")]
    pub(crate) fn call_limits(&self) -> &Limits {
        &self.policy.limits
    }
}

/// Whether one of `modules` imports something from the module of the host that is called `name`.
fn imports_from<'m>(modules: impl IntoIterator<Item = &'m Module>, name: &str) -> bool {
    modules.into_iter().filter_map(Module::archive).any(|archive| archive.imports_from(name))
}

/// A writer that records traced tensors as lines.
struct Lines(Arc<TraceRecorder>);

impl Write for Lines {
    fn write(&mut self, text: &[u8]) -> io::Result<usize> {
        self.0.add(String::from_utf8_lossy(text).trim_end().to_string());
        Ok(text.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(all(test, feature = "local"))]
mod tests {
    use super::*;

    #[test]
    fn messages_have_no_long_attributes() {
        let long = "x = {a = 1, b = \"}\"}, y = [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]";
        assert_eq!(without_long_attributes("no device"), "no device");
        assert_eq!(without_long_attributes("#t<\"cuda\", {a = 1}> is"), "#t<\"cuda\", {a = 1}> is");
        let message = format!("#t<\"cuda\", {{{}}}> is not there", long.replace("\"}\"", "1"));
        assert_eq!(without_long_attributes(&message), "#t<\"cuda\", {...}> is not there");
        assert_eq!(without_long_attributes(&format!("{{{}", "a".repeat(50))), "{...}");
    }
}
