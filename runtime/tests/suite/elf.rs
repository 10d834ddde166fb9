//! The loader of embedded ELF libraries: kernels of `iree-compile` run, and broken files are refused.
//!
//! `fixtures/elf/rebuild.sh` makes the libraries. Mutated files are loaded, which runs none of their code.
use std::ops::Range;
use std::sync::Arc;

use vireo::hal::local::elf::{ElfError, ElfImage, infer_format};
use vireo::hal::*;
use vireo::{Result, StatusCode};

use crate::machine::{EMBEDDED as FORMAT, MACHINE, OTHER, library};

fn kernels() -> Vec<u8> {
    let path = library("kernels");
    std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The first byte in the file, the address and the length in the file of a program header.
fn segment(bytes: &[u8], header: usize) -> [usize; 3] {
    [8, 16, 32].map(|field| {
        let at = 64 + 56 * header + field;
        u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
    })
}

/// The index of the program header for the dynamic table. That before it is the last segment that is loaded.
fn dynamic_header(bytes: &[u8]) -> usize {
    (0..usize::from(bytes[56])).find(|index| bytes[64 + 56 * index] == 2).unwrap()
}

/// The bytes of the last segment that is loaded.
fn last_segment(bytes: &[u8]) -> Range<usize> {
    let [start, _, length] = segment(bytes, dynamic_header(bytes) - 1);
    start..start + length
}

fn prepare(device: &dyn Device, data: &[u8], constants: &[u32]) -> Result<Arc<dyn Executable>> {
    let cache = device.create_executable_cache("").unwrap();
    cache.prepare_executable(QueueAffinity::ANY, ExecutableCachingMode::empty(), FORMAT, data, constants)
}

fn buffer(device: &dyn Device, words: &[u32]) -> Arc<dyn Buffer> {
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let buffer = device.allocator().allocate_buffer(BufferParams::default(), bytes.len() as u64).unwrap();
    buffer_write(&*buffer, 0, &bytes).unwrap();
    buffer
}

fn words(buffer: &dyn Buffer) -> Vec<u32> {
    let mut bytes = vec![0; buffer.byte_length() as usize];
    buffer_read(buffer, 0, &mut bytes).unwrap();
    bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().unwrap())).collect()
}

fn reference(buffer: &Arc<dyn Buffer>) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset: 0, length: WHOLE_BUFFER }
}

fn grid(x: u32) -> DispatchConfig {
    DispatchConfig {
        workgroup_size: [1; 3],
        workgroup_count: [x, 1, 1],
        workgroup_count_ref: BufferRef { buffer: None, slot: 0, offset: 0, length: 0 },
        dynamic_workgroup_local_memory: 0,
    }
}

#[test]
fn metadata_is_read() {
    let device = create_device("local-sync").unwrap();
    let executable = prepare(&*device, &kernels(), &[]).unwrap();
    assert_eq!(executable.function_count(), 2);
    let add = executable.lookup_function("add_dispatch_0_elementwise_64_f32").unwrap();
    let info = executable.function_info(add).unwrap();
    assert_eq!((info.constant_count, info.binding_count), (0, 3));
    let info = executable.function_info(ExecutableFunction(1)).unwrap();
    assert_eq!((info.constant_count, info.binding_count), (4, 3));
    let error = executable.lookup_function("subtract").unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound);
    assert!(error.message().contains("it has add_dispatch_0_elementwise_64_f32, "), "{error}");
    assert_eq!(executable.function_info(ExecutableFunction(2)).unwrap_err().code(), StatusCode::OutOfRange);
    let error = prepare(&*device, &kernels(), &[1]).unwrap_err();
    assert_eq!(error.to_string(), "FAILED_PRECONDITION: the executable takes 0 constants, 1 are given");
}

#[test]
fn dispatches_compute() {
    let device = create_device("local-sync").unwrap();
    let executable = prepare(&*device, &kernels(), &[]).unwrap();
    let add = executable.lookup_function("add_dispatch_0_elementwise_64_f32").unwrap();
    let lhs: Vec<f32> = (0..64).map(|i| i as f32 * 0.5).collect();
    let rhs: Vec<f32> = (0..64).map(|i| 100.0 - i as f32).collect();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let (a, b, out) = (buffer(&*device, &bits(&lhs)), buffer(&*device, &bits(&rhs)), buffer(&*device, &[0; 64]));
    let bindings = [reference(&a), reference(&b), reference(&out)];
    let any = QueueAffinity::ANY;
    let none = DispatchFlags::empty();
    device.queue_dispatch(any, &[], &[], &executable, add, &grid(1), &[], &bindings, none).unwrap();
    let expected: Vec<f32> = lhs.iter().zip(&rhs).map(|(a, b)| a + b).collect();
    assert_eq!(words(&*out), bits(&expected));
    // Kernels compute with denormals as zeros, and the caller's mode is untouched.
    let (a, out) = (buffer(&*device, &[1; 64]), buffer(&*device, &[7; 64]));
    let bindings = [reference(&a), reference(&a), reference(&out)];
    device.queue_dispatch(any, &[], &[], &executable, add, &grid(1), &[], &bindings, none).unwrap();
    assert_eq!(words(&*out), [0; 64]);
    assert_eq!((f32::from_bits(std::hint::black_box(1)) + f32::from_bits(1)).to_bits(), 2);
}

