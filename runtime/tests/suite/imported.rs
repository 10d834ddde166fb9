//! The interface between libraries: the tests of `hal` with a device that is called through its vtable, and what only
//! the boundary does.

use std::any::Any;
use std::error::Error;
use std::ffi::OsStr;
use std::fmt;
use std::process::Command;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vireo::hal::plugin::loopback::{OtherLibrary, exported, through};
use vireo::hal::plugin::{DriverPlugin, Interface, RawObject, export_object, import_object};
use vireo::hal::vtables::AllocatorVtable;
use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

/// The same tests on this device.
#[path = "hal.rs"]
mod hal;
#[path = "queries.rs"]
mod queries;

/// `local-sync` as if it were in another library.
fn device() -> Arc<dyn Device> {
    through(&super::device()).unwrap()
}

fn local(device: &Arc<dyn Device>) -> bool {
    let any: &dyn Any = &**device;
    any.is::<local::LocalDevice>()
}

#[test]
fn an_object_that_comes_home_is_itself() {
    let device = super::device();
    let before = Arc::strong_count(&device);
    let raw = export_object(&device);
    assert_eq!(Arc::strong_count(&device), before + 1);
    // SAFETY: the reference was made just now.
    let again = unsafe { import_object::<dyn Device>(raw) }.unwrap();
    assert!(Arc::ptr_eq(&device, &again));
    drop(again);
    assert_eq!(Arc::strong_count(&device), before);

    let imported = through(&device).unwrap();
    assert!(!local(&imported) && imported.id() == "local-sync");
    assert_eq!(Arc::strong_count(&device), before + 1);
    // An object of the device comes back to it as the same object, whatever way it went.
    let semaphore = imported.create_semaphore(QueueAffinity::ANY, 3, SemaphoreFlags::DEFAULT).unwrap();
    let through_again = through(&semaphore).unwrap();
    assert_eq!(through_again.query().unwrap(), 3);
    drop(imported);
    assert_eq!(Arc::strong_count(&device), before);
    assert_eq!(semaphore.query().unwrap(), 3);
}

/// A semaphore that counts itself.
#[derive(Debug)]
struct Counted(HostSemaphore, Arc<AtomicUsize>);

