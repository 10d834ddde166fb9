//! Objects that no device of this build has, called directly, through their vtables and through wrappers: what arrives
//! and what comes back is the same.

mod execution;
mod memory;
mod programs;

use std::any::Any;
use std::fmt::Debug;
use std::ptr::NonNull;
use std::sync::{Arc, Mutex};

use vireo::hal::executable_library::{DispatchState, WorkgroupState};
use vireo::hal::plugin::loopback::{OtherLibrary, through};
use vireo::hal::plugin::{Interface, ThisLibrary};
use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

use crate::forwarding::Wrap;

/// Implements every trait below, and notes what it is called with.
#[derive(Debug, Default)]
struct Mock(Mutex<Vec<String>>);

impl Mock {
    fn note(&self, what: impl Debug) {
        self.0.lock().unwrap().push(format!("{what:?}"));
    }
}

/// The calls that a new mock noted while `calls` ran, and the result of `calls`.
fn noted<R: Debug>(calls: impl FnOnce(Arc<Mock>) -> R) -> (Vec<String>, String) {
    let mock = Arc::new(Mock::default());
    let returned = format!("{:?}", calls(mock.clone()));
    assert_eq!(Arc::strong_count(&mock), 1, "a reference was kept");
    let noted = std::mem::take(&mut *mock.0.lock().unwrap());
    (noted, returned)
}

/// Makes the same calls directly, through the vtable of `T` and through a wrapper.
fn alike<T, R>(upcast: fn(Arc<Mock>) -> Arc<T>, count: usize, calls: fn(&Arc<T>) -> R)
where
    T: ?Sized + Interface<ThisLibrary> + Interface<OtherLibrary> + Wrap,
    R: Debug,
{
    let direct = noted(|mock| calls(&upcast(mock)));
    let imported = noted(|mock| calls(&through(&upcast(mock)).unwrap()));
    let wrapped = noted(|mock| calls(&Wrap::wrap(upcast(mock))));
    assert_eq!(direct, imported);
    assert_eq!(direct, wrapped);
    assert_eq!(direct.0.len(), count, "{:?}", direct.0);
}

fn semaphore(value: u64) -> Arc<dyn Semaphore> {
    Arc::new(HostSemaphore::new(value))
}

fn points(values: &[u64]) -> Vec<Timepoint> {
    values.iter().map(|value| Timepoint { semaphore: semaphore(100 + value), value: *value }).collect()
}

/// Points with the payloads of their timelines.
fn seen(points: &[Timepoint]) -> Vec<(u64, u64)> {
    points.iter().map(|point| (point.semaphore.query().unwrap(), point.value)).collect()
}

fn buffer(bytes: &[u8]) -> Arc<dyn Buffer> {
    let buffer = HeapAllocator::new().allocate_buffer(BufferParams::default(), bytes.len() as u64).unwrap();
    buffer_write(&*buffer, 0, bytes).unwrap();
    buffer
}

fn bytes(buffer: &Arc<dyn Buffer>) -> Vec<u8> {
    buffer_to_vec(&**buffer, buffer.byte_length()).unwrap()
}

impl Event for Mock {}

#[test]
fn objects_without_methods() {
    let event: Arc<dyn Event> = Arc::new(Mock::default());
    let imported = through(&event).unwrap();
    assert_eq!(Arc::strong_count(&event), 2);
    drop(imported);
    assert_eq!(Arc::strong_count(&event), 1);
}
