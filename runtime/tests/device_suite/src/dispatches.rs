//! Executables and dispatches: two kernels of `iree-compile`, or any bytes for devices that do not parse them.
//!
//! `fixtures/elf/rebuild.sh` makes the library: one function adds floats, the other one multiplies integers, whose
//! number it takes as constants.

use std::sync::Arc;
use std::thread;

use vireo::hal::*;
use vireo::{Result, StatusCode};

use super::*;
use crate::machine::{EMBEDDED as FORMAT, HAS_KERNELS, library};
use crate::skip::{Need, skipped};

const ADD: &str = "add_dispatch_0_elementwise_64_f32";
/// The same functions for GPUs by their formats, by `rebuild.sh` of each folder.
const GPU_KERNELS: [(&str, &[u8]); 2] = [
    ("gfx1100", include_bytes!("../../../../fixtures/amdgpu/conformance_gfx1100.amd1")),
    ("cuda-nvptx-fb", include_bytes!("../../../../fixtures/cuda/conformance_sm_60.cda1")),
];

const MULTIPLY: &str = "multiply_dispatch_0_elementwise_D_i32";

/// Work-items of a work-group of the kernels for GPUs, each of which computes an element.
const WORKGROUP: u32 = 32;

/// The executable for GPUs of the fixtures that a device takes, with its format.
fn gpu_kernels(device: &dyn Device) -> (&'static str, &'static [u8]) {
    let takes = |format: &str| device.query_i64("hal.executable.format", format).is_ok_and(|takes| takes != 0);
    GPU_KERNELS.into_iter().find(|(format, _)| takes(format)).expect("kernels for the device")
}