#[test]
fn recorded_dispatches_take_bindings_and_constants() {
    let device = create_device("local-sync").unwrap();
    let executable = prepare(&*device, &kernels(), &[]).unwrap();
    let multiply = executable.lookup_function("multiply_dispatch_0_elementwise_D_i32").unwrap();
    let commands =
        device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, QueueAffinity::ANY, 3).unwrap();
    commands.begin().unwrap();
    let slot = |slot| BufferRef { buffer: None, slot, offset: 0, length: WHOLE_BUFFER };
    let bindings = [slot(0), slot(1), slot(2)];
    let dispatch = |constants: &[u32], bindings: &[BufferRef], config: &DispatchConfig, flags| {
        commands.dispatch(&executable, multiply, config, constants, bindings, flags)
    };
    let none = DispatchFlags::empty();
    let count = 5000;
    dispatch(&[count, 0, count, 0], &bindings, &grid(2), none).unwrap();
    let error = dispatch(&[count, 0], &bindings, &grid(2), none).unwrap_err();
    assert!(error.message().contains("takes 4 constants and 3 bindings, 2 and 3 are given"), "{error}");
    let custom = dispatch(&[0; 4], &bindings, &grid(1), DispatchFlags::CUSTOM_DIRECT_ARGUMENTS);
    assert_eq!(custom.unwrap_err().code(), StatusCode::Unimplemented);
    let tall = DispatchConfig { workgroup_count: [1, 1, 1 << 16], ..grid(1) };
    assert_eq!(dispatch(&[0; 4], &bindings, &tall, none).unwrap_err().code(), StatusCode::OutOfRange);
    commands.end().unwrap();
    let execute = |commands: &Arc<dyn CommandBuffer>, scale: u32| {
        let lhs: Vec<u32> = (0..count).map(|i| i.wrapping_mul(scale)).collect();
        let inputs = [buffer(&*device, &lhs), buffer(&*device, &vec![3; count as usize])];
        let out = buffer(&*device, &vec![0; count as usize]);
        let table: Vec<BufferBinding> = inputs
            .iter()
            .chain([&out])
            .map(|buffer| BufferBinding { buffer: Some(buffer.clone()), offset: 0, length: WHOLE_BUFFER })
            .collect();
        device.queue_execute(QueueAffinity::ANY, &[], &[], commands, &table, ExecuteFlags::empty()).unwrap();
        let expected: Vec<u32> = lhs.iter().map(|value| value.wrapping_mul(3)).collect();
        assert_eq!(words(&*out), expected);
    };
    execute(&commands, 1);
    execute(&commands, 0x1234_5678);

    // The same with the workgroup counts in a buffer.
    let usage = BufferUsage::DEFAULT | BufferUsage::DISPATCH_INDIRECT_PARAMETERS;
    let counts = device.allocator().allocate_buffer(BufferParams { usage, ..BufferParams::default() }, 16).unwrap();
    buffer_write(&*counts, 0, &[9u32, 2, 1, 1].map(u32::to_le_bytes).concat()).unwrap();
    let indirect =
        device.create_command_buffer(CommandBufferMode::empty(), CommandCategory::ANY, QueueAffinity::ANY, 3).unwrap();
    indirect.begin().unwrap();
    let counts = BufferRef { offset: 4, length: 12, ..reference(&counts) };
    let config = DispatchConfig { workgroup_count_ref: counts, ..grid(0) };
    let flags = DispatchFlags::STATIC_INDIRECT_PARAMETERS;
    indirect.dispatch(&executable, multiply, &config, &[count, 0, count, 0], &bindings, flags).unwrap();
    indirect.end().unwrap();
    execute(&indirect, 7);
}

