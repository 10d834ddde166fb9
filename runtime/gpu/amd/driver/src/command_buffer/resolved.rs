//! Types of executions: the addresses of one ([`Resolved`]), and its packets ([`PacketBytes`]).

use vireo_hsa::packet::PACKET_SIZE;

use crate::hal_driver::references;
use crate::memory::AgentMask;

/// The addresses of an execution.
pub type Resolved = references::Resolved<AgentMask>;

/// Bytes of a packet.
pub type PacketBytes = [u8; PACKET_SIZE as usize];
