//! The end of a process whose queue stops while no function is told of it. Each test runs itself again in a process of
//! its own.

use std::ffi::c_void;
use std::process::{Command, Output};

use vireo_hsa::hsa::*;
use vireo_hsa::packets::Order;
use vireo_hsa::queue::QueueType;
use vireo_hsa::signal::Signal;

use crate::support::*;

/// The variable that says that this is the process which may end.
const CHILD: &str = "SOFTHSA_ERRORS_UNTOLD";

/// Runs a test of this file in another process.
fn run_child(test: &str) -> Output {
    let program = std::env::current_exe().expect("the program has a path");
    let name = format!("errors_untold::{test}");
    Command::new(program).args([&name, "--exact", "--nocapture"]).env(CHILD, "1").output().expect("the child runs")
}

fn is_child() -> bool {
    std::env::var_os(CHILD).is_some()
}

/// Lets a kernel read memory that is in no allocation, and waits for its signal.
fn fault_and_wait(told: Option<SystemEventCallback>) {
    let session = Session::interpreted("");
    let (_, kernel) = session.load(session.gpu());
    let kernarg = session.kernarg_memory(64);
    let arguments = arguments(&kernarg, 0, 0x10, 1);
    let mut pointer = std::ptr::null_mut();
    let (gpu, none, size) = (session.gpu(), std::ptr::null_mut(), u32::MAX);
    let status = hsa!(hsa_queue_create(gpu, 16, QueueType::MULTI, None, none, size, size, &raw mut pointer));
    assert_eq!(status, OK);
    let completion = session.signal(1);
    if told.is_some() {
        let status = optional!(hsa_amd_register_system_event_handler(told, (completion.0 as usize as *mut u8).cast()));
        assert_eq!(status, OK);
    }
    let queue = Queue { pointer, error: Box::default() };
    queue.submit(&[dispatch(Order::SYSTEM, kernel, arguments, 1, completion)]);
    wait(completion);
}

#[test]
fn a_process_that_nobody_tells_ends() {
    if is_child() {
        return fault_and_wait(None);
    }
    let output = run_child("a_process_that_nobody_tells_ends");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success(), "{text}");
    #[cfg(unix)]
    {
        use std::os::unix::process::ExitStatusExt;
        const ABORT: i32 = 6;
        assert_eq!(output.status.signal(), Some(ABORT), "{text}");
    }
    assert!(text.contains("no function that is told of errors, so the process ends"), "{text}");
}

#[test]
fn a_process_with_a_handler_goes_on_and_completion_signals_stay() {
    unsafe extern "C" fn handler(_event: *const MemoryFaultEvent, data: *mut c_void) -> HsaStatus {
        let completion = Signal(data.addr() as u64);
        assert_eq!(hsa!(hsa_signal_load_scacquire(completion)), 1, "the packet failed");
        // The program is told, and lets its own thread go on.
        hsa!(hsa_signal_store_relaxed(completion, 0));
        HsaStatus::SUCCESS
    }
    if is_child() {
        return fault_and_wait(Some(handler));
    }
    let output = run_child("a_process_with_a_handler_goes_on_and_completion_signals_stay");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
fn a_handler_that_fails_is_as_none() {
    unsafe extern "C" fn handler(_event: *const MemoryFaultEvent, _data: *mut c_void) -> HsaStatus {
        HsaStatus::ERROR
    }
    if is_child() {
        return fault_and_wait(Some(handler));
    }
    let output = run_child("a_handler_that_fails_is_as_none");
    assert!(!output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}
