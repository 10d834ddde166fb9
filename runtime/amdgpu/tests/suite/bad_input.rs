//! Bad input: executables and machines that do not fit are refused with what was found and what was expected, and the device works on.

use vireo_core::status::{Result, StatusCode};
use vireo_hal::{Driver, ExecutableCachingMode, MemoryType, QueueAffinity, StringPair};

use super::support::{Machine, TestDevice, at, wait};

const GFX1100: &[u8] = include_bytes!("../../../../fixtures/amdgpu/kernels_gfx1100.amd1");
const GFX942: &[u8] = include_bytes!("../../../../fixtures/amdgpu/kernels_gfx942.amd1");
const CODE_OBJECT: &[u8] = include_bytes!("../../../../fixtures/amdgpu/kernels_gfx1100.hsaco");

/// The places of `part` in `bytes`.
fn places(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    bytes.windows(part.len()).enumerate().filter(|(_, window)| *window == part).map(|(at, _)| at).collect()
}

/// The code object with the number after a key of its metadata replaced; those above 255 have a marker and two bytes.
fn with_metadata(key: &str, value: u8) -> Vec<u8> {
    let mut bytes = CODE_OBJECT.to_vec();
    let found = places(&bytes, key.as_bytes());
    assert!(!found.is_empty(), "there is no {key}");
    for at in found {
        let place = at + key.len();
        match bytes[place] {
            0xcd => bytes[place + 1..place + 3].copy_from_slice(&[0, value]),
            _ => bytes[place] = value,
        }
    }
    bytes
}

#[test]
fn executables_that_do_not_fit_are_refused_and_the_device_works_on() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let cache = device.create_executable_cache("tests").expect("there are caches");
    let prepare = |format: &str, bytes: &[u8]| {
        cache.prepare_executable(QueueAffinity::ANY, ExecutableCachingMode::empty(), format, bytes, &[]).map(drop)
    };
    let mut nameless = CODE_OBJECT.to_vec();
    // The name in the table of symbols, which has a zero after it; the loader misses what the metadata promise.
    let symbol = b"abs_dispatch_0_elementwise_64_f32.kd\0";
    let at_symbol = places(CODE_OBJECT, symbol)[0];
    nameless[at_symbol] = b'x';
    let cases: [(&str, Vec<u8>, &str); 8] = [
        ("gfx1201", GFX1100.to_vec(), "executables of the format `gfx1201` do not run on"),
        ("gfx1100", GFX942.to_vec(), "an executable for `gfx942` does not run on"),
        ("gfx1100", b"not code".to_vec(), "nor a code object: it begins with [6e, 6f, 74, 20, 63"),
        ("gfx1100", GFX1100[..GFX1100.len() / 2].to_vec(), "the length is 6672, expected 3304"),
        ("gfx1100", CODE_OBJECT[..200].to_vec(), "is not in the file, which has 200 bytes"),
        ("gfx1100", with_metadata(".kernarg_segment_size", 8), "`.kernarg_segment_size` is 8"),
        ("gfx1100", with_metadata(".kernarg_segment_align", 3), "`.kernarg_segment_align` is 3"),
        ("gfx1100", nameless, "`hsa_executable_load_agent_code_object` failed with error_invalid_code_object"),
    ];
    for (format, bytes, expected) in cases {
        let error = prepare(format, &bytes).expect_err(expected);
        assert!(error.message().contains(expected), "{error}");
    }
    prepare("gfx1100", GFX1100).expect("it fits");
    let (memory, line) = (device.buffer(64, MemoryType::DEVICE_LOCAL), device.timeline());
    device.fill(0, &[], &[at(&line, 1)], &memory, 0x0101_0101);
    wait(&line, 1);
    assert_eq!(device.read(&memory), [1; 64]);
}

#[test]
fn rings_that_are_too_small_are_refused() {
    let create = |topology: &str, packets: &str| -> Result<()> {
        let machine = Machine::new(topology);
        let pair = StringPair { key: "amdgpu_queue_packets".to_string(), value: packets.to_string() };
        machine.driver.create_device_by_path("amdgpu", "", &[pair]).map(drop)
    };
    for packets in ["0", "128", "1000", "many"] {
        let error = create("", packets).expect_err("no ring");
        let expected = format!("`amdgpu_queue_packets={packets}`: expected a power of two from 256 to 131072");
        assert_eq!((error.code(), error.message().contains(&expected)), (StatusCode::InvalidArgument, true), "{error}");
    }
    let error = create("queue-size=64", "1024").expect_err("the agent has smaller queues");
    assert!(error.message().contains("queues of at most 64 packets, expected at least 256"), "{error}");
    create("queue-size=256", "1024").expect("the ring is as large as the agent's");
}
