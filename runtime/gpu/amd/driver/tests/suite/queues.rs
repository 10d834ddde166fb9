//! Queues: waits across them by every strategy, rings that are full, and chains.

use std::sync::Arc;

use vireo_hal::{CommandBufferMode, CommandCategory, ExecuteFlags, MemoryType, QueueAffinity, Semaphore};

use super::support::{Machine, TestDevice, at, queue, wait, whole};

#[test]
fn queues_wait_for_each_other_by_the_strategy_of_the_processor() {
    // PM4 commands, barriers that compare a value, and the host.
    for isa in ["gfx1100", "gfx942", "gfx950"] {
        let machine = Machine::new(&format!("agents=2,isa={isa}"));
        let device = machine.device("", &[("amdgpu_queues", "2")]);
        let lines: Vec<Arc<dyn Semaphore>> = (0..3).map(|_| device.timeline()).collect();
        let flags = ExecuteFlags::empty();
        // Nothing runs before the host has signaled the first point; then all of it does.
        for step in 1..200u64 {
            let before = [at(&lines[step as usize % 3], step)];
            let after = [at(&lines[(step + 1) as usize % 3], step + 1)];
            device.queue_barrier(queue(step as u32 * 7 % 4), &before, &after, flags).expect("submits");
        }
        lines[1].signal(1).expect("advances");
        wait(&lines[200 % 3], 200);
        assert_eq!(lines.iter().map(|line| line.query().expect("none failed")).max(), Some(200), "{isa}");
    }
}

#[test]
fn what_one_queue_writes_the_next_one_reads() {
    let machine = Machine::new("agents=2,host-writes=until-acquire");
    let device = machine.device("", &[("amdgpu_queues", "3")]);
    let line = device.timeline();
    let buffers: Vec<_> = (0..8).map(|_| device.buffer(256, MemoryType::DEVICE_LOCAL)).collect();
    device.fill(0, &[], &[at(&line, 1)], &buffers[0], 0xabcd_ef01);
    let mut value = 1;
    for round in 0..40usize {
        let (from, to) = (&buffers[round % 8], &buffers[(round + 1) % 8]);
        let (before, after) = ([at(&line, value)], [at(&line, value + 1)]);
        let affinity = queue(round as u32 * 5 % 6);
        device.queue_copy(affinity, &before, &after, from, 0, to, 0, 256, Default::default()).expect("submits");
        value += 1;
    }
    wait(&line, value);
    assert_eq!(device.read(&buffers[40 % 8]), 0xabcd_ef01u32.to_le_bytes().repeat(64));
}

#[test]
fn rings_that_are_full_hold_submitters_back() {
    let machine = Machine::new("");
    let device = machine.device("", &[("amdgpu_queue_packets", "256")]);
    let memory = device.buffer(4, MemoryType::DEVICE_LOCAL);
    let line = device.timeline();
    // More packets and more arguments than there is room for.
    const COUNT: u64 = 20_000;
    for value in 1..=COUNT {
        device.fill(0, &[], &[at(&line, value)], &memory, value as u32);
    }
    wait(&line, COUNT);
    assert_eq!(device.read(&memory), (COUNT as u32).to_le_bytes());
    assert_eq!(machine.ran().len() as u64, COUNT + 1);
}

#[test]
fn threads_submit_to_all_queues_at_once() {
    let machine = Machine::new("");
    let device = machine.device("", &[("amdgpu_queues", "3"), ("amdgpu_queue_packets", "256")]);
    let counters: Vec<Arc<dyn Semaphore>> = (0..4).map(|_| device.timeline()).collect();
    const EACH: u64 = 300;
    std::thread::scope(|scope| {
        for (thread, line) in counters.iter().enumerate() {
            let (device, others) = (&device, &counters);
            scope.spawn(move || {
                for value in 1..=EACH {
                    // Each waits for its own last point, and for what another thread has submitted or will.
                    let mut before = vec![at(line, value - 1)];
                    before.extend((thread > 0).then(|| at(&others[thread - 1], value)));
                    let affinity = queue((thread as u32 + value as u32) % 3);
                    device
                        .queue_barrier(affinity, &before, &[at(line, value)], ExecuteFlags::empty())
                        .expect("submits");
                }
            });
        }
    });
    counters.iter().for_each(|line| wait(line, EACH));
}

#[test]
fn a_chain_that_never_begins_fails_without_nesting() {
    let machine = Machine::new("");
    let device = machine.device("", &[]);
    let first = device.timeline();
    let mut last = first.clone();
    for _ in 0..50_000 {
        let next = device.timeline();
        device
            .queue_barrier(QueueAffinity::ANY, &[at(&last, 1)], &[at(&next, 1)], ExecuteFlags::empty())
            .expect("submits");
        last = next;
    }
    drop(first);
    let failure = last.wait(1, None).expect_err("nobody can reach it");
    assert!(failure.message().contains("went away"), "{failure}");
}

/// No lock is shared between queues: while one waits for its ring, with its lock held, the other one takes submissions.
#[test]
fn a_queue_that_is_full_holds_up_no_other() {
    let machine = Machine::new("");
    let device = machine.device("", &[("amdgpu_queues", "2"), ("amdgpu_queue_packets", "256")]);
    let memory = device.buffer(64, MemoryType::DEVICE_LOCAL);
    let record = |count: usize| {
        let mode = CommandBufferMode::empty();
        let commands = device.create_command_buffer(mode, CommandCategory::ANY, queue(0), 0).expect("there are");
        commands.begin().expect("begins");
        (0..count).for_each(|_| commands.fill_buffer(&whole(&memory), &[1], Default::default()).expect("records"));
        commands.end().expect("ends");
        commands
    };
    let (long, short) = (record(300), record(1));
    let (blocked, line) = (device.timeline(), device.timeline());
    let flags = ExecuteFlags::empty();
    std::thread::scope(|scope| {
        let held = machine.hold_kernels();
        let submitter = scope.spawn(|| {
            // More packets than the ring has: the submitter waits for the kernels, which are held.
            for value in 0..3 {
                let (from, to) = ([at(&blocked, value)], [at(&blocked, value + 1)]);
                device.queue_execute(queue(0), &from, &to, &long, &[], flags).expect("submits");
            }
        });
        held.wait_for_kernel();
        // The kernels of the second queue are held, too, but not its submissions.
        device.queue_execute(queue(1), &[], &[at(&line, 1)], &short, &[], flags).expect("submits");
        for value in 1..200 {
            let (from, to) = ([at(&line, value)], [at(&line, value + 1)]);
            device.queue_barrier(queue(1), &from, &to, flags).expect("submits");
        }
        assert_eq!([&blocked, &line].map(|line| line.query().expect("it did not fail")), [0, 0]);
        drop(held);
        submitter.join().expect("it submits all");
    });
    wait(&blocked, 3);
    wait(&line, 200);
}
