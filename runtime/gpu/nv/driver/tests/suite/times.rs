//! Times of devices cost nothing while no observer wants them, and graphs stay graphs where dispatches are not timed.

use std::sync::{Arc, Mutex};

use vireo_hal::*;

use crate::executions::{additions, execute, traced};
use crate::support::*;

/// An observer that counts what it was told.
#[derive(Default)]
struct Counts {
    wants_dispatches: bool,
    told: Mutex<(u32, Vec<SubmissionTime>)>,
}

impl TimesObserver for Counts {
    fn is_active(&self) -> bool {
        true
    }

    fn wants_dispatches(&self) -> bool {
        self.wants_dispatches
    }

    fn dispatch(&self, time: &DispatchTime<'_>) {
        assert!(time.times.is_some() && time.kernel == "main", "{time:?}");
        self.told.lock().expect("no panic").0 += 1;
    }

    fn submission(&self, time: &SubmissionTime) {
        self.told.lock().expect("no panic").1.push(*time);
    }
}

#[test]
fn events_are_recorded_for_what_an_observer_wants() {
    let (device, calls) = traced(&[]);
    let times = device.clone().device_times().expect("there are events");
    let commands = additions(&*device, 10, 5, 5);
    let target = buffer(&*device, &[0; 5]);
    let run = || {
        let _ = (calls.take("cuEventCreate"), calls.take("cuEventRecord"), calls.take("cuEventElapsedTime"));
        execute(&*device, &commands, &target);
        (calls.take("cuEventRecord"), calls.take("cuGraphLaunch"), calls.take("cuEventElapsedTime"))
    };
    // The second execution is a graph.
    assert_eq!((run(), run()), ((1, 0, 0), (1, 1, 0)));
    let counts = Arc::new(Counts::default());
    times.observe(Some(counts.clone()));
    // Two more events around the graph. There may be a new anchor.
    let (events, graphs, elapsed) = run();
    assert!((3..=4).contains(&events) && (graphs, elapsed) == (1, 2), "{events} {graphs} {elapsed}");
    let (dispatches, submissions) = std::mem::take(&mut *counts.told.lock().expect("no panic"));
    assert_eq!((dispatches, submissions.len(), submissions[0].dispatches), (0, 1, 10));
    let counts = Arc::new(Counts { wants_dispatches: true, ..Counts::default() });
    times.observe(Some(counts.clone()));
    // One event before each dispatch, and one after the last one: the end of one is the beginning of the next.
    let (events, graphs, elapsed) = run();
    assert!((12..=13).contains(&events) && (graphs, elapsed) == (0, 11), "{events} {graphs} {elapsed}");
    let (dispatches, submissions) = std::mem::take(&mut *counts.told.lock().expect("no panic"));
    assert_eq!((dispatches, submissions.len(), submissions[0].dispatches), (10, 1, 10));
    times.observe(None);
    assert_eq!((run(), calls.take("cuEventCreate")), ((1, 1, 0), 0));
}

/// Events of two GPUs are compared with one clock of the host.
#[test]
fn queues_of_all_gpus_have_times() {
    let device = driver().create_device_by_path("cuda", "0,1", &[]).expect("a device");
    let times = device.clone().device_times().expect("there are events");
    let counts = Arc::new(Counts::default());
    times.observe(Some(counts.clone()));
    let target = buffer(&*device, &[0; 4]);
    for queue in [0, 1, 0] {
        let affinity = QueueAffinity::from_bits_retain(1 << queue);
        outcome(&*device, |signal| {
            device.queue_fill(affinity, &[], signal, &target, 0, 16, &[queue], FillFlags::empty())
        })
        .expect("fills");
    }
    let submissions = std::mem::take(&mut counts.told.lock().expect("no panic").1);
    assert_eq!(submissions.iter().map(|time| time.queue).collect::<Vec<_>>(), [0, 1, 0]);
    let moments: Vec<_> = submissions.iter().map(|time| time.times.expect("a fill is timed")).collect();
    assert!(moments.windows(2).all(|pair| pair[0].1 <= pair[1].0), "{moments:?}");
}
