//! Every recorded call of the model fixtures, compared bit for bit with what the tools of the reference runtime
//! answered.

use std::sync::Arc;
use std::time::Duration;

use super::calls::{invoke, load_with};
use super::fixtures::{Call, Case, Module, Tensor, manifest, parse_npy, read};
use crate::skip::{Need, skipped};
use vireo::Status;
use vireo::hal::local::task::{Caches, TaskOptions, Topology};
use vireo::hal::local::{ImportProvider, LocalDevice, NoImports, default_loaders};
use vireo::hal::observe::{Observation, Validate};
use vireo::hal::plugin::loopback::through;
use vireo::hal::{BufferViewRef, Device, HeapAllocator, buffer_read, create_device, format_view};
use vireo::interp::{DispatchMode, Limits};
use vireo::vm::{Context, Value};

/// `iree-run-module` prints at most this many elements of a tensor.
const MAX_PRINTED: usize = 1024;

fn local_sync() -> Arc<dyn Device> {
    create_device("local-sync").expect("the synchronous device exists everywhere")
}

#[test]
fn models_answer_as_the_reference_does() {
    check_models(&[
        ("Loop", DispatchMode::Loop, &local_sync),
        ("Threaded", DispatchMode::Threaded, &local_sync),
        ("Compiled", DispatchMode::Compiled, &local_sync),
    ]);
}

#[test]
fn models_answer_alike_on_a_device_of_another_library() {
    let device = || through(&local_sync()).expect("the device can be exported");
    check_models(&[("imported", DispatchMode::default(), &device)]);
}

/// Programs of the compiler keep the contract of devices.
#[test]
fn models_answer_alike_on_a_validated_device() {
    let device = || Observation::new(Validate::new()).device(&local_sync());
    check_models(&[("validated", DispatchMode::default(), &device)]);
}

/// Workers that run all operations and share all workgroups, however little there is to do.
pub fn eager_task() -> Arc<dyn Device> {
    let topologies = vec![Topology::unpinned(3, Caches::default())];
    let (handover_threshold, sharing_threshold) = (Duration::ZERO, Duration::ZERO);
    let options = TaskOptions { topologies, handover_threshold, sharing_threshold, ..TaskOptions::default() };
    let imports: Arc<dyn ImportProvider> = Arc::new(NoImports);
    let device = LocalDevice::new("local-task", Arc::new(HeapAllocator::new()), default_loaders(&imports));
    Arc::new(device.with_workers(&options).expect("there is a topology"))
}

#[test]
fn models_answer_alike_on_worker_threads() {
    let usual = || create_device("local-task").expect("the device exists everywhere");
    check_models(&[("local-task", DispatchMode::default(), &usual), ("eager", DispatchMode::default(), &eager_task)]);
}

/// The name of the way, the dispatcher of the VM and where the device comes from.
type Way<'a> = (&'a str, DispatchMode, &'a dyn Fn() -> Arc<dyn Device>);

/// Runs every case in each of these ways.
fn check_models(ways: &[Way]) {
    let manifest = manifest();
    let mut failures = Vec::new();
    let mut passed = 0;
    // Kernels in bytecode run on every processor.
    let least = manifest.cases.iter().filter(|case| manifest.modules[&case.module].cpu == "vmvx").count();
    assert!(least >= 10, "only {least} cases run everywhere");
    for case in &manifest.cases {
        let module = &manifest.modules[&case.module];
        if let Some(why) = missing_processor_feature(&module.cpu) {
            skipped(needed(&module.cpu), format_args!("{}: {why}", case.name));
            continue;
        }
        for (way, dispatch, device) in ways {
            match run_case(module, case, *dispatch, device()) {
                Ok(()) => passed += 1,
                Err(problem) => failures.push(format!("{} ({way}): {problem}", case.name)),
            }
        }
    }
    println!("{passed} cases in {} ways answer as the reference {} does", ways.len(), manifest.recorded_with);
    assert!(passed + failures.len() >= least * ways.len(), "only {passed} cases ran");
    assert!(failures.is_empty(), "{} cases differ, {passed} do not:\n{}", failures.len(), failures.join("\n"));
}

/// Runs all calls of a case in one fresh program.
fn run_case(module: &Module, case: &Case, dispatch: DispatchMode, device: Arc<dyn Device>) -> Result<(), String> {
    let describe = |error: Status| format!("{error:?}");
    let context = load_with(&device, &module.file, Limits { dispatch, ..Limits::default() }).map_err(describe)?;
    for (index, call) in case.calls.iter().enumerate() {
        run_call(&device, &context, call, module.units.unwrap_or(0))
            .map_err(|problem| format!("call {index} of `{}`: {problem}", call.function))?;
    }
    Ok(())
}

fn run_call(device: &Arc<dyn Device>, context: &Context, call: &Call, units: u32) -> Result<(), String> {
    let result = context.function(&call.function).and_then(|function| invoke(device, &function, &call.inputs));
    let values = match (result, &call.error) {
        (Ok(values), None) => values,
        (Ok(_), Some(expected)) => return Err(format!("succeeded; expected {}: {}", expected.code, expected.message)),
        (Err(error), None) => return Err(format!("{error:?}")),
        (Err(error), Some(expected)) => {
            let same = error.code().name() == expected.code && error.message().contains(&expected.message);
            let problem = || format!("{error}; expected {}: {}", expected.code, expected.message);
            return if same { Ok(()) } else { Err(problem()) };
        }
    };
    if values.len() != call.outputs.len() {
        return Err(format!("{} results; expected {}", values.len(), call.outputs.len()));
    }
    for (index, (value, expected)) in values.iter().zip(&call.outputs).enumerate() {
        let problem = |problem: String| format!("result {index}: {problem}");
        compare(value, expected, units).map_err(problem)?;
        if let Some(text) = call.stdout.as_deref().filter(|_| units == 0) {
            compare_text(value, index, text).map_err(problem)?;
        }
    }
    Ok(())
}

