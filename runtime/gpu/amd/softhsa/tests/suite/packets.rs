//! The packet processor: what packets do, in which order, and how wrong ones stop their queue.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use vireo_hsa::hsa::{HsaStatus, MemoryFaultEvent, ProfilingDispatchTime};
use vireo_hsa::packet::*;
use vireo_hsa::packets::Order;
use vireo_hsa::pm4::{Pm4IndirectBuffer, Pm4WaitRegMem64};
use vireo_hsa::signal::{Signal, SignalCondition};
use vireo_simt::{Port, Trap, TrapKind};

use crate::support::*;

#[test]
fn a_dispatch_runs_its_kernel_and_completes() {
    let session = Session::new("");
    let (_, kernel) = session.load(session.gpu());
    let (data, kernarg, completion) = (session.device_memory(4096), session.kernarg_memory(64), session.signal(1));
    let queue = Queue::new(session.gpu(), 64);
    let arguments = arguments(&kernarg, 0, data.address, 100);
    queue.submit(&[dispatch(Order::SYSTEM, kernel, arguments, 64, completion)]);
    wait(completion);
    assert_eq!(data.load(0), 101 << 32 | 100);
    assert_eq!(data.load(31), 163 << 32 | 162);
    assert_eq!(data.load(32), 0);
}

#[test]
fn kernels_are_interpreted() {
    let session = Session::interpreted("");
    let (_, kernel) = session.load(session.gpu());
    let (data, kernarg, completion) = (session.device_memory(4096), session.kernarg_memory(64), session.signal(2));
    let queue = Queue::new(session.gpu(), 64);
    let (one, two) = (arguments(&kernarg, 0, data.address, 100), arguments(&kernarg, 1, data.address + 128, 7));
    queue.submit(&[
        dispatch(Order::SYSTEM, kernel, one, 80, completion),
        dispatch(Order::SYSTEM, kernel, two, 1, completion),
    ]);
    wait(completion);
    assert_eq!((data.load(0), data.load(15)), (101 << 32 | 100, 131 << 32 | 130));
    assert_eq!((data.load(16), data.load(39), data.load(40)), (133 << 32 | 7, 179 << 32 | 178, 0));
    // The interpreter names the instruction that leaves an allocation.
    let wrong = arguments(&kernarg, 2, data.address + 4096 - 64, 7);
    queue.submit(&[dispatch(Order::SYSTEM, kernel, wrong, 32, completion)]);
    assert_eq!(queue.wait_for_error(), HsaStatus::ERROR_MEMORY_FAULT);
}

#[test]
fn processors_without_an_interpreter_refuse_kernels() {
    let session = Session::interpreted("isa=gfx1201");
    let mut code = KERNELS.to_vec();
    // The code object says that it is for this processor, in its header and in its metadata.
    code[48] = 0x4e;
    for at in 0..code.len() - 7 {
        if code[at..].starts_with(b"gfx1100") {
            code[at..at + 7].copy_from_slice(b"gfx1201");
        }
    }
    let executable = load(session.gpu(), &code).expect("it is for the agent");
    let kernarg = session.kernarg_memory(64);
    let packet = dispatch(Order::NONE, kernel_object(executable), kernarg.address, 32, Signal(0));
    stops_with(&session, packet, HsaStatus::ERROR_INVALID_ISA);
}

#[test]
fn rings_wrap_and_packets_keep_their_order() {
    let session = Session::new("");
    let (_, kernel) = session.load(session.gpu());
    let (data, kernarg) = (session.device_memory(4096), session.kernarg_memory(4096));
    let completion = session.signal(200);
    let queue = Queue::new(session.gpu(), 16);
    for round in 0..200u64 {
        // The last one of those that write to the same word wins.
        let arguments = arguments(&kernarg, round as usize, data.address + 4 * (round % 7), round);
        queue.submit(&[dispatch(Order::NONE, kernel, arguments, 1, completion)]);
    }
    wait(completion);
    let words: Vec<u64> = (0..4).flat_map(|index| [data.load(index) & 0xffff_ffff, data.load(index) >> 32]).collect();
    assert_eq!(words[..7], [196, 197, 198, 199, 193, 194, 195]);
    // A packet frees its slot after it has signalled its completion.
    while optional!(hsa_queue_load_read_index_scacquire(queue.pointer)) < 200 {
        std::thread::yield_now();
    }
    assert_eq!(optional!(hsa_queue_load_read_index_relaxed(queue.pointer)), 200);
    assert_eq!(optional!(hsa_queue_load_write_index_relaxed(queue.pointer)), 200);
}

