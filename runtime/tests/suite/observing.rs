//! Observed devices: the lines of a trace, what objects are called in them, and that devices and hosts each get the
//! objects they know. The conformance suite runs on traced devices besides.

use std::sync::{Arc, Mutex};

use vireo::hal::observe::{Called, Observation, Observer, Reply, Trace};
use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

const ANY: QueueAffinity = QueueAffinity::ANY;

/// Lines of a trace.
#[derive(Clone, Debug, Default)]
struct Lines(Arc<Mutex<Vec<String>>>);

impl Lines {
    fn observation(&self) -> Arc<Observation> {
        let lines = self.0.clone();
        Observation::new(Trace::new(move |line| lines.lock().unwrap().push(line.to_string())))
    }

    /// The lines since the last time.
    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.0.lock().unwrap())
    }
}

fn traced() -> (Arc<dyn Device>, Lines) {
    let lines = Lines::default();
    (lines.observation().device(&super::device()), lines)
}

fn point(semaphore: &Arc<dyn Semaphore>, value: u64) -> Timepoint {
    Timepoint { semaphore: semaphore.clone(), value }
}

fn timeline(device: &Arc<dyn Device>) -> Arc<dyn Semaphore> {
    device.create_semaphore(ANY, 0, SemaphoreFlags::DEFAULT).unwrap()
}

fn range(buffer: &Arc<dyn Buffer>, offset: u64, length: u64) -> BufferRef {
    BufferRef { buffer: Some(buffer.clone()), slot: 0, offset, length }
}

fn code<T>(result: Result<T>) -> StatusCode {
    result.err().expect("a failure").code()
}

#[test]
fn a_trace_has_a_line_for_each_call() {
    let (device, lines) = traced();
    let line = timeline(&device);
    let (wait, signal) = ([point(&line, 1)], [point(&line, 1)]);
    let params = BufferParams { usage: BufferUsage::TRANSFER, ..BufferParams::default() };
    let buffer = device.queue_alloca(ANY, &[], &signal, None, params, 64, AllocaFlags::empty()).unwrap();
    let part = subspan(&buffer, 16, 32).unwrap();
    let none = CommandBufferMode::empty();
    let commands = device.create_command_buffer(none, CommandCategory::TRANSFER, ANY, 1).unwrap();
    commands.begin().unwrap();
    commands.fill_buffer(&range(&part, 8, 4), &[7, 0], FillFlags::empty()).unwrap();
    commands
        .update_buffer(&[0; 24], &BufferRef { buffer: None, slot: 0, offset: 4, length: 24 }, UpdateFlags::empty())
        .unwrap();
    commands.end().unwrap();
    let table = [BufferBinding { buffer: Some(part), offset: 0, length: WHOLE_BUFFER }];
    let (second, third) = ([point(&line, 2)], [point(&line, 3)]);
    assert_eq!(code(commands.begin()), StatusCode::FailedPrecondition);
    device.queue_execute(ANY, &wait, &second, &commands, &table, ExecuteFlags::empty()).unwrap();
    device.queue_barrier(ANY, &second, &third, ExecuteFlags::empty()).unwrap();
    assert_eq!(code(line.signal(3)), StatusCode::InvalidArgument);
    device.queue_dealloca(ANY, &[], &[], &buffer, DeallocaFlags::empty()).unwrap();
    assert!(!device.supports("device.profiling_begin"));
    let lines = lines.take();
    let expected = [
        "device#1.create_semaphore(queue_affinity=any, initial_value=0, flags=host_interrupt|exportable_timepoints) -> semaphore#1",
        "device#1.queue_alloca(queue_affinity=any, wait=[], signal=[semaphore#1@1], pool=none, params={usage=transfer_source|transfer_target, access=none, \
         memory_type=none, queue_affinity=none, min_alignment=0}, allocation_size=64, flags=none) -> buffer#1",
        "device#1.create_command_buffer(mode=none, command_categories=transfer, queue_affinity=any, binding_capacity=1) -> \
         command_buffer#1",
        "command_buffer#1.begin() -> ok",
        "command_buffer#1.fill_buffer(target=buffer#1[24..28], pattern=[07 00], flags=none) -> ok",
        "command_buffer#1.update_buffer(source=24 bytes, target=slot 0[4..28], flags=none) -> ok",
        "command_buffer#1.end() -> ok",
    ];
    for (index, expected) in expected.iter().enumerate() {
        assert_eq!(lines[index], *expected, "line {index}");
    }
    let failed = &lines[expected.len()];
    assert!(failed.starts_with("command_buffer#1.begin() -> FAILED_PRECONDITION: "), "{failed}");
    let expected_next = [
        "device#1.queue_execute(queue_affinity=any, wait=[semaphore#1@1], signal=[semaphore#1@2], command_buffer=command_buffer#1, \
         binding_table=[buffer#1[16..48]], flags=none) -> ok",
        "device#1.queue_barrier(queue_affinity=any, wait=[semaphore#1@2], signal=[semaphore#1@3], flags=none) -> ok",
    ];
    assert_eq!(lines[expected.len() + 1..expected.len() + 3], expected_next);
    let failed = &lines[expected.len() + 3];
    assert!(failed.starts_with("semaphore#1.signal(value=3) -> INVALID_ARGUMENT: "), "{failed}");
    assert_eq!(
        lines[expected.len() + 4..],
        [
            "device#1.queue_dealloca(queue_affinity=any, wait=[], signal=[], buffer=buffer#1, flags=none) -> ok",
            "device#1.supports(method=\"device.profiling_begin\") -> false"
        ]
    );
}

/// Remembers the points that it is to signal, and fails.
#[derive(Debug, Default)]
struct Failing(Mutex<Vec<Timepoint>>);

