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
use vireo_stream::executable_format::{ExecutableDef, ExportDef, IDENTIFIER, ModuleDef};

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

/// The software driver with two devices.
pub fn library(tracer: Option<Box<dyn Tracer>>) -> Arc<Library> {
    let options = vireo_softcuda::Options { devices: 2, memory: 256 << 20, ..vireo_softcuda::Options::default() };
    // Another test may have been first.
    let _ = vireo_softcuda::configure(options);
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

/// An executable in the format of the compiler, with one kernel of a module: its bindings are not read only.
pub fn executable(text: &str, name: &str, block: [u32; 3], bindings: usize, constants: u32) -> Vec<u8> {
    let mut builder = flatbuffers::FlatBufferBuilder::new();
    let image = builder.create_string(text);
    let module = {
        let start = builder.start_table();
        builder.push_slot_always(ModuleDef::SLOT_IMAGE, image);
        builder.end_table(start)
    };
    let kernel_name = builder.create_string(name);
    let flags = builder.create_vector(&vec![0u64; bindings]);
    let export = {
        let start = builder.start_table();
        builder.push_slot_always(ExportDef::SLOT_KERNEL_NAME, kernel_name);
        builder.push_slot_always(ExportDef::SLOT_BLOCK_DIMS, Dimensions(block));
        builder.push_slot(ExportDef::SLOT_CONSTANT_COUNT, constants, 0);
        builder.push_slot_always(ExportDef::SLOT_BINDING_FLAGS, flags);
        builder.end_table(start)
    };
    let modules = builder.create_vector(&[module]);
    let exports = builder.create_vector(&[export]);
    let root = {
        let start = builder.start_table();
        builder.push_slot_always(ExecutableDef::SLOT_EXPORTS, exports);
        builder.push_slot_always(ExecutableDef::SLOT_MODULES, modules);
        builder.end_table(start)
    };
    builder.finish(root, std::str::from_utf8(IDENTIFIER).ok());
    builder.finished_data().to_vec()
}

/// Three numbers in a row, as the table of an export has them.
#[derive(Clone, Copy)]
struct Dimensions([u32; 3]);

impl flatbuffers::Push for Dimensions {
    type Output = Dimensions;

    unsafe fn push(&self, dst: &mut [u8], _: usize) {
        for (bytes, number) in dst.chunks_exact_mut(4).zip(self.0) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
    }

    fn size() -> usize {
        12
    }

    fn alignment() -> flatbuffers::PushAlignment {
        flatbuffers::PushAlignment::new(4)
    }
}

/// A module whose kernel `main` has so many addresses as parameters, and this body.
pub fn module(parameters: usize, body: &str) -> String {
    let parameters: Vec<String> = (0..parameters).map(|index| format!(".param .u64 p{index}")).collect();
    format!(
        ".version 7.0\n.target sm_60\n.address_size 64\n.visible .entry main({})\n{{\n{body}\n}}\n",
        parameters.join(", ")
    )
}
