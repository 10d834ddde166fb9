//! The devices of this build, by the names that tools use.

use std::sync::Arc;

use super::local::{EmbeddedElfLoader, LocalDevice, NoImports};
use super::null::null_device;
use super::{Device, HeapAllocator};
use crate::status::{Result, Status};

/// A device that can be created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DeviceInfo {
    /// What `create_device` takes: `local-sync`.
    pub name: &'static str,
    /// What it is.
    pub description: &'static str,
}

type Create = fn() -> Arc<dyn Device>;

const DEVICES: &[(DeviceInfo, Create)] = &[
    (DeviceInfo { name: "local-sync", description: "the host's processor, on the calling thread" }, local_sync),
    (DeviceInfo { name: "null", description: "executes no kernels, for measuring what the host does" }, || {
        null_device("null")
    }),
];

fn local_sync() -> Arc<dyn Device> {
    let loader = EmbeddedElfLoader::new(Arc::new(NoImports));
    // The id is what programs match when they look for their device: `local*`.
    Arc::new(LocalDevice::new("local-sync", Arc::new(HeapAllocator::new()), vec![Arc::new(loader)]))
}

/// Every device that can be created.
pub fn list_devices() -> Vec<DeviceInfo> {
    DEVICES.iter().map(|(info, _)| *info).collect()
}

/// Creates a device by the name of its driver, such as `local-sync` or `local-sync://`.
pub fn create_device(uri: &str) -> Result<Arc<dyn Device>> {
    let name = uri.split_once("://").map_or(uri, |(driver, _)| driver);
    match DEVICES.iter().find(|(info, _)| info.name == name) {
        Some((_, create)) => Ok(create()),
        None => {
            let known: Vec<&str> = DEVICES.iter().map(|(info, _)| info.name).collect();
            Err(Status::not_found(format!("there is no device `{uri}`: expected one of {}", known.join(", "))))
        }
    }
}
