//! Failures: of kernels, which lose the context, and of calls, which do not.

use vireo_core::status::StatusCode;
use vireo_hal::*;

use crate::support::*;

const STORE_NOWHERE: &str = "
    .reg .b64 %rd<2>;
    mov.b64 %rd1, 64;
    st.global.b32 [%rd1], 1;
    ret;";

/// Runs the tests of this name in a process of its own: a context that is lost stays so for the process.
fn alone(name: &str) -> bool {
    const VARIABLE: &str = "CUDA_DRIVER_TEST_ALONE";
    if std::env::var_os(VARIABLE).is_some() {
        return true;
    }
    let test = std::env::current_exe().expect("its own path");
    let status = std::process::Command::new(test).args([name, "--exact", "--nocapture"]).env(VARIABLE, "1").status();
    assert!(status.expect("it starts").success());
    false
}

#[test]
fn a_lost_context_fails_its_device_with_the_cause_and_no_other() {
    if !alone("failures::a_lost_context_fails_its_device_with_the_cause_and_no_other") {
        return;
    }
    let driver = driver();
    let [lost, other] = ["0", "1"].map(|path| driver.create_device_by_path("cuda", path, &[]).expect("a device"));
    let kernels = prepare(&*lost, &executable(&module(0, STORE_NOWHERE), "main", [1, 1, 1], 0, 0)).expect("loads");
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    let line = lost.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("a timeline");
    let at = |value| [Timepoint { semaphore: line.clone(), value }];
    let (function, flags) = (ExecutableFunction(0), DispatchFlags::empty());
    lost.queue_dispatch(QueueAffinity::ANY, &[], &at(1), &kernels, function, &config, &[], &[], flags).expect("begins");
    // A barrier that depends on it fails with it.
    lost.queue_barrier(QueueAffinity::ANY, &at(1), &at(2), ExecuteFlags::empty()).expect("is submitted");
    let cause = refusal(line.wait(2, None)).to_string();
    assert!(cause.contains("CUDA_ERROR_ILLEGAL_ADDRESS") && cause.contains("stopped"), "{cause}");
    // So does what comes later, with the same cause.
    let barrier = |signal: &[Timepoint]| {
        lost.queue_dispatch(QueueAffinity::ANY, &[], signal, &kernels, function, &config, &[], &[], flags)
    };
    let later = refusal(outcome(&*lost, barrier)).to_string();
    assert!(later.contains("CUDA_ERROR_ILLEGAL_ADDRESS"), "{later}");
    let target = buffer(&*other, &[0; 4]);
    outcome(&*other, |signal| {
        other.queue_fill(QueueAffinity::ANY, &[], signal, &target, 0, 16, &[1], FillFlags::empty())
    })
    .expect("the other device works");
    assert_eq!(words(&*target), [0x0101_0101; 4]);
}

#[test]
fn a_refused_launch_names_its_kernel_and_fails_alone() {
    let device = device(&[]);
    let kernels = prepare(&*device, KERNELS).expect("loads");
    let out = buffer(&*device, &[0; 64]);
    let bindings = [whole(&out), whole(&out), whole(&out)];
    let add = kernels.lookup_function("add_dispatch_0_elementwise_64_f32").expect("is there");
    let run = |count: [u32; 3]| {
        let config = DispatchConfig { workgroup_count: count, ..DispatchConfig::default() };
        outcome(&*device, |signal| {
            let flags = DispatchFlags::empty();
            device.queue_dispatch(QueueAffinity::ANY, &[], signal, &kernels, add, &config, &[], &bindings, flags)
        })
    };
    let refused = refusal(run([1, 70_000, 1]));
    assert_eq!(refused.code(), StatusCode::OutOfRange);
    assert!(refused.to_string().contains("add_dispatch_0") && refused.to_string().contains("65535"), "{refused}");
    run([2, 1, 1]).expect("the queue goes on");
}

#[test]
fn memory_that_is_not_there_says_who_holds_it() {
    let device = device(&[]);
    let params = BufferParams { memory_type: MemoryType::DEVICE_LOCAL, ..BufferParams::default() };
    let held = device.allocator().allocate_buffer(params, 100 << 20).expect("there is memory");
    let refused = refusal(device.allocator().allocate_buffer(params, 1 << 40));
    assert_eq!(refused.code(), StatusCode::ResourceExhausted);
    let text = refused.to_string();
    assert!(text.contains("hold 104857600 bytes of GPUs") && text.contains("bytes are free"), "{text}");
    drop(held);
    // Freed memory goes back where it is needed.
    for _ in 0..4 {
        device.allocator().allocate_buffer(params, 200 << 20).expect("there is memory");
        device.trim().expect("trims");
    }
}