#[test]
fn a_packet_is_not_run_before_the_doorbell_rings() {
    let session = Session::new("");
    let (first, second) = (session.signal(1), session.signal(1));
    let queue = Queue::of_type(session.gpu(), 16, vireo_hsa::queue::QueueType::SINGLE).expect("a queue");
    let packet = |completion| {
        let packet = BarrierAndPacket::new(Order::NONE, [Signal(0); 5]).expect("a packet");
        BarrierAndPacket { completion_signal: completion, ..packet }.to_bytes()
    };
    let ring = queue.ring();
    let reservation = ring.try_reserve(2).expect("free slots");
    ring.publish(reservation, &[packet(first), packet(second)]);
    queue.ring_doorbell(0);
    wait(first);
    assert_eq!(hsa!(hsa_signal_load_scacquire(second)), 1);
    // A producer may also write to the register itself.
    let doorbell = value_of(queue.shared().doorbell_signal).load(Ordering::Relaxed);
    let register: *mut u64 = std::ptr::with_exposed_provenance_mut(doorbell as usize);
    // SAFETY: the doorbell's value is the address of the register, which the queue has.
    unsafe { AtomicU64::from_ptr(register) }.store(1, Ordering::Release);
    wait(second);
}

#[test]
fn a_header_may_be_published_by_an_earlier_packet() {
    // The kernel publishes the packet after its own: it stores the header that is in its arguments.
    let session = Session::with("", |dispatch| {
        let mut port = Port::new(dispatch.memory);
        let trap = |fault| Trap::new(TrapKind::Memory(fault));
        let [header] = port.load_words::<1>(dispatch.packet.kernarg_address).map_err(trap)?;
        port.store_words(dispatch.packet_address + 64, [header]).map_err(trap)
    });
    let (_, kernel) = session.load(session.gpu());
    let (kernarg, completion) = (session.kernarg_memory(64), session.signal(1));
    let queue = Queue::new(session.gpu(), 16);
    let packet = BarrierAndPacket::new(Order::SYSTEM, [Signal(0); 5]).expect("a packet");
    let later = BarrierAndPacket { completion_signal: completion, ..packet }.to_bytes();
    let mut hidden = later;
    hidden[..4].copy_from_slice(&u32::from(PacketType::INVALID.0).to_le_bytes());
    kernarg.store(0, u64::from(u32::from_le_bytes([later[0], later[1], later[2], later[3]])));
    let ring = queue.ring();
    let reservation = ring.try_reserve(2).expect("free slots");
    let first = dispatch(Order::SYSTEM, kernel, kernarg.address, 1, Signal(0));
    queue.ring_doorbell(ring.publish(reservation, &[first, hidden]));
    wait(completion);
}

#[test]
fn barriers_wait_for_signals() {
    let session = Session::new("");
    let queue = Queue::new(session.gpu(), 16);
    let (one, two) = (session.signal(1), session.signal(1));
    let (all, any, value) = (session.signal(1), session.signal(1), session.signal(1));
    let dependencies = [one, two, Signal(0), Signal(0), Signal(0)];
    let or = BarrierOrPacket::new(Order::NONE, dependencies).expect("a packet");
    let and = BarrierAndPacket::new(Order::SYSTEM, dependencies).expect("a packet");
    let masked = BarrierValuePacket::new(Order::NONE, two, 0xf0, SignalCondition::EQ, 0x30).expect("a packet");
    queue.submit(&[
        BarrierOrPacket { completion_signal: any, ..or }.to_bytes(),
        BarrierAndPacket { completion_signal: all, ..and }.to_bytes(),
        BarrierValuePacket { completion_signal: value, ..masked }.to_bytes(),
    ]);
    assert_eq!(hsa!(hsa_signal_load_scacquire(any)), 1);
    // A program may change the value without a function.
    value_of(one).store(0, Ordering::Release);
    wait(any);
    assert_eq!(hsa!(hsa_signal_load_scacquire(all)), 1);
    hsa!(hsa_signal_store_screlease(two, 0));
    wait(all);
    assert_eq!(hsa!(hsa_signal_load_scacquire(value)), 1);
    hsa!(hsa_signal_store_screlease(two, 0x735));
    wait(value);
}