/// The executable of the fixtures. None where its kernels cannot run.
pub fn kernels(backend: &Backend, device: &dyn Device) -> Option<Arc<dyn Executable>> {
    if backend.is_gpu {
        let (format, data) = gpu_kernels(device);
        return Some(prepare(device, format, data).unwrap());
    }
    if backend.runs_kernels && !HAS_KERNELS {
        skipped(Need::Platform("x86_64"), format_args!("{}: no kernels are for this machine", backend.name));
        return None;
    }
    let path = library("kernels");
    let data = std::fs::read(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    Some(prepare(device, FORMAT, &data).unwrap())
}

fn prepare(device: &dyn Device, format: &str, data: &[u8]) -> Result<Arc<dyn Executable>> {
    let cache = device.create_executable_cache("conformance").unwrap();
    cache.prepare_executable(ANY, ExecutableCachingMode::empty(), format, data, &[])
}

/// The function that multiplies integers.
pub fn multiply(executable: &dyn Executable) -> ExecutableFunction {
    executable.lookup_function(MULTIPLY).unwrap()
}

/// Its constants for `count` elements: the low and high words of two sizes.
pub fn multiply_constants(count: u32) -> [u32; 4] {
    [count, 0, count, 0]
}

pub fn grid(x: u32) -> DispatchConfig {
    DispatchConfig { workgroup_count: [x, 1, 1], ..DispatchConfig::default() }
}

/// The size of a dispatch over so many elements.
pub fn over(backend: &Backend, elements: u32) -> DispatchConfig {
    grid(if backend.is_gpu { elements.div_ceil(WORKGROUP) } else { 1 })
}

fn buffer_of_words(device: &dyn Device, words: &[u32]) -> Arc<dyn Buffer> {
    buffer_of(device, &words.iter().flat_map(|word| word.to_le_bytes()).collect::<Vec<_>>())
}

/// A buffer that workgroup counts may be read from.
fn counts_of(device: &dyn Device, words: &[u32]) -> Arc<dyn Buffer> {
    let params = BufferParams { usage: params().usage | BufferUsage::DISPATCH_INDIRECT_PARAMETERS, ..params() };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    let buffer = device.allocator().allocate_buffer(params, bytes.len() as u64).unwrap();
    buffer_write(&*buffer, 0, &bytes).unwrap();
    buffer
}

fn words_of(buffer: &dyn Buffer) -> Vec<u32> {
    bytes_of(buffer).as_chunks::<4>().0.iter().copied().map(u32::from_le_bytes).collect()
}

pub fn executables_tell_what_they_are(backend: &Backend) {
    let device = backend.device();
    let Some(executable) = kernels(backend, &*device) else { return };
    let cache = device.create_executable_cache("conformance").unwrap();
    let mode = ExecutableCachingMode::empty();
    let format = if backend.is_gpu { gpu_kernels(&*device).0 } else { FORMAT };
    assert!(cache.can_prepare_format(mode, format));
    if !backend.runs_kernels {
        // The device does not parse executables.
        executable.lookup_function("anything").unwrap();
        assert!(executable.function_info(ExecutableFunction(0)).is_err());
        assert!(cache.infer_format(mode, b"\x7fELF").is_err());
        return;
    }
    assert!(!cache.can_prepare_format(mode, "no such format"));
    assert_eq!(code(prepare(&*device, "no such format", b"x")), StatusCode::Unimplemented);
    assert!(prepare(&*device, format, b"\x7fELF").is_err());
    assert!(cache.infer_format(mode, b"nothing").is_err());
    assert_eq!(executable.function_count(), 2);
    let add = executable.lookup_function(ADD).unwrap();
    let info = executable.function_info(add).unwrap();
    assert_eq!((info.constant_count, info.binding_count), (0, 3));
    let info = executable.function_info(multiply(&*executable)).unwrap();
    assert_eq!((info.constant_count, info.binding_count), (4, 3));
    assert_eq!(code(executable.lookup_function("subtract")), StatusCode::NotFound);
    assert_eq!(code(executable.function_info(ExecutableFunction(2))), StatusCode::OutOfRange);
    for optional in
        [executable.function_parameters(add).map(drop), executable.lookup_global("no such global", ANY).map(drop)]
    {
        let status = optional.err().map(|status| status.code());
        assert!(matches!(status, None | Some(StatusCode::Unimplemented | StatusCode::NotFound)), "{status:?}");
    }
}

pub fn dispatches_compute(backend: &Backend) {
    let device = backend.device();
    let Some(executable) = kernels(backend, &*device) else { return };
    let add = executable.lookup_function(ADD).unwrap();
    let bits = |value: fn(u32) -> f32| (0..64).map(|i| value(i).to_bits()).collect::<Vec<_>>();
    let lhs = buffer_of_words(&*device, &bits(|i| i as f32 * 0.5));
    let rhs = buffer_of_words(&*device, &bits(|i| 100.0 - i as f32));
    let out = buffer_of_words(&*device, &[7; 64]);
    let bindings = [whole(&lhs), whole(&rhs), whole(&out)];
    let flags = DispatchFlags::empty();
    outcome(&*device, |signal| {
        device.queue_dispatch(ANY, &[], signal, &executable, add, &over(backend, 64), &[], &bindings, flags)
    })
    .unwrap();
    let expected = bits(|i| i as f32 * 0.5 + (100.0 - i as f32));
    assert_eq!(words_of(&*out), if backend.runs_kernels { expected } else { vec![7; 64] });
}

pub fn recorded_dispatches_take_constants(backend: &Backend) {
    let device = backend.device();
    let Some(executable) = kernels(backend, &*device) else { return };
    let commands = record(&*device, CommandBufferMode::empty(), 3);
    let bindings = [0, 1, 2].map(|index| slot(index, 0, WHOLE_BUFFER));
    let (function, none) = (multiply(&*executable), DispatchFlags::empty());
    // The first dispatch writes what the second one reads; fewer elements are multiplied again.
    let chained = [slot(2, 0, WHOLE_BUFFER), slot(1, 0, WHOLE_BUFFER), slot(0, 0, WHOLE_BUFFER)];
    commands.dispatch(&executable, function, &over(backend, 100), &multiply_constants(100), &bindings, none).unwrap();
    barrier(&*commands).unwrap();
    commands.dispatch(&executable, function, &over(backend, 10), &multiply_constants(10), &chained, none).unwrap();
    commands.end().unwrap();
    for scale in [3, 0x1234_5678] {
        let input: Vec<u32> = (0..100).collect();
        let first = buffer_of_words(&*device, &input);
        let (second, out) = (buffer_of_words(&*device, &[scale; 100]), buffer_of_words(&*device, &[7; 100]));
        let table = [&first, &second, &out].map(|buffer| bound(buffer, 0, WHOLE_BUFFER));
        execute(&*device, &commands, &table).unwrap();
        if !backend.runs_kernels {
            assert_eq!((words_of(&*first), words_of(&*out)), (input, vec![7; 100]));
            continue;
        }
        let once: Vec<u32> = input.iter().map(|value| value.wrapping_mul(scale)).collect();
        let twice: Vec<u32> = once[..10].iter().map(|value| value.wrapping_mul(scale)).collect();
        assert_eq!(words_of(&*out), once);
        assert_eq!(words_of(&*first), [&twice, &input[10..]].concat());
    }
}

pub fn workgroup_counts_come_from_buffers(backend: &Backend) {
    let device = backend.device();
    let Some(executable) = kernels(backend, &*device) else { return };
    let function = multiply(&*executable);
    let input = buffer_of_words(&*device, &[5; 16]);
    for flags in [DispatchFlags::STATIC_INDIRECT_PARAMETERS, DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS] {
        let out = buffer_of_words(&*device, &[7; 16]);
        let bindings = [whole(&input), whole(&input), whole(&out)];
        let counts = counts_of(&*device, &[9, 0, 1, 1]);
        let direct = DispatchConfig { workgroup_count_ref: range(&counts, 4, 12), ..grid(77) };
        let by_slot = DispatchConfig { workgroup_count_ref: slot(0, 4, 12), ..grid(77) };
        let commands = record(&*device, CommandBufferMode::empty(), 1);
        commands.dispatch(&executable, function, &by_slot, &multiply_constants(16), &bindings, flags).unwrap();
        commands.end().unwrap();
        let table = [bound(&counts, 0, WHOLE_BUFFER)];
        // A count of zero is no workgroup at all.
        execute(&*device, &commands, &table).unwrap();
        assert_eq!(words_of(&*out), [7; 16]);
        buffer_write(&*counts, 4, &[1, 0, 0, 0]).unwrap();
        execute(&*device, &commands, &table).unwrap();
        let expected = if backend.runs_kernels { 25 } else { 7 };
        assert_eq!(words_of(&*out), [expected; 16]);
        buffer_write(&*out, 0, &[0; 64]).unwrap();
        let constants = multiply_constants(16);
        let dispatch = |config: &DispatchConfig| {
            outcome(&*device, |signal| {
                device.queue_dispatch(ANY, &[], signal, &executable, function, config, &constants, &bindings, flags)
            })
        };
        dispatch(&direct).unwrap();
        assert_eq!(words_of(&*out), [if backend.runs_kernels { 25 } else { 0 }; 16]);
        // Three numbers have to be there.
        let short = DispatchConfig { workgroup_count_ref: range(&counts, 8, 8), ..grid(1) };
        assert_eq!(code(dispatch(&short)), StatusCode::OutOfRange);
        // The buffer has to be for that, whether it is named or in the table.
        let other = buffer_of_words(&*device, &[9, 1, 1, 1]);
        let table = [bound(&other, 0, WHOLE_BUFFER)];
        assert_eq!(code(execute(&*device, &commands, &table)), StatusCode::PermissionDenied);
        let direct = DispatchConfig { workgroup_count_ref: range(&other, 4, 12), ..grid(1) };
        assert_eq!(code(dispatch(&direct)), StatusCode::PermissionDenied);
        let commands = record(&*device, CommandBufferMode::empty(), 0);
        let recorded = commands.dispatch(&executable, function, &direct, &constants, &bindings, flags);
        assert_eq!(code(recorded), StatusCode::PermissionDenied);
    }
}

/// Kernels of the host have a limit for the last count, and GPUs one for each. Where only the GPU can find it to be
/// exceeded, its queue stops.
pub fn counts_in_buffers_have_limits(backend: &Backend) {
    let device = backend.device();
    let Some(executable) = kernels(backend, &*device) else { return };
    let function = multiply(&*executable);
    let (input, out) = (buffer_of_words(&*device, &[5; 16]), buffer_of_words(&*device, &[7; 16]));
    let bindings = [whole(&input), whole(&input), whole(&out)];
    let most = if backend.is_gpu { [u32::MAX, 1, 1] } else { [1, 1, 1 << 16] };
    let counts = counts_of(&*device, &most);
    let config = DispatchConfig { workgroup_count_ref: whole(&counts), ..grid(1) };
    let (constants, flags) = (multiply_constants(16), DispatchFlags::STATIC_INDIRECT_PARAMETERS);
    let dispatched = outcome(&*device, |signal| {
        device.queue_dispatch(ANY, &[], signal, &executable, function, &config, &constants, &bindings, flags)
    });
    let refused = code(dispatched);
    assert!(refused == StatusCode::OutOfRange || (refused == StatusCode::Internal && backend.is_gpu), "{refused:?}");
    assert_eq!(words_of(&*out), [7; 16]);
}

pub fn arguments_are_checked(backend: &Backend) {
    let device = backend.device();
    let Some(executable) = kernels(backend, &*device) else { return };
    let buffer = buffer_of(&*device, &[0; 64]);
    let function = multiply(&*executable);
    let bindings = [whole(&buffer), whole(&buffer), whole(&buffer)];
    let (none, constants) = (DispatchFlags::empty(), multiply_constants(16));
    let dispatch = |function, constants: &[u32], bindings: &[BufferRef], config: &DispatchConfig, flags| {
        outcome(&*device, |signal| {
            device.queue_dispatch(ANY, &[], signal, &executable, function, config, constants, bindings, flags)
        })
    };
    let beyond = [whole(&buffer), whole(&buffer), range(&buffer, 32, 33)];
    assert_eq!(code(dispatch(function, &constants, &beyond, &grid(1), none)), StatusCode::OutOfRange);
    let unbound = [whole(&buffer), whole(&buffer), slot(0, 0, WHOLE_BUFFER)];
    assert_eq!(code(dispatch(function, &constants, &unbound, &grid(1), none)), StatusCode::OutOfRange);
    if backend.runs_kernels {
        assert!(dispatch(function, &constants[..2], &bindings, &grid(1), none).is_err(), "two constants are missing");
        assert!(dispatch(function, &constants, &bindings[..2], &grid(1), none).is_err(), "a binding is missing");
        let unknown = ExecutableFunction(77);
        assert!(dispatch(unknown, &constants, &bindings, &grid(1), none).is_err(), "there is no such function");
    }
    let most = if backend.is_gpu { [u32::MAX, 1, 1] } else { [1, 1, 1 << 16] };
    let tall = DispatchConfig { workgroup_count: most, ..grid(1) };
    assert_eq!(code(dispatch(function, &constants, &bindings, &tall, none)), StatusCode::OutOfRange);
    let custom = dispatch(function, &constants, &bindings, &grid(1), DispatchFlags::CUSTOM_DIRECT_ARGUMENTS);
    // Where the caller may lay the arguments out, these are not enough of them.
    let refusal = if backend.is_gpu { StatusCode::InvalidArgument } else { StatusCode::Unimplemented };
    assert!(
        custom.as_ref().is_ok_and(|()| !backend.runs_kernels) || custom.is_err_and(|status| status.code() == refusal)
    );
    // No workgroups do nothing.
    dispatch(function, &constants, &bindings, &grid(0), none).unwrap();
}

/// Dispatches of several threads use one executable; each waits for its own points only.
pub fn dispatches_share_a_queue(backend: &Backend) {
    const ROUNDS: u64 = 100;
    let device = backend.device();
    let Some(executable) = kernels(backend, &*device) else { return };
    let function = multiply(&*executable);
    thread::scope(|scope| {
        for seed in 1..=4u32 {
            let (device, executable) = (&device, &executable);
            scope.spawn(move || {
                let line = timeline(&**device);
                let factor = buffer_of_words(&**device, &[2 * seed + 1; 64]);
                let values = [buffer_of_words(&**device, &[seed; 64]), buffer_of_words(&**device, &[0; 64])];
                let mut expected = seed;
                for round in 0..ROUNDS {
                    let (from, to) = (&values[round as usize % 2], &values[1 - round as usize % 2]);
                    let bindings = [whole(from), whole(&factor), whole(to)];
                    let (wait, signal) = ([point(&line, round)], [point(&line, round + 1)]);
                    let (constants, flags) = (multiply_constants(64), DispatchFlags::empty());
                    device
                        .queue_dispatch(
                            ANY,
                            &wait,
                            &signal,
                            executable,
                            function,
                            &over(backend, 64),
                            &constants,
                            &bindings,
                            flags,
                        )
                        .unwrap();
                    expected = expected.wrapping_mul(2 * seed + 1);
                }
                line.wait(ROUNDS, in_time()).unwrap();
                let expected = if backend.runs_kernels { expected } else { seed };
                assert_eq!(words_of(&*values[0]), [expected; 64]);
            });
        }
    });
}
