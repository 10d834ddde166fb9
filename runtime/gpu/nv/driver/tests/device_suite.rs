//! The tests that every device passes, on a library that the environment names: `VIREO_CUDA_LIBRARY` is the path of a
//! CUDA driver library, without which it is the software driver, whose streams run in an order that is drawn. In
//! `VIREO_CUDA_PARAMS` are parameters of the device, `graphs=always,streams=2`. `fixtures/cuda/silicon/run.sh` runs
//! them on a GPU.

use std::path::PathBuf;
use std::sync::{Arc, OnceLock};

use vireo_cuda_driver::library;
use vireo_device_suite::{Backend, on};
use vireo_hal::{Device, Driver, StringPair};
use vireo_softcuda::{Options, WorkOrder};
use vireo_stream::collectives::LibrarySource;
use vireo_stream::context::Library;
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

fn library() -> Arc<Library> {
    if let Ok(path) = std::env::var("VIREO_CUDA_LIBRARY") {
        // SAFETY: the variable names a CUDA driver library.
        return unsafe { library::load(&[PathBuf::from(path)], None) }.expect("it is loaded");
    }
    let options = Options { order: WorkOrder::Random(1), ..Options::default() };
    vireo_softcuda::configure(options).expect("nothing uses the library");
    // SAFETY: it finds the functions of one library, which is part of the program.
    unsafe { library::start_found(vireo_softcuda::entries::cuGetProcAddress_v2, None) }.expect("it starts")
}

fn create() -> Arc<dyn Device> {
    static DRIVER: OnceLock<StreamDriver> = OnceLock::new();
    // A GPU has the library of ranks that the system has.
    let is_software = std::env::var("VIREO_CUDA_LIBRARY").is_err();
    let ranks = is_software.then(|| LibrarySource::Functions(vireo_softnccl::functions()));
    let options = DeviceOptions { collectives_library: ranks.unwrap_or_default(), ..DeviceOptions::default() };
    let new = || StreamDriver::new(library(), 0, options).expect("there are devices");
    let params = std::env::var("VIREO_CUDA_PARAMS").unwrap_or_else(|_| "streams=4".to_string());
    let pairs = params.split(',').filter_map(|pair| pair.split_once('='));
    let pair = |(key, value): (&str, &str)| StringPair { key: key.to_string(), value: value.to_string() };
    let params: Vec<StringPair> = pairs.map(pair).collect();
    DRIVER.get_or_init(new).create_device_by_path("cuda", "", &params).expect("there is such a device")
}

on!(
    cuda,
    Backend { name: "cuda on a library of the environment", create, runs_kernels: true, is_gpu: true, queues: 4 }
);
