//! The profile of `--device_profiling_mode`: `run` and `benchmark` begin it with their devices, and end it when they
//! are done.

use std::fs::File;
use std::io::BufWriter;
use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use vireo::hal::{
    Device, ProfileCaptureFilter, ProfileCaptureFilterFlags, ProfileCounterSetSelection, ProfileSink,
    ProfilingDataFamilies, ProfilingOptions,
};
use vireo::profile::{ProfileFile, ProfiledDevices};
use vireo::{Result as VireoResult, Status};

use crate::arguments::ProfilingArguments;
use crate::exit::Exit;
use crate::failure::Failure;

/// The names of modes, as IREE has them.
const MODES: [(&str, ProfilingDataFamilies); 11] = [
    ("queue-events", ProfilingDataFamilies::QUEUE_EVENTS),
    ("host-execution", ProfilingDataFamilies::HOST_EXECUTION_EVENTS),
    ("device-queue-events", ProfilingDataFamilies::DEVICE_QUEUE_EVENTS),
    ("dispatch-events", ProfilingDataFamilies::DISPATCH_EVENTS),
    ("counters", ProfilingDataFamilies::COUNTER_SAMPLES),
    ("counter-ranges", ProfilingDataFamilies::COUNTER_RANGES),
    ("executable-metadata", ProfilingDataFamilies::EXECUTABLE_METADATA),
    ("executable-traces", ProfilingDataFamilies::EXECUTABLE_TRACES),
    ("memory-events", ProfilingDataFamilies::MEMORY_EVENTS),
    ("device-metrics", ProfilingDataFamilies::DEVICE_METRICS),
    ("command-region-events", ProfilingDataFamilies::COMMAND_REGION_EVENTS),
];

/// A profile that is written.
pub struct DeviceProfile {
    name: PathBuf,
    options: ProfilingOptions,
    file: Arc<ProfileFile<BufWriter<File>>>,
    interval: Duration,
    open: Mutex<Open>,
}

/// The devices whose profiles have begun, and the thread that flushes them.
#[derive(Default)]
struct Open {
    devices: Vec<Arc<dyn Device>>,
    flusher: Option<(mpsc::Sender<()>, JoinHandle<VireoResult<()>>)>,
}

impl DeviceProfile {
    /// Creates the file that the flags name. None if they ask for no profile.
    pub fn create(arguments: &ProfilingArguments) -> Result<Option<DeviceProfile>, Failure> {
        let families = families(&arguments.device_profiling_mode)?;
        let output =
            Some(PathBuf::from(&arguments.device_profiling_output)).filter(|name| !name.as_os_str().is_empty());
        let (name, families) = match (output, families) {
            (None, None) => return Ok(None),
            (Some(name), Some(families)) => (name, families),
            (None, Some(_)) => {
                return Err(Failure::new(Exit::Usage, "--device_profiling_mode needs --device_profiling_output=FILE"));
            }
            (Some(_), None) => {
                let failure = Failure::new(Exit::Usage, "--device_profiling_output needs --device_profiling_mode");
                return Err(failure.hint("try --device_profiling_mode=queue-events,host-execution"));
            }
        };
        let counts =
            families.intersects(ProfilingDataFamilies::COUNTER_SAMPLES | ProfilingDataFamilies::COUNTER_RANGES);
        let counters = &arguments.device_profiling_counter;
        if counts == counters.is_empty() {
            let message = "--device_profiling_counter and the modes `counters` and `counter-ranges` need each other";
            return Err(Failure::new(Exit::Usage, message));
        }
        let counter_sets = match counts {
            true => vec![ProfileCounterSetSelection {
                name: "counters".to_string(),
                counter_names: counters.clone(),
                ..ProfileCounterSetSelection::default()
            }],
            false => Vec::new(),
        };
        let capture_filter = filter(arguments)?;
        let created = ProfileFile::create(&name);
        let file = created.map_err(|status| cannot_write(&name).because(status))?;
        let sink: Arc<dyn ProfileSink> = file.clone();
        let options = ProfilingOptions {
            data_families: families,
            sink: Some(sink),
            capture_filter,
            counter_sets,
            ..ProfilingOptions::default()
        };
        let interval = Duration::from_millis(arguments.device_profiling_flush_interval_ms.into());
        Ok(Some(DeviceProfile { name, options, file, interval, open: Mutex::default() }))
    }

