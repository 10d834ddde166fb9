//! Traces of packets: the text of a small program with its times masked, and the JSON of the same program.

use std::io::{self, Write};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};

use serde_json::Value;
use vireo_hsa::hsa::HsaStatus;
use vireo_hsa::packet::*;
use vireo_hsa::packets::Order;
use vireo_hsa::pm4::Pm4WaitRegMem64;
use vireo_hsa::signal::{Signal, SignalCondition};
use vireo_softhsa::{PacketEvent, PacketObserver, PacketTrace, TraceFormat};

use crate::support::*;

/// The text of a trace.
#[derive(Clone, Debug, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Hands events on, and says which packets have begun.
#[derive(Debug)]
struct Observer {
    trace: PacketTrace,
    begun: Sender<u64>,
}

impl PacketObserver for Observer {
    fn event(&self, event: &PacketEvent<'_>) {
        self.trace.event(event);
        if let PacketEvent::Begin(packet) = event {
            self.begun.send(packet.place.index).unwrap();
        }
    }
}

/// Runs a program with packets of all kinds, of which the last one is refused, and returns its trace.
fn traced(format: TraceFormat) -> String {
    let written = Written::default();
    let (begun, beginnings) = channel();
    let trace = PacketTrace::new(format, written.clone()).unwrap();
    let observer = Arc::new(Observer { trace, begun });
    let session = Session::observed("", observer.clone());
    let (_, kernel) = session.load(session.gpu());
    let (data, kernarg) = (session.device_memory(4096), session.kernarg_memory(4096));
    let queue = Queue::new(session.gpu(), 16);
    let first = session.signal(1);
    let arguments = arguments(&kernarg, 0, data.address, 100);
    queue.submit(&[dispatch(Order::SYSTEM, kernel, arguments, 64, first)]);
    wait(first);

    // The host opens the barrier once it has begun.
    let (gate, second) = (session.signal(1), session.signal(1));
    let barrier = BarrierAndPacket::new(Order::NONE, [gate, first, Signal(0), Signal(0), Signal(0)]).unwrap();
    queue.submit(&[BarrierAndPacket { completion_signal: second, ..barrier }.to_bytes()]);
    while beginnings.recv().unwrap() != 1 {}
    hsa!(hsa_signal_store_screlease(gate, 0));
    wait(second);

    // Packets whose waits are over when they begin.
    let commands = Pm4WaitRegMem64::until_less(gate, u64::MAX, 1).unwrap().to_bytes();
    for (index, bytes) in commands.as_chunks::<4>().0.iter().enumerate() {
        let shift = 32 * (index % 2);
        let word = kernarg.load(64 + index / 2) & !(0xffff_ffff << shift);
        kernarg.store(64 + index / 2, word | u64::from(u32::from_le_bytes(*bytes)) << shift);
    }
    let third = session.signal(7);
    let ready = BarrierValuePacket::new(Order::NONE, third, 3, SignalCondition::GTE, 2).unwrap();
    let any = BarrierOrPacket::new(Order::NONE, [gate, third, Signal(0), Signal(0), Signal(0)]).unwrap();
    let buffer = Pm4IbPacket::new(Order::NONE, kernarg.address + 512, commands.len() as u32 / 4).unwrap();
    let last = Pm4IbPacket { completion_signal: third, ..buffer };
    queue.submit(&[ready.to_bytes(), any.to_bytes(), last.to_bytes()]);
    hsa!(hsa_signal_wait_scacquire(third, SignalCondition::LT, 7, u64::MAX, Default::default()));
    queue.submit(&[AgentDispatchPacket::new(Order::NONE, 3, [0; 4], 0).unwrap().to_bytes()]);
    assert_eq!(queue.wait_for_error(), HsaStatus::ERROR_INVALID_PACKET_FORMAT);
    drop((queue, data, kernarg));
    drop(session);
    observer.trace.finish().unwrap();
    let bytes = written.0.lock().unwrap().clone();
    String::from_utf8(bytes).unwrap()
}

