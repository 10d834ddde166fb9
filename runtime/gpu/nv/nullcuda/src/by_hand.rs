//! The functions that do something: those that return texts, attributes and memory, and the stack of contexts.

#![expect(non_snake_case, reason = "the names are those of the library")]

use std::cell::Cell;
use std::ffi::{CStr, c_void};

use vireo_cuda::attributes::{DeviceAttribute, FunctionAttribute, MemPoolAttribute};
use vireo_cuda::devices::SM_86;
use vireo_cuda::entries::find;
use vireo_cuda::result::CuResult;
use vireo_cuda::types::{
    CChar, CFloat, CuContext, CuDevice, CuEvent, CuFunction, CuMemPool, CuStream, CuUuid, PROC_ADDRESS_PER_THREAD,
    SymbolQuery,
};

use crate::generated::entries::ENTRIES;
use crate::memory::{allocate, free};
use crate::results::{put, success};

/// The contexts that a thread has pushed, at most.
const DEEPEST: usize = 8;

thread_local! {
    static CONTEXTS: Cell<([CuContext; DEEPEST], usize)> = const { Cell::new(([CuContext(0); DEEPEST], 0)) };
}

/// Writes a text and a zero, as far as there is room.
///
/// # Safety
/// The pointer is valid for so many bytes.
unsafe fn put_text(text: &CStr, target: *mut CChar, length: i32) -> CuResult {
    let bytes = text.to_bytes_with_nul();
    let length = bytes.len().min(length.max(0) as usize);
    // SAFETY: the caller vouches for the bytes.
    unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), target.cast(), length) };
    success()
}

pub(crate) unsafe fn cuGetErrorName(_status: CuResult, text: *mut *const CChar) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put(text, c"CUDA_ERROR".as_ptr().cast()) };
    success()
}

pub(crate) unsafe fn cuGetErrorString(_status: CuResult, text: *mut *const CChar) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put(text, c"an error of the null library".as_ptr().cast()) };
    success()
}

pub(crate) unsafe fn cuGetProcAddress(
    symbol: *const CChar,
    address: *mut *mut c_void,
    version: i32,
    flags: u64,
) -> CuResult {
    // SAFETY: the caller vouches for the pointers.
    unsafe { cuGetProcAddress_v2(symbol, address, version, flags, std::ptr::null_mut()) }
}

pub(crate) unsafe fn cuGetProcAddress_v2(
    symbol: *const CChar,
    address: *mut *mut c_void,
    version: i32,
    flags: u64,
    symbol_status: *mut SymbolQuery,
) -> CuResult {
    // SAFETY: the caller vouches for a text with a zero at its end.
    let name = unsafe { CStr::from_ptr(symbol.cast()) };
    let found = find(ENTRIES, &name.to_string_lossy(), version.into(), flags & PROC_ADDRESS_PER_THREAD != 0);
    // SAFETY: the caller vouches for both.
    unsafe {
        put(address, found.map_or(std::ptr::null_mut(), |address| address.cast_mut().cast()));
        put(symbol_status, found.err().unwrap_or(SymbolQuery::SUCCESS));
    }
    if found.is_ok() || !symbol_status.is_null() { success() } else { CuResult::ERROR_NOT_FOUND }
}

pub(crate) unsafe fn cuDeviceGet(device: *mut CuDevice, ordinal: i32) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put(device, CuDevice(ordinal)) };
    success()
}

pub(crate) unsafe fn cuDeviceGetName(name: *mut CChar, length: i32, _device: CuDevice) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put_text(c"null device", name, length) }
}

pub(crate) unsafe fn cuDeviceGetPCIBusId(name: *mut CChar, length: i32, _device: CuDevice) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put_text(c"0000:01:00.0", name, length) }
}

pub(crate) unsafe fn cuDeviceGetUuid(uuid: *mut CuUuid, _device: CuDevice) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put(uuid, CuUuid { bytes: b"vireo null cuda\0".map(|byte| CChar(byte as _)) }) };
    success()
}

pub(crate) unsafe fn cuDeviceGetUuid_v2(uuid: *mut CuUuid, device: CuDevice) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { cuDeviceGetUuid(uuid, device) }
}

pub(crate) unsafe fn cuDeviceGetAttribute(value: *mut i32, wanted: DeviceAttribute, _device: CuDevice) -> CuResult {
    let found = SM_86.iter().find(|(attribute, _)| *attribute == wanted);
    // SAFETY: the caller vouches for it.
    unsafe { put(value, found.map_or(0, |(_, value)| *value as i32)) };
    success()
}

