//! The requirements of a program ([`Requirements`]), and which of them a host lacks. The builder of models makes it
//! without loading anything.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use vireo_context::Module;
use vireo_core::limits::Limits;
use vireo_core::status::Result;
use vireo_core::visible_text::visible;
use vireo_core::{byte_size, glob};
use vireo_hal::{AvailableDevice, Device, ExecutableFormat, QueryCategory};
use vireo_module::bytecode::opcode::RESERVED_PREFIX;
use vireo_module::vmfb::{Archive, is_for_callers};

#[cfg(feature = "cuda")]
use crate::cuda_executable::CudaExecutable;
#[cfg(feature = "amdgpu")]
use crate::gpu_executable::GpuExecutable;
use crate::model::ModelBuilder;
use crate::probe::{self, Outcome, SeenExecutable};
use crate::signature::Signature;

/// How long the initialisers may take on the stand-in.
const TIMEOUT: Duration = Duration::from_secs(10);

/// The requirements of a program, as its initialisers ask for them, and whether the host has them.
#[derive(Clone, Debug, Default)]
pub struct Requirements {
    /// The modules that it imports from.
    pub modules: Vec<RequiredModule>,
    /// The patterns of device names that it looks for, and whether a device of the host matches each.
    pub devices: Vec<(String, bool)>,
    /// The drivers of these devices, if no device of the host matches a pattern.
    pub drivers: Vec<RequiredDriver>,
    /// The formats that it has kernels in. It needs a device that runs one of them.
    pub formats: Vec<RequiredFormat>,
    /// The parameters that it loads.
    pub parameters: Vec<RequiredParameter>,
    /// Bytes of constants in the file.
    pub constant_bytes: u64,
    /// Bytes of device memory after loading, parameters included. Calls take more.
    pub device_bytes: u64,
    /// The functions that it exports.
    pub functions: Vec<Signature>,
    /// Why its initialisers could not be followed to their end, if so; then there may be more that it needs.
    pub incomplete: Option<String>,
}

/// The driver of a device that a program looks for and does not find.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredDriver {
    /// The pattern of the device's name, which the name of its driver matches, too.
    pub pattern: String,
    /// The driver, if this build has it.
    pub name: Option<String>,
    /// The URIs of its devices, of which the program got none.
    pub devices: Vec<String>,
    /// Why it cannot be created or has no devices here, if so: its library is not there, for instance.
    pub failure: Option<String>,
}

/// A module that a program imports from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredModule {
    /// Its name.
    pub name: String,
    /// The oldest version that will do.
    pub minimum_version: u32,
    /// Whether the program can do without.
    pub is_optional: bool,
    /// The version that the host has, if it has one.
    pub available: Option<u32>,
}

/// A format that a program has kernels in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredFormat {
    /// Its name, such as `embedded-elf-x86_64`.
    pub name: String,
    /// Whether a device of the host runs it.
    pub is_available: bool,
    /// The executables of this format.
    pub executables: Vec<RequiredExecutable>,
}

/// An executable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredExecutable {
    /// Bytes in the file.
    pub bytes: u64,
    /// The names of its kernels, if the program or the executable has them.
    pub kernels: Vec<String>,
    /// The features of the processor that its code uses, and whether the processor has each. Empty where that cannot be
    /// told.
    pub features: BTreeMap<String, bool>,
    /// The kernels of an executable for AMD GPUs.
    #[cfg(feature = "amdgpu")]
    pub gpu: Option<GpuExecutable>,
    /// The modules and kernels of an executable for NVIDIA GPUs.
    #[cfg(feature = "cuda")]
    pub cuda: Option<CudaExecutable>,
    /// Why it cannot be read, if so. Executables in formats that loading alone reads have nothing here.
    pub damage: Option<String>,
}

/// A parameter that a program loads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RequiredParameter {
    /// Its scope; empty for none.
    pub scope: String,
    /// Its name.
    pub key: String,
    /// How many bytes of it are loaded.
    pub bytes: u64,
    /// The bytes that the host has of it; none if it has no such parameter.
    pub available: Option<u64>,
}

