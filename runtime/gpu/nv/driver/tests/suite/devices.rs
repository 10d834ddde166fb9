//! Devices by their paths, what they say of themselves, and contexts of the host.

use vireo_core::status::StatusCode;
use vireo_cuda::types::{CuContext, CuDevice};
use vireo_hal::*;
use vireo_softcuda::entries::{cuCtxCreate_v2, cuCtxDestroy_v2, cuCtxGetCurrent};

use crate::support::*;

#[test]
fn devices_are_found_by_ordinals_and_all_bytes_of_their_names() {
    let driver = driver();
    let devices = driver.query_available_devices().expect("lists them");
    assert_eq!(devices.len(), 2);
    assert!(devices.iter().all(|device| device.path.starts_with("GPU-") && device.path.len() == 40));
    assert_ne!(devices[0].path, devices[1].path, "they differ in bytes after the eighth");
    let open = |path: &str| driver.create_device_by_path("cuda", path, &[]);
    for path in
        ["", "0", "1", &devices[1].path, &devices[1].path.to_uppercase(), &devices[1].path.replace("GPU", "MIG"), "0,1"]
    {
        open(path).unwrap_or_else(|error| panic!("{path}: {error}"));
    }
    let absent = refusal(open("GPU-00000000-0000-0000-0000-000000000000"));
    assert_eq!(absent.code(), StatusCode::NotFound);
    assert!(devices.iter().all(|device| absent.message().contains(&device.path)), "{absent}");
    assert_eq!(refusal(open("2")).code(), StatusCode::NotFound);
    assert_eq!(refusal(open("0,0")).code(), StatusCode::InvalidArgument);
    let prefix = &devices[0].path[..20];
    assert_eq!(refusal(open(prefix)).code(), StatusCode::NotFound, "a beginning is no name");
    let text = driver.dump_device_info(DeviceId::default()).expect("describes them");
    assert!(text.contains("CUDA 12.9: 2 devices\n") && text.contains(&devices[1].path), "{text}");
    for part in ["(sm_86)", "PCI 0000:", "256 MiB", " of them free, memory pools", "  memory of 1: kernels reach it"] {
        assert!(text.contains(part), "{part}: {text}");
    }
}

#[test]
fn options_of_uris_are_checked() {
    let with = |key: &str, value: &str| {
        let params = [StringPair { key: key.to_string(), value: value.to_string() }];
        driver().create_device_by_path("cuda", "0", &params)
    };
    for (key, value) in [("streams", "4"), ("graphs", "never"), ("pools", "off")] {
        with(key, value).unwrap_or_else(|error| panic!("{key}={value}: {error}"));
    }
    for (key, value) in [("streams", "0"), ("streams", "65"), ("graphs", "maybe"), ("pools", "1"), ("stream", "1")] {
        let refused = refusal(with(key, value));
        assert_eq!(refused.code(), StatusCode::InvalidArgument, "{refused}");
        assert!(refused.message().contains(key), "{refused}");
    }
}

#[test]
fn programs_ask_for_what_the_device_is() {
    let device = device(&[]);
    let ask = |category: &str, key: &str| device.query_i64(category, key);
    assert_eq!(ask("cuda.device", "compute_capability_major").expect("is known"), 8);
    assert_eq!(ask("cuda.device", "compute_capability_minor").expect("is known"), 6);
    assert_eq!(ask("hal.device.id", "cuda").expect("is known"), 1);
    assert_eq!(ask("hal.device.id", "hip").expect("is known"), 0);
    assert_eq!(ask("hal.executable.format", FORMAT).expect("is known"), 1);
    assert_eq!(refusal(ask("cuda.device", "colour")).code(), StatusCode::NotFound);
}

#[test]
fn the_context_of_the_host_stays_current() {
    library(None);
    let mut own = CuContext(0);
    // SAFETY: the pointer is that of a value, and the library has started.
    unsafe { cuCtxCreate_v2(&raw mut own, 0, CuDevice(1)) };
    assert_ne!(own.0, 0);
    let current = || {
        let mut context = CuContext(0);
        // SAFETY: the pointer is that of a value.
        unsafe { cuCtxGetCurrent(&raw mut context) };
        context.0
    };
    assert_eq!(current(), own.0);
    let device = device(&[]);
    let target = buffer(&*device, &[0; 64]);
    outcome(&*device, |signal| {
        device.queue_fill(QueueAffinity::ANY, &[], signal, &target, 0, 256, &[7], FillFlags::empty())
    })
    .expect("fills");
    assert_eq!(words(&*target), [0x0707_0707; 64]);
    drop((target, device));
    assert_eq!(current(), own.0);
    // SAFETY: it was created above, and nothing uses it.
    unsafe { cuCtxDestroy_v2(own) };
}
