//! Loads the driver as a host would: from its library, without a word about its types.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vireo::hal::{
    BufferParams, BufferUsage, BufferView, BufferViewRef, BuiltinOptions, DRIVER_ABI_VERSION, DRIVER_PLUGIN_MAGIC,
    DRIVER_PLUGIN_SYMBOL, Device, DeviceId, DriverRegistry, ElementType, ExecuteFlags, MemoryType, QueueAffinity,
    SemaphoreFlags, Timepoint, buffer_from_bytes, buffer_to_vec, load_driver_library,
};
use vireo::modules::hal::HalModule;
use vireo::vm::{Context, Module, Value};
use vireo::{Result, Status, StatusCode};

/// The library, which cargo builds next to the tests.
fn library() -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    let name = format!("{}vireo_counting_driver{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let folders = tests.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(&name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: there is no {name} next to {}", tests.display());
    }
    found
}

/// A registry with the driver.
fn registry() -> Option<DriverRegistry> {
    let registry = BuiltinOptions::default().registry();
    // SAFETY: it is the library of this package.
    let info = unsafe { load_driver_library(&registry, &library()?) }.unwrap();
    assert_eq!(info.name, "counting");
    Some(registry)
}

fn load(path: &Path) -> Result<DriverRegistry> {
    let registry = DriverRegistry::empty();
    // SAFETY: the tests load files that are no libraries, and libraries of the system.
    unsafe { load_driver_library(&registry, path) }.map(|_| registry)
}

/// A model with kernels for this machine.
const ABS: &str = if cfg!(target_arch = "aarch64") { "aarch64_abs.vmfb" } else { "abs.vmfb" };

fn model(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/models").join(name)
}

/// Calls a function with tensors of `f32` of one shape, and returns the bytes of its first result.
fn call(device: &Arc<dyn Device>, file: &str, function: &str, shape: &[u64], inputs: &[&[f32]]) -> Result<Vec<u8>> {
    let hal = Module::native(HalModule::new(vec![device.clone()]))?;
    let context = Context::new([hal, Module::from_file(model(file))?])?;
    let input = |elements: &&[f32]| -> Result<Value> {
        let bytes = elements.iter().flat_map(|element| element.to_le_bytes()).collect::<Vec<_>>();
        let view = BufferView::from_bytes(&**device, shape, ElementType::FLOAT_32, &bytes)?;
        Ok(view.into_ref().into())
    };
    let inputs = inputs.iter().map(input).collect::<Result<Vec<_>>>()?;
    let results = context.function(function)?.call(&inputs)?;
    let view = results[0].object::<BufferViewRef>().ok_or_else(|| Status::internal("expected a tensor"))?;
    buffer_to_vec(&**view.buffer(), view.byte_length())
}

#[test]
fn a_model_runs_as_on_the_device_behind_it() {
    let Some(registry) = registry() else { return };
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        println!("skipped: the kernels are for x86-64 and 64-bit Arm");
        return;
    }
    let counting = registry.create_device("counting").unwrap();
    let local = registry.create_device("local-sync").unwrap();
    for value in [-2.5f32, 0.0, 3.0, f32::NEG_INFINITY] {
        let expected = call(&local, ABS, "abs", &[], &[&[value]]).unwrap();
        assert_eq!(call(&counting, ABS, "abs", &[], &[&[value]]).unwrap(), expected);
        assert_eq!(expected, value.abs().to_le_bytes());
    }
    let executed =
        counting.query_i64("counting", "execute").unwrap() + counting.query_i64("counting", "dispatch").unwrap();
    assert!(executed >= 4, "{executed} executions are counted");
    assert_eq!(counting.query_i64("counting", "sleep").unwrap_err().code(), StatusCode::NotFound);
}

#[test]
fn many_threads_call_one_device() {
    let Some(registry) = registry() else { return };
    if !cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) {
        println!("skipped: the kernels are for x86-64 and 64-bit Arm");
        return;
    }
    let device = registry.create_device("counting").unwrap();
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let device = &device;
            scope.spawn(move || {
                for round in 0..20u8 {
                    let value = -f32::from(thread) - f32::from(round) / 32.0;
                    let result = call(device, ABS, "abs", &[], &[&[value]]).unwrap();
                    assert_eq!(result, value.abs().to_le_bytes());
                }
            });
        }
    });
}

#[test]
fn devices_have_ids_paths_and_options() {
    let Some(registry) = registry() else { return };
    let driver = registry.create_driver("counting").unwrap();
    let devices = driver.query_available_devices().unwrap();
    assert_eq!((devices.len(), devices[0].path.as_str()), (1, "cpu"));
    assert!(driver.dump_device_info(devices[0].device_id).unwrap().contains("log=1"));
    assert_eq!(driver.create_device_by_id(devices[0].device_id, &[]).unwrap().id(), "counting");
    assert_eq!(driver.create_default_device().unwrap().id(), "counting");
    assert_eq!(driver.create_device_by_id(DeviceId(9), &[]).unwrap_err().code(), StatusCode::NotFound);
    assert!(registry.devices().iter().any(|device| device.uri() == "counting://cpu"));
    for (uri, expected) in [
        (
            "counting://gpu",
            "NOT_FOUND: creating device `counting://gpu`: there is no device `gpu`: the only one is counting://cpu",
        ),
        (
            "counting://?log=9",
            "INVALID_ARGUMENT: creating device `counting://?log=9`: `log=9`: expected log=0 or log=1",
        ),
    ] {
        assert_eq!(registry.create_device(uri).unwrap_err().to_string(), expected);
    }
}