impl Requirements {
    /// The requirements that the host lacks, a line for each. A program can be loaded if there is none.
    pub fn missing(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for module in self.modules.iter().filter(|module| !module.is_optional) {
            let RequiredModule { name, minimum_version, .. } = module;
            match module.available {
                None => missing.push(format!("module `{name}`, which the host does not have")),
                Some(version) if version < *minimum_version => missing.push(format!(
                    "module `{name}` of version {minimum_version} or later: the host has version {version}"
                )),
                Some(_) => {}
            }
        }
        if !self.devices.is_empty() && !self.devices.iter().any(|(_, is_available)| *is_available) {
            let patterns = self.devices.iter().map(|(pattern, _)| match self.driver_of(pattern) {
                Some(driver) => format!("`{pattern}` ({driver})"),
                None => format!("`{pattern}`"),
            });
            missing.push(format!("a device called {}", patterns.collect::<Vec<_>>().join(" or ")));
        }
        if !self.formats.is_empty() && !self.formats.iter().any(|format| format.is_available) {
            let names = self.formats.iter().map(|format| format!("`{}`", format.name)).collect::<Vec<_>>();
            missing.push(format!("a device that runs kernels in the format {}", names.join(" or ")));
        }
        for format in self.formats.iter().filter(|format| format.is_available) {
            let executables = format.executables.iter().flat_map(|executable| &executable.features);
            let mut lacking = executables.filter(|(_, has)| !**has).map(|(name, _)| name.as_str()).collect::<Vec<_>>();
            lacking.sort_unstable();
            lacking.dedup();
            if !lacking.is_empty() {
                let name = &format.name;
                missing.push(format!("a processor with {} for the kernels in `{name}`", lacking.join(", ")));
            }
        }
        // Kernels in another format serve as well.
        let none_runs = !self.formats.iter().any(|format| format.is_available);
        for format in self.formats.iter().filter(|format| format.is_available || none_runs) {
            let damaged = format.executables.iter().filter_map(|executable| executable.damage.as_ref());
            missing.extend(damaged.map(|why| format!("kernels in `{}` that can be read: {why}", format.name)));
        }
        #[cfg(feature = "cuda")]
        for format in self.formats.iter().filter(|format| format.is_available) {
            let refused = format.executables.iter().filter_map(|executable| executable.cuda.as_ref()?.refusal());
            missing.extend(refused.map(|why| format!("a device that takes the kernels in `{}`: {why}", format.name)));
        }
        missing.extend(self.missing_parameters());
        missing
    }

    /// The driver of a device that is not there.
    fn driver_of(&self, pattern: &str) -> Option<&RequiredDriver> {
        self.drivers.iter().find(|driver| driver.pattern == pattern)
    }

    /// The same for parameters alone.
    pub(crate) fn missing_parameters(&self) -> Vec<String> {
        let mut missing = Vec::new();
        for parameter in &self.parameters {
            let RequiredParameter { scope, key, bytes, .. } = parameter;
            let place = if scope.is_empty() { String::new() } else { format!(" of the scope `{scope}`") };
            match parameter.available {
                None => missing.push(format!("parameter `{key}`{place} ({bytes} bytes)")),
                Some(available) if available < *bytes => missing
                    .push(format!("parameter `{key}`{place} with {bytes} bytes: the one there has {available} bytes")),
                Some(_) => {}
            }
        }
        missing
    }
}

