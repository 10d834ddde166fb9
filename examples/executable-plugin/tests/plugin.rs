//! Loads the plugin as a host would, and runs a program whose kernels call it.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use vireo::hal::local::{ExecutablePlugin, ImportProvider};
use vireo::hal::{
    BufferView, BufferViewRef, BuiltinOptions, DriverRegistry, ElementType, buffer_to_vec, load_executable_plugin,
};
use vireo::modules::hal::HalModule;
use vireo::vm::{Context, Module, Value};
use vireo::{Result, Status, StatusCode};

/// The library, which cargo builds next to the tests.
fn library() -> Option<PathBuf> {
    let tests = std::env::current_exe().ok()?;
    let name = format!("{}vireo_executable_plugin{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let folders = tests.ancestors().skip(1).take(2);
    let found = folders.map(|folder| folder.join(&name)).find(|path| path.exists());
    if found.is_none() {
        println!("skipped: there is no {name} next to {}", tests.display());
    }
    found
}

/// A program with kernels for this machine.
const PROGRAM: &str = if cfg!(target_arch = "aarch64") { "plugin/program_arm_64.vmfb" } else { "plugin/program.vmfb" };

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(name)
}

/// `input * 3 + input` of `count` elements.
fn run(registry: &DriverRegistry, count: usize) -> Result<Vec<f32>> {
    let device = registry.create_device("local-sync")?;
    let hal = Module::native(HalModule::new(vec![device.clone()]))?;
    let context = Context::new([hal, Module::from_file(fixture(PROGRAM))?])?;
    let bytes: Vec<u8> = (0..count).flat_map(|index| (index as f32).to_le_bytes()).collect();
    let input = BufferView::from_bytes(&*device, &[count as u64], ElementType::FLOAT_32, &bytes)?;
    let results = context.function("program.scale_and_add")?.call(&[input.into_ref().into(), Value::F32(3.0)])?;
    let view = results[0].object::<BufferViewRef>().ok_or_else(|| Status::internal("expected a tensor"))?;
    let bytes = buffer_to_vec(&**view.buffer(), view.byte_length())?;
    Ok(bytes.as_chunks().0.iter().copied().map(f32::from_le_bytes).collect())
}

#[test]
fn kernels_call_the_plugin() {
    let Some(library) = library() else { return };
    let registry = BuiltinOptions::default().registry();
    let error = run(&registry, 1).unwrap_err();
    assert_eq!(error.code(), StatusCode::NotFound, "{error}");
    assert!(error.to_string().contains("imports `vireo_example_scale`, which this host does not provide"), "{error}");
    // SAFETY: it is the library of this package.
    let plugin = unsafe { load_executable_plugin(&registry, &library, &[("key", "value")]) }.unwrap();
    assert_eq!(plugin.name(), "vireo_example");
    for count in [0, 1, 16, 100] {
        let expected: Vec<f32> = (0..count).map(|index| index as f32 * 4.0).collect();
        assert_eq!(run(&registry, count).unwrap(), expected);
    }
}

#[test]
fn functions_are_found_one_by_one() {
    let Some(library) = library() else { return };
    // SAFETY: it is the library of this package.
    let plugin = Arc::new(unsafe { ExecutablePlugin::load(&library, &[]) }.unwrap());
    assert!(plugin.resolve("vireo_example_scale").is_some_and(|import| !import.context.is_null()));
    assert!(plugin.resolve("vireo_example").is_none());
    // A second instance of the same library has a state of its own.
    // SAFETY: it is the library of this package.
    let other = unsafe { ExecutablePlugin::load(&library, &[]) }.unwrap();
    let context = |plugin: &ExecutablePlugin| plugin.resolve("vireo_example_scale").map(|import| import.context);
    assert_ne!(context(&plugin), context(&other));
    // SAFETY: it is the library of this package, as a part of this program.
    let linked =
        unsafe { ExecutablePlugin::from_query(vireo_executable_plugin::iree_hal_executable_plugin_query, &[]) };
    assert_eq!(linked.unwrap().name(), "vireo_example");
}

#[test]
fn what_is_no_plugin_is_refused() {
    // SAFETY: none of them is a plugin, and the only one that is a library has code of the compiler, which is not run.
    let refused = |path: &Path| unsafe { ExecutablePlugin::load(path, &[]) }.unwrap_err();
    let missing = refused(Path::new("missing.so"));
    assert!(missing.code() == StatusCode::NotFound && missing.to_string().contains("`missing.so`"), "{missing}");
    let text = refused(&fixture("plugin/program.mlir"));
    assert_eq!(text.code(), StatusCode::InvalidArgument, "{text}");
    let folder = refused(&fixture("plugin"));
    assert!(folder.to_string().contains("expected a file"), "{folder}");
    let machine = if cfg!(target_arch = "aarch64") { "_arm_64" } else { "" };
    let library = |name: &str| fixture(&format!("elf/{name}{machine}.so"));
    let embedded = refused(Path::new(&format!("embedded:{}", library("kernels").display())));
    assert!(embedded.to_string().contains("it does not export `iree_hal_executable_plugin_query`"), "{embedded}");
    if cfg!(target_os = "linux") {
        let system = refused(&library("system"));
        assert!(system.to_string().contains("it does not export"), "{system}");
    }
}
