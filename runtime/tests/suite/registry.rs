//! The driver registry: names, URIs, drivers that a host registers, and what goes wrong.

use std::sync::Arc;

use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

/// A driver of two devices, each of which is a device of the built-in drivers.
#[derive(Debug)]
struct TwinDriver;

impl Driver for TwinDriver {
    fn query_available_devices(&self) -> Result<Vec<DeviceInfo>> {
        let info =
            |id, path: &str| DeviceInfo { device_id: DeviceId(id), path: path.into(), name: format!("{path} twin") };
        Ok(vec![info(7, "working"), info(9, "idle")])
    }

    fn dump_device_info(&self, _device_id: DeviceId) -> Result<String> {
        Ok(String::new())
    }

    fn create_device_by_id(&self, device_id: DeviceId, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        if let [param, ..] = params {
            return Err(Status::invalid_argument(format!("{}={} is no parameter", param.key, param.value)));
        }
        match device_id.0 {
            0 | 7 => create_device("local-sync"),
            9 => create_device("null"),
            other => Err(Status::not_found(format!("no twin {other}"))),
        }
    }

    fn create_device_by_path(&self, name: &str, path: &str, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        let devices = self.query_available_devices()?;
        match devices.iter().find(|info| info.path == path) {
            Some(info) => self.create_device_by_id(info.device_id, params),
            None if path.is_empty() => self.create_device_by_id(DeviceId(0), params),
            None => Err(Status::not_found(format!("{name} has no {path}"))),
        }
    }
}

fn registry() -> DriverRegistry {
    let registry = BuiltinOptions::default().registry();
    registry.register_driver(DriverInfo::new("twin", "two devices"), || Ok(Arc::new(TwinDriver))).unwrap();
    registry
}

fn error<T>(result: Result<T>) -> String {
    result.err().expect("a failure").to_string()
}

#[test]
fn devices_are_found_by_uri() {
    let registry = registry();
    for (uri, id) in [
        ("local-sync", "local-sync"),
        ("local-sync:", "local-sync"),
        ("local-sync://", "local-sync"),
        ("local-sync://?", "local-sync"),
        ("null", "null"),
        ("twin", "local-sync"),
        ("twin://working", "local-sync"),
        ("twin://idle", "null"),
        ("twin:idle", "null"),
        ("twin:/idle", "null"),
        ("twin://idle?&", "null"),
    ] {
        assert_eq!(registry.create_device(uri).unwrap().id(), id, "{uri}");
    }
    assert_eq!(create_device("local-sync").unwrap().id(), "local-sync");
    assert!(list_devices().iter().any(|device| device.uri() == "local-sync://"));
    let uris = registry.devices().iter().map(AvailableDevice::uri).collect::<Vec<_>>();
    assert_eq!(uris, ["local-sync://", "local-task://", "null://", "twin://working", "twin://idle"]);
}

#[test]
fn failures_say_what_there_is() {
    let registry = registry();
    for (uri, expected) in [
        (
            "hip",
            "NOT_FOUND: there is no driver `hip`: the drivers are local-sync, local-task, null, amdgpu, cuda, twin",
        ),
        ("local-sync?x=1", "INVALID_ARGUMENT: device `local-sync?x=1`: `?` in a driver's name"),
        ("local-sync://gpu", "NOT_FOUND: creating device `local-sync://gpu`: driver `local-sync` has no device `gpu`"),
        ("null://?fast=1", "INVALID_ARGUMENT: creating device `null://?fast=1`: driver `null` has no parameter `fast`"),
        ("twin://idle?a&b=2", "INVALID_ARGUMENT: creating device `twin://idle?a&b=2`: a= is no parameter"),
        ("twin://idle?a=b=c", "INVALID_ARGUMENT: creating device `twin://idle?a=b=c`: a=b=c is no parameter"),
        ("twin://lost", "NOT_FOUND: creating device `twin://lost`: twin has no lost"),
    ] {
        let message = error(registry.create_device(uri));
        assert!(message.starts_with(expected), "{uri}: {message}");
    }
    assert!(error(DriverRegistry::empty().create_device("null")).ends_with("the drivers are none"));
}

#[test]
fn hostile_uris_are_refused() {
    let registry = registry();
    let many = (0..200).map(|index| format!("k{index}=v")).collect::<Vec<_>>().join("&");
    for uri in [
        "",
        ":",
        "://",
        "//",
        "?",
        " null",
        "null ://",
        "nu\u{0}ll",
        "null://\u{1b}[31m",
        "null://?=1",
        "null://?a=1&a=2",
        "ünull",
        &"n".repeat(65),
        &"null://".repeat(10_000),
        &format!("twin://idle?{many}"),
    ] {
        let status = registry.create_device(uri).unwrap_err();
        assert_eq!(status.code(), StatusCode::InvalidArgument, "{uri}: {status}");
        assert!(status.message().len() < 300 && !status.message().contains(char::is_control), "{status}");
    }
}