impl ModelBuilder {
    /// The requirements of a program, and which of them the devices, parameters and modules of this builder lack. The
    /// initialisers of the program run on a stand-in for a device, within the limits of the builder and ten seconds; no
    /// parameters, executables or devices are loaded or used, but that a CUDA device of the builder loads the code of
    /// its kernels to say what they take. They call modules that were added by [`ModelBuilder::with_module`] as they do
    /// in a session. Where no device is one that the program looks for, the driver that would have it is asked for its
    /// devices, if the policy allows native code.
    ///
    /// # Errors
    /// Failures of creating the devices and of opening the parameters.
    pub fn requirements(&self, main: &Module) -> Result<Requirements> {
        let devices = self.create_devices()?;
        let mut modules = self.modules.clone();
        modules.push(main.clone());
        // All runs together have the time that an initialiser has.
        let own = self.call_limits();
        let timeout = own.timeout.map_or(TIMEOUT, |timeout| timeout.min(TIMEOUT));
        let end = Instant::now().checked_add(timeout);
        let deadline = [own.deadline, end].into_iter().flatten().min();
        let limits = Limits { deadline, timeout: None, fuel: None, ..own.clone() };
        // First no format is accepted, so programs with kernels in several ask for all of them.
        let mut outcome = probe::run(&modules, None, &limits)?;
        let mut formats = std::mem::take(&mut outcome.seen.formats);
        let mut found: Vec<RequiredFormat> = Vec::new();
        let mut index = 0;
        while index < formats.len() {
            let name = formats[index].clone();
            index += 1;
            let accepted = probe::run(&modules, Some(&name), &limits)?;
            formats.extend(
                accepted.seen.formats.iter().filter(|other| !formats.contains(other)).cloned().collect::<Vec<_>>(),
            );
            let executables = accepted.seen.executables.iter().filter(|executable| executable.format == name);
            found.push(RequiredFormat {
                is_available: runs(&devices, QueryCategory::ExecutableFormat, &name),
                executables: executables.map(|executable| required(executable, &devices)).collect(),
                name,
            });
            // The first that goes through to the end tells the rest.
            if outcome.failure.is_some() {
                outcome = accepted;
            }
        }
        self.describe(main, &devices, &modules, found, outcome)
    }

    fn describe(
        &self,
        main: &Module,
        devices: &[Arc<dyn Device>],
        modules: &[Module],
        formats: Vec<RequiredFormat>,
        outcome: Outcome,
    ) -> Result<Requirements> {
        let Outcome { seen, failure, memory } = outcome;
        let host = self.host_modules(devices, Vec::new(), modules)?;
        let available = |name: &str| {
            let mut known = modules[..modules.len() - 1].iter().chain(&host);
            known.find(|module| module.name() == name).map(Module::version)
        };
        let mut required: Vec<RequiredModule> = Vec::new();
        for dependency in modules.iter().filter_map(Module::archive).flat_map(Archive::dependencies) {
            if !required.iter().any(|known| known.name == dependency.name) {
                required.push(RequiredModule {
                    name: dependency.name.to_string(),
                    minimum_version: dependency.minimum_version,
                    is_optional: dependency.optional,
                    available: available(dependency.name),
                });
            }
        }
        // Programs that declare no dependency import all the same.
        for import in modules.iter().filter_map(Module::archive).flat_map(Archive::imports) {
            let Some((name, _)) = import.split() else { continue };
            if !required.iter().any(|known| known.name == name) {
                required.push(RequiredModule {
                    name: name.to_string(),
                    minimum_version: 0,
                    is_optional: import.optional,
                    available: available(name),
                });
            }
        }
        let lengths = self.parameter_lengths()?;
        let parameter = |((scope, key), bytes): ((String, String), u64)| {
            let available = lengths(&scope, &key, bytes);
            RequiredParameter { scope, key, bytes, available }
        };
        let parameters = seen.parameters.into_iter().map(parameter).collect();
        let matches = |pattern: String| {
            let is_available = runs(devices, QueryCategory::DeviceId, &pattern);
            (pattern, is_available)
        };
        let found: Vec<(String, bool)> = seen.devices.into_iter().map(matches).collect();
        let mut drivers: Vec<RequiredDriver> = Vec::new();
        // A program that has one of its devices needs no driver.
        if !found.iter().any(|(_, is_available)| *is_available) {
            for (pattern, _) in &found {
                let driver = self.find_driver(pattern, &drivers);
                drivers.push(driver);
            }
        }
        let rodata = main.archive().map_or(0, |archive| archive.rodata().map(|rodata| rodata.range.len() as u64).sum());
        Ok(Requirements {
            modules: required,
            devices: found,
            drivers,
            formats,
            parameters,
            constant_bytes: rodata,
            device_bytes: memory.device_bytes_peak,
            functions: functions(main),
            incomplete: failure.map(|status| status.to_string()),
        })
    }
}

