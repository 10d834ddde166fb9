//! Requirements of programs, found out without loading them.

#[cfg(feature = "params")]
use std::path::Path;
use std::sync::Arc;

use vireo::hal::{Device, Forward, ForwardDevice, create_device};
use vireo::inference::Requirements;
#[cfg(feature = "params")]
use vireo::io::{ContentsMode, ParameterIndex};
use vireo::vm::Module;
use vireo::{Result, Session};

use super::fixture;
use crate::machine::{EMBEDDED, MACHINE};
use crate::skip::{Need, skipped};

fn requirements(name: &str, device: &str) -> Requirements {
    let module = Module::from_file(fixture(name)).expect("is a module");
    Session::builder().device(device).requirements(&module).expect("the device exists")
}

#[test]
fn modules_devices_formats_and_functions_are_named() {
    for (name, format) in [("mlp", EMBEDDED), ("vmvx_mlp", "vmvx-bytecode-fb")] {
        let found = requirements(name, "local-sync");
        assert_eq!(found.incomplete, None, "{found}");
        assert_eq!(found.devices, [("local*".to_string(), true)], "{found}");
        let [only] = &found.formats[..] else { panic!("one format: {found}") };
        assert_eq!(only.name, format);
        let kernels: usize = only.executables.iter().map(|executable| executable.kernels.len()).sum();
        assert!(kernels > 0 && only.executables[0].bytes > 0, "{found}");
        assert_eq!(found.modules.iter().map(|module| module.name.as_str()).collect::<Vec<_>>(), ["hal"]);
        assert_eq!(found.functions[0].to_string(), "mlp(input0: tensor<8x64xf32>) -> (output0: tensor<8x16xf32>)");
        assert!(found.constant_bytes > 8192, "{found}");
        if only.is_available {
            assert_eq!(found.missing(), [] as [String; 0], "{found}");
            assert!(found.to_string().ends_with("everything is there\n"), "{found}");
        }
    }
}

#[cfg(all(target_arch = "x86_64", feature = "check-kernels"))]
#[test]
fn features_of_the_processor_are_those_of_the_kernels() {
    let found = requirements("mlp", "local-sync");
    let features = &found.formats[0].executables[0].features;
    assert!(features.contains_key("avx"), "{found}");
    assert!(requirements("vmvx_mlp", "local-sync").formats[0].executables[0].features.is_empty());
}

/// A device that no program was compiled for.
#[derive(Debug)]
struct Other(Arc<dyn Device>);

impl ForwardDevice for Other {
    fn inner(&self) -> &Arc<dyn Device> {
        &self.0
    }

    fn query_i64(&self, _category: &str, _key: &str) -> Result<i64> {
        Ok(0)
    }
}

#[test]
fn what_a_device_lacks_is_missing() -> Result<()> {
    let module = Module::from_file(fixture("mlp"))?;
    let device = create_device("local-sync")?;
    let other = Arc::new(Forward(Other(device)));
    let found = Session::builder().with_device(other.clone()).requirements(&module)?;
    let format = format!("a device that runs kernels in the format `{EMBEDDED}`");
    let local =
        "a device called `local*` (the driver `local-sync` has local-sync://, which was not given to the program)";
    let expected = [local.to_string(), format];
    assert_eq!(found.missing(), expected, "{found}");
    let failed = Session::builder().with_device(other).build(module)?.session();
    let error = failed.map(drop).expect_err("there is no device").to_string();
    assert!(error.contains(&format!("the program needs {local}; a device that runs kernels in the format")), "{error}");
    Ok(())
}

#[cfg(feature = "params")]
#[test]
fn parameters_are_those_that_the_program_loads() -> Result<()> {
    if MACHINE != "x86_64" {
        skipped(Need::Platform("x86_64"), "the kernels are for x86-64");
        return Ok(());
    }
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fixtures/parameters");
    let module = Module::from_file(format!("{folder}/model.vmfb"))?;
    let builder = || Session::builder().device("local-sync");
    let found = builder().requirements(&module)?;
    assert!(!found.parameters.is_empty() && found.parameters.iter().all(|parameter| parameter.available.is_none()));
    assert_eq!(found.missing().len(), found.parameters.len(), "{found}");
    let scope = found.parameters[0].scope.clone();
    let found = builder().parameters_in(scope, format!("{folder}/weights.irpa")).requirements(&module)?;
    assert_eq!(found.missing(), [] as [String; 0], "{found}");
    assert!(found.parameters.iter().all(|parameter| parameter.available.is_some_and(|bytes| bytes >= parameter.bytes)));
    let error = builder().build(module.clone()).expect_err("there are no parameters").to_string();
    assert!(error.contains("NOT_FOUND: the program needs parameter `"), "{error}");
    // Parameters that the host has put together: all but one.
    let whole = ParameterIndex::open(Path::new(&format!("{folder}/weights.irpa")), ContentsMode::Mmap)?;
    let mut part = ParameterIndex::default();
    whole.iter().filter(|parameter| parameter.key != "b").try_for_each(|parameter| part.add(parameter.clone()))?;
    let with = |index: &ParameterIndex| builder().parameter_index("model", index.clone());
    let error = with(&part).build(module.clone()).expect_err("one is missing").to_string();
    assert_eq!(error, "NOT_FOUND: the program needs parameter `b` of the scope `model` (16 bytes)");
    with(&part).parameters_in("model", format!("{folder}/weights.irpa")).build(module.clone())?;
    let session = with(&whole).build(module.clone())?.session()?;
    assert_eq!(session.call("gather", [])?.get::<Vec<f32>>()?, [-0.5, -0.25, -0.5, 2.0, 8.0, 1.5]);
    let found = builder().parameters_in("another", format!("{folder}/weights.irpa")).requirements(&module)?;
    assert_eq!(found.missing().len(), found.parameters.len(), "{found}");
    Ok(())
}

#[test]
fn modules_that_the_host_lacks_are_missing() -> Result<()> {
    let bytes = vireo::asm::assemble(
        "vm.module @lonely version 0\nvm.type i32\nvm.import @prices.of cconv \"0i_i\"\n\nvm.export @f\nvm.func @f(%i0: i32) -> (i32) {\n^bb0:\n  %i1 = vm.call @prices.of(%i0)\n  vm.return %i1\n}\n",
    )
    .expect("assembles");
    let found = Session::builder().device("local-sync").requirements(&Module::from_bytes(&bytes)?)?;
    assert!(found.incomplete.as_ref().is_some_and(|why| why.contains("prices")), "{found}");
    assert!(found.missing().iter().any(|line| line.contains("`prices`")), "{found}");
    Ok(())
}
