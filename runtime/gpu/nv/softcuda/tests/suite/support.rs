//! The common parts of tests: a context, memory of the device, kernels, and numbers drawn with a seed.

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard, PoisonError};

use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CuContext, CuDevice, CuEvent, CuFunction, CuModule, CuStream};
use vireo_softcuda::entries::*;

/// Panics unless a call succeeds.
#[track_caller]
pub fn ok(status: CuResult) {
    assert_eq!(status.name(), Some("success"), "status {}", status.0);
}

/// A call that puts one value.
#[track_caller]
pub fn get<T: Default>(call: impl FnOnce(*mut T) -> CuResult) -> T {
    let mut value = T::default();
    ok(call(&raw mut value));
    value
}

/// Two devices, and a context of the first one that is current in this thread. Tests that have one run one at a time,
/// since errors of work stay with a context and memory is counted.
pub struct Machine {
    pub context: CuContext,
    _turn: MutexGuard<'static, ()>,
}

pub fn start() {
    // Tests that need other options run again in a process of their own.
    let more: vireo_softcuda::Options = std::env::var("SOFTCUDA_OPTIONS").unwrap_or_default().parse().expect("options");
    let options = vireo_softcuda::Options { devices: 2, memory: 64 << 20, ..more };
    // Another test may have been first.
    let _ = vireo_softcuda::configure(options);
    // SAFETY: it needs no pointers.
    ok(unsafe { cuInit(0) });
}

impl Machine {
    pub fn new() -> Self {
        static TURN: Mutex<()> = Mutex::new(());
        let turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
        start();
        // SAFETY: the pointer is that of a value.
        let context = get(|context| unsafe { cuCtxCreate_v2(context, 0, CuDevice(0)) });
        Machine { context, _turn: turn }
    }

    pub fn memory(&self, size: u64) -> u64 {
        // SAFETY: the pointers are those of values, and kernels have these parameters.
        get(|address| unsafe { cuMemAlloc_v2(address, size) })
    }

    pub fn stream(&self, flags: u32) -> CuStream {
        // SAFETY: the pointers are those of values, and kernels have these parameters.
        get(|stream| unsafe { cuStreamCreate(stream, flags) })
    }

    pub fn event(&self) -> CuEvent {
        // SAFETY: the pointers are those of values, and kernels have these parameters.
        get(|event| unsafe { cuEventCreate(event, 0) })
    }

    pub fn module(&self, text: &CStr) -> CuModule {
        // SAFETY: the pointers are those of values, and the text has a zero at its end.
        get(|module| unsafe { cuModuleLoadData(module, text.as_ptr().cast()) })
    }

    pub fn function(&self, module: CuModule, name: &CStr) -> CuFunction {
        // SAFETY: the pointers are those of values, and kernels have these parameters.
        get(|function| unsafe { cuModuleGetFunction(function, module, name.as_ptr().cast()) })
    }

    /// The 32-bit words at an address.
    pub fn read(&self, address: u64, count: usize) -> Vec<u32> {
        let mut words = vec![0u32; count];
        // SAFETY: the vector has as many bytes.
        ok(unsafe { cuMemcpyDtoH_v2(words.as_mut_ptr().cast(), address, count as u64 * 4) });
        words
    }

    pub fn write(&self, address: u64, words: &[u32]) {
        // SAFETY: the slice has as many bytes.
        ok(unsafe { cuMemcpyHtoD_v2(address, words.as_ptr().cast(), words.len() as u64 * 4) });
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        // SAFETY: it needs no pointers.
        unsafe { cuCtxDestroy_v2(self.context) };
    }
}

/// Launches blocks of threads with parameters.
///
/// # Safety
/// The kernel has parameters of the sizes of these words.
pub unsafe fn launch(function: CuFunction, blocks: u32, threads: u32, stream: CuStream, words: &mut [u64]) -> CuResult {
    let mut addresses: Vec<*mut c_void> = words.iter_mut().map(|word| (&raw mut *word).cast()).collect();
    // SAFETY: the caller vouches for the parameters.
    unsafe { cuLaunchKernel(function, blocks, 1, 1, threads, 1, 1, 0, stream, addresses.as_mut_ptr(), null_mut()) }
}

/// Numbers that depend on nothing but a seed.
pub struct Draw(u64);

impl Draw {
    pub fn new(seed: u64) -> Self {
        Draw(seed.wrapping_mul(2).wrapping_add(1))
    }

    pub fn below(&mut self, limit: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % limit
    }
}
