//! Devices: `vireo devices`, which lists them, and the registry of drivers that creates the devices of `--device=`.

use std::io;
use std::sync::Arc;

use anstream::AutoStream;
use serde_json::{Value, json};
use vireo::hal::local::{ImportProvider, LoadedKernels};
use vireo::hal::{
    AvailableDevice, BuiltinOptions, Device, DeviceUri, DriverInfo, DriverRegistry, MemoryHeap, MemoryType, Progress,
    QueryCategory, QueryKey, load_driver_library, load_executable_plugin,
};
use vireo::{Result, SecurityPolicy, Status, StatusCode};

use crate::arguments::{Color, DeviceArguments, DevicesArguments, Format};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::print::{print, print_json, print_styled};
use crate::progress::Bar;
use crate::styles;
use crate::suggest::{closest, did_you_mean};
use crate::table::Table;
use vireo::visible_text::{visible, visible_lines};

/// Drivers of IREE that Vireo lacks, so that the message for one differs from that for a typing error.
const OTHER_DRIVERS: [&str; 4] = ["cuda", "hip", "vulkan", "metal"];

/// The drivers of this build and those of the plugins that are asked for.
pub struct Drivers {
    registry: Arc<DriverRegistry>,
    /// The kernels in bytecode that their devices have loaded.
    kernels: Arc<LoadedKernels>,
}

impl Drivers {
    /// Loads the driver libraries and the executable plugins, if `policy` allows them. Programs on the devices are held
    /// to it.
    #[expect(unsafe_code, reason = "libraries are native code, which only the user can vouch for")]
    pub fn load(arguments: &DeviceArguments, policy: SecurityPolicy) -> Result<Drivers, Failure> {
        let kernel_progress = Bar::on_terminal("loading kernels").map(|bar| Arc::new(bar) as Arc<dyn Progress>);
        let kernels = Arc::<LoadedKernels>::default();
        let options = BuiltinOptions {
            local_task: arguments.task.config()?,
            amdgpu: arguments.amdgpu.config(),
            cuda: arguments.cuda.config(arguments.amdgpu.checks()),
            policy,
            collectives: arguments.collectives()?,
            kernel_progress,
            loaded_kernels: Some(kernels.clone()),
            ..BuiltinOptions::default()
        };
        let registry = options.registry();
        for path in &arguments.driver_plugin {
            // SAFETY: the user named the library in a flag that says that its code is run.
            let loaded = unsafe { load_driver_library(&registry, path) };
            loaded.map_err(|status| Failure::new(Exit::LoadFailure, "cannot load a driver plugin").because(status))?;
        }
        for path in &arguments.executable_plugin {
            // SAFETY: the user named the plugin in a flag that says that its code is run.
            let loaded = unsafe { load_executable_plugin(&registry, path, &[]) };
            let failed = || Failure::new(Exit::LoadFailure, "cannot load an executable plugin");
            loaded.map_err(|status| failed().because(status))?;
        }
        Ok(Drivers { registry: Arc::new(registry), kernels })
    }

    /// The drivers, for what creates devices itself.
    pub fn registry(&self) -> Arc<DriverRegistry> {
        self.registry.clone()
    }

    /// The kernels in bytecode that devices of these drivers have loaded.
    pub fn kernels(&self) -> Arc<LoadedKernels> {
        self.kernels.clone()
    }

    /// The functions that kernels of local devices may import.
    pub fn imports(&self) -> Arc<dyn ImportProvider> {
        self.registry.imports().clone()
    }

    /// Creates a device by its URI, such as `local-sync`.
    pub fn create_device(&self, uri: &str) -> Result<Arc<dyn Device>, Failure> {
        self.registry.create_device(uri).map_err(|status| {
            let wrong = status.code() == StatusCode::InvalidArgument;
            let failure = Failure::new(
                if wrong { Exit::Usage } else { Exit::LoadFailure },
                format!("cannot create the device `{}`", visible(uri)),
            );
            match DeviceUri::parse(uri) {
                Ok(DeviceUri { driver, .. })
                    if OTHER_DRIVERS.contains(&driver.as_str()) && self.of_driver(&driver).is_err() =>
                {
                    let status = Status::unimplemented(format!("the driver `{driver}` of IREE is not there yet"));
                    failure.because(status).hint(format!("use one of {}", self.names()))
                }
                Ok(DeviceUri { driver, .. }) if self.of_driver(&driver).is_err() => {
                    match closest(&driver, self.registry.drivers().iter().map(|info| info.name.as_str())) {
                        Some(meant) => failure.because(status).hint(format!("did you mean `{meant}`?")),
                        None => failure.because(status),
                    }
                }
                _ => failure.because(status),
            }
        })
    }

