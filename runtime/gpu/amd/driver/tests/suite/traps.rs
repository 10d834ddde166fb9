//! A kernel traps among random operations of four queues: what depends on it fails, and so does what comes later on its
//! queue, and everything else completes.

use std::collections::BTreeSet;
use std::sync::Arc;

use vireo_hal::{DispatchConfig, DispatchFlags, ExecutableFunction, MemoryType, Semaphore, Timepoint};

use super::support::{ADD, Machine, TestDevice, at, queue, whole};

/// Runs, each with a seed of its own.
const RUNS: u64 = 12;
/// Operations of a run.
const OPERATIONS: usize = 60;
const QUEUES: usize = 4;

struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut value = self.0;
        value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((value ^ value >> 31) % bound as u64) as usize
    }
}

/// Whether an operation fails; none where the order in which kernels overlap decides.
type Fails = Option<bool>;

fn run(seed: u64) {
    let mut random = Random(seed);
    let topology = ["", "order=reversed", "order=overlapped", "host-writes=until-acquire"][random.below(4)];
    let machine = Machine::with(topology, Some("add_dispatch_0_elementwise_D_f32"));
    let device = machine.device("0", &[("amdgpu_queues", "4"), ("amdgpu_queue_packets", "256")]);
    let (buffer, executable) = (device.buffer(256, MemoryType::DEVICE_LOCAL), device.executable());
    let overlaps = topology.starts_with("order=");
    let (dead, trap) = (random.below(QUEUES), random.below(OPERATIONS / 2));
    let (mut fails, mut lines): (Vec<Fails>, Vec<Arc<dyn Semaphore>>) = (Vec::new(), Vec::new());
    for index in 0..OPERATIONS {
        let line = device.timeline();
        let signal = [at(&line, 1)];
        let others: BTreeSet<usize> =
            (0..random.below(3)).filter(|_| index > 0).map(|_| random.below(index.max(1))).collect();
        let wait: Vec<Timepoint> = others.iter().map(|other| at(&lines[*other], 1)).collect();
        let on = if index == trap { dead } else { random.below(QUEUES) };
        if index == trap {
            let config = DispatchConfig { workgroup_count: [2, 1, 1], ..DispatchConfig::default() };
            let bindings = [whole(&buffer), whole(&buffer), whole(&buffer)];
            let (function, flags) = (ExecutableFunction(ADD), DispatchFlags::empty());
            device
                .queue_dispatch(
                    queue(on as u32),
                    &wait,
                    &signal,
                    &executable,
                    function,
                    &config,
                    &[0; 4],
                    &bindings,
                    flags,
                )
                .expect("it is submitted");
        } else {
            device.fill(on as u32, &wait, &signal, &buffer, index as u32);
        }
        let own = match on == dead {
            _ if index == trap => Some(true),
            // It may have ended before the kernel trapped, or may not have begun.
            true if overlaps => None,
            is_dead => Some(is_dead && index > trap),
        };
        let all: Vec<Fails> = others.iter().map(|other| fails[*other]).chain([own]).collect();
        // A failure is certain if one of them is, and if none may be, nothing fails.
        let is_sure = all.contains(&Some(true)) || !all.contains(&None);
        fails.push(is_sure.then(|| all.contains(&Some(true))));
        lines.push(line);
    }
    for (index, (line, fails)) in lines.iter().zip(fails).enumerate() {
        match line.wait(1, None) {
            Ok(()) => assert_ne!(fails, Some(true), "operation {index} of {seed} should have failed with queue {dead}"),
            Err(failure) => {
                let is_trap = failure.message().contains("stopped with");
                assert!(fails != Some(false) && is_trap, "operation {index} of {seed}: {failure}");
            }
        }
    }
}

#[test]
fn a_trap_fails_its_queue_and_what_depends_on_it() {
    (0..RUNS).for_each(run);
}
