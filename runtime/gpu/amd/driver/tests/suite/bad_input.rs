//! Bad input: executables and machines that do not fit are refused with what was found and what was expected, and the
//! device works on.

use vireo_core::status::{Result, StatusCode};
use vireo_hal::{Driver, ExecutableCachingMode, MemoryType, QueueAffinity, StringPair};

use super::support::{Machine, TestDevice, at, wait};

const GFX1100: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx1100.amd1");
const GFX942: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx942.amd1");
const CODE_OBJECT: &[u8] = include_bytes!("../../../../../../fixtures/amdgpu/kernels_gfx1100.hsaco");

/// The places of `part` in `bytes`.
fn places(bytes: &[u8], part: &[u8]) -> Vec<usize> {
    bytes.windows(part.len()).enumerate().filter(|(_, window)| *window == part).map(|(at, _)| at).collect()
}

/// The code object with the number after a key of its metadata replaced in all kernels.
fn with_metadata(key: &str, value: u8) -> Vec<u8> {
    let mut bytes = CODE_OBJECT.to_vec();
    let found = places(&bytes, key.as_bytes());
    assert!(!found.is_empty(), "there is no {key}");
    found.into_iter().for_each(|at| set_number(&mut bytes, at + key.len(), value));
    bytes
}

/// Sets a number of metadata; those above 255 have a marker and two bytes.
fn set_number(bytes: &mut [u8], place: usize, value: u8) {
    match bytes[place] {
        0xcd => bytes[place + 1..place + 3].copy_from_slice(&[0, value]),
        _ => bytes[place] = value,
    }
}

/// The code object with the first number `old` after a key of its metadata replaced.
fn with_first(key: &str, old: u8, new: u8) -> Vec<u8> {
    let mut bytes = CODE_OBJECT.to_vec();
    let mut found = places(&bytes, key.as_bytes()).into_iter().map(|at| at + key.len());
    let place = found.find(|place| bytes[*place] == old).expect("there is such a number");
    bytes[place] = new;
    bytes
}

/// The code object with another size of arguments in the descriptor of `add`, which declares no memory before it.
fn with_descriptor(size: u32) -> Vec<u8> {
    let mut bytes = CODE_OBJECT.to_vec();
    let descriptor: Vec<u8> = [0u32, 0, 296].iter().flat_map(|field| field.to_le_bytes()).collect();
    let [at] = places(&bytes, &descriptor)[..] else { panic!("the descriptor cannot be told apart") };
    bytes[at + 8..at + 12].copy_from_slice(&size.to_le_bytes());
    bytes
}

fn replaced(old: &[u8], new: &[u8]) -> Vec<u8> {
    let mut bytes = CODE_OBJECT.to_vec();
    let at = places(&bytes, old)[0];
    bytes[at..at + new.len()].copy_from_slice(new);
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
    // The name in the table of symbols, which has a zero after it: what the metadata promise is not there.
    let symbol = b"abs_dispatch_0_elementwise_64_f32.kd\0";
    let at_symbol = places(CODE_OBJECT, symbol)[0];
    nameless[at_symbol] = b'x';
    let cases: [(&str, Vec<u8>, &str); 15] = [
        ("gfx1201", GFX1100.to_vec(), "executables of the format `gfx1201` do not run on"),
        ("gfx1100", GFX942.to_vec(), "an executable for `gfx942` does not run on"),
        ("gfx1100", b"not code".to_vec(), "nor a code object: it begins with [6e, 6f, 74, 20, 63"),
        ("gfx1100", GFX1100[..GFX1100.len() / 2].to_vec(), "the length is 6672, expected 3304"),
        ("gfx1100", CODE_OBJECT[..200].to_vec(), "is not in the file, which has 200 bytes"),
        ("gfx1100", with_metadata(".kernarg_segment_size", 8), "`.kernarg_segment_size` is 8"),
        ("gfx1100", with_metadata(".kernarg_segment_align", 3), "`.kernarg_segment_align` is 3"),
        (
            "gfx1100",
            nameless,
            "there is no descriptor `abs_dispatch_0_elementwise_64_f32.kd` among the dynamic symbols",
        ),
        (
            "gfx1100",
            with_descriptor(300),
            "kernel `add_dispatch_0_elementwise_D_f32`: its descriptor at address 0xc80 has 300 as `kernarg_size`, and the metadata have 296 as `.kernarg_segment_size`",
        ),
        (
            "gfx1100",
            with_metadata(".kernarg_segment_size", 100),
            "as `kernarg_size`, and the metadata have 100 as `.kernarg_segment_size`",
        ),
        (
            "gfx1100",
            with_metadata(".group_segment_fixed_size", 16),
            "has 0 as `group_segment_fixed_size`, and the metadata have 16 as `.group_segment_fixed_size`",
        ),
        (
            "gfx1100",
            with_metadata(".private_segment_fixed_size", 16),
            "has 0 as `private_segment_fixed_size`, and the metadata have 16 as `.private_segment_fixed_size`",
        ),
        // An address that lies across two, a value among the addresses, and neither.
        (
            "gfx1100",
            with_first(".offset", 8, 4),
            "argument 1 of its kernel is an address in bytes 4 to 12, which are written to 0 to",
        ),
        (
            "gfx1100",
            with_first(".offset", 24, 20),
            "argument 3 of its kernel is a value in bytes 20 to 24, which are written to 24 to 40",
        ),
        ("gfx1100", replaced(b"global_buffer", b"global_buffet"), "of its kernel is neither an address nor a value"),
    ];
    for (format, bytes, expected) in cases {
        let error = prepare(format, &bytes).expect_err(expected);
        assert!(error.message().contains(expected), "{error}");
    }
    prepare("gfx1100", GFX1100).expect("it fits");
    prepare("gfx1100", &with_descriptor(0)).expect("assemblers leave the size out");
    // One constant less than the kernel takes, wherever the file counts them.
    let counts = (0..GFX1100.len() - 4).filter(|at| GFX1100[*at..*at + 4] == 4u32.to_le_bytes());
    let fewer = counts.filter_map(|at| {
        let mut bytes = GFX1100.to_vec();
        bytes[at] = 3;
        prepare("gfx1100", &bytes).err()
    });
    let expected = "its kernel takes 40 bytes of arguments, its bindings and constants have 36";
    assert_eq!(fewer.filter(|error| error.message().contains(expected)).count(), 1);
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
    let error = create("queue-size=256", "1024").expect_err("the agent has smaller queues");
    assert!(error.message().contains("queues of 1024 packets: agent 0 (gfx1100"), "{error}");
    assert!(error.message().contains("has queues of at most 256"), "{error}");
    create("queue-size=256", "256").expect("the agent has such queues");
    // Without the parameter the ring is as large as the agent allows.
    for topology in ["queue-size=256", "queue-size=512"] {
        let machine = Machine::new(topology);
        let (device, any) = (machine.device("", &[]), QueueAffinity::ANY);
        let line = device.timeline();
        let (memory, none) = (device.buffer(64, MemoryType::DEVICE_LOCAL), Default::default());
        device.queue_fill(any, &[], &[at(&line, 1)], &memory, 0, 64, &[7], none).expect("submits");
        wait(&line, 1);
    }
}
