//! Traces of packets: what the packet processors run and what happens to signals, told to a [`PacketObserver`] that the
//! host sets before the library starts ([`trace_packets`](crate::trace_packets)). [`PacketTrace`] is one that writes a
//! text, or the JSON that Perfetto opens.
//!
//! Without an observer a packet costs one test of a pointer, and so does a change of a signal. Functions and packets
//! are seen; what programs and kernels write to the memory of a signal themselves is not, but packets that wait say
//! which value ended the wait.

mod event;
mod perfetto;
mod text;

use std::fmt;
use std::io::{self, Write};

use vireo_soft::trace::WrittenTrace;

pub use event::{PacketEvent, PacketOutcome, PacketPlace, PacketWait, SignalChange, TracedPacket};
pub use vireo_soft::trace::TraceFormat;

use self::event::EventWriter;
use self::perfetto::PerfettoWriter;
use self::text::TextWriter;
use crate::status::tell;

/// The observer of packets. It must not call functions of the library, whose threads wait for it.
pub trait PacketObserver: Send + Sync + fmt::Debug {
    /// Something happened.
    fn event(&self, event: &PacketEvent<'_>);
}

/// The observer of a system, with the order of changes.
pub(crate) type Tracer = vireo_soft::trace::Tracer<dyn PacketObserver>;

/// Writes a trace: as text a line for each packet that ended, and for each change of a signal.
pub struct PacketTrace(WrittenTrace<dyn EventWriter>);

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
        Ok(PacketTrace(WrittenTrace::new(writer)))
    }

    /// Ends the trace: later events are not written.
    ///
    /// # Errors
    /// The first error of the writer.
    pub fn finish(&self) -> io::Result<()> {
        self.0.finish(EventWriter::finish)
    }
}

impl PacketObserver for PacketTrace {
    fn event(&self, event: &PacketEvent<'_>) {
        self.0.write(|writer| writer.event(event));
    }
}

impl Drop for PacketTrace {
    fn drop(&mut self) {
        if let Err(error) = self.finish() {
            tell(format_args!("the trace of packets is not complete: {error}"));
        }
    }
}
