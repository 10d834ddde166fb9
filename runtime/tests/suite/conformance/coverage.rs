//! No method of an object of a device is forgotten.
//!
//! The whole suite runs on a device whose objects are called through their vtables, which see every call: each method
//! of an object that devices make is called, refused as optional, or listed here with a reason. So a method that is
//! added to the spec fails this test until someone has thought of it.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

use vireo::hal::plugin::loopback::methods_called;
use vireo::hal::{ForwardedMethod, OptionalMethod};

use vireo_device_suite::TESTS;

use super::{BEHIND_VTABLES, IN_A_WRAPPER};

/// The objects that the suite is about.
const TESTED: [&str; 9] = [
    "allocator",
    "buffer",
    "channel",
    "command_buffer",
    "device",
    "executable",
    "executable_cache",
    "file",
    "semaphore",
];

/// Objects that need no tests here, and methods of the others.
const NOT_TESTED: [(&str, &str); 17] = [
    ("buffer_view", "the runtime's own, without methods of drivers"),
    ("channel_provider", "hosts implement it; the suite has one"),
    ("driver", "makes devices; the registry's tests cover it"),
    ("event", "has no methods; the tests of command buffers use it"),
    ("executable_loader", "belongs to local devices; their tests cover it"),
    ("fence", "the runtime's own, without methods of drivers"),
    ("host_call", "hosts implement it; the suite has several"),
    ("local_executable", "kernels of static libraries, which loaders make; their tests cover it"),
    ("parameter_provider", "hosts implement it, and no device uses it"),
    ("physical_memory", "has no methods"),
    ("pool", "made by hosts over what `device.queue_pool_backend` gives; pools have tests of their own"),
    ("profile_sink", "hosts implement it, and no device of this build profiles"),
    ("slab_provider", "what pools are made from; pools have tests of their own"),
    ("vm_call", "modules in other libraries are no objects of devices"),
    ("vm_module", "modules in other libraries are no objects of devices"),
    ("vm_module_state", "modules in other libraries are no objects of devices"),
    ("vm_ref", "modules in other libraries are no objects of devices"),
];

/// The methods of each object, read from the spec.
fn spec() -> BTreeMap<String, Vec<String>> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../spec/hal");
    let mut objects = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).expect("the folder of the specs") {
        let text = std::fs::read_to_string(entry.expect("an entry").path()).expect("a spec");
        let mut object = None;
        for line in text.lines() {
            if let Some(name) = line.strip_prefix("- object: ") {
                objects.insert(name.to_string(), Vec::new());
                object = Some(name.to_string());
            } else if let Some(name) = line.strip_prefix("- method: ") {
                let object = object.as_ref().expect("methods stand below their object");
                objects.get_mut(object).expect("inserted above").push(name.to_string());
            }
        }
    }
    objects
}

#[test]
fn every_method_is_called_or_has_a_reason() {
    let objects = spec();
    assert!(objects.len() >= 20, "the specs were not found");
    // Calls that only ask whether a method is there are no test of one that is.
    let tests = TESTS.iter().filter(|(module, _)| *module != "optional");
    let mut called = methods_called(|| tests.for_each(|(_, test)| test(&BEHIND_VTABLES)));
    let device = BEHIND_VTABLES.device();
    let names = OptionalMethod::ALL.iter().map(|method| method.name());
    called.extend(names.filter(|name| !device.supports(name)));
    let methods = objects.iter().filter(|(object, _)| TESTED.contains(&object.as_str()));
    let methods: BTreeSet<String> =
        methods.flat_map(|(object, methods)| methods.iter().map(move |method| format!("{object}.{method}"))).collect();
    let reasons: BTreeSet<&str> = NOT_TESTED.iter().map(|(name, _)| *name).collect();
    let mut wrong = Vec::new();
    for name in &methods {
        match (called.contains(name.as_str()), reasons.contains(name.as_str())) {
            (true, true) => wrong.push(format!("{name}: is called and has a reason not to be")),
            (false, false) => wrong.push(format!("{name}: is not called and has no reason")),
            _ => {}
        }
    }
    for object in objects.keys() {
        match (TESTED.contains(&object.as_str()), reasons.contains(object.as_str())) {
            (true, true) => wrong.push(format!("{object}: has both tests and a reason")),
            (false, false) => wrong.push(format!("{object}: has neither tests nor a reason")),
            _ => {}
        }
    }
    let known = |name: &str| methods.contains(name) || objects.contains_key(name);
    wrong.extend(reasons.iter().filter(|name| !known(name)).map(|name| format!("{name}: is not in the spec")));
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// The device in the wrapper is called through its vtable, so methods that the wrapper forwards are seen there.
#[test]
fn every_method_of_a_wrapped_device_reaches_the_device() {
    let called = methods_called(|| TESTS.iter().for_each(|(_, test)| test(&IN_A_WRAPPER)));
    let names = ForwardedMethod::ALL.iter().map(|method| method.name()).filter(|name| name.starts_with("device."));
    let missing: Vec<_> = names.filter(|name| !called.contains(name)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
