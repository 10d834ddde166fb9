//! The tests that every device passes, on a machine that is hard to drive: kernels overlap and end in any order, and
//! writes of the host arrive when they are flushed. Queues have the smallest rings. `VIREO_MACHINE` names another one,
//! such as `order=reversed,host-writes=until-acquire`.

use std::sync::{Arc, OnceLock};

use vireo_amdgpu::agent::System;
use vireo_amdgpu::device::DeviceOptions;
use vireo_amdgpu::driver::AmdDriver;
use vireo_amdgpu::symbols::Hsa;
use vireo_device_suite::{Backend, on};
use vireo_hal::{Device, Driver, StringPair};

const MACHINE: &str = "order=overlapped,host-writes=until-flush";

fn create() -> Arc<dyn Device> {
    static DRIVER: OnceLock<AmdDriver> = OnceLock::new();
    let driver = DRIVER.get_or_init(|| {
        let machine = std::env::var("VIREO_MACHINE").unwrap_or_else(|_| MACHINE.to_string());
        vireo_softhsa::configure(machine.parse().expect("a topology"), None).expect("nothing uses the library");
        // SAFETY: the functions are those of one library, which is part of the program.
        let hsa = unsafe { Hsa::start(vireo_softhsa::functions(), None) }.expect("it starts");
        AmdDriver::new(System::discover(&hsa).expect("there is an agent"), DeviceOptions::default())
    });
    let pair = |(key, value): (&str, &str)| StringPair { key: key.to_string(), value: value.to_string() };
    let params = [("amdgpu_queues", "4"), ("amdgpu_queue_packets", "256")].map(pair);
    driver.create_device_by_path("amdgpu", "", &params).expect("there is such a device")
}

on!(amdgpu, Backend { name: "amdgpu on a hard machine", create, runs_kernels: true, is_gpu: true, queues: 4 });