#[test]
fn indirect_buffers_wait_for_memory() {
    let session = Session::new("");
    let queue = Queue::new(session.gpu(), 16);
    let (epoch, completion) = (session.signal(10), session.signal(1));
    let commands = session.kernarg_memory(4096);
    let wait_command = Pm4WaitRegMem64::until_less(epoch, i64::MAX as u64, 8).expect("a command").to_bytes();
    let jump = Pm4IndirectBuffer::new(commands.address + 2048, 9).expect("a jump").to_bytes();
    // Padding of one dword and of three, and a jump to the wait.
    let padding = [0xffff_1000u32, 0xc001_1000, 1, 2].map(u32::to_le_bytes).concat();
    for (offset, bytes) in [(0, padding.as_slice()), (16, &jump), (2048, &wait_command)] {
        for (index, chunk) in bytes.chunks(4).enumerate() {
            let word: *mut u32 = commands.pointer().wrapping_byte_add(offset + 4 * index).cast();
            // SAFETY: the commands fit the memory.
            unsafe { word.write(u32::from_le_bytes([chunk[0], chunk[1], chunk[2], chunk[3]])) };
        }
    }
    let packet = Pm4IbPacket::new(Order::SYSTEM, commands.address, 8).expect("a packet");
    queue.submit(&[Pm4IbPacket { completion_signal: completion, ..packet }.to_bytes()]);
    assert_eq!(hsa!(hsa_signal_load_scacquire(completion)), 1);
    optional!(hsa_signal_subtract_screlease(epoch, 3));
    wait(completion);
}

#[test]
fn profiled_queues_tell_the_times() {
    let session = Session::new("");
    let (_, kernel) = session.load(session.gpu());
    let (data, kernarg) = (session.device_memory(4096), session.kernarg_memory(64));
    let arguments = arguments(&kernarg, 0, data.address, 1);
    let queue = Queue::new(session.gpu(), 16);
    let completion = session.signal(1);
    let mut time = ProfilingDispatchTime::default();
    let gpu = session.gpu();
    queue.submit(&[dispatch(Order::SYSTEM, kernel, arguments, 1, completion)]);
    wait(completion);
    let status = optional!(hsa_amd_profiling_get_dispatch_time(gpu, completion, &raw mut time));
    assert_eq!(status, HsaStatus::ERROR, "the queue does not profile");
    assert_eq!(hsa!(hsa_amd_profiling_set_profiler_enabled(queue.pointer, 1)), OK);
    hsa!(hsa_signal_store_relaxed(completion, 1));
    queue.submit(&[dispatch(Order::SYSTEM, kernel, arguments, 1, completion)]);
    wait(completion);
    assert_eq!(optional!(hsa_amd_profiling_get_dispatch_time(gpu, completion, &raw mut time)), OK);
    assert!(0 < time.start && time.start <= time.end, "{time}");
}

/// A packet that stops its queue with a status.
fn stops_with(session: &Session, packet: [u8; 64], status: HsaStatus) {
    let queue = Queue::new(session.gpu(), 16);
    let after = session.signal(1);
    let barrier = BarrierAndPacket::new(Order::NONE, [Signal(0); 5]).expect("a packet");
    queue.submit(&[packet, BarrierAndPacket { completion_signal: after, ..barrier }.to_bytes()]);
    assert_eq!(queue.wait_for_error(), status);
    assert_eq!(optional!(hsa_queue_inactivate(queue.pointer)), OK);
    assert_eq!(hsa!(hsa_signal_load_scacquire(after)), 1, "no packet runs afterwards");
}

#[test]
fn wrong_packets_stop_their_queue() {
    let session = Session::new("");
    let (_, kernel) = session.load(session.gpu());
    let (data, kernarg) = (session.device_memory(4096), session.kernarg_memory(64));
    let arguments = arguments(&kernarg, 0, data.address, 1);
    let format = HsaStatus::ERROR_INVALID_PACKET_FORMAT;
    let agent = AgentDispatchPacket::new(Order::NONE, 1, [0; 4], 0).expect("a packet");
    stops_with(&session, agent.to_bytes(), format);
    stops_with(&session, [0xee; 64], format);
    let right = KernelDispatchPacket::read(&dispatch(Order::NONE, kernel, arguments, 32, Signal(0)));
    let mut wrong = vec![
        KernelDispatchPacket { setup: DispatchSetup(0), ..right },
        KernelDispatchPacket { grid_size: [32, 0, 1], ..right },
        KernelDispatchPacket { workgroup_size: [1024, 2, 1], ..right },
        KernelDispatchPacket { group_segment_size: u32::MAX, ..right },
        KernelDispatchPacket { kernel_object: kernel + 8, ..right },
        KernelDispatchPacket { header: PacketHeader(right.header.0 | 0x8000), ..right },
    ];
    for packet in &wrong {
        stops_with(&session, packet.to_bytes(), format);
    }
    let signal = HsaStatus::ERROR_INVALID_SIGNAL;
    let queue = Queue::new(session.gpu(), 16);
    for handle in [64, kernel, queue.shared().doorbell_signal.0] {
        let packet = KernelDispatchPacket { completion_signal: Signal(handle), ..right };
        stops_with(&session, packet.to_bytes(), signal);
    }
    let barrier = BarrierAndPacket::new(Order::NONE, [Signal(8); 5]).expect("a packet");
    stops_with(&session, barrier.to_bytes(), signal);
    let fault = HsaStatus::ERROR_MEMORY_FAULT;
    wrong = vec![
        KernelDispatchPacket { kernel_object: 64, ..right },
        KernelDispatchPacket { kernel_object: u64::MAX - 63, ..right },
        KernelDispatchPacket { kernarg_address: 0, ..right },
        KernelDispatchPacket { kernarg_address: kernarg.address + 4096, ..right },
        KernelDispatchPacket { kernarg_address: u64::MAX - 7, ..right },
    ];
    for packet in &wrong {
        stops_with(&session, packet.to_bytes(), fault);
    }
    // Memory that is no descriptor leads to no code.
    stops_with(&session, KernelDispatchPacket { kernel_object: data.address, ..right }.to_bytes(), format);
}

