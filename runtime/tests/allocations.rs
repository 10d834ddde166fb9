//! Counts what calls allocate. A program of its own, because it replaces the allocator of the process: all threads are counted.

use std::alloc::{GlobalAlloc, Layout, System};
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo::hal::{BufferView, Device, ElementType, create_device};
use vireo::modules::hal::HalModule;
use vireo::vm::{Context, Module, Value};

/// How many allocations there were so far, whoever made them.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Set `VIREO_TRACE_ALLOCATIONS` to see where they are made.
static TRACE: AtomicU64 = AtomicU64::new(0);

struct Counting;

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn count() {
    COUNT.fetch_add(1, Ordering::SeqCst);
    if TRACE.load(Ordering::SeqCst) > 0 && !INSIDE.get() {
        INSIDE.set(true);
        eprintln!("allocation {}:\n{}", COUNT.load(Ordering::SeqCst), Backtrace::force_capture());
        INSIDE.set(false);
    }
}

// SAFETY: everything is left to the system's allocator.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count();
        // SAFETY: the caller's promise.
        unsafe { System.realloc(block, layout, size) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise.
        unsafe { System.dealloc(block, layout) };
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// A function with static shapes, and its arguments.
struct Case {
    model: &'static str,
    function: &'static str,
    arguments: &'static [Argument],
}

enum Argument {
    /// A tensor of this shape with elements of four bytes.
    Tensor(ElementType, &'static [u64]),
    I32(i32),
    F32(f32),
}

const F32: ElementType = ElementType::FLOAT_32;
const I32: ElementType = ElementType::SINT_32;

const CASES: &[Case] = &[
    Case { model: "abs", function: "abs", arguments: &[Argument::Tensor(F32, &[])] },
    Case { model: "mlp", function: "mlp", arguments: &[Argument::Tensor(F32, &[8, 64])] },
    Case { model: "softmax", function: "softmax", arguments: &[Argument::Tensor(F32, &[4, 37])] },
    Case {
        model: "conv",
        function: "conv",
        arguments: &[
            Argument::Tensor(F32, &[1, 3, 12, 12]),
            Argument::Tensor(F32, &[6, 3, 3, 3]),
            Argument::Tensor(F32, &[4, 6, 1, 1]),
        ],
    },
    Case {
        model: "attention",
        function: "attention",
        arguments: &[
            Argument::Tensor(F32, &[2, 16, 32]),
            Argument::Tensor(F32, &[2, 24, 32]),
            Argument::Tensor(F32, &[2, 24, 32]),
        ],
    },
    Case { model: "sort", function: "sort", arguments: &[Argument::Tensor(I32, &[3, 17])] },
    Case { model: "state", function: "accumulate", arguments: &[Argument::Tensor(F32, &[4])] },
    Case { model: "state", function: "increment", arguments: &[Argument::I32(1)] },
    Case { model: "wide", function: "wide", arguments: &[Argument::I32(3), Argument::Tensor(F32, &[320])] },
    Case {
        model: "multi",
        function: "scale",
        arguments: &[Argument::Tensor(F32, &[6]), Argument::F32(2.0), Argument::I32(3)],
    },
    Case {
        model: "multi",
        function: "paste",
        arguments: &[Argument::Tensor(F32, &[2, 3]), Argument::Tensor(F32, &[4, 5])],
    },
];

/// Calls before counting starts, and calls that are counted.
const WARM_UP: usize = 20;
const COUNTED: usize = 100;

fn device(name: &str) -> Arc<dyn Device> {
    create_device(name).expect("a device that is always there")
}

fn count_calls(device: &Arc<dyn Device>, case: &Case) -> u64 {
    let trace = std::env::var_os("VIREO_TRACE_ALLOCATIONS").is_some();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../fixtures/models");
    let module = Module::from_file(folder.join(case.model).with_extension("vmfb")).expect("a module");
    let hal = Module::native(HalModule::new(vec![device.clone()])).expect("a native module");
    let context = Context::new([hal, module]).expect("a context");
    let function = context.function(case.function).expect("the function");
    let tensor = |element_type: ElementType, shape: &[u64]| {
        let count: u64 = shape.iter().product();
        let bytes: Vec<u8> = (0..count).flat_map(|index| (index as f32).to_le_bytes()).collect();
        BufferView::from_bytes(&**device, shape, element_type, &bytes).expect("a tensor").into_ref().into()
    };
    let value = |argument: &Argument| match argument {
        Argument::Tensor(element_type, shape) => tensor(*element_type, shape),
        Argument::I32(value) => Value::I32(*value),
        Argument::F32(value) => Value::F32(*value),
    };
    let arguments: Vec<Value> = case.arguments.iter().map(value).collect();
    let mut results = Vec::new();
    for _ in 0..WARM_UP {
        function.call_into(&arguments, &mut results).expect("the model runs");
    }
    let before = COUNT.load(Ordering::SeqCst);
    if trace {
        TRACE.store(1, Ordering::SeqCst);
        function.call_into(&arguments, &mut results).expect("the model runs");
        TRACE.store(0, Ordering::SeqCst);
    }
    for _ in 0..COUNTED {
        function.call_into(&arguments, &mut results).expect("the model runs");
        // Dropped here, once by the next call, once before it.
        if results.len() > 1 {
            results.clear();
        }
    }
    results.clear();
    COUNT.load(Ordering::SeqCst) - before
}

/// Calls of each case on a device, and those that allocate more than they may, or more than `now_and_then` in all.
fn check(name: &str, now_and_then: u64, allowed: impl Fn(&Case) -> u64) {
    let device = device(name);
    let counts: Vec<_> = CASES.iter().map(|case| (case, count_calls(&device, case))).collect();
    let wrong = counts.iter().filter(|(case, count)| *count > now_and_then + allowed(case) * COUNTED as u64);
    let wrong: Vec<_> = wrong.map(|(case, count)| (case.model, case.function, count)).collect();
    assert!(wrong.is_empty(), "{name}: allocations in {COUNTED} calls: {wrong:?}");
}

/// One test, because all threads are counted.
#[test]
fn calls_with_static_shapes_allocate_nothing() {
    check("local-sync", 0, |_| 0);
    // What is handed to other threads is owned by what they run, and waiting for them allocates: a few small pieces for each operation,
    // however large it is. What is too small for that runs at once and allocates nothing.
    let may_be_shared = |case: &Case| ["mlp", "conv", "attention", "wide"].contains(&case.model);
    // A processor that is busy with other things can make a small call look like a large one, which is then handed over.
    check("local-task", COUNTED as u64 / 4, |case| if may_be_shared(case) { 60 } else { 0 });
}
