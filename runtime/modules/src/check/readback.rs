//! Readback of tensors: copies the contents of a view to the host, through the device if the host cannot map the
//! buffer.

use crate::{Result, Status};
use vireo_hal::{
    Buffer, BufferParams, BufferUsage, BufferView, CopyFlags, Device, Fence, MemoryAccess, MemoryType, QueueAffinity,
    SemaphoreFlags, buffer_to_vec,
};

/// A copy of the elements. A buffer that the host cannot map is copied by the device that the program names.
pub fn contents(device: Option<&dyn Device>, view: &BufferView) -> Result<Vec<u8>> {
    let buffer = view.buffer();
    if is_mappable(&**buffer) {
        return view.to_vec();
    }
    let device = device.ok_or_else(|| {
        Status::failed_precondition(
            "the host cannot map the buffer of the tensor, and no device is given that could copy it",
        )
    })?;
    let params = BufferParams {
        usage: BufferUsage::TRANSFER | BufferUsage::MAPPING,
        access: MemoryAccess::ALL,
        memory_type: MemoryType::HOST_LOCAL | MemoryType::DEVICE_VISIBLE,
        ..BufferParams::default()
    };
    let length = view.byte_length();
    let staging = device.allocator().allocate_buffer(params, length)?;
    let semaphore = device.create_semaphore(QueueAffinity::ANY, 0, SemaphoreFlags::default())?;
    let done = Fence::at(semaphore, 1);
    // The program has waited for the tensor before it calls the check.
    let flags = CopyFlags::default();
    device.queue_copy(QueueAffinity::ANY, &[], done.timepoints(), buffer, 0, &staging, 0, length, flags)?;
    done.wait(None)?;
    buffer_to_vec(&*staging, length)
}

fn is_mappable(buffer: &dyn Buffer) -> bool {
    buffer.memory_type().contains(MemoryType::HOST_VISIBLE)
        && buffer.allowed_usage().contains(BufferUsage::MAPPING_SCOPED)
}
