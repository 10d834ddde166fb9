//! A driver in a library of its own: its device forwards everything to `local-sync` and counts queue operations.
//!
//! ```text
//! cargo build -p vireo-counting-driver
//! vireo run --driver_plugin=target/debug/libvireo_counting_driver.so --device='counting://?log=1' \
//!   --module=... --input=...
//! ```
//!
//! It uses only public items: the traits of [`vireo::hal`], and [`vireo::export_driver!`], which makes a library a
//! driver library. `examples/README.md` explains it.

mod device;

use std::sync::Arc;

use device::CountingDevice;
use vireo::hal::{BuiltinOptions, Device, DeviceId, DeviceInfo, Driver, StringPair};
use vireo::{Result, Status};

vireo::export_driver!("counting", || Ok(Arc::new(CountingDriver) as Arc<dyn Driver>));

/// The id of the only device. An id of 0 leaves the choice to the driver.
const DEVICE: DeviceId = DeviceId(1);
/// Its path, as in `counting://cpu`.
const PATH: &str = "cpu";

#[derive(Debug)]
struct CountingDriver;

impl Driver for CountingDriver {
    fn query_available_devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo { device_id: DEVICE, path: PATH.into(), name: "local-sync, counted".into() }])
    }

    fn dump_device_info(&self, _device_id: DeviceId) -> Result<String> {
        Ok("counts operations of the local-sync device\n?log=1 writes each operation to stderr\n".into())
    }

    fn create_device_by_id(&self, device_id: DeviceId, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        if device_id != DEVICE && device_id != DeviceId::default() {
            return Err(Status::not_found(format!("there is no device {}: the only one is {}", device_id.0, DEVICE.0)));
        }
        let mut log = false;
        for StringPair { key, value } in params {
            // Unknown parameters are refused, since the user expects an effect.
            log = match (key.as_str(), value.as_str()) {
                ("log", "" | "1") => true,
                ("log", "0") => false,
                _ => return Err(Status::invalid_argument(format!("`{key}={value}`: expected log=0 or log=1"))),
            };
        }
        let inner = BuiltinOptions::default().registry().create_device("local-sync")?;
        Ok(Arc::new(CountingDevice::wrap(inner, log)))
    }

    fn create_device_by_path(&self, driver: &str, path: &str, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        match path {
            "" | PATH => self.create_device_by_id(DEVICE, params),
            _ => Err(Status::not_found(format!("there is no device `{path}`: the only one is {driver}://{PATH}"))),
        }
    }
}
