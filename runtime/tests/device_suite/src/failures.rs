//! Failures of operations: everyone who waits learns the cause, and the queue goes on.

use std::sync::Arc;

use vireo::hal::*;
use vireo::{Result, Status, StatusCode};
use vireo_core::limits::{Cancellation, Limits, MemoryBudget, scope};

use super::*;

pub fn an_operation_whose_wait_fails_does_nothing(backend: &Backend) {
    let device = backend.device();
    let memory = buffer_of(&*device, &[0; 64]);
    let (line, after) = (timeline(&*device), timeline(&*device));
    let (wait, signal) = ([point(&line, 1)], [point(&after, 1)]);
    device.queue_fill(ANY, &wait, &signal, &memory, 0, 64, &[1], FillFlags::empty()).unwrap();
    line.fail(Status::internal("the cause"));
    assert_eq!(after.wait(1, in_time()).unwrap_err().to_string(), "INTERNAL: the cause");
    assert_eq!(bytes_of(&*memory), [0; 64]);
}

#[derive(Debug)]
struct Panics;

impl HostCall for Panics {
    fn call(&self, _context: HostCallContext, _signal: &[Timepoint]) -> Result<()> {
        panic!("on purpose");
    }
}

/// The call waits, so that it is a thread of the device, or the one that signals, that calls it.
pub fn a_host_call_that_panics_fails_its_points(backend: &Backend) {
    let device = backend.device();
    let memory = buffer_of(&*device, &[0; 64]);
    let (gate, line) = (timeline(&*device), timeline(&*device));
    let call: Arc<dyn HostCall> = Arc::new(Panics);
    let (wait, signal) = ([point(&gate, 1)], [point(&line, 1)]);
    device.queue_host_call(ANY, &wait, &signal, &call, &[], HostCallFlags::empty()).unwrap();
    gate.signal(1).unwrap();
    let failure = line.wait(1, in_time()).unwrap_err();
    assert!(failure.message().contains("panicked"), "{failure}");
    outcome(&*device, |signal| device.queue_fill(ANY, &[], signal, &memory, 0, 64, &[1], FillFlags::empty())).unwrap();
    assert_eq!(bytes_of(&*memory), [1; 64]);
}

/// Hundreds of commands, of which the last one fills as many bytes as the binding has.
pub fn an_execution_that_is_refused_fails_after_its_waits(backend: &Backend) {
    let device = backend.device();
    let memory = buffer_of(&*device, &[0; 1 << 16]);
    let commands = record(&*device, CommandBufferMode::empty(), 1);
    for index in 0..300 {
        commands.fill_buffer(&range(&memory, index * 16, 16), &[7], FillFlags::empty()).unwrap();
    }
    commands.fill_buffer(&slot(0, 0, WHOLE_BUFFER), &[9; 4], FillFlags::empty()).unwrap();
    commands.end().unwrap();
    let before = timeline(&*device);
    let execute = |value: u64, length: u64| {
        let line = timeline(&*device);
        let (wait, signal) = ([point(&before, value)], [point(&line, 1)]);
        let table = [bound(&memory, 32768, length)];
        device.queue_execute(ANY, &wait, &signal, &commands, &table, ExecuteFlags::empty()).unwrap();
        line
    };
    let refused = execute(1, 63);
    assert_eq!(refused.query().unwrap(), 0);
    before.signal(1).unwrap();
    assert_eq!(code(refused.wait(1, in_time())), StatusCode::InvalidArgument);
    // The queue goes on, and so does the command buffer.
    execute(1, 64).wait(1, in_time()).unwrap();
    assert_eq!(bytes_of(&*memory)[32768..32768 + 65], [[9; 64].as_slice(), &[0]].concat());
}

/// A waiting submission is charged to its call, and refused if the call has ended by then.
pub fn operations_are_held_to_the_limits_of_their_call(backend: &Backend) {
    let device = backend.device();
    let memory = buffer_of(&*device, &[0; 64]);
    let (gate, line) = (timeline(&*device), timeline(&*device));
    let at = |value| [point(&line, value)];
    let budget = MemoryBudget::new(1 << 20);
    let cancellation = Cancellation::new();
    let limits = Limits { memory: Some(budget.clone()), cancellation: Some(cancellation.clone()), ..Limits::default() };
    let fill = |wait: &[Timepoint], signal: &[Timepoint], value: u8| {
        device.queue_fill(ANY, wait, signal, &memory, 0, 64, &[value], FillFlags::empty())
    };
    {
        let _started = scope::start(&limits).expect("there are limits");
        fill(&[], &at(1), 1).unwrap();
        line.wait(1, in_time()).unwrap();
        fill(&[point(&gate, 1)], &at(2), 2).unwrap();
        assert!(budget.used() > 0);
        cancellation.cancel();
        gate.signal(1).unwrap();
        // A thread of the device may end it.
        while line.query().is_ok() {
            std::thread::yield_now();
        }
        assert_eq!(code(line.query()), StatusCode::Cancelled);
        let late = outcome(&*device, |signal| fill(&[], signal, 3));
        assert_eq!(code(late), StatusCode::Cancelled);
    }
    assert_eq!(budget.used(), 0);
    assert_eq!(bytes_of(&*memory), [1; 64]);
}
