//! Bad input: each kind of mistake has the status that CUDA has for it.

use std::ffi::{CStr, c_void};
use std::process::Command;
use std::ptr::{null, null_mut};

use vireo_cuda::attributes::DeviceAttribute;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CuContext, CuDevice, CuEvent, CuFunction, CuGraph, CuModule, CuStream};
use vireo_softcuda::entries::*;

use crate::support::{Machine, get, ok};

const WRONG: CuResult = CuResult::ERROR_INVALID_VALUE;

#[test]
fn texts_of_statuses_are_those_of_the_library() {
    let text = |call: unsafe extern "C" fn(CuResult, *mut *const vireo_cuda::types::CChar) -> CuResult, status| {
        let mut text = null();
        // SAFETY: the pointer is that of a value; texts live as long as the library.
        unsafe {
            ok(call(CuResult(status), &raw mut text));
            CStr::from_ptr(text.cast()).to_str().expect("UTF-8").to_string()
        }
    };
    assert_eq!(text(cuGetErrorName, 0), "CUDA_SUCCESS");
    assert_eq!(text(cuGetErrorName, 700), "CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_eq!(text(cuGetErrorString, 1), "invalid argument");
    let mut text = null();
    // SAFETY: the pointer is that of a value.
    assert_eq!(unsafe { cuGetErrorName(CuResult(77), &raw mut text) }, WRONG);
    assert!(text.is_null());
}

#[test]
fn null_is_refused_and_so_are_handles_of_others() {
    let machine = Machine::new();
    let handle = CuResult::ERROR_INVALID_HANDLE;
    // SAFETY: null is what the functions check; other pointers are those of values.
    unsafe {
        assert_eq!(cuMemAlloc_v2(null_mut(), 16), WRONG);
        assert_eq!(cuStreamCreate(null_mut(), 0), WRONG);
        assert_eq!(cuDeviceGetCount(null_mut()), WRONG);
        assert_eq!(cuModuleLoadData(null_mut(), null()), WRONG);
        let mut module = CuModule(0);
        assert_eq!(cuModuleLoadData(&raw mut module, null()), WRONG);
        assert_eq!(cuStreamSynchronize(CuStream(77)), handle);
        assert_eq!(cuStreamDestroy_v2(CuStream(0)), handle);
        assert_eq!(cuEventRecord(CuEvent(77), CuStream(0)), handle);
        assert_eq!(cuEventQuery(CuEvent(0)), handle);
        assert_eq!(cuModuleUnload(CuModule(1)), handle);
        let function = CuFunction(machine.context.0);
        let nothing: *mut *mut c_void = null_mut();
        assert_eq!(cuLaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, CuStream(0), nothing, nothing), handle);
        assert_eq!(cuGraphDestroy(CuGraph(5)), WRONG);
        assert_eq!(cuCtxSetCurrent(CuContext(5)), CuResult::ERROR_INVALID_CONTEXT);
        let mut device = CuDevice(0);
        assert_eq!(cuDeviceGet(&raw mut device, 2), CuResult::ERROR_INVALID_DEVICE);
        assert_eq!(cuDeviceGet(&raw mut device, -1), CuResult::ERROR_INVALID_DEVICE);
        let mut value = 0;
        assert_eq!(cuDeviceGetAttribute(&raw mut value, DeviceAttribute(9999), CuDevice(0)), WRONG);
    }
}

#[test]
fn memory_is_limited_and_checked() {
    let machine = Machine::new();
    let address = machine.memory(100);
    // SAFETY: the buffers have as many bytes as is said.
    unsafe {
        let mut other = 0;
        assert_eq!(cuMemAlloc_v2(&raw mut other, 0), WRONG);
        assert_eq!(cuMemAlloc_v2(&raw mut other, 65 << 20), CuResult::ERROR_OUT_OF_MEMORY);
        assert_eq!(cuMemAlloc_v2(&raw mut other, u64::MAX), CuResult::ERROR_OUT_OF_MEMORY);
        let mut bytes = [0u8; 200];
        assert_eq!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, 101), WRONG);
        assert_eq!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address + 50, 51), WRONG);
        ok(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address + 50, 50));
        assert_eq!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), 64, 4), WRONG);
        assert_eq!(cuMemsetD32_v2(address + 2, 1, 1), WRONG);
        assert_eq!(cuMemsetD8_v2(address, 1, 101), WRONG);
        assert_eq!(cuMemFree_v2(address + 8), WRONG);
        ok(cuMemFree_v2(address));
        assert_eq!(cuMemFree_v2(address), WRONG);
        ok(cuMemFree_v2(0));
        assert_eq!(cuMemcpyDtoH_v2(bytes.as_mut_ptr().cast(), address, 4), WRONG);
    }
    let (mut free, mut total) = (0, 0);
    // SAFETY: the pointers are those of values.
    ok(unsafe { cuMemGetInfo_v2(&raw mut free, &raw mut total) });
    assert_eq!((free, total), (64 << 20, 64 << 20));
}