#[test]
fn formats_are_named() {
    assert_eq!(infer_format(&kernels()).unwrap(), FORMAT);
    let (name, number) = OTHER;
    let mut other = kernels();
    other[18] = number;
    assert_eq!(infer_format(&other).unwrap(), format!("embedded-elf-{name}"));
    let error = ElfImage::load(&other).unwrap_err();
    assert_eq!(error.to_string(), format!("ELF: machine {name} on {MACHINE} is not supported"));
    let device = create_device("local-sync").unwrap();
    let cache = device.create_executable_cache("").unwrap();
    let mode = ExecutableCachingMode::empty();
    let format = format!("system-elf-{name}");
    let error = cache.prepare_executable(QueueAffinity::ANY, mode, &format, &[], &[]).unwrap_err();
    let expected =
        format!("UNIMPLEMENTED: no loader for executables of format `{format}` on {}", std::env::consts::ARCH);
    assert_eq!(error.to_string(), expected);
    // The beginning of a FatELF file.
    assert!(matches!(infer_format(&[0xfa, 0x70, 0x0e, 0x1f]), Err(ElfError::Truncated { at: 0, length: 8, .. })));
    assert!(infer_format(b"\x7fEL").is_err());
}

#[test]
fn broken_headers_are_refused_with_their_place() {
    let refused = |at: usize, value: &[u8], message: &str| {
        let mut bytes = kernels();
        bytes[at..at + value.len()].copy_from_slice(value);
        let error = ElfImage::load(&bytes).expect_err(message).to_string();
        assert!(error.contains(message), "{error} does not contain {message}");
    };
    refused(0, &[0], "ELF at file offset 0x0: magic is 0x464c4500, expected 0x464c457f");
    refused(4, &[1], "class is 0x1, expected 2 (64 bits)");
    refused(5, &[2], "data is 0x2, expected 1 (little-endian)");
    refused(16, &[2], "file_type is 0x2, expected 3 (shared object)");
    refused(32, &[0xff; 8], "ELF at file offset 0xffffffffffffffff: a program header needs 56 bytes");
    refused(54, &[57], "segment_size is 0x39");
    refused(56, &[0, 0], "segment_count is 0x0");
    // The second program header is the first segment that is loaded.
    let load = 64 + 56;
    refused(load + 4, &[7], "flags is 0x7, expected writable or executable, not both");
    refused(load + 8, &[0xff; 8], "a segment needs");
    refused(load + 16, &[0xff; 8], "within 1 GiB");
    refused(load + 32, &[0xff; 8], "file_size");
    refused(load + 40, &[0xff; 8], "memory_size");
    let alignment = u32::from_le_bytes(kernels()[load + 48..load + 52].try_into().unwrap()) | 3;
    refused(load + 48, &[3], &format!("alignment is {alignment:#x}, expected a power of two"));
    refused(load, &[0], "ELF at address");
    // One entry of the dynamic table is the size of a symbol.
    let [place, address, length] = segment(&kernels(), dynamic_header(&kernels()));
    let entry =
        (0..length).step_by(16).find(|entry| kernels()[place + entry..].starts_with(&11u64.to_le_bytes())).unwrap();
    let message = format!("ELF at address {:#x}: DT_SYMENT is 0x19, expected 24", address + entry);
    refused(place + entry + 8, &[25], &message);
    assert!(ElfImage::load(&[]).is_err());
    assert!(ElfImage::load(&kernels()[..1000]).is_err());
}

/// A small generator, so that the same files are tested everywhere.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

#[test]
fn mutated_files_are_loaded_or_refused() {
    let original = kernels();
    let mut random = Random(0x9E37_79B9_7F4A_7C15);
    let (mut loaded, mut refused) = (0, 0);
    for round in 0..6000 {
        let mut bytes = original.clone();
        // The headers, the tables at the start of the image, and the dynamic table hold everything that is read.
        let places = [0..64, 64..64 + 7 * 56, 0x1c8..0x3e8, last_segment(&original)];
        for _ in 0..1 + round % 4 {
            let place = &places[random.below(places.len())];
            let at = place.start + random.below(place.len());
            match random.below(4) {
                0 => bytes[at] = random.next() as u8,
                1 => bytes[at] ^= 1 << random.below(8),
                2 => bytes[at] = [0, 1, 0x7f, 0x80, 0xff][random.below(5)],
                _ => {
                    let at = at & !7;
                    let value = [0, u64::MAX, 1 << 63, 0x1000, u64::from(u32::MAX), random.next()][random.below(6)];
                    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
                }
            }
        }
        if random.below(16) == 0 {
            bytes.truncate(random.below(bytes.len()));
        }
        match ElfImage::load(&bytes) {
            Ok(_) => loaded += 1,
            Err(error) => {
                assert!(!error.to_string().is_empty());
                refused += 1;
            }
        }
    }
    assert!(loaded > 100 && refused > 100, "{loaded} loaded, {refused} refused");
}

#[test]
fn truncated_files_are_refused() {
    let original = kernels();
    // The bytes after the last segment are not needed.
    let end = last_segment(&original).end;
    for length in 0..end {
        assert!(ElfImage::load(&original[..length]).is_err(), "{length} bytes");
    }
    ElfImage::load(&original[..end]).unwrap();
}
