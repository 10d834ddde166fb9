//! The drivers of this build.

use std::sync::Arc;

use super::driver::SingleDeviceDriver;
use super::{DriverFactory, DriverInfo};
use crate::hal::local::{EmbeddedElfLoader, LocalDevice, NoImports};
use crate::hal::null::null_device;
use crate::hal::{Device, Driver, HeapAllocator};
use crate::status::{Result, Status};

const LOCAL_SYNC: &str = "local-sync";
const NULL: &str = "null";

const DRIVERS: [SingleDeviceDriver; 2] = [
    SingleDeviceDriver {
        name: LOCAL_SYNC,
        description: "the host's processor, on the calling thread",
        create: local_sync,
    },
    SingleDeviceDriver {
        name: NULL,
        description: "runs no kernels, to measure what the host does",
        create: || null_device(NULL),
    },
];

// The id of a device is what programs match when they look for theirs: `local*`.
fn local_sync() -> Arc<dyn Device> {
    let loader = EmbeddedElfLoader::new(Arc::new(NoImports));
    Arc::new(LocalDevice::new(LOCAL_SYNC, Arc::new(HeapAllocator::new()), vec![Arc::new(loader)]))
}

/// Offers them.
#[derive(Debug)]
pub(super) struct BuiltinDrivers;

impl DriverFactory for BuiltinDrivers {
    fn drivers(&self) -> Vec<DriverInfo> {
        let info = |driver: &SingleDeviceDriver| DriverInfo::new(driver.name, driver.description);
        DRIVERS.iter().map(info).collect()
    }

    fn create(&self, name: &str) -> Result<Arc<dyn Driver>> {
        match DRIVERS.into_iter().find(|driver| driver.name == name) {
            Some(driver) => Ok(Arc::new(driver)),
            None => Err(Status::not_found(format!("there is no built-in driver `{name}`"))),
        }
    }
}
