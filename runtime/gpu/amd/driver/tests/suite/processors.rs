//! A device on an agent of each processor that there is: it is made, loads the driver's kernels where there are some,
//! and its queues wait for each other in the way of the processor.

use vireo_hal::{ExecuteFlags, MemoryType, QueueAffinity};
use vireo_hsa::targets::PROCESSORS;

use super::support::{Machine, TestDevice, at, builtins, in_time, queue, soon};

#[test]
fn an_agent_of_each_processor_makes_a_device() {
    in_time(|| {
        let mut with_kernels = 0;
        for processor in PROCESSORS {
            let isa = processor.name;
            let machine = Machine::new(&format!("isa={isa}"));
            let device = machine.device("", &[("amdgpu_queues", "2")]);
            let [first, second, third] = [(); 3].map(|()| device.timeline());
            if builtins(isa).is_none() {
                // Its queues order barriers, and what has no kernels says so.
                device.queue_barrier(queue(0), &[at(&first, 1)], &[at(&second, 1)], ExecuteFlags::empty()).expect(isa);
                device.queue_barrier(queue(1), &[at(&second, 1)], &[at(&third, 1)], ExecuteFlags::empty()).expect(isa);
                first.signal(1).expect(isa);
                soon(&third, 1).expect(isa);
                let memory = device.buffer(64, MemoryType::DEVICE_LOCAL);
                let any = QueueAffinity::ANY;
                let refused = device.queue_fill(any, &[], &[], &memory, 0, 64, &[1], Default::default());
                let refused = refused.expect_err(isa);
                assert!(refused.message().contains(&format!("no kernels for `{isa}`")), "{refused}");
                continue;
            }
            with_kernels += 1;
            let memory = [0, 1].map(|_| device.buffer(256, MemoryType::DEVICE_LOCAL));
            let held = machine.hold_kernels();
            device.fill(0, &[], &[at(&first, 1)], &memory[0], 0x0102_0304);
            let (from, to) = ([at(&first, 1)], [at(&second, 1)]);
            device.queue_copy(queue(1), &from, &to, &memory[0], 0, &memory[1], 0, 256, Default::default()).expect(isa);
            held.wait_for_kernel();
            assert_eq!(second.query().expect(isa), 0, "{isa}: it waits for the other queue");
            drop(held);
            soon(&second, 1).unwrap_or_else(|status| panic!("{isa}: {status}"));
            assert_eq!(device.read(&memory[1]), 0x0102_0304u32.to_le_bytes().repeat(64), "{isa}");
        }
        assert_eq!((PROCESSORS.len(), with_kernels), (37, 35));
    });
}
