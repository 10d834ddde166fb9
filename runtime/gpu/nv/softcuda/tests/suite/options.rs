//! Options of the environment variable, each in a process of its own.

use std::process::Command;

use vireo_cuda::attributes::DeviceAttribute;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{CuContext, CuDevice, CuMemPool, CuStream};
use vireo_softcuda::entries::*;

use crate::kernels::TEXT;
use crate::support::{get, ok};

/// Runs this test again with options, and returns whether this is that process.
fn is_child(name: &str, options: &str) -> bool {
    if std::env::var_os("SOFTCUDA_CHILD").is_some() {
        return true;
    }
    let mut child = Command::new(std::env::current_exe().expect("this test"));
    let child = child.args(["--exact", name]).env("SOFTCUDA_CHILD", "1").env(vireo_softcuda::VARIABLE, options);
    let output = child.output().expect("a process");
    let text = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    assert!(output.status.success(), "{text}");
    false
}

#[test]
fn the_machine_is_as_the_options_say() {
    let trace = std::env::temp_dir().join(format!("softcuda-{}.txt", std::process::id()));
    let options =
        format!("devices=3,sm=89,memory=2MiB,pools=off,version=12040,trace={},fail=cuMemAlloc:2:2", trace.display());
    if !is_child("options::the_machine_is_as_the_options_say", &options) {
        let text = std::fs::read_to_string(&trace).expect("the trace");
        std::fs::remove_file(&trace).expect("the trace");
        assert!(text.starts_with("cuInit 0\ncuDeviceGetCount 0\n"), "{text}");
        assert!(text.contains("cuMemAlloc_v2 0\ncuMemAlloc_v2 2\ncuMemAlloc_v2 0\n"), "{text}");
        return;
    }
    // SAFETY: the pointers are those of values.
    unsafe {
        ok(cuInit(0));
        assert_eq!(get(|count: *mut i32| cuDeviceGetCount(count)), 3);
        assert_eq!(get(|version: *mut i32| cuDriverGetVersion(version)), 12_040);
        let attribute = |name| get(|value: *mut i32| cuDeviceGetAttribute(value, name, CuDevice(2)));
        assert_eq!(attribute(DeviceAttribute::COMPUTE_CAPABILITY_MINOR), 9);
        assert_eq!(attribute(DeviceAttribute::MEMORY_POOLS_SUPPORTED), 0);
        assert_eq!(attribute(DeviceAttribute::PCI_BUS_ID), 3);
        let mut pool = CuMemPool(0);
        assert_eq!(cuDeviceGetMemPool(&raw mut pool, CuDevice(0)), CuResult::ERROR_NOT_SUPPORTED);
        get(|context: *mut CuContext| cuCtxCreate_v2(context, 0, CuDevice(0)));
        let allocate = || {
            let mut address = 0u64;
            cuMemAlloc_v2(&raw mut address, 1 << 20)
        };
        // The second call fails as the options say, the fourth as there is no more memory.
        let statuses: Vec<u32> = (0..4).map(|_| allocate().0).collect();
        assert_eq!(statuses, [0, 2, 0, 2]);
    }
}

/// The trace is JSON when the process has ended, with calls and the work of streams.
#[test]
fn a_trace_of_events_has_calls_and_work() {
    let trace = std::env::temp_dir().join(format!("softcuda-{}.json", std::process::id()));
    if !is_child("options::a_trace_of_events_has_calls_and_work", &format!("trace={}", trace.display())) {
        let text = std::fs::read_to_string(&trace).expect("the trace");
        std::fs::remove_file(&trace).expect("the trace");
        let events: serde_json::Value = serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"));
        let events = events.as_array().expect("an array");
        let find =
            |name: &str| events.iter().find(|event| event["name"] == name).unwrap_or_else(|| panic!("{name}: {text}"));
        let (call, kernel) = (find("cuInit"), find("add"));
        assert!(call["ph"] == "X" && call["pid"] == 1 && call["tid"] == 1 && call["args"]["status"] == 0, "{text}");
        assert!(call["ts"].is_number() && call["dur"].is_number(), "{text}");
        assert!(kernel["ph"] == "X" && kernel["pid"] == 2 && kernel["tid"] == 1 && kernel["args"].is_null(), "{text}");
        find("fill");
        return;
    }
    // SAFETY: the pointers are those of values; the kernel has these parameters.
    unsafe {
        ok(cuInit(0));
        get(|context: *mut CuContext| cuCtxCreate_v2(context, 0, CuDevice(0)));
        let module = get(|module| cuModuleLoadData(module, TEXT.as_ptr().cast()));
        let function = get(|function| cuModuleGetFunction(function, module, c"add".as_ptr().cast()));
        let data = get(|address: *mut u64| cuMemAlloc_v2(address, 4));
        ok(cuMemsetD32_v2(data, 1, 1));
        ok(crate::support::launch(function, 1, 1, CuStream(0), &mut [data, 1, 1]));
        ok(cuCtxSynchronize());
    }
}

#[test]
fn a_kernel_without_end_is_ended() {
    if !is_child("options::a_kernel_without_end_is_ended", "timeout=100ms") {
        return;
    }
    // SAFETY: the pointers are those of values; the kernel has no parameters.
    unsafe {
        ok(cuInit(0));
        get(|context: *mut CuContext| cuCtxCreate_v2(context, 0, CuDevice(0)));
        let module = get(|module| cuModuleLoadData(module, TEXT.as_ptr().cast()));
        let function = get(|function| cuModuleGetFunction(function, module, c"forever".as_ptr().cast()));
        ok(crate::support::launch(function, 1, 32, CuStream(0), &mut []));
        assert_eq!(cuCtxSynchronize(), CuResult::ERROR_LAUNCH_TIMEOUT);
    }
}

#[test]
fn a_fault_of_work_ends_the_context() {
    if !is_child("options::a_fault_of_work_ends_the_context", "fail=cuCtxSynchronize:2:700") {
        return;
    }
    // SAFETY: the pointers are those of values.
    unsafe {
        ok(cuInit(0));
        get(|context: *mut CuContext| cuCtxCreate_v2(context, 0, CuDevice(0)));
        ok(cuCtxSynchronize());
        assert_eq!(cuCtxSynchronize(), CuResult::ERROR_ILLEGAL_ADDRESS);
        assert_eq!(cuCtxSynchronize(), CuResult::ERROR_ILLEGAL_ADDRESS);
        let mut address = 0;
        assert_eq!(cuMemAlloc_v2(&raw mut address, 4), CuResult::ERROR_ILLEGAL_ADDRESS);
    }
}

#[test]
fn wrong_options_are_refused_by_the_start() {
    if !is_child("options::wrong_options_are_refused_by_the_start", "sm=12") {
        return;
    }
    // SAFETY: it needs no pointers.
    assert_eq!(unsafe { cuInit(0) }, CuResult::ERROR_INVALID_VALUE);
}
