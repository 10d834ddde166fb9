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

const UNTIL_TOLD: &str = "
    .reg .pred %p1;
    .reg .b32 %r<2>;
    .reg .b64 %rd<2>;
    ld.param.b64 %rd1, [p0];
again:
    ld.volatile.global.b32 %r1, [%rd1];
    setp.eq.u32 %p1, %r1, 0;
    @%p1 bra again;
    ret;";

/// A wait ends in its time although the kernel does not; the kernel, and what it uses, stay until it ends.
#[test]
fn a_deadline_ends_the_wait_and_not_the_kernel() {
    let device = device(&[]);
    let kernels = prepare(&*device, &executable(&module(1, UNTIL_TOLD), "main", [1, 1, 1], 1, 0)).expect("loads");
    let params = BufferParams {
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        ..BufferParams::default()
    };
    let word = device.allocator().allocate_buffer(params, 4).expect("there is memory");
    let line = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::empty()).expect("a timeline");
    let at = |value| [Timepoint { semaphore: line.clone(), value }];
    let config = DispatchConfig { workgroup_count: [1, 1, 1], ..DispatchConfig::default() };
    let (function, bindings, flags) = (ExecutableFunction(0), [whole(&word)], DispatchFlags::empty());
    let signal = at(1);
    device
        .queue_dispatch(QueueAffinity::ANY, &[], &signal, &kernels, function, &config, &[], &bindings, flags)
        .expect("begins");
    let soon = std::time::Instant::now() + std::time::Duration::from_millis(20);
    assert_eq!(refusal(line.wait(1, Some(soon))).code(), StatusCode::DeadlineExceeded);
    drop(kernels);
    buffer_write(&*word, 0, &1u32.to_le_bytes()).expect("the host reaches it");
    line.wait(1, None).expect("the kernel ends");
}

/// The functions that the driver needs are of version 11.4: an older library is refused with what it lacks.
#[test]
fn older_libraries_are_refused() {
    assert_eq!(vireo_cuda_driver::NAMES.least_version, 11040);
    if std::env::var_os("CUDA_DRIVER_TEST_ALONE").is_some() {
        let options = vireo_softcuda::Options { version: 11_030, ..vireo_softcuda::Options::default() };
        vireo_softcuda::configure(options).expect("it is the first");
        let find = vireo_softcuda::entries::cuGetProcAddress_v2;
        // SAFETY: it finds the functions of one library, which is part of the program.
        let refused = refusal(unsafe { vireo_cuda_driver::library::start_found(find, None) });
        assert_eq!(refused.code(), StatusCode::Unavailable);
        let text = refused.to_string();
        assert!(text.contains("11.3") && text.contains("11.4") || text.contains("cuDeviceGetUuid_v2"), "{text}");
        return;
    }
    alone("failures::older_libraries_are_refused");
}
