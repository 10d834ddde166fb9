//! A trace as JSON that Perfetto opens: a process for each agent with a track for each queue, and a counter for each
//! signal.

use std::collections::HashSet;
use std::io::{self, Write};

use vireo_core::trace_events::{Argument, TraceEvents, Track};
use vireo_hsa::packet::Packet;
use vireo_soft::trace::Numbers;

use super::event::{EventWriter, PacketEvent, PacketOutcome, SignalChange, title};

/// The process of counters; agents that have queues have higher numbers.
const SIGNALS: u32 = 0;

/// Writes the JSON.
pub(super) struct PerfettoWriter<W: Write> {
    events: TraceEvents<W>,
    signals: Numbers,
    named: HashSet<Track>,
}

impl<W: Write> PerfettoWriter<W> {
    pub(super) fn new(out: W) -> io::Result<Self> {
        let mut events = TraceEvents::new(out)?;
        events.name_process(SIGNALS, "signals")?;
        Ok(PerfettoWriter { events, signals: Numbers::default(), named: HashSet::new() })
    }

    /// The track of a queue, which is named when it is first used.
    fn track(&mut self, agent: u32, queue: u64) -> io::Result<Track> {
        // Numbers of queues count from 1; no run creates as many as would wrap.
        let track = Track { process: agent, thread: queue as u32 };
        if self.named.insert(track) {
            if self.named.iter().filter(|named| named.process == agent).count() == 1 {
                self.events.name_process(agent, &format!("agent {agent}"))?;
            }
            self.events.name_track(track, &format!("queue {queue}"))?;
        }
        Ok(track)
    }

    fn change(&mut self, time: u64, change: &SignalChange) -> io::Result<()> {
        let name = format!("signal#{}", self.signals.of(change.signal));
        self.events.counter(SIGNALS, &name, time, change.after)
    }
}

impl<W: Write + Send> EventWriter for PerfettoWriter<W> {
    fn event(&mut self, event: &PacketEvent<'_>) -> io::Result<()> {
        match event {
            // A slice is written when it ends, so every beginning has its end. Signals have the numbers that the text
            // gives them.
            PacketEvent::Begin(packet) => {
                if packet.packet.completion_signal().0 != 0 {
                    self.signals.of(packet.packet.completion_signal().0);
                }
                Ok(())
            }
            PacketEvent::End { packet, end, waits, commands, outcome } => {
                let track = self.track(packet.place.agent, packet.place.queue)?;
                let mut texts = vec![("packet", packet.packet.to_string())];
                if let Packet::KernelDispatch(dispatch) = packet.packet {
                    texts.push(("grid", format!("{:?}", dispatch.grid_size)));
                    texts.push(("workgroup", format!("{:?}", dispatch.workgroup_size)));
                }
                let mut list = |name, items: Vec<String>| {
                    if !items.is_empty() {
                        texts.push((name, items.join("; ")));
                    }
                };
                let signals = &mut self.signals;
                let waited = waits.iter().map(|wait| {
                    let word = match wait.signal {
                        0 => format!("{:#x}", wait.address),
                        signal => format!("signal#{}", signals.of(signal)),
                    };
                    format!("{word} {} -> {}", wait.before, wait.after)
                });
                list("waited for", waited.collect());
                list("commands", commands.iter().map(ToString::to_string).collect());
                match outcome {
                    PacketOutcome::Completed(None) => {}
                    PacketOutcome::Completed(Some(change)) => {
                        let number = self.signals.of(change.signal);
                        texts.push(("completion", format!("signal#{number} {} -> {}", change.before, change.after)));
                    }
                    PacketOutcome::Failed(status, what) => texts.push(("failed", format!("{status:?}: {what}"))),
                    PacketOutcome::Stopped => texts.push(("stopped", "the queue was stopped".to_string())),
                }
                let mut arguments = vec![("index", Argument::Number(packet.place.index as i64))];
                arguments.extend(texts.iter().map(|(name, text)| (*name, Argument::Text(text))));
                self.events.slice(track, title(packet), (packet.begin, *end), &arguments)?;
                match outcome {
                    PacketOutcome::Completed(Some(change)) => self.change(*end, change),
                    _ => Ok(()),
                }
            }
            PacketEvent::Signal { time, change } => self.change(*time, change),
            PacketEvent::Doorbell { time, agent, queue, index } => {
                let track = self.track(*agent, *queue)?;
                self.events.mark(track, "doorbell", *time, &[("index", Argument::Number(*index))])
            }
        }
    }

    fn finish(self: Box<Self>) -> io::Result<()> {
        self.events.finish().map(drop)
    }
}
