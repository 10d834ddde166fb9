//! The seam to interpreters of GPU code: the packet processor gives each kernel dispatch to a [`KernelRunner`].

use std::fmt;
use std::num::NonZeroUsize;
use std::sync::OnceLock;

use vireo_gfx::{Counts, HalfSums};
use vireo_hsa::kernel_descriptor::KernelDescriptor;
use vireo_hsa::packet::KernelDispatchPacket;
use vireo_simt::{AccessHook, Memory, Stop, Trap};

/// A kernel dispatch whose packet, descriptor and address of code have been checked.
pub struct KernelDispatch<'a> {
    /// The packet.
    pub packet: &'a KernelDispatchPacket,
    /// The address of the packet, which kernels may ask for.
    pub packet_address: u64,
    /// The index of the packet in its queue.
    pub packet_id: u64,
    /// The address of the `amd_queue`.
    pub queue_address: u64,
    /// The descriptor that the packet names.
    pub descriptor: &'a KernelDescriptor,
    /// The address of the first instruction.
    pub code: u64,
    /// Bytes from there to the end of the segment that the code is in. They do not change.
    pub code_length: u64,
    /// Bytes of the segment before the first instruction, in which functions may be that the kernel calls.
    pub code_before: u64,
    /// The number of the segment, which no other one of the process has.
    pub code_segment: u64,
    /// The processor that the agent says it is, `gfx1100`.
    pub isa: &'a str,
    /// The memory that the agent may access.
    pub memory: &'a dyn Memory,
    /// How products of matrices add up 16 bits.
    pub half_sums: HalfSums,
    /// Where the runner puts what the waves executed, if that is wanted.
    pub counts: Option<&'a OnceLock<Counts>>,
    /// The sanitizer.
    pub hook: Option<&'a dyn AccessHook>,
    /// Threads that may run work-groups.
    pub threads: NonZeroUsize,
    /// Asks the kernel to stop, because its queue is destroyed.
    pub stop: &'a Stop,
}

impl fmt::Debug for KernelDispatch<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} at packet {}", self.packet, self.packet_id)
    }
}

/// Runs kernels.
pub trait KernelRunner: Send + Sync {
    /// Whether it runs code for a processor. Programs load code for others too, and are told so.
    fn runs(&self, isa: &str) -> bool {
        let _ = isa;
        true
    }

    /// Runs all work-groups of a dispatch, and returns when they have ended.
    ///
    /// # Errors
    /// Why the kernel was stopped.
    fn run(&self, dispatch: &KernelDispatch<'_>) -> Result<(), Trap>;
}
