//! The extension for loaded code objects, whose functions programs get in a table.

use std::ffi::c_void;
use std::sync::Arc;

use vireo_hsa::hsa::{
    Executable as ExecutableHandle, ExecutableIterateLoadedCodeObjects, HsaStatus, LoadedCodeObject,
    LoadedCodeObjectCallback, LoadedCodeObjectGetInfo, LoadedCodeObjectInfo, QueryExecutable, QueryHostAddress,
    QuerySegmentDescriptors, SegmentDescriptor,
};

use super::executables::find;
use super::pointers::{Attribute, Out, call, iterate};
use crate::executable::LoadedObject;
use crate::status::Result;
use crate::system::System;

/// The functions of version 1.1, in the order of the table.
#[repr(C)]
struct Table {
    query_host_address: QueryHostAddress,
    query_segment_descriptors: QuerySegmentDescriptors,
    query_executable: QueryExecutable,
    iterate_loaded_code_objects: ExecutableIterateLoadedCodeObjects,
    loaded_code_object_get_info: LoadedCodeObjectGetInfo,
}

/// The bytes of the table.
pub(super) fn table() -> Vec<u8> {
    let table = Table {
        query_host_address,
        query_segment_descriptors,
        query_executable,
        iterate_loaded_code_objects,
        loaded_code_object_get_info,
    };
    let functions = [
        table.query_host_address as *const () as usize,
        table.query_segment_descriptors as *const () as usize,
        table.query_executable as *const () as usize,
        table.iterate_loaded_code_objects as *const () as usize,
        table.loaded_code_object_get_info as *const () as usize,
    ];
    functions.iter().flat_map(|function| function.to_ne_bytes()).collect()
}

/// The code object that an address is in.
fn object_at(system: &System, address: *const c_void) -> Result<Arc<LoadedObject>> {
    let address = address.addr() as u64;
    let found = system.loaded_objects.all().into_iter().find(|(_, object)| object.contains(address));
    found.map(|(_, object)| object).ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)
}

unsafe extern "C" fn query_host_address(device_address: *const c_void, host_address: *mut *const c_void) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(host_address) }?;
        let host = object_at(system, device_address)?.host_address(device_address.addr() as u64);
        let host = host.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        out.set(std::ptr::with_exposed_provenance(host as usize));
        Ok(())
    })
}

/// Without an array it tells how many there are.
unsafe extern "C" fn query_segment_descriptors(
    segment_descriptors: *mut SegmentDescriptor,
    num_segment_descriptors: *mut u64,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let count = unsafe { Out::new(num_segment_descriptors) }?;
        let objects = system.loaded_objects.all();
        let all: Vec<SegmentDescriptor> = objects.iter().flat_map(|(_, object)| object.descriptors()).collect();
        if segment_descriptors.is_null() {
            count.set(all.len() as u64);
            return Ok(());
        }
        // SAFETY: the program passes pointers that are null or valid, as the interface asks; this one is not null.
        if unsafe { num_segment_descriptors.read_unaligned() } != all.len() as u64 {
            return Err(HsaStatus::ERROR_INCOMPATIBLE_ARGUMENTS);
        }
        for (index, descriptor) in all.into_iter().enumerate() {
            // SAFETY: the array has as many elements, which was checked.
            unsafe { Out::new(segment_descriptors.wrapping_add(index)) }?.set(descriptor);
        }
        Ok(())
    })
}

unsafe extern "C" fn query_executable(device_address: *const c_void, executable: *mut ExecutableHandle) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let out = unsafe { Out::new(executable) }?;
        out.set(object_at(system, device_address)?.executable);
        Ok(())
    })
}

unsafe extern "C" fn iterate_loaded_code_objects(
    executable: ExecutableHandle,
    callback: Option<LoadedCodeObjectCallback>,
    data: *mut c_void,
) -> HsaStatus {
    call(|system| {
        let callback = callback.ok_or(HsaStatus::ERROR_INVALID_ARGUMENT)?;
        find(system, executable)?;
        let objects = system.loaded_objects.all();
        let objects = objects.iter().filter(|(_, object)| object.executable == executable);
        // SAFETY: the program gave the function to be called with its argument.
        iterate(objects, |(handle, _)| unsafe { callback(executable, LoadedCodeObject(*handle), data) })
    })
}

unsafe extern "C" fn loaded_code_object_get_info(
    loaded_code_object: LoadedCodeObject,
    attribute: LoadedCodeObjectInfo,
    value: *mut c_void,
) -> HsaStatus {
    call(|system| {
        // SAFETY: the program passes pointers that are null or valid for their types, as the interface of HSA asks.
        let value = unsafe { Attribute::new(value) }?;
        let object = system.loaded_objects.get(loaded_code_object.0).ok_or(HsaStatus::ERROR_INVALID_CODE_OBJECT)?;
        value.set(&object.info(attribute)?);
        Ok(())
    })
}
