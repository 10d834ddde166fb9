//! The common parts of tests: devices over the software driver, buffers, and kernels in PTX.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use vireo_core::status::{Result, Status};
use vireo_cuda_driver::{NAMES, library};
use vireo_hal::*;
use vireo_stream::api::{ApiError, Tracer};
use vireo_stream::context::Library;
use vireo_stream::device::DeviceOptions;
use vireo_stream::driver::StreamDriver;

pub use crate::container::{executable, module};

/// The executable of `fixtures/cuda/rebuild.sh`.
pub const KERNELS: &[u8] = include_bytes!("../../../../../../fixtures/cuda/conformance_sm_60.cda1");

pub const FORMAT: &str = NAMES.format;

/// The names of the calls that a library got.
#[derive(Clone, Default)]
pub struct Calls(Arc<Mutex<Vec<&'static str>>>);

impl Calls {
    /// How many there were of a function since the last question.
    pub fn take(&self, name: &str) -> usize {
        let mut calls = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let before = calls.len();
        calls.retain(|call| *call != name);
        before - calls.len()
    }
}

impl Tracer for Calls {
    fn call(&self, function: &'static str, _: Instant, _: std::fmt::Arguments<'_>, _: Option<&ApiError>) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(function);
    }
}

/// Gives the software driver two devices.
pub fn configure() {
    let options = vireo_softcuda::Options { devices: 2, memory: 256 << 20, ..vireo_softcuda::Options::default() };
    // Another test may have been first.
    let _ = vireo_softcuda::configure(options);
}

/// The software driver with two devices.
pub fn library(tracer: Option<Box<dyn Tracer>>) -> Arc<Library> {
    configure();
    // SAFETY: it finds the functions of one library, which is part of the program.
    unsafe { library::start_found(vireo_softcuda::entries::cuGetProcAddress_v2, tracer) }.expect("it starts")
}

pub fn driver() -> StreamDriver {
    StreamDriver::new(library(None), 0, DeviceOptions::default()).expect("there are devices")
}

pub fn device(params: &[(&str, &str)]) -> Arc<dyn Device> {
    let params: Vec<StringPair> =
        params.iter().map(|(key, value)| StringPair { key: key.to_string(), value: value.to_string() }).collect();
    driver().create_device_by_path("cuda", "0", &params).expect("a device")
}

pub fn prepare(device: &dyn Device, data: &[u8]) -> Result<Arc<dyn Executable>> {
    let cache = device.create_executable_cache("tests")?;
    cache.prepare_executable(QueueAffinity::ANY, ExecutableCachingMode::empty(), FORMAT, data, &[])
}

pub fn buffer(device: &dyn Device, words: &[u32]) -> Arc<dyn Buffer> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    buffer_from_bytes(device, &bytes).expect("there is memory")
}

pub fn words(buffer: &dyn Buffer) -> Vec<u32> {
    let bytes = buffer_to_vec(buffer, buffer.byte_length()).expect("reads");
    bytes.as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes).collect()
}

pub fn whole(buffer: &Arc<dyn Buffer>) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER }
}

/// Submits something and waits for it.
pub fn outcome(device: &dyn Device, submit: impl FnOnce(&[Timepoint]) -> Result<()>) -> Result<()> {
    let line = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty())?;
    submit(&[Timepoint { semaphore: line.clone(), value: 1 }])?;
    line.wait(1, None)
}

/// The refusal of something that should not work.
pub fn refusal<T>(result: Result<T>) -> Status {
    result.err().expect("it is refused")
}
