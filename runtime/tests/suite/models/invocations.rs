//! Uses of a program beyond one call: fences, threads, several contexts, failures, traces.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use vireo::hal::{Device, Fence, create_device, format_view};
use vireo::interp::Limits;
use vireo::modules::hal::HalModule;
use vireo::status::StatusCode;
use vireo::vm::{Context, Module, Value};
use vireo::{Result, Status};

use super::calls::{arguments, call_with_fences, download, load};
use crate::machine::model;

fn device() -> Arc<dyn Device> {
    create_device("local-sync").expect("the synchronous device exists everywhere")
}

fn call(device: &Arc<dyn Device>, context: &Context, name: &str, inputs: &[&str]) -> Result<Vec<Value>> {
    let function = context.function(name)?;
    function.call(&arguments(device, &function, inputs)?)
}

fn floats(value: &Value) -> Vec<f32> {
    download(value).as_chunks().0.iter().copied().map(f32::from_le_bytes).collect()
}

#[test]
fn work_waits_for_the_fence_of_the_caller() {
    let device = device();
    let context = load(&device, model("fences")).unwrap();
    let axpy = context.function("axpy").unwrap();
    let (start, middle, end) = (Arc::new(Fence::create()), Arc::new(Fence::create()), Arc::new(Fence::create()));
    let args = arguments(&device, &axpy, &["16xf32=3", "16xf32=5", "16xf32=1"]).unwrap();
    let first = call_with_fences(&axpy, args, Some(&start), &middle).unwrap();
    // The second call takes the result of the first, which is not there yet.
    let mut args = arguments(&device, &axpy, &["16xf32=2"]).unwrap();
    args.extend([first[0].clone(), first[0].clone()]);
    let second = call_with_fences(&axpy, args, Some(&middle), &end).unwrap();
    assert!(!middle.query().unwrap() && !end.query().unwrap(), "nothing may run before the first fence is reached");
    std::thread::spawn(move || start.signal()).join().unwrap().unwrap();
    end.wait(None).unwrap();
    assert!(middle.query().unwrap());
    assert_eq!(floats(&first[0]), [16.0; 16]);
    assert_eq!(floats(&second[0]), [48.0; 16]);
}

#[test]
fn a_failed_fence_is_passed_on_with_its_cause() {
    let device = device();
    let context = load(&device, model("fences")).unwrap();
    let axpy = context.function("axpy").unwrap();
    let (start, end) = (Arc::new(Fence::create()), Arc::new(Fence::create()));
    let args = arguments(&device, &axpy, &["16xf32=3", "16xf32=5", "16xf32=1"]).unwrap();
    call_with_fences(&axpy, args, Some(&start), &end).unwrap();
    start.fail(&Status::data_loss("the disk is on fire"));
    let failure = end.wait(None).unwrap_err();
    assert_eq!((failure.code(), failure.message()), (StatusCode::DataLoss, "the disk is on fire"));
}

#[test]
fn other_calls_run_while_one_waits() {
    let device = device();
    let context = load(&device, model("waits")).unwrap();
    let doubled = context.function("doubled").unwrap();
    let args = |fence: &Arc<Fence>| {
        let mut args = arguments(&device, &doubled, &["4xf32=1,2,3,4"]).unwrap();
        args.push(fence.to_ref().into());
        args
    };
    let fence = Arc::new(Fence::create());
    let waiting = {
        let (doubled, args) = (doubled.clone(), args(&fence));
        std::thread::spawn(move || doubled.call(&args))
    };
    for _ in 0..10 {
        assert_eq!(call(&device, &context, "answer", &[]).unwrap(), [Value::I32(42)]);
        assert!(!waiting.is_finished());
        std::thread::yield_now();
    }
    fence.signal().unwrap();
    assert_eq!(floats(&waiting.join().unwrap().unwrap()[0]), [2.0, 4.0, 6.0, 8.0]);

    let failed = Arc::new(Fence::create());
    failed.fail(&Status::data_loss("the cause"));
    let failure = doubled.call(&args(&failed)).unwrap_err();
    assert_eq!((failure.code(), failure.message()), (StatusCode::DataLoss, "the cause"));

    let limits = Limits { deadline: Some(Instant::now() + Duration::from_millis(20)), ..Limits::default() };
    let late = doubled.call_with(&args(&Arc::new(Fence::create())), limits).unwrap_err();
    assert_eq!(late.code(), StatusCode::DeadlineExceeded);
}