    /// The devices with their profiles begun.
    pub fn begin(&self, devices: &[Arc<dyn Device>]) -> Result<Vec<Arc<dyn Device>>, Failure> {
        let mut profiled = ProfiledDevices::new();
        let devices: Vec<Arc<dyn Device>> = devices.iter().map(|device| profiled.device(device)).collect();
        let mut open = self.open.lock().unwrap_or_else(PoisonError::into_inner);
        for device in &devices {
            let begun = device.profiling_begin(&self.options);
            let failed = || Failure::new(Exit::Usage, format!("cannot profile the device `{}`", device.id()));
            begun.map_err(|status| failed().because(status))?;
            open.devices.push(device.clone());
        }
        if !self.interval.is_zero() {
            let (end, ended) = mpsc::channel();
            let (devices, interval) = (devices.clone(), self.interval);
            let flush = move || {
                while let Err(RecvTimeoutError::Timeout) = ended.recv_timeout(interval) {
                    devices.iter().try_for_each(|device| device.profiling_flush())?;
                }
                Ok(())
            };
            let thread = std::thread::Builder::new().name("profile".to_string()).spawn(flush);
            let failed = || Failure::new(Exit::RunFailure, "cannot start the thread that flushes the profile");
            open.flusher = Some((end, thread.map_err(|error| failed().because(error))?));
        }
        Ok(devices)
    }

    /// Ends the profile of each device, and the file.
    pub fn finish(self) -> Result<(), Failure> {
        let open = self.open.into_inner().unwrap_or_else(PoisonError::into_inner);
        let flushed = open.flusher.map_or(Ok(()), |(end, thread)| {
            drop(end);
            thread.join().unwrap_or_else(|_| Err(Status::internal("the thread that flushes the profile panicked")))
        });
        let ended = open.devices.iter().fold(flushed, |outcome, device| outcome.and(device.profiling_end()));
        let outcome = ended.and(self.file.finish().map(drop));
        outcome.map_err(|status| cannot_write(&self.name).because(status))
    }
}

fn cannot_write(name: &std::path::Path) -> Failure {
    Failure::new(Exit::Usage, format!("cannot write --device_profiling_output={}", name.display()))
}

/// The measurements that a list of modes names; none if it is empty.
fn families(modes: &str) -> Result<Option<ProfilingDataFamilies>, Failure> {
    let mut families = ProfilingDataFamilies::empty();
    for mode in modes.split(',').map(str::trim).filter(|mode| !mode.is_empty()) {
        let Some((_, family)) = MODES.iter().find(|(name, _)| *name == mode) else {
            let mode = mode.escape_debug();
            let failure = Failure::new(Exit::Usage, format!("--device_profiling_mode has no mode `{mode}`"));
            let names: Vec<&str> = MODES.iter().map(|(name, _)| *name).collect();
            return Err(failure.hint(format!("the modes are {}", names.join(", "))));
        };
        families |= *family;
    }
    Ok(Some(families).filter(|families| !families.is_empty()))
}

fn filter(arguments: &ProfilingArguments) -> Result<ProfileCaptureFilter, Failure> {
    let mut filter = ProfileCaptureFilter::default();
    if !arguments.device_profiling_filter_function.is_empty() {
        filter.flags |= ProfileCaptureFilterFlags::EXECUTABLE_FUNCTION_PATTERN;
        filter.executable_function_pattern = arguments.device_profiling_filter_function.clone();
    }
    if let Some(id) = number("command_buffer", arguments.device_profiling_filter_command_buffer, i64::MAX as u64)? {
        filter.flags |= ProfileCaptureFilterFlags::COMMAND_BUFFER_ID;
        filter.command_buffer_id = id;
    }
    let most = u64::from(u32::MAX - 1);
    for (name, value, flag, field) in [
        (
            "command_index",
            arguments.device_profiling_filter_command_index,
            ProfileCaptureFilterFlags::COMMAND_INDEX,
            &mut filter.command_index,
        ),
        (
            "physical_device",
            arguments.device_profiling_filter_physical_device,
            ProfileCaptureFilterFlags::PHYSICAL_DEVICE_ORDINAL,
            &mut filter.physical_device_ordinal,
        ),
        (
            "queue",
            arguments.device_profiling_filter_queue,
            ProfileCaptureFilterFlags::QUEUE_ORDINAL,
            &mut filter.queue_ordinal,
        ),
    ] {
        if let Some(value) = number(name, value, most)? {
            filter.flags |= flag;
            *field = u32::try_from(value).unwrap_or(u32::MAX);
        }
    }
    Ok(filter)
}

/// The number of a filter; none for -1.
fn number(name: &str, value: i64, most: u64) -> Result<Option<u64>, Failure> {
    match u64::try_from(value) {
        Ok(value) if value <= most => Ok(Some(value)),
        Err(_) if value == -1 => Ok(None),
        _ => {
            let message = format!("--device_profiling_filter_{name} is {value}: expected -1 to {most}");
            Err(Failure::new(Exit::Usage, message))
        }
    }
}
