//! Traces of packets: what the packet processors run and what happens to signals, told to a [`PacketObserver`] that the
//! host sets before the library starts ([`trace_packets`](crate::trace_packets)). [`PacketTrace`] is one that writes a
//! text, or the JSON that Perfetto opens.
//!
//! Without an observer a packet costs one test of a pointer, and so does a change of a signal. Functions and packets
//! are seen; what programs and kernels write to the memory of a signal themselves is not, but packets that wait say
//! which value ended the wait.

mod perfetto;
mod text;

use std::fmt;
use std::io::{self, Write};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use vireo_hsa::hsa::HsaStatus;
use vireo_hsa::packet::Packet;
use vireo_hsa::pm4::Pm4Command;

use self::perfetto::PerfettoWriter;
use self::text::TextWriter;
use crate::status::tell;

/// Where a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PacketPlace {
    /// The number of the agent.
    pub agent: u32,
    /// The number of the queue, unique in the process.
    pub queue: u64,
    /// The index of the packet in its queue.
    pub index: u64,
}

/// A packet that a packet processor has decoded.
#[derive(Clone, Copy, Debug)]
pub struct TracedPacket<'a> {
    /// Where it is.
    pub place: PacketPlace,
    /// The packet.
    pub packet: &'a Packet,
    /// The name of the kernel that it runs, if its code object has one.
    pub kernel: Option<&'a str>,
    /// When it began, in nanoseconds of the agents' clock.
    pub begin: u64,
}

/// A signal that a packet waited for, or another word in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PacketWait {
    /// The handle of the signal; 0 if the word belongs to none.
    pub signal: u64,
    /// The address of the word.
    pub address: u64,
    /// Its value when the packet began.
    pub before: i64,
    /// Its value after the wait.
    pub after: i64,
}

/// The change of a signal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignalChange {
    /// The handle of the signal.
    pub signal: u64,
    /// Its value before.
    pub before: i64,
    /// Its value after.
    pub after: i64,
}

/// How a packet ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacketOutcome<'a> {
    /// It has completed, and changed this signal.
    Completed(Option<SignalChange>),
    /// It is wrong, or its kernel trapped, and the queue stopped.
    Failed(HsaStatus, &'a str),
    /// The queue was stopped while it ran.
    Stopped,
}

/// Something that happened. Events come in the order in which they happened; those of several queues in one that is
/// possible.
#[derive(Clone, Copy, Debug)]
pub enum PacketEvent<'a> {
    /// A packet begins.
    Begin(TracedPacket<'a>),
    /// A packet has ended.
    End {
        /// The packet.
        packet: TracedPacket<'a>,
        /// When it ended, in nanoseconds.
        end: u64,
        /// The signals that it waited for.
        waits: &'a [PacketWait],
        /// The commands that it ran.
        commands: &'a [Pm4Command],
        /// How it ended.
        outcome: PacketOutcome<'a>,
    },
    /// A function, or an asynchronous copy, changed a signal.
    Signal {
        /// When, in nanoseconds.
        time: u64,
        /// The change.
        change: SignalChange,
    },
    /// A program rang the doorbell of a queue.
    Doorbell {
        /// When, in nanoseconds.
        time: u64,
        /// The number of the agent.
        agent: u32,
        /// The number of the queue.
        queue: u64,
        /// The index that it rang with.
        index: i64,
    },
}

/// The observer of packets. It must not call functions of the library, whose threads wait for it.
pub trait PacketObserver: Send + Sync + fmt::Debug {
    /// Something happened.
    fn event(&self, event: &PacketEvent<'_>);
}

/// The observer of a system, which puts changes and what is told of them into one order.
#[derive(Clone, Debug)]
pub(crate) struct Tracer {
    observer: Arc<dyn PacketObserver>,
    order: Arc<Mutex<()>>,
}

impl Tracer {
    pub(crate) fn new(observer: Arc<dyn PacketObserver>) -> Self {
        Tracer { observer, order: Arc::default() }
    }

    /// Until this is dropped no other thread changes the options of tracing.
    pub(crate) fn order(&self) -> MutexGuard<'_, ()> {
        self.order.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Tells of an event; the caller holds the order.
    pub(crate) fn tell(&self, _order: &MutexGuard<'_, ()>, event: &PacketEvent<'_>) {
        self.observer.event(event);
    }
}

/// How a trace is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum TraceFormat {
    /// A line for each packet that ended, and for each change of a signal.
    #[default]
    Text,
    /// Trace events in JSON, which Perfetto and Chrome open.
    Perfetto,
}

/// Writes events in a format.
trait EventWriter: Send {
    fn event(&mut self, event: &PacketEvent<'_>) -> io::Result<()>;
    /// Ends the trace.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// Writes a trace.
pub struct PacketTrace(Mutex<State>);

enum State {
    Writing(Box<dyn EventWriter>),
    /// The writer failed, and nothing more is written.
    Failed(io::Error),
    Finished,
}

impl fmt::Debug for PacketTrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PacketTrace")
    }
}

impl PacketTrace {
    /// A trace to a writer.
    ///
    /// # Errors
    /// Those of the writer.
    pub fn new(format: TraceFormat, out: impl Write + Send + 'static) -> io::Result<PacketTrace> {
        let writer: Box<dyn EventWriter> = match format {
            TraceFormat::Text => Box::new(TextWriter::new(out)),
            TraceFormat::Perfetto => Box::new(PerfettoWriter::new(out)?),
        };
        Ok(PacketTrace(Mutex::new(State::Writing(writer))))
    }

    /// Ends the trace: later events are not written.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn finish(&self) -> io::Result<()> {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Finished) {
            State::Writing(writer) => writer.finish(),
            State::Failed(error) => Err(error),
            State::Finished => Ok(()),
        }
    }
}

impl PacketObserver for PacketTrace {
    fn event(&self, event: &PacketEvent<'_>) {
        let mut state = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let State::Writing(writer) = &mut *state
            && let Err(error) = writer.event(event)
        {
            *state = State::Failed(error);
        }
    }
}

impl Drop for PacketTrace {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tell(format_args!("the trace of packets is not complete: {error}"));
        }
    }
}

/// Numbers of signals and queues by their addresses, in the order in which they are seen, so that traces of equal runs
/// are equal.
#[derive(Debug, Default)]
struct Numbers(std::collections::HashMap<u64, usize>);

impl Numbers {
    fn of(&mut self, address: u64) -> usize {
        let next = self.0.len() + 1;
        *self.0.entry(address).or_insert(next)
    }
}

/// The title of a packet: the kernel that it runs, or its kind.
fn title<'a>(packet: &TracedPacket<'a>) -> &'a str {
    packet.kernel.unwrap_or_else(|| packet.packet.name())
}