impl ModelBuilder {
    /// The driver whose devices a pattern matches, and what it has here; `known` are those that were asked before.
    fn find_driver(&self, pattern: &str, known: &[RequiredDriver]) -> RequiredDriver {
        let registry = self.registry();
        let name = registry.drivers().into_iter().map(|info| info.name).find(|name| {
            // Names of devices begin with that of their driver.
            pattern == name || glob::matches(pattern.as_bytes(), name.as_bytes())
        });
        let mut found = RequiredDriver { pattern: pattern.to_string(), name, devices: Vec::new(), failure: None };
        let Some(name) = &found.name else { return found };
        if let Some(known) = known.iter().find(|known| known.name.as_ref() == Some(name)) {
            return RequiredDriver { pattern: found.pattern, ..known.clone() };
        }
        // Libraries of drivers are native code.
        if !registry.policy().native_code {
            found.failure =
                Some(format!("driver `{name}` is not asked for devices: the policy allows no machine code"));
            return found;
        }
        match registry.devices_of(name) {
            Ok(devices) => found.devices = devices.iter().map(AvailableDevice::uri).collect(),
            Err(status) => found.failure = Some(status.message().to_string()),
        }
        found
    }
}

/// The state of the driver, and a way out.
impl fmt::Display for RequiredDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.name, &self.failure, self.devices.as_slice()) {
            (None, ..) => f.write_str("this build has no driver for it"),
            (Some(_), Some(failure), _) => f.write_str(failure),
            (Some(name), None, []) => write!(f, "the driver `{name}` finds no device"),
            (Some(name), None, devices) => {
                write!(f, "the driver `{name}` has {}, which was not given to the program", devices.join(" and "))
            }
        }
    }
}

/// The functions that are there for callers, or all if none is.
fn functions(main: &Module) -> Vec<Signature> {
    let all = main.exports().filter_map(|export| Signature::of(main, &export).ok()).collect::<Vec<_>>();
    match all.iter().any(|signature| is_for_callers(&signature.name)) {
        true => all.into_iter().filter(|signature| is_for_callers(&signature.name)).collect(),
        false => all,
    }
}

/// Whether a device of the host says yes to a query.
fn runs(devices: &[Arc<dyn Device>], category: QueryCategory, key: &str) -> bool {
    devices.iter().any(|device| device.query_i64(category.name(), key).is_ok_and(|answer| answer != 0))
}

fn required(executable: &SeenExecutable, devices: &[Arc<dyn Device>]) -> RequiredExecutable {
    let mut kernels = executable.functions.clone();
    if executable.format == ExecutableFormat::VmvxBytecode.name()
        && let Ok(archive) = Archive::from_bytes(&executable.data)
    {
        let names =
            archive.exports().map(|export| export.name.to_string()).filter(|name| !name.starts_with(RESERVED_PREFIX));
        kernels = names.collect();
    }
    #[cfg_attr(not(any(feature = "amdgpu", feature = "cuda")), expect(unused_mut, reason = "of GPUs alone"))]
    let mut damage = None;
    #[cfg(feature = "amdgpu")]
    let gpu = match GpuExecutable::is_format(&executable.format).then(|| GpuExecutable::read(&executable.data)) {
        None => None,
        Some(Ok(gpu)) => {
            kernels = gpu.kernels.iter().map(|kernel| kernel.name.clone()).collect();
            Some(gpu)
        }
        Some(Err(status)) => {
            damage = Some(status.message().to_string());
            None
        }
    };
    #[cfg(feature = "cuda")]
    let cuda = match (executable.format == CudaExecutable::FORMAT).then(|| CudaExecutable::read(&executable.data)) {
        None => None,
        Some(Ok(mut cuda)) => {
            kernels = cuda.kernels.iter().map(|kernel| kernel.name.clone()).collect();
            cuda.ask(devices, &executable.data);
            Some(cuda)
        }
        Some(Err(status)) => {
            damage = Some(status.message().to_string());
            None
        }
    };
    #[cfg(not(feature = "cuda"))]
    let _ = devices;
    RequiredExecutable {
        bytes: executable.data.len() as u64,
        kernels,
        features: features(&executable.data),
        #[cfg(feature = "amdgpu")]
        gpu,
        #[cfg(feature = "cuda")]
        cuda,
        damage,
    }
}

#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
fn features(data: &[u8]) -> BTreeMap<String, bool> {
    // A library that is damaged or for another processor tells nothing; loading it tells why.
    vireo_local::required_features(data).unwrap_or_default()
}

