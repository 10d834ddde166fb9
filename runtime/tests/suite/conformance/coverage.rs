//! No method of an object of a device is forgotten.
//!
//! Each object of `spec/hal/` has either the tests that are about it, and then each of its methods is called there or listed here with a
//! reason; or it has a reason itself. So a method that is added to the spec fails this test until someone has thought of it.

use std::collections::BTreeMap;
use std::path::PathBuf;

const COMMANDS: &str = include_str!("commands.rs");
const DEVICES: &str = include_str!("devices.rs");
const DISPATCHES: &str = include_str!("dispatches.rs");
const FILES: &str = include_str!("files.rs");
const HELPERS: &str = include_str!("mod.rs");
const HOST_CALLS: &str = include_str!("host_calls.rs");
const MEMORY: &str = include_str!("memory.rs");
const QUEUES: &str = include_str!("queues.rs");
const SEMAPHORES: &str = include_str!("semaphores.rs");

/// Where the methods of an object are called.
const TESTED: [(&str, &[&str]); 8] = [
    ("allocator", &[MEMORY]),
    ("buffer", &[MEMORY]),
    ("command_buffer", &[COMMANDS, DISPATCHES, HELPERS]),
    ("device", &[COMMANDS, DEVICES, DISPATCHES, FILES, HOST_CALLS, MEMORY, QUEUES, SEMAPHORES, HELPERS]),
    ("executable", &[DISPATCHES]),
    ("executable_cache", &[DISPATCHES]),
    ("file", &[FILES]),
    ("semaphore", &[SEMAPHORES]),
];

/// Objects that need no tests here, and methods of the others.
const NOT_TESTED: [(&str, &str); 19] = [
    ("buffer_view", "the runtime's own, without methods of drivers"),
    ("channel", "no device of this build has channels; tests of the vtables cover the calls"),
    ("channel_provider", "hosts implement it; the suite has one"),
    ("command_buffer.collective", "needs a channel, which no device of this build has"),
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
    let mut wrong = Vec::new();
    let reason = |name: &str| NOT_TESTED.iter().any(|(listed, _)| *listed == name);
    for (object, methods) in &objects {
        let tests = TESTED.iter().find(|(listed, _)| listed == object);
        match tests {
            None if !reason(object) => wrong.push(format!("{object}: has neither tests nor a reason")),
            None => {}
            Some(_) if reason(object) => wrong.push(format!("{object}: has both tests and a reason")),
            Some((_, tests)) => {
                for method in methods {
                    let name = format!("{object}.{method}");
                    let called = tests.iter().any(|text| text.contains(&format!(".{method}(")));
                    match (called, reason(&name)) {
                        (true, true) => wrong.push(format!("{name}: is called and has a reason not to be")),
                        (false, false) => wrong.push(format!("{name}: is not called and has no reason")),
                        _ => {}
                    }
                }
            }
        }
    }
    for (name, _) in NOT_TESTED {
        let (object, method) = name.split_once('.').map_or((name, None), |(object, method)| (object, Some(method)));
        let known = objects
            .get(object)
            .is_some_and(|methods| method.is_none_or(|method| methods.iter().any(|known| known == method)));
        if !known {
            wrong.push(format!("{name}: is not in the spec"));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
