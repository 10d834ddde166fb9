//! The extension for images, which agents lack: every function says so on the standard error stream, by name, and fails
//! with the status that the specification has for a format or sampler that an agent lacks, and for a handle that is
//! none.

use std::ffi::c_void;

use vireo_hsa::hsa::{
    Agent, HsaStatus, Image, ImageAccess, ImageDataInfo, ImageDataLayout, ImageDescriptor, ImageLayout, ImageRegion,
    Sampler, SamplerDescriptor,
};

use super::pointers::call;
use crate::status::tell;

/// Functions of an agent that fail.
macro_rules! unsupported {
    ($($status:ident: $function:ident($($argument:ident: $ty:ty),*);)*) => {
        $(pub(crate) unsafe extern "C" fn $function(agent: Agent, $($argument: $ty),*) -> HsaStatus {
            $(let _ = $argument;)*
            call(|system| {
                system.agent(agent)?;
                tell(format_args!("{}: agents have no images", stringify!($function)));
                Err(HsaStatus::$status)
            })
        })*
    };
}

unsupported! {
    ERROR_IMAGE_FORMAT_UNSUPPORTED: hsa_ext_image_data_get_info(
        descriptor: *const ImageDescriptor, access: ImageAccess, info: *mut ImageDataInfo
    );
    ERROR_IMAGE_FORMAT_UNSUPPORTED: hsa_ext_image_create(
        descriptor: *const ImageDescriptor, data: *const c_void, access: ImageAccess, image: *mut Image
    );
    ERROR_IMAGE_FORMAT_UNSUPPORTED: hsa_ext_image_create_with_layout(
        descriptor: *const ImageDescriptor, data: *const c_void, access: ImageAccess, layout: ImageDataLayout, row_pitch: u64,
        slice_pitch: u64, image: *mut Image
    );
    ERROR_IMAGE_FORMAT_UNSUPPORTED: hsa_amd_image_create(
        descriptor: *const ImageDescriptor, layout: *const ImageLayout, data: *const c_void, access: ImageAccess,
        image: *mut Image
    );
    ERROR_INVALID_ARGUMENT: hsa_ext_image_destroy(image: Image);
    ERROR_INVALID_ARGUMENT: hsa_ext_image_import(
        from: *const c_void, row_pitch: u64, slice_pitch: u64, image: Image, region: *const ImageRegion
    );
    ERROR_INVALID_ARGUMENT: hsa_ext_image_export(
        image: Image, to: *mut c_void, row_pitch: u64, slice_pitch: u64, region: *const ImageRegion
    );
    ERROR_SAMPLER_DESCRIPTOR_UNSUPPORTED: hsa_ext_sampler_create(
        descriptor: *const SamplerDescriptor, sampler: *mut Sampler
    );
    ERROR_INVALID_ARGUMENT: hsa_ext_sampler_destroy(sampler: Sampler);
}
