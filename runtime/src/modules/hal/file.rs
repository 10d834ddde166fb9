//! `hal.file`: for now a range of a VM buffer that queues read from.

use std::sync::Arc;

use super::convert::{bytes, import};
use crate::hal::{
    Buffer, BufferParams, BufferUsage, Device, MemoryAccess, MemoryType, WHOLE_BUFFER, buffer_write, check_range,
};
use crate::vm::{Buffer as VmBuffer, Obj, Object};
use crate::{Result, Status};

/// A read-only file whose contents are a range of a VM buffer.
pub struct File {
    buffer: Obj<VmBuffer>,
    offset: u64,
    length: u64,
}

impl Object for File {
    const TYPE_NAME: &'static str = "hal.file";
}

impl File {
    /// A file with the bytes from `offset` on. A length of [`WHOLE_BUFFER`] means all that follow.
    pub fn from_memory(buffer: Obj<VmBuffer>, offset: u64, length: u64) -> Result<File> {
        let length = check_range(buffer.len() as u64, offset, length)?;
        Ok(File { buffer, offset, length })
    }

    /// A buffer that `device` can copy from, with `length` bytes at `offset`: the memory itself if the device can use it in place, else
    /// a copy.
    pub fn as_buffer(&self, device: &dyn Device, offset: u64, length: u64) -> Result<Arc<dyn Buffer>> {
        if length == WHOLE_BUFFER {
            return Err(Status::invalid_argument("a read from a file needs a length"));
        }
        check_range(self.length, offset, length)?;
        let offset = self.offset + offset;
        let allocator = device.allocator();
        let params = BufferParams {
            usage: BufferUsage::TRANSFER_SOURCE,
            access: MemoryAccess::READ,
            memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
            ..BufferParams::default()
        };
        // SAFETY: the parameters allow reading only.
        let imported = unsafe { import(&*allocator, params, &self.buffer, offset, length) };
        imported.or_else(|_| {
            let params = BufferParams { access: MemoryAccess::ALL, ..params };
            let params = BufferParams { usage: params.usage | BufferUsage::MAPPING, ..params };
            let copy = allocator.allocate_buffer(params, length)?;
            buffer_write(&*copy, 0, &bytes(&self.buffer, offset, length)?)?;
            Ok(copy)
        })
    }
}