impl Counted {
    fn shared(count: &Arc<AtomicUsize>) -> Arc<dyn Semaphore> {
        count.fetch_add(1, Ordering::Relaxed);
        Arc::new(Counted(HostSemaphore::new(0), count.clone()))
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.1.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Semaphore for Counted {
    fn query(&self) -> Result<u64> {
        self.0.query()
    }

    fn signal(&self, value: u64) -> Result<()> {
        assert!(value != 13, "an unlucky number");
        self.0.signal(value)
    }

    fn fail(&self, status: Status) {
        self.0.fail(status);
    }

    fn wait(&self, value: u64, deadline: Option<Instant>) -> Result<()> {
        self.0.wait(value, deadline)
    }

    fn notify(&self, value: u64, callback: Box<dyn FnOnce(Result<()>) + Send>) {
        self.0.notify(value, callback);
    }
}

#[test]
fn references_are_given_back() {
    let device = device();
    let count = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let (first, second) = (Counted::shared(&count), Counted::shared(&count));
        let wait = [Timepoint { semaphore: first.clone(), value: 1 }];
        let signal = [Timepoint { semaphore: second.clone(), value: 1 }];
        device.queue_barrier(QueueAffinity::ANY, &wait, &signal, ExecuteFlags::empty()).unwrap();
        // The queue of the device waits for a timeline of this library, which keeps the operation.
        assert_eq!(second.query().unwrap(), 0);
        first.signal(1).unwrap();
        second.wait(1, Some(Instant::now() + Duration::from_secs(10))).unwrap();
        assert_eq!(Arc::strong_count(&second), 2, "one here, one in `signal`");
    }
    assert_eq!(count.load(Ordering::Relaxed), 0);
}

#[test]
fn callbacks_are_called_once_or_dropped() {
    let imported = through(&Counted::shared(&Arc::default())).unwrap();
    let calls = Arc::new(Mutex::new(Vec::new()));
    for value in [1, 2] {
        let calls = calls.clone();
        imported.notify(value, Box::new(move |result| calls.lock().unwrap().push((value, result.is_ok()))));
    }
    imported.signal(1).unwrap();
    assert_eq!(*calls.lock().unwrap(), [(1, true)]);
    assert_eq!(Arc::strong_count(&calls), 2);
    // The timeline goes away, and tells the second that it will not be reached.
    drop(imported);
    assert_eq!(*calls.lock().unwrap(), [(1, true), (2, false)]);
    assert_eq!(Arc::strong_count(&calls), 1);
}

#[derive(Debug)]
struct Reason(&'static str);

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Error for Reason {}

#[test]
fn errors_keep_their_code_message_and_causes() {
    let semaphore = through(&Counted::shared(&Arc::default())).unwrap();
    let cause = Status::data_loss("the disk \u{1F4A5}").with_source(Reason("a scratch"));
    semaphore.fail(Status::new(StatusCode::Aborted, "").with_source(cause));
    let failure = semaphore.query().unwrap_err();
    assert_eq!(failure.to_string(), "ABORTED");
    let cause = failure.source().unwrap();
    assert_eq!(cause.to_string(), "DATA_LOSS: the disk \u{1F4A5}");
    assert_eq!(cause.downcast_ref::<Status>().unwrap().code(), StatusCode::DataLoss);
    let reason = cause.source().unwrap();
    assert_eq!(reason.to_string(), "a scratch");
    assert!(reason.source().is_none());
}

#[test]
fn long_chains_of_causes_are_cut() {
    let semaphore = through(&Counted::shared(&Arc::default())).unwrap();
    let chain = (0..1000).fold(Status::internal("the first"), |cause, _| Status::internal("more").with_source(cause));
    semaphore.fail(chain);
    let failure = semaphore.query().unwrap_err();
    let mut length = 0;
    let mut next = failure.source();
    while let Some(cause) = next {
        (length, next) = (length + 1, cause.source());
    }
    assert!((1..100).contains(&length), "{length}");
}

#[test]
fn a_panic_becomes_a_failure() {
    let semaphore = through(&Counted::shared(&Arc::default())).unwrap();
    let failure = semaphore.signal(13).unwrap_err();
    assert_eq!(failure.to_string(), "INTERNAL: `semaphore.signal` panicked: an unlucky number");
    semaphore.signal(14).unwrap();
}

/// Tells the process that it was started to end.
const MAY_ABORT: &str = "VIREO_TEST_MAY_ABORT";

#[test]
fn a_panic_that_cannot_become_a_failure_ends_the_process() {
    if std::env::var_os(MAY_ABORT).is_some() {
        let semaphore = through(&Counted::shared(&Arc::default())).unwrap();
        semaphore.notify(1, Box::new(|_| panic!("nobody can be told")));
        let _ = semaphore.signal(1);
        return;
    }
    // The words before the name of a program that run it, where it is for another machine.
    let runner = std::env::var("VIREO_RUNNER").unwrap_or_default();
    let program = std::env::current_exe().unwrap();
    let mut words = runner.split_whitespace().map(OsStr::new).chain([program.as_os_str()]);
    let mut child = Command::new(words.next().unwrap());
    child.args(words);
    child.args(["--exact", "imported::a_panic_that_cannot_become_a_failure_ends_the_process", "--nocapture"]);
    let output = child.env(MAY_ABORT, "").output().unwrap();
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && text.contains("vireo: a callback panicked"), "{text}");
}

#[test]
fn deadlines_pass() {
    let semaphore = through(&Counted::shared(&Arc::default())).unwrap();
    let start = Instant::now();
    let failure = semaphore.wait(1, Some(start + Duration::from_millis(20))).unwrap_err();
    assert_eq!(failure.code(), StatusCode::DeadlineExceeded);
    assert!(start.elapsed() >= Duration::from_millis(20));
    assert_eq!(semaphore.wait(1, Some(start)).unwrap_err().code(), StatusCode::DeadlineExceeded);
}

#[test]
fn objects_are_told_apart() {
    // SAFETY: null is allowed.
    let failure = unsafe { import_object::<dyn Device>(RawObject::NULL) }.unwrap_err();
    assert_eq!(failure.to_string(), "INVALID_ARGUMENT: expected `device`, not null");
    let semaphore = Counted::shared(&Arc::default());
    let raw = export_object(&semaphore);
    // SAFETY: the reference was made just now.
    let failure = unsafe { import_object::<dyn Device>(raw) }.unwrap_err();
    assert_eq!(failure.to_string(), "INVALID_ARGUMENT: expected `device` (object 2), not object 6");
    assert_eq!(Arc::strong_count(&semaphore), 1);
}

/// An allocator of the other library whose vtable was changed by `change`, as this library imports it.
fn changed_allocator(change: impl FnOnce(&mut AllocatorVtable)) -> Result<Arc<dyn Allocator>> {
    let allocator: Arc<dyn Allocator> = Arc::new(HeapAllocator::new());
    let RawObject { data, .. } = exported(&allocator);
    let mut vtable = Box::<AllocatorVtable>::new_uninit();
    // SAFETY: both are vtables, which are made of numbers and pointers.
    let mut vtable = unsafe {
        vtable.as_mut_ptr().copy_from(<dyn Allocator as Interface<OtherLibrary>>::VTABLE, 1);
        vtable.assume_init()
    };
    change(&mut vtable);
    // Vtables live as long as their objects; this one is never freed.
    let raw = RawObject { vtable: std::ptr::from_mut(Box::leak(vtable)).cast_const().cast(), data };
    // SAFETY: the reference was made just now, and methods that were changed are ones that may be missing.
    unsafe { import_object::<dyn Allocator>(raw) }
}

#[test]
fn methods_may_be_missing() {
    let buffer = HeapAllocator::new().allocate_buffer(BufferParams::default(), 4).unwrap();
    let export = |allocator: &dyn Allocator| {
        let none = ExternalBufferFlags::empty();
        allocator.export_buffer(&buffer, ExternalBufferType::HostAllocation, none).map(|exported| exported.size)
    };
    let whole = changed_allocator(|_| ()).unwrap();
    assert_eq!(export(&*whole).unwrap(), 4);
    let without = changed_allocator(|vtable| vtable.export_buffer = None).unwrap();
    assert_eq!(export(&*without).unwrap_err().code(), StatusCode::Unimplemented);
    // A library that knows nothing of the methods after the last one that all have.
    let required = <dyn Allocator as Interface<OtherLibrary>>::REQUIRED;
    assert!(required < size_of::<AllocatorVtable>());
    let shorter = changed_allocator(|vtable| vtable.header.size = required as u64).unwrap();
    assert_eq!(export(&*shorter).unwrap_err().code(), StatusCode::Unimplemented);
    assert!(!shorter.supports_virtual_memory());
    assert_eq!(shorter.allocate_buffer(BufferParams::default(), 7).unwrap().byte_length(), 7);
    // A library that knows more.
    let longer = changed_allocator(|vtable| vtable.header.size += 80).unwrap();
    assert_eq!(export(&*longer).unwrap(), 4);
}

#[test]
fn other_vtables_are_refused() {
    let required = <dyn Allocator as Interface<OtherLibrary>>::REQUIRED as u64;
    let short = changed_allocator(|vtable| vtable.header.size = required - 8).unwrap_err();
    assert_eq!(short.code(), StatusCode::Incompatible);
    let other = changed_allocator(|vtable| vtable.header.abi_version = 7).unwrap_err();
    assert_eq!(other.to_string(), "INCOMPATIBLE: `allocator` of version 7 of the driver interface: expected version 1");
}

/// A driver in this library that has one device.
#[derive(Debug)]
struct OneDevice;

impl Driver for OneDevice {
    fn query_available_devices(&self) -> Result<Vec<DeviceInfo>> {
        Ok(vec![DeviceInfo { device_id: DeviceId(7), path: String::new(), name: "the one".to_string() }])
    }