/// A line with its times replaced.
fn masked(line: &str) -> String {
    let is_time = |word: &str| {
        let number = word.strip_prefix('+').unwrap_or(word);
        number.split_once('.').is_some_and(|(whole, part)| {
            part.len() == 3 && [whole, part].iter().all(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()))
        })
    };
    let words = line.split(' ').map(|word| match is_time(word) {
        true if word.starts_with('+') => "+T",
        true => "T",
        false => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test]
fn the_text_of_a_program() {
    let text = traced(TraceFormat::Text);
    let lines: Vec<String> = text.lines().map(masked).collect();
    let expected = [
        "T queue 1: doorbell 0",
        "T +T queue 1 packet 0: kernel_dispatch store grid=[64, 1, 1] workgroup=[32, 1, 1] barrier acquire=system \
         release=system completion=signal#1, completed signal#1 1 -> 0",
        "T queue 1: doorbell 1",
        "T signal#3 1 -> 0",
        "T +T queue 1 packet 1: barrier_and completion=signal#2, waited for signal#3 1 -> 0, waited for signal#1 0 -> 0, \
         completed signal#2 1 -> 0",
        "T queue 1: doorbell 4",
        "T +T queue 1 packet 2: barrier_value, waited for signal#4 7 -> 7",
        "T +T queue 1 packet 3: barrier_or, waited for signal#3 0 -> 0, waited for signal#4 7 -> 7",
        "T +T queue 1 packet 4: pm4_ib completion=signal#4, ran wait_reg_mem64(& 0xffffffffffffffff less 0x1), waited for \
         signal#3 0 -> 0, completed signal#4 7 -> 6",
        "T queue 1: doorbell 5",
        "T +T queue 1 packet 5: agent_dispatch, failed with error_invalid_packet_format: GPUs have no functions for agent \
         dispatches",
    ];
    assert_eq!(lines, expected, "{text}");
}

#[test]
fn the_json_of_a_program_has_an_end_for_each_beginning() {
    let trace: Value = serde_json::from_str(&traced(TraceFormat::Perfetto)).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let mut open: Vec<(&Value, f64)> = Vec::new();
    let mut slices = Vec::new();
    let (mut counters, mut doorbells) = (0, 0);
    for event in events {
        let time = || event["ts"].as_f64().unwrap();
        match event["ph"].as_str().unwrap() {
            "B" => open.push((event, time())),
            "E" => {
                let (begin, from) = open.pop().expect("a slice that has begun");
                assert!(["pid", "tid", "name"].iter().all(|key| begin[*key] == event[*key]), "{begin} {event}");
                assert!(from <= time(), "{begin} {event}");
                slices.push(begin);
            }
            "C" => counters += 1,
            "i" => doorbells += 1,
            "M" => assert!(event["args"]["name"].is_string()),
            other => panic!("{other}"),
        }
    }
    assert!(open.is_empty());
    let names: Vec<&str> = slices.iter().map(|slice| slice["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["store", "barrier_and", "barrier_value", "barrier_or", "pm4_ib", "agent_dispatch"]);
    assert_eq!((counters, doorbells), (4, 4));
    assert_eq!(slices[0]["args"]["grid"], "[64, 1, 1]");
    assert_eq!(slices[1]["args"]["waited for"], "signal#3 1 -> 0; signal#1 0 -> 0");
    assert!(slices[4]["args"]["commands"].as_str().unwrap().starts_with("pm4_wait_reg_mem64{header="));
    assert!(slices[5]["args"]["failed"].as_str().unwrap().starts_with("error_invalid_packet_format"));
}

/// Programs that load the library ask for a trace with the text that describes the machine.
#[test]
fn the_machine_names_a_file() {
    let folder = std::env::temp_dir().join(format!("softhsa-trace-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    for (name, is_json) in [("a.txt", false), ("a.json", true)] {
        let path = folder.join(name);
        let session = Session::new(&format!("trace={}", path.display()));
        let queue = Queue::new(session.gpu(), 16);
        let completion = session.signal(1);
        let packet = BarrierAndPacket::new(Order::NONE, [Signal(0); 5]).unwrap();
        queue.submit(&[BarrierAndPacket { completion_signal: completion, ..packet }.to_bytes()]);
        wait(completion);
        // The packet is there before the library is shut down, which a program may never do, and before later changes
        // of signals.
        hsa!(hsa_signal_store_relaxed(completion, 0));
        assert!(std::fs::read_to_string(&path).unwrap().contains("barrier_and"), "{name}");
        drop((queue, session));
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(serde_json::from_str::<Value>(&text).is_ok(), is_json, "{text}");
        assert!(text.contains("barrier_and"), "{text}");
    }
    std::fs::remove_dir_all(&folder).unwrap();
}