#[test]
fn contexts_are_a_stack_per_thread() {
    let machine = Machine::new();
    // SAFETY: the pointers are those of values.
    let current = || get(|context: *mut CuContext| unsafe { cuCtxGetCurrent(context) });
    assert_eq!(current(), machine.context);
    // SAFETY: the pointers are those of values.
    unsafe {
        let other = get(|context: *mut CuContext| cuCtxCreate_v2(context, 0, CuDevice(1)));
        assert_eq!(current(), other);
        assert_eq!(get(|device: *mut CuDevice| cuCtxGetDevice(device)), CuDevice(1));
        ok(cuCtxPushCurrent_v2(machine.context));
        assert_eq!(get(|context: *mut CuContext| cuCtxPopCurrent_v2(context)), machine.context);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                assert_eq!(current(), CuContext(0));
                let mut address = 0;
                assert_eq!(cuMemAlloc_v2(&raw mut address, 4), CuResult::ERROR_INVALID_CONTEXT);
                assert_eq!(cuCtxPopCurrent_v2(null_mut()), CuResult::ERROR_INVALID_CONTEXT);
            });
        });
        ok(cuCtxDestroy_v2(other));
        assert_eq!(current(), machine.context);
        assert_eq!(cuCtxPushCurrent_v2(other), CuResult::ERROR_INVALID_CONTEXT);
        let primary = get(|context: *mut CuContext| cuDevicePrimaryCtxRetain(context, CuDevice(1)));
        assert_eq!(get(|context: *mut CuContext| cuDevicePrimaryCtxRetain(context, CuDevice(1))), primary);
        assert_eq!(cuCtxDestroy_v2(primary), CuResult::ERROR_INVALID_CONTEXT);
        ok(cuDevicePrimaryCtxRelease_v2(CuDevice(1)));
        ok(cuDevicePrimaryCtxRelease_v2(CuDevice(1)));
        assert_eq!(cuDevicePrimaryCtxRelease_v2(CuDevice(1)), CuResult::ERROR_INVALID_CONTEXT);
        assert_eq!(cuCtxSetCurrent(primary), CuResult::ERROR_INVALID_CONTEXT);
    }
}

#[test]
fn images_without_ptx_are_refused_by_name() {
    let _machine = Machine::new();
    let refused = |image: &[u8]| {
        let (mut module, mut log) = (CuModule(0), [0u8; 400]);
        use vireo_cuda::attributes::JitOption;
        let mut options = [JitOption::ERROR_LOG_BUFFER, JitOption::ERROR_LOG_BUFFER_SIZE_BYTES];
        let mut values: [*mut c_void; 2] = [log.as_mut_ptr().cast(), std::ptr::without_provenance_mut(log.len())];
        // SAFETY: the image is one that ends as documented, and the log has as many bytes as is said.
        let status = unsafe {
            let (options, values) = (options.as_mut_ptr(), values.as_mut_ptr());
            cuModuleLoadDataEx(&raw mut module, image.as_ptr().cast(), 2, options, values)
        };
        let text = CStr::from_bytes_until_nul(&log).expect("a zero").to_string_lossy().into_owned();
        assert_eq!(values[1].addr(), text.len());
        (status, text)
    };
    let (status, text) = refused(b"\x7fELF and more\0");
    assert_eq!(status, CuResult::ERROR_NO_BINARY_FOR_GPU);
    assert!(text.contains("machine code of GPUs and no PTX"), "{text}");
    let (status, text) = refused(b".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry f() { nothing; }\0");
    assert_eq!(status, CuResult::ERROR_INVALID_PTX);
    assert!(text.starts_with("PTX: line 4: "), "{text}");
    assert_eq!(refused(b"no PTX\0").0, CuResult::ERROR_INVALID_PTX);
    assert_eq!(refused(b"\xff\xfe\xfd\xfc\0").0, CuResult::ERROR_INVALID_IMAGE);
    assert_eq!(refused(b"\0").0, CuResult::ERROR_INVALID_PTX);
}

/// In a process of its own, as others have started the library.
#[test]
fn nothing_works_before_the_start() {
    if std::env::var_os("SOFTCUDA_CHILD").is_none() {
        let name = "errors::nothing_works_before_the_start";
        let mut child = Command::new(std::env::current_exe().expect("this test"));
        let child = child.args(["--exact", name]).env("SOFTCUDA_CHILD", "1").output().expect("a process");
        assert!(child.status.success(), "{}", String::from_utf8_lossy(&child.stdout));
        return;
    }
    let not_started = CuResult::ERROR_NOT_INITIALIZED;
    // SAFETY: the pointers are those of values.
    unsafe {
        let (mut count, mut context, mut address) = (0, CuContext(0), 0);
        assert_eq!(cuDeviceGetCount(&raw mut count), not_started);
        assert_eq!(cuCtxCreate_v2(&raw mut context, 0, CuDevice(0)), not_started);
        assert_eq!(cuMemAlloc_v2(&raw mut address, 4), not_started);
        assert_eq!(cuStreamSynchronize(CuStream(0)), not_started);
        let mut version = 0;
        ok(cuDriverGetVersion(&raw mut version));
        assert_eq!(version, 12_090);
        assert_eq!(cuInit(1), WRONG);
    }
}
