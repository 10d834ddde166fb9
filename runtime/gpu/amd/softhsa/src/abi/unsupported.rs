//! Functions for which a software agent has nothing: memory and signals of other processes, of graphics libraries, and
//! of other devices.

use std::ffi::c_void;

use vireo_hsa::hsa::{Agent, HsaStatus, IpcMemory, IpcSignal};
use vireo_hsa::signal::Signal;

use super::pointers::call;
use crate::status::tell;

/// Functions that say on the standard error stream that they do nothing, and fail.
macro_rules! unsupported {
    ($($function:ident($($argument:ident: $ty:ty),*);)*) => {
        $(pub(crate) unsafe extern "C" fn $function($($argument: $ty),*) -> HsaStatus {
            $(let _ = $argument;)*
            call(|_| {
                tell(format_args!("{} is not supported", stringify!($function)));
                Err(HsaStatus::ERROR)
            })
        })*
    };
}

unsupported! {
    hsa_amd_portable_export_dmabuf(ptr: *const c_void, size: u64, dmabuf: *mut i32, offset: *mut u64);
    hsa_amd_portable_close_dmabuf(dmabuf: i32);
    hsa_amd_ipc_memory_create(ptr: *mut c_void, len: u64, handle: *mut IpcMemory);
    hsa_amd_ipc_memory_attach(
        handle: *const IpcMemory, len: u64, num_agents: u32, mapping_agents: *const Agent, mapped_ptr: *mut *mut c_void
    );
    hsa_amd_ipc_memory_detach(mapped_ptr: *mut c_void);
    hsa_amd_ipc_signal_create(signal: Signal, handle: *mut IpcSignal);
    hsa_amd_ipc_signal_attach(handle: *const IpcSignal, signal: *mut Signal);
    hsa_amd_interop_map_buffer(
        num_agents: u32, agents: *mut Agent, interop_handle: i32, flags: u32, size: *mut u64, ptr: *mut *mut c_void,
        metadata_size: *mut u64, metadata: *mut *const c_void
    );
    hsa_amd_interop_unmap_buffer(ptr: *mut c_void);
}