    fn names(&self) -> String {
        self.registry.drivers().into_iter().map(|info| info.name).collect::<Vec<_>>().join(", ")
    }

    /// The driver with a name, or all of them if it is empty.
    fn of_driver(&self, name: &str) -> Result<Vec<DriverInfo>, Failure> {
        let mut drivers = self.registry.drivers();
        if !name.is_empty() {
            drivers.retain(|info| info.name == name);
            if drivers.is_empty() {
                let failure = Failure::new(Exit::LoadFailure, format!("there is no driver `{}`", visible(name)));
                let known = self.registry.drivers();
                let meant = did_you_mean(name, known.iter().map(|info| info.name.as_str()), "");
                return Err(failure.hint(format!("{meant}the drivers of this build are {}", self.names())));
            }
        }
        Ok(drivers)
    }

    /// One line for each driver.
    pub fn list_drivers(&self) -> String {
        self.registry
            .drivers()
            .iter()
            .map(|info| format!("{:>16}: {}\n", info.name, visible(&info.full_name)))
            .collect()
    }

    /// One line for each device: what `--device=` takes.
    pub fn list_devices(&self, driver: &str) -> Result<String, Failure> {
        let drivers = self.of_driver(driver)?;
        let devices = drivers.iter().filter_map(|info| self.registry.devices_of(&info.name).ok()).flatten();
        Ok(devices.map(|device| format!("{}\n", visible(&device.uri()))).collect())
    }

    /// A table of devices, none of which is created.
    fn table(&self, driver: &str) -> Result<String, Failure> {
        let mut table = Table::new(&["device", "name", "what it is"]);
        let mut problems = String::new();
        for DriverInfo { name, full_name } in self.of_driver(driver)? {
            match self.registry.devices_of(&name) {
                Ok(devices) => {
                    devices
                        .into_iter()
                        .for_each(|device| table.row([device.uri(), device.info.name, full_name.clone()]));
                }
                Err(status) => {
                    let status = visible(&status.to_string());
                    problems.push_str(&format!("  driver {name} cannot be used: {status}\n"));
                }
            }
        }
        Ok(table.to_text() + &problems)
    }

    /// A description of each device and the memory it has.
    pub fn dump_devices(&self, driver: &str) -> Result<String, Failure> {
        let mut text = String::new();
        for found in self.find(driver)? {
            let devices = match found.devices {
                Ok(devices) => devices,
                Err(status) => {
                    text.push_str(&format!(
                        "{}\n  cannot be used: {}\n",
                        found.info.name,
                        visible(&status.to_string())
                    ));
                    continue;
                }
            };
            for Found { device, description, created } in devices {
                text.push_str(&format!("--device={}\n", visible(&device.uri())));
                text.extend(description.lines().map(|line| format!("  {}\n", visible(line))));
                match created {
                    Ok(Created { heaps, queues, concurrency }) => {
                        text.extend(queues.map(|count| format!("  queues: {count}\n")));
                        text.extend(concurrency.map(|count| format!("  workgroups that run at a time: {count}\n")));
                        text.extend(heaps.iter().map(|heap| format!("  memory: {}\n", memory(heap))));
                    }
                    Err(status) => text.push_str(&format!("  cannot be created: {}\n", visible(&status.to_string()))),
                }
            }
        }
        Ok(text)
    }

    /// All that is known of the devices of a driver, or of all drivers. Creates them to find out.
    fn find(&self, driver: &str) -> Result<Vec<FoundDriver>, Failure> {
        let mut found = Vec::new();
        for info in self.of_driver(driver)? {
            let devices = self.devices_of(&info.name);
            found.push(FoundDriver { info, devices });
        }
        Ok(found)
    }