#[cfg(not(all(target_arch = "x86_64", feature = "check-kernels")))]
fn features(_data: &[u8]) -> BTreeMap<String, bool> {
    BTreeMap::new()
}

/// A text for people: a section for each kind of thing, and at the end what is missing.
impl fmt::Display for Requirements {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = |has: bool| if has { "" } else { "  MISSING" };
        // One of several is enough.
        let here = |has: bool| if has { "" } else { "  not here" };
        writeln!(f, "functions:")?;
        self.functions.iter().try_for_each(|function| writeln!(f, "  {}", visible(&function.to_string())))?;
        if !self.modules.is_empty() {
            writeln!(f, "modules:")?;
        }
        for module in &self.modules {
            let has = module.is_optional || module.available.is_some_and(|version| version >= module.minimum_version);
            writeln!(f, "  {}, version {} or later{}", visible(&module.name), module.minimum_version, mark(has))?;
        }
        if !self.devices.is_empty() {
            writeln!(f, "devices, one of:")?;
        }
        for (pattern, has) in &self.devices {
            let why = self.driver_of(pattern).map_or_else(String::new, |driver| format!(": {driver}"));
            writeln!(f, "  {}{}{}", visible(pattern), here(*has), visible(&why))?;
        }
        if !self.formats.is_empty() {
            writeln!(f, "kernels, in one of:")?;
        }
        for format in &self.formats {
            let bytes = format.executables.iter().map(|executable| executable.bytes).sum();
            let count: usize = format.executables.iter().map(|executable| executable.kernels.len()).sum();
            let kernels = match count {
                0 => String::new(),
                1 => "1 kernel, ".into(),
                count => format!("{count} kernels, "),
            };
            writeln!(
                f,
                "  {}: {kernels}{}{}",
                visible(&format.name),
                byte_size::text(bytes),
                here(format.is_available)
            )?;
            let features = format.executables.iter().flat_map(|executable| &executable.features);
            let features: BTreeMap<_, _> = features.collect();
            if !features.is_empty() {
                let names =
                    features.iter().map(|(name, has)| format!("{name}{}", if **has { "" } else { " (MISSING)" }));
                writeln!(f, "    for processors with {}", visible(&names.collect::<Vec<_>>().join(", ")))?;
            }
            #[cfg(feature = "amdgpu")]
            format
                .executables
                .iter()
                .filter_map(|executable| executable.gpu.as_ref())
                .try_for_each(|gpu| write!(f, "{gpu}"))?;
            #[cfg(feature = "cuda")]
            format
                .executables
                .iter()
                .filter_map(|executable| executable.cuda.as_ref())
                .try_for_each(|cuda| write!(f, "{cuda}"))?;
            for damage in format.executables.iter().filter_map(|executable| executable.damage.as_ref()) {
                writeln!(f, "    DAMAGED: {}", visible(damage))?;
            }
        }
        if !self.parameters.is_empty() {
            let bytes = self.parameters.iter().map(|parameter| parameter.bytes).sum();
            writeln!(f, "parameters: {}, {}", self.parameters.len(), byte_size::text(bytes))?;
        }
        for parameter in &self.parameters {
            let scope = if parameter.scope.is_empty() { String::new() } else { format!("{}::", parameter.scope) };
            let has = parameter.available.is_some_and(|bytes| bytes >= parameter.bytes);
            writeln!(
                f,
                "  {}{}: {}{}",
                visible(&scope),
                visible(&parameter.key),
                byte_size::text(parameter.bytes),
                mark(has)
            )?;
        }
        let (constants, device) = (byte_size::text(self.constant_bytes), byte_size::text(self.device_bytes));
        writeln!(f, "memory: {constants} of constants in the file, {device} on the device once it is loaded")?;
        if let Some(why) = &self.incomplete {
            writeln!(f, "there may be more that it needs: {}", visible(why))?;
        }
        let missing = self.missing();
        if missing.is_empty() {
            let all = if self.incomplete.is_some() { "everything else" } else { "everything" };
            return writeln!(f, "{all} is there");
        }
        writeln!(f, "missing:")?;
        missing.iter().try_for_each(|line| writeln!(f, "  {}", visible(line)))
    }
}
