//! The driver ([`AmdDriver`]): lists the agents of an HSA library and makes devices of one or several of them.

use std::fmt::Write;
use std::sync::Arc;

use crate::agent::{GpuAgent, System};
use crate::device::{AmdDevice, DeviceOptions};
use crate::hal::{Device, DeviceId, DeviceInfo, Driver, StringPair};
use crate::status::{Result, Status};

/// The name of the driver.
pub const DRIVER_NAME: &str = "amdgpu";

/// The driver of AMD GPUs.
#[derive(Debug)]
pub struct AmdDriver {
    system: System,
    options: DeviceOptions,
}

impl AmdDriver {
    /// A driver for the agents of a system.
    pub fn new(system: System, options: DeviceOptions) -> AmdDriver {
        AmdDriver { system, options }
    }

    /// The agents of a path: none for all, or ordinals and unique names, separated by commas.
    fn select(&self, path: &str) -> Result<Vec<Arc<GpuAgent>>> {
        let gpus = &self.system.gpus;
        let known = || {
            let names = gpus.iter().map(|gpu| format!("`{}` ({})", gpu.ordinal, path_of(gpu)));
            names.collect::<Vec<_>>().join(", ")
        };
        if gpus.is_empty() {
            return Err(Status::not_found("the HSA library has no GPU"));
        }
        if path.is_empty() {
            return Ok(gpus.clone());
        }
        let mut chosen: Vec<Arc<GpuAgent>> = Vec::new();
        for part in path.split(',') {
            let gpu = match part.parse::<usize>() {
                Ok(ordinal) => gpus.get(ordinal),
                Err(_) => gpus.iter().find(|gpu| !gpu.uuid.is_empty() && gpu.uuid.eq_ignore_ascii_case(part)),
            };
            let gpu = gpu.ok_or_else(|| {
                Status::not_found(format!("driver `{DRIVER_NAME}` has no device `{part}`: it has {}", known()))
            })?;
            if chosen.iter().any(|other| other.ordinal == gpu.ordinal) {
                return Err(Status::invalid_argument(format!("device `{part}` is named twice")));
            }
            chosen.push(gpu.clone());
        }
        Ok(chosen)
    }

    fn create(&self, agents: Vec<Arc<GpuAgent>>, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        let options = self.options.clone().with_params(params)?;
        Ok(Arc::new(AmdDevice::new(DRIVER_NAME, agents, &options)?))
    }

    fn of_id(&self, device_id: DeviceId) -> Result<&Arc<GpuAgent>> {
        let ordinal = usize::try_from(device_id.0).ok().and_then(|id| id.checked_sub(1));
        let gpu = ordinal.and_then(|ordinal| self.system.gpus.get(ordinal));
        gpu.ok_or_else(|| Status::not_found(format!("driver `{DRIVER_NAME}` has no device with id {}", device_id.0)))
    }
}

/// The path of a device of one agent.
fn path_of(gpu: &GpuAgent) -> String {
    // Agents without a unique name say so.
    let is_unique = !gpu.uuid.is_empty() && !gpu.uuid.to_ascii_uppercase().ends_with("-XX");
    if is_unique { gpu.uuid.clone() } else { gpu.ordinal.to_string() }
}

impl Driver for AmdDriver {
    fn query_available_devices(&self) -> Result<Vec<DeviceInfo>> {
        let info = |gpu: &Arc<GpuAgent>| DeviceInfo {
            device_id: DeviceId(gpu.ordinal as u64 + 1),
            path: path_of(gpu),
            name: format!("{} ({})", gpu.product, gpu.target),
        };
        Ok(self.system.gpus.iter().map(info).collect())
    }

    fn dump_device_info(&self, device_id: DeviceId) -> Result<String> {
        let gpus = if device_id == DeviceId::default() {
            self.system.gpus.iter().collect()
        } else {
            vec![self.of_id(device_id)?]
        };
        let faults = if self.system.hsa.reports_faults { "end queues" } else { "end the process" };
        let mut text = format!("AMD GPUs over HSA: {}; memory faults {faults}\n", self.system.gpus.len());
        for gpu in gpus {
            let visible = if gpu.local_is_host_visible { "the host reaches it" } else { "the host does not reach it" };
            let _ = writeln!(
                text,
                "{}: {} ({}), {} compute units, node {}, {} MiB of its own, {visible}; memory of the host: {}",
                gpu.ordinal,
                gpu.product,
                gpu.target,
                gpu.compute_units,
                gpu.node,
                gpu.local.max_size >> 20,
                gpu.host_link,
            );
            for (other, link) in
                self.system.links[gpu.ordinal].iter().enumerate().filter(|(other, _)| *other != gpu.ordinal)
            {
                let _ = writeln!(text, "  memory of {other}: {}", link);
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