impl HostCall for Failing {
    fn call(&self, _: HostCallContext, signal: &[Timepoint]) -> Result<()> {
        self.0.lock().unwrap().extend_from_slice(signal);
        Err(Status::data_loss("a\nb"))
    }
}

#[test]
fn hosts_and_devices_get_the_objects_they_know() {
    let (device, lines) = traced();
    let line = timeline(&device);
    let failing = Arc::new(Failing::default());
    let call = failing.clone() as Arc<dyn HostCall>;
    lines.take();
    device.queue_host_call(ANY, &[], &[point(&line, 4)], &call, &[5], HostCallFlags::empty()).unwrap();
    assert_eq!(code(line.query()), StatusCode::DataLoss);
    // The host gets the timeline that it made, and not what wraps it.
    assert!(Arc::ptr_eq(&failing.0.lock().unwrap()[0].semaphore, &line));
    let lines = lines.take();
    assert!(
        lines[0].starts_with("host_call#1.call(context={queue_affinity=")
            && lines[0].ends_with("args=[5, 0, 0, 0]}, signal=[semaphore#1@4]) -> DATA_LOSS: a\\nb"),
        "{lines:#?}"
    );
    assert!(lines[1].ends_with("signal=[semaphore#1@4], call=host_call#1, args=[5], flags=none) -> ok"), "{lines:#?}");
    assert_eq!(lines[2], "semaphore#1.query() -> DATA_LOSS: a\\nb");

    // An object that a device returns again is the same, and one that it got it gets back without its wrapper.
    let allocator = device.allocator();
    assert!(Arc::ptr_eq(&allocator, &device.allocator()));
    device.replace_allocator(&allocator).unwrap();
    assert!(Arc::ptr_eq(&allocator, &device.allocator()));
}

#[test]
fn devices_of_one_observation_share_its_objects() {
    let lines = Lines::default();
    let observation = lines.observation();
    let (inner, other) = (super::device(), super::device());
    let (first, second) = (observation.device(&inner), observation.device(&other));
    assert!(Arc::ptr_eq(&first, &observation.device(&inner)), "a device has one wrapper");
    let (one, two) = (timeline(&first), timeline(&second));
    second.queue_barrier(ANY, &[], &[point(&one, 1), point(&two, 1)], ExecuteFlags::empty()).unwrap();
    assert_eq!([one.query().unwrap(), two.query().unwrap()], [1, 1]);
    let last = lines.take().into_iter().nth(2).unwrap();
    assert!(last.starts_with("device#2.queue_barrier("), "{last}");
    assert!(last.contains("signal=[semaphore#1@1, semaphore#2@1]"), "{last}");

    // Another observation knows nothing of the wrappers of this one: to it they are objects as any.
    let apart = Lines::default();
    let third = apart.observation().device(&other);
    third.queue_barrier(ANY, &[], &[point(&one, 2)], ExecuteFlags::empty()).unwrap();
    assert_eq!(one.query().unwrap(), 2);
    assert!(apart.take()[0].starts_with("device#1.queue_barrier(queue_affinity=any, wait=[], signal=[semaphore#1@2]"));
    assert!(lines.take().iter().any(|line| line.starts_with("semaphore#1.signal(value=2)")));
}

#[test]
fn numbers_are_not_given_twice() {
    let (device, lines) = traced();
    for number in 1..=300 {
        // The one before is gone, and its memory may be that of this one.
        let line = timeline(&device);
        assert_eq!(line.query().unwrap(), 0);
        let buffer = device.allocator().allocate_buffer(BufferParams::default(), 8).unwrap();
        drop(buffer);
        let lines = lines.take();
        assert!(lines[0].ends_with(&format!("-> semaphore#{number}")), "{lines:#?}");
        assert_eq!(lines[2], "device#1.allocator() -> allocator#1");
        assert!(lines[3].ends_with(&format!("-> buffer#{number}")), "{lines:#?}");
    }
}

/// Refuses what is written to buffers, and notes what is dropped.
#[derive(Debug)]
struct ReadOnly(Arc<Mutex<Vec<String>>>);

impl Observer for ReadOnly {
    fn before(&self, call: &Called<'_>) -> Result<()> {
        match call.call() {
            observe::Call::DeviceQueueFill { target_buffer, .. } => {
                Err(Status::permission_denied(format!("{} writes to {}", call.object(), call.id(target_buffer))))
            }
            _ => Ok(()),
        }
    }

    fn after(&self, call: &Called<'_>, outcome: Result<Reply<'_>, &Status>) {
        self.0.lock().unwrap().push(format!("{call}: {}", outcome.is_ok()));
    }

    fn dropped(&self, object: observe::ObjectId) {
        self.0.lock().unwrap().push(format!("{object} is gone"));
    }
}

#[test]
fn observers_refuse_calls_and_see_objects_go() {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let device = Observation::new(ReadOnly(notes.clone())).device(&super::device());
    let line = timeline(&device);
    let buffer = buffer_from_bytes(&*super::device(), &[1; 4]).unwrap();
    let fill = device.queue_fill(ANY, &[], &[point(&line, 1)], &buffer, 0, 4, &[9], FillFlags::empty());
    assert_eq!(fill.unwrap_err().to_string(), "PERMISSION_DENIED: device#1 writes to buffer#1");
    assert_eq!(line.query().unwrap(), 0);
    assert_eq!(buffer_to_vec(&*buffer, 4).unwrap(), [1; 4]);
    line.recycle();
    drop(device);
    let notes = notes.lock().unwrap();
    assert_eq!(notes[1..], ["semaphore#1.query(): true", "semaphore#1 is gone", "device#1 is gone"]);
}
