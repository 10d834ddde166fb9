//! Queries of programs to the `local-sync` device, or to the device in the module above.

use vireo::StatusCode;

use super::device;

#[test]
fn device_queries() {
    let device = device();
    for (category, key, value) in [
        ("hal.device.id", "local*", 1),
        ("hal.device.id", "local-s?nc", 1),
        ("hal.device.id", "cuda*", 0),
        ("hal.executable.format", "vmvx-bytecode-fb", 1),
        ("hal.executable.format", "embedded-elf-riscv_64", 0),
        ("hal.executable.format", crate::machine::EMBEDDED, crate::machine::HAS_KERNELS.into()),
        ("hal.device", "concurrency", 1),
        ("hal.dispatch", "concurrency", 1),
    ] {
        assert_eq!(device.query_i64(category, key).unwrap(), value, "{category} :: {key}");
    }
    assert_eq!(device.query_i64("hal.device", "colour").unwrap_err().code(), StatusCode::NotFound);
    assert_eq!(device.query_i64("hal.cpu", "no-such-feature").unwrap_err().code(), StatusCode::NotFound);
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = i64::from(std::arch::is_x86_feature_detected!("avx2"));
        assert_eq!(device.query_i64("hal.cpu", "avx2").unwrap(), avx2);
    }
}
