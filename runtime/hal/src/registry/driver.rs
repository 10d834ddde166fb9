//! Methods of all drivers beyond those of the trait, and [`SingleDeviceDriver`], a driver with one device. Registries
//! and the drivers of this build use them.

use std::fmt;
use std::sync::Arc;

use super::uri::DeviceUri;
use crate::status::{Result, Status};
use crate::visible_text::excerpt;
use crate::{Device, DeviceId, DeviceInfo, Driver, StringPair};

impl dyn Driver {
    /// Creates the device that the driver chooses.
    ///
    /// # Errors
    /// Those of the driver.
    pub fn create_default_device(&self) -> Result<Arc<dyn Device>> {
        self.create_device_by_id(DeviceId::default(), &[])
    }

    /// Creates a device by its position in the list of devices, which may differ from one driver and process to the
    /// next.
    ///
    /// # Errors
    /// `OUT_OF_RANGE` if the driver has no such device, and those of the driver.
    pub fn create_device_by_ordinal(&self, ordinal: usize, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        let devices = self.query_available_devices()?;
        let info = devices.get(ordinal).ok_or_else(|| {
            Status::out_of_range(format!("device {ordinal}: the driver has {} devices", devices.len()))
        })?;
        self.create_device_by_id(info.device_id, params)
    }

    /// Creates a device by its URI, whose driver is taken to be this one.
    ///
    /// # Errors
    /// `INVALID_ARGUMENT` if the URI is malformed, `NOT_FOUND` if the driver has no such device, and those of the
    /// driver.
    pub fn create_device_by_uri(&self, uri: &str) -> Result<Arc<dyn Device>> {
        let DeviceUri { driver, path, params } = DeviceUri::parse(uri)?;
        self.create_device_by_path(&driver, &path, &params)
            .map_err(|status| status.context(format!("creating device `{}`", excerpt(uri))))
    }
}

/// Creates the device of a driver with the parameters of its URI. It refuses unknown ones.
pub type CreateDevice = dyn Fn(&[StringPair]) -> Result<Arc<dyn Device>> + Send + Sync;

/// Describes the device, in lines of text.
pub type DescribeDevice = dyn Fn() -> Result<String> + Send + Sync;

/// A driver with one device.
pub struct SingleDeviceDriver {
    /// The name of the driver.
    pub name: &'static str,
    /// Describes its device.
    pub describe: Box<DescribeDevice>,
    /// Creates it.
    pub create: Box<CreateDevice>,
}

impl fmt::Debug for SingleDeviceDriver {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "driver({})", self.name)
    }
}

impl Driver for SingleDeviceDriver {
    fn query_available_devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo { device_id: DeviceId::default(), path: String::new(), name: "default".to_string() }])
    }

    fn dump_device_info(&self, device_id: DeviceId) -> Result<String> {
        self.check_id(device_id)?;
        (self.describe)()
    }

    fn create_device_by_id(&self, device_id: DeviceId, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        self.check_id(device_id)?;
        (self.create)(params)
    }

    fn create_device_by_path(&self, _driver: &str, path: &str, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        if !path.is_empty() {
            let (name, path) = (self.name, excerpt(path));
            return Err(Status::not_found(format!(
                "driver `{name}` has no device `{path}`: its only one is `{name}://`"
            )));
        }
        self.create_device_by_id(DeviceId::default(), params)
    }
}

impl SingleDeviceDriver {
    fn check_id(&self, device_id: DeviceId) -> Result<()> {
        if device_id == DeviceId::default() {
            return Ok(());
        }
        Err(Status::not_found(format!("driver `{}` has no device with id {}", self.name, device_id.0)))
    }
}

/// Refuses the parameters of a URI for a driver that has none.
///
/// # Errors
/// `INVALID_ARGUMENT`, with the name of the first one.
pub fn expect_no_params(name: &str, params: &[StringPair]) -> Result<()> {
    let Some(StringPair { key, .. }) = params.first() else { return Ok(()) };
    Err(Status::invalid_argument(format!("driver `{name}` has no parameter `{}`: it has none", excerpt(key))))
}
