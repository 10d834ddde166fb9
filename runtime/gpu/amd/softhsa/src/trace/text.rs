//! A trace as text: a line for each packet when it has ended, for each change of a signal and each doorbell. Times are
//! in microseconds; signals are numbered as they are first seen, and addresses are left out, so two runs that do the
//! same have the same text but for the times.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{self, Write};

use vireo_hsa::packet::{FenceScope, Packet};
use vireo_hsa::pm4::Pm4Command;
use vireo_soft::trace::Numbers;

use super::event::{EventWriter, PacketEvent, PacketOutcome, PacketPlace, PacketWait, SignalChange, TracedPacket};

/// Writes the text.
pub(super) struct TextWriter<W> {
    out: W,
    signals: Numbers,
    /// The packets that have begun and not ended: of a program that waits for ever, those that it waits for.
    running: BTreeMap<PacketPlace, String>,
}

impl<W: Write> TextWriter<W> {
    pub(super) fn new(out: W) -> Self {
        TextWriter { out, signals: Numbers::default(), running: BTreeMap::new() }
    }

    fn change(&mut self, change: &SignalChange) -> String {
        format!("signal#{} {} -> {}", self.signals.of(change.signal), change.before, change.after)
    }
}

impl<W: Write + Send> EventWriter for TextWriter<W> {
    fn event(&mut self, event: &PacketEvent<'_>) -> io::Result<()> {
        match event {
            PacketEvent::Begin(packet) => {
                let line = format!("{} {}", time(packet.begin), described(packet, &mut self.signals));
                self.running.insert(packet.place, line);
                Ok(())
            }
            PacketEvent::End { packet, end, waits, commands, outcome } => {
                self.running.remove(&packet.place);
                let mut line = described(packet, &mut self.signals);
                for command in *commands {
                    let _ = write!(line, ", ran {}", command_text(command));
                }
                for wait in *waits {
                    let _ = write!(line, ", waited for {}", waited(wait, &mut self.signals));
                }
                match outcome {
                    PacketOutcome::Completed(None) => {}
                    PacketOutcome::Completed(Some(change)) => {
                        let _ = write!(line, ", completed {}", self.change(change));
                    }
                    PacketOutcome::Failed(status, what) => {
                        let _ = write!(line, ", failed with {status:?}: {what}");
                    }
                    PacketOutcome::Stopped => line.push_str(", stopped"),
                }
                let took = end.saturating_sub(packet.begin);
                writeln!(self.out, "{} +{}.{:03} {line}", time(packet.begin), took / 1000, took % 1000)
            }
            PacketEvent::Signal { time, change } => {
                let change = self.change(change);
                writeln!(self.out, "{} {change}", self::time(*time))
            }
            PacketEvent::Doorbell { time, queue, index, .. } => {
                writeln!(self.out, "{} queue {queue}: doorbell {index}", self::time(*time))
            }
        }
    }

    fn finish(mut self: Box<Self>) -> io::Result<()> {
        for line in self.running.values() {
            writeln!(self.out, "{line}, has not ended")?;
        }
        self.out.flush()
    }
}

fn time(nanoseconds: u64) -> String {
    format!("{}.{:03}", nanoseconds / 1000, nanoseconds % 1000)
}

/// A packet with its kind, kernel, grid and order.
fn described(packet: &TracedPacket<'_>, signals: &mut Numbers) -> String {
    let PacketPlace { queue, index, .. } = packet.place;
    let mut line = format!("queue {queue} packet {index}: {}", packet.packet.name());
    if let Packet::KernelDispatch(dispatch) = packet.packet {
        let name = packet.kernel.unwrap_or("(a kernel without a name)");
        let (grid, group) = (dispatch.grid_size, dispatch.workgroup_size);
        let _ = write!(line, " {name} grid={grid:?} workgroup={group:?}");
        for (what, bytes) in [("lds", dispatch.group_segment_size), ("scratch", dispatch.private_segment_size)] {
            if bytes != 0 {
                let _ = write!(line, " {what}={bytes}");
            }
        }
    }
    let header = packet.packet.header();
    if header.barrier() {
        line.push_str(" barrier");
    }
    for (what, scope) in [("acquire", header.acquire_fence_scope()), ("release", header.release_fence_scope())] {
        if scope != FenceScope::NONE {
            let _ = write!(line, " {what}={scope:?}");
        }
    }
    let completion = packet.packet.completion_signal();
    if completion.0 != 0 {
        let _ = write!(line, " completion=signal#{}", signals.of(completion.0));
    }
    line
}

/// A command without its addresses.
fn command_text(command: &Pm4Command) -> String {
    match command {
        Pm4Command::WaitRegMem64(wait) => {
            let [reference, mask] = [(wait.reference_low, wait.reference_high), (wait.mask_low, wait.mask_high)]
                .map(|(low, high)| u64::from(high) << 32 | u64::from(low));
            format!("wait_reg_mem64(& {mask:#x} {:?} {reference:#x})", wait.control.compare())
        }
        Pm4Command::IndirectBuffer(jump) => format!("indirect_buffer({} dwords)", jump.size.dwords()),
    }
}

fn waited(wait: &PacketWait, signals: &mut Numbers) -> String {
    let word = match wait.signal {
        0 => "memory".to_string(),
        signal => format!("signal#{}", signals.of(signal)),
    };
    format!("{word} {} -> {}", wait.before, wait.after)
}
