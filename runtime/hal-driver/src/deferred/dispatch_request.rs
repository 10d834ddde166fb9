//! A dispatch as the caller passes it, which recorders record.

use std::sync::Arc;

use crate::hal::host_kernels::Grid;
use crate::hal::{BufferRef, DispatchConfig, DispatchFlags, Executable, ExecutableFunction};

/// A dispatch as the caller passes it.
#[derive(Clone, Copy, Debug)]
pub struct DispatchRequest<'a> {
    /// The executable.
    pub executable: &'a Arc<dyn Executable>,
    /// Which of its functions.
    pub function: ExecutableFunction,
    /// The size, or a reference to it.
    pub config: &'a DispatchConfig,
    /// Constants of 32 bits.
    pub constants: &'a [u32],
    /// Bindings.
    pub bindings: &'a [BufferRef],
    /// Flags of the dispatch.
    pub flags: DispatchFlags,
}

impl DispatchRequest<'_> {
    /// The range with the workgroup counts, if they are read from a buffer.
    pub fn indirect(&self) -> Option<&BufferRef> {
        let indirect = DispatchFlags::DYNAMIC_INDIRECT_PARAMETERS | DispatchFlags::STATIC_INDIRECT_PARAMETERS;
        self.flags.intersects(indirect).then_some(&self.config.workgroup_count_ref)
    }

    /// The size; the counts are zero if they are read from a buffer.
    pub fn grid(&self) -> Grid {
        Grid {
            size: self.config.workgroup_size,
            count: if self.indirect().is_some() { [0; 3] } else { self.config.workgroup_count },
            local_memory: self.config.dynamic_workgroup_local_memory,
        }
    }
}
