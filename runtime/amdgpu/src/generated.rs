//! The fence: everything that the build script generates from `spec/` enters the crate here, and only here.

/// Blocks and records of command buffers.
pub mod command_buffer {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/command_buffer.rs"));
}

/// Types of the HSA library.
pub mod hsa {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/hsa.rs"));
}

/// Functions of the HSA library.
pub mod hsa_symbols {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/hsa_symbols.rs"));
}

/// Implicit arguments of kernels.
pub mod kernarg {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/kernarg.rs"));
}

/// The descriptor of a kernel.
pub mod kernel_descriptor {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/kernel_descriptor.rs"));
}

/// Packets of queues.
pub mod packet {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/packet.rs"));
}

/// Commands of indirect buffers.
pub mod pm4 {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/pm4.rs"));
}

/// Queues.
pub mod queue {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/queue.rs"));
}

/// Signals.
pub mod signal {
    include!(concat!(env!("OUT_DIR"), "/amdgpu/signal.rs"));
}
