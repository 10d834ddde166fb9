//! Accesses of queue operations to memory ([`Access`]): the parts of the generated `QueueOperation::accesses`. Those
//! who record, replay or check operations ask for it, so that they need not know each operation.

use std::sync::Arc;

use super::{
    Buffer, BufferBinding, BufferRef, CommandBuffer, DispatchConfig, File, HostCall, MemoryAccess, WHOLE_BUFFER,
};

/// An object that an operation uses.
#[derive(Clone, Copy, Debug)]
pub enum Accessed<'a> {
    /// A buffer.
    Buffer(&'a Arc<dyn Buffer>),
    /// A file.
    File(&'a Arc<dyn File>),
    /// Commands, which use what was recorded in them.
    CommandBuffer(&'a Arc<dyn CommandBuffer>),
    /// A function of the host, which may use anything.
    HostCall(&'a Arc<dyn HostCall>),
}

/// An access of an operation to a range of an object.
#[derive(Clone, Copy, Debug)]
pub struct Access<'a> {
    /// The object.
    pub object: Accessed<'a>,
    /// The first byte.
    pub offset: u64,
    /// Bytes. They may be past the end of the object: the operation fails then.
    pub length: u64,
    /// The kinds of access. `ANY` is that of an object which alone knows what it uses.
    pub access: MemoryAccess,
}

impl<'a> Accessed<'a> {
    /// Bytes from an offset to the end.
    pub(crate) fn left(self, offset: u64) -> u64 {
        let length = match self {
            Accessed::Buffer(buffer) => buffer.byte_length(),
            Accessed::File(file) => file.length(),
            Accessed::CommandBuffer(_) | Accessed::HostCall(_) => 0,
        };
        length.saturating_sub(offset)
    }

    /// An access to a range.
    pub(crate) fn range(self, offset: u64, length: u64, access: MemoryAccess) -> Access<'a> {
        Access { object: self, offset, length, access }
    }

    /// An access to all of it.
    pub(crate) fn whole(self, access: MemoryAccess) -> Access<'a> {
        self.range(0, self.left(0), access)
    }
}

/// The length, or the least of what is left where it stands for all there is: an operation with another one fails.
pub(crate) fn known_length(length: u64, left: &[u64]) -> u64 {
    match length {
        WHOLE_BUFFER => left.iter().copied().min().unwrap_or(0),
        length => length,
    }
}

/// The range of a buffer, if there is one.
fn push<'a>(
    buffer: Option<&'a Arc<dyn Buffer>>,
    (offset, length): (u64, u64),
    access: MemoryAccess,
    accesses: &mut Vec<Access<'a>>,
) {
    let Some(buffer) = buffer else { return };
    let (object, allowed) = (Accessed::Buffer(buffer), buffer.allowed_access());
    // Kernels that write to what may only be read are refused, or never told that they could.
    let access = if allowed.contains(MemoryAccess::ANY) { access } else { access & allowed };
    accesses.push(object.range(offset, known_length(length, &[object.left(offset)]), access));
}

impl BufferRef {
    /// Adds an access to its range. What is bound to a slot is in the binding table.
    pub(crate) fn accessed<'a>(&'a self, access: MemoryAccess, accesses: &mut Vec<Access<'a>>) {
        push(self.buffer.as_ref(), (self.offset, self.length), access, accesses);
    }
}

impl BufferBinding {
    /// Adds an access to its range.
    pub(crate) fn accessed<'a>(&'a self, access: MemoryAccess, accesses: &mut Vec<Access<'a>>) {
        push(self.buffer.as_ref(), (self.offset, self.length), access, accesses);
    }
}

impl DispatchConfig {
    /// Adds an access to where workgroup counts are read from.
    pub(crate) fn accessed<'a>(&'a self, access: MemoryAccess, accesses: &mut Vec<Access<'a>>) {
        self.workgroup_count_ref.accessed(access, accesses);
    }
}