pub(crate) unsafe fn cuCtxPushCurrent_v2(context: CuContext) -> CuResult {
    let (mut stack, depth) = CONTEXTS.get();
    let Some(top) = stack.get_mut(depth) else { return CuResult::ERROR_INVALID_CONTEXT };
    *top = context;
    CONTEXTS.set((stack, depth + 1));
    success()
}

pub(crate) unsafe fn cuCtxPopCurrent_v2(context: *mut CuContext) -> CuResult {
    let (stack, depth) = CONTEXTS.get();
    let Some(top) = depth.checked_sub(1) else { return CuResult::ERROR_INVALID_CONTEXT };
    CONTEXTS.set((stack, top));
    // SAFETY: the caller vouches for it.
    unsafe { put(context, stack[top]) };
    success()
}

pub(crate) unsafe fn cuCtxGetCurrent(context: *mut CuContext) -> CuResult {
    let (stack, depth) = CONTEXTS.get();
    // SAFETY: the caller vouches for it.
    unsafe { put(context, depth.checked_sub(1).map_or(CuContext(0), |top| stack[top])) };
    success()
}

pub(crate) unsafe fn cuCtxSetCurrent(context: CuContext) -> CuResult {
    let (mut stack, depth) = CONTEXTS.get();
    stack[depth.saturating_sub(1)] = context;
    CONTEXTS.set((stack, depth.max(1)));
    success()
}

pub(crate) unsafe fn cuEventElapsedTime(milliseconds: *mut CFloat, _start: CuEvent, _end: CuEvent) -> CuResult {
    // SAFETY: the caller vouches for it, and a number of C is one of ours.
    unsafe { put(milliseconds.cast(), 0.01f32) };
    success()
}

/// Writes the address of new memory.
///
/// # Safety
/// The pointer is valid for a write.
unsafe fn put_memory(address: *mut u64, size: u64) -> CuResult {
    match allocate(size) {
        Some(found) => {
            // SAFETY: the caller vouches for it.
            unsafe { put(address, found) };
            success()
        }
        None => CuResult::ERROR_OUT_OF_MEMORY,
    }
}

pub(crate) unsafe fn cuMemAlloc_v2(address: *mut u64, size: u64) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put_memory(address, size) }
}

pub(crate) unsafe fn cuMemFree_v2(address: u64) -> CuResult {
    free(address);
    success()
}

pub(crate) unsafe fn cuMemAllocManaged(address: *mut u64, size: u64, _flags: u32) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put_memory(address, size) }
}

pub(crate) unsafe fn cuMemHostAlloc(address: *mut *mut c_void, size: u64, _flags: u32) -> CuResult {
    // SAFETY: the caller vouches for it, and a pointer is a word.
    unsafe { put_memory(address.cast(), size) }
}

pub(crate) unsafe fn cuMemFreeHost(address: *mut c_void) -> CuResult {
    free(address.expose_provenance() as u64);
    success()
}

pub(crate) unsafe fn cuMemHostGetDevicePointer_v2(
    device_address: *mut u64,
    address: *mut c_void,
    _flags: u32,
) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put(device_address, address.expose_provenance() as u64) };
    success()
}

pub(crate) unsafe fn cuMemPoolGetAttribute(
    _pool: CuMemPool,
    _attribute: MemPoolAttribute,
    value: *mut c_void,
) -> CuResult {
    // SAFETY: the caller vouches for a word, which the attributes that are asked for have.
    unsafe { put(value.cast(), 0u64) };
    success()
}

pub(crate) unsafe fn cuMemAllocFromPoolAsync(
    address: *mut u64,
    size: u64,
    _pool: CuMemPool,
    _stream: CuStream,
) -> CuResult {
    // SAFETY: the caller vouches for it.
    unsafe { put_memory(address, size) }
}

pub(crate) unsafe fn cuMemFreeAsync(address: u64, _stream: CuStream) -> CuResult {
    free(address);
    success()
}

pub(crate) unsafe fn cuFuncGetAttribute(
    value: *mut i32,
    attribute: FunctionAttribute,
    _function: CuFunction,
) -> CuResult {
    if attribute == FunctionAttribute::MAX_THREADS_PER_BLOCK {
        // SAFETY: the caller vouches for it.
        return unsafe { cuDeviceGetAttribute(value, DeviceAttribute::MAX_THREADS_PER_BLOCK, CuDevice(0)) };
    }
    // SAFETY: the caller vouches for it.
    unsafe { put(value, 0) };
    success()
}