    fn devices_of(&self, name: &str) -> Result<Vec<Found>> {
        let driver = self.registry.create_driver(name)?;
        let mut found = Vec::new();
        for info in driver.query_available_devices()? {
            let description = driver.dump_device_info(info.device_id).unwrap_or_default();
            let created = driver.create_device_by_id(info.device_id, &[]).map(|device| Created {
                heaps: device.allocator().memory_heaps(),
                queues: device.query_i64(QueryCategory::Device.name(), QueryKey::Concurrency.name()).ok(),
                concurrency: device.query_i64(QueryCategory::Dispatch.name(), QueryKey::Concurrency.name()).ok(),
            });
            found.push(Found { device: AvailableDevice { driver: name.to_string(), info }, description, created });
        }
        Ok(found)
    }
}

/// A driver and its devices, or why there are none.
struct FoundDriver {
    info: DriverInfo,
    devices: Result<Vec<Found>>,
}

/// A device, and what it says when it can be created.
struct Found {
    device: AvailableDevice,
    description: String,
    created: Result<Created>,
}

/// The properties of a device that was created.
struct Created {
    heaps: Vec<MemoryHeap>,
    queues: Option<i64>,
    /// Workgroups of a dispatch that run at a time.
    concurrency: Option<i64>,
}

/// `vireo devices`: a table for people or JSON for programs.
pub fn print_devices(arguments: &DevicesArguments, color: Color) -> Result<Exit, Failure> {
    let mut out = AutoStream::new(io::stdout(), color.choice());
    if let Some(topologies) = arguments.devices.task.dump()? {
        return print(&mut out, &topologies);
    }
    let drivers = Drivers::load(&arguments.devices, SecurityPolicy::trusted())?;
    match arguments.format {
        Format::Text => print_styled(&mut out, &styles::table(&visible_lines(&drivers.table(&arguments.driver)?))),
        Format::Json => print_json(&mut out, &format!("{:#}\n", to_json(&drivers.find(&arguments.driver)?))),
    }
}

fn to_json(found: &[FoundDriver]) -> Value {
    let device = |Found { device, description, created }: &Found| {
        let mut object = json!({
            "uri": device.uri(),
            "id": device.info.device_id.0,
            "path": device.info.path,
            "name": device.info.name,
            "description": description.trim_end(),
        });
        match created {
            Ok(Created { heaps, queues, concurrency }) => {
                object["memory"] = heaps.iter().map(heap_json).collect();
                object["queues"] = json!(queues);
                object["concurrency"] = json!(concurrency);
            }
            Err(status) => object["error"] = status.to_string().into(),
        }
        object
    };
    let driver = |FoundDriver { info, devices }: &FoundDriver| {
        let mut object = json!({"name": info.name, "full_name": info.full_name});
        match devices {
            Ok(devices) => object["devices"] = devices.iter().map(device).collect(),
            Err(status) => object["error"] = status.to_string().into(),
        }
        object
    };
    json!({"drivers": found.iter().map(driver).collect::<Vec<_>>()})
}

fn heap_json(heap: &MemoryHeap) -> Value {
    // The largest size there is stands for no limit.
    let limit = Some(heap.max_allocation_size).filter(|size| *size != u64::MAX);
    json!({"types": kinds(heap), "max_allocation_size": limit, "min_alignment": heap.min_alignment})
}

fn kinds(heap: &MemoryHeap) -> Vec<&'static str> {
    MemoryType::NAMED.iter().filter(|(set, _)| heap.memory_type.contains(*set)).map(|(_, name)| *name).collect()
}

fn memory(heap: &MemoryHeap) -> String {
    let largest = match heap.max_allocation_size {
        u64::MAX => "of any size".into(),
        bytes => format!("of at most {bytes} bytes"),
    };
    format!("{}; buffers {largest}, aligned to {} bytes", kinds(heap).join(" "), heap.min_alignment)
}

/// Writes out what plugins in C have printed, so that it comes before what the command prints next: when stdout is no
/// terminal, C keeps it otherwise until the process ends.
#[expect(unsafe_code, reason = "the streams are those of the C library")]
pub fn flush_c_streams() {
    #[cfg(any(unix, windows))]
    {
        unsafe extern "C" {
            fn fflush(stream: *mut std::ffi::c_void) -> std::ffi::c_int;
        }
        // SAFETY: a null stream stands for all that are open, and the function locks each of them. That one cannot be
        // written is no failure of the program.
        let _ = unsafe { fflush(std::ptr::null_mut()) };
    }
}