#[test]
fn threads_share_a_program() {
    let device = device();
    let context = load(&device, model("state")).unwrap();
    let threads: Vec<_> = (0..8)
        .map(|_| {
            let (device, context) = (device.clone(), context.clone());
            std::thread::spawn(move || {
                for _ in 0..25 {
                    call(&device, &context, "increment", &["1"]).unwrap();
                    let table = call(&device, &context, "lookup", &[]).unwrap();
                    assert_eq!(download(&table[0]).as_chunks::<4>().0[7], 21i32.to_le_bytes());
                }
            })
        })
        .collect();
    for thread in threads {
        thread.join().unwrap();
    }
    // The counter starts at 10.
    assert_eq!(call(&device, &context, "increment", &["0"]).unwrap(), [Value::I32(210)]);
}

#[test]
fn contexts_of_one_module_have_their_own_state() {
    let device = device();
    let module = Module::from_file(model("state")).unwrap();
    let context =
        || Context::new([Module::native(HalModule::new(vec![device.clone()])).unwrap(), module.clone()]).unwrap();
    let (first, second) = (context(), context());
    assert_eq!(call(&device, &first, "increment", &["5"]).unwrap(), [Value::I32(15)]);
    assert_eq!(call(&device, &second, "increment", &["1"]).unwrap(), [Value::I32(11)]);
    assert_eq!(call(&device, &first, "increment", &["0"]).unwrap(), [Value::I32(15)]);
}

#[test]
fn results_outlive_their_program() {
    let device = device();
    let results = {
        let context = load(&device, model("multi")).unwrap();
        call(&device, &context, "paste", &["2x3xf32=1,2,3,4,5,6", "4x5xf32=9"]).unwrap()
    };
    drop(device);
    assert_eq!(floats(&results[0])[7..10], [1.0, 2.0, 3.0]);
}

#[test]
fn failures_say_where_in_the_source() {
    let device = device();
    let context = load(&device, model("host")).unwrap();
    for (inputs, code, op, location) in [
        (["-1", "2"], StatusCode::FailedPrecondition, "fail", "src/host.mlir:5:3"),
        // The reference crashes here.
        (["1", "0"], StatusCode::InvalidArgument, "div.i32.s", "src/host.mlir:6:8"),
    ] {
        let failure = call(&device, &context, "checked_ratio", &inputs).unwrap_err();
        let frame = failure.backtrace().first().expect("a frame");
        assert_eq!((failure.code(), frame.function.as_str(), frame.op), (code, "checked_ratio", op));
        let found = frame.location.as_deref().unwrap_or_default();
        assert!(found.starts_with(location), "{found}: expected {location}");
    }

    // A failure of an import names the import and the op that called it.
    let context = load(&device, model("abs_stripped")).unwrap();
    let failure = call(&device, &context, "abs", &["2xf32=1"]).unwrap_err();
    let frames: Vec<_> =
        failure.backtrace().iter().map(|frame| (frame.function.as_str(), frame.location.is_some())).collect();
    assert_eq!(frames, [("buffer_view.assert", false), ("abs", false)]);
}

#[test]
fn programs_name_the_device_they_lack() {
    let hal = Module::native(HalModule::new(Vec::new())).unwrap();
    let model = Module::from_file(model("abs")).unwrap();
    let failure = Context::new([hal, model.clone()]).unwrap_err();
    assert_eq!(failure.code(), StatusCode::Incompatible);
    assert!(failure.message().starts_with("HAL device `__device_0` not found or unavailable"), "{failure}");

    let failure = Context::new([model]).unwrap_err();
    assert_eq!(failure.code(), StatusCode::NotFound);
    assert!(failure.message().contains("`hal`"), "{failure}");
}

#[test]
fn traced_tensors_reach_the_host() {
    let device = device();
    let seen = Arc::new(Mutex::new(Vec::new()));
    let sink = {
        let seen = seen.clone();
        Arc::new(move |key: &str, views: &[vireo::vm::Obj<vireo::hal::BufferView>]| {
            let texts = views.iter().map(|view| format_view(view, 8).expect("a printable tensor"));
            seen.lock().unwrap().push((key.to_string(), texts.collect::<Vec<_>>()));
            Ok(())
        })
    };
    let hal = Module::native(HalModule::new(vec![device.clone()]).with_trace_sink(sink)).unwrap();
    let context = Context::new([hal, Module::from_file(model("abs_traced")).unwrap()]).unwrap();
    call(&device, &context, "abs", &["f32=-2"]).unwrap();
    let seen = seen.lock().unwrap();
    assert_eq!(seen.len(), 2);
    assert!(seen[0].0.ends_with(" inputs") && seen[1].0.ends_with(" outputs"), "{seen:?}");
    assert_eq!((&seen[0].1[..], &seen[1].1[..]), (&["f32=-2".to_string()][..], &["f32=2".to_string()][..]));
}
