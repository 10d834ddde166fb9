//! The events of a trace, which packet processors and signals tell and writers write.

use std::io;

use vireo_hsa::hsa::HsaStatus;
use vireo_hsa::packet::Packet;
use vireo_hsa::pm4::Pm4Command;

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

/// Writes events in a format.
pub(super) trait EventWriter: Send {
    fn event(&mut self, event: &PacketEvent<'_>) -> io::Result<()>;
    /// Ends the trace.
    fn finish(self: Box<Self>) -> io::Result<()>;
}

/// The title of a packet: the kernel that it runs, or its kind.
pub(super) fn title<'a>(packet: &TracedPacket<'a>) -> &'a str {
    packet.kernel.unwrap_or_else(|| packet.packet.name())
}