#[test]
fn wrong_commands_stop_their_queue() {
    let session = Session::new("");
    let commands = session.kernarg_memory(4096);
    let format = HsaStatus::ERROR_INVALID_PACKET_FORMAT;
    let run = |words: &[u32], dwords| {
        let pairs = words.chunks(2).map(|pair| u64::from(pair[0]) | u64::from(*pair.get(1).unwrap_or(&0)) << 32);
        pairs.enumerate().for_each(|(index, word)| commands.store(index, word));
        Pm4IbPacket::new(Order::NONE, commands.address, dwords).expect("a packet")
    };
    // A command that is not supported, one that ends after the buffer, and no command.
    stops_with(&session, run(&[0xc002_3700, 0, 0, 0], 4).to_bytes(), format);
    stops_with(&session, run(&[0xc007_9300, 0, 0, 0], 4).to_bytes(), format);
    stops_with(&session, run(&[0x1234, 0], 2).to_bytes(), format);
    // A buffer that jumps to itself.
    let jump = Pm4IndirectBuffer::new(commands.address, 4).expect("a jump").to_bytes();
    let words: Vec<u32> = jump.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    stops_with(&session, run(&words, 4).to_bytes(), format);
    // A wait for memory that is not there.
    let wait = Pm4WaitRegMem64::until_less(Signal(8), 1, 1).expect("a command").to_bytes();
    let words: Vec<u32> = wait.as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
    stops_with(&session, run(&words, 9).to_bytes(), HsaStatus::ERROR_MEMORY_FAULT);
    // A buffer that is not there, and a packet without a jump.
    let missing = Pm4IbPacket::new(Order::NONE, 1 << 40, 4).expect("a packet");
    stops_with(&session, missing.to_bytes(), HsaStatus::ERROR_MEMORY_FAULT);
    let none = Pm4IbPacket { ib_jump_cmd: [0; 4], ..missing };
    stops_with(&session, none.to_bytes(), format);
}

#[test]
fn kernels_access_what_they_may() {
    unsafe extern "C" fn on_event(event: *const MemoryFaultEvent, data: *mut c_void) -> HsaStatus {
        // SAFETY: `data` is the counter below, and the library passes an event.
        let (seen, event) = unsafe { (&*data.cast::<AtomicU64>(), &*event) };
        seen.store(event.virtual_address, Ordering::Relaxed);
        OK
    }
    let seen = Box::leak(Box::new(AtomicU64::new(0)));
    let session = Session::new("agents=2");
    let data = (&raw const *seen).cast_mut().cast();
    assert_eq!(optional!(hsa_amd_register_system_event_handler(Some(on_event), data)), OK);
    let (_, kernel) = session.load(session.gpu());
    let kernarg = session.kernarg_memory(64);
    let fault = |data: u64| {
        let arguments = arguments(&kernarg, 0, data, 1);
        stops_with(&session, dispatch(Order::NONE, kernel, arguments, 4, Signal(0)), HsaStatus::ERROR_MEMORY_FAULT);
        seen.load(Ordering::Relaxed)
    };
    let memory = session.device_memory(4096);
    assert_eq!(fault(memory.address + 4088), memory.address + 4096, "two of four words fit");
    assert_eq!(fault(0), 0);
    assert_eq!(fault(kernel), kernel, "code is read-only");
    let of_the_other = Memory::new(session.pool(session.gpus()[1], COARSE), 64);
    assert_eq!(fault(of_the_other.address), of_the_other.address);
    let of_the_host = Memory::new(session.pool(session.cpu(), COARSE), 64);
    assert_eq!(fault(of_the_host.address), of_the_host.address);
    let freed = memory.address;
    drop(memory);
    assert_eq!(fault(freed), freed);
    let local = [0u64; 8];
    assert_eq!(fault(local.as_ptr().addr() as u64), local.as_ptr().addr() as u64);
}