#[test]
fn timelines_and_buffers_cross_the_boundary() {
    let Some(registry) = registry() else { return };
    // The driver and the registry go away; the device and the library do not.
    let device = registry.create_device("counting://cpu?log=0").unwrap();
    drop(registry);
    let any = QueueAffinity::ANY;
    // One timeline is the plugin's, the other one is this program's.
    let theirs = device.create_semaphore(any, 0, SemaphoreFlags::DEFAULT).unwrap();
    let ours =
        vireo::hal::create_device("local-sync").unwrap().create_semaphore(any, 0, SemaphoreFlags::DEFAULT).unwrap();
    let point = |semaphore: &Arc<_>, value| Timepoint { semaphore: Arc::clone(semaphore), value };
    device.queue_barrier(any, &[point(&ours, 1)], &[point(&theirs, 1)], ExecuteFlags::empty()).unwrap();
    device.queue_barrier(any, &[point(&theirs, 1)], &[point(&ours, 2)], ExecuteFlags::empty()).unwrap();
    assert_eq!((theirs.query().unwrap(), ours.query().unwrap()), (0, 0));
    ours.signal(1).unwrap();
    assert_eq!((theirs.query().unwrap(), ours.query().unwrap()), (1, 2));
    // A failure arrives with its cause.
    device.queue_barrier(any, &[point(&ours, 3)], &[point(&theirs, 2)], ExecuteFlags::empty()).unwrap();
    ours.fail(Status::new(StatusCode::DataLoss, "the disk is on fire"));
    assert_eq!(theirs.wait(2, None).unwrap_err().to_string(), "DATA_LOSS: the disk is on fire");

    let buffer = buffer_from_bytes(&*device, &[1, 2, 3, 4]).unwrap();
    assert_eq!(buffer_to_vec(&*buffer, 4).unwrap(), [1, 2, 3, 4]);
    let params =
        BufferParams { usage: BufferUsage::DEFAULT, memory_type: MemoryType::DEVICE_LOCAL, ..Default::default() };
    let huge = device.allocator().allocate_buffer(params, u64::MAX / 2);
    assert_eq!(huge.unwrap_err().code(), StatusCode::ResourceExhausted);
    drop(device);
    assert_eq!(buffer_to_vec(&*buffer, 4).unwrap(), [1, 2, 3, 4]);
}

#[test]
fn loading_twice_changes_nothing() {
    let Some(registry) = registry() else { return };
    let before = registry.drivers();
    // SAFETY: it is the library of this package.
    unsafe { load_driver_library(&registry, &library().unwrap()) }.unwrap();
    assert_eq!(registry.drivers(), before);
}

#[test]
fn what_is_no_driver_library_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = folder.path().join("text.so");
    std::fs::write(&text, "not a library").unwrap();
    let truncated = folder.path().join("truncated.so");
    std::fs::write(&truncated, b"\x7fELF\x02\x01\x01").unwrap();
    for (path, code, expected) in [
        (Path::new("no/such/file.so"), StatusCode::NotFound, "there is no such file"),
        (folder.path(), StatusCode::InvalidArgument, "expected a file"),
        (&*text, StatusCode::InvalidArgument, "no library that can be loaded"),
        (&*truncated, StatusCode::InvalidArgument, "no library that can be loaded"),
    ] {
        let status = load(path).unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(expected), "{status}");
        assert!(status.message().contains(&path.display().to_string()), "{status}");
    }
}

/// The library with other bytes in place of `from`, in a file of its own.
fn patched(folder: &Path, name: &str, from: &[u8], to: &[u8]) -> Option<PathBuf> {
    let mut bytes = std::fs::read(library()?).unwrap();
    let places = bytes.windows(from.len()).enumerate().filter(|(_, window)| *window == from).map(|(place, _)| place);
    let places = places.collect::<Vec<_>>();
    assert!(!places.is_empty(), "the library does not contain {from:x?}");
    for place in places {
        bytes[place..place + to.len()].copy_from_slice(to);
    }
    let path = folder.join(name);
    std::fs::write(&path, bytes).unwrap();
    Some(path)
}

#[test]
fn libraries_of_other_versions_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    // How the descriptor begins: magic number, version, zero.
    let descriptor = [&DRIVER_PLUGIN_MAGIC.to_ne_bytes()[..], &DRIVER_ABI_VERSION.to_ne_bytes(), &[0; 4]].concat();
    let newer = [&DRIVER_PLUGIN_MAGIC.to_ne_bytes()[..], &(DRIVER_ABI_VERSION + 1).to_ne_bytes()].concat();
    let symbol = DRIVER_PLUGIN_SYMBOL.as_bytes();
    let other = [b"x", &symbol[1..]].concat();
    for (name, from, to, code, expected) in [
        ("newer.so", &*descriptor, &*newer, StatusCode::Incompatible, "expected version"),
        (
            "magic.so",
            &*descriptor,
            b"whatever",
            StatusCode::InvalidArgument,
            "the descriptor of the driver starts with",
        ),
        ("symbol.so", symbol, &*other, StatusCode::InvalidArgument, "it does not export `vireo_driver_plugin`"),
    ] {
        let Some(path) = patched(folder.path(), name, from, to) else { return };
        let status = load(&path).unwrap_err();
        assert_eq!(status.code(), code, "{status}");
        assert!(status.message().contains(expected), "{status}");
    }
}