    fn dump_device_info(&self, device_id: DeviceId) -> Result<String> {
        Ok(format!("device {}", device_id.0))
    }

    fn create_device_by_id(&self, device_id: DeviceId, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        match (device_id, params) {
            (DeviceId(0 | 7), []) => Ok(super::device()),
            (DeviceId(0 | 7), [first, ..]) => Err(Status::invalid_argument(format!("no option `{}`", first.key))),
            (DeviceId(id), _) => Err(Status::not_found(format!("there is no device {id}"))),
        }
    }

    fn create_device_by_path(&self, name: &str, path: &str, params: &[StringPair]) -> Result<Arc<dyn Device>> {
        match path {
            "" => self.create_device_by_id(DeviceId(0), params),
            path => Err(Status::not_found(format!("{name} has no device {path}"))),
        }
    }
}

vireo::export_driver!("one", || Ok(Arc::new(OneDevice) as Arc<dyn Driver>));

#[test]
fn drivers_describe_themselves() {
    // SAFETY: the descriptor is one of this version, and static.
    let plugin = unsafe { DriverPlugin::check(vireo_driver_plugin(DRIVER_ABI_VERSION)) }.unwrap();
    assert_eq!(plugin.name().unwrap(), "one");
    let driver = through(&plugin.create_driver().unwrap()).unwrap();
    let devices = driver.query_available_devices().unwrap();
    assert_eq!((devices.len(), devices[0].device_id, devices[0].name.as_str()), (1, DeviceId(7), "the one"));
    assert_eq!(driver.dump_device_info(DeviceId(3)).unwrap(), "device 3");
    assert_eq!(driver.create_device_by_id(DeviceId(7), &[]).unwrap().id(), "local-sync");
    let option = StringPair { key: "speed".to_string(), value: "fast".to_string() };
    let failure = driver.create_device_by_path("one", "", &[option]).unwrap_err();
    assert_eq!(failure.to_string(), "INVALID_ARGUMENT: no option `speed`");
}

#[test]
fn other_versions_of_the_interface_are_refused() {
    // SAFETY: null is allowed.
    let failure = unsafe { DriverPlugin::check(std::ptr::null()) }.unwrap_err();
    assert_eq!(failure.code(), StatusCode::InvalidArgument);
    // SAFETY: the descriptor is valid.
    let plugin = unsafe { &*vireo_driver_plugin(DRIVER_ABI_VERSION) };
    let mut other = DriverPlugin::new("other", plugin.create_driver);
    other.abi_version += 1;
    // SAFETY: a descriptor that claims to be of another version; of those only what all have is read.
    let failure = unsafe { DriverPlugin::check(&raw const other) }.unwrap_err();
    assert_eq!(
        failure.to_string(),
        "INCOMPATIBLE: the driver has version 2 of the driver interface: expected version 1"
    );
    other.magic = 5;
    // SAFETY: a descriptor that claims to be of another version; of those only what all have is read.
    let failure = unsafe { DriverPlugin::check(&raw const other) }.unwrap_err();
    assert_eq!(failure.code(), StatusCode::InvalidArgument);
}
