//! The drivers of this build, and the registries that have them.

use std::path::Path;
use std::sync::{Arc, LazyLock};

#[cfg(feature = "amdgpu")]
use super::amdgpu;
#[cfg(feature = "cuda")]
use super::cuda;
use super::loaders::loaders;
use super::options::BuiltinOptions;
use vireo_core::status::{Result, Status};
use vireo_hal::host_kernels::ImportProvider;
use vireo_hal::registry::driver::{SingleDeviceDriver, expect_no_params};
use vireo_hal::{
    AvailableDevice, Device, Driver, DriverFactory, DriverInfo, DriverRegistry, HeapAllocator, StringPair,
};
use vireo_local::null::null_device_on;
use vireo_local::{ExecutablePlugin, LocalDevice};

const LOCAL_SYNC: &str = "local-sync";
const LOCAL_TASK: &str = "local-task";
const NULL: &str = "null";

/// Creates the device of a driver, as the parameters of its URI say.
type Create = fn(&BuiltinOptions, &[StringPair]) -> Result<Arc<dyn Device>>;

/// A driver of this build.
struct Builtin {
    name: &'static str,
    description: &'static str,
    /// The description of the device beyond that, in lines.
    details: fn(&BuiltinOptions) -> Result<String>,
    create: Create,
}

const DRIVERS: [Builtin; 3] = [
    Builtin {
        name: LOCAL_SYNC,
        description: "the host's processor, on the calling thread",
        details: |_| Ok(String::new()),
        create: local_sync,
    },
    Builtin {
        name: LOCAL_TASK,
        description: "the host's processors, with worker threads",
        details: workers,
        create: local_task,
    },
    Builtin {
        name: NULL,
        description: "runs no kernels, to measure what the host does",
        details: |_| Ok(String::new()),
        create: null,
    },
];

// The id of a device is what programs match when they look for theirs: `local*`.
fn local_sync(options: &BuiltinOptions, params: &[StringPair]) -> Result<Arc<dyn Device>> {
    expect_no_params(LOCAL_SYNC, params)?;
    Ok(Arc::new(local(LOCAL_SYNC, options)))
}

fn local_task(options: &BuiltinOptions, params: &[StringPair]) -> Result<Arc<dyn Device>> {
    let workers = options.local_task.clone().with_params(params)?.resolve()?;
    Ok(Arc::new(local(LOCAL_TASK, options).with_workers(&workers)?))
}

/// A line for each queue of a `local-task` device.
fn workers(options: &BuiltinOptions) -> Result<String> {
    let topologies = options.local_task.resolve()?.topologies;
    Ok(topologies.iter().map(|topology| format!("queue of {topology}\n")).collect())
}

fn local(id: &str, options: &BuiltinOptions) -> LocalDevice {
    let imports: Arc<dyn ImportProvider> = options.imports.clone();
    LocalDevice::with_policy(id, &options.policy, loaders(&options.policy, &imports, Some(options)))
        .with_collectives(options.collectives.clone())
}

fn null(options: &BuiltinOptions, params: &[StringPair]) -> Result<Arc<dyn Device>> {
    expect_no_params(NULL, params)?;
    // Memory that kernels would have written is zero.
    let memory = options.policy.limits.memory.clone();
    Ok(null_device_on(NULL, memory.map_or_else(HeapAllocator::without_reuse, HeapAllocator::with_budget)))
}

/// Offers them.
#[derive(Debug)]
struct BuiltinDrivers {
    options: BuiltinOptions,
}

impl DriverFactory for BuiltinDrivers {
    fn drivers(&self) -> Vec<DriverInfo> {
        let of_host = DRIVERS.iter().map(|driver| DriverInfo::new(driver.name, driver.description));
        #[cfg(feature = "amdgpu")]
        let of_host = of_host.chain([DriverInfo::new(vireo_amdgpu::driver::DRIVER_NAME, "GPUs of AMD, over HSA")]);
        #[cfg(feature = "cuda")]
        let of_host = of_host.chain([DriverInfo::new(vireo_cuda_driver::NAMES.driver, "GPUs of NVIDIA, over CUDA")]);
        of_host.collect()
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Driver>> {
        #[cfg(feature = "amdgpu")]
        if name == vireo_amdgpu::driver::DRIVER_NAME {
            return amdgpu::create(&self.options.amdgpu, &self.options.policy);
        }
        #[cfg(feature = "cuda")]
        if name == vireo_cuda_driver::NAMES.driver {
            return cuda::create(&self.options.cuda, &self.options.policy, &self.options.collectives);
        }
        let driver = DRIVERS.into_iter().find(|driver| driver.name == name);
        let driver = driver.ok_or_else(|| Status::not_found(format!("there is no built-in driver `{name}`")))?;
        let (options, same) = (self.options.clone(), self.options.clone());
        Ok(Arc::new(SingleDeviceDriver {
            name: driver.name,
            describe: Box::new(move || Ok(format!("{}\n{}", driver.description, (driver.details)(&options)?))),
            create: Box::new(move |params| (driver.create)(&same, params)),
        }))
    }
}

impl BuiltinOptions {
    /// A registry with the drivers of this build, which start from these options.
    pub fn registry(self) -> DriverRegistry {
        let (imports, policy) = (self.imports.clone(), self.policy.clone());
        DriverRegistry::with_factory(Arc::new(BuiltinDrivers { options: self }), imports, policy)
    }
}

/// The registry of the process. It begins with the drivers of this build.
pub fn global_drivers() -> &'static DriverRegistry {
    static GLOBAL: LazyLock<DriverRegistry> = LazyLock::new(|| BuiltinOptions::default().registry());
    &GLOBAL
}

/// Loads an executable plugin and adds it to [`DriverRegistry::imports`].
///
/// # Errors
/// As for [`ExecutablePlugin::load`].
///
/// # Safety
/// As for [`ExecutablePlugin::load`].
pub unsafe fn load_executable_plugin(
    registry: &DriverRegistry,
    path: &Path,
    params: &[(&str, &str)],
) -> Result<Arc<ExecutablePlugin>> {
    registry.policy().allow_native_code(|| format!("executable plugin `{}`", path.display()))?;
    // SAFETY: the caller trusts the code in the file, and guarantees that the file does not change while it is loaded.
    let plugin = Arc::new(unsafe { ExecutablePlugin::load(path, params) }?);
    registry.imports().add(plugin.clone());
    Ok(plugin)
}

/// Creates a device of the process's registry by its URI, such as `local-sync`.
///
/// # Errors
/// `INVALID_ARGUMENT` if the URI is malformed, `NOT_FOUND` if no driver or device is called so, and those of the
/// driver.
pub fn create_device(uri: &str) -> Result<Arc<dyn Device>> {
    global_drivers().create_device(uri)
}

/// The devices of the process's registry.
pub fn list_devices() -> Vec<AvailableDevice> {
    global_drivers().devices()
}
