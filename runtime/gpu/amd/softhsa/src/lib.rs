//! A software HSA agent: the functions of the HSA library, `libhsa-runtime64.so`, with GPUs that interpret their code
//! on the processor. Drivers run against it on any machine, in process ([`functions`]) or through the library of the
//! crate `vireo-softhsa-library`.
//!
//! It follows the specification of the packet processor, not the habits of one driver: [`Topology`] chooses the
//! machine, which features it lacks, and how late writes become visible. **Who checks**: this crate. Handles are looked
//! up, kernels and packets access only allocations that the agent may access, and code objects are hostile. Pointers to
//! arguments are the caller's to vouch for, as in any C library.

mod abi;
mod agents;
mod api;
mod code_object;
mod copies;
mod dispatch;
mod doorbell;
mod executable;
mod generated;
mod handlers;
mod interpreter;
mod lifecycle;
mod packet_loop;
mod pm4;
mod processor;
mod queue;
mod reports;
mod rules;
mod sanitizer;
mod signals;
mod status;
mod sync;
mod system;
mod topology;
mod trace;

pub use vireo_gfx::isa::{COUNTERS, CounterInfo};
pub use vireo_gfx::{Counts, HalfSums, listing};
use vireo_hsa::hsa_symbols::HsaFunctions;
pub use vireo_simt::sanitize;

pub use dispatch::{KernelDispatch, KernelRunner};
pub use interpreter::Interpreter;
pub use reports::{active_checks, check_result, count_kernels, take_counts, take_reports, take_warnings};
pub use system::{InUse, configure, trace_packets};
pub use topology::{Feature, HostWrites, PacketOrder, PeerLinks, Topology, TopologyError, VARIABLE};
pub use trace::{
    PacketEvent, PacketObserver, PacketOutcome, PacketPlace, PacketTrace, PacketWait, SignalChange, TraceFormat,
    TracedPacket,
};

/// All functions of the software agent.
pub const fn functions() -> HsaFunctions {
    generated::functions::FUNCTIONS
}
