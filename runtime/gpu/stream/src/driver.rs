//! The driver ([`StreamDriver`]): lists the devices of a library and makes devices of one or several of them.

use std::fmt::Write;
use std::sync::{Arc, Mutex, PoisonError, Weak};

use crate::context::{Context, Description, Library, version_text};
use crate::device::{DeviceOptions, StreamDevice};
use crate::hal::{Device, DeviceId, DeviceInfo, Driver, StringPair};
use crate::status::{Result, Status};

/// Most devices of a library.
const MAX_DEVICES: usize = 64;

/// A driver over a library with streams.
#[derive(Debug)]
pub struct StreamDriver {
    library: Arc<Library>,
    devices: Vec<Description>,
    /// The device that an empty path names.
    default_index: usize,
    options: DeviceOptions,
    /// The contexts that are open, by ordinal: devices of one GPU share them.
    open: Mutex<Vec<Weak<Context>>>,
}

impl StreamDriver {
    /// A driver for the devices of a library. An empty path names the device at `default_index`.
    ///
    /// # Errors
    /// Those of the library, and OUT_OF_RANGE for more devices than a driver has.
    pub fn new(library: Arc<Library>, default_index: usize, options: DeviceOptions) -> Result<StreamDriver> {
        let count = library.device_count()?;
        if count as usize > MAX_DEVICES {
            return Err(Status::out_of_range(format!(
                "the library has {count} devices: at most {MAX_DEVICES} are used"
            )));
        }
        let devices = (0..count).map(|ordinal| library.describe(ordinal)).collect::<Result<Vec<_>>>()?;
        let open = Mutex::new(devices.iter().map(|_| Weak::new()).collect());
        Ok(StreamDriver { library, devices, default_index, options, open })
    }

    fn name(&self) -> &'static str {
        self.library.instance.names().driver
    }

    /// The devices of a path: none for the default one, or ordinals and unique names, separated by commas.
    fn select(&self, path: &str) -> Result<Vec<Description>> {
        if self.devices.is_empty() {
            let library = self.library.instance.names().library;
            return Err(Status::not_found(format!("the {library} library has no device")));
        }
        let known = || {
            let names = self.devices.iter().map(|device| format!("`{}` ({})", device.ordinal, device.path()));
            names.collect::<Vec<_>>().join(", ")
        };
        let missing = |part: &str| {
            Status::not_found(format!("driver `{}` has no device `{part}`: it has {}", self.name(), known()))
        };
        if path.is_empty() {
            let device = self.devices.get(self.default_index);
            return Ok(vec![device.ok_or_else(|| missing(&self.default_index.to_string()))?.clone()]);
        }
        let mut chosen: Vec<Description> = Vec::new();
        for part in path.split(',') {
            let device = match part.parse::<usize>() {
                Ok(ordinal) => self.devices.get(ordinal),
                // Instances of a divided GPU have names that begin with `MIG-`, and the same bytes.
                Err(_) => self.devices.iter().find(|device| {
                    let path = device.path();
                    let name = path.strip_prefix("GPU-").unwrap_or(&path);
                    let wanted = part.strip_prefix("GPU-").or_else(|| part.strip_prefix("MIG-"));
                    wanted.is_some_and(|wanted| wanted.eq_ignore_ascii_case(name))
                }),
            };
            let device = device.ok_or_else(|| missing(part))?;
            if chosen.iter().any(|other| other.ordinal == device.ordinal) {
                return Err(Status::invalid_argument(format!("device `{part}` is named twice")));
            }
            chosen.push(device.clone());
        }
        Ok(chosen)
    }

    fn context(&self, description: Description) -> Result<Arc<Context>> {
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        let place = &mut open[description.ordinal as usize];
        if let Some(context) = place.upgrade().filter(|context| context.loss().is_none()) {
            return Ok(context);
        }
        let context = Context::open(&self.library, description)?;
        *place = Arc::downgrade(&context);
        Ok(context)
    }

    fn create(&self, devices: Vec<Description>, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        let options = self.options.clone().with_params(params)?;
        let contexts = devices.into_iter().map(|device| self.context(device)).collect::<Result<_>>()?;
        Ok(Arc::new(StreamDevice::new(self.name(), contexts, &options)?))
    }

    fn of_id(&self, device_id: DeviceId) -> Result<&Description> {
        let ordinal = usize::try_from(device_id.0).ok().and_then(|id| id.checked_sub(1));
        let device = ordinal.and_then(|ordinal| self.devices.get(ordinal));
        let missing = || Status::not_found(format!("driver `{}` has no device with id {}", self.name(), device_id.0));
        device.ok_or_else(missing)
    }
}

impl Driver for StreamDriver {
    fn query_available_devices(&self) -> Result<Vec<DeviceInfo>> {
        let info = |device: &Description| {
            let (major, minor) = device.capability;
            DeviceInfo {
                device_id: DeviceId(device.ordinal as u64 + 1),
                path: device.path(),
                name: format!("{} (sm_{major}{minor})", device.name),
            }
        };
        Ok(self.devices.iter().map(info).collect())
    }

    fn dump_device_info(&self, device_id: DeviceId) -> Result<String> {
        let devices =
            if device_id == DeviceId::default() { self.devices.iter().collect() } else { vec![self.of_id(device_id)?] };
        let names = self.library.instance.names();
        let version = version_text(self.library.version()?);
        let count = self.devices.len();
        let mut text = format!("{} {version}: {count} device{}", names.library, if count == 1 { "" } else { "s" });
        match self.library.instance.missing().as_slice() {
            [] => text.push('\n'),
            missing => {
                let _ = writeln!(text, "; the library lacks {}", missing.join(", "));
            }
        }
        for device in devices {
            let context = self.context(device.clone())?;
            let limits = context.limits;
            let (major, minor) = device.capability;
            let bus = context.bus_id().map_or_else(String::new, |id| format!("PCI {id}, "));
            let free = context.free_memory().map_or_else(|_| "unknown".to_string(), |bytes| (bytes >> 20).to_string());
            let pools = if context.has_pools { "memory pools" } else { "no memory pools" };
            let managed = if context.has_managed { "managed memory" } else { "no managed memory" };
            let _ = writeln!(
                text,
                "{}: {} (sm_{major}{minor}), {}, {bus}{} multiprocessors, {} MiB, {free} of them free, {pools}, {managed}; blocks of {} threads and {} bytes of shared memory",
                device.ordinal,
                device.name,
                device.path(),
                context.multiprocessors,
                device.memory >> 20,
                limits.block_threads,
                limits.shared,
            );
            for other in self.devices.iter().filter(|other| other.ordinal != device.ordinal) {
                let how = match context.reaches(other) {
                    Ok(true) => "kernels reach it",
                    Ok(false) => "by copies alone",
                    Err(_) => "unknown",
                };
                let _ = writeln!(text, "  memory of {}: {how}", other.ordinal);
            }
        }
        Ok(text)
    }

    fn create_device_by_id(&self, device_id: DeviceId, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        if device_id == DeviceId::default() {
            return self.create(self.select("")?, params);
        }
        self.create(vec![self.of_id(device_id)?.clone()], params)
    }

    fn create_device_by_path(&self, _driver: &str, path: &str, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        self.create(self.select(path)?, params)
    }
}
