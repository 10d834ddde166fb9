//! Functions of the host that queues call.

use std::sync::{Arc, Mutex};

use vireo::hal::*;
use vireo::{Result, Status, StatusCode};

use super::*;

/// A function that notes its calls and then does what it is told.
struct Call<F>(Mutex<Vec<(HostCallContext, usize)>>, F);

impl<F> std::fmt::Debug for Call<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("a function of the test")
    }
}

impl<F: Fn(&HostCallContext, &[Timepoint]) -> Result<()> + Send + Sync + 'static> HostCall for Call<F> {
    fn call(&self, context: HostCallContext, signal: &[Timepoint]) -> Result<()> {
        self.0.lock().unwrap().push((context, signal.len()));
        (self.1)(&context, signal)
    }
}

fn function<F>(body: F) -> Arc<Call<F>>
where
    F: Fn(&HostCallContext, &[Timepoint]) -> Result<()> + Send + Sync + 'static,
{
    Arc::new(Call(Mutex::default(), body))
}

const BLOCKING: HostCallFlags = HostCallFlags::empty();

pub fn the_host_is_called_in_its_turn(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 4]);
    let (start, line) = (timeline(&*device), timeline(&*device));
    let seen = buffer.clone();
    // Data that was written before the call is there, and the data of the call is there for those after it.
    let noted = function(move |_, _| {
        assert_eq!(bytes_of(&*seen), [6; 4]);
        buffer_write(&*seen, 1, &[7])
    });
    let call: Arc<dyn HostCall> = noted.clone();
    let at = |value| [point(&line, value)];
    device.queue_copy(ANY, &at(2), &at(3), &buffer, 0, &buffer, 2, 2, CopyFlags::empty()).unwrap();
    device.queue_host_call(ANY, &at(1), &at(2), &call, &[4, 5], BLOCKING).unwrap();
    device.queue_fill(ANY, &[point(&start, 1)], &at(1), &buffer, 0, 4, &[6], FillFlags::empty()).unwrap();
    assert!(noted.0.lock().unwrap().is_empty());
    start.signal(1).unwrap();
    line.wait(3, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer), [6, 7, 6, 7]);
    let calls = noted.0.lock().unwrap();
    assert_eq!(calls.len(), 1);
    assert_eq!((calls[0].0.args, calls[0].1), ([4, 5, 0, 0], 1));
    let many = outcome(&*device, |signal| device.queue_host_call(ANY, &[], signal, &call, &[0; 5], BLOCKING));
    assert_eq!(code(many), StatusCode::InvalidArgument);
}

pub fn failures_of_calls_are_those_of_the_queue(backend: &Backend) {
    let device = backend.device();
    let failing: Arc<dyn HostCall> = function(|_, _| Err(Status::data_loss("unlucky")));
    let never = function(|_, _| Ok(()));
    let never_call: Arc<dyn HostCall> = never.clone();
    let (first, second) = (timeline(&*device), timeline(&*device));
    let (wait, signal) = ([point(&first, 1)], [point(&second, 1)]);
    device.queue_host_call(ANY, &wait, &signal, &never_call, &[], BLOCKING).unwrap();
    device.queue_host_call(ANY, &[], &wait, &failing, &[], BLOCKING).unwrap();
    for line in [first, second] {
        assert_eq!(line.wait(1, in_time()).unwrap_err().to_string(), "DATA_LOSS: unlucky");
    }
    assert!(never.0.lock().unwrap().is_empty(), "nothing runs after a failure");
}

pub fn calls_may_signal_later(backend: &Backend) {
    let device = backend.device();
    let kept = Arc::new(Mutex::new(Vec::new()));
    let keep = kept.clone();
    let called = timeline(&*device);
    let told = called.clone();
    let call: Arc<dyn HostCall> = function(move |_, signal| {
        keep.lock().unwrap().extend_from_slice(signal);
        told.signal(1)?;
        Err(Status::new(StatusCode::Deferred, "later"))
    });
    let (done, after) = (timeline(&*device), timeline(&*device));
    device.queue_barrier(ANY, &[point(&done, 7)], &[point(&after, 1)], ExecuteFlags::empty()).unwrap();
    device.queue_host_call(ANY, &[], &[point(&done, 7)], &call, &[], BLOCKING).unwrap();
    called.wait(1, in_time()).unwrap();
    assert_eq!((done.query().unwrap(), after.query().unwrap()), (0, 0));
    let kept = std::mem::take(&mut *kept.lock().unwrap());
    assert_eq!((kept.len(), kept[0].value), (1, 7));
    kept[0].semaphore.signal(7).unwrap();
    after.wait(1, in_time()).unwrap();
    assert_eq!(done.query().unwrap(), 7);
}

pub fn calls_nobody_waits_for_fail_nobody(backend: &Backend) {
    let device = backend.device();
    let (called, done) = (timeline(&*device), timeline(&*device));
    let told = called.clone();
    let call: Arc<dyn HostCall> = function(move |context, signal| {
        assert!(signal.is_empty());
        told.signal(context.args[0])?;
        Err(Status::data_loss("nobody cares"))
    });
    let flags = HostCallFlags::NON_BLOCKING;
    device.queue_host_call(ANY, &[], &[point(&done, 1)], &call, &[1], flags).unwrap();
    done.wait(1, in_time()).unwrap();
    called.wait(1, in_time()).unwrap();
    device.queue_host_call(ANY, &[point(&done, 1)], &[point(&done, 2)], &call, &[2], flags).unwrap();
    done.wait(2, in_time()).unwrap();
    called.wait(2, in_time()).unwrap();
}

/// A call may submit more work, signal what others wait for, and hold the last reference to what it uses.
pub fn calls_submit_to_their_queue(backend: &Backend) {
    let device = backend.device();
    let buffer = buffer_of(&*device, &[0; 4]);
    let (chain, line) = (timeline(&*device), timeline(&*device));
    let (queue, target, inner) = (device.clone(), buffer.clone(), chain.clone());
    let call: Arc<dyn HostCall> = function(move |context, _| {
        let step = context.args[0];
        let (wait, signal) = ([point(&inner, step - 1)], [point(&inner, step)]);
        queue.queue_fill(ANY, &wait, &signal, &target, step - 1, 1, &[step as u8], FillFlags::empty())
    });
    for step in 1..=4 {
        let (wait, signal) = ([point(&line, step - 1)], [point(&line, step)]);
        device.queue_host_call(ANY, &wait, &signal, &call, &[step], BLOCKING).unwrap();
    }
    drop(call);
    line.wait(4, in_time()).unwrap();
    chain.wait(4, in_time()).unwrap();
    assert_eq!(bytes_of(&*buffer), [1, 2, 3, 4]);
}
