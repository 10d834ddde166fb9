//! The child of a fork uses the devices of its parent, or is told that it cannot.
//!
//! A program of its own, because the threads of other tests are lost in the child with what they hold.
#![cfg(all(target_os = "linux", feature = "software-agents"))]

#[path = "support/in_child.rs"]
mod in_child;

use std::sync::Arc;
use std::sync::mpsc;
use std::task::{Wake, Waker};
use std::time::{Duration, Instant};

use in_child::in_child;
use vireo::hal::{
    AmdgpuAgent, AmdgpuConfig, Buffer, BufferParams, BufferUsage, BuiltinOptions, CudaConfig, CudaLibrary, Device,
    FillFlags, MemoryType, QueueAffinity, SemaphoreFlags, Timepoint, buffer_read,
};
use vireo::{Result, StatusCode};

/// A wait that takes longer fails the test.
const LONG: Duration = Duration::from_secs(20);

fn device(uri: &str) -> Arc<dyn Device> {
    let amdgpu = AmdgpuConfig { agent: AmdgpuAgent::Software, ..AmdgpuConfig::default() };
    let cuda = CudaConfig { library: CudaLibrary::Software, ..CudaConfig::default() };
    let registry = BuiltinOptions { amdgpu, cuda, ..BuiltinOptions::default() }.registry();
    registry.create_device(uri).unwrap_or_else(|error| panic!("{uri}: {error}"))
}

/// Fills memory, and returns its first byte.
fn filled(device: &dyn Device, pattern: u8) -> Result<u8> {
    let params = BufferParams {
        memory_type: MemoryType::DEVICE_LOCAL | MemoryType::HOST_VISIBLE,
        usage: BufferUsage::DEFAULT | BufferUsage::MAPPING,
        ..BufferParams::default()
    };
    let buffer: Arc<dyn Buffer> = device.allocator().allocate_buffer(params, 256)?;
    let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::DEFAULT)?;
    let signal = [Timepoint { semaphore: semaphore.clone(), value: 1 }];
    device.queue_fill(QueueAffinity::ANY, &[], &signal, &buffer, 0, 256, &[pattern], FillFlags::empty())?;
    semaphore.wait(1, Some(Instant::now() + LONG))?;
    let mut bytes = [0];
    buffer_read(&*buffer, 0, &mut bytes)?;
    Ok(bytes[0])
}

struct Sender(mpsc::Sender<()>);

impl Wake for Sender {
    fn wake(self: Arc<Self>) {
        self.0.send(()).expect("is received");
    }
}

/// Whether a timer goes off.
fn a_timer_goes_off() -> bool {
    let (sender, receiver) = mpsc::channel();
    let waker = Waker::from(Arc::new(Sender(sender)));
    let _timer = vireo_core::timer::Timer::start(Instant::now() + Duration::from_millis(1), waker).expect("starts");
    receiver.recv_timeout(LONG).is_ok()
}

/// One test, so that no other thread holds anything.
#[test]
fn children_use_devices_or_are_told_that_they_cannot() {
    for uri in ["local-sync", "local-task", "amdgpu", "cuda"] {
        let device = device(uri);
        assert_eq!(filled(&*device, 3).ok(), Some(3), "{uri}");
        for round in 0..3 {
            let right = in_child(|| match filled(&*device, 5) {
                Ok(byte) => byte == 5 && uri.starts_with("local-"),
                Err(status) => {
                    let says = "belongs to the process that forked";
                    !uri.starts_with("local-")
                        && status.code() == StatusCode::FailedPrecondition
                        && status.message().contains(says)
                }
            });
            assert_eq!(right, 0, "{uri} in the child, round {round}");
            assert_eq!(filled(&*device, 7).ok(), Some(7), "{uri} in the parent, round {round}");
        }
    }
    assert!(a_timer_goes_off());
    assert_eq!(in_child(a_timer_goes_off), 0, "a timer of the child");
    assert!(a_timer_goes_off());
}
