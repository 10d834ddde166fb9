//! The driver's own kernels on the interpreter of gfx11: those that are assembled, and those that are compiled for
//! other families.

use vireo_amdgpu::device::DeviceOptions;
use vireo_hal::{BufferRef, DispatchConfig, DispatchFlags, ExecutableFunction, MemoryType, QueueAffinity};

use super::support::{ADD, Machine, TestDevice, at, wait, whole};

/// The code object of `kernels_ll.sh`, compiled for gfx1100.
const COMPILED: &[u8] = include_bytes!("../kernels_ll_gfx1100.hsaco");

const DEVICE: MemoryType = MemoryType::DEVICE_LOCAL;

#[test]
fn kernels_of_all_families_do_the_same() {
    for kernels in [None, Some(COMPILED)] {
        let machine = Machine::interpreting(DeviceOptions { kernels, ..DeviceOptions::default() });
        let device = machine.device("", &[]);
        let memory = device.buffer(4096, DEVICE);
        let line = device.timeline();
        let mut value = 0;
        let mut next = || {
            value += 1;
            ([at(&line, value - 1)], [at(&line, value)])
        };
        let any = QueueAffinity::ANY;
        let initial: Vec<u8> = (0..4096u32).map(|index| ((index * 7) >> 2) as u8).collect();
        let mut expected = initial.clone();
        let (before, after) = next();
        device.queue_update(any, &before, &after, &initial, &memory, 0, Default::default()).expect("submits");
        for (offset, pattern, count) in [
            (16usize, &[1u8, 2, 3, 4, 5, 6, 7, 8][..], 130),
            (1100, &[9, 8, 7, 6], 77),
            (1500, &[5, 4], 301),
            (2201, &[6], 99),
            (2304, &[1, 2, 3, 4], 64),
        ] {
            let (start, size) = (offset as u64, (pattern.len() * count) as u64);
            let (before, after) = next();
            device
                .queue_fill(any, &before, &after, &memory, start, size, pattern, Default::default())
                .expect("submits");
            expected[offset..offset + pattern.len() * count].copy_from_slice(&pattern.repeat(count));
        }
        // In all alignments, apart and overlapping in both directions.
        for (from, to, length) in [
            (0u64, 3072u64, 1024u64),
            (16, 2564, 300),
            (3, 2900, 77),
            (0, 16, 1600),
            (32, 0, 1600),
            (4, 8, 900),
            (1008, 1000, 900),
            (7, 8, 333),
            (2101, 2100, 500),
        ] {
            let (before, after) = next();
            device
                .queue_copy(any, &before, &after, &memory, from, &memory, to, length, Default::default())
                .expect("submits");
            expected.copy_within(from as usize..(from + length) as usize, to as usize);
        }
        wait(&line, value);
        let read = device.read(&memory);
        let differs = read.iter().zip(&expected).position(|(read, expected)| read != expected);
        assert_eq!(differs, None, "{}", kernels.map_or("assembled", |_| "compiled"));
        // A grid whose size is in memory, with work-items and without.
        let memory = [0, 1, 2].map(|_| device.buffer(128, DEVICE));
        device.write(&memory[0], &[1.5f32; 32].map(f32::to_le_bytes).concat());
        device.write(&memory[1], &[2.0f32; 32].map(f32::to_le_bytes).concat());
        let counts = device.buffer(64, DEVICE);
        let config = DispatchConfig {
            workgroup_count_ref: BufferRef { buffer: Some(counts.clone()), slot: 0, offset: 4, length: 12 },
            ..DispatchConfig::default()
        };
        let (executable, function) = (device.executable(), ExecutableFunction(ADD));
        let flags = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS;
        for (value, (count, result)) in (1u64..).zip([(0u32, 0.0f32), (1, 3.5)]) {
            device.write(&counts, &[9, count, 1, 1].map(u32::to_le_bytes).concat());
            let line = device.timeline();
            let bindings = memory.each_ref().map(whole);
            let signal = [at(&line, value)];
            device
                .queue_dispatch(any, &[], &signal, &executable, function, &config, &[32, 0, 32, 0], &bindings, flags)
                .expect("submits");
            wait(&line, value);
            assert_eq!(device.read(&memory[2]), [result; 32].map(f32::to_le_bytes).concat(), "{count} work-groups");
        }
    }
}