/// Compares a result with a recorded file: bit for bit, or within `units` values of `f32`.
fn compare(value: &Value, file: &str, units: u32) -> Result<(), String> {
    let expected = read(file);
    let Some(view) = value.object::<BufferViewRef>() else {
        let bytes = match value {
            Value::I32(value) => value.to_le_bytes().to_vec(),
            Value::I64(value) => value.to_le_bytes().to_vec(),
            Value::F32(value) => value.to_le_bytes().to_vec(),
            Value::F64(value) => value.to_le_bytes().to_vec(),
            Value::Ref(_) => return Err(format!("a {}", value.type_name())),
        };
        return if bytes == expected {
            Ok(())
        } else {
            Err(format!("{value:?} is {bytes:02x?}; expected {expected:02x?}"))
        };
    };
    let mut bytes = vec![0; view.byte_length() as usize];
    buffer_read(&**view.buffer(), 0, &mut bytes).map_err(|error| error.to_string())?;
    let mut actual = Tensor { kind: view.element_type().to_string(), shape: view.shape().to_vec(), bytes };
    let mut expected = if file.ends_with(".npy") {
        parse_npy(&expected)
    } else {
        Tensor { kind: actual.kind.clone(), shape: actual.shape.clone(), bytes: expected }
    };
    for tensor in [&mut actual, &mut expected] {
        without_nan_signs(tensor);
    }
    if actual == expected {
        return Ok(());
    }
    if (&actual.kind, &actual.shape) != (&expected.kind, &expected.shape) {
        return Err(format!("{:?}x{}; expected {:?}x{}", actual.shape, actual.kind, expected.shape, expected.kind));
    }
    if units > 0 && actual.kind == "f32" {
        let off = distances(&actual.bytes, &expected.bytes).max().unwrap_or(0);
        return if off <= units { Ok(()) } else { Err(format!("off by {off} values; expected at most {units}")) };
    }
    let differing = actual.bytes.iter().zip(&expected.bytes).filter(|(a, b)| a != b).count();
    let first = actual.bytes.iter().zip(&expected.bytes).position(|(a, b)| a != b).unwrap_or(expected.bytes.len());
    Err(format!("{differing} of {} bytes differ, the first at offset {first}", expected.bytes.len()))
}

/// Clears the signs of NaNs on other processors than x86-64, where the results of kernels in bytecode were recorded:
/// what sign a new NaN has is up to the processor.
fn without_nan_signs(tensor: &mut Tensor) {
    if !cfg!(target_arch = "x86_64") && tensor.kind == "f32" {
        for word in tensor.bytes.as_chunks_mut::<4>().0 {
            let value = f32::from_le_bytes(*word);
            if value.is_nan() {
                *word = value.abs().to_le_bytes();
            }
        }
    }
}

/// How many values of `f32` lie between those of two tensors.
fn distances(a: &[u8], b: &[u8]) -> impl Iterator<Item = u32> {
    let order = |word: &[u8]| {
        let bits = i32::from_le_bytes(word.try_into().expect("a word"));
        if bits < 0 { i32::MIN.wrapping_sub(bits) } else { bits }
    };
    a.chunks_exact(4).zip(b.chunks_exact(4)).map(move |(a, b)| order(a).abs_diff(order(b)))
}

/// Compares the text form of a tensor with what `iree-run-module` printed.
fn compare_text(value: &Value, index: usize, printed: &str) -> Result<(), String> {
    let Some(view) = value.object::<BufferViewRef>() else { return Ok(()) };
    let mut lines = printed.lines().skip_while(|line| *line != format!("result[{index}]: hal.buffer_view"));
    let expected = lines.nth(1).ok_or("not printed")?;
    let actual = format_view(view, MAX_PRINTED).map_err(|error| error.to_string())?;
    let has_signs = cfg!(target_arch = "x86_64");
    let normal = |text: &str| if has_signs { text.to_string() } else { text.replace("-NAN", "NAN") };
    if normal(&actual) == normal(expected) {
        Ok(())
    } else {
        Err(format!("printed as\n  {actual}\nexpected\n  {expected}"))
    }
}

pub fn missing_processor_feature(cpu: &str) -> Option<&'static str> {
    match cpu {
        "vmvx" => None,
        "aarch64" => (!cfg!(target_arch = "aarch64")).then_some("the kernels are for 64-bit Arm"),
        "x86-64-v3" if !has_x86_64_v3() => Some("the processor lacks features of x86-64-v3"),
        _ if !cfg!(target_arch = "x86_64") => Some("the kernels are for x86-64"),
        _ => None,
    }
}

/// The features of a processor that kernels compiled for `cpu` need.
fn needed(cpu: &str) -> Need<'static> {
    match cpu {
        "aarch64" => Need::Platform("aarch64"),
        "x86-64-v3" if cfg!(target_arch = "x86_64") => Need::Processor("bmi2"),
        _ => Need::Platform("x86_64"),
    }
}

#[cfg(target_arch = "x86_64")]
fn has_x86_64_v3() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma") && is_x86_feature_detected!("bmi2")
}

#[cfg(not(target_arch = "x86_64"))]
fn has_x86_64_v3() -> bool {
    false
}
