//! `HalDriver`: the drivers of this build, and their devices.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use vireo::hal::{AllocatorSpec, DeviceId, DeviceInfo, DeviceUri, Driver, StringPair, wrap_allocator};

use super::device::PyDevice;
use super::flags::registry;
use super::throw::{OrThrow, wrong_type};
use crate::interpreter::detached;

/// A driver.
#[pyclass(frozen, weakref, name = "HalDriver", module = "vireo.compat.iree._binding")]
pub struct PyDriver(Arc<dyn Driver>);

/// Drivers by name. Locked by threads that have the interpreter, and only for a moment.
static CACHE: Mutex<BTreeMap<String, Py<PyDriver>>> = Mutex::new(BTreeMap::new());

fn cache() -> MutexGuard<'static, BTreeMap<String, Py<PyDriver>>> {
    CACHE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn create(py: Python<'_>, device_uri: &str) -> PyResult<(String, Py<PyDriver>)> {
    let what = "Error creating driver";
    let name = DeviceUri::parse(device_uri).or_throw(py, what)?.driver;
    let registry = registry(py)?;
    let driver = detached(py, || registry.create_driver(&name)).or_throw(py, what)?;
    Ok((name, Py::new(py, PyDriver(driver))?))
}

/// The driver of a URI, which others share.
#[pyfunction]
pub fn get_cached_hal_driver(py: Python<'_>, device_uri: &str) -> PyResult<Py<PyDriver>> {
    let name = DeviceUri::parse(device_uri).or_throw(py, "Error creating driver")?.driver;
    if let Some(driver) = cache().get(&name) {
        return Ok(driver.clone_ref(py));
    }
    let (name, driver) = create(py, device_uri)?;
    // Of two threads that make one, both get the first.
    Ok(cache().entry(name).or_insert(driver).clone_ref(py))
}

/// A driver of its own.
#[pyfunction]
pub fn create_hal_driver(py: Python<'_>, device_uri: &str) -> PyResult<Py<PyDriver>> {
    create(py, device_uri).map(|(_, driver)| driver)
}

/// Forgets the drivers that are shared.
#[pyfunction]
pub fn clear_hal_driver_cache() {
    let drivers = std::mem::take(&mut *cache());
    drop(drivers);
}

impl PyDriver {
    fn infos(&self, py: Python<'_>) -> PyResult<Vec<DeviceInfo>> {
        detached(py, || self.0.query_available_devices()).or_throw(py, "Error querying devices")
    }
}

fn record<'py>(py: Python<'py>, info: &DeviceInfo) -> PyResult<Bound<'py, PyDict>> {
    let fields = PyDict::new(py);
    fields.set_item("device_id", info.device_id.0)?;
    fields.set_item("path", &info.path)?;
    fields.set_item("name", &info.name)?;
    Ok(fields)
}

/// Puts allocators over that of a device, the last outermost.
fn finish(
    py: Python<'_>,
    device: vireo::Result<Arc<dyn vireo::hal::Device>>,
    allocators: Option<Vec<String>>,
) -> PyResult<PyDevice> {
    let device = device.or_throw(py, "Error creating device")?;
    let allocators = allocators.unwrap_or_default();
    if !allocators.is_empty() {
        let wrapped = wrap_allocator(&*device, |inner| {
            allocators.iter().try_fold(inner, |inner, spec| spec.parse::<AllocatorSpec>()?.wrap(inner))
        });
        wrapped.or_throw(py, "Error configuring the device")?;
    }
    Ok(PyDevice(device))
}

/// Parameters of a device: texts by texts.
fn parameters(params: Option<&Bound<'_, PyDict>>) -> PyResult<Vec<StringPair>> {
    let pairs = params.into_iter().flat_map(|params| params.iter());
    pairs.map(|(key, value)| Ok(StringPair { key: key.extract()?, value: value.str()?.extract()? })).collect()
}

#[pymethods]
impl PyDriver {
    /// The names of the drivers.
    #[staticmethod]
    fn query(py: Python<'_>) -> PyResult<Vec<String>> {
        Ok(registry(py)?.drivers().into_iter().map(|info| info.name).collect())
    }

    /// The devices of the driver.
    fn query_available_devices<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let records = self.infos(py)?.iter().map(|info| record(py, info)).collect::<PyResult<Vec<_>>>()?;
        PyList::new(py, records)
    }

    /// A description of a device.
    fn dump_device_info(&self, py: Python<'_>, device_id: u64) -> PyResult<String> {
        detached(py, || self.0.dump_device_info(DeviceId(device_id))).or_throw(py, "Error describing device")
    }

    /// The first device.
    #[pyo3(signature = (allocators=None))]
    fn create_default_device(&self, py: Python<'_>, allocators: Option<Vec<String>>) -> PyResult<PyDevice> {
        let device = detached(py, || self.0.create_device_by_id(DeviceId(0), &[]));
        finish(py, device, allocators)
    }

    /// A device by its number, or by what `query_available_devices` says of it.
    #[pyo3(signature = (device_id, params=None, allocators=None))]
    fn create_device(
        &self,
        py: Python<'_>,
        device_id: &Bound<'_, PyAny>,
        params: Option<&Bound<'_, PyDict>>,
        allocators: Option<Vec<String>>,
    ) -> PyResult<PyDevice> {
        let number = match device_id.cast::<PyDict>() {
            Ok(info) => info.as_any().get_item("device_id")?,
            Err(_) => device_id.clone(),
        };
        let number: u64 = number.extract().map_err(|_| wrong_type("the number of a device", &number))?;
        let infos = self.infos(py)?;
        if !infos.iter().any(|info| info.device_id.0 == number) {
            let known = infos.iter().map(|info| record(py, info)).collect::<PyResult<Vec<_>>>()?;
            let known = PyList::new(py, known)?;
            return Err(PyValueError::new_err(format!("Device id {number} not found. Available devices: {known}")));
        }
        let params = parameters(params)?;
        let device = detached(py, || self.0.create_device_by_id(DeviceId(number), &params));
        finish(py, device, allocators)
    }

    /// A device by its URI.
    #[pyo3(signature = (device_uri, allocators=None))]
    fn create_device_by_uri(
        &self,
        py: Python<'_>,
        device_uri: &str,
        allocators: Option<Vec<String>>,
    ) -> PyResult<PyDevice> {
        let driver: &dyn Driver = &*self.0;
        let device = detached(py, || driver.create_device_by_uri(device_uri));
        finish(py, device, allocators)
    }
}
