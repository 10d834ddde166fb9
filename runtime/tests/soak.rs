//! A small model is called many times: nothing is left behind by a call.
//!
//! A program of its own, because what other tests allocate would be counted too. `VIREO_SOAK_CALLS=1000000` calls it so
//! often on each device.
#![cfg(all(target_arch = "x86_64", unix))]

#[path = "support/counting.rs"]
mod counting;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use counting::Counting;
use vireo::hal::{BufferView, BufferViewRef, Device, ElementType, buffer_read, create_device};
use vireo::modules::hal::HalModule;
use vireo::vm::{Context, Function, Module, Value};

/// Calls on each device, unless the environment says otherwise.
const CALLS: u64 = 3000;
/// Calls after which everything that grows once has grown.
const WARM_UP: u64 = 1000;
/// Bytes of the heap that may be in use after the last call and were not after the warm-up: what threads happen to do
/// when it returns. A call that leaves 32 bytes behind exceeds it in any case.
const SLACK: i64 = 16 << 10;
/// Pages of the process that may come meanwhile. The heap of the system is never quite the same.
const SLACK_PAGES: i64 = 1024;

/// Bytes of the heap that are in use.
static IN_USE: AtomicI64 = AtomicI64::new(0);

#[global_allocator]
static ALLOCATOR: Counting = Counting {
    allocated: |layout| _ = IN_USE.fetch_add(layout.size() as i64, Ordering::Relaxed),
    freed: |layout| _ = IN_USE.fetch_sub(layout.size() as i64, Ordering::Relaxed),
};

/// Pages of the process that are in memory, where the system tells.
fn resident_pages() -> Option<i64> {
    std::fs::read_to_string("/proc/self/statm").ok()?.split_whitespace().nth(1)?.parse().ok()
}

fn view(device: &dyn Device, values: &[f32], shape: &[u64]) -> Value {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    BufferView::from_bytes(device, shape, ElementType::FLOAT_32, &bytes).expect("a small tensor").into_ref().into()
}

fn first(value: &Value) -> f32 {
    let view = value.object::<BufferViewRef>().expect("a tensor");
    let mut bytes = [0; 4];
    buffer_read(&**view.buffer(), 0, &mut bytes).expect("a readable buffer");
    f32::from_le_bytes(bytes)
}

fn soak(
    driver: &str,
    file: &str,
    function: &str,
    arguments: impl Fn(&dyn Device, u64) -> Vec<Value>,
    expected: fn(u64) -> f32,
) {
    let calls: u64 = match std::env::var("VIREO_SOAK_CALLS") {
        Ok(text) => text.parse().unwrap_or_else(|_| panic!("VIREO_SOAK_CALLS={text}: expected a number")),
        Err(_) => CALLS,
    };
    let device: Arc<dyn Device> = create_device(driver).expect("a device");
    let hal = Module::native(HalModule::new(vec![device.clone()])).expect("a module");
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models").join(file);
    let context = Context::new([hal, Module::from_file(path).expect("loads")]).expect("loads");
    let function: Function = context.function(function).expect("is exported");
    let call = |index: u64| {
        let results = function.call(&arguments(&*device, index)).expect("succeeds");
        assert_eq!(first(&results[0]), expected(index), "call {index} on {driver}");
    };
    (0..WARM_UP).for_each(call);
    let (heap, pages) = (IN_USE.load(Ordering::Relaxed), resident_pages());
    (0..calls).for_each(call);
    let bytes = IN_USE.load(Ordering::Relaxed) - heap;
    assert!(bytes <= SLACK, "{calls} calls of {file} on {driver} left {bytes} bytes in use");
    if let (Some(before), Some(after)) = (pages, resident_pages()) {
        let pages = after - before;
        assert!(pages <= SLACK_PAGES, "{calls} calls of {file} on {driver} added {pages} pages to the process");
        println!("{calls} calls of {file} on {driver}: {bytes} more bytes in use, {pages} more pages");
    }
}

/// One test, so that nothing else runs meanwhile.
#[test]
fn calls_leave_nothing_behind() {
    for driver in ["local-sync", "local-task"] {
        let number = |device: &dyn Device, index: u64| vec![view(device, &[-(index as f32)], &[])];
        soak(driver, "abs.vmfb", "abs", number, |index| index as f32);
        let vectors = |device: &dyn Device, index: u64| {
            vec![view(device, &[index as f32; 6], &[6]), Value::F32(2.0), Value::I32(3)]
        };
        soak(driver, "multi.vmfb", "scale", vectors, |index| index as f32 * 6.0);
    }
}
