//! Counts what calls allocate. A program of its own, because it replaces the allocator of the process: all threads are
//! counted.

#[path = "support/counting.rs"]
mod counting;
#[expect(dead_code, reason = "only models are loaded")]
#[path = "support/machine.rs"]
mod machine;

use std::alloc::Layout;
use std::backtrace::Backtrace;
use std::cell::Cell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use counting::Counting;
use vireo::hal::local::task::{Caches, TaskOptions, Topology};
use vireo::hal::local::{ImportProvider, LocalDevice, NoImports, default_loaders};
use vireo::hal::{BufferView, Device, ElementType, HeapAllocator, create_device};
use vireo::interp::{Limits, Poll, background};
use vireo::modules::hal::HalModule;
use vireo::vm::{Context, Function, Module, Ref, Value};

/// How many allocations there were so far, on all threads.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// Set `VIREO_TRACE_ALLOCATIONS` to see where they are made.
static TRACE: AtomicU64 = AtomicU64::new(0);

thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

fn count(_: Layout) {
    COUNT.fetch_add(1, Ordering::SeqCst);
    if TRACE.load(Ordering::SeqCst) > 0 && !INSIDE.get() {
        INSIDE.set(true);
        eprintln!("allocation {}:\n{}", COUNT.load(Ordering::SeqCst), Backtrace::force_capture());
        INSIDE.set(false);
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting { allocated: count, freed: |_| () };

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

/// A device whose workers run all work that a host does not wait for, and share all workgroups, however little there is
/// to do.
fn eager_task() -> Arc<dyn Device> {
    let topologies = vec![Topology::unpinned(3, Caches::default())];
    let (handover_threshold, sharing_threshold) = (Duration::ZERO, Duration::ZERO);
    let options = TaskOptions { topologies, handover_threshold, sharing_threshold, ..TaskOptions::default() };
    let imports: Arc<dyn ImportProvider> = Arc::new(NoImports);
    let device = LocalDevice::new("local-task", Arc::new(HeapAllocator::new()), default_loaders(&imports));
    Arc::new(device.with_workers(&options).expect("there is a topology"))
}

/// How a host calls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum How {
    /// It waits for each call, and the results go where those of the last one were.
    Into,
    /// See [`call_polled`].
    Polled,
}

/// Calls as a host does that has other things to do meanwhile: it does not wait, so work that takes long is handed to
/// workers.
fn call_polled(function: &Function, arguments: &[Value]) -> Vec<Value> {
    let mut call = function.start(arguments, Limits::default()).expect("starts");
    loop {
        match call.poll().expect("the model runs") {
            Poll::Done(results) => return results,
            Poll::Yielded => {}
            Poll::Waiting(wait) => {
                while !wait.is_ready() {
                    wait.block(None);
                }
            }
        }
    }
}

fn count_calls(device: &Arc<dyn Device>, case: &Case, how: How) -> u64 {
    let trace = std::env::var_os("VIREO_TRACE_ALLOCATIONS").is_some();
    let module = Module::from_file(machine::model(case.model)).expect("a module");
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
    let mut call = || {
        if how == How::Polled {
            drop(call_polled(&function, &arguments));
            return;
        }
        function.call_into(&arguments, &mut results).expect("the model runs");
        // Dropped here, once by the next call, once before it.
        if results.len() > 1 {
            results.clear();
        }
    };
    for _ in 0..WARM_UP {
        call();
    }
    // Once the function is compiled, some calls make the next ones ready.
    background::wait();
    for _ in 0..WARM_UP {
        call();
    }
    let before = COUNT.load(Ordering::SeqCst);
    if trace {
        TRACE.store(1, Ordering::SeqCst);
        call();
        TRACE.store(0, Ordering::SeqCst);
    }
    for _ in 0..COUNTED {
        call();
    }
    COUNT.load(Ordering::SeqCst) - before
}

/// Typed calls of the first case on a device, whose argument and result are tensors.
fn count_typed_calls(device: &Arc<dyn Device>) -> u64 {
    let path = machine::model("abs");
    let hal = Module::native(HalModule::new(vec![device.clone()])).expect("a native module");
    let context = Context::new([hal, Module::from_file(path).expect("a module")]).expect("a context");
    let abs = context.function("abs").expect("the function").typed::<Ref, Ref>().expect("it takes a tensor");
    let tensor = BufferView::from_slice(&**device, &[], &[-2.0_f32]).expect("a tensor").into_ref();
    let call = || drop(abs.call(tensor.clone()).expect("the model runs"));
    (0..WARM_UP).for_each(|_| call());
    background::wait();
    (0..WARM_UP).for_each(|_| call());
    let before = COUNT.load(Ordering::SeqCst);
    (0..COUNTED).for_each(|_| call());
    COUNT.load(Ordering::SeqCst) - before
}

/// Calls of each case on a device, in which at most this many pieces of memory are allocated.
fn check(name: &str, device: &Arc<dyn Device>, how: How, allowed: u64) {
    // Workers are started when they are first needed, which may not be in the first calls.
    for case in CASES {
        count_calls(device, case, How::Polled);
    }
    let count = |case| {
        let count = count_calls(device, case, how);
        // After a minute, as in an emulator, the test harness says that the test is still running, and allocates for
        // that. It does so once.
        if count > allowed { count.min(count_calls(device, case, how)) } else { count }
    };
    let counts: Vec<_> = CASES.iter().map(|case| (case, count(case))).collect();
    for (case, count) in &counts {
        println!("{name}, {how:?}: {count} allocations in {COUNTED} calls of {}.{}", case.model, case.function);
    }
    let wrong = counts.iter().filter(|(_, count)| *count > allowed);
    let wrong: Vec<_> = wrong.map(|(case, count)| (case.model, case.function, count)).collect();
    assert!(wrong.is_empty(), "{name}, {how:?}: more than {allowed} allocations in {COUNTED} calls: {wrong:?}");
}

/// One test, because all threads are counted.
#[test]
fn calls_with_static_shapes_allocate_nothing() {
    /// The host gets the results of a polled call in a new list.
    const LISTS: u64 = COUNTED as u64;
    /// If two threads let go of the same object in the same moment, neither of them can keep it. Mostly that happens to
    /// none or a few of the calls, but when another process takes a processor away it may be a quarter.
    const NOW_AND_THEN: u64 = COUNTED as u64 / 2;
    let (sync, task, eager) = (device("local-sync"), device("local-task"), eager_task());
    check("local-sync", &sync, How::Into, 0);
    check("local-sync", &sync, How::Polled, LISTS);
    check("local-task", &task, How::Into, 0);
    check("local-task", &task, How::Polled, LISTS + NOW_AND_THEN);
    check("eager local-task", &eager, How::Into, 0);
    check("eager local-task", &eager, How::Polled, LISTS + NOW_AND_THEN);
    assert_eq!([&sync, &task, &eager].map(count_typed_calls), [0; 3]);
}