#[test]
fn traps_have_a_status() {
    for (kind, status) in [
        (TrapKind::UnknownInstruction, HsaStatus::ERROR_ILLEGAL_INSTRUCTION),
        (TrapKind::Deadlock, HsaStatus::ERROR_EXCEPTION),
        (TrapKind::InvalidDispatch("why".into()), HsaStatus::ERROR_INVALID_PACKET_FORMAT),
    ] {
        let session = Session::with("", move |_| Err(Trap::new(kind.clone())));
        let (_, kernel) = session.load(session.gpu());
        let kernarg = session.kernarg_memory(64);
        stops_with(&session, dispatch(Order::NONE, kernel, kernarg.address, 32, Signal(0)), status);
    }
}

#[test]
fn kernels_without_a_barrier_bit_may_run_at_the_same_time() {
    let seen = Arc::new((std::sync::Mutex::new(Vec::new()), std::sync::Condvar::new()));
    let shared = seen.clone();
    let session = Session::with("order=overlapped", move |dispatch| {
        let (events, changed) = &*shared;
        let mut events = events.lock().unwrap();
        events.push(("begins", dispatch.packet_id));
        changed.notify_all();
        // The first one ends once all that nothing orders have begun.
        while dispatch.packet_id == 0 && !events.contains(&("ends", 2)) {
            events = changed.wait(events).unwrap();
        }
        events.push(("ends", dispatch.packet_id));
        changed.notify_all();
        Ok(())
    });
    let (_, kernel) = session.load(session.gpu());
    let (kernarg, completion) = (session.kernarg_memory(64), session.signal(4));
    let queue = Queue::new(session.gpu(), 16);
    let overlapping = dispatch(Order::NONE, kernel, kernarg.address, 32, completion);
    let ordered = dispatch(Order::SYSTEM, kernel, kernarg.address, 32, completion);
    // A second doorbell, while the first kernel runs.
    queue.submit(&[overlapping]);
    queue.submit(&[overlapping, overlapping, ordered]);
    wait(completion);
    let events = seen.0.lock().unwrap();
    assert_eq!(events[6..], [("begins", 3), ("ends", 3)], "{events:?}");
    let place = |event| events.iter().position(|seen| *seen == event);
    assert!(place(("ends", 2)) < place(("ends", 0)), "{events:?}");
}

#[test]
fn a_kernel_that_fails_stops_those_beside_it() {
    let session = Session::with("order=overlapped", |dispatch| {
        if dispatch.packet_id == 1 {
            return Err(Trap::new(TrapKind::Raised(3)));
        }
        while !dispatch.stop.requested() {
            std::thread::yield_now();
        }
        Err(Trap::new(TrapKind::Stopped))
    });
    let (_, kernel) = session.load(session.gpu());
    let kernarg = session.kernarg_memory(64);
    let packet = dispatch(Order::NONE, kernel, kernarg.address, 32, Signal(0));
    let queue = Queue::new(session.gpu(), 16);
    queue.submit(&[packet, packet, packet]);
    assert_eq!(queue.wait_for_error(), HsaStatus::ERROR_EXCEPTION);
}

#[test]
fn kernels_without_a_barrier_bit_may_run_in_the_opposite_order() {
    let order = Arc::new(std::sync::Mutex::new(Vec::new()));
    let shared = order.clone();
    let session = Session::with("order=reversed", move |dispatch| {
        shared.lock().unwrap().push(dispatch.packet_id);
        Ok(())
    });
    let (_, kernel) = session.load(session.gpu());
    let (kernarg, completion) = (session.kernarg_memory(64), session.signal(6));
    let queue = Queue::new(session.gpu(), 16);
    let overlapping = dispatch(Order::NONE, kernel, kernarg.address, 32, completion);
    let ordered = dispatch(Order::SYSTEM, kernel, kernarg.address, 32, completion);
    queue.submit(&[overlapping, overlapping, overlapping, ordered, overlapping, ordered]);
    wait(completion);
    assert_eq!(*order.lock().unwrap(), [2, 1, 0, 4, 3, 5]);
}
