//! Attributes of addresses.

use std::ffi::c_void;

use vireo_cuda::attributes::PointerAttribute;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{MEM_ACCESS_READ_WRITE, MemoryType};

use crate::api::Outcome;
use crate::memory::{Detail, Sort};
use crate::system::{System, system};

/// Attributes at most of one call.
const MAX_ATTRIBUTES: u32 = 64;

/// A value of an attribute, with the bytes that it has in C.
enum Value {
    Bool(bool),
    Int(u32),
    Word(u64),
}

impl Value {
    /// Puts the value.
    ///
    /// # Safety
    /// The pointer is writable for the bytes of the value.
    unsafe fn put(&self, to: *mut c_void) {
        // SAFETY: the caller vouches for it.
        unsafe {
            match self {
                Value::Bool(value) => to.cast::<u8>().write(u8::from(*value)),
                Value::Int(value) => to.cast::<u32>().write_unaligned(*value),
                Value::Word(value) => to.cast::<u64>().write_unaligned(*value),
            }
        }
    }
}

fn value(system: &System, attribute: PointerAttribute, address: u64, found: (u64, Detail)) -> Outcome<Value> {
    let (start, detail) = found;
    let is_host = detail.sort.is_host();
    Ok(match attribute {
        PointerAttribute::CONTEXT => Value::Word(detail.context),
        PointerAttribute::MEMORY_TYPE if is_host => Value::Int(MemoryType::HOST.0),
        PointerAttribute::MEMORY_TYPE => Value::Int(MemoryType::DEVICE.0),
        PointerAttribute::DEVICE_POINTER => Value::Word(address),
        PointerAttribute::HOST_POINTER if is_host || detail.sort == Sort::Managed => Value::Word(address),
        PointerAttribute::HOST_POINTER => return Err(CuResult::ERROR_INVALID_VALUE),
        PointerAttribute::SYNC_MEMOPS => Value::Int(0),
        PointerAttribute::BUFFER_ID => {
            let allocation = system.memory.range(start, 1).ok_or(CuResult::ERROR_INVALID_VALUE)?;
            Value::Word(allocation.id + 1)
        }
        PointerAttribute::IS_MANAGED => Value::Bool(detail.sort == Sort::Managed),
        PointerAttribute::DEVICE_ORDINAL => Value::Int(detail.device),
        PointerAttribute::IS_LEGACY_CUDA_IPC_CAPABLE | PointerAttribute::IS_GPU_DIRECT_RDMA_CAPABLE => {
            Value::Bool(false)
        }
        PointerAttribute::RANGE_START_ADDR => Value::Word(start),
        PointerAttribute::RANGE_SIZE => Value::Word(detail.size),
        PointerAttribute::MAPPED => Value::Bool(true),
        PointerAttribute::ALLOWED_HANDLE_TYPES => Value::Word(0),
        PointerAttribute::ACCESS_FLAGS => Value::Int(MEM_ACCESS_READ_WRITE),
        PointerAttribute::MEMPOOL_HANDLE => Value::Word(detail.pool),
        _ if attribute.name().is_some() => return Err(CuResult::ERROR_NOT_SUPPORTED),
        _ => return Err(CuResult::ERROR_INVALID_VALUE),
    })
}

pub(crate) unsafe fn cuPointerGetAttribute(data: *mut c_void, attribute: PointerAttribute, address: u64) -> Outcome {
    let system = system()?;
    if data.is_null() {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let found = system.memory.find(address).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    let value = value(system, attribute, address, found)?;
    // SAFETY: the caller guarantees the bytes of the attribute.
    unsafe { value.put(data) };
    Ok(())
}

pub(crate) unsafe fn cuPointerGetAttributes(
    count: u32,
    attributes: *mut PointerAttribute,
    data: *mut *mut c_void,
    address: u64,
) -> Outcome {
    let system = system()?;
    if attributes.is_null() || data.is_null() || count > MAX_ATTRIBUTES {
        return Err(CuResult::ERROR_INVALID_VALUE);
    }
    let found = system.memory.find(address);
    for index in 0..count as usize {
        // SAFETY: the caller guarantees as many elements as it says.
        let (attribute, to) = unsafe { (attributes.add(index).read_unaligned(), data.add(index).read_unaligned()) };
        if to.is_null() {
            return Err(CuResult::ERROR_INVALID_VALUE);
        }
        // Of an address that is not known, all attributes are zero. Those of one byte have a byte for that.
        let value = match found {
            Some(found) => value(system, attribute, address, found).unwrap_or(Value::Bool(false)),
            None => match attribute {
                PointerAttribute::CONTEXT
                | PointerAttribute::DEVICE_POINTER
                | PointerAttribute::HOST_POINTER
                | PointerAttribute::RANGE_START_ADDR
                | PointerAttribute::RANGE_SIZE
                | PointerAttribute::MEMPOOL_HANDLE => Value::Word(0),
                PointerAttribute::DEVICE_ORDINAL => Value::Int(u32::MAX - 1),
                PointerAttribute::MEMORY_TYPE => Value::Int(0),
                _ => Value::Bool(false),
            },
        };
        // SAFETY: the caller guarantees the bytes of each attribute.
        unsafe { value.put(to) };
    }
    Ok(())
}

pub(crate) unsafe fn cuPointerSetAttribute(value: *const c_void, attribute: PointerAttribute, address: u64) -> Outcome {
    let system = system()?;
    system.memory.find(address).ok_or(CuResult::ERROR_INVALID_VALUE)?;
    // Copies are synchronous where that matters, so it changes nothing.
    match attribute {
        PointerAttribute::SYNC_MEMOPS if !value.is_null() => Ok(()),
        _ => Err(CuResult::ERROR_INVALID_VALUE),
    }
}
