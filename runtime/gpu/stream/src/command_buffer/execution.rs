//! An execution of a block ([`Execution`]): where it runs, and its addresses.

use std::ffi::c_void;
use std::sync::Arc;

use vireo_cuda::types::{CuStream, LAUNCH_PARAM_BUFFER_POINTER, LAUNCH_PARAM_BUFFER_SIZE, LAUNCH_PARAM_END};

use crate::context::Context;
use crate::hal_driver::references::Resolved;
use crate::memory::DeviceSet;
use crate::options::UseGraphs;

/// An execution of a block.
#[derive(Clone, Copy)]
pub struct Execution<'a> {
    /// The context, which is current.
    pub context: &'a Arc<Context>,
    /// The stream.
    pub stream: CuStream,
    /// The addresses.
    pub resolved: &'a Resolved<DeviceSet>,
    /// When programs are graphs.
    pub graphs: UseGraphs,
}

/// The list by which a launch passes packed arguments of so many bytes.
pub(super) fn extra_of(arguments: &[u64], bytes: &u64) -> [*mut c_void; 5] {
    let key = |value: u64| std::ptr::without_provenance_mut::<c_void>(value as usize);
    [
        key(LAUNCH_PARAM_BUFFER_POINTER),
        arguments.as_ptr().cast_mut().cast(),
        key(LAUNCH_PARAM_BUFFER_SIZE),
        std::ptr::from_ref(bytes).cast_mut().cast(),
        key(LAUNCH_PARAM_END),
    ]
}
