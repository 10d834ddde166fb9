//! The drivers of this build.

use std::sync::Arc;

use super::driver::{SingleDeviceDriver, expect_no_params};
use super::{DriverFactory, DriverInfo};
use crate::hal::local::task::TaskConfig;
use crate::hal::local::{ImportProvider, ImportProviders, LocalDevice};
use crate::hal::null::null_device_on;
use crate::hal::{Device, Driver, HeapAllocator, StringPair};
use crate::policy::SecurityPolicy;
use crate::status::{Result, Status};

const LOCAL_SYNC: &str = "local-sync";
const LOCAL_TASK: &str = "local-task";
const NULL: &str = "null";

/// What the drivers of this build start from. The URI of a device may say otherwise for that device.
#[derive(Clone, Debug, Default)]
pub struct BuiltinOptions {
    /// The workers of `local-task` devices.
    pub local_task: TaskConfig,
    /// What kernels of local devices may import.
    pub imports: Arc<ImportProviders>,
    /// What programs may do, and what runs kernels of local devices that are portable bytecode.
    pub policy: SecurityPolicy,
}

/// Creates the device of a driver, as the parameters of its URI say.
type Create = fn(&BuiltinOptions, &[StringPair]) -> Result<Arc<dyn Device>>;

/// A driver of this build.
struct Builtin {
    name: &'static str,
    description: &'static str,
    /// What is to be said of the device beyond that, in lines.
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
    LocalDevice::with_policy(id, &options.policy, &imports)
}

fn null(options: &BuiltinOptions, params: &[StringPair]) -> Result<Arc<dyn Device>> {
    expect_no_params(NULL, params)?;
    // What kernels would have written is zero.
    let memory = options.policy.limits.memory.clone();
    Ok(null_device_on(NULL, memory.map_or_else(HeapAllocator::without_reuse, HeapAllocator::with_budget)))
}

/// Offers them.
#[derive(Debug)]
pub(super) struct BuiltinDrivers {
    pub(super) options: BuiltinOptions,
}

impl DriverFactory for BuiltinDrivers {
    fn drivers(&self) -> Vec<DriverInfo> {
        DRIVERS.iter().map(|driver| DriverInfo::new(driver.name, driver.description)).collect()
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Driver>> {
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