#[test]
fn uris_keep_what_they_say() {
    let uri = DeviceUri::parse("twin:a:b//c?k=v=w&flag&&x=?").unwrap();
    assert_eq!((uri.driver.as_str(), uri.path.as_str()), ("twin", "a:b//c"));
    let pairs = uri.params.iter().map(|pair| (pair.key.as_str(), pair.value.as_str())).collect::<Vec<_>>();
    assert_eq!(pairs, [("k", "v=w"), ("flag", ""), ("x", "?")]);
    assert_eq!(uri.to_string(), "twin://a:b//c?k=v=w&flag&x=?");
    assert_eq!(DeviceUri::parse(&uri.to_string()).unwrap().to_string(), uri.to_string());
}

#[test]
fn drivers_create_devices_by_id_and_ordinal() {
    let twin = registry().create_driver("twin").unwrap();
    assert_eq!(twin.create_default_device().unwrap().id(), "local-sync");
    assert_eq!(twin.create_device_by_id(DeviceId(9), &[]).unwrap().id(), "null");
    assert_eq!(twin.create_device_by_ordinal(1, &[]).unwrap().id(), "null");
    assert_eq!(error(twin.create_device_by_ordinal(2, &[])), "OUT_OF_RANGE: device 2: the driver has 2 devices");
    assert_eq!(error(twin.create_device_by_id(DeviceId(1), &[])), "NOT_FOUND: no twin 1");
    let local = registry().create_driver("local-sync").unwrap();
    assert_eq!(
        error(local.create_device_by_id(DeviceId(1), &[])),
        "NOT_FOUND: driver `local-sync` has no device with id 1"
    );
    assert!(local.dump_device_info(DeviceId(0)).unwrap().contains("processor"));
}

#[test]
fn the_newest_factory_wins_until_it_leaves() {
    #[derive(Debug)]
    struct Broken;
    impl DriverFactory for Broken {
        fn drivers(&self) -> Vec<DriverInfo> {
            vec![DriverInfo::new("null", "out of order")]
        }

        fn create(&self, _name: &str) -> Result<Arc<dyn Driver>> {
            Err(Status::new(StatusCode::Unavailable, "come back tomorrow"))
        }
    }
    let registry = registry();
    let broken: Arc<dyn DriverFactory> = Arc::new(Broken);
    registry.register(broken.clone()).unwrap();
    assert_eq!(registry.register(broken.clone()).unwrap_err().code(), StatusCode::AlreadyExists);
    assert_eq!(error(registry.create_device("null")), "UNAVAILABLE: creating driver `null`: come back tomorrow");
    let drivers = registry.drivers();
    assert_eq!(drivers.len(), 6);
    assert!(drivers.contains(&DriverInfo::new("null", "out of order")));
    assert!(registry.devices().iter().all(|device| device.driver != "null"));
    registry.unregister(&broken).unwrap();
    assert_eq!(registry.unregister(&broken).unwrap_err().code(), StatusCode::NotFound);
    assert_eq!(registry.create_device("null").unwrap().id(), "null");
    let unnamed = registry.register_driver(DriverInfo::new("a b", ""), || Ok(Arc::new(TwinDriver)));
    assert_eq!(unnamed.unwrap_err().code(), StatusCode::InvalidArgument);
}

#[test]
fn what_is_parsed_is_written_so_that_it_is_parsed_again() {
    let registry = registry();
    let mut state = 0x9E37_79B9_7F4A_7C15u64;
    let mut parsed = 0;
    for _ in 0..20_000 {
        let mut text = String::from("null");
        for _ in 0..8 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(
                ["/", ":", "?", "&", "=", "a", "://", "b=", "\u{7f}", "é", "%41", " "][(state >> 60) as usize % 12],
            );
        }
        // Creating the device may fail in many ways, but not by panicking.
        let _ = registry.create_device(&text);
        if let Ok(uri) = DeviceUri::parse(&text) {
            parsed += 1;
            let written = uri.to_string();
            let again = DeviceUri::parse(&written).unwrap_or_else(|status| panic!("{text}: {written}: {status}"));
            assert_eq!(format!("{uri:?}"), format!("{again:?}"), "{text}: {written}");
        }
    }
    assert!(parsed > 1000, "only {parsed} were URIs");
}
